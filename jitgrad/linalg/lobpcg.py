"""A few eigenpairs of a large symmetric matrix.

Owns: ``lobpcg``.

Source: A. V. Knyazev (2001), "Toward the optimal preconditioned eigensolver: Locally optimal block preconditioned
conjugate gradient method". The basis of each step is made orthonormal as in A. Stathopoulos and K. Wu (2002), "A block
orthogonalization procedure with constant synchronization requirements".
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from jitgrad import linalg
from jitgrad.autograd.function import Function
from jitgrad.dtypes import finfo
from jitgrad.functions import cat, matmul, randn, where
from jitgrad.grad_mode import no_grad
from jitgrad.tensor_base import TensorBase

__all__ = ["lobpcg"]

_MAX_ITERATIONS = 1000


def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[Any], None] | None = None,
    ortho_iparams: dict[str, Any] | None = None,
    ortho_fparams: dict[str, Any] | None = None,
    ortho_bparams: dict[str, Any] | None = None,
) -> tuple[Any, Any]:
    """The k largest eigenvalues of ``A x = e B x``, and their vectors, by products with A alone.

    Args:
        A: [*, m, m], symmetric; a sparse one has no batch.
        k: how many; the number of columns of ``X``, or 1.
        B: [*, m, m], positive definite; the identity if None.
        X: [*, m, n]: where to start; normal random numbers if None.
        n: how many vectors are iterated, k at least; 3 n may not be more than m.
        iK: [*, m, m]: an approximate inverse of A, which makes it converge sooner.
        niter: how many iterations at most; 1000 if None, without a bound if -1.
        tol: residuals, relative to the norms of A, B and the vectors, below which an eigenpair is found; the square
            root of the dtype's epsilon if None.
        largest: False: the smallest eigenvalues.
        method: "ortho" or "basic": which words of PyTorch are known; there is one method.
        tracker: called at every iteration with an object that has ``E``, ``X``, ``S``, ``R`` and ``ivars``, whose
            ``istep`` and ``converged_count`` are numbers.
        ortho_iparams, ortho_fparams, ortho_bparams: no effect.

    Returns:
        Eigenvalues, [*, k], and vectors, [*, m, k]. Differentiable by A if it is dense and there is no B.

    Raises:
        ValueError: the matrix is too small for n vectors, another method, or a gradient with ``B``.
    """
    if method not in (None, "ortho", "basic"):
        raise ValueError(f"lobpcg: method must be 'ortho' or 'basic', not {method!r}")
    _check_size(A, k, X, n)
    options = (k, B, X, n, iK, niter, tol, largest is not False, tracker)
    needs_grad = A.requires_grad or (B is not None and B.requires_grad)
    if not needs_grad or A.is_sparse:
        with no_grad():
            return _batched(A, options)
    if B is not None:
        raise ValueError("lobpcg.backward: derivatives of the generalized problem, with B, are not implemented")
    vectors, values = _Eigenpairs.apply(A, options)
    return values, vectors


def _check_size(A: Any, k: int | None, X: Any, n: int | None) -> None:
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"lobpcg: A must be square matrices, not of shape {tuple(A.shape)}")
    count = n or max(k or 1, 0 if X is None else X.shape[-1])
    if A.shape[-1] < 3 * count:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={A.shape[-1]}) is smaller than 3 x the "
            f"number of requested eigenpairs (={count})"
        )


class _Eigenpairs(Function):
    """With the derivative of all eigenpairs, of which most do not matter."""

    @staticmethod
    def forward(ctx: Any, A: Any, options: tuple[Any, ...]) -> tuple[Any, Any]:
        values, vectors = _batched(A, options)
        ctx.save_for_backward(A, values, vectors)
        return vectors, values

    @staticmethod
    def backward(ctx: Any, grad_vectors: Any, grad_values: Any) -> tuple[Any, None]:
        """dA's part of dx is the sum over other eigenpairs (f, y) of ``y (y dA x) / (e - f)``."""
        A, values, vectors = ctx.saved_tensors
        all_values, all_vectors = linalg.eigh((A + A.mT) / 2)
        gaps = values.unsqueeze(-2) - all_values.unsqueeze(-1)
        is_other = gaps.abs() > finfo(A.dtype).eps ** 0.5 * all_values.abs().amax(-1, keepdim=True).unsqueeze(-1)
        shares = where(is_other, matmul(all_vectors.mT, grad_vectors) / where(is_other, gaps, 1.0), 0.0)
        columns = matmul(all_vectors, shares) + vectors * grad_values.unsqueeze(-2)
        found = matmul(columns, vectors.mT)
        return (found + found.mT) / 2, None


