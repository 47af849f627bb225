"""Helpers around training: ``checkpoint``, ``data``, ``swap_tensors``, ``tensorboard``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitgrad.functions.replacing import swap_tensors
from jitgrad.lazy import late_module
from jitgrad.utils import checkpoint

if TYPE_CHECKING:
    from jitgrad.utils import _pytree, benchmark, data, dlpack, hooks, tensorboard

__all__ = ["_pytree", "benchmark", "checkpoint", "data", "dlpack", "hooks", "swap_tensors", "tensorboard"]

_LATE = {
    name: f"jitgrad.utils.{name}" for name in ("_pytree", "benchmark", "data", "dlpack", "hooks", "tensorboard")
}
__getattr__, __dir__ = late_module(globals(), _LATE)
