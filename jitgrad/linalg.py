"""Linear algebra, under the names of ``torch.linalg``: systems of equations, inverses, norms, Cholesky factors.

In a compiled step systems and inverses run eagerly (``stats()["fallbacks"]`` counts them). Both are differentiable any
number of times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.errors import LinAlgError
from jitgrad.functions import vector_norm
from jitgrad.ops.table import OPS

__all__ = ["LinAlgError", "cholesky", "inv", "matrix_norm", "norm", "solve", "vector_norm"]

_SOLVE, _INV, _CHOLESKY = (OPS[f"linalg_{name}_ex"] for name in ("solve", "inv", "cholesky"))


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
    if A.ndim < 2:
        raise RuntimeError("linalg.solve: The input tensor A must have at least 2 dimensions.")
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    if is_vector:
        B = B.unsqueeze(-1)
    if not left:
        if is_vector or A.shape[-1] != B.shape[-1]:
            sizes = [f"{x.shape[-2]}x{x.shape[-1]}" for x in (A, B)]
            raise RuntimeError(
                f"linalg.solve: Incompatible shapes of A and B for the equation XA = B ({sizes[0]} and {sizes[1]})"
            )
        return solve(A.transpose(-2, -1), B.transpose(-2, -1)).transpose(-2, -1)
    if A.shape[:-2] != B.shape[:-2]:
        batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
        A, B = A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])
    X = door.apply(_SOLVE, A, B)
    return X.squeeze(-1) if is_vector else X


def inv(A: Any) -> Any:
    """The inverses of [*, n, n]; for ``inv(A) @ B`` prefer ``solve``.

    Raises:
        RuntimeError: the matrices are not square, or not floating.
        LinAlgError: a matrix is singular.
    """
    return door.apply(_INV, A)


def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangular L with ``L L^T = A``, of symmetric positive definite [*, n, n].

    Args:
        A: only its lower triangle is looked at.
        upper: return ``L^T``.

    Raises:
        RuntimeError: the matrices are not square, or not floating.
        LinAlgError: a matrix is not positive definite.
    """
    factor = door.apply(_CHOLESKY, A.transpose(-2, -1) if upper else A)
    return factor.transpose(-2, -1) if upper else factor


def matrix_norm(A: Any, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False) -> Any:
    """Norms of matrices: ``"fro"``, 1, -1, inf or -inf.

    Raises:
        ValueError: another ``ord`` (2, -2 and ``"nuc"`` need singular values, which jitgrad does not have).
    """
    if ord == "fro":
        return vector_norm(A, 2, dim, keepdim)
    if ord not in (1, -1, float("inf"), -float("inf")):
        raise ValueError(f"linalg.matrix_norm: Order {ord} not supported.")
    rows, columns = (d % A.ndim for d in dim)
    summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = A.abs().sum(summed, keepdim=True)
    found = sums.amax(kept, keepdim=True) if ord > 0 else sums.amin(kept, keepdim=True)
    return found if keepdim else found.squeeze(max(rows, columns)).squeeze(min(rows, columns))


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Any:
    """``matrix_norm`` of two dimensions if an order is given for them, else ``vector_norm``."""
    if ord is not None and (isinstance(dim, tuple | list) or (dim is None and A.ndim == 2)):
        return matrix_norm(A, ord, (-2, -1) if dim is None else tuple(dim), keepdim)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim)