def _batched(A: Any, options: tuple[Any, ...]) -> tuple[Any, Any]:
    if A.dim() == 2:
        return _iterate(A, *options)
    k, B, X, n, iK, *rest = options
    shape = A.shape[:-2]

    def rows(x: Any) -> Any:
        if not isinstance(x, TensorBase):
            return [x] * shape.numel()
        return x.expand(*shape, *x.shape[-2:]).reshape(-1, *x.shape[-2:])

    each = zip(rows(A), rows(B), rows(X), rows(iK), strict=True)
    found = [_iterate(a, k, b, x, n, i, *rest) for a, b, x, i in each]
    values, vectors = (cat([one[part].unsqueeze(0) for one in found]) for part in (0, 1))
    return values.reshape(*shape, -1), vectors.reshape(*shape, *vectors.shape[-2:])


def _iterate(
    A: Any, k: Any, B: Any, X: Any, n: Any, iK: Any, niter: Any, tol: Any, largest: bool, tracker: Any
) -> tuple[Any, Any]:
    count, m = k or (1 if X is None else X.shape[-1]), A.shape[-1]
    dtype = A.dtype
    X = randn(m, n or count, dtype=dtype, device=A.device) if X is None else X
    tol = finfo(dtype).eps ** 0.5 if tol is None else tol
    limit = _MAX_ITERATIONS if niter is None else niter
    S, previous, step, size = X, None, 0, X.shape[-1]
    scale: Any = None
    while True:
        Q = _orthonormal(S, B)
        values, inner = linalg.eigh(matmul(Q.mT, matmul(A, Q)))
        if largest:
            values, inner = values.flip(-1), inner.flip(-1)
        E, inner = values[:size], inner[:, :size]
        X = matmul(Q, inner)
        AX, BX = matmul(A, X), X if B is None else matmul(B, X)
        R = AX - BX * E
        scale = _norm(AX) + E.abs().max() * _norm(BX) if scale is None else scale
        converged = int((R.norm(dim=0) / (X.norm(dim=0) * scale) < tol)[:count].sum())
        if tracker is not None:
            tracker(SimpleNamespace(E=E, X=X, S=S, R=R, ivars={"istep": step, "converged_count": converged}))
        if converged == count or step == limit:
            return E[:count], X[:, :count]
        W = R if iK is None else matmul(iK, R)
        parts = [X, W] if previous is None else [X, W, X - matmul(previous, _product(previous, X, B))]
        S, previous, step = cat(parts, -1), X, step + 1


def _norm(x: Any) -> Any:
    """Of the vectors that a matrix made of unit vectors, the longest: a bound of its norm from below."""
    return x.norm(dim=0).max()


def _product(a: Any, b: Any, B: Any) -> Any:
    return matmul(a.mT, b if B is None else matmul(B, b))


def _orthonormal(S: Any, B: Any) -> Any:
    """A basis of what the columns span, orthonormal in B's sense; directions that are hardly there are dropped."""
    for _ in range(2):  # the second time repairs what rounding left
        S = S / S.norm(dim=0).clamp(min=finfo(S.dtype).tiny)
        values, vectors = linalg.eigh(_product(S, S, B))
        kept = values > finfo(S.dtype).eps * values.max() * len(values)
        S = matmul(S, vectors[:, kept] * values[kept].rsqrt())
    return S
