"""Rarer distributions for ``test_parity.py``: how each is made, its parameters, values of its support."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["RARER", "RARER_FAMILIES"]

_RNG = np.random.default_rng(7)
A = _RNG.uniform(0.4, 2.5, (2, 3))
B = _RNG.uniform(0.5, 3.0, (3,))
REAL = _RNG.uniform(-1.5, 1.5, (2, 3))
P = np.array([[0.05, 0.3, 0.4995], [0.5005, 0.7, 0.98]])
UNIT = _RNG.uniform(0.1, 0.9, (2, 3))
BIG = _RNG.uniform(3.0, 6.0, (2, 3))
VALUES = _RNG.uniform(0.2, 4.0, (2, 3))
FACTOR = _RNG.uniform(-1.0, 1.0, (3, 2))
MATRIX = np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 1.0]])
CORRELATION = np.linalg.cholesky(np.array([[1.0, 0.3, -0.2], [0.3, 1.0, 0.4], [-0.2, 0.4, 1.0]]))
ONE_HOT = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
SIMPLEX4 = np.array([[0.1, 0.2, 0.3, 0.4], [0.25, 0.15, 0.5, 0.1]])

RARER: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "ContinuousBernoulli": (lambda d, a: d.ContinuousBernoulli(a), (P,), UNIT),
    "ContinuousBernoulli of logits": (lambda d, a: d.ContinuousBernoulli(logits=a), (REAL,), UNIT),
    "FisherSnedecor": (lambda d, a, b: d.FisherSnedecor(a, b), (BIG, A + 2), VALUES),
    "HalfCauchy": (lambda d, a: d.HalfCauchy(a), (A,), VALUES),
    "InverseGamma": (lambda d, a, b: d.InverseGamma(a, b), (A, B), VALUES),
    "Kumaraswamy": (lambda d, a, b: d.Kumaraswamy(a, b), (A, B), UNIT),
    "LogisticNormal": (lambda d, a, b: d.LogisticNormal(a, b), (REAL, A), SIMPLEX4),
    "OneHotCategoricalStraightThrough": (lambda d, a: d.OneHotCategoricalStraightThrough(a), (A,), ONE_HOT),
    "Pareto": (lambda d, a, b: d.Pareto(a, b), (A / 5, B), 0.6 + VALUES),
    "VonMises": (lambda d, a, b: d.VonMises(a, b), (REAL, 3 * A), REAL),
    "Weibull": (lambda d, a, b: d.Weibull(a, b), (A, B), VALUES),
    "LKJCholesky": (lambda d, a: d.LKJCholesky(3, a), (B[:2],), CORRELATION),
    "LowRankMultivariateNormal": (
        lambda d, a, w, b: d.LowRankMultivariateNormal(a, w, b), (REAL, FACTOR, B), REAL[::-1],
    ),
    "copula": (
        lambda d, m: d.TransformedDistribution(
            d.MultivariateNormal(m.new_zeros(3), m), d.CumulativeDistributionTransform(d.Normal(0, 1))
        ),
        (MATRIX,), UNIT[0],
    ),
}  # fmt: skip

RARER_FAMILIES = (
    "ContinuousBernoulli", "Pareto", "HalfCauchy", "LowRankMultivariateNormal", "Weibull", "InverseGamma",
)  # fmt: skip
