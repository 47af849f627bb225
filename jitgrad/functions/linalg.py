"""Products of tensors of any rank.

Owns: ``matmul``'s composition of mm, bmm, mv and dot: PyTorch's, so that graphs have the same nodes; the names outside
``torch.linalg`` of what ``jitgrad.linalg`` has.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jitgrad.door import door
from jitgrad.dtypes import BOOLEAN, HALVES
from jitgrad.functions._bind import binary
from jitgrad.functions.devices import in_float32, lowered
from jitgrad.functions.views import conjugated, reshape, reshape_result
from jitgrad.lazy import LazyModule
from jitgrad.ops.shapes import broadcast, check_fits, check_same_dtype, numel, refuse
from jitgrad.ops.table import OPS
from jitgrad.state import autocasts
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import warn_once

_SYSTEMS = LazyModule("jitgrad.linalg.systems")
_LINALG, _FACTORS = LazyModule("jitgrad.linalg"), LazyModule("jitgrad.linalg.decompositions")

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "cross",
    "det",
    "dist",
    "dot",
    "ger",
    "inner",
    "inverse",
    "linear",
    "logdet",
    "lu_solve",
    "lu_unpack",
    "matmul",
    "matrix_exp",
    "matrix_power",
    "mm",
    "mv",
    "outer",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "trace",
    "triangular_solve",
    "vdot",
]


_MM, _BMM, _MV, _DOT = OPS["mm"], OPS["bmm"], OPS["mv"], OPS["dot"]
_ADDMM, _LINEAR, _LINEAR_NOBIAS = OPS["addmm"], OPS["linear"], OPS["linear_nobias"]
_VIEW, _UNSAFE_VIEW = OPS["view"], OPS["unsafe_view"]
_EXPAND, _UNSQUEEZE = OPS["expand"], OPS["unsqueeze"]
_ADD = OPS["add"]

mv = binary("mv", "A matrix times a vector.")
dot = binary("dot", "The inner product of two vectors.")


def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices."""
    if autocasts:
        input, mat2 = lowered(input, mat2)
    return door.apply(_MM, input, mat2)


def bmm(input: Any, mat2: Any) -> Any:
    """Products of two batches of matrices."""
    if autocasts:
        input, mat2 = lowered(input, mat2)
    return door.apply(_BMM, input, mat2)


def matmul(input: Any, other: Any) -> Any:
    """The matrix product with NumPy's rules for other ranks: vectors gain and lose a dimension, batches broadcast.

    Raises:
        RuntimeError: if an operand has no dimensions, or inner extents or batches do not fit.
    """
    if autocasts:
        input, other = lowered(input, other)
    m, n = len(input._aval.shape), len(other._aval.shape)
    if m == 2 and n == 2:
        return door.apply(_MM, input, other)
    if m == 0 or n == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    if m == 1:
        return door.apply(_DOT, input, other) if n == 1 else _vector_times(input, other)
    if n == 1:
        return door.apply(_MV, input, other) if m == 2 else _fold(input, other, _MV)
    if n == 2:
        return _fold(input, other, _MM)
    if m == 2 and input._requires_grad:  # one product of all rows: its gradient adds up nothing per batch
        return _fold(other.mT, input.t(), _MM).mT.contiguous()
    return _batched(input, other)


def _vector_times(vector: Any, matrices: Any) -> Any:
    row = matmul(door.apply(_UNSQUEEZE, vector, 0), matrices)
    shape = row._aval.shape
    return reshape_result(row, (*shape[:-2], shape[-1]))


def _fold(input: Any, other: Any, op: Any) -> Any:
    """[..., M, K] @ [K, N] or [K]: one product over all rows."""
    shape = input._aval.shape
    rows = door.apply(op, reshape(input, (math.prod(shape[:-1]), shape[-1])), other)
    return door.apply(_UNSAFE_VIEW, rows, (*shape[:-1], *other._aval.shape[1:]))


