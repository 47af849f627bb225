"""Norms of matrices, their condition and rank.

Owns: matrix_norm, norm, cond, matrix_rank.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import finfo
from jitgrad.functions import full, vector_norm, where
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linear_systems import check_square

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
    rows, columns = (d % A.ndim for d in dim)
    if ord in ("nuc", 2, -2):
        values = call("_linalg_svd", A.movedim((rows, columns), (-2, -1)), False)[1]
        found = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord > 0 else values.amin(-1)
        return found.unsqueeze(min(rows, columns)).unsqueeze(max(rows, columns)) if keepdim else found
    summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = A.abs().sum(summed, keepdim=True)
    found = sums.amax(kept, keepdim=True) if ord > 0 else sums.amin(kept, keepdim=True)
    return found if keepdim else found.squeeze(max(rows, columns)).squeeze(min(rows, columns))


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """``matrix_norm`` of two dimensions if an order is given for them, else ``vector_norm``."""
    A = A if dtype is None else A.to(dtype)
    if ord is not None and ((isinstance(dim, tuple | list) and len(dim) == 2) or (dim is None and A.ndim == 2)):
        return matrix_norm(A, ord, (-2, -1) if dim is None else tuple(dim), keepdim)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim)


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
        largest, smallest = values.amax(-1), values.amin(-1)
        return smallest / largest if p == -2 else largest / smallest
    if p not in ("fro", "nuc", 1, -1, float("inf"), -float("inf")):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    check_square(f"linalg.cond(ord={p})", A._aval)
    is_singular = call("_linalg_det", A.detach()) == 0
    wide = is_singular.unsqueeze(-1).unsqueeze(-1)
    safe = where(wide, call("eye", A.shape[-1], A.shape[-1], A.dtype), A)
    found = matrix_norm(A, p) * matrix_norm(call("linalg_inv_ex", safe), p)
    return where(is_singular, float("inf"), found)


@float32_in_autocast
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """How many singular values are above ``max(atol, rtol * the largest)``, in int64.

    Args:
        tol: another name of ``atol``, without any ``rtol``.
        hermitian: the matrices are symmetric.
        rtol: max(m, n) times the dtype's epsilon unless it or ``atol`` is given.
    """
    A = A.detach()
    m, n = A.shape[-2:]
    if not m or not n:
        return full(A.shape[:-2], 0, dtype=None).long()
    values = call("_linalg_eigh", A, False)[0].abs() if hermitian else call("_linalg_svd", A, False)[1]
    if tol is not None:
        atol, rtol = tol, 0.0
    if rtol is None:
        rtol = finfo(A.dtype).eps * max(m, n) if atol is None else 0.0
    limit = values.amax(-1, keepdim=True) * rtol
    return (values > (limit if atol is None else limit.clamp(min=atol))).sum(-1)
