"""Distributions of matrices, and of vectors whose covariance is a matrix of low rank and a diagonal.

Owns: ``LKJCholesky``, ``LowRankMultivariateNormal``, ``Wishart``.
Must not know: how the others are computed.

Sources: D. Lewandowski, D. Kurowicka and H. Joe, "Generating random correlation matrices based on vines and extended
onion method" (2009); W. B. Smith and R. R. Hocking, "Algorithm AS 53: Wishart variate generator" (1972).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from jitgrad import linalg
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.exponential_family import ExponentialFamily
from jitgrad.distributions.gamma import Beta, Chi2
from jitgrad.distributions.multivariate_normal import scale_tril_of_precision, squared_distance
from jitgrad.distributions.utils import (
    broadcast_all,
    broadcast_shapes,
    is_number,
    lazy_property,
    standard_normal,
    vec_to_tril_matrix,
)
from jitgrad.dtypes import finfo
from jitgrad.functions import arange, digamma, lgamma, matmul, randn, tensor, where
from jitgrad.functions.gamma_products import mvlgamma
from jitgrad.functions.joining import cat, diag_embed
from jitgrad.grad_mode import no_grad

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "Wishart", "mvdigamma"]

_MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


def mvdigamma(x: Any, p: int) -> Any:
    """The derivative of ``mvlgamma``."""
    return digamma(x.unsqueeze(-1) - arange(p, dtype=x.dtype, device=x.device) / 2).sum(-1)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices M, with a density of M proportional to ``det(M) ** (a - 1)``.

    Args:
        dim: rows of the matrices; 2 at least.
        concentration: a; positive.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: ``dim`` is below 2.
    """

    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        like = self.concentration
        offset = arange(dim - 1, dtype=like.dtype, device=like.device)
        offset = cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, (like + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * offset)
        super().__init__(like.shape, (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand((*batch_shape, self.dim))
        return self._finish_expand(new, batch_shape, ("dim",))

    def sample(self, sample_shape: Any = ()) -> Any:
        """By the onion method: each row is a direction times the root of a beta distributed number."""
        with no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            drawn = randn(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril(-1)
            directions = drawn / drawn.norm(dim=-1, keepdim=True)
            directions[..., 0, :] = 0.0
            w = y.sqrt() * directions
            return w + diag_embed((1 - (w**2).sum(-1)).clamp(min=finfo(w.dtype).tiny).sqrt())

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        a, rest = self.concentration, self.dim - 1
        order = 2 * (a - 1).unsqueeze(-1) + self.dim - arange(2, self.dim + 1, device=a.device)
        density = (order * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        total = a + 0.5 * rest
        return density - (0.5 * rest * math.log(math.pi) + mvlgamma(total - 0.5, rest) - lgamma(total) * rest)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with the covariance ``W W^T + D``.

    Args:
        loc: the mean, [*, n].
        cov_factor: W, [*, n, r].
        cov_diag: the diagonal of D, [*, n], positive.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: shapes that do not fit.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "cov_factor": 2, "cov_diag": 1}  # noqa: RUF012
    _constants = ("_factor", "_diagonal", "_capacitance")

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if cov_diag.shape[-1:] != (n,):
            raise ValueError(f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}")
        try:
            batch = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2])
            batch = broadcast_shapes(batch, cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc.expand(*batch, n), cov_diag.expand(*batch, n)
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        self._factor, self._diagonal = cov_factor, cov_diag
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        self._capacitance = linalg.cholesky(matmul(scaled, cov_factor) + _identity_like(cov_factor))
        super().__init__(batch, (n,), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """The covariance's diagonal."""
        return (self._factor.pow(2).sum(-1) + self._diagonal).expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The covariance's Cholesky factor."""
        root = self._diagonal.sqrt().unsqueeze(-1)
        scaled = self._factor / root
        identity = diag_embed((root * 0 + 1).squeeze(-1))
        return self._expanded(root * linalg.cholesky(matmul(scaled, scaled.mT) + identity))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._expanded(matmul(self._factor, self._factor.mT) + diag_embed(self._diagonal))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The covariance's inverse, by Woodbury's identity."""
        a = self.half_inverse()
        return self._expanded(diag_embed(self._diagonal.reciprocal()) - matmul(a.mT, a))

    def half_inverse(self) -> Any:
        """The A with which the inverse is ``D^-1 - A^T A``; [*, r, n]."""
        return linalg.solve_triangular(self._capacitance, self._factor.mT / self._diagonal.unsqueeze(-2), upper=False)

    def _expanded(self, matrix: Any) -> Any:
        return matrix.expand(*self._batch_shape, *matrix.shape[-2:])

    def log_det(self) -> Any:
        """The logarithm of the covariance's determinant."""
        return 2 * self._capacitance.diagonal(dim1=-2, dim2=-1).log().sum(-1) + self._diagonal.log().sum(-1)

    def distance(self, difference: Any) -> Any:
        """Mahalanobis' distance, squared."""
        scaled = self._factor.mT / self._diagonal.unsqueeze(-2)
        inner = matmul(scaled, difference.unsqueeze(-1)).squeeze(-1)
        return (difference.pow(2) / self._diagonal).sum(-1) - squared_distance(self._capacitance, inner)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        first = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        second = standard_normal(shape, self.loc)
        return self.loc + matmul(self._factor, first.unsqueeze(-1)).squeeze(-1) + self._diagonal.sqrt() * second

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        distance = self.distance(value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self.log_det() + distance)

    def entropy(self) -> Any:
        found = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self.log_det())
        return found.expand(self._batch_shape) if self._batch_shape else found


def _identity_like(factor: Any) -> Any:
    return diag_embed(factor.new_ones(factor.shape[-1]))


class Wishart(ExponentialFamily):
    """Covariances, times ``df``, of as many normal vectors. One of the three matrices is given.

    Args:
        df: degrees of freedom; above n - 1.
        covariance_matrix: [*, n, n].
        precision_matrix: its inverse.
        scale_tril: its Cholesky factor.
        validate_args: see ``Distribution``.

    Raises:
        AssertionError: not one matrix.
        ValueError: too few dimensions, or degrees of freedom.
    """

    support = constraints.positive_definite
    has_rsample = True
    _parameters = {"df": 0, **dict.fromkeys(_MATRICES, 2), "_unbroadcasted_scale_tril": 2}  # noqa: RUF012

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = dict(zip(_MATRICES, (covariance_matrix, precision_matrix, scale_tril), strict=True))
        given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(given) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = given
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        n = matrix.shape[-1]
        count = tensor(df, dtype=matrix.dtype, device=matrix.device) if is_number(df) else df
        batch = matrix.shape[:-2] if is_number(df) else broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df = count if is_number(df) else count.expand(batch)
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        self.__dict__[name] = matrix.expand(*batch, n, n)
        if bool((self.df < n).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch, (n, n), validate_args=validate_args)
        if name == "covariance_matrix":
            matrix = linalg.cholesky(matrix)
        elif name == "precision_matrix":
            matrix = scale_tril_of_precision(matrix)
        self._unbroadcasted_scale_tril = matrix

    @property
    def arg_constraints(self) -> Any:
        """Of the matrices, and of ``df``, which depends on their size."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    @lazy_property
    def scale_tril(self) -> Any:
        """The covariance's Cholesky factor."""
        return self._expanded(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._expanded(matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The covariance's inverse."""
        inverse = linalg.inv(self._unbroadcasted_scale_tril)
        return self._expanded(matmul(inverse.mT, inverse))

    def _expanded(self, matrix: Any) -> Any:
        return matrix.expand(*self._batch_shape, *matrix.shape[-2:])

    def _times_matrix(self, factor: Any) -> Any:
        return factor.reshape(*self._batch_shape, 1, 1)

    @property
    def mean(self) -> Any:
        return self._times_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self._event_shape[-1] - 1
        return self._times_matrix(where(factor <= 0, math.nan, factor)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        return self._times_matrix(self.df) * (matrix.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _drawn(self, sample_shape: Any) -> Any:
        """By Bartlett's decomposition: roots of chi-squared numbers on a diagonal, normal ones below it."""
        n = self._event_shape[-1]
        offsets = arange(n, dtype=self._unbroadcasted_scale_tril.dtype, device=self._unbroadcasted_scale_tril.device)
        roots = Chi2(self.df.unsqueeze(-1) - offsets, validate_args=False).rsample(sample_shape).sqrt()
        roots = roots.clamp(min=finfo(roots.dtype).eps).expand(*sample_shape, *self._batch_shape, n)
        below = randn((*sample_shape, *self._batch_shape, n * (n - 1) // 2), dtype=roots.dtype, device=roots.device)
        noise = diag_embed(roots)
        factor = matmul(self._unbroadcasted_scale_tril, noise + vec_to_tril_matrix(below, -1) if n > 1 else noise)
        return matmul(factor, factor.mT)

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        """Samples; ``max_try_correction`` is accepted: samples are drawn once, and are not looked at."""
        return self._drawn(tuple(sample_shape))

    def _half_log_det(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        df, n = self.df, self._event_shape[-1]
        inverse = linalg.inv(self._unbroadcasted_scale_tril)
        trace = (matmul(inverse.mT, inverse) * value).sum((-2, -1))
        size = (df - n - 1) / 2 * linalg.slogdet(value)[1]
        return -df * (n * math.log(2) / 2 + self._half_log_det()) - mvlgamma(df / 2, n) + size - trace / 2

    def entropy(self) -> Any:
        df, n = self.df, self._event_shape[-1]
        size = (n + 1) * (n * math.log(2) / 2 + self._half_log_det())
        return size + mvlgamma(df / 2, n) - (df - n - 1) / 2 * mvdigamma(df / 2, n) + df * n / 2

    _mean_carrier_measure: Any = 0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Any) -> Any:
        x, y = natural_params
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * (n * math.log(2) - linalg.slogdet(-2 * x)[1]) + mvlgamma(half, n)
