"""What operations are where an input is complex: their NumPy and derivative rules for complex numbers.

Owns: ``complex_form``, and which operations have one. Imported when the first complex operand is met.
Must not know: Tensor, graphs, kernels.

# Note [Complex forms]
# ~~~~~~~~~~~~~~~~~~~~
# The operation table is written for real numbers. An ``EagerPlan`` for a complex input, tensor or number, takes the
# operation's *complex form* instead: an ``Op`` of the same name, whose shape rule is the same, whose NumPy rule is the
# same unless a row below has another. A trace records the form, too (``recorded_op`` in ``shape_rules.py``); what it
# lowers to is in ``complex_lowerings.py``, Note [Complex values]. What has no form is refused for complex operands.
#
# A gradient is PyTorch's: dL/dRe + i dL/dIm. With it, the derivative of a holomorphic function f is multiplication by
# the conjugate of f'. The rules of the table multiply by f'. So a form conjugates: ``conj(rule(conj(gradient)))`` is
# right for every rule that is linear in the gradient with holomorphic coefficients, and for all derivatives of it
# (``HOLOMORPHIC``). Where coefficients are real, as of sums, views and selections, the two conjugations would cancel,
# and the rule is taken as it is (``LINEAR``). Other functions - abs, angle, norms, decompositions - have rules of their
# own in ``complex_rules``, or rules that are
# written for both kinds of numbers (``AS_WRITTEN``).
#
# A real input of a complex operation gets the real part of what its rule returns. No rule does it: the engine does, in
# one place, where a gradient is handed to an edge whose tensor is real (``runtime/engine/graph/validate.py``). In the
# other direction a real gradient of a complex tensor becomes complex there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ops.complex.complex_rules import AVALS, CONJUGATED, NUMPY, REFUSALS, TANGENTS, VJPS
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import dtype_of, torch_dtype_name
from jitgrad.ops.table import Op, RuleContext, Vjp
from jitgrad.structs import replaced

__all__ = ["AS_WRITTEN", "HOLOMORPHIC", "LINEAR", "complex_form", "tangent_form"]

LINEAR = frozenset(
    (
        "neg view unsafe_view detach alias transpose t permute expand squeeze squeeze_dim squeeze_dims unsqueeze "
        "full select slice add sub rsub where zeros_like ones_like clone contiguous _to_copy copy zero sum sum_dim "
        "mean mean_dim trace cumsum gather scatter_add index_select embedding masked_select masked_fill tril triu cat "
        "stack flip roll repeat constant_pad scatter index_copy index_fill masked_scatter masked_scatter_backward "
        "take put split split_with_sizes unsafe_split unbind slice_backward diagonal diagonal_backward unfold "
        "unfold_backward as_strided as_strided_backward as_strided_again select_scatter slice_scatter "
        "diagonal_scatter as_strided_scatter strided_select strided_window strided_scatter strided_add eq "
        "eq_as_self ne ne_as_self logical_and logical_or logical_xor logical_not isnan isinf isfinite isreal "
        "isclose any all count_nonzero im2col col2im _conj conj_physical view_as_real lu_unpack"
    ).split()
) | frozenset(
    f"index{kind}{n}" for n in range(1, 7) for kind in ("", "_backward", "_put", "_put_accumulate")
)
"""Linear with real coefficients, or without derivative: the rules are right as they are."""

HOLOMORPHIC = frozenset(
    (
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
        "atanh sigmoid sinc reciprocal silu add_scaled sub_scaled mul div lerp addcmul addcdiv logaddexp logsumexp "
        "logcumsumexp prod prod_dim cumprod mm bmm mv dot addmm linear linear_nobias pow_scalar pow index_add "
        "ldexp conv2d conv2d_input conv2d_weight linalg_solve_ex linalg_inv_ex _linalg_det linalg_cofactors "
        "linalg_matrix_exp linalg_solve_triangular linalg_lu_factor_ex linalg_lu_solve "
        "linalg_cross"
    ).split()
)
"""Holomorphic in all inputs: their rules are conjugated."""

AS_WRITTEN = frozenset(
    (
        "abs sgn angle nan_to_num var std linalg_vector_norm linalg_cholesky_ex linalg_cholesky_info _linalg_svd "
        "_linalg_eigh linalg_qr _linalg_slogdet linalg_pinv linalg_eig _fft_c2c _fft_c2r fft_r2c_backward "
        "cholesky_inverse cholesky_solve geqrf linalg_householder_product linalg_ldl_factor_ex linalg_ldl_solve "
        "linalg_pinv_rank ormqr"
    ).split()
)
"""Not holomorphic: their rules hold for complex numbers, or those of ``complex_rules`` do."""


def _conjugate(g: Any) -> Any:
    if isinstance(g, tuple | list):
        return type(g)([_conjugate(x) for x in g])
    return call("conj_physical", g) if g is not None and g._aval.dtype.is_complex else g


def _conjugated(rule: Callable[..., Any]) -> Callable[..., Any]:
    def conjugated(c: RuleContext, g: Any, *saved: Any) -> Any:
        return _conjugate(rule(c, _conjugate(g), *saved))

    return conjugated


def _vjps(op: Op) -> tuple[Vjp | None, ...]:
    if op.name in CONJUGATED:
        return CONJUGATED[op.name]
    own = VJPS.get(op.name, op.vjps)
    if op.name not in HOLOMORPHIC:
        return tuple(own)
    return tuple(vjp and Vjp(_conjugated(vjp.rule), vjp.saves) for vjp in own)


_forms: dict[str, Op] = {}
_written: dict[str, Op] = {}


def complex_form(op: Op, avals: Sequence[Any]) -> Op:
    """What takes the place of an operation where one of its inputs is complex.

    Args:
        op: the operation.
        avals: avals of its inputs, or numbers.

    Raises:
        NotImplementedError, RuntimeError: PyTorch's refusal of an operation that is not defined for complex numbers.
    """
    found = _forms.get(op.name)
    if found is not None:
        return found
    if op.is_update:
        return _forms.setdefault(op.name, replaced(op, numpy=_by_parts(op.numpy), lower=None))
    if op.name not in LINEAR and op.name not in HOLOMORPHIC and op.name not in AS_WRITTEN:
        raise _refusal(op, avals)
    own = {"aval": AVALS[op.name]} if op.name in AVALS else {}
    rule = NUMPY.get(op.name, op.numpy)
    return _forms.setdefault(op.name, replaced(op, numpy=rule, lower=None, vjps=_vjps(op), **own))


def _by_parts(rule: Any) -> Callable[..., Any]:
    """An optimizer's update of complex parameters: the parts are parameters of their own, as in PyTorch."""

    def update(*args: Any) -> Any:
        reals = [_as_reals(x) if isinstance(x, np.ndarray) and x.dtype.kind == "c" else x for x in args]
        found = rule(*reals)
        if isinstance(found, tuple | list):
            return tuple(map(_joined, found))
        return _joined(found)

    return update


