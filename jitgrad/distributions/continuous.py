"""Distributions of real numbers with a location and a scale, an interval, or a rate.

Owns: ``Normal``, ``Laplace``, ``Cauchy``, ``Uniform``, ``Exponential``.
Must not know: other distributions.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.exponential_family import ExponentialFamily
from jitgrad.distributions.utils import broadcast_all, is_number, standard_normal
from jitgrad.dtypes import finfo
from jitgrad.functions import empty, erf, erfinv, full, log1p, normal, rand, zeros_like
from jitgrad.grad_mode import no_grad

__all__ = ["Cauchy", "Exponential", "Laplace", "LocationScale", "Normal", "Uniform"]


class LocationScale(Distribution):
    """A distribution on the real line that is moved by ``loc`` and stretched by ``scale``.

    Args:
        loc, scale: tensors or numbers; they broadcast. ``scale`` is positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    def _drawn(self, sample_shape: Any) -> Any:
        """A tensor of the samples' shape, to be filled."""
        return empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution.

    Args:
        loc: the mean.
        scale: the standard deviation.
        validate_args: see ``Distribution``.
    """

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale.pow(2)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return 0.5 * (1 + erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    _mean_carrier_measure: Any = 0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, *natural_params: Any) -> Any:
        x, y = natural_params
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()


class Laplace(LocationScale):
    """The Laplace distribution: exponential on both sides of ``loc``."""

    @property
    def variance(self) -> Any:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = self._drawn(sample_shape).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * log1p(-u.abs())

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * log1p(-2 * term.abs())

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(LocationScale):
    """The Cauchy distribution, which has no mean: ``scale`` is half its width at half its height."""

    @property
    def mean(self) -> Any:
        return full(self._extended_shape(), math.nan, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def variance(self) -> Any:
        return full(self._extended_shape(), math.inf, dtype=self.loc.dtype, device=self.loc.device)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + self._drawn(sample_shape).cauchy_() * self.scale

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """The uniform distribution on [low, high).

    Args:
        low, high: tensors or numbers; they broadcast.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: ``low`` is not below ``high``.
    """

    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "low": constraints.dependent(is_discrete=False, event_dim=0),
        "high": constraints.dependent(is_discrete=False, event_dim=0),
    }
    _parameters = {"low": 0, "high": 0}  # noqa: RUF012

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not (self.low < self.high).all():
            raise ValueError(f"Uniform is not defined when low >= high: low={self.low}, high={self.high}")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """[low, high]."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return math.nan * self.high

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        is_inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return is_inside.log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """The exponential distribution.

    Args:
        rate: one over the mean; a tensor or a number.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    _parameters = {"rate": 0}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(() if is_number(rate) else self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Any) -> Any:
        return -log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1.0 - self.rate.log()

    _mean_carrier_measure: Any = 0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        return -(-natural_params[0]).log()