def _batched(input: Any, other: Any) -> Any:
    left, right = input._aval.shape, other._aval.shape
    batch = left[:-2]
    if batch != right[:-2]:
        batch = broadcast("matmul", batch, right[:-2])
    x, y = _one_batch(input, batch), _one_batch(other, batch)
    return door.apply(_UNSAFE_VIEW, door.apply(_BMM, x, y), (*batch, left[-2], right[-1]))


def _one_batch(x: Any, batch: tuple[int, ...]) -> Any:
    """Matrices, with these dimensions before theirs as one."""
    shape = x._aval.shape
    if len(batch) == 1 and shape[:-2] == batch:
        return x
    return reshape(_expand_batch(x, batch), (math.prod(batch), *shape[-2:]))


def _expand_batch(x: Any, batch: tuple[int, ...]) -> Any:
    shape = x._aval.shape
    return x if shape[:-2] == batch else door.apply(_EXPAND, x, (*batch, *shape[-2:]))


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (mat1 @ mat2)``."""
    if autocasts:
        input, mat1, mat2 = lowered(input, mat1, mat2)
    return door.apply(_ADDMM, input, mat1, mat2, beta, alpha)


def outer(input: Any, vec2: Any) -> Any:
    """All products of elements of two vectors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: Expected 1-D arguments, got {input.ndim}-D and {vec2.ndim}-D")
    return reshape(input, (input._aval.shape[0], 1)) * vec2


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """``input @ weight.T + bias`` with weight [out, in]; any leading dimensions of ``input``."""
    if autocasts:
        input, weight, bias = lowered(input, weight, bias)
    shape = input._aval.shape
    if not shape or not weight.ndim:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {len(shape)}D and {weight.ndim}D"
        )
    if weight.ndim == 1 and bias is None:
        return matmul(input, weight)
    if len(shape) == 2:
        return door.apply(_LINEAR_NOBIAS, input, weight) if bias is None else door.apply(_LINEAR, bias, input, weight)
    if len(shape) == 1 and weight.ndim == 2:
        return _linear_of_vector(input, weight, bias)
    return _linear_of_rows(input, weight, bias)


def _linear_of_rows(input: Any, weight: Any, bias: Any) -> Any:
    """Of [..., in], as one product of all rows."""
    shape = input._aval.shape
    rows, whole = reshape(input, (math.prod(shape[:-1]), shape[-1])), (*shape[:-1], weight._aval.shape[0])
    if bias is None:
        return door.apply(_UNSAFE_VIEW, door.apply(_LINEAR_NOBIAS, rows, weight), whole)
    return door.apply(_VIEW, door.apply(_LINEAR, bias, rows, weight), whole)


def _linear_of_vector(vector: Any, weight: Any, bias: Any) -> Any:
    """As a product of a matrix and a vector: recursive networks and policies call it at each of their steps."""
    if bias is None:
        return door.apply(_MV, weight, vector)
    kind, extents = vector._aval.dtype, weight._aval.shape
    count = extents[0]
    is_usual = (*bias._aval.shape, *vector._aval.shape) == extents
    if is_usual and bias._aval.dtype is kind and weight._aval.dtype is kind:
        return door.apply(_ADD, door.apply(_MV, weight, vector), bias)
    row = door.apply(_VIEW, vector, (1, vector._aval.numel))
    return door.apply(_VIEW, door.apply(_LINEAR, bias, row, weight), (count,))


def trace(input: Any) -> Any:
    """The sum of a matrix's diagonal."""
    if autocasts:
        input, = in_float32(input)
    return door.apply(OPS["trace"], input)


def inner(input: Any, other: Any) -> Any:
    """Sums of products over the last dimension of both: [*, *]; a number multiplies. RuntimeError if they differ."""
    if not input.ndim or not other.ndim:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    if input.ndim == other.ndim == 1:
        return door.apply(_DOT, input, other)
    rows, columns = (reshape(x, (-1 if x.numel() else numel(x.shape[:-1]), x.shape[-1])) for x in (input, other))
    return reshape_result(rows.mm(columns.t()), (*input.shape[:-1], *other.shape[:-1]))


def vdot(input: Any, other: Any) -> Any:
    """``dot`` of the conjugate of ``input``."""
    return conjugated(input).dot(other)