def _joined(x: Any) -> Any:
    return x[..., 0] + 1j * x[..., 1]


def _as_reals(x: Any) -> Any:
    return np.stack([x.real, x.imag], -1)


def tangent_form(op: Op, row: Any) -> tuple[Op, Any]:
    """What moves tangents of complex inputs: an operation, and the rule that does it.

    Args:
        op: the operation.
        row: its row of ``JVPS``, or None.

    Returns:
        (the operation, the rule); no rule: the double backward trick, which takes the form itself. Rows take a rule
        that is not conjugated: the tangent of f(z) is f'(z) times that of z.
    """
    if row is None or op.name in AS_WRITTEN:
        return complex_form(op, ()), TANGENTS.get(op.name)
    written = _written.get(op.name)
    if written is None:
        written = _written.setdefault(op.name, replaced(op, vjps=tuple(VJPS.get(op.name, op.vjps))))
    return written, row


def _refusal(op: Op, avals: Sequence[Any]) -> Exception:
    dtype = next(dtype_of(a) for a in avals if dtype_of(a).is_complex)
    kind, text = REFUSALS.get(op.name, (NotImplementedError, '"{op}_cpu" not implemented for \'{dtype}\''))
    return kind(text.format(op=op.name.removeprefix("_"), dtype=torch_dtype_name(dtype)))


