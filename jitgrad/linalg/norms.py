"""Norms of matrices, their condition and rank.

Owns: matrix_norm, norm, cond, matrix_rank.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import finfo
from jitgrad.functions import full, maximum, vector_norm, where
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.linear_systems import check_square
from jitgrad.ops.shapes import wrap_dim
from jitgrad.tensor_base import TensorBase

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm"]


def matrix_norm(
    A: Any, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Norms of matrices: ``"fro"``, ``"nuc"`` (the sum of singular values), 1, -1, 2, -2, inf or -inf.

    Raises:
        RuntimeError: another ``ord``, or no matrices.
    """
    A = A if dtype is None else A.to(dtype)
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    if ord == "fro":
        return vector_norm(A, 2, dim, keepdim)
    if ord not in (1, -1, 2, -2, float("inf"), -float("inf"), "nuc"):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if not isinstance(dim, tuple | list) or len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    rows, columns = (wrap_dim(d, A.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord in ("nuc", 2, -2):
        values = call("_linalg_svd", A.movedim((rows, columns), (-2, -1)), False)[1]
        found = values.sum(-1) if ord == "nuc" else _largest(values, -1) if ord > 0 else values.amin(-1)
        return found.unsqueeze(min(rows, columns)).unsqueeze(max(rows, columns)) if keepdim else found
    summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = A.abs().sum(summed, keepdim=True)
    found = _largest(sums, kept, True) if ord > 0 else sums.amin(kept, keepdim=True)
    return found if keepdim else found.squeeze(max(rows, columns)).squeeze(min(rows, columns))


def _largest(values: Any, dim: int, keepdim: bool = False) -> Any:
    """The maximum of numbers that are not negative; 0 of none."""
    return values.amax(dim, keepdim=keepdim) if values.shape[dim] else values.sum(dim, keepdim=keepdim)


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """``matrix_norm`` of two dimensions if an order is given for them, else ``vector_norm``.

    Raises:
        RuntimeError: other numbers of dimensions, or an order that they do not have.
    """
    A = A if dtype is None else A.to(dtype)
    dims = tuple(dim) if isinstance(dim, tuple | list) else None if dim is None else (dim,)
    if isinstance(ord, str):
        if dims is not None and len(dims) != 2:
            raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dims)}")
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if ord is None:
        return vector_norm(A, 2, dims, keepdim)
    if dims is None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    if len(dims or A.shape) == 2:
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim)
    return vector_norm(A, ord, dims, keepdim)


@float32_in_autocast
def cond(A: Any, p: Any = None) -> Any:
    """How much solutions of ``A x = b`` may change with b: the norm of A times that of its inverse.

    Args:
        p: the order of ``matrix_norm``; None: 2.

    Returns:
        inf for a singular matrix.

    Raises:
        RuntimeError: another order, or matrices that have no inverse by their shape, for any order but 2 and -2.
    """
    if p in (None, 2, -2):
        values = call("_linalg_svd", A, False)[1]
        if not values.shape[-1]:
            return values.sum(-1)
        largest, smallest = values.amax(-1), values.amin(-1)
        return smallest / largest if p == -2 else largest / smallest
    if p not in ("fro", "nuc", 1, -1, float("inf"), -float("inf")):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    check_square(f"linalg.cond(ord={p})", A._aval)
    if not A.shape[-1]:
        return vector_norm(A, 2, (-2, -1))
    is_singular = call("_linalg_det", A.detach()) == 0
    wide = is_singular.unsqueeze(-1).unsqueeze(-1)
    safe = where(wide, call("eye", A.shape[-1], A.shape[-1], A.dtype), A)
    found = matrix_norm(A, p) * matrix_norm(call("linalg_inv_ex", safe), p)
    return where(is_singular, float("inf"), found)


@float32_in_autocast
def _per_matrix(tolerance: Any) -> Any:
    """A number, or [*] as [*, 1]."""
    return tolerance.unsqueeze(-1) if isinstance(tolerance, TensorBase) else tolerance


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """How many singular values are above ``max(atol, rtol * the largest)``, in int64.

    Args:
        tol: another name of ``atol``, without any ``rtol``.
        hermitian: the matrices are symmetric.
        atol, rtol: numbers, or tensors [*] with one for each matrix. rtol is max(m, n) times the dtype's epsilon
            unless it is given or ``atol`` is positive.
    """
    A = A.detach()
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_rank: The input tensor input must have at least 2 dimensions.")
    m, n = A.shape[-2:]
    if not m or not n:
        return full(A.shape[:-2], 0, dtype=None).long()
    values = call("_linalg_eigh", A, False)[0].abs() if hermitian else call("_linalg_svd", A, False)[1]
    atol, rtol = (atol, rtol) if tol is None else (tol, 0.0)
    usual = finfo(A.dtype).eps * max(m, n)
    atol = _per_matrix(0.0 if atol is None else atol)
    rtol = _per_matrix(rtol)
    if rtol is None:
        is_given: Any = atol > 0
        rtol = where(is_given, 0.0, usual) if isinstance(atol, TensorBase) else 0.0 if is_given else usual
    limit = values.amax(-1, keepdim=True) * rtol
    return (values > (maximum(limit, atol) if isinstance(atol, TensorBase) else limit.clamp(min=atol))).sum(-1)
