"""Factors of matrices: singular values, eigenvalues, QR, LU, Cholesky with a report.

Owns: _linalg_svd, _linalg_eigh, linalg_eig, linalg_qr, linalg_lu_factor_ex, lu_permutation, linalg_cholesky_info, over
[*, m, n]. Small matrices have lowerings for QR, LU and Cholesky; else LAPACK runs, through NumPy. Signs of vectors are
LAPACK's.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.devices import META
from jitgrad.dtypes import int32, int64
from jitgrad.errors import LinAlgError
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import beside, call
from jitgrad.ops.linalg.lapack import lapack, like_columns, quickly
from jitgrad.ops.linalg.linear_systems import (
    adjoint,
    are_real,
    are_small,
    are_small_symmetric,
    check_matrix,
    check_square,
    cholesky_rule,
    flipped,
    lower_cholesky,
    lower_identity,
    transposed,
)
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["EIGH", "SVD", "np_permutation"]


def _sizes(a: Aval) -> tuple[tuple[int, ...], int, int, int]:
    """(batch, rows, columns, the smaller of both)."""
    m, n = a.shape[-2:]
    return a.shape[:-2], m, n, min(m, n)


def _eye(c: RuleContext, n: int) -> Any:
    aval = c.avals[0]
    assert aval is not None
    return call("eye", n, n, aval.dtype, *beside(aval))


def _eye_of(values: Any) -> Any:
    """The identity of the order and dtype of ``values``, [*, k]."""
    n = values.shape[-1]
    return call("eye", n, n, values.dtype, *beside(values._aval))


def _add(total: Any, term: Any) -> Any:
    return term if total is None else total + term


# --- _linalg_svd(a | full): U, S, Vh ---


def _svd_aval(a: Aval, full: bool) -> tuple[Aval, Aval, Aval]:
    check_matrix("linalg.svd", a)
    batch, m, n, k = _sizes(a)
    left, right = (m, n) if full else (k, k)
    real = a.dtype.to_real()
    return make_aval((*batch, m, left), a.dtype), make_aval((*batch, k), real), make_aval((*batch, right, n), a.dtype)


SVD: Any = (
    quickly("svd_s", lambda a: np.linalg.svd(a, full_matrices=False)),
    quickly("svd_f", lambda a: np.linalg.svd(a, full_matrices=True)),
)


@lapack
def _np_svd(a: Any, full: bool) -> Any:
    try:
        return tuple(SVD[full](a))
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.svd: The algorithm failed to converge.") from None


def _svd_rule(c: RuleContext, g: Any, u: Any, s: Any, vh: Any) -> Any:
    """J. Townsend, "Differentiating the singular value decomposition" (2016). Gradients of what ``full`` adds to the
    factors have no effect, as in PyTorch."""
    k = s.shape[-1]
    u, vh = u.narrow(-1, 0, k), vh.narrow(-2, 0, k)
    v, ut = adjoint(vh), adjoint(u)
    row, column = s.unsqueeze(-2), s.unsqueeze(-1)
    gaps = (row - column) * (row + column) + _eye_of(s)
    gu = None if g[0] is None else g[0].narrow(-1, 0, k)
    gv = None if g[2] is None else adjoint(g[2].narrow(-2, 0, k))
    if u._aval.dtype.is_complex:
        _check_phase("svd_backward: The singular vectors", (ut, gu), (vh, gv))
    middle = total = None
    if g[1] is not None:
        middle = (g[1].unsqueeze(-1) * _eye_of(s)).to(u.dtype)
    if gu is not None:
        own = ut @ gu
        middle = _add(middle, (own - adjoint(own)) / gaps * row)
        total = ((gu - u @ own) / row) @ vh
    if gv is not None:
        own = vh @ gv
        middle = _add(middle, column * ((own - adjoint(own)) / gaps))
        total = _add(total, u @ adjoint((gv - v @ own) / row))
    if gu is not None and gv is not None and u._aval.dtype.is_complex:
        turned = ut @ gu
        middle = middle + (turned - adjoint(turned)) * _eye_of(s) / (2 * row)
    return _add(total, u @ middle @ vh)


def _check_phase(who: str, *pairs: tuple[Any, Any]) -> None:
    """RuntimeError for gradients of complex vectors that say something of the vectors' phases, which are arbitrary."""
    moved = 0.0
    for vectors, gradient in pairs:
        if gradient is not None and gradient._aval.device is not META:
            diagonals = (vectors.detach() @ gradient.detach()).diagonal(0, -2, -1)
            moved = moved + call("view_as_real", diagonals)._ndarray()[..., 1]
    if not np.allclose(moved, 0.0, atol=1e-2):
        raise RuntimeError(
            f"{who} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss function "
            "depends on this phase term, making it ill-defined."
        )


