"""Distributions and PyTorch's: densities, entropies, moments, divergences, their gradients, and errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.conftest import Mode
from tests.distributions.rarer_cases import RARER, RARER_FAMILIES

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
pytest.importorskip("torch.distributions")

_rng = np.random.default_rng(11)
REAL = _rng.normal(size=(2, 3))
POSITIVE = _rng.uniform(0.3, 3.0, (2, 3))
MORE = _rng.uniform(0.4, 2.5, (2, 3))
PROBS = _rng.uniform(0.1, 0.9, (2, 3))
MATRIX = np.eye(3) + 0.3 * (lambda a: a @ a.T)(_rng.normal(size=(3, 3)))
UNIT = np.linspace(0.05, 0.95, 6).reshape(2, 3)
COUNTS = np.array([[0.0, 1.0, 2.0], [5.0, 3.0, 0.0]])
BITS = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
ONE_HOT = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
SIMPLEX = np.array([[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]])

# name: (constructor over a module of distributions and tensors, parameters, values)
CASES: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "Normal": (lambda d, a, b: d.Normal(a, b), (REAL, POSITIVE), REAL[::-1] * 2),
    "Laplace": (lambda d, a, b: d.Laplace(a, b), (REAL, POSITIVE), REAL[::-1] * 2),
    "Cauchy": (lambda d, a, b: d.Cauchy(a, b), (REAL, POSITIVE), REAL[::-1] * 2),
    "Uniform": (lambda d, a, b: d.Uniform(a, a + b), (REAL, POSITIVE), REAL + POSITIVE * UNIT),
    "Exponential": (lambda d, a: d.Exponential(a), (POSITIVE,), MORE),
    "Gamma": (lambda d, a, b: d.Gamma(a, b), (POSITIVE, MORE), MORE[::-1]),
    "Chi2": (lambda d, a: d.Chi2(a), (POSITIVE,), MORE),
    "Beta": (lambda d, a, b: d.Beta(a, b), (POSITIVE, MORE), UNIT),
    "Dirichlet": (lambda d, a: d.Dirichlet(a), (POSITIVE,), SIMPLEX),
    "StudentT": (lambda d, a, b, c: d.StudentT(a, b, c), (POSITIVE, REAL, MORE), REAL[::-1] * 2),
    "LogNormal": (lambda d, a, b: d.LogNormal(a, b), (REAL, POSITIVE), MORE),
    "HalfNormal": (lambda d, a: d.HalfNormal(a), (POSITIVE,), MORE),
    "Gumbel": (lambda d, a, b: d.Gumbel(a, b), (REAL, POSITIVE), REAL[::-1] * 2),
    "Bernoulli": (lambda d, a: d.Bernoulli(a), (PROBS,), BITS),
    "Bernoulli of logits": (lambda d, a: d.Bernoulli(logits=a), (REAL,), BITS),
    "Geometric": (lambda d, a: d.Geometric(a), (PROBS,), COUNTS),
    "Geometric of logits": (lambda d, a: d.Geometric(logits=a), (REAL,), COUNTS),
    "Poisson": (lambda d, a: d.Poisson(a), (POSITIVE,), COUNTS),
    "Binomial": (lambda d, a: d.Binomial(6, a), (PROBS,), COUNTS),
    "Binomial of logits": (lambda d, a: d.Binomial(6, logits=a), (REAL,), COUNTS),
    "NegativeBinomial": (lambda d, a: d.NegativeBinomial(4, a), (PROBS,), COUNTS),
    "NegativeBinomial of logits": (lambda d, a: d.NegativeBinomial(4.5, logits=a), (REAL,), COUNTS),
    "Categorical": (lambda d, a: d.Categorical(a), (POSITIVE,), np.array([2, 0])),
    "Categorical of logits": (lambda d, a: d.Categorical(logits=a), (REAL,), np.array([2, 0])),
    "OneHotCategorical": (lambda d, a: d.OneHotCategorical(a), (POSITIVE,), ONE_HOT),
    "Multinomial": (lambda d, a: d.Multinomial(8, a), (POSITIVE,), np.array([[1.0, 5.0, 2.0], [0.0, 8.0, 0.0]])),
    "Multinomial of logits": (lambda d, a: d.Multinomial(3, logits=a), (REAL,), np.array([1.0, 0.0, 2.0])),
    "MultivariateNormal": (lambda d, a, m: d.MultivariateNormal(a, m), (REAL, MATRIX), REAL[::-1]),
    "MultivariateNormal of precision": (
        lambda d, a, m: d.MultivariateNormal(a, precision_matrix=m), (REAL, MATRIX), REAL[::-1],
    ),
    "MultivariateNormal of factor": (
        lambda d, a, m: d.MultivariateNormal(a, scale_tril=m), (REAL, np.linalg.cholesky(MATRIX)), REAL[::-1],
    ),
    "Uniform on positive numbers": (lambda d, a, b: d.Uniform(a, a + b), (POSITIVE, MORE), POSITIVE + MORE * UNIT),
    "Uniform in (0, 1)": (lambda d, a: d.Uniform(a / 2, a), (PROBS,), PROBS * (0.5 + UNIT / 2)),
    "Independent": (lambda d, a, b: d.Independent(d.Normal(a, b), 1), (REAL, POSITIVE), REAL[::-1]),
    "sigmoid of normal": (
        lambda d, a, b: d.TransformedDistribution(d.Normal(a, b), d.SigmoidTransform()), (REAL, POSITIVE), UNIT,
    ),
    "tanh, affine": (
        lambda d, a, b: d.TransformedDistribution(d.Normal(a, b), [d.TanhTransform(), d.AffineTransform(1.0, -2.0)]),
        (REAL, POSITIVE), 1 - 2 * (2 * UNIT - 1) * 0.9,
    ),
    "softplus, power": (
        lambda d, a, b: d.TransformedDistribution(
            d.Normal(a, b), d.ComposeTransform([d.SoftplusTransform(), d.AffineTransform(0.0, a * a + 1)])
        ),
        (REAL, POSITIVE), MORE,
    ),
    "affine of vectors": (
        lambda d, a, b: d.TransformedDistribution(
            d.Independent(d.Normal(a, b), 1), d.AffineTransform(0.5, b, event_dim=1)
        ),
        (REAL, POSITIVE), REAL[::-1],
    ),
    "mixture": (
        lambda d, w, a, b: d.MixtureSameFamily(d.Categorical(w), d.Normal(a, b)), (MORE, REAL, POSITIVE), REAL[:, 0],
    ),
    "mixture of vectors": (
        lambda d, w, a, b: d.MixtureSameFamily(d.Categorical(w), d.Independent(d.Normal(a, b), 1)),
        (MORE[0, :2], REAL, POSITIVE), REAL[0],
    ),
    "RelaxedBernoulli": (lambda d, t, a: d.RelaxedBernoulli(t, a), (MORE[0, 0], PROBS), UNIT),
    "RelaxedOneHotCategorical": (
        lambda d, t, a: d.RelaxedOneHotCategorical(t, a), (np.array(0.7), POSITIVE), SIMPLEX,
    ),
    **RARER,
}  # fmt: skip

QUANTITIES = {
    "log_prob": lambda dist, value: dist.log_prob(value),
    "entropy": lambda dist, value: dist.entropy(),
    "perplexity": lambda dist, value: dist.perplexity(),
    "cdf": lambda dist, value: dist.cdf(value),
    "icdf": lambda dist, value: dist.icdf(value * 0 + 0.3),
    "mean": lambda dist, value: dist.mean,
    "mode": lambda dist, value: dist.mode,
    "variance": lambda dist, value: dist.variance,
    "stddev": lambda dist, value: dist.stddev,
    "probs": lambda dist, value: dist.probs,
    "logits": lambda dist, value: dist.logits,
    "enumerate_support": lambda dist, value: dist.enumerate_support(),
    "enumerate_support, not expanded": lambda dist, value: dist.enumerate_support(False),
    "precision_matrix": lambda dist, value: dist.precision_matrix,
    "covariance_matrix": lambda dist, value: dist.covariance_matrix,
}
DERIVATIVES = {"Gamma": 2e-3, "Chi2": 2e-3, "StudentT": 2e-3, "FisherSnedecor": 2e-2, "InverseGamma": 2e-3}
"""PyTorch's derivative of gamma distributed numbers by their concentration has four digits."""
OTHER_DERIVATIVES = ("Beta", "Dirichlet")
"""Whose samples are moved in another way: there is more than one."""


