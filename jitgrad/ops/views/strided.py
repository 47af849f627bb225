"""A tensor's elements through another layout of its storage: the derivatives of in-place writes to views need them.

Owns: ``strided_select``, ``strided_scatter``, ``strided_add``, each the derivative of another; ``strided_window`` and
``copy_slices``, the first two as a trace records them (Note [Aliases in a trace]).
Must not know: Tensor, kernels.

``base`` and ``view`` are two layouts of one storage. The operations work on row-major tensors of ``base``'s shape, as
if they lay in that storage: select reads what the view sees, scatter replaces it, add puts it into zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.table import RuleContext, Vjp, define
from jitgrad.ops.views.regions import lower_add, lower_scatter, lower_select, region_of
from jitgrad.structs import replaced

__all__ = ["COPY_SLICES", "STRIDED_SELECT", "STRIDED_WINDOW", "over"]


def _extent(aval: Aval) -> int:
    """Elements of the storage up to the last one that ``aval`` sees."""
    return aval.offset + 1 + sum((n - 1) * s for n, s in zip(aval.shape, aval.stride, strict=True))


def _windows(base: Aval, view: Aval, dtype: Any) -> tuple[Any, Any, Any]:
    """(a storage of zeros, that storage as ``base``, as ``view``)."""
    storage = np.zeros(max(_extent(base), _extent(view), 1), dtype)

    def window(aval: Aval) -> Any:
        strides = tuple(s * storage.itemsize for s in aval.stride)
        return as_strided(storage[aval.offset :], aval.shape, strides)

    return storage, window(base), window(view)


def _np_select(x: Any, base: Aval, view: Aval) -> Any:
    _, whole, part = _windows(base, view, x.dtype)
    whole[...] = x
    return part.copy()


def _np_scatter(x: Any, src: Any, base: Aval, view: Aval) -> Any:
    _, whole, part = _windows(base, view, x.dtype)
    whole[...] = x
    part[...] = src
    return whole.copy()


def _np_add(src: Any, base: Aval, view: Aval) -> Any:
    """An element that the view sees several times receives the sum."""
    storage, whole, _ = _windows(base, view, src.dtype)
    at = np.full(view.shape, view.offset, np.int64)
    for d, (n, step) in enumerate(zip(view.shape, view.stride, strict=True)):
        at += (np.arange(n) * step).reshape((n,) + (1,) * (view.ndim - d - 1))
    np.add.at(storage, at.reshape(-1), src.reshape(-1))
    return whole.copy()


def _is_window(avals: Any, base: Aval, view: Aval) -> bool:
    """Whether kernels can tell where the view's elements are."""
    return region_of(base, view) is not None


def _select_rule(c: RuleContext, g: Any) -> Any:
    """A view without elements has nothing to say of its base: zeros that depend on nothing, as PyTorch's."""
    base, view = c.params
    if not view.numel:
        return filled(0, make_aval(base.shape, g._aval.dtype).on(g._aval.device))
    return over("strided_add", base, view, g)


_PARTS = LazyModule("jitgrad.ops.complex.complex_numbers")


def over(name: str, base: Aval, view: Aval, *inputs: Any) -> Any:
    """One of the three operations, where ``base`` or ``view`` may also be complex numbers and the other their parts."""
    if base.dtype.is_complex is view.dtype.is_complex:
        return call(name, *inputs, base, view)
    return _PARTS.over_parts(name, base, view, *inputs)


STRIDED_SELECT = define(
    "strided_select",
    aval=lambda x, base, view: make_aval(view.shape, x.dtype),
    numpy=_np_select,
    lower=lower_select,
    lowers=_is_window,
    vjps=[Vjp(_select_rule)],
    node_name="AsStridedBackward0",
)

STRIDED_WINDOW = define(
    "strided_window",
    aval=lambda x, base, view: make_aval(view.shape, x.dtype, view.stride, view.offset + x.offset - base.offset),
    numpy=_np_select,
    lower=lower_select,
    lowers=_is_window,
    vjps=[Vjp(_select_rule)],
    is_view=True,
    node_name="AsStridedBackward0",
)

_SCATTER = define(
    "strided_scatter",
    aval=lambda x, src, base, view: make_aval(base.shape, x.dtype),
    numpy=_np_scatter,
    lower=lower_scatter,
    lowers=_is_window,
    vjps=[
        Vjp(lambda c, g: call("strided_scatter", g, 0.0, *c.params)),
        Vjp(lambda c, g: call("strided_select", g, *c.params)),
    ],
    num_inputs=2,
)

COPY_SLICES = replaced(_SCATTER, name="copy_slices", node_name="torch::autograd::CopySlices")
"""Only traces apply it: its Node is made of that of the operation that computed its second operand."""

define(
    "strided_add",
    aval=lambda src, base, view: make_aval(base.shape, src.dtype),
    numpy=_np_add,
    lower=lower_add,
    lowers=_is_window,
    vjps=[Vjp(lambda c, g: call("strided_select", g, *c.params))],
)
