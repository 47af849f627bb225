"""``kl_divergence``: how much one distribution differs from another, in closed form.

Owns: the table of formulas, and which one is the most specific for two classes.
Must not know: how distributions are drawn.

Sources: M. Gil, F. Alajaji and T. Linder, "Renyi divergence measures for commonly used univariate continuous
distributions" (2013), and the definition: the mean of ``p.log_prob - q.log_prob`` under p.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from jitgrad import linalg
from jitgrad.distributions.composed import Gumbel, HalfNormal, Independent, TransformedDistribution
from jitgrad.distributions.continuous import Cauchy, Exponential, Laplace, Normal, Uniform
from jitgrad.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from jitgrad.distributions.gamma import Beta, Dirichlet, Gamma
from jitgrad.distributions.multivariate_normal import MultivariateNormal, squared_distance
from jitgrad.distributions.utils import EULER, sum_rightmost, xlogy
from jitgrad.functions import digamma, erf, full_like, lgamma, softplus, where

__all__ = ["infinite", "kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Any]
_formulas: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """A decorator: the function of (p, q) is their divergence, for these classes and their subclasses.

    Raises:
        TypeError: they are no classes. Of what they need not be: Pyro's distributions have a base of their own.
    """
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {cls}")

    def decorate(formula: Formula) -> Formula:
        _formulas[type_p, type_q] = formula
        return formula

    return decorate


def kl_divergence(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence of ``p`` from ``q``, in nats: the mean of log p(x)/q(x) under p.

    Returns:
        Shaped as the batch.

    Raises:
        NotImplementedError: there is no formula for their classes.
    """
    formula = _formulas.get((type(p), type(q))) or _most_specific(type(p), type(q))
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return formula(p, q)


def _most_specific(type_p: type, type_q: type) -> Formula | None:
    """The formula for the nearest base classes; RuntimeWarning if it depends on whose are looked at first."""
    found = [(a, b) for a, b in list(_formulas) if issubclass(type_p, a) and issubclass(type_q, b)]
    if not found:
        return None
    p_first = min(found, key=lambda pair: (type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])))
    q_first = min(found, key=lambda pair: (type_q.__mro__.index(pair[1]), type_p.__mro__.index(pair[0])))
    if _formulas[p_first] is not _formulas[q_first]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({p_first[0].__name__}, {q_first[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _formulas[p_first]


# --- of one family ---


@register_kl(Normal, Normal)
def _kl_normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _kl_half_normal(p: Any, q: Any) -> Any:
    return _kl_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _kl_cauchy(p: Any, q: Any) -> Any:
    """F. Chyzak and F. Nielsen, "A closed-form formula for the divergence between Cauchy distributions" (2019)."""
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Uniform, Uniform)
def _kl_uniform(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Exponential, Exponential)
def _kl_exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _kl_gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    shapes = lgamma(b) - lgamma(a) + (a - b) * digamma(a)
    return b * (p.rate / q.rate).log() + shapes + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    normalizers = lgamma(total) - lgamma(b.sum(-1)) - (lgamma(a) - lgamma(b)).sum(-1)
    return normalizers + ((a - b) * (digamma(a) - digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _kl_beta(p: Any, q: Any) -> Any:
    return _kl_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Gumbel, Gumbel)
def _kl_gumbel(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return -ratio.log() + distance + ratio * EULER + (lgamma(1 + ratio) - distance).exp() - (1 + EULER)


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariate_normal(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    spread = linalg.solve(q.scale_tril.tril(), p.scale_tril).pow(2).sum((-2, -1))
    distance = squared_distance(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return q.half_log_det - p.half_log_det + 0.5 * (spread + distance - p.event_shape[0])


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli(p: Any, q: Any) -> Any:
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones = where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, ones))
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return ones + where(p.probs == 1, 0.0, where(q.probs == 1, math.inf, zeros))


@register_kl(Geometric, Geometric)
def _kl_geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Binomial, Binomial)
def _kl_binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    per_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, math.inf, p.total_count * per_trial)


@register_kl(Poisson, Poisson)
def _kl_poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _kl_categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    return where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, terms)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_one_hot(p: Any, q: Any) -> Any:
    return _kl_categorical(p._categorical, q._categorical)


@register_kl(Independent, Independent)
def _kl_independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


# --- of two families ---


def _from_normal(p: Any, q: Any, mean: Any, variance: Any) -> Any:
    """From a normal distribution, of anything with an entropy, a mean and a variance."""
    spread = (variance + (mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return -p.entropy() + 0.5 * math.log(2 * math.pi) + q.scale.log() + spread


@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Beta, Normal)
@register_kl(Gumbel, Normal)
def _kl_normal_from(p: Any, q: Any) -> Any:
    return _from_normal(p, q, p.mean, p.variance)


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Any, q: Any) -> Any:
    z = (p.loc - q.loc) / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.pow(2)).exp()
    distance = distance + (p.loc - q.loc) * erf(math.sqrt(0.5) * z)
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p: Any, q: Any) -> Any:
    ratio, a = q.rate / p.rate, q.concentration
    return -a * ratio.log() + ratio + lgamma(a) + a * EULER - (1 + EULER)


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Beta, Exponential)
def _kl_beta_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p: Any, q: Any) -> Any:
    a, total = p.concentration1, p.concentration1 + p.concentration0
    log_mean = digamma(a) - digamma(total)
    normalizer = lgamma(q.concentration) - q.concentration * q.rate.log()
    return -p.entropy() + normalizer - (q.concentration - 1) * log_mean + q.rate * p.mean


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p: Any, q: Any) -> Any:
    return where((q.low > 0) | (q.high < 1), math.inf, -p.entropy() + (q.high - q.low).log())


