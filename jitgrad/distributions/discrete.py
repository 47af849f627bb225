"""Distributions of counts and categories.

Owns: ``Bernoulli``, ``Geometric``, ``Poisson``, ``Binomial``, ``NegativeBinomial``, ``Categorical``,
``OneHotCategorical``, ``Multinomial``.
Must not know: continuous distributions, but for the one that rates of ``NegativeBinomial`` are drawn from.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.exponential_family import ExponentialFamily
from jitgrad.distributions.gamma import Gamma
from jitgrad.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    xlogy,
)
from jitgrad.dtypes import finfo, int64
from jitgrad.functions import (
    arange,
    bernoulli,
    binary_cross_entropy_with_logits,
    empty,
    eye,
    full,
    lgamma,
    log1p,
    logsigmoid,
    multinomial,
    one_hot,
    poisson,
    where,
    zeros,
    zeros_like,
)
from jitgrad.functions.counts import binomial
from jitgrad.grad_mode import no_grad

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "Poisson",
]


_NO_COUNT = object()
"""There is no number of trials: what None is not, which somebody may have given."""


def _check_one_of(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class _Trials(Distribution):
    """Something about trials that succeed with probability ``probs``, or with log-odds ``logits``."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012

    def _set(self, probs: Any, logits: Any, total_count: Any = _NO_COUNT) -> Any:
        """Broadcast the parameters; the one that was given."""
        _check_one_of(probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        if total_count is _NO_COUNT:
            (given,) = broadcast_all(given)
        else:
            count, given = broadcast_all(total_count, given)
            self.total_count = count.type_as(given)
        self.__dict__[name] = given
        return given

    @lazy_property
    def logits(self) -> Any:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self) -> Any:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Any:
        """Of ``probs``."""
        return self._param.shape

    def _binary_entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Bernoulli(_Trials, ExponentialFamily):
    """1 with probability ``probs``, else 0.

    Args:
        probs, logits: the probability, or its log-odds: one of the two, a tensor or a number.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: both are given, or none.
    """

    support = constraints.boolean
    has_enumerate_support = True
    _parameters = {"probs": 0, "logits": 0}  # noqa: RUF012

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return where(self.probs == 0.5, math.nan, (self.probs >= 0.5).type_as(self.probs))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return self._binary_entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._enumerated(arange(2, dtype=self._param.dtype, device=self._param.device), expand)

    _mean_carrier_measure: Any = 0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.probs.logit(),)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        return log1p(natural_params[0].exp())


