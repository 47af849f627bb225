"""Systems of linear equations, inverses, least squares.

Owns: solve, solve_ex, solve_triangular, inv, inv_ex, pinv, lstsq, tensorsolve, tensorinv.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jitgrad.door import door
from jitgrad.dtypes import finfo, int32, int64
from jitgrad.errors import LinAlgError
from jitgrad.functions import empty, where
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.linear_systems import NOT_INVERTED, NOT_SOLVED, check_square, first_bad_of
from jitgrad.ops.shapes import broadcast, wrap_dim
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

__all__ = [
    "first_bad", "inv", "inv_ex", "lstsq", "pinv", "same_batch", "solve", "solve_ex", "solve_triangular", "tensorinv",
    "tensorsolve",
]  # fmt: skip

_SOLVE, _INV = (OPS[f"linalg_{name}_ex"] for name in ("solve", "inv"))


def same_batch(a: Any, b: Any) -> tuple[Any, Any]:
    """Both with the batch that they broadcast to."""
    left, right = a._aval.shape[:-2], b._aval.shape[:-2]
    if left == right:
        return a, b
    check_square("linalg.solve", a._aval)
    batch = broadcast("linalg.solve", left, right)
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])


@float32_in_autocast
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """The X with ``A X = B``, or ``X A = B``.

    Args:
        A: [*, n, n].
        B: [*, n, k], or the vectors [n] or [*, n]; batches broadcast.
        left: whether A stands on the left.

    Returns:
        Shaped as B, with the broadcast batch.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or are not floating.
        LinAlgError: a matrix is singular.
    """
    a, b = A._aval, B._aval
    if a.ndim < 2:
        raise RuntimeError("linalg.solve: The input tensor A must have at least 2 dimensions.")
    is_vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])
    if is_vector:
        B = B.unsqueeze(-1)
    if not left:
        if is_vector or A.shape[-1] != B.shape[-1]:
            sizes = [f"{x.shape[-2]}x{x.shape[-1]}" for x in (A, B)]
            raise RuntimeError(
                f"linalg.solve: Incompatible shapes of A and B for the equation XA = B ({sizes[0]} and {sizes[1]})"
            )
        return solve(A.transpose(-2, -1), B.transpose(-2, -1)).transpose(-2, -1)
    X = door.apply(_SOLVE, *same_batch(A, B))
    return X.squeeze(-1) if is_vector else X


@float32_in_autocast
def inv(A: Any) -> Any:
    """The inverses of [*, n, n]; for ``inv(A) @ B`` prefer ``solve``.

    Raises:
        RuntimeError: the matrices are not square, or not floating.
        LinAlgError: a matrix is singular.
    """
    return door.apply(_INV, A)


class InverseEx(NamedTuple):
    """Inverses, and per matrix 0 or which pivot is zero."""

    inverse: Any
    info: Any


class SolveEx(NamedTuple):
    """Solutions, and per matrix 0 or which pivot is zero."""

    result: Any
    info: Any


def first_bad(info: Any) -> tuple[str, int]:
    """(Which matrix of a batch is the first one that is not well, as PyTorch says it; its number in ``info``)."""
    return first_bad_of(info.detach().cpu().numpy())


def _regular(name: str, A: Any, error: str | None) -> tuple[Any, Any]:
    """The matrices, singular ones replaced by the identity, and which pivots of them are zero. ``error``: the end of
    LinAlgError's message, which says at "{pivot}" which one is; None: there is no error."""
    check_square(name, A._aval)
    if not A._aval.numel:
        return A, A.new_zeros(A.shape[:-2], dtype=int32)
    info = call("linalg_lu_factor_ex", A.detach(), True)[2]
    if not bool(info.any()):
        return A, info
    if error is not None:
        which, pivot = first_bad(info)
        raise LinAlgError(f"{name}: {which}{error.format(pivot=pivot)}")
    eye = call("eye", A.shape[-1], A.shape[-1], A.dtype)
    return where((info > 0).unsqueeze(-1).unsqueeze(-1), eye, A), info


@float32_in_autocast
def inv_ex(A: Any, *, check_errors: bool = False) -> InverseEx:
    """(inverse, info): as ``inv``, but a singular matrix is reported in ``info``, [*] of int32, as the number of the
    pivot that is zero; LinAlgError with ``check_errors`` only. Its inverse means nothing."""
    regular, info = _regular("linalg.inv_ex", A, NOT_INVERTED if check_errors else None)
    return InverseEx(inv(regular), info)


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """(result, info): as ``solve``, but a singular matrix is reported in ``info``, as by ``inv_ex``."""
    regular, info = _regular("torch.linalg.solve_ex", A, NOT_SOLVED if check_errors else None)
    return SolveEx(solve(regular, B, left=left), info)


def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """The X with ``A X = B``, or ``X A = B``, of a triangular A; only that triangle is looked at.

    Args:
        A: [*, n, n].
        B: [*, n, k], or [*, k, n] if A stands on the right; batches broadcast.
        upper: which triangle.
        left: whether A stands on the left.
        unitriangular: take ones for the diagonal.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or are not floating.
    """
    a, b = A._aval, B._aval
    for x, name in ((a, "A"), (b, "B")):
        if x.ndim < 2:
            raise RuntimeError(f"linalg.solve_triangular: The input tensor {name} must have at least 2 dimensions.")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            "linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type "
            f"{A.dtype.type_name} and B of type {B.dtype.type_name} instead"
        )
    if a.shape[-1] == a.shape[-2] != b.shape[-2 if left else -1]:
        sizes = [f"{x.shape[-2]}x{x.shape[-1]}" for x in (A, B)]
        raise RuntimeError(
            "linalg.solve_triangular: Incompatible shapes of A and B for the equation "
            f"{'AX' if left else 'XA'} = B ({sizes[0]} and {sizes[1]})"
        )
    if not left:
        flipped = A.transpose(-2, -1), B.transpose(-2, -1)
        return solve_triangular(*flipped, upper=not upper, unitriangular=unitriangular).transpose(-2, -1)
    return call("linalg_solve_triangular", *same_batch(A, B), upper, unitriangular)


