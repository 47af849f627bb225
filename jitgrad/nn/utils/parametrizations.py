"""Parametrizations that PyTorch has: orthogonal matrices, weight and spectral normalisation.

Owns: them. How a parametrization is registered is in ``parametrize.py``.

Sources: Lezcano-Casado, "Trivializations for Gradient-Based Optimization on Manifolds", 2019 (orthogonal); Schreiber
and Van Loan, "A Storage-Efficient WY Representation for Products of Householder Transformations", 1989; and those of
``norms.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import int64
from jitgrad.functions import cat, diag_embed, eye, from_numpy, matmul, randn, tril, triu
from jitgrad.grad_mode import no_grad
from jitgrad.linalg import matrix_exp, qr, solve, solve_triangular
from jitgrad.nn import functional as F
from jitgrad.nn.module import Module
from jitgrad.nn.utils.norms import as_matrix, norm_dim, norm_except_dim, weight_of
from jitgrad.nn.utils.parametrize import register_parametrization
from jitgrad.nn.utils.spectral_norm import start_vector
from jitgrad.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _tensor_of(module: Module, name: str) -> Tensor:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


# --- orthogonal ---


def _transposed(x: Any) -> Any:
    return x.transpose(-2, -1)


def _diagonal(x: Any) -> Any:
    return x.diagonal(0, -2, -1)


def _orthogonal_factor(a: Any) -> Any:
    """Q of the QR decomposition whose R has a positive diagonal."""
    q, r = qr(a)
    return q * _diagonal(r).sign().unsqueeze(-2)


def _reflections(a: Any, tau: Any) -> Any:
    """The first columns of the product of reflections 1 - tau v v^T; ``a`` has the v below its diagonal of ones."""
    n, k = a.shape[-2:]
    v = tril(a, -1) + eye(n, k, dtype=a.dtype, device=a.device)
    inverse = triu(matmul(_transposed(v), v), 1) + diag_embed(1.0 / tau)
    return eye(n, k, dtype=a.dtype, device=a.device) - matmul(
        v, solve_triangular(inverse, _transposed(v.narrow(-2, 0, k)), upper=True)
    )


def _raw_factors(q: Any) -> tuple[Any, Any]:
    """LAPACK's (a, tau) of the QR decomposition."""
    a, tau = np.linalg.qr(q.detach().cpu().numpy(), mode="raw")
    return from_numpy(np.swapaxes(a, -1, -2).copy()).to(q.device), from_numpy(tau.copy()).to(q.device)


class _Orthogonal(Module):
    """Orthogonal matrices (columns or rows, whichever are fewer), from matrices without constraints.

    Attributes:
        base: what the map is multiplied by, so that it starts anywhere; None before the first assignment.
        orthogonal_map: one of ``_MAPS``.
        shape: of the matrices.
    """

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        """(*, n, k) to (*, n, k)."""
        n, k = X.shape[-2:]
        if n < k:
            return _transposed(self._map(_transposed(X), k, n))
        return self._map(X, n, k)

    def _map(self, x: Any, n: int, k: int) -> Any:
        if self.orthogonal_map == "householder":
            below = tril(x, -1)
            q = _reflections(below, 2.0 / (1.0 + (below * below).sum(-2)))
            q = q * _diagonal(x).detach().to(int64).unsqueeze(-2)
        else:
            x = tril(x)
            if n != k:
                x = F.pad(x, (0, n - k))
            skew = x - _transposed(x)
            if self.orthogonal_map == "matrix_exp":
                q = matrix_exp(skew)
            else:
                one = eye(n, dtype=x.dtype, device=x.device)
                q = solve(one - 0.5 * skew, one + 0.5 * skew)
            q = q if n == k else q.narrow(-1, 0, k)
        return matmul(self.base, q) if "base" in self._buffers else q

    def right_inverse(self, Q: Any) -> Any:
        """What is mapped to ``Q``, or to an orthogonal matrix near it if it is none.

        Raises:
            ValueError: for another shape.
            NotImplementedError: without trivialization, but for the map "householder".
        """
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        n, k = Q.shape[-2:]
        is_wide = n < k
        with no_grad():
            q = _transposed(Q) if is_wide else Q
            if "base" not in self._buffers:
                found = self._without_base(q)
                return _transposed(found) if is_wide else found
            n, k = q.shape[-2:]
            if n != k:
                more = randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
                q = _orthogonal_factor(cat([q, more], -1))
            else:
                q = q.clone() if _is_orthogonal(q) else _orthogonal_factor(q)
            self.base = q
            start = eye(*Q.shape[-2:], dtype=Q.dtype, device=Q.device) * -1.0
            return start.expand(Q.shape).clone()

    def _without_base(self, q: Any) -> Any:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        a, tau = _raw_factors(q)
        signs = _diagonal(a).sign() * (1.0 - 2.0 * (tau == 0.0).to(a.dtype))
        moved = diag_embed(signs - _diagonal(a))
        return a + F.pad(moved, (0, 0, 0, a.shape[-2] - a.shape[-1]))


def _is_orthogonal(q: Any) -> bool:
    n, k = q.shape[-2:]
    eps = 10.0 * n * float(np.finfo(q.dtype.np).eps)
    product = matmul(_transposed(q), q)
    one = eye(k, dtype=q.dtype, device=q.device)
    return bool(((product - one).abs() <= eps + 1e-5 * one).all())


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Train a weight among the orthogonal matrices: its columns, or its rows if they are fewer, are orthonormal.

    Args:
        module: whose weight.
        name: of the weight, (*, n, k).
        orthogonal_map: "matrix_exp", "cayley" or "householder"; the first for square matrices and the last for others
            if None.
        use_trivialization: the map starts from the present weight, if that is orthogonal.

    Raises:
        ValueError: for another map, and for a name of no matrix.
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    found = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, found, unsafe=True)


# --- weight norm ---


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Any:
        """The weight of these norms and directions."""
        return weight_of(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """(norms, directions)."""
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train a weight as its norms ("original0") and its direction ("original1").

    State dictionaries of the older ``nn.utils.weight_norm`` can be loaded.

    Args:
        module: whose weight.
        name: of the weight.
        dim: along which it has norms; None: it has one norm.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: Any, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


# --- spectral norm ---


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            for name, count in zip(("_u", "_v"), matrix.shape, strict=True):
                drawn = start_vector(count, matrix, eps)
                self.register_buffer(name, drawn)
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Any, n_power_iterations: int) -> None:
        """Move ``_u`` and ``_v`` towards the largest singular value's vectors."""
        with no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(F.normalize(matmul(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matmul(matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        """The weight, divided by its largest singular value."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next call changes the buffers, this one's graph has these
        return weight / (u * matmul(matrix, v)).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: a weight that is divided once more changes little."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value, which some power iterations per call follow while training.

    Args:
        module: whose weight.
        name: of the weight.
        n_power_iterations: per call.
        eps: the least norm that a vector is divided by.
        dim: of the weight's outputs; 0, and 1 of transposed convolutions, if None.

    Raises:
        ValueError: there is no such tensor, or there are no iterations.
        IndexError: for another dimension.
    """
    weight = _tensor_of(module, name)
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, norm_dim(module, dim), eps)
    )
