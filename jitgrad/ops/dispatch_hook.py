"""How derivative rules, which live below Tensor, apply operations to Tensors.

Owns: operations by name, through the door (Note [One door]), and the constructor of sparse gradients, which
``jitgrad.sparse`` installs: rules may use both without importing upwards.
Must not know: Tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.devices import CPU, Device
from jitgrad.door import door
from jitgrad.ops.aval import Aval, is_dense
from jitgrad.ops.table import OPS, Op

__all__ = ["apply", "beside", "call", "filled", "install_sparse", "laid_out_as", "sparse_gradient"]


def apply(op: Op, *args: Any) -> Any:
    """Apply ``op`` to Tensors, numbers and static parameters."""
    return door.apply(op, *args)


def call(name: str, *args: Any) -> Any:
    """``apply`` by the operation's name."""
    return door.apply(OPS[name], *args)


def beside(aval: Aval) -> tuple[Device, ...]:
    """The device param of an operation without tensor operands: its result is made where ``aval`` is."""
    return () if aval.device is CPU else (aval.device,)


def laid_out_as(g: Any, aval: Aval) -> Any:
    """A gradient with the strides of its operand, where that is stored without gaps in another order."""
    if aval.is_canonical or g._aval.shape != aval.shape or g._aval.stride == aval.stride or not is_dense(aval):
        return g
    return call("contiguous", g, aval.stride)


def filled(value: float, aval: Aval, shape: tuple[int, ...] | None = None) -> Any:
    """A tensor of one value, as ``aval`` says: shape (unless another is given), dtype and device."""
    return call("full", value, aval.shape if shape is None else shape, aval.dtype, *beside(aval))


def _not_installed(*args: Any) -> Any:
    raise RuntimeError("import jitgrad first")


_make_sparse: Callable[..., Any] = _not_installed


def install_sparse(function: Callable[..., Any]) -> None:
    """Make ``function(indices, values, shape)`` the constructor of sparse gradients."""
    global _make_sparse
    _make_sparse = function


def sparse_gradient(indices: Any, values: Any, shape: tuple[int, ...]) -> Any:
    """A gradient of ``shape`` that is zero except in some slices: (dims, nnz) indices, (nnz, ...) values."""
    return _make_sparse(indices, values, shape)
