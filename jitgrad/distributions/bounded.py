"""Distributions on the unit interval and on the simplex, and on the circle.

Owns: ``ContinuousBernoulli``, ``Kumaraswamy``, ``LogisticNormal``, ``OneHotCategoricalStraightThrough``, ``VonMises``.
Must not know: how the others are computed.

Sources: G. Loaiza-Ganem and J. P. Cunningham, "The continuous Bernoulli: fixing a pervasive error in variational
autoencoders" (2019); D. J. Best and N. I. Fisher, "Efficient simulation of the von Mises distribution" (1979);
M. Abramowitz and I. A. Stegun, "Handbook of mathematical functions" (1964), 9.8.1 to 9.8.4, for Bessel functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.composed import TransformedDistribution
from jitgrad.distributions.continuous import LocationScale, Normal, Uniform
from jitgrad.distributions.discrete import OneHotCategorical
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.exponential_family import ExponentialFamily
from jitgrad.distributions.reshaping import StickBreakingTransform
from jitgrad.distributions.transforms import AffineTransform, PowerTransform
from jitgrad.distributions.utils import (
    EULER,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from jitgrad.functions import (
    binary_cross_entropy_with_logits,
    digamma,
    empty,
    full_like,
    lgamma,
    log1p,
    ones_like,
    rand,
    where,
    zeros,
    zeros_like,
)
from jitgrad.grad_mode import no_grad

__all__ = [
    "ContinuousBernoulli", "Kumaraswamy", "LogisticNormal", "OneHotCategoricalStraightThrough", "VonMises",
]  # fmt: skip


class ContinuousBernoulli(ExponentialFamily):
    """Numbers in [0, 1] with a density proportional to ``probs ** x * (1 - probs) ** (1 - x)``.

    Args:
        probs: in (0, 1).
        logits: their log-odds: one of the two.
        lims: where ``probs`` are so near to 1/2 that Taylor's expansion is better.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not one of the two is given.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.unit_interval
    has_rsample = True
    _parameters = {"probs": 0, "logits": 0, "_param": 0}  # noqa: RUF012
    _constants = ("_lims",)

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._lims = lims
        if probs is not None:
            (given,) = broadcast_all(probs)
            if validate_args is not None and not constraints.unit_interval.check(given).all():
                raise ValueError("The parameter probs has invalid values")
            self._param = self.__dict__["probs"] = clamp_probs(given)
        else:
            (self._param,) = broadcast_all(logits)
            self.__dict__["logits"] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def logits(self) -> Any:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """As given, not quite 0 or 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def param_shape(self) -> Any:
        """Of what was given."""
        return self._param.shape

    def _cut(self) -> tuple[Any, Any]:
        """Where formulas are stable, and ``probs`` with something harmless elsewhere."""
        is_stable = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return is_stable, where(is_stable, self.probs, self._lims[0] * ones_like(self.probs))

    def log_normalizer(self) -> Any:
        """The logarithm of the density's factor."""
        is_stable, p = self._cut()
        below, above = where(p <= 0.5, p, zeros_like(p)), where(p >= 0.5, p, ones_like(p))
        divisor = where(p <= 0.5, log1p(-2.0 * below), (2.0 * above - 1.0).log())
        x = (self.probs - 0.5).pow(2)
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return where(is_stable, (log1p(-p) - p.log()).abs().log() - divisor, taylor)

    @property
    def mean(self) -> Any:
        is_stable, p = self._cut()
        x = self.probs - 0.5
        taylor = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return where(is_stable, p / (2.0 * p - 1.0) + 1.0 / (log1p(-p) - p.log()), taylor)

    @property
    def variance(self) -> Any:
        is_stable, p = self._cut()
        x = (self.probs - 0.5).pow(2)
        taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        found = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (log1p(-p) - p.log()).pow(2)
        return where(is_stable, found, taylor)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self.log_normalizer()

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        is_stable, p = self._cut()
        found = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = where(is_stable, found, value)
        return where(value <= 0.0, 0.0, where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        is_stable, p = self._cut()
        found = (log1p(-p + value * (2.0 * p - 1.0)) - log1p(-p)) / (p.log() - log1p(-p))
        return where(is_stable, found, value)

    def entropy(self) -> Any:
        log_zero, log_one = log1p(-self.probs), self.probs.log()
        return self.mean * (log_zero - log_one) - self.log_normalizer() - log_zero

    _mean_carrier_measure: Any = 0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        (x,) = natural_params
        low, high = (limit - 0.5 for limit in self._lims)
        is_stable = (x <= low) | (x > high)
        cut = where(is_stable, x, low)
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return where(is_stable, cut.expm1().abs().log() - cut.abs().log(), series)


class Kumaraswamy(TransformedDistribution):
    """Numbers in [0, 1], much as of ``Beta``, whose distribution function is a formula.

    Args:
        concentration1: often called alpha; positive.
        concentration0: often called beta; positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = {  # noqa: RUF012
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        like = self.concentration0
        base = Uniform(full_like(like, 0), full_like(like, 1), validate_args=validate_args)
        transforms = [
            PowerTransform(like.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        for name in ("concentration1", "concentration0"):
            setattr(new, name, getattr(self, name).expand(batch_shape))
        return super().expand(batch_shape, new)

    def _moment(self, power: int) -> Any:
        a, b = 1 + power / self.concentration1, self.concentration0
        return b * (lgamma(a) + lgamma(b) - lgamma(a + b)).exp()

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * log1p(-b) - log1p(-b * a)
        return where((a < 1) | (b < 1), math.nan, log_mode).exp()

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * (digamma(b + 1) + EULER) - a.log() - b.log()


class LogisticNormal(TransformedDistribution):
    """Points of a simplex of K + 1 corners, from normal vectors of K numbers by breaking sticks.

    Args:
        loc, scale: of the normal numbers.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = LocationScale.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> Any:
        """As given."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """As given."""
        return self.base_dist.base_dist.scale


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """``OneHotCategorical`` whose samples have the gradients of the probabilities.

    Source: Y. Bengio, N. Leonard and A. Courville, "Estimating or propagating gradients through stochastic neurons for
    conditional computation" (2013).
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())


