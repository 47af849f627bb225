"""Factors of matrices.

Owns: cholesky, cholesky_ex, svd, svdvals, eig, eigvals, eigh, eigvalsh, qr, lu, lu_factor,
lu_factor_ex, lu_solve, and lu_unpack.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.door import door
from jitgrad.dtypes import int32
from jitgrad.errors import LinAlgError
from jitgrad.functions import empty
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.linalg.systems import first_bad, same_batch
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.linear_systems import check_square
from jitgrad.ops.table import OPS

__all__ = [
    "cholesky",
    "cholesky_ex",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "lu_unpack",
    "qr",
    "svd",
    "svdvals",
]

_CHOLESKY = OPS["linalg_cholesky_ex"]


class CholeskyEx(NamedTuple):
    """A factor, and per matrix 0 or the order of the leading block that is not positive definite."""

    L: Any
    info: Any


class SVD(NamedTuple):
    """``U @ diag(S) @ Vh``."""

    U: Any
    S: Any
    Vh: Any


class Eigh(NamedTuple):
    """Eigenvalues in ascending order, eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class Eig(NamedTuple):
    """Eigenvalues, eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class QR(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Any
    R: Any


class PLU(NamedTuple):
    """``P @ L @ U``."""

    P: Any
    L: Any
    U: Any


class LUFactor(NamedTuple):
    """Both triangles in one matrix, and with which row each row was exchanged, counted from 1."""

    LU: Any
    pivots: Any


class LUFactorEx(NamedTuple):
    """As ``LUFactor``, and per matrix 0 or the number of the first pivot that is zero."""

    LU: Any
    pivots: Any
    info: Any


@float32_in_autocast
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangular L with ``L L^H = A``, of Hermitian positive definite [*, n, n].

    Args:
        A: only its lower triangle is looked at.
        upper: return ``L^H``.

    Raises:
        RuntimeError: the matrices are not square, or not floating.
        LinAlgError: a matrix is not positive definite.
    """
    return door.apply(_CHOLESKY, A, upper)


@float32_in_autocast
def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): as ``cholesky``, but a matrix that is not positive definite is reported in ``info``, [*] of int32,
    as the order of its leading block that is not; LinAlgError with ``check_errors`` only."""
    factor, info = call("linalg_cholesky_info", A, upper)
    if check_errors and bool(info.any()):
        which, order = first_bad(info)
        raise LinAlgError(
            f"linalg.cholesky_ex: {which}The factorization could not be completed because the input is not "
            f"positive-definite (the leading minor of order {order} is not positive-definite)."
        )
    return CholeskyEx(factor, info)


@float32_in_autocast
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) with ``A = U diag(S) Vh``, S in descending order.

    Args:
        A: [*, m, n].
        full_matrices: U and Vh are square, and not [m, k] and [k, n] with the smaller k of m and n. Gradients of what
            this adds have no effect.
        driver: is not looked at.

    The derivative of U and Vh needs singular values that differ, and only what does not depend on their signs has one.
    """
    return SVD(*call("_linalg_svd", A, full_matrices))


@float32_in_autocast
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values of [*, m, n], in descending order."""
    return call("_linalg_svd", A, False)[1]


@float32_in_autocast
def eigh(A: Any, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of Hermitian [*, n, n], in ascending order.

    Args:
        A: only its lower triangle is looked at, or with ``UPLO="U"`` the upper one. Its gradient is that of a
            Hermitian matrix.

    Raises:
        RuntimeError: the matrices are not square, or not floating; another ``UPLO``.
    """
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return Eigh(*call("_linalg_eigh", A, UPLO.upper() == "U"))


@float32_in_autocast
def eig(A: Any) -> Any:
    """(eigenvalues, eigenvectors) of [*, n, n], complex also of real matrices, in LAPACK's order.

    The eigenvectors are columns of length 1, up to a factor ``exp(i phi)``, on which what is differentiated must not
    depend. The derivative needs eigenvalues that differ.

    Raises:
        RuntimeError: the matrices are not square, or not floating; in backward, what depends on the factor.
        LinAlgError: the algorithm did not converge.
    """
    return Eig(*call("linalg_eig", A))


@float32_in_autocast
def eigvals(A: Any) -> Any:
    """The eigenvalues of ``eig``."""
    return call("linalg_eig", A)[0]


@float32_in_autocast
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of ``eigh``."""
    return eigh(A, UPLO)[0]


@float32_in_autocast
def qr(A: Any, mode: str = "reduced") -> Any:
    """(Q, R) with ``A = Q R``.

    Args:
        A: [*, m, n].
        mode: "reduced"; "complete", with a square Q; "r", with an empty one.

    Raises:
        RuntimeError: another mode; in backward, a mode without a derivative.
    """
    return QR(*call("linalg_qr", A, mode))


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info) of [*, m, n]; a pivot that is zero is reported in ``info``, RuntimeError with
    ``check_errors`` only."""
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    found = LUFactorEx(*call("linalg_lu_factor_ex", A, pivot))
    if check_errors and bool(found.info.any()):
        _refuse_zero_pivot("lu_factor_ex", found.info)
    return found


def _refuse_zero_pivot(name: str, info: Any) -> None:
    which, at = first_bad(info)
    raise RuntimeError(
        f"torch.linalg.{name}: {which}U[{at},{at}] is zero and using it on lu_solve would result in a division by "
        "zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)"
    )


def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """(LU, pivots) of [*, m, n], for ``lu_solve``. RuntimeError if a pivot is zero."""
    factors, pivots, info = lu_factor_ex(A, pivot=pivot)
    if bool(info.any()):
        _refuse_zero_pivot("lu_factor", info)
    return LUFactor(factors, pivots)


def lu(A: Any, *, pivot: bool = True) -> Any:
    """(P, L, U) with ``A = P L U``: rows exchanged, ones on the diagonal of L."""
    factors, pivots, _ = lu_factor_ex(A, pivot=pivot)
    return lu_unpack(factors, pivots)


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """(P, L, U) of what ``lu_factor`` returns; empty where they are not asked for."""
    if unpack_pivots and LU_pivots.dtype is not int32:
        raise RuntimeError(f"lu: LU_pivots should be a tensor of dtype Int, but it is {LU_pivots.dtype.type_name}")
    if LU_data.ndim < 2:
        raise RuntimeError(
            f"torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {list(LU_data.shape)} instead"
        )
    nothing = None if unpack_data and unpack_pivots else empty(0, dtype=LU_data.dtype)
    L, U = call("lu_unpack", LU_data) if unpack_data else (nothing, nothing)
    P = call("lu_exchanges", LU_pivots, LU_data._aval.shape[-2], LU_data.dtype) if unpack_pivots else nothing
    return PLU(P, L, U)


@float32_in_autocast
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """The X with ``A X = B``, from ``lu_factor(A)``.

    Args:
        LU: [*, n, n].
        B: [*, n, k]; batches broadcast.
        left: whether A stands on the left.
        adjoint: solve with ``A^H``.

    Raises:
        RuntimeError: matrices that are not square, or pivots that do not belong to them.
    """
    check_square("torch.linalg.lu_solve", LU._aval)
    if pivots.ndim < 1 or pivots.shape[-1] != LU.shape[-1]:
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    batch = same_batch(LU, B)
    if batch[0] is not LU:
        pivots = pivots.expand(batch[0].shape[:-1])
    is_turned = adjoint and LU._aval.dtype.is_complex
    X = call("linalg_lu_solve", batch[0], pivots, batch[1].conj_physical() if is_turned else batch[1], adjoint)
    return X.conj_physical() if is_turned else X
