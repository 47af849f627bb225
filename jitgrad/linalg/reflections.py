"""Products of Householder reflections, and factors of matrices of low rank.

Owns: householder_product, orgqr, ormqr, geqrf, svd_lowrank, pca_lowrank, and the older ``lu``.

Source of the last two: N. Halko, P.-G. Martinsson and J. A. Tropp (2009), "Finding structure with randomness".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.dtypes import HALVES, WHOLE
from jitgrad.functions import matmul, randn
from jitgrad.functions.outputs import takes_out
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.linalg.decompositions import lu_factor_ex, qr, svd
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import check_same_dtype, refuse

__all__ = ["geqrf", "householder_product", "lu", "orgqr", "ormqr", "pca_lowrank", "svd_lowrank"]


class Reflections(NamedTuple):
    """An upper triangle with the reflections' vectors below it, and their factors."""

    a: Any
    tau: Any


@takes_out
@float32_in_autocast
def householder_product(A: Any, tau: Any) -> Any:
    """The first n columns of H1 H2 ... Hk, each ``I - tau v v^H``.

    Args:
        A: [*, m, n], m >= n; column i holds the vector of reflection i below the diagonal, after a one.
        tau: [*, k], k <= n.

    Raises:
        RuntimeError: shapes or dtypes that do not fit.
    """
    name = "torch.linalg.householder_product"
    a, t = A._aval, tau._aval
    if a.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if not t.ndim:
        raise RuntimeError(f"{name}: tau must have at least 1 dimension.")
    m, n = a.shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < t.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if a.ndim - t.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {A.ndim}"
        )
    if a.shape[:-2] != t.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    if t.dtype is not a.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau.dtype} does not match input dtype {A.dtype}")
    refuse("orgqr_cpu", A, (*WHOLE, *HALVES))
    return call("linalg_householder_product", A, tau)


orgqr = householder_product


@takes_out
@float32_in_autocast
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """``Q @ other``, or ``other @ Q``, with the whole Q = H1 H2 ... Hk, or its conjugate transpose.

    Args:
        input: [*, m, k], see ``householder_product``.
        tau: [*, k'].
        other: [*, m, n], or [*, n, m] if Q stands on the right.

    Raises:
        RuntimeError: shapes that do not fit.
    """
    _check_ormqr(input, tau, other, left)
    if not left:
        return ormqr(input, tau, other.mH, True, not transpose).mH
    return call("ormqr", input, tau, other, transpose)


def _check_ormqr(input: Any, tau: Any, other: Any, left: bool) -> None:
    for name, x in (("input", input), ("other", other)):
        if x._aval.ndim < 2:
            raise RuntimeError(f"torch.ormqr: {name} must have at least 2 dimensions.")
    if not tau._aval.ndim:
        raise RuntimeError("torch.ormqr: tau must have at least 1 dimension.")
    check_same_dtype("torch.ormqr", input, tau, other)
    refuse("ormqr_cpu", input, (*WHOLE, *HALVES))
    a, t, o, side = input._aval, tau._aval, other._aval, -2 if left else -1
    if o.shape[side] < t.shape[-1]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if o.shape[side] != a.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if t.shape[-1] != min(o.shape[side], a.shape[-1]):
        raise RuntimeError(f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    if a.ndim - t.ndim != 1:
        raise RuntimeError(
            f"torch.ormqr: Expected tau to have one dimension less than input, but got tau.ndim equal to {t.ndim} "
            f"and input.ndim is equal to {a.ndim}"
        )
    if a.ndim != o.ndim:
        raise RuntimeError(
            "torch.ormqr: Expected other to have the same number of dimensions as input, but got other.ndim equal to "
            f"{o.ndim} and input.ndim is equal to {a.ndim}"
        )


@takes_out
@float32_in_autocast
def geqrf(input: Any) -> Reflections:
    """(a, tau): the QR decomposition of [*, m, n] as LAPACK leaves it; see ``householder_product``. No derivative."""
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    refuse("geqrf_cpu", input, (*WHOLE, *HALVES))
    return Reflections(*call("geqrf", input))


class LowRank(NamedTuple):
    """``U @ diag(S) @ V.mT``."""

    U: Any
    S: Any
    V: Any


def _check_rank(name: str, A: Any) -> None:
    if A.ndim < 2:
        raise ValueError(f"{name}: expected a matrix or a batch of them, but got {A.ndim} dimensions")


_MOST_ROUNDS = 1 << 20


def _basis(A: Any, q: int, niter: int) -> Any:
    """q orthonormal columns whose span holds most of the columns of A."""
    Q = qr(matmul(A, randn(A.shape[-1], q, dtype=A.dtype, device=A.device))).Q
    for _ in range(niter):
        Q = qr(matmul(A, qr(matmul(A.mH, Q)).Q)).Q
    return Q


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple[Any, Any, Any]:
    """(U, S, V) with ``A - M`` nearly ``U diag(S) V^T``, of rank ``q``; draws random numbers.

    Args:
        A: [*, m, n].
        q: the rank, a little more than what is wanted.
        niter: how often the basis is improved.
        M: is subtracted, broadcast.

    Raises:
        ValueError: A has fewer than two dimensions.
    """
    _check_rank("svd_lowrank", A)
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    if niter > _MOST_ROUNDS:
        raise ValueError(f"svd_lowrank: niter(={niter}) must be at most {_MOST_ROUNDS}: nobody waits for more")
    centred = A if M is None else A - M
    is_wide = A.shape[-2] < A.shape[-1]
    tall = centred.mH if is_wide else centred
    Q = _basis(tall, q, niter)
    U, S, Vh = svd(matmul(Q.mH, tall), full_matrices=False)
    left, right = matmul(Q, U), Vh.mH
    return (right, S, left) if is_wide else (left, S, right)


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Any, Any, Any]:
    """(U, S, V) of the principal components of n variables, the columns of [*, m, n]; see ``svd_lowrank``.

    Raises:
        ValueError: A has fewer than two dimensions, ``q`` is above m or n, or a number is negative.
    """
    _check_rank("pca_lowrank", A)
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"svd_lowrank: niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)


@takes_out
@float32_in_autocast
def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> tuple[Any, ...]:
    """(LU, pivots) of ``linalg.lu_factor``, and with ``get_infos`` where a pivot is zero."""
    found = lu_factor_ex(A, pivot=pivot)
    return (found.LU, found.pivots, found.info) if get_infos else (found.LU, found.pivots)