def _from_gumbel(p: Any, q: Any, mean_power: Any) -> Any:
    """From a Gumbel distribution; ``mean_power`` is the mean of exp(-x / scale) under p."""
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean_power


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p: Any, q: Any) -> Any:
    return _from_gumbel(p, q, (-p.loc / q.scale + 0.5 * (p.scale / q.scale).pow(2)).exp())


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p: Any, q: Any) -> Any:
    return _from_gumbel(p, q, p.rate * q.scale / (p.rate * q.scale + 1))


@register_kl(Gamma, Gumbel)
def _kl_gamma_gumbel(p: Any, q: Any) -> Any:
    return _from_gumbel(p, q, (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration))


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p: Any, q: Any) -> Any:
    powers = (-p.low / q.scale).exp() - (-p.high / q.scale).exp()
    return _from_gumbel(p, q, powers * q.scale / (p.high - p.low))


def _mean_log(low: Any, high: Any) -> Any:
    """The mean of log x on an interval."""
    return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p: Any, q: Any) -> Any:
    return where(p.low < 0, math.inf, -p.entropy() - q.rate.log() + q.rate * p.mean)


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p: Any, q: Any) -> Any:
    a = q.concentration
    normalizer = lgamma(a) - a * q.rate.log()
    return where(p.low < 0, math.inf, -p.entropy() + normalizer - (a - 1) * _mean_log(p.low, p.high) + q.rate * p.mean)


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    normalizer = lgamma(a) + lgamma(b) - lgamma(a + b)
    logs = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    return where((p.low < 0) | (p.high > 1), math.inf, -p.entropy() + normalizer - logs)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


def infinite(p: Any, q: Any) -> Any:
    """p has mass where q has none."""
    return full_like(p.mean, math.inf)


for _p, _qs in {
    Normal: (Beta, Exponential, Gamma, Uniform),
    Laplace: (Beta, Exponential, Gamma, Uniform),
    Gumbel: (Beta, Exponential, Gamma, Uniform),
    Exponential: (Beta, Uniform),
    Gamma: (Beta, Uniform),
    Poisson: (Bernoulli, Binomial),
}.items():
    for _q in _qs:
        register_kl(_p, _q)(infinite)
