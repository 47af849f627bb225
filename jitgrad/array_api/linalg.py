"""The array API's linear algebra: its four functions, and the extension ``linalg``.

Owns: their signatures. What they compute are the functions of ``jitgrad.linalg``.
"""

from __future__ import annotations

from typing import Any

from jitgrad import functions
from jitgrad import linalg as library
from jitgrad.array_api.dtype_functions import common
from jitgrad.dtypes import DType
from jitgrad.functions import products

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip


def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product."""
    return functions.matmul(*common(x1, x2))


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes swapped. ValueError if there are not so many."""
    if x.ndim < 2:
        raise ValueError("matrix_transpose() takes arrays of at least two axes")
    return functions.transpose(x, -1, -2)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """The sum of products over axes of both arrays: a number of them, or a sequence for each."""
    x1, x2 = common(x1, x2)
    return products.tensordot(x1, x2, axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sum of products along one axis, broadcast over the others."""
    x1, x2 = common(x1, x2)
    return functions.sum(x1 * x2, axis, dtype=x1.dtype)


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The triangular factor of positive definite matrices."""
    return library.cholesky(x, upper=upper)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product along an axis of three elements."""
    return library.cross(*common(x1, x2), dim=axis)


def det(x: Any, /) -> Any:
    """The determinant."""
    return library.det(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """A diagonal of each matrix."""
    return functions.diagonal(x, offset, -2, -1)


def eigh(x: Any, /) -> Any:
    """(eigenvalues, eigenvectors) of symmetric matrices."""
    return library.eigh(x)


def eigvalsh(x: Any, /) -> Any:
    """Eigenvalues of symmetric matrices."""
    return library.eigvalsh(x)


def inv(x: Any, /) -> Any:
    """The inverse."""
    return library.inv(x)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """A norm of each matrix."""
    return library.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Any, n: int, /) -> Any:
    """A power of square matrices."""
    return library.matrix_power(x, n)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values are larger than ``rtol`` times the largest."""
    return library.matrix_rank(x, rtol=rtol)


def outer(x1: Any, x2: Any, /) -> Any:
    """All products of elements of two vectors."""
    return functions.outer(*common(x1, x2))


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The pseudo-inverse."""
    return library.pinv(x, rtol=rtol)


def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """(Q, R)."""
    return library.qr(x, mode)


def slogdet(x: Any, /) -> Any:
    """(sign, logabsdet) of the determinant."""
    return library.slogdet(x)


def solve(x1: Any, x2: Any, /) -> Any:
    """The solutions of linear systems. ``x2`` holds matrices, unless it has one axis."""
    x1, x2 = common(x1, x2)
    return library.solve(x1, x2.unsqueeze(-1)).squeeze(-1) if x2.ndim == 1 else library.solve(x1, x2)


def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """(U, S, Vh)."""
    return library.svd(x, full_matrices)


def svdvals(x: Any, /) -> Any:
    """Singular values."""
    return library.svdvals(x)


def trace(x: Any, /, *, offset: int = 0, dtype: DType | None = None) -> Any:
    """The sum of a diagonal of each matrix."""
    return functions.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """A norm over axes, as if they were one; None: over all."""
    return library.vector_norm(x, ord, axis, keepdims)