ger = outer


def _factor(value: float, input: Any) -> float:
    """A factor in the category of what it multiplies, as PyTorch's kernels convert it."""
    if input.dtype.is_inexact:
        check_fits(value, input.dtype)
        return value
    return bool(value) if input.dtype.category is BOOLEAN else _whole(value, input.dtype)


def _whole(value: float, dtype: Any) -> int:
    """A number in an integer dtype, which negative ones wrap into. RuntimeError for one that it does not hold."""
    check_fits(value, dtype)
    return int(value) if dtype.is_signed else int(value) % (1 << 8 * dtype.itemsize)


def _added(name: str, input: Any, product: Any, beta: float, alpha: float) -> Any:
    """``beta * input + alpha * product``; the input is not looked at for beta 0, and must not widen the product."""
    shape = product.shape
    beta, alpha = (_factor(one, product) for one in (beta, alpha))
    if broadcast(name, input.shape, shape) != shape:
        raise RuntimeError(
            f"The expanded size of the tensor {list(shape)} must match the existing size {list(input.shape)} ({name})"
        )
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return product + input if beta == 1 else door.apply(OPS["add_scaled"], product, input, beta)


def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (mat @ vec)``."""
    check_same_dtype("addmv", mat, input, vec)
    return _added("addmv", input, mat.mv(vec), beta, alpha)


def addr(input: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * outer(vec1, vec2)``."""
    return _added("addr", input, outer(vec1, vec2), beta, alpha)


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (batch1 @ batch2).sum(0)``."""
    if autocasts:
        input, batch1, batch2 = lowered(input, batch1, batch2)
    check_same_dtype("addbmm", batch1, input, batch2)
    return _added("addbmm", input, batch1.bmm(batch2).sum(0, dtype=batch1.dtype), beta, alpha)


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (batch1 @ batch2)``, matrix by matrix."""
    if autocasts:
        input, batch1, batch2 = lowered(input, batch1, batch2)
    check_same_dtype("baddbmm", batch1, input, batch2)
    return _added("baddbmm", input, batch1.bmm(batch2), beta, alpha)


def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of the difference."""
    return (input - other).norm(p)


# --- linear algebra: names that are older than ``torch.linalg`` ---


def det(input: Any) -> Any:
    """The determinants of square matrices, as ``linalg.det``."""
    return _LINALG.det(input)


def slogdet(input: Any) -> Any:
    """(sign, logabsdet) of square matrices, as ``linalg.slogdet``."""
    return _LINALG.slogdet(input)


def logdet(input: Any) -> Any:
    """The logarithms of determinants; NaN where they are negative."""
    if input.dtype in HALVES:
        raise RuntimeError(f"logdet: Low precision dtypes not supported. Got {input.dtype.type_name}")
    sign, logabsdet = _LINALG.slogdet(input)
    return sign.log() + logabsdet


def inverse(input: Any) -> Any:
    """The inverses of square matrices, as ``linalg.inv``."""
    return _LINALG.inv(input)


def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The pseudo-inverses of matrices, as ``linalg.pinv`` with another tolerance."""
    if autocasts:
        input, = in_float32(input)
    return _LINALG.pinv(input, rcond)


def matrix_exp(input: Any) -> Any:
    """The exponentials of square matrices, as ``linalg.matrix_exp``."""
    return _LINALG.matrix_exp(input)


def matrix_power(input: Any, n: int) -> Any:
    """Powers of square matrices, as ``linalg.matrix_power``."""
    return _LINALG.matrix_power(input, n)


def chain_matmul(*matrices: Any) -> Any:
    """The product of several matrices, as ``linalg.multi_dot``."""
    for nr, x in enumerate(matrices):
        if not isinstance(x, TensorBase):
            raise TypeError(f"expected Tensor as element {nr} in argument 0, but got {type(x).__name__}")
    return matrices[0].clone() if len(matrices) == 1 else _LINALG.multi_dot(matrices)


