"""Distributions made of others: blocks, transforms, mixtures.

Owns: ``Independent``, ``TransformedDistribution``, ``MixtureSameFamily``, and what is made with them: ``LogNormal``,
``HalfNormal``, ``Gumbel``, ``RelaxedBernoulli``, ``RelaxedOneHotCategorical``.
Must not know: how the others are computed.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.continuous import Normal, Uniform
from jitgrad.distributions.discrete import Categorical, _OfCategories, _Trials
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    Transform,
)
from jitgrad.distributions.utils import EULER, broadcast_all, clamp_probs, is_number, sum_rightmost
from jitgrad.dtypes import finfo
from jitgrad.functions import full_like, log_softmax, ones_like, rand, where, zeros_like
from jitgrad.functions.exchange import asarray
from jitgrad.grad_mode import no_grad

__all__ = [
    "Gumbel",
    "HalfNormal",
    "Independent",
    "LogNormal",
    "MixtureSameFamily",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "TransformedDistribution",
]


class Independent(Distribution):
    """A distribution whose last batch dimensions belong to the event: log densities are summed over them.

    Args:
        base_distribution: any.
        reinterpreted_batch_ndims: how many dimensions.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: the batch has fewer dimensions.
    """

    arg_constraints: Any = {}  # noqa: RUF012

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch_ndims = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch_ndims:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {batch_ndims}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = batch_ndims - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand((*batch_shape, *inner))
        return self._finish_expand(new, batch_shape, ("reinterpreted_batch_ndims",))

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> Any:
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, in blocks."""
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of a function of a random variable.

    Args:
        base_distribution: of the variable.
        transforms: a ``Transform`` or a list of them, the first one first.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: ``transforms`` are no transforms, or want more dimensions.
    """

    base_dist: Any
    arg_constraints: Any = {}  # noqa: RUF012

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        transform, base_event_dim = ComposeTransform(self.transforms), len(base_distribution.event_shape)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < transform.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{transform.domain.event_dim}, but got {base_shape}."
            )
        shape = tuple(transform.forward_shape(base_shape))
        expanded = tuple(transform.inverse_shape(shape))
        if base_shape != expanded:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - base_event_dim])
        more = transform.domain.event_dim - base_event_dim
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution
        change = transform.codomain.event_dim - transform.domain.event_dim
        cut = len(shape) - max(transform.codomain.event_dim, base_event_dim + change)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self.event_shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return self._finish_expand(new, batch_shape, ("transforms",))

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The last transform's codomain."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return ComposeTransform(self.transforms)(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return ComposeTransform(self.transforms)(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        event_dim, log_prob, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            jacobian = transform.log_abs_det_jacobian(x, y)
            log_prob = log_prob - sum_rightmost(jacobian, event_dim - transform.domain.event_dim)
            y = x
        return log_prob + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _in_order(self, value: Any) -> Any:
        """A probability, or its complement if the transforms together are decreasing."""
        sign = ComposeTransform(self.transforms).sign
        return value if is_number(sign) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        value = ComposeTransform(self.transforms).inv(value)
        self.base_dist._validate_sample(value)
        return self._in_order(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return ComposeTransform(self.transforms)(self.base_dist.icdf(self._in_order(value)))


class LogNormal(TransformedDistribution):
    """e to the power of a normal variable.

    Args:
        loc, scale: mean and standard deviation of the logarithm.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = Normal.arg_constraints
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogNormal, _instance))

    @property
    def loc(self) -> Any:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The absolute value of a variable that is symmetric around 0; subclasses say of which.

    Args:
        base: the distribution of that variable; it has a ``scale``.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, base: Distribution, validate_args: bool | None) -> None:
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Any:
        """The scale of the symmetric variable."""
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        return zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        value = asarray(value, dtype=self.scale.dtype, device=self.scale.device)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal variable with mean 0.

    Args:
        scale: the normal variable's standard deviation; positive.
        validate_args: see ``Distribution``.
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfNormal, _instance))

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class Gumbel(TransformedDistribution):
    """The Gumbel distribution, of maxima.

    Args:
        loc: the mode.
        scale: positive.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = Normal.arg_constraints
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = finfo(self.loc.dtype)
        low, high = full_like(self.loc, info.tiny), full_like(self.loc, 1 - info.eps)
        steps = [
            ExpTransform().inv,
            AffineTransform(0, -ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc, -self.scale),
        ]
        super().__init__(Uniform(low, high, validate_args=validate_args), steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return super().expand(batch_shape, new)

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + EULER)


class _LogitRelaxedBernoulli(_Trials):
    """The logits of ``RelaxedBernoulli``."""

    support = constraints.real
    has_rsample = True
    _parameters = {"probs": 0, "logits": 0}  # noqa: RUF012
    _constants = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(self._set(probs, logits).shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        uniforms = clamp_probs(rand(shape, dtype=probs.dtype, device=probs.device))
        return (uniforms.log() - (-uniforms).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class _Relaxed(TransformedDistribution):
    """A differentiable approximation of a discrete distribution."""

    has_rsample = True

    @property
    def temperature(self) -> Any:
        """As given; near 0 the distribution is the one that it approximates."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """Of the approximated distribution."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """Of the approximated distribution."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """A differentiable approximation of ``Bernoulli``, on (0, 1).

    Args:
        temperature: a tensor; near 0, it is ``Bernoulli``.
        probs, logits: the probability of 1, or its log-odds: one of the two.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = _Trials.arg_constraints
    support = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = _LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))


