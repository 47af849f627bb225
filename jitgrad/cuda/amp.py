"""``torch.cuda.amp``, the older names of ``torch.amp`` for CUDA: without a GPU both are disabled."""

from __future__ import annotations

from typing import Any

from jitgrad import amp

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """``jitgrad.amp.autocast`` for ``"cuda"``."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """``jitgrad.amp.GradScaler`` for ``"cuda"``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)
