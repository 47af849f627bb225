"""Helpers around training: ``checkpoint``, ``data``, ``swap_tensors``, ``tensorboard``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitgrad.functions.replacing import swap_tensors
from jitgrad.lazy import late_names
from jitgrad.utils import checkpoint

if TYPE_CHECKING:
    from jitgrad.utils import data, dlpack, tensorboard

__all__ = ["checkpoint", "data", "dlpack", "swap_tensors", "tensorboard"]

_LATE = {"data": "jitgrad.utils.data", "dlpack": "jitgrad.utils.dlpack", "tensorboard": "jitgrad.utils.tensorboard"}
_find_late = late_names(globals(), _LATE)


def __getattr__(name: str) -> Any:
    """Names that are imported at their first use, Note [Lazy modules]."""
    if name in _LATE:
        return _find_late(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