class _ExpRelaxedCategorical(_OfCategories):
    """The logarithms of ``RelaxedOneHotCategorical``."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(_ExpRelaxedCategorical, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return self._finish_expand(new, batch_shape, ("temperature",))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        uniforms = clamp_probs(rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-uniforms.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        count = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        log_scale = math.lgamma(count) + (count - 1) * self.temperature.log()
        score = logits - value * self.temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(_Relaxed):
    """A differentiable approximation of ``OneHotCategorical``, on the simplex.

    Args:
        temperature: a tensor; near 0, it is ``OneHotCategorical``.
        probs, logits: as for ``Categorical``.
        validate_args: see ``Distribution``.
    """

    arg_constraints: Any = Categorical.arg_constraints
    support = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = _ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedOneHotCategorical, _instance))


class MixtureSameFamily(Distribution):
    """A mixture of the distributions in a batch.

    Args:
        mixture_distribution: a ``Categorical`` over K components; its batch is that of the mixture, or empty.
        component_distribution: with the batch ``[*, K]``.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: they are no such distributions, or do not fit.
    """

    arg_constraints: Any = {}  # noqa: RUF012
    has_rsample = False

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of jitgrad.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of jitgrad.distributions.Distribution")
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        weights, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        if any(n != 1 and m != 1 and n != m for n, m in zip(reversed(weights), reversed(batch), strict=False)):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                f"`component_distribution.batch_shape`({batch})"
            )
        self._num_component, found = mixture_distribution._num_events, component_distribution.batch_shape[-1]
        if self._num_component != found:
            raise ValueError(
                f"`mixture_distribution component` ({self._num_component}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({found})"
            )
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return self._finish_expand(new, batch_shape, ("_num_component", "_event_ndims"))

    @constraints.dependent_property
    def support(self) -> Any:
        """The components'."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The weights."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Any:
        """Probabilities of the components, with the dimensions of an event."""
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * self._event_ndims)

    @property
    def mean(self) -> Any:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        dim, components = -1 - self._event_ndims, self._component_distribution
        within = (self._weights() * components.variance).sum(dim)
        between = (self._weights() * (components.mean - self.mean.unsqueeze(dim)).pow(2.0)).sum(dim)
        return within + between

    def cdf(self, x: Any) -> Any:
        x = x.unsqueeze(-1 - self._event_ndims)
        return (self._component_distribution.cdf(x) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        self._validate_sample(x)
        log_probs = self._component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))
        return (log_probs + log_softmax(self._mixture_distribution.logits, -1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            dim = len(sample_shape) + len(self._batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            shape = (*drawn.shape[:dim], 1, *self._event_shape)
            chosen = chosen.reshape(*chosen.shape, *(1,) * (1 + self._event_ndims))
            return drawn.gather(dim, chosen.expand(shape)).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