def pinv(
    A: Any, rcond: float | None = None, hermitian: bool = False, *, atol: float | None = None, rtol: float | None = None
) -> Any:
    """The pseudo-inverses [*, n, m] of [*, m, n].

    Args:
        atol, rtol: singular values up to ``max(atol, rtol * the largest)`` count as zero; rtol is max(m, n) times the
            dtype's epsilon unless one of them is given. ``rcond`` is another name of ``rtol``.
        hermitian: the matrices are symmetric.

    Raises:
        RuntimeError: not matrices, or not floating.
    """
    if A.ndim < 2 or not A.dtype.is_inexact:
        raise RuntimeError(
            f"linalg.pinv({A.dtype.type_name}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of "
            "float, double, cfloat or cdouble types"
        )
    rtol = rtol if rcond is None else rcond
    if isinstance(atol, TensorBase) or isinstance(rtol, TensorBase):
        return _pinv_by_matrix(A, atol, rtol, hermitian)
    return call("linalg_pinv", A, atol, rtol, hermitian)


def _pinv_by_matrix(A: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """With tolerances [*] that are tensors, one for each matrix."""
    U, S, Vh = call("_linalg_svd", A, False)
    largest = S.detach().amax(-1, keepdim=True) if S._aval.numel else S.detach()
    if rtol is None:
        usual = finfo(A.dtype).eps * max(A.shape[-2:])
        rtol = usual if atol is None else where(atol > 0, 0.0, usual)
    rtol, atol = (x.unsqueeze(-1) if isinstance(x, TensorBase) and x.ndim else x for x in (rtol, atol))
    limit = largest * rtol
    if atol is not None:
        limit = where(limit > atol, limit, atol)
    kept = S.gt(limit)
    inverse = where(kept, where(kept, S, 1.0).reciprocal(), 0.0)
    return Vh.mH @ (inverse.unsqueeze(-1) * U.mH)


class LeastSquares(NamedTuple):
    """What ``lstsq`` found."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


@float32_in_autocast
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The X with the smallest ``|A X - B|``, and of these the smallest X.

    Args:
        A: [*, m, n].
        B: [*, m, k], or vectors [*, m].
        rcond: singular values up to this part of the largest count as zero.
        driver: gels, gelsy (the default), gelsd or gelss. All solve by the pseudo-inverse; only the last two return
            singular values, and gelsy returns no residuals.

    Returns:
        (solution, residuals, rank, singular_values); residuals, sums of squares, are empty unless m > n and all ranks
        are n.

    Raises:
        RuntimeError: shapes, dtypes or the driver do not fit.
    """
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if A.dtype is not B.dtype:
        raise RuntimeError("torch.linalg.lstsq: Expected input and other to have the same dtype")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    is_vector = B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]
    right = B.unsqueeze(-1) if is_vector else B
    if right.ndim != A.ndim or right.shape[-2] != A.shape[-2]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    inverse, rank = call("linalg_pinv_rank", A, None, rcond, False)
    X = inverse @ right
    m, n = A._aval.shape[-2:]
    residuals, values = (empty(0, dtype=A.dtype.to_real()) for _ in range(2))
    if m > n and driver not in (None, "gelsy") and bool((rank == n).all()):
        rest = A @ X - right
        residuals = (rest**2 if not rest.is_complex() else rest.abs() ** 2).sum(-2)
    if driver in ("gelsd", "gelss"):
        values = call("_linalg_svd", A.detach(), False)[1]
    rank = rank if driver != "gels" else empty(0, dtype=int64)
    return LeastSquares(X.squeeze(-1) if is_vector else X, residuals, rank, values)


@float32_in_autocast
def tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:
    """The X with ``tensordot(A, X, X.ndim) = B``.

    Args:
        A: of shape [*B's, *X's], with as many elements in one as in the other.
        dims: of A, to be moved to its end first.

    Raises:
        RuntimeError: the shape does not fit.
        LinAlgError: the system is singular.
    """
    if dims is not None:
        moved = [wrap_dim(d, A.ndim) for d in dims]
        A = A.permute(*(d for d in range(A.ndim) if d not in moved), *moved)
    front, back = math.prod(A.shape[: B.ndim]), math.prod(A.shape[B.ndim :])
    if front != back:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {back} != {front}"
        )
    return solve(A.reshape(front, back), B.reshape(front)).reshape(A.shape[B.ndim :])


@float32_in_autocast
def tensorinv(A: Any, ind: int = 2) -> Any:
    """The inverse of A as a map from its last dimensions to its first ``ind``.

    Raises:
        RuntimeError: the shape does not fit.
        LinAlgError: there is no inverse.
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    front, back = math.prod(A.shape[:ind]), math.prod(A.shape[ind:])
    if front != back:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{back} != {front}"
        )
    return inv(A.reshape(front, back)).reshape(*A.shape[ind:], *A.shape[:ind])