_BESSEL_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
_BESSEL_LARGE = (
    (
        0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1, 0.2635537e-1, -0.1647633e-1,
        0.392377e-2,
    ),
    (
        0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1, -0.2895312e-1,
        0.1787654e-1, -0.420059e-2,
    ),
)  # fmt: skip
_BORDER = 3.75


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    found: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        found = coefficient + x * found
    return found


def _log_bessel(x: Any, order: int) -> Any:
    """The logarithm of the modified Bessel function of order 0 or 1, of positive numbers; seven digits."""
    small = _polynomial((x / _BORDER).square(), _BESSEL_SMALL[order])
    small = (x.abs() * small if order else small).log()
    large = x - 0.5 * x.log() + _polynomial(_BORDER / x, _BESSEL_LARGE[order]).log()
    return where(x < _BORDER, small, large)


class VonMises(Distribution):
    """Angles around ``loc``: the normal distribution's like on the circle.

    Args:
        loc: an angle, in radians.
        concentration: positive; near 0 all angles are alike.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = False
    _parameters = {"loc": 0, "concentration": 0}  # noqa: RUF012

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """Of angles: 1 minus the length of their mean direction."""
        return 1 - (_log_bessel(self.concentration, 1) - _log_bessel(self.concentration, 0)).exp()

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return (
            self.concentration * (value - self.loc).cos() - math.log(2 * math.pi) - _log_bessel(self.concentration, 0)
        )

    def sample(self, sample_shape: Any = ()) -> Any:
        """Angles in [-pi, pi), by rejection, in float64."""
        with no_grad():
            loc, kappa = self.loc.double(), self.concentration.double()
            shape = self._extended_shape(sample_shape)
            r = _proposal(kappa)
            x = empty(shape, dtype=loc.dtype, device=loc.device)
            done = zeros(shape, dtype=(kappa > 0).dtype, device=loc.device)
            while not done.all():
                u1, u2, u3 = rand((3, *shape), dtype=loc.dtype, device=loc.device).unbind()
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accepted = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = where(accepted, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accepted
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


def _proposal(kappa: Any) -> Any:
    """The parameter of the wrapped Cauchy distribution that is drawn from."""
    tau = 1 + (1 + 4 * kappa**2).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
    return where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))
