"""How derivative rules, which live below Tensor, apply operations to Tensors.

Owns: one injected function. ``jitgrad.dispatch`` installs its ``apply`` here at import (dependency injection), so that
rules may use operations that are no Tensor method without importing upwards.
Must not know: Tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ops.table import OPS, Op

__all__ = ["apply", "call", "install"]


def _not_installed(op: Op, *args: Any) -> Any:
    raise RuntimeError(f"{op.name}: no dispatcher is installed; import jitgrad first")


_apply: Callable[..., Any] = _not_installed


def install(function: Callable[..., Any]) -> None:
    """Make ``function(op, *args)`` the dispatcher that rules use."""
    global _apply
    _apply = function


def apply(op: Op, *args: Any) -> Any:
    """Apply ``op`` to Tensors, numbers and static parameters."""
    return _apply(op, *args)


def call(name: str, *args: Any) -> Any:
    """``apply`` by the operation's name."""
    return _apply(OPS[name], *args)
