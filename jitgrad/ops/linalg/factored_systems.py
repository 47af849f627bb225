"""What factors of matrices are used for.

Owns: lu_unpack, lu_exchanges, linalg_lu_solve, cholesky_solve, cholesky_inverse, over [*, m, n], all with the same
batch. Real matrices have lowerings, Note [Matrix routines].
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import DType, int32
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.lapack import lapack
from jitgrad.ops.linalg.linear_systems import adjoint, are_real, lower_identity, transposed
from jitgrad.ops.linalg.matrix_factors import np_permutation
from jitgrad.ops.linalg.matrix_functions import lower_triangular, np_triangular
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["check_system", "has_real_factors"]


def check_system(name: str, a: Aval, b: Aval, pivots: Aval | None = None) -> None:
    """RuntimeError unless these are square matrices, right sides and pivots of them, in equal batches."""
    fits = a.ndim >= 2 and a.shape[-1] == a.shape[-2] and a.shape[:-1] == b.shape[:-1] and a.ndim == b.ndim
    if not fits or (pivots is not None and pivots.shape != a.shape[:-1]):
        shapes = [list(x.shape) for x in (a, b, pivots) if x is not None]
        raise RuntimeError(f"{name}: {', '.join(map(str, shapes))} do not go together")


def has_real_factors(avals: Any, *params: Any) -> bool:
    """Of an operation on factors, pivots, and maybe a right side."""
    return avals[1].dtype is int32 and avals[1].ndim == avals[0].ndim - 1 and are_real([avals[0], *avals[2:]])


# --- lu_unpack(factors): L, U ---


def _unpack_aval(factors: Aval) -> tuple[Aval, Aval]:
    *batch, m, n = factors.shape
    k = min(m, n)
    return make_aval((*batch, m, k), factors.dtype), make_aval((*batch, k, n), factors.dtype)


def _np_unpack(factors: Any) -> tuple[Any, Any]:
    m, n = factors.shape[-2:]
    k = min(m, n)
    return np.tril(factors[..., :k], -1) + np.eye(m, k, dtype=factors.dtype), np.triu(factors[..., :k, :])


def _lower_unpack(b: Any, factors: Any) -> tuple[Any, Any]:
    rank, dtype = len(factors.shape), factors.dtype
    left, top = (
        b.slice(factors, [0] * rank, x.shape, [1] * rank) for x in _unpack_aval(make_aval(factors.shape, dtype))
    )
    zero, one = b.const(0.0, dtype), b.const(1.0, dtype)
    i, j = b.iota(left.shape, rank - 2), b.iota(left.shape, rank - 1)
    lower = b.where(b.gt(i, j), left, b.where(b.eq(i, j), one, zero))
    return lower, b.where(b.le(b.iota(top.shape, rank - 2), b.iota(top.shape, rank - 1)), top, zero)


def _unpack_rule(c: RuleContext, g: Any) -> Any:
    """Each triangle goes back to its place."""
    aval = c.avals[0]
    assert aval is not None
    m, n = aval.shape[-2:]
    k, none = min(m, n), [0] * aval.ndim
    parts = []
    if g[0] is not None:
        parts.append((call("tril", g[0], -1), (0, n - k)))
    if g[1] is not None:
        parts.append((call("triu", g[1], 0), (m - k, 0)))
    wide = [
        call("constant_pad", x, tuple(none), (*none[2:], *missing), 0.0) if any(missing) else x for x, missing in parts
    ]
    return wide[0] if len(wide) == 1 else wide[0] + wide[1]


define(
    "lu_unpack", aval=_unpack_aval, numpy=_np_unpack, lower=_lower_unpack, lowers=are_real, vjps=[Vjp(_unpack_rule)]
)


# --- lu_exchanges(pivots | m, dtype): P ---


def _exchanges_aval(pivots: Aval, m: int, dtype: DType) -> Aval:
    count = pivots.shape[-1] if pivots.ndim else 0
    if not pivots.ndim or count > m:
        raise RuntimeError(f"{count} pivots are more than the {m} rows" if count else "pivots have no dimension")
    return make_aval((*pivots.shape[:-1], m, m), dtype)


def _lower_exchanges(b: Any, pivots: Any, m: int, dtype: DType) -> Any:
    (order,) = b.matrix("permutation", (pivots,), m)
    shape = (*pivots.shape[:-1], m, m)
    wide = b.expand(b.reshape(order, (*shape[:-2], 1, m)), shape)
    return b.cast(b.eq(b.iota(shape, len(shape) - 2), wide), dtype)


def _np_exchanges(pivots: Any, m: int, dtype: DType) -> Any:
    return (np.arange(m)[:, None] == np_permutation(pivots, m)[..., None, :]).astype(dtype.np)


define(
    "lu_exchanges",
    aval=_exchanges_aval,
    numpy=_np_exchanges,
    lower=_lower_exchanges,
    lowers=lambda avals, m, dtype: bool(avals[0].numel) and avals[0].dtype is int32 and not dtype.is_complex,
    checks_values=True,
)


# --- linalg_lu_solve(factors, pivots, b | is_transposed): X with A X = B, or with A^T X = B ---


def _lu_solve_aval(factors: Aval, pivots: Aval, b: Aval, is_transposed: bool) -> Aval:
    check_system("linalg_lu_solve", factors, b, pivots)
    return make_aval(b.shape, b.dtype)


@lapack
def _np_lu_solve(factors: Any, pivots: Any, b: Any, is_transposed: bool) -> Any:
    order = np_permutation(pivots, factors.shape[-1])[..., None]
    if not is_transposed:
        inner = np_triangular(factors, np.take_along_axis(b, order, -2), False, True)
        return np_triangular(factors, inner, True, False)
    turned = factors.swapaxes(-1, -2)
    inner = np_triangular(turned, np_triangular(turned, b, False, False), True, True)
    out = np.empty_like(inner)
    np.put_along_axis(out, order, inner, -2)
    return out


def _lu_solve_b_rule(c: RuleContext, g: Any, factors: Any, pivots: Any) -> Any:
    return call("linalg_lu_solve", factors, pivots, g, not c.params[0])


def _lu_solve_rule(c: RuleContext, g: Any, factors: Any, pivots: Any, x: Any) -> Any:
    """Of both triangles: from ``d(L Y) = 0`` and ``d(U X) = dY``, and the same for transposes."""
    turned = transposed(factors)
    upper = call("triu", factors, 0)
    if not c.params[0]:
        inner = call("linalg_solve_triangular", turned, g, False, False)
        of_lower = call("linalg_solve_triangular", turned, inner, True, True)
        return -(call("triu", inner @ transposed(x), 0) + call("tril", of_lower @ transposed(upper @ x), -1))
    back = transposed(call("lu_exchanges", pivots, factors.shape[-1], factors.dtype))
    inner = call("linalg_solve_triangular", factors, back @ g, False, True)
    of_upper = call("linalg_solve_triangular", factors, inner, True, False)
    moved = back @ x
    middle = transposed(call("tril", factors, -1)) @ moved + moved
    return -(call("tril", moved @ transposed(inner), -1) + call("triu", middle @ transposed(of_upper), 0))


define(
    "linalg_lu_solve",
    aval=_lu_solve_aval,
    numpy=_np_lu_solve,
    lower=lambda b, factors, pivots, right, is_transposed: b.matrix(
        "lu_solve", (factors, pivots, right), is_transposed
    )[0],
    lowers=has_real_factors,
    vjps=[Vjp(_lu_solve_rule, (0, 1, "out")), None, Vjp(_lu_solve_b_rule, (0, 1))],
    num_inputs=3,
    checks_values=True,
)


# --- cholesky_solve(b, factor | upper): X with A X = B; cholesky_inverse(factor | upper) ---


def _cholesky_solve_aval(b: Aval, factor: Aval, upper: bool) -> Aval:
    check_system("cholesky_solve", factor, b)
    return make_aval(b.shape, b.dtype)


def _cholesky_inverse_aval(factor: Aval, upper: bool) -> Aval:
    check_system("cholesky_inverse", factor, factor)
    return make_aval(factor.shape, factor.dtype)


@lapack
def _np_cholesky_solve(b: Any, factor: Any, upper: bool) -> Any:
    turned = factor.swapaxes(-1, -2).conj()
    lower, back = (turned, factor) if upper else (factor, turned)
    return np_triangular(back, np_triangular(lower, b, False, False), True, False)


def _lower_cholesky_solve(b: Any, right: Any, factor: Any, upper: bool) -> Any:
    rank = len(factor.shape)
    turned = b.permute(factor, (*range(rank - 2), rank - 1, rank - 2))
    lower, back = (turned, factor) if upper else (factor, turned)
    return lower_triangular(b, back, lower_triangular(b, lower, right, False, False), True, False)


def _lower_cholesky_inverse(b: Any, factor: Any, upper: bool) -> Any:
    return _lower_cholesky_solve(b, lower_identity(b, factor.shape, factor.dtype), factor, upper)


def _np_cholesky_inverse(factor: Any, upper: bool) -> Any:
    eye = np.broadcast_to(np.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return _np_cholesky_solve(eye, factor, upper)


def _cholesky_inverse_rule(c: RuleContext, g: Any, factor: Any, x: Any) -> Any:
    """As that of ``cholesky_solve``."""
    both = x @ ((g + adjoint(g)) @ x)
    return -(factor @ both) if c.params[0] else -(both @ factor)


def _cholesky_solve_rule(c: RuleContext, g: Any, factor: Any, x: Any) -> Any:
    """Of the factor: from ``dA = dL L^H + L dL^H``, as PyTorch's without a look at which triangle is zero."""
    of_a = call("cholesky_solve", g, factor, c.params[0]) @ adjoint(x)
    both = of_a + adjoint(of_a)
    return -(factor @ both) if c.params[0] else -(both @ factor)


define(
    "cholesky_solve",
    aval=_cholesky_solve_aval,
    numpy=_np_cholesky_solve,
    lower=_lower_cholesky_solve,
    lowers=are_real,
    vjps=[
        Vjp(lambda c, g, factor: call("cholesky_solve", g, factor, c.params[0]), (1,)),
        Vjp(_cholesky_solve_rule, (1, "out")),
    ],
    num_inputs=2,
)
define(
    "cholesky_inverse",
    aval=_cholesky_inverse_aval,
    numpy=_np_cholesky_inverse,
    lower=_lower_cholesky_inverse,
    lowers=are_real,
    vjps=[Vjp(_cholesky_inverse_rule, (0, "out"))],
)
