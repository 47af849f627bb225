"""Distributions made of gamma distributed numbers.

Owns: ``Gamma``, ``Chi2``, ``Beta``, ``Dirichlet``, ``StudentT``; how gamma distributed numbers are drawn and
differentiated.
Must not know: other distributions.

Sources: G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables" (2000), for the numbers;
M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients" (2018), for their derivative by the
concentration a: -(dP/da) / p, with P the regularized incomplete gamma function and p its density.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.autograd.function import Function, once_differentiable
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.exponential_family import ExponentialFamily
from jitgrad.distributions.utils import broadcast_all, standard_normal, xlogy
from jitgrad.dtypes import finfo, float64
from jitgrad.functions import digamma, lgamma, log1p, one_hot, stack, tensor, where
from jitgrad.functions.drawing import draw_array
from jitgrad.functions.gamma_products import igamma
from jitgrad.ops.table import OPS

__all__ = ["Beta", "Chi2", "Dirichlet", "Gamma", "StudentT", "standard_gamma"]

_LARGE = 300.0
"""From this concentration on, derivatives come from the expansion of quantiles by Cornish and Fisher."""


class _StandardGamma(Function):
    """Gamma distributed numbers with rate 1, of the concentrations in a float64 tensor."""

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        drawn = _draw(concentration)
        ctx.save_for_backward(drawn, concentration)
        return drawn

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Any) -> Any:
        drawn, concentration = ctx.saved_tensors
        slope = _slope(drawn.detach().cpu().numpy(), concentration.detach().cpu().numpy())
        return grad_output * tensor(slope, device=drawn.device)


def standard_gamma(concentration: Any) -> Any:
    """Gamma distributed numbers with rate 1, differentiable once; none is below the smallest normal number."""
    drawn = _StandardGamma.apply(concentration.double())
    return drawn.type_as(concentration).clamp(min=finfo(concentration.dtype).tiny)


def _draw(concentration: Any) -> Any:
    """One after the other, by the host, as PyTorch draws them."""
    values = concentration.detach().cpu().numpy()
    drawn = draw_array(values.shape, float64, None, "gamma", values.ravel())
    return tensor(drawn, device=concentration.device)


def _slope(x: Any, a: Any) -> Any:
    """dx/da of gamma distributed numbers, with their quantiles held fixed; float64 arrays."""
    with np.errstate(all="ignore"):
        small = a < _LARGE
        slope = _slope_by_quantile(x, a)
        if small.any():
            slope = np.where(small, _slope_by_series(np.where(small, x, 1.0), np.where(small, a, 1.0)), slope)
    return slope


def _slope_by_series(x: Any, a: Any) -> Any:
    """P is x^a e^-x times the sum of x^k / gamma(a + k + 1), k = 0, 1, ...; p is x^(a - 1) e^-x / gamma(a)."""
    log = np.log(x)
    psi = OPS["digamma"].numpy(a + 1)  # type: ignore[misc]
    term = 1 / a  # gamma(a) x^k / gamma(a + k + 1)
    total = term * (log - psi)
    k = 0
    while True:
        k += 1
        psi = psi + 1 / (a + k)
        term = term * x / (a + k)
        total += term * (log - psi)
        if k > 20 and not (term * (np.abs(log - psi) + 1) > 1e-17 * np.abs(total)).any():
            return -total * x


def _slope_by_quantile(x: Any, a: Any) -> Any:
    """x is a + z a^(1/2) + (z^2 - 1) / 3 + (z^3 - 7z) / 36 a^(1/2), with z a normal quantile."""
    root = np.sqrt(a)
    z = (x - a) / root
    for _ in range(8):
        z = (x - a - (z * z - 1) / 3 - (z**3 - 7 * z) / (36 * root)) / root
    return 1 + z / (2 * root) - (z**3 - 7 * z) / (72 * a * root)


class Gamma(ExponentialFamily):
    """The gamma distribution.

    Args:
        concentration: the shape, often called alpha; positive.
        rate: one over the scale; positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    _parameters = {"concentration": 0, "rate": 0}  # noqa: RUF012

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return (drawn / self.rate).clamp(min=finfo(drawn.dtype).tiny)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return xlogy(a, rate) + xlogy(a - 1, value) - rate * value - lgamma(a)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1.0 - a) * digamma(a)

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    _mean_carrier_measure: Any = 0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Any) -> Any:
        x, y = natural_params
        return lgamma(x + 1) + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The chi-squared distribution.

    Args:
        df: degrees of freedom; positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Points of a simplex.

    Args:
        concentration: [*, K], positive.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: ``concentration`` has no dimension.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}  # noqa: RUF012
    support = constraints.simplex
    has_rsample = True
    _parameters = {"concentration": 1}  # noqa: RUF012

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, keepdim=True)
        is_at_corner = (self.concentration < 1).all(-1).unsqueeze(-1)
        return where(is_at_corner, one_hot(mode.argmax(-1), mode.shape[-1]).type_as(mode), mode)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        a = self.concentration
        return xlogy(a - 1.0, value).sum(-1) + lgamma(a.sum(-1)) - lgamma(a).sum(-1)

    def entropy(self) -> Any:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        inner = ((a - 1.0) * digamma(a)).sum(-1)
        return lgamma(a).sum(-1) - lgamma(total) - (k - total) * digamma(total) - inner

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        return lgamma(natural_params[0]).sum(-1) - lgamma(natural_params[0].sum(-1))


class Beta(ExponentialFamily):
    """The beta distribution.

    Args:
        concentration1: often called alpha; positive.
        concentration0: often called beta; positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}  # noqa: RUF012
    support = constraints.unit_interval
    has_rsample = True
    _dirichlet: Dirichlet

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Beta, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return self._finish_expand(new, batch_shape)

    @property
    def concentration1(self) -> Any:
        """Often called alpha."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """Often called beta."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return self._dirichlet.log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Any) -> Any:
        x, y = natural_params
        return lgamma(x) + lgamma(y) - lgamma(x + y)


class StudentT(Distribution):
    """Student's t distribution.

    Args:
        df: degrees of freedom; positive.
        loc, scale: it is moved and stretched by these.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True
    _parameters = {"df": 0, "loc": 0, "scale": 0}  # noqa: RUF012

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        finite = self.scale.pow(2) * self.df / (where(self.df > 2, self.df, 3.0) - 2)
        return where(self.df > 2, finite, where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        x = standard_normal(shape, self.df)
        squares = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * x * (squares / self.df).rsqrt()

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        y, half = (value - self.loc) / self.scale, 0.5 * (self.df + 1.0)
        normalizer = self.scale.log() + 0.5 * (self.df * math.pi).log() + lgamma(0.5 * self.df) - lgamma(half)
        return -half * log1p(y**2.0 / self.df) - normalizer

    def entropy(self) -> Any:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = lgamma(half) + math.lgamma(0.5) - lgamma(more)
        return self.scale.log() + more * (digamma(more) - digamma(half)) + 0.5 * self.df.log() + log_beta
