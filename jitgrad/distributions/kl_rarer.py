"""Divergences of the rarer distributions, in closed form.

Owns: rows of the table in ``kl``, whose functions it hands on: the table is whole here.

Sources: M. Gil, F. Alajaji and T. Linder (2013), as in ``kl``; of matrices, the definition.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad import linalg
from jitgrad.distributions.bounded import ContinuousBernoulli
from jitgrad.distributions.composed import Gumbel
from jitgrad.distributions.continuous import Exponential, Laplace, Normal, Uniform
from jitgrad.distributions.gamma import Beta, Gamma
from jitgrad.distributions.heavy_tails import Pareto
from jitgrad.distributions.kl import infinite, kl_divergence, register_kl
from jitgrad.distributions.matrices import LowRankMultivariateNormal, Wishart, mvdigamma
from jitgrad.distributions.multivariate_normal import MultivariateNormal, squared_distance
from jitgrad.distributions.utils import xlogy
from jitgrad.functions import lgamma, log1p, matmul, where
from jitgrad.functions.gamma_products import mvlgamma

__all__ = ["kl_divergence", "register_kl"]


def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    """From anything on the unit interval with an entropy and a mean."""
    return -p.entropy() - p.mean * q.logits - log1p(-q.probs) - q.log_normalizer()


register_kl(Beta, ContinuousBernoulli)(_to_continuous_bernoulli)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli(p: Any, q: Any) -> Any:
    first = p.log_normalizer() + log1p(-p.probs)
    return p.mean * (p.logits - q.logits) + first - q.log_normalizer() - log1p(-q.probs)


@register_kl(ContinuousBernoulli, Exponential)
def _kl_continuous_bernoulli_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _kl_continuous_bernoulli_normal(p: Any, q: Any) -> Any:
    constant = 0.5 * (math.log(2.0 * math.pi) + (q.loc / q.scale).square()) + q.scale.log()
    spread = (p.variance + p.mean.square() - 2.0 * q.loc * p.mean) / (2.0 * q.scale.square())
    return -p.entropy() + constant + spread


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p: Any, q: Any) -> Any:
    """Infinite if the interval is not more than [0, 1], as PyTorch has it."""
    return where((q.low >= 0.0) | (q.high <= 1.0), math.inf, -p.entropy() + (q.high - q.low).log())


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    """Infinite if the interval reaches the ends, as PyTorch has it."""
    return where((p.high >= 1.0) | (p.low <= 0.0), math.inf, _to_continuous_bernoulli(p, q))


@register_kl(Pareto, Pareto)
def _kl_pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, result)


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p: Any, q: Any) -> Any:
    product = p.scale * q.rate
    result = (p.alpha / product).log() - p.alpha.reciprocal() + p.alpha * product / (p.alpha - 1) - 1
    return where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p: Any, q: Any) -> Any:
    mean_log = p.scale.log() + p.alpha.reciprocal()
    normalizer = lgamma(q.concentration) - q.concentration * q.rate.log()
    linear = q.rate * p.alpha * p.scale / (p.alpha - 1)
    result = p.alpha.log() - mean_log + normalizer + (1 - q.concentration) * mean_log + linear - 1
    return where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p: Any, q: Any) -> Any:
    common = p.scale / (p.alpha - 1)
    constant = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    spread = p.alpha * common.pow(2) / (p.alpha - 2) + (p.alpha * common - q.loc).pow(2)
    result = constant - p.alpha.reciprocal() + spread / (2 * q.scale.pow(2)) - 1
    return where(p.alpha <= 2, math.inf, result)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Any, q: Any) -> Any:
    width = p.high - p.low
    mean_log = (xlogy(p.high, p.high) - xlogy(p.low, p.low) - width) / width
    result = mean_log * (q.alpha + 1) - (q.alpha * q.scale.pow(q.alpha) * width).log()
    return where(p.low < q.scale, math.inf, result)


for _p, _qs in {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (ContinuousBernoulli, Pareto),
    Gamma: (ContinuousBernoulli, Pareto),
    Gumbel: (ContinuousBernoulli, Pareto),
    Laplace: (ContinuousBernoulli, Pareto),
    Normal: (ContinuousBernoulli, Pareto),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
}.items():
    for _q in _qs:
        register_kl(_p, _q)(infinite)


# --- vectors and matrices ---


def _check_events(p: Any, q: Any, kind: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {kind} with different event shapes cannot be computed")


def _squares(matrix: Any) -> Any:
    """The trace of ``M M^T``."""
    return matrix.pow(2).sum((-2, -1))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_low_rank(p: Any, q: Any) -> Any:
    _check_events(p, q, "Low Rank Multivariate Normals")
    a, diagonal = q.half_inverse(), q._diagonal
    own = (p._diagonal / diagonal).sum(-1) + _squares(p._factor * diagonal.rsqrt().unsqueeze(-1))
    other = _squares(a * p._diagonal.sqrt().unsqueeze(-2)) + _squares(matmul(a, p._factor))
    return 0.5 * (q.log_det() - p.log_det() + own - other + q.distance(q.loc - p.loc) - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_full_low_rank(p: Any, q: Any) -> Any:
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    factor = p._unbroadcasted_scale_tril
    spread = _squares(factor * q._diagonal.rsqrt().unsqueeze(-1)) - _squares(matmul(q.half_inverse(), factor))
    return 0.5 * (q.log_det() - 2 * p.half_log_det + spread + q.distance(q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_low_rank_full(p: Any, q: Any) -> Any:
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    spread = _squares(linalg.solve(q.scale_tril.tril(), p.cov_factor))
    inverse = linalg.inv(q._unbroadcasted_scale_tril)
    spread = spread + (inverse.pow(2) * p._diagonal.unsqueeze(-2)).sum((-2, -1))
    distance = squared_distance(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return 0.5 * (2 * q.half_log_det - p.log_det() + spread + distance - p.event_shape[0])


@register_kl(Wishart, Wishart)
def _kl_wishart(p: Any, q: Any) -> Any:
    n = p.event_shape[-1]
    spread = _squares(linalg.solve(q.scale_tril.tril(), p.scale_tril))
    sizes = q.df * (q._half_log_det() - p._half_log_det()) + 0.5 * p.df * (spread - n)
    gammas = mvlgamma(q.df / 2, n) - mvlgamma(p.df / 2, n) + (p.df - q.df) / 2 * mvdigamma(p.df / 2, n)
    return sizes + gammas
