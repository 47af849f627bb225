"""``torch.cuda.amp``, the older names of ``torch.amp`` for CUDA: without a GPU both are disabled."""

from __future__ import annotations

from typing import Any

from jitgrad import amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """``jitgrad.amp.custom_fwd`` for ``"cuda"``: the function itself."""
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """``jitgrad.amp.custom_bwd`` for ``"cuda"``: the function itself."""
    return amp.custom_bwd(bwd, device_type="cuda")


class autocast(amp.autocast):
    """``jitgrad.amp.autocast`` for ``"cuda"``."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """``jitgrad.amp.GradScaler`` for ``"cuda"``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)
