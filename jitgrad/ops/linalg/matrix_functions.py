"""Functions of matrices: determinants, pseudo-inverses, exponentials, and solutions of triangular systems.

Owns: _linalg_det, linalg_cofactors, _linalg_slogdet, linalg_pinv, linalg_pinv_rank, linalg_matrix_exp,
linalg_solve_triangular. Small matrices have lowerings for all but the pseudo-inverses and the exponential.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import int64
from jitgrad.errors import LinAlgError
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.lapack import lapack
from jitgrad.ops.linalg.linear_systems import (
    adjoint,
    are_real,
    are_small,
    check_matrix,
    check_square,
    lower_identity,
    transposed,
)
from jitgrad.ops.linalg.matrix_factors import EIGH, SVD
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["complex_slogdet_rule", "lower_triangular", "np_triangular"]


# --- _linalg_det(a), linalg_cofactors(a), _linalg_slogdet(a) ---


def _det_aval(a: Aval) -> Aval:
    check_square("linalg.det", a)
    return make_aval(a.shape[:-2], a.dtype)


def _slogdet_aval(a: Aval) -> tuple[Aval, Aval]:
    check_square("linalg.slogdet", a)
    return make_aval(a.shape[:-2], a.dtype), make_aval(a.shape[:-2], a.dtype.to_real())


@lapack
def _np_cofactors(a: Any) -> Any:
    """From singular values, since the inverse need not be there: the products of all but one of them."""
    n = a.shape[-1]
    try:
        u, s, vh = SVD[True](a)
    except np.linalg.LinAlgError:  # of NaN
        return np.full_like(a, np.nan)
    others = np.stack([np.delete(s, i, -1).prod(-1) for i in range(n)], -1) if n else s
    sign = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    return ((u.conj() * others[..., None, :]) @ vh.conj() * sign).astype(a.dtype)


def _diagonal(b: Any, x: Any) -> Any:
    """[*, n] of [*, n, n]."""
    *batch, n, _ = x.shape
    flat = b.reshape(x, (*batch, n * n))
    starts, steps = [0] * len(flat.shape), [1] * len(batch) + [n + 1]
    return b.slice(flat, starts, flat.shape, steps)


def _lower_factors(b: Any, a: Any) -> tuple[Any, Any]:
    """(The diagonal of U, -1 or 1: the sign of the exchanges of rows), [*, n] and [*]."""
    factors, pivots, _ = b.matrix("lu", (a,))
    last = len(pivots.shape) - 1
    own = b.add(b.iota(pivots.shape, last), 1)
    signs = b.where(b.eq(b.cast(pivots, int64), own), b.const(1.0, a.dtype), b.const(-1.0, a.dtype))
    return _diagonal(b, factors), b.reduce("prod", signs, (last,))


def _lower_det(b: Any, a: Any) -> Any:
    diagonal, sign = _lower_factors(b, a)
    return b.mul(b.reduce("prod", diagonal, (len(diagonal.shape) - 1,)), sign)


def _lower_slogdet(b: Any, a: Any) -> tuple[Any, Any]:
    diagonal, sign = _lower_factors(b, a)
    last = (len(diagonal.shape) - 1,)
    return b.mul(b.reduce("prod", b.sign(diagonal), last), sign), b.sum(b.log(b.abs(diagonal)), last)


def _lower_cofactors(b: Any, a: Any) -> Any:
    """det(A) A^-T. What is nearly singular is reported as bad data, since singular values say more then."""
    rank, n = len(a.shape), a.shape[-1]
    turned = b.permute(a, (*range(rank - 2), rank - 1, rank - 2))
    least = 8 * n * float(np.finfo(a.dtype.np).eps)
    inverse = b.matrix("solve", (turned, lower_identity(b, a.shape, a.dtype)), least)[0]
    return b.mul(b.reshape(_lower_det(b, a), (*a.shape[:-2], 1, 1)), inverse)


def _wide(g: Any) -> Any:
    return g.unsqueeze(-1).unsqueeze(-1)


def _cofactors_rule(c: RuleContext, g: Any, a: Any, cofactors: Any) -> Any:
    """Where the determinant is not zero: the differential of det(A) A^-T."""
    inner = (cofactors * g).sum((-2, -1), True)
    return (cofactors * inner - cofactors @ transposed(g) @ cofactors) / _wide(call("_linalg_det", a))


def _slogdet_rule(c: RuleContext, g: Any, a: Any) -> Any:
    if g[1] is None:  # the sign is constant
        return call("zeros_like", a)
    return _wide(g[1]) * transposed(call("linalg_inv_ex", a))


def complex_slogdet_rule(c: RuleContext, g: Any, a: Any, sign: Any) -> Any:
    """The sign turns: ``d sign = i Im(tr(A^-1 dA)) sign``."""
    factor = g[1]
    if g[0] is not None:
        turn = call("view_as_real", g[0] * call("conj_physical", sign)).select(-1, 1) * 1j
        factor = turn if factor is None else factor + turn
    return _wide(factor) * adjoint(call("linalg_inv_ex", a))


define(
    "_linalg_det",
    aval=_det_aval,
    numpy=lapack(np.linalg.det),
    lower=_lower_det,
    lowers=are_small,
    vjps=[Vjp(lambda c, g, a: _wide(g) * call("linalg_cofactors", a), (0,))],
)
define(
    "linalg_cofactors",
    aval=lambda a: make_aval(a.shape, a.dtype),
    numpy=_np_cofactors,
    lower=_lower_cofactors,
    lowers=are_small,
    falls_back=True,
    vjps=[Vjp(_cofactors_rule, (0, "out"))],
)
define(
    "_linalg_slogdet",
    aval=_slogdet_aval,
    numpy=lapack(lambda a: tuple(np.linalg.slogdet(a))),
    lower=_lower_slogdet,
    lowers=are_small,
    vjps=[Vjp(_slogdet_rule, (0,))],
)


# --- linalg_pinv(a | atol, rtol, hermitian), linalg_pinv_rank: and how many singular values count ---


def _pinv_aval(a: Aval, atol: float | None, rtol: float | None, hermitian: bool) -> Aval:
    check_matrix("linalg.pinv", a)
    if hermitian:
        check_square("linalg.pinv", a)
    return make_aval((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)


@lapack
def _np_pinv_rank(a: Any, atol: float | None, rtol: float | None, hermitian: bool) -> tuple[Any, Any]:
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype), np.zeros(a.shape[:-2], np.int64)
    if rtol is None:
        rtol = 0.0 if atol else max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
    try:
        if hermitian:
            s, u = EIGH[False](a)
            vh = u.swapaxes(-1, -2).conj()
        else:
            u, s, vh = SVD[False](a)
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.pinv: The algorithm failed to converge.") from None
    sizes = np.abs(s)
    kept = sizes > np.maximum(atol or 0.0, rtol * sizes.max(-1, keepdims=True))
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(a.dtype)
    found = (vh.swapaxes(-1, -2).conj() * inverse[..., None, :]) @ u.swapaxes(-1, -2).conj()
    return found, np.count_nonzero(kept, -1)


def _pinv_rule(c: RuleContext, g: Any, a: Any, p: Any) -> Any:
    """G. Golub, V. Pereyra, "The differentiation of pseudo-inverses .." (1973), 4.12, transposed; of constant rank."""
    back, gt = adjoint(p), adjoint(g)
    left = gt @ p @ back
    right = back @ p @ gt
    return left - a @ (p @ left) + right - (right @ p) @ a - back @ g @ back


define(
    "linalg_pinv",
    aval=_pinv_aval,
    numpy=lambda *args: _np_pinv_rank(*args)[0],
    vjps=[Vjp(_pinv_rule, (0, "out"))],
    checks_reals=True,
)
define(
    "linalg_pinv_rank",
    aval=lambda a, *params: (_pinv_aval(a, *params), make_aval(a.shape[:-2], int64)),
    numpy=_np_pinv_rank,
    vjps=[Vjp(lambda c, g, a, p: _pinv_rule(c, g[0], a, p), (0, "out"))],
    checks_reals=True,
)


# --- linalg_matrix_exp(a) ---

_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_MAX_NORM = 5.37


def _exp_aval(a: Aval) -> Aval:
    check_square("linalg.matrix_exp", a)
    return make_aval(a.shape, a.dtype)


@lapack
def _np_exp(a: Any) -> Any:
    """N. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005), algorithm 2.3, in
    float64."""
    if not a.size:
        return a.copy()
    x = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    norms = np.abs(x).sum(-2).max(-1)
    squarings = np.maximum(np.ceil(np.log2(np.maximum(norms, _MAX_NORM) / _MAX_NORM)), 0)
    squarings = np.where(np.isfinite(norms), squarings, 0).astype(np.int64)[..., None, None]
    x = x / 2.0**squarings
    square, power = x @ x, np.broadcast_to(np.eye(a.shape[-1]), x.shape)
    odd, even = np.zeros_like(x), np.zeros_like(x)
    for k in range(0, len(_PADE), 2):
        even, odd = even + _PADE[k] * power, odd + _PADE[k + 1] * power
        power = power @ square
    odd = x @ odd
    result = np.linalg.solve(even - odd, even + odd)
    for i in range(int(squarings.max())):
        result = np.where(squarings > i, result @ result, result)
    return result.astype(a.dtype)


def _exp_rule(c: RuleContext, g: Any, a: Any) -> Any:
    """N. Higham, "Functions of matrices" (2008), 3.6: a block of the exponential of [[A^T, G], [0, A^T]]."""
    n, back = a.shape[-1], transposed(a)
    top, bottom = call("cat", [back, g], -1), call("cat", [call("zeros_like", back), back], -1)
    whole = call("linalg_matrix_exp", call("cat", [top, bottom], -2))
    return whole.narrow(-2, 0, n).narrow(-1, n, n)


define("linalg_matrix_exp", aval=_exp_aval, numpy=_np_exp, vjps=[Vjp(_exp_rule, (0,))])


# --- linalg_solve_triangular(a, b | upper, unitriangular): X with A X = B ---


def _triangular_aval(a: Aval, b: Aval, upper: bool, unitriangular: bool) -> Aval:
    check_square("linalg.solve_triangular", a)
    if a.ndim != b.ndim or a.shape[:-1] != b.shape[:-1]:
        raise RuntimeError(f"linalg.solve_triangular: {list(a.shape)} and {list(b.shape)} do not go together")
    return make_aval(b.shape, b.dtype)


@lapack
def np_triangular(a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
    """Row by row, from the row with one unknown on; a zero on the diagonal divides, as in LAPACK."""
    n = a.shape[-1]
    x = np.array(b, order="C")
    if not x.size:
        return x
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        row = x[..., i, :] - (a[..., i, None, known] @ x[..., known, :])[..., 0, :]
        x[..., i, :] = row if unitriangular else row / a[..., i, i, None]
    return x


_BLOCK, _MOST_BLOCKS, _FEW_COLUMNS = 64, 16, 8
"""Rows that a routine solves at once, how many such blocks there are at most, and right sides that are too few for
products to gain anything."""


def lower_triangular(b: Any, a: Any, right: Any, upper: bool, unitriangular: bool) -> Any:
    """The primitives of ``np_triangular``. A large system is solved block by block: a product takes what is known off
    the right side, a routine finds the rest."""
    n, dim = a.shape[-1], len(a.shape) - 2
    if n <= 2 * _BLOCK or right.shape[-1] < _FEW_COLUMNS:
        return b.matrix("triangular", (a, right), upper, unitriangular)[0]
    size = max(_BLOCK, -(-n // _MOST_BLOCKS))
    blocks = [(first, min(first + size, n)) for first in range(0, n, size)]
    solved: list[Any] = []
    for first, end in reversed(blocks) if upper else blocks:
        rest = _part(b, right, (first, end), (0, right.shape[-1]))
        if solved:
            factor = _part(b, a, (first, end), (end, n) if upper else (0, first))
            rest = b.sub(rest, b.matmul(factor, b.cat(solved, dim)))
        (x,) = b.matrix("triangular", (_part(b, a, (first, end), (first, end)), rest), upper, unitriangular)
        solved = [x, *solved] if upper else [*solved, x]
    return b.cat(solved, dim)


def _part(b: Any, x: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    """Some rows and columns of matrices."""
    lead = x.shape[:-2]
    (top, bottom), (left, end) = rows, columns
    return b.slice(x, [*[0] * len(lead), top, left], [*lead, bottom, end], [1] * len(x.shape))


def _triangular_rules() -> list[Vjp]:
    def of_b(c: RuleContext, g: Any, a: Any) -> Any:
        upper, unitriangular = c.params
        return call("linalg_solve_triangular", transposed(a), g, not upper, unitriangular)

    def of_a(c: RuleContext, g: Any, a: Any, x: Any) -> Any:
        upper, unitriangular = c.params
        whole = -(of_b(c, g, a) @ transposed(x))
        return call("triu", whole, int(unitriangular)) if upper else call("tril", whole, -int(unitriangular))

    return [Vjp(of_a, (0, "out")), Vjp(of_b, (0,))]


define(
    "linalg_solve_triangular",
    aval=_triangular_aval,
    numpy=np_triangular,
    lower=lower_triangular,
    lowers=are_real,
    vjps=_triangular_rules(),
    num_inputs=2,
)
