"""How derivative rules, which live below Tensor, apply operations to Tensors.

Owns: two injected functions. ``jitgrad.dispatch`` installs its ``apply`` here at import (dependency injection), so that
rules may use operations that are no Tensor method without importing upwards; ``jitgrad.sparse`` its constructor.
Must not know: Tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.devices import CPU, Device
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import OPS, Op

__all__ = ["apply", "beside", "call", "filled", "install", "install_sparse", "sparse_gradient"]


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


def beside(aval: Aval) -> tuple[Device, ...]:
    """The last param of an operation without tensor operands, so that it makes its result where ``aval`` is."""
    return () if aval.device is CPU else (aval.device,)


def filled(value: float, aval: Aval, shape: tuple[int, ...] | None = None) -> Any:
    """A tensor of one value, as ``aval`` says: shape (unless another is given), dtype and device."""
    return call("full", value, aval.shape if shape is None else shape, aval.dtype, *beside(aval))


_make_sparse: Callable[..., Any] = _not_installed


def install_sparse(function: Callable[..., Any]) -> None:
    """Make ``function(indices, values, shape)`` the constructor of sparse gradients."""
    global _make_sparse
    _make_sparse = function


def sparse_gradient(indices: Any, values: Any, shape: tuple[int, ...]) -> Any:
    """A gradient of ``shape`` that is zero but for some slices: (dims, nnz) indices, (nnz, ...) values."""
    return _make_sparse(indices, values, shape)
