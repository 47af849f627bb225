"""Functions of matrices, and products.

Owns: det, slogdet, matrix_power, matrix_exp, multi_dot, cross, vecdot, diagonal, vander.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from jitgrad.dtypes import BOOLEAN
from jitgrad.functions import diagonal as diagonal_view
from jitgrad.functions import matmul, roll
from jitgrad.functions.devices import lowered
from jitgrad.functions.ranges import powers
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.linear_systems import check_square
from jitgrad.ops.linalg.vector_products import check_cross
from jitgrad.ops.shapes import check_same_dtype
from jitgrad.state import autocasts

__all__ = ["cross", "det", "diagonal", "matrix_exp", "matrix_power", "multi_dot", "slogdet", "vander", "vecdot"]


class SlogDet(NamedTuple):
    """Sign and logarithm of the size of a determinant."""

    sign: Any
    logabsdet: Any


def det(A: Any) -> Any:
    """The determinants [*] of [*, n, n]. The derivative is right at singular matrices too, the second one is not
    defined there."""
    return call("_linalg_det", A)


def slogdet(A: Any) -> Any:
    """(sign, logabsdet) of [*, n, n], also of determinants that are too large or small for ``det``."""
    return SlogDet(*call("_linalg_slogdet", A))


def vander(x: Any, N: int | None = None) -> Any:
    """The Vandermonde matrices [*, n, N] of [*, n]: powers 0, ..., N - 1 of each element; N is n unless given.

    Raises:
        RuntimeError: ``N`` is below 2.
    """
    x = x if x.ndim else x.reshape(1)
    if x.dtype.category is BOOLEAN or x.dtype.is_half:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got " + x.dtype.type_name
        )
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError(f"N must be greater than 1. Got {count}.")
    return powers(x, count)


def matrix_exp(A: Any) -> Any:
    """The exponentials of [*, n, n]: sums of ``A^k / k!``."""
    return call("linalg_matrix_exp", A)


def matrix_power(A: Any, n: int) -> Any:
    """Products of ``n`` times [*, m, m], or its inverse for a negative ``n``. LinAlgError if it has none."""
    check_square("linalg.matrix_power", A._aval)
    if n < 0:
        return matrix_power(call("linalg_inv_ex", A), -n)
    if n == 0:
        return call("eye", A.shape[-1], A.shape[-1], A.dtype).expand(A.shape).clone()
    result, square = None, A
    while True:
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
        if not n:
            return result.clone() if result is A else result
        square = matmul(square, square)


def multi_dot(tensors: Any) -> Any:
    """The product of two or more matrices in the order with the fewest multiplications; the first and the last may be
    vectors. RuntimeError where they do not fit."""
    tensors = list(tensors)
    count, avals = len(tensors), [x._aval for x in tensors]
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    is_row, is_column = avals[0].ndim == 1, avals[-1].ndim == 1
    if is_row:
        tensors[0] = tensors[0].unsqueeze(0)
    if is_column:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    shapes = tuple([x._aval.shape for x in tensors])
    for i, shape in enumerate(shapes):
        if len(shape) != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {len(shape)}D")
    for i in range(count - 1):
        if shapes[i][1] != shapes[i + 1][0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(shapes[i])} and {list(shapes[i + 1])} cannot "
                "be multiplied"
            )
    result = _chain(tensors, _best_splits((shapes[0][0], *[shape[1] for shape in shapes])), 0, count - 1)
    if is_row:
        result = result.squeeze(0)
    return result.squeeze(-1) if is_column else result


@functools.lru_cache(maxsize=64)
def _best_splits(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices. T. Cormen et al., "Introduction to algorithms", 15.2."""
    count = len(sizes) - 1
    costs, splits = {(i, i): 0 for i in range(count)}, {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs[i, j], splits[i, j] = min(
                (costs[i, k] + costs[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return splits


def _chain(tensors: list[Any], splits: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return tensors[i]
    k = splits[i, j]
    return matmul(_chain(tensors, splits, i, k), _chain(tensors, splits, k + 1, j))


def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """Cross products of vectors of three along ``dim``; the other dimensions broadcast."""
    check_cross(input._aval, other._aval, dim)
    check_same_dtype("linalg.cross", input, other)
    if not input._aval.dtype.is_half:
        return call("linalg_cross", input, other, dim)
    # of halves, products are rounded before they are subtracted
    return roll(input, -1, dim) * roll(other, -2, dim) - roll(input, -2, dim) * roll(other, -1, dim)


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Inner products along ``dim``, of the conjugate of ``x``; the other dimensions broadcast."""
    if autocasts:
        x, y = lowered(x, y)
    if not x.dtype.is_inexact:
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype.type_name}"
        )
    check_same_dtype("linalg.vecdot", x, y)
    return ((x.conj() if x.dtype.is_complex else x) * y).sum(dim)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """A view of the diagonals of matrices."""
    return diagonal_view(A, offset, dim1, dim2)
