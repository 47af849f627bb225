"""Products of tensors of any rank.

Owns: ``matmul``'s composition of mm, bmm, mv and dot: PyTorch's, so that graphs have the same nodes.
"""

from __future__ import annotations

from typing import Any

from jitgrad.door import door
from jitgrad.functions._bind import binary
from jitgrad.functions.views import reshape, reshape_result
from jitgrad.ops.shapes import broadcast, numel
from jitgrad.ops.table import OPS

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "dist",
    "dot",
    "ger",
    "inner",
    "linear",
    "matmul",
    "mm",
    "mv",
    "outer",
    "trace",
    "vdot",
]


_MM, _BMM, _MV, _DOT = OPS["mm"], OPS["bmm"], OPS["mv"], OPS["dot"]
_ADDMM, _LINEAR, _LINEAR_NOBIAS = OPS["addmm"], OPS["linear"], OPS["linear_nobias"]
_EXPAND, _UNSQUEEZE = OPS["expand"], OPS["unsqueeze"]

mm = binary("mm", "The product of two matrices.")
bmm = binary("bmm", "Products of two batches of matrices.")
mv = binary("mv", "A matrix times a vector.")
dot = binary("dot", "The inner product of two vectors.")


def matmul(input: Any, other: Any) -> Any:
    """The matrix product with NumPy's rules for other ranks: vectors gain and lose a dimension, batches broadcast.

    Raises:
        RuntimeError: if an operand has no dimensions, or inner extents or batches do not fit.
    """
    m, n = len(input._aval.shape), len(other._aval.shape)
    if m == 2 and n == 2:
        return door.apply(_MM, input, other)
    if m == 0 or n == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    if m == 1:
        return door.apply(_DOT, input, other) if n == 1 else _vector_times(input, other)
    if n == 1:
        return door.apply(_MV, input, other) if m == 2 else _fold(input, other, _MV)
    return _fold(input, other, _MM) if n == 2 else _batched(input, other)


def _vector_times(vector: Any, matrices: Any) -> Any:
    row = matmul(door.apply(_UNSQUEEZE, vector, 0), matrices)
    shape = row._aval.shape
    return reshape_result(row, (*shape[:-2], shape[-1]))


def _fold(input: Any, other: Any, op: Any) -> Any:
    """[..., M, K] @ [K, N] or [K]: one product over all rows."""
    shape = input._aval.shape
    rows = door.apply(op, reshape(input, (numel(shape[:-1]), shape[-1])), other)
    return reshape_result(rows, (*shape[:-1], *other._aval.shape[1:]))


def _batched(input: Any, other: Any) -> Any:
    left, right = input._aval.shape, other._aval.shape
    batch = broadcast("matmul", left[:-2], right[:-2])
    count = numel(batch)
    x = reshape(_expand_batch(input, batch), (count, *left[-2:]))
    y = reshape(_expand_batch(other, batch), (count, *right[-2:]))
    return reshape_result(door.apply(_BMM, x, y), (*batch, left[-2], right[-1]))


def _expand_batch(x: Any, batch: tuple[int, ...]) -> Any:
    shape = x._aval.shape
    return x if shape[:-2] == batch else door.apply(_EXPAND, x, (*batch, *shape[-2:]))


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (mat1 @ mat2)``."""
    return door.apply(_ADDMM, input, mat1, mat2, beta, alpha)


def outer(input: Any, vec2: Any) -> Any:
    """All products of elements of two vectors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: Expected 1-D arguments, got {input.ndim}-D and {vec2.ndim}-D")
    return reshape(input, (input._aval.shape[0], 1)) * vec2


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """``input @ weight.T + bias`` with weight [out, in]; any leading dimensions of ``input``."""
    shape = input._aval.shape
    if not shape or not weight.ndim:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {len(shape)}D and {weight.ndim}D"
        )
    if weight.ndim == 1 and bias is None:
        return matmul(input, weight)
    if len(shape) == 2:
        return door.apply(_LINEAR_NOBIAS, input, weight) if bias is None else door.apply(_LINEAR, bias, input, weight)
    rows = linear(reshape(input, (numel(shape[:-1]), shape[-1])), weight, bias)
    whole = (*shape[:-1], weight._aval.shape[0])
    return reshape_result(rows, whole) if bias is None else reshape(rows, whole)


def trace(input: Any) -> Any:
    """The sum of a matrix's diagonal."""
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
    rows, columns = (reshape(x, (-1 if x.numel() else numel(x.shape[:-1]), x.shape[-1])) for x in (input, other))
    return reshape_result(rows.mm(columns.t()), (*input.shape[:-1], *other.shape[:-1]))


def vdot(input: Any, other: Any) -> Any:
    """``dot``: there are no complex numbers."""
    return input.dot(other)


ger = outer


def _added(name: str, input: Any, product: Any, beta: float, alpha: float) -> Any:
    """``beta * input + alpha * product``; the input is not looked at for beta 0, and must not widen the product."""
    shape = product.shape
    if broadcast(name, input.shape, shape) != shape:
        raise RuntimeError(
            f"The expanded size of the tensor {list(shape)} must match the existing size {list(input.shape)} ({name})"
        )
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else product + (input if beta == 1 else input * beta)


def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (mat @ vec)``."""
    return _added("addmv", input, mat.mv(vec), beta, alpha)


def addr(input: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * outer(vec1, vec2)``."""
    return _added("addr", input, outer(vec1, vec2), beta, alpha)


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (batch1 @ batch2).sum(0)``."""
    return _added("addbmm", input, batch1.bmm(batch2).sum(0), beta, alpha)


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (batch1 @ batch2)``, matrix by matrix."""
    return _added("baddbmm", input, batch1.bmm(batch2), beta, alpha)


def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of the difference."""
    return (input - other).norm(p)