define("_linalg_svd", aval=_svd_aval, numpy=_np_svd, vjps=[Vjp(_svd_rule, ("out", "out1", "out2"))], checks_reals=True)


# --- _linalg_eigh(a | upper): eigenvalues, eigenvectors ---


def _eigh_aval(a: Aval, upper: bool) -> tuple[Aval, Aval]:
    check_square("linalg.eigh", a)
    return make_aval(a.shape[:-1], a.dtype.to_real()), make_aval(a.shape, a.dtype)


EIGH: Any = (
    quickly("eigh_lo", lambda a: np.linalg.eigh(a, "L")),
    quickly("eigh_up", lambda a: np.linalg.eigh(a, "U")),
)


@lapack
def _np_eigh(a: Any, upper: bool) -> Any:
    try:
        return tuple(EIGH[upper](a, out=(None, like_columns(a))))
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.eigh: The algorithm failed to converge.") from None


def _eigh_rule(c: RuleContext, g: Any, values: Any, vectors: Any) -> Any:
    """M. Giles, "An extended collection of matrix derivative results" (2008), 3.1; of eigenvectors, what their lengths
    say has no effect."""
    eye = _eye_of(values)
    middle = None
    if g[0] is not None:
        middle = (g[0].unsqueeze(-1) * eye).to(vectors.dtype)
    if g[1] is not None:
        if vectors._aval.dtype.is_complex:
            _check_phase("linalg_eigh_backward: The eigenvectors", (adjoint(vectors), g[1]))
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1) + eye
        middle = _add(middle, (adjoint(vectors) @ g[1]) * (1 - eye) / gaps)
    return vectors @ ((middle + adjoint(middle)) * 0.5) @ adjoint(vectors)


define("_linalg_eigh", aval=_eigh_aval, numpy=_np_eigh, vjps=[Vjp(_eigh_rule, ("out", "out1"))], checks_reals=True)


# --- linalg_eig(a): eigenvalues, eigenvectors, complex ---


def _eig_aval(a: Aval) -> tuple[Aval, Aval]:
    check_square("linalg.eig", a)
    return make_aval(a.shape[:-1], a.dtype.to_complex()), make_aval(a.shape, a.dtype.to_complex())


@lapack
def _np_eig(a: Any) -> Any:
    if not np.isfinite(a).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    try:
        return tuple(np.linalg.eig(a))
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.eig: The algorithm failed to converge.") from None


def _eig_rule(c: RuleContext, g: Any, values: Any, vectors: Any) -> Any:
    """C. Boeddeker et al., "On the computation of complex-valued gradients with application to statistically optimum
    beamforming" (2017), 4.60, of vectors of length 1; PyTorch's ``linalg_eig_backward``."""
    back, eye = adjoint(vectors), _eye_of(values)
    middle = None if g[0] is None else g[0].unsqueeze(-1) * eye
    if g[1] is not None:
        own = back @ g[1]
        _check_phase("linalg_eig_backward: The eigenvectors", (back, g[1]))
        along = _real(own.diagonal(0, -2, -1)).unsqueeze(-2)
        gaps = call("conj_physical", values.unsqueeze(-2) - values.unsqueeze(-1)) + eye
        middle = _add(middle, (own - (back @ vectors) * along) * (1 - eye) / gaps)
    return call("linalg_solve_ex", back, middle @ back)


define(
    "linalg_eig", aval=_eig_aval, numpy=_np_eig, vjps=[Vjp(_eig_rule, ("out", "out1"))], checks_reals=True,
)  # fmt: skip


# --- linalg_qr(a | mode): Q, R ---


def _qr_aval(a: Aval, mode: str) -> tuple[Aval, Aval]:
    check_matrix("linalg.qr", a)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    batch, m, n, k = _sizes(a)
    k = m if mode == "complete" else k
    return make_aval((0,) if mode == "r" else (*batch, m, k), a.dtype), make_aval((*batch, k, n), a.dtype)


@lapack
def _np_qr(a: Any, mode: str) -> Any:
    if mode == "r":
        return np.empty(0, a.dtype), np.linalg.qr(a, "r")
    return tuple(np.linalg.qr(a, mode))  # type: ignore[call-overload]


