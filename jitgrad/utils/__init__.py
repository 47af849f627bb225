"""Helpers around training: ``checkpoint``, ``data``, ``swap_tensors``, ``tensorboard``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitgrad.functions.replacing import swap_tensors
from jitgrad.lazy import late_names
from jitgrad.utils import checkpoint

if TYPE_CHECKING:
    from jitgrad.utils import _pytree, data, dlpack, hooks, tensorboard

__all__ = ["_pytree", "checkpoint", "data", "dlpack", "hooks", "swap_tensors", "tensorboard"]

_LATE = {name: f"jitgrad.utils.{name}" for name in ("_pytree", "data", "dlpack", "hooks", "tensorboard")}
_find_late = late_names(globals(), _LATE)


def __getattr__(name: str) -> Any:
    """Names that are imported at their first use, Note [Lazy modules]."""
    if name in _LATE:
        return _find_late(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