def _tensors(lib: Any, arrays: tuple[Any, ...]) -> list[Any]:
    return [lib.tensor(np.ascontiguousarray(array)).requires_grad_() for array in arrays]


def _quantity(lib: Any, name: str, quantity: str) -> Any:
    """Value and gradients, or the class of the error."""
    make, parameters, values = CASES[name]
    tensors = _tensors(lib, parameters)
    try:
        found = QUANTITIES[quantity](make(lib.distributions, *tensors), lib.tensor(np.ascontiguousarray(values)))
    except (NotImplementedError, AttributeError) as error:
        return type(error) if isinstance(error, NotImplementedError) else AttributeError
    if not found.requires_grad:
        return found.numpy(), []
    weights = lib.tensor(np.cos(np.arange(found.numel(), dtype=found.detach().numpy().dtype)).reshape(found.shape))
    finite = lib.where(lib.isfinite(found), found, 0.0)
    try:
        (finite * weights).sum().backward()
    except NotImplementedError:  # the incomplete gamma function, by its first argument
        return found.detach().numpy(), []
    return found.detach().numpy(), [None if t.grad is None else t.grad.numpy() for t in tensors]


def _assert_same(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    if isinstance(expected, type) or isinstance(found, type):
        assert found == expected
        return
    assert found[0].shape == expected[0].shape
    np.testing.assert_allclose(found[0], expected[0], rtol=rtol, atol=1e-11)
    if not expected[1] or not found[1]:
        assert not any(g is not None and g.any() for g in (*found[1], *expected[1]))
        return
    for ours, theirs in zip(found[1], expected[1], strict=True):
        # PyTorch's trigamma has nine digits
        np.testing.assert_allclose(_or_zero(ours, theirs), _or_zero(theirs, ours), rtol=max(rtol, 1e-7), atol=1e-9)


def _or_zero(grad: Any, other: Any) -> Any:
    return grad if grad is not None else np.zeros_like(other) if other is not None else 0.0


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("name", CASES)
def test_quantities(name: str, quantity: str) -> None:
    single = name.startswith("Multinomial") and quantity in ("entropy", "perplexity")  # one term, in PyTorch
    _assert_same(_quantity(jitgrad, name, quantity), _quantity(torch, name, quantity), 1e-6 if single else 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_log_densities_in_a_step(name: str, mode: Mode) -> None:
    make, parameters, values = CASES[name]

    def step(value: Any, *tensors: Any) -> Any:
        loss = make(jitgrad.distributions, *tensors).log_prob(value).sum()
        loss.backward()
        return loss, [t.grad for t in tensors]

    loss, grads = mode.run(step, lambda: (jitgrad.tensor(np.ascontiguousarray(values)), *_tensors(jitgrad, parameters)))
    tensors = _tensors(torch, parameters)
    expected = make(torch.distributions, *tensors).log_prob(torch.tensor(np.ascontiguousarray(values))).sum()
    expected.backward()
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-9)
    for ours, theirs in zip(grads, tensors, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.grad.numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_shapes_and_expansion(name: str) -> None:
    make, parameters, values = CASES[name]

    def described(lib: Any) -> Any:
        dist = make(lib.distributions, *_tensors(lib, parameters))
        larger = dist.expand((4, *dist.batch_shape))
        found = larger.log_prob(lib.tensor(np.ascontiguousarray(values)))
        sample = larger.sample((5,))
        return (
            tuple(dist.batch_shape), tuple(dist.event_shape), tuple(larger.batch_shape), tuple(larger.event_shape),
            tuple(sample.shape), str(sample.dtype).split(".")[-1], bool(dist.has_rsample),
            bool(dist.has_enumerate_support), type(larger).__name__, found.detach().numpy().round(9).tolist(),
        )  # fmt: skip

    assert described(jitgrad) == described(torch)


@pytest.mark.parametrize("method", ["sample", "rsample"])
@pytest.mark.parametrize("name", CASES)
def test_samples_from_a_seed(name: str, method: str) -> None:
    make, parameters, _ = CASES[name]

    def drawn(lib: Any) -> Any:
        tensors = _tensors(lib, parameters)
        lib.manual_seed(5)
        dist = make(lib.distributions, *tensors)
        try:
            samples = getattr(dist, method)((3,))
        except NotImplementedError:
            return NotImplementedError
        if not samples.requires_grad:
            return samples.numpy(), []
        samples.sum().backward()
        return samples.detach().numpy(), [None if t.grad is None else t.grad.numpy() for t in tensors]

    found, expected = drawn(jitgrad), drawn(torch)
    assert isinstance(found, type) == isinstance(expected, type)
    if not isinstance(found, type):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-6, atol=1e-9)
        assert len(found[1]) == len(expected[1])
        rtol = DERIVATIVES.get(name, 1e-6)
        for ours, theirs in zip(found[1], expected[1], strict=True):
            if name not in OTHER_DERIVATIVES:
                atol = 1e-9 if rtol < 1e-3 else 1e-4
                np.testing.assert_allclose(_or_zero(ours, theirs), _or_zero(theirs, ours), rtol=rtol, atol=atol)


FAMILIES = [
    "Normal", "Laplace", "Cauchy", "Uniform", "Exponential", "Gamma", "Beta", "Dirichlet", "LogNormal", "HalfNormal",
    "Gumbel", "Bernoulli", "Geometric", "Poisson", "Binomial", "Categorical", "OneHotCategorical",
    "MultivariateNormal", "Independent", "StudentT", "mixture", "Uniform on positive numbers", "Uniform in (0, 1)",
    *RARER_FAMILIES,
]  # fmt: skip


def _divergence(lib: Any, p: str, q: str) -> Any:
    (make_p, of_p, _), (make_q, of_q, _) = CASES[p], CASES[q]
    xs = _tensors(lib, of_p)
    ys = _tensors(lib, of_q if p != q else tuple(a * 1.25 for a in of_q) if "Bernoulli" not in p else of_q)
    if p == q and p in ("Bernoulli", "Geometric", "Binomial", "Categorical", "OneHotCategorical"):
        ys = _tensors(lib, tuple(0.9 * a + 0.02 * np.arange(a.size).reshape(a.shape) / a.size for a in of_q))
    try:
        found = lib.distributions.kl_divergence(make_p(lib.distributions, *xs), make_q(lib.distributions, *ys))
    except NotImplementedError:
        return NotImplementedError
    if not found.requires_grad or not np.isfinite(found.detach().numpy()).all():
        return found.detach().numpy(), []
    found.sum().backward()
    return found.detach().numpy(), [None if t.grad is None else t.grad.numpy() for t in (*xs, *ys)]


@pytest.mark.parametrize(("p", "q"), list(itertools.product(FAMILIES, FAMILIES)))
def test_divergences(p: str, q: str) -> None:
    found, expected = _divergence(jitgrad, p, q), _divergence(torch, p, q)
    _assert_same(found, expected)


def _bad(d: Any, t: Any) -> dict[str, Any]:
    normal = d.Normal(t(0.0), t(1.0))
    return {
        "a scale of zero": lambda: d.Normal(t(0.0), t(0.0)),
        "a location that is none": lambda: d.Normal(t(float("nan")), t(1.0)),
        "a value that is none": lambda: normal.log_prob(t(float("nan"))),
        "a number": lambda: normal.log_prob(0.5),
        "a list": lambda: d.Normal([0.0], 1.0),
        "shapes that do not fit": lambda: d.Normal(t([0.0, 1.0]), t([1.0, 1.0])).log_prob(t([1.0, 2.0, 3.0])),
        "a negative rate": lambda: d.Exponential(t(-1.0)),
        "outside of an interval": lambda: d.Uniform(t(0.0), t(1.0)).log_prob(t(2.0)),
        "an empty interval": lambda: d.Uniform(t(1.0), t(1.0)),
        "two parameters": lambda: d.Bernoulli(t(0.5), t(0.5)),
        "no parameter": lambda: d.Categorical(),
        "a probability above one": lambda: d.Bernoulli(t(1.5)),
        "no count": lambda: d.Poisson(t(2.0)).log_prob(t(0.5)),
        "too large a count": lambda: d.Binomial(3, t(0.5)).log_prob(t(4.0)),
        "a category that is none": lambda: d.Categorical(t([0.5, 0.5])).log_prob(t(2)),
        "no dimension": lambda: d.Categorical(t(0.5)),
        "not one-hot": lambda: d.OneHotCategorical(t([0.5, 0.5])).log_prob(t([1.0, 1.0])),
        "outside of the simplex": lambda: d.Dirichlet(t([0.5, 0.5])).log_prob(t([1.0, 1.0])),
        "no concentration": lambda: d.Dirichlet(t(0.5)),
        "not positive definite": lambda: d.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 2.0], [2.0, 1.0]])),
        "two matrices": lambda: d.MultivariateNormal(t([0.0]), t([[1.0]]), t([[1.0]])),
        "no matrix": lambda: d.MultivariateNormal(t([0.0]), t([1.0])),
        "too many dimensions": lambda: d.Independent(normal, 1),
        "no transform": lambda: d.TransformedDistribution(normal, 3),
        "a list of others": lambda: d.TransformedDistribution(normal, [3]),
        "components that do not fit": lambda: d.MixtureSameFamily(
            d.Categorical(t([0.5, 0.5])), d.Normal(t([0.0, 1.0, 2.0]), t(1.0))
        ),
        "no weights": lambda: d.MixtureSameFamily(normal, normal),
        "a count that is none": lambda: d.Multinomial(2.5, t([0.5, 0.5])),
        "a probability of zero": lambda: d.Geometric(t([0.0, 0.5])),
        "a subclass without expand": lambda: type(
            "Own", (d.Normal,), {"__init__": lambda self: d.Normal.__init__(self, t(0.0), t(1.0))}
        )().expand((2,)),
    }


@pytest.mark.parametrize("name", _bad(torch.distributions, torch.tensor))
def test_misuses(name: str) -> None:
    def outcome(lib: Any) -> Any:
        with pytest.raises(Exception) as caught:
            _bad(lib.distributions, lib.tensor)[name]()
        return caught.type

    assert outcome(jitgrad) == outcome(torch)


def test_checks_can_be_switched_off() -> None:
    d = jitgrad.distributions
    assert d.Normal(jitgrad.tensor(0.0), jitgrad.tensor(-1.0), validate_args=False).mean.item() == 0.0
    d.Distribution.set_default_validate_args(False)
    try:
        assert d.Uniform(jitgrad.tensor(0.0), jitgrad.tensor(1.0)).log_prob(jitgrad.tensor(3.0)).item() == -np.inf
    finally:
        d.Distribution.set_default_validate_args(True)