def _qr_rule(c: RuleContext, g: Any, q: Any, r: Any) -> Any:
    """M. Seeger et al., "Auto-differentiating linear algebra" (2017), for matrices that are not wide; of a wide one,
    the columns after the first m are ``q`` times theirs of ``r``."""
    (mode,) = c.params
    m, n = c.avals[0].shape[-2:]  # type: ignore[union-attr]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, mode='reduced') if you are going to require gradients."
        )
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    gq = call("zeros_like", q) if g[0] is None else g[0]
    gr = call("zeros_like", r) if g[1] is None else g[1]
    if m >= n:
        return _tall_qr(q, r, gq, gr)
    rest = gr.narrow(-1, m, n - m)
    gq = gq + q @ r.narrow(-1, m, n - m) @ adjoint(rest)
    return call("cat", [_tall_qr(q, r.narrow(-1, 0, m), gq, gr.narrow(-1, 0, m)), q @ rest], -1)


def _tall_qr(q: Any, r: Any, gq: Any, gr: Any) -> Any:
    inner = r @ adjoint(gr) - adjoint(gq) @ q
    lower = call("tril", inner, -1)
    mirrored = lower + adjoint(lower) + _real(inner.diagonal(0, -2, -1)).unsqueeze(-1) * _eye_of(r)
    right = adjoint(gq + q @ mirrored)
    return adjoint(call("linalg_solve_triangular", r, right, True, False))


def _real(x: Any) -> Any:
    return call("view_as_real", x).select(-1, 0) if x._aval.dtype.is_complex else x


def _lower_qr(b: Any, a: Any, mode: str) -> tuple[Any, Any]:
    *batch, m, n = a.shape
    k = m if mode == "complete" else min(m, n)
    factors, tau = b.matrix("reflections", (a,))
    first = b.slice(factors, [0] * len(a.shape), (*batch, k, n), [1] * len(a.shape))
    rank = len(a.shape)
    is_upper = b.le(b.iota(first.shape, rank - 2), b.iota(first.shape, rank - 1))
    r = b.where(is_upper, first, b.const(0.0, a.dtype))
    if mode == "r":
        return b.const(0.0, a.dtype, (0,)), r
    return b.matrix("reflect", (factors, tau, lower_identity(b, (*batch, m, k), a.dtype)), False)[0], r


define(
    "linalg_qr", aval=_qr_aval, numpy=_np_qr, lower=_lower_qr, lowers=are_small,
    vjps=[Vjp(_qr_rule, ("out", "out1"))],
)  # fmt: skip


# --- linalg_lu_factor_ex(a | pivot): both factors in one matrix, row exchanges, where a pivot is zero ---


def _lu_aval(a: Aval, pivot: bool) -> tuple[Aval, Aval, Aval]:
    check_matrix("linalg.lu_factor", a)
    batch, _, _, k = _sizes(a)
    return make_aval(a.shape, a.dtype), make_aval((*batch, k), int32), make_aval(batch, int32)


@lapack
def _np_lu(a: Any, pivot: bool) -> tuple[Any, Any, Any]:
    """Column by column, all matrices of the batch at once. (NumPy gives no access to LAPACK's factors.)"""
    *batch, m, n = a.shape
    factors = np.array(a, order="C").reshape(math.prod(batch), m, n)
    count, k = len(factors), min(m, n)
    pivots, info = np.empty((count, k), np.int32), np.zeros(count, np.int32)
    every = np.arange(count)
    for j in range(k if count else 0):
        at = j + (_size(factors[:, j:, j]).argmax(1) if pivot else np.zeros(count, np.int64))
        pivots[:, j] = at + 1
        factors[every, j], factors[every, at] = factors[every, at], factors[every, j]
        diagonal = factors[:, j, j]
        info[(diagonal == 0) & (info == 0)] = j + 1
        column = factors[:, j + 1 :, j] / np.where(diagonal == 0, 1, diagonal)[:, None]
        factors[:, j + 1 :, j] = column
        factors[:, j + 1 :, j + 1 :] -= column[:, :, None] * factors[:, j, None, j + 1 :]
    return factors.reshape(a.shape), pivots.reshape(*batch, k), info.reshape(batch)