def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Cross products, as ``linalg.cross``; without ``dim``, along the first dimension of extent 3."""
    if dim is None:
        shape = input._aval.shape
        if 3 not in shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = shape.index(3)
        warn_once(
            "Using cross without specifying the dim arg is deprecated. Please either pass the dim explicitly or simply "
            "use linalg.cross. The default value of dim will change to agree with that of linalg.cross in a future "
            "release."
        )
    return _LINALG.cross(input, other, dim=dim)


class SVDWithV(NamedTuple):
    """``U @ diag(S) @ V^T``."""

    U: Any
    S: Any
    V: Any


class TriangularSolution(NamedTuple):
    """The solution, and a copy of the matrix."""

    solution: Any
    cloned_coefficient: Any


def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) as ``linalg.svd``, but with V and not its transpose.

    Args:
        some: U and V have as many columns as there are singular values; otherwise they are square.
        compute_uv: False: U and V are square matrices of zeros.
    """
    if not compute_uv:
        values = _LINALG.svdvals(input)
        (*batch, m, n), zeros = input._aval.shape, OPS["full"]
        u, v = (door.apply(zeros, 0.0, (*batch, k, k), input.dtype) for k in (m, n))
        return SVDWithV(u, values, v)
    u, s, vh = _LINALG.svd(input, not some)
    return SVDWithV(u, s, vh.mH)


def qr(input: Any, some: bool = True) -> Any:
    """(Q, R) as ``linalg.qr``; ``some``: the mode "reduced", otherwise "complete"."""
    refuse("geqrf_cpu", input, HALVES)
    return _LINALG.qr(input, "reduced" if some else "complete")


def cholesky(input: Any, upper: bool = False) -> Any:
    """The factors of positive definite matrices, as ``linalg.cholesky``."""
    refuse("cholesky_cpu", input, HALVES)
    return _LINALG.cholesky(input, upper=upper)


def cholesky_solve(input: Any, L: Any, upper: bool = False) -> Any:
    """The X with ``A X = input``, of A whose factor is L: lower triangular, or ``upper``."""
    if autocasts:
        input, L = in_float32(input, L)
    refuse("cholesky_solve_cpu", input, HALVES)
    b, a = input._aval, L._aval
    for name, x in (("b", b), ("u", a)):
        if x.ndim < 2:
            raise RuntimeError(f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {b.dtype.type_name} and A of type "
            f"{a.dtype.type_name} instead"
        )
    (m, n), rows = a.shape[-2:], b.shape[-2]
    if m != n:
        raise RuntimeError(f"A must be batches of square matrices, but they are {m} by {n} matrices")
    if rows != n:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {n} by {n} but each b matrix is {rows} by "
            f"{b.shape[-1]}"
        )
    factor, right = _SYSTEMS.same_batch(L, input)
    return door.apply(OPS["cholesky_solve"], right, factor, upper)


def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """The inverse of the matrix whose factor is L: lower triangular, or ``upper``."""
    shape = L._aval.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise RuntimeError("cholesky_inverse: A must be batches of square matrices")
    if autocasts:
        L, = in_float32(L)
    refuse("cholesky_inverse_cpu", L, HALVES)
    return door.apply(OPS["cholesky_inverse"], L, upper)


def triangular_solve(b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """(solution, a copy of A) with ``A X = b``, of a triangular A; with ``transpose``, ``A^T X = b``."""
    if autocasts:
        b, A = in_float32(b, A)
    refuse("triangular_solve_cpu", A, HALVES)
    matrix = A.transpose(-2, -1) if transpose else A
    found = _LINALG.solve_triangular(matrix, b, upper=upper is not transpose, unitriangular=unitriangular)
    return TriangularSolution(found, A.clone())


def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """The X with ``A X = b``, from ``linalg.lu_factor(A)``."""
    refuse("linalg.lu_solve_cpu", LU_data, HALVES)
    return _LINALG.lu_solve(LU_data, LU_pivots, b)


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """(P, L, U) with ``A = P L U``, from ``linalg.lu_factor(A)``; empty where they are not asked for."""
    return _FACTORS.lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots)
