"""Operations that make, take apart and conjugate complex numbers.

Owns: _conj, conj_physical, complex, polar, view_as_real, view_as_complex. Imported late.
Must not know: Tensor, kernels.

There are no lazily conjugated views: ``conj`` computes. Every NumPy rule would have to ask of every operand whether its
memory is meant as it lies, for the sake of one pass over memory; and what a write through such a view means is what few
programs want.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import broadcast
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["complex_layout", "over_parts", "real_layout"]


def _conjugated(c: RuleContext, g: Any) -> Any:
    return call("conj_physical", g)


for _name, _node in (("_conj", "ConjBackward0"), ("conj_physical", "ConjPhysicalBackward0")):
    define(
        _name,
        aval=lambda x: make_aval(x.shape, x.dtype),
        numpy=np.conjugate,
        vjps=[Vjp(_conjugated)],
        node_name=_node,
    )


def _parts_aval(name: str) -> Any:
    def rule(x: Aval, y: Aval) -> Aval:
        if x.dtype.category is not FLOATING or y.dtype.category is not FLOATING:
            raise RuntimeError(
                f"Expected both inputs to be Half, Float or Double tensors but got {x.dtype.type_name} and "
                f"{y.dtype.type_name}"
            )
        if x.dtype is not y.dtype:
            raise RuntimeError(
                f"Expected object of scalar type {x.dtype.type_name} but got scalar type {y.dtype.type_name} for "
                "second argument"
            )
        return make_aval(broadcast(name, x.shape, y.shape), x.dtype.to_complex())

    return rule


def _np_complex(x: Any, y: Any) -> Any:
    out = np.empty(np.broadcast(x, y).shape, np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y
    return out


def _np_polar(size: Any, angle: Any) -> Any:
    return _np_complex(size * np.cos(angle), size * np.sin(angle))


def _real(x: Any) -> Any:
    return call("view_as_real", x).select(-1, 0)


def _imag(x: Any) -> Any:
    return call("view_as_real", x).select(-1, 1)


def _polar_size_rule(c: RuleContext, g: Any, out: Any) -> Any:
    return _real(g * call("conj_physical", call("sgn", out)))


def _polar_angle_rule(c: RuleContext, g: Any, out: Any) -> Any:
    return _imag(g * call("conj_physical", out))


define(
    "complex",
    aval=_parts_aval("complex"),
    numpy=_np_complex,
    vjps=[Vjp(lambda c, g: _real(g)), Vjp(lambda c, g: _imag(g))],
    num_inputs=2,
    runs_once=True,
)
define(
    "polar",
    aval=_parts_aval("polar"),
    numpy=_np_polar,
    vjps=[Vjp(_polar_size_rule, ("out",)), Vjp(_polar_angle_rule, ("out",))],
    num_inputs=2,
)


# --- the same memory as pairs of real numbers, and back ---


def real_layout(x: Aval) -> Aval:
    """The memory of a complex layout as pairs of real numbers, [*, 2]; a real layout as it is."""
    if not x.dtype.is_complex:
        return x
    stride = (*[2 * s for s in x.stride], 1)
    return make_aval((*x.shape, 2), x.dtype.to_real(), stride, 2 * x.offset)


def complex_layout(x: Aval) -> Aval:
    """The memory of pairs of real numbers, [*, 2], as complex numbers.

    Raises:
        RuntimeError: no pairs, a dtype without a complex twin, or parts of pairs that are not neighbours.
    """
    if x.dtype.category is not FLOATING:
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{x.dtype.type_name}"
        )
    if not x.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if x.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if x.dtype.is_half:
        raise RuntimeError(f"view_as_complex: there is no complex dtype of the size of two numbers of {x.dtype.name}")
    if x.stride[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for n, s in zip(x.shape[:-1], x.stride[:-1], strict=True) if n != 1):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if x.offset % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return make_aval(x.shape[:-1], x.dtype.to_complex(), tuple(s // 2 for s in x.stride[:-1]), x.offset // 2)


def over_parts(name: str, base: Aval, view: Aval, *inputs: Any) -> Any:
    """``strided.over`` where one of ``base`` and ``view`` is complex: over the memory as real numbers."""
    parts = [call("view_as_real", x) if _is_complex(x) else x for x in inputs]
    made = call(name, *parts, real_layout(base), real_layout(view))
    return call("view_as_complex", made) if (view if name == "strided_select" else base).dtype.is_complex else made


def _is_complex(x: Any) -> bool:
    return hasattr(x, "_aval") and x._aval.dtype.is_complex


def _real_aval(x: Aval) -> Aval:
    if not x.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return real_layout(x)


define(
    "view_as_real",
    aval=_real_aval,
    numpy=lambda x: np.stack([x.real, x.imag], -1),
    vjps=[Vjp(lambda c, g: call("complex", g.select(-1, 0), g.select(-1, 1)))],
    is_view=True,
)
define(
    "view_as_complex",
    aval=complex_layout,
    numpy=lambda x: _np_complex(x[..., 0], x[..., 1]),
    vjps=[Vjp(lambda c, g: call("view_as_real", g))],
    is_view=True,
)