def _size(x: Any) -> Any:
    """What pivots are chosen by; of complex numbers LAPACK takes the sum of the sizes of the parts."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def _lu_rule(c: RuleContext, g: Any, factors: Any, pivots: Any) -> Any:
    """Of the matrix with its rows exchanged; then these go back. With L and U of the leading square block, and what is
    left of and below it: from the differential dA = dL U + L dU."""
    m, n = factors.shape[-2:]
    k = min(m, n)
    square, own = (x.narrow(-2, 0, k).narrow(-1, 0, k) for x in (factors, g[0]))
    lower, upper = call("tril", square, -1) + _eye(c, k), call("triu", square, 0)
    left = transposed(lower) @ call("tril", own, -1)
    right = call("triu", own, 0) @ transposed(upper)
    if n > k:  # wide: more of U
        more, g_more = factors.narrow(-1, k, n - k), g[0].narrow(-1, k, n - k)
        left = left - g_more @ transposed(more)
    if m > k:  # tall: more of L
        more, g_more = factors.narrow(-2, k, m - k), g[0].narrow(-2, k, m - k)
        right = right - transposed(more) @ g_more
    middle = call("tril", left, -1) + call("triu", right, 0)
    gradient = _over_upper(upper, _under_lower(lower, middle))
    if n > k:
        gradient = call("cat", [gradient, _under_lower(lower, g_more)], -1)
    if m > k:
        gradient = call("cat", [gradient, _over_upper(upper, g_more)], -2)
    if not c.params[0]:
        return gradient
    rows = call("lu_permutation", pivots, m).unsqueeze(-1).expand(factors.shape)
    return call("scatter_add", call("zeros_like", gradient), rows, gradient, -2)


def _under_lower(lower: Any, x: Any) -> Any:
    """L^-T x."""
    return call("linalg_solve_triangular", transposed(lower), x, True, True)


def _over_upper(upper: Any, x: Any) -> Any:
    """x U^-T."""
    return transposed(call("linalg_solve_triangular", upper, transposed(x), True, False))


define(
    "linalg_lu_factor_ex",
    aval=_lu_aval,
    numpy=_np_lu,
    lower=lambda b, a, pivot: b.matrix("lu", (a,)),
    lowers=lambda avals, pivot: pivot and are_real(avals),
    vjps=[Vjp(_lu_rule, ("out", "out1"))],
)


def _permutation_aval(pivots: Aval, m: int) -> Aval:
    if pivots.shape[-1] > m:
        raise RuntimeError(f"{pivots.shape[-1]} pivots are more than the matrix has rows, which are {m}")
    return make_aval((*pivots.shape[:-1], m), int64)


def np_permutation(pivots: Any, m: int) -> Any:
    *batch, k = pivots.shape
    if not pivots.size:
        return np.broadcast_to(np.arange(m), (*batch, m))
    if ((pivots < 1) | (pivots > m)).any():
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive. Did you properly pass the result "
            "of lu_factor?"
        )
    flat = pivots.reshape(math.prod(batch), k)
    rows = np.tile(np.arange(m), (len(flat), 1))
    every = np.arange(len(flat))
    for j in range(k):
        at = flat[:, j] - 1
        rows[every, j], rows[every, at] = rows[every, at], rows[every, j]
    return rows.reshape(*batch, m)


define(
    "lu_permutation",
    aval=_permutation_aval,
    numpy=np_permutation,
    lower=lambda b, pivots, m: b.matrix("permutation", (pivots,), m)[0],
    lowers=lambda avals, m: bool(avals[0].numel),
    checks_values=True,
)


# --- linalg_cholesky_info(a | upper): the factor, and the order of the leading block that is not positive definite ---


def _info_aval(a: Aval, upper: bool) -> tuple[Aval, Aval]:
    check_square("linalg.cholesky_ex", a)
    return make_aval(a.shape, a.dtype), make_aval(a.shape[:-2], int32)


@lapack
def _np_cholesky_info(a: Any, upper: bool) -> tuple[Any, Any]:
    """Where there is no factor, that of the leading block that has one, before what was not reached."""
    a = flipped(a, upper)
    factors, info = np.tril(a), np.zeros(a.shape[:-2], np.int32)
    for i in np.ndindex(*a.shape[:-2]):
        for k in range(a.shape[-1], -1, -1):
            try:
                leading = np.linalg.cholesky(a[i][:k, :k])
            except np.linalg.LinAlgError:
                continue
            if not np.isnan(leading.diagonal()).any():
                factors[i][:k, :k] = leading
                info[i] = k + 1 if k < a.shape[-1] else 0
                break
    return flipped(factors, upper), info


define(
    "linalg_cholesky_info",
    aval=_info_aval,
    numpy=_np_cholesky_info,
    lower=lambda b, a, upper: lower_cholesky(b, a, upper, False),
    lowers=are_small_symmetric,
    vjps=[Vjp(lambda c, g, factor: cholesky_rule(c, g[0], factor), ("out",))],
    node_name="LinalgCholeskyExBackward0",
)