class Geometric(_Trials):
    """How many trials fail before the first that succeeds.

    Args:
        probs, logits: the probability of success, in (0, 1], or its log-odds: one of the two.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: both are given, or none; a probability is 0.
    """

    support = constraints.nonnegative_integer
    _parameters = {"probs": 0, "logits": 0}  # noqa: RUF012

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set(probs, logits).shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            invalid = self.probs.detach()[self.probs <= 0]
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n{invalid}"
            )

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            drawn = empty(shape, dtype=self.probs.dtype, device=self.probs.device)
            return (drawn.uniform_(finfo(self.probs.dtype).tiny, 1).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        return value * (-where((probs == 1) & (value == 0), 0.0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return self._binary_entropy() / self.probs


class Binomial(_Trials):
    """How many of ``total_count`` trials succeed. Samples cost as much as the trials.

    Args:
        total_count: the number of trials; a tensor or an int.
        probs, logits: the probability of success, or its log-odds: one of the two.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: both are given, or none.
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_Trials.arg_constraints}  # noqa: RUF012
    has_enumerate_support = True
    _parameters = {"probs": 0, "logits": 0, "total_count": 0}  # noqa: RUF012

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set(probs, logits, total_count).shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0, ..., total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        count, logits = self.total_count, self.logits
        normalizer = count * logits.clamp(min=0) + count * log1p((-logits.abs()).exp()) - lgamma(count + 1)
        return value * logits - lgamma(value + 1) - lgamma(count - value + 1) - normalizer

    def entropy(self) -> Any:
        total_count = int(self.total_count.max())
        if not self.total_count.min() == total_count:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        total_count = int(self.total_count.max())
        if not self.total_count.min() == total_count:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._enumerated(arange(1 + total_count, dtype=self._param.dtype, device=self._param.device), expand)


class NegativeBinomial(_Trials):
    """How many trials succeed before ``total_count`` have failed.

    Args:
        total_count: how many fail; not negative, and need not be whole.
        probs, logits: the probability of success, in [0, 1), or its log-odds: one of the two.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: both are given, or none.
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = {"probs": 0, "logits": 0, "total_count": 0}  # noqa: RUF012

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set(probs, logits, total_count).shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return poisson(rates.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        count = self.total_count
        unnormalized = count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        normalizer = -lgamma(count + value) + lgamma(1.0 + value) + lgamma(count)
        return unnormalized - where(count + value == 0.0, 0.0, normalizer)


class Poisson(ExponentialFamily):
    """How many events of a constant rate happen.

    Args:
        rate: the mean; a tensor or a number, not negative.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support = constraints.nonnegative_integer
    _parameters = {"rate": 0}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        return natural_params[0].exp()


class Categorical(Distribution):
    """One of K categories, 0 to K - 1.

    Args:
        probs: [*, K], not negative; they are divided by their sum.
        logits: [*, K], logarithms of such, instead.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: both are given, or none, or it has no dimension.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    has_enumerate_support = True
    _parameters = {"probs": 1, "logits": 1}  # noqa: RUF012
    _constants = ("_num_events",)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _check_one_of(probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        given = given - given.logsumexp(-1, keepdim=True) if probs is None else given / given.sum(-1, keepdim=True)
        self.__dict__[name] = given
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0, ..., K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Any:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Any:
        """Of ``probs``."""
        return self._param.shape

    @property
    def mean(self) -> Any:
        return full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Any:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Any:
        return self.mean

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            flat = self.probs.reshape(-1, self._num_events)
            drawn = multinomial(flat, math.prod(sample_shape), True)
            return drawn.t().reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        value = value.long()
        shape = broadcast_all(value, zeros(self._batch_shape, dtype=int64))[0].shape
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, value.expand(shape).unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Any:
        return -(self.logits.clamp(min=finfo(self.logits.dtype).min) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._enumerated(arange(self._num_events, device=self._param.device), expand)


class _OfCategories(Distribution):
    """A distribution over vectors with one entry per category."""

    arg_constraints: Any = Categorical.arg_constraints
    _categorical: Categorical

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def param_shape(self) -> Any:
        """Of ``probs``."""
        return self._categorical.param_shape


class OneHotCategorical(_OfCategories):
    """A vector with a one at one of K categories.

    Args:
        probs, logits, validate_args: as for ``Categorical``.
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(OneHotCategorical, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return self._finish_expand(new, batch_shape)

    @property
    def mean(self) -> Any:
        return self._categorical.probs

    @property
    def mode(self) -> Any:
        return one_hot(self.probs.argmax(-1), self._event_shape[0]).type_as(self.probs)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        return one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).type_as(self.probs)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self._event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view(n, *(1,) * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class Multinomial(_OfCategories):
    """How often each of K categories comes in ``total_count`` trials.

    Args:
        total_count: how many trials; an int.
        probs, logits, validate_args: as for ``Categorical``.

    Raises:
        NotImplementedError: ``total_count`` is no int.
    """

    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Multinomial, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return self._finish_expand(new, batch_shape, ("total_count",))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts with the sum ``total_count``."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        return one_hot(drawn, self._event_shape[0]).sum(0).type_as(self.probs)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = where((value == 0) & (logits == -math.inf), 0.0, logits)
        return lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Any:
        n = self.total_count
        counts = arange(1.0, n + 1.0, dtype=self.probs.dtype, device=self.probs.device)
        counts = counts.view(-1, *(1,) * (len(self._batch_shape) + 1))
        weights = Binomial(n, self.probs, validate_args=False).log_prob(counts).exp()
        return n * self._categorical.entropy() - math.lgamma(n + 1) + (weights * lgamma(counts + 1)).sum((0, -1))
