"""Distributions of positive numbers with heavy tails.

Owns: ``FisherSnedecor``, ``GeneralizedPareto``, ``HalfCauchy``, ``InverseGamma``, ``Pareto``, ``Weibull``.
Must not know: how the others are computed.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.composed import TransformedDistribution, _Half
from jitgrad.distributions.continuous import Cauchy, Exponential
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.gamma import Gamma
from jitgrad.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from jitgrad.distributions.utils import EULER, broadcast_all
from jitgrad.dtypes import finfo
from jitgrad.functions import digamma, full_like, isclose, lgamma, log1p, ones_like, rand, where, zeros_like

__all__ = ["FisherSnedecor", "GeneralizedPareto", "HalfCauchy", "InverseGamma", "Pareto", "Weibull"]


class FisherSnedecor(Distribution):
    """The F distribution: a ratio of two chi-squared numbers, each over its degrees of freedom.

    Args:
        df1, df2: degrees of freedom above and below; positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True
    _parameters = {"df1": 0, "df2": 0}  # noqa: RUF012

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        df2 = where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        return where(self.df1 <= 2, math.nan, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2))

    @property
    def variance(self) -> Any:
        df1, df2 = self.df1, where(self.df2 <= 4, math.nan, self.df2)
        return 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Any:
        above, below = (Gamma(df * 0.5, df, validate_args=False).rsample(sample_shape) for df in (self.df1, self.df2))
        tiny = finfo(below.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        normalizer = lgamma(half1 + half2) - lgamma(half1) - lgamma(half2)
        powers = half1 * ratio.log() + (half1 - 1) * value.log()
        return normalizer + powers - (half1 + half2) * log1p(ratio * value)


class HalfCauchy(_Half):
    """The magnitude of a Cauchy distributed number around 0.

    Args:
        scale: positive.
        validate_args: see ``Distribution``.
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> Any:
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance


class InverseGamma(TransformedDistribution):
    """One over a gamma distributed number.

    Args:
        concentration, rate: of that number; positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(InverseGamma, _instance))

    @property
    def concentration(self) -> Any:
        """As given."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """As given."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        return where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + lgamma(a) - (1 + a) * digamma(a)


class Pareto(TransformedDistribution):
    """Pareto's distribution of the first kind: numbers above ``scale`` whose logarithms are exponential.

    Args:
        scale: the smallest number; positive.
        alpha: the shape; positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = {"alpha": constraints.positive, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        transforms = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args=validate_args), transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Pareto, _instance)
        new.scale, new.alpha = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        return super().expand(batch_shape, new)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From ``scale`` on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """The Weibull distribution: a power of an exponential number.

    Args:
        scale: positive.
        concentration: the shape; positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = {"scale": constraints.positive, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._start(*broadcast_all(scale, concentration))
        base = Exponential(ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _start(self, scale: Any, concentration: Any) -> None:
        self.scale, self.concentration = scale, concentration
        self.concentration_reciprocal = concentration.reciprocal()

    def _steps(self) -> list[Any]:
        return [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Weibull, _instance)
        new._start(self.scale.expand(batch_shape), self.concentration.expand(batch_shape))
        TransformedDistribution.__init__(new, self.base_dist.expand(batch_shape), new._steps(), validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _moment(self, power: float) -> Any:
        return lgamma(1 + power * self.concentration_reciprocal)

    @property
    def mean(self) -> Any:
        return self.scale * self._moment(1).exp()

    @property
    def mode(self) -> Any:
        a = self.concentration
        return self.scale * ((a - 1) / a) ** a.reciprocal()

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (self._moment(2).exp() - (2 * self._moment(1)).exp())

    def entropy(self) -> Any:
        inverse = self.concentration_reciprocal
        return EULER * (1 - inverse) + (self.scale * inverse).log() + 1


class GeneralizedPareto(Distribution):
    """The distribution of excesses over a threshold; exponential, Pareto and uniform ones are among them.

    Args:
        loc: the threshold.
        scale: positive.
        concentration: of any sign; below 0, numbers have an upper bound.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0, "concentration": 0}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From ``loc`` on, with an upper bound or none."""
        upper = where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)

    def _safe(self) -> tuple[Any, Any]:
        """Where the concentration is 0, and the concentration with ones there."""
        is_zero = isclose(self.concentration, zeros_like(self.concentration))
        return is_zero, where(is_zero, 1.0, self.concentration)

    @property
    def mean(self) -> Any:
        is_finite = self.concentration < 1
        return where(is_finite, self.loc + self.scale / (1 - where(is_finite, self.concentration, 0.5)), math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        is_finite = self.concentration < 0.5
        a = where(is_finite, self.concentration, 0.25)
        return where(is_finite, self.scale**2 / ((1 - a) ** 2 * (1 - 2 * a)), math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        is_zero, a = self._safe()
        z = (value - self.loc) / self.scale
        power = 1 / a + ones_like(z)
        return -self.scale.log() - where(is_zero, z, where(power == 0, power, power * log1p(a * z)))

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of more than ``value``."""
        self._validate_sample(value)
        is_zero, a = self._safe()
        z = (value - self.loc) / self.scale
        return where(is_zero, -z, -log1p(a * z) / a)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of ``cdf``."""
        return log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Any) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        is_zero, a = self._safe()
        log_rest = log1p(-value)
        other = self.loc + self.scale / a * (-a * log_rest).expm1()
        return where(is_zero, self.loc - self.scale * log_rest, other)

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1
