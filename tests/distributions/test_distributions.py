"""What PyTorch is no reference for: numbers of the gamma family and their gradients, formulas of one's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions as dist
from jitgrad.distributions.gamma import _slope
from tests.conftest import Mode


def _moments(samples: Any) -> tuple[Any, Any]:
    array = samples.double().numpy()
    return array.mean(0), array.var(0)


DRAWN = {
    "Gamma": lambda: dist.Gamma(jitgrad.tensor([0.05, 0.4, 1.0, 3.5, 40.0, 1000.0]), jitgrad.tensor(2.0)),
    "Beta": lambda: dist.Beta(jitgrad.tensor([0.5, 2.0]), jitgrad.tensor([0.7, 5.0])),
    "Dirichlet": lambda: dist.Dirichlet(jitgrad.tensor([0.3, 1.0, 4.0])),
    "StudentT": lambda: dist.StudentT(jitgrad.tensor([9.0, 30.0]), 1.0, 2.0),
    "Binomial": lambda: dist.Binomial(jitgrad.tensor([3, 40]), jitgrad.tensor([0.3, 0.9])),
    "NegativeBinomial": lambda: dist.NegativeBinomial(jitgrad.tensor([3.0, 8.0]), jitgrad.tensor([0.3, 0.6])),
}


@pytest.mark.parametrize("name", DRAWN)
def test_samples_have_the_moments_of_their_distribution(name: str) -> None:
    d = DRAWN[name]()
    count = 100_000
    samples = d.sample((count,))
    mean, variance = _moments(samples)
    deviation = np.sqrt(d.variance.numpy())
    assert np.all(np.abs(mean - d.mean.numpy()) < 6 * deviation / math.sqrt(count))
    np.testing.assert_allclose(variance, d.variance.numpy(), rtol=0.06)
    assert bool(d.support.check(samples).all())


@pytest.mark.parametrize("concentration", [0.02, 0.5, 1.0, 4.0, 60.0, 299.0, 301.0, 5000.0])
def test_gamma_distributed_numbers_move_with_their_concentration(concentration: float) -> None:
    """Their quantile stays: dx/da is -(dP/da) / p, here by differences of SciPy's P."""
    special = pytest.importorskip("scipy.special")
    quantile = np.array([0.01, 0.3, 0.5, 0.9, 0.999])
    x = special.gammaincinv(concentration, quantile)
    step = 1e-4 * concentration
    expected = (
        special.gammaincinv(concentration + step, quantile) - special.gammaincinv(concentration - step, quantile)
    ) / (2 * step)
    np.testing.assert_allclose(_slope(x, np.full(5, concentration)), expected, rtol=2e-4)


@pytest.mark.parametrize("make", [lambda a: dist.Gamma(a, 3.0), lambda a: dist.Beta(a, 2.0)], ids=["Gamma", "Beta"])
def test_gradients_of_means_of_samples(make: Any) -> None:
    """The mean of the samples' gradients is the gradient of the mean."""
    a = jitgrad.tensor([0.6, 2.5], requires_grad=True)
    d = make(a)
    samples = d.rsample((50_000,))
    (found,) = jitgrad.autograd.grad(samples.mean(0).sum(), a)
    (expected,) = jitgrad.autograd.grad(d.mean.sum(), a)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0.05)


def test_a_formula_of_one_s_own() -> None:
    class Own(dist.Normal):
        pass

    class Other(dist.Laplace):
        pass

    p, q = Own(0.0, 1.0), Other(0.0, 1.0)
    assert dist.kl_divergence(p, q).item() == dist.kl_divergence(dist.Normal(0.0, 1.0), dist.Laplace(0.0, 1.0)).item()

    @dist.register_kl(Own, Other)
    def formula(p: Any, q: Any) -> Any:
        return jitgrad.tensor(7.0)

    assert dist.kl_divergence(p, q).item() == 7.0
    with pytest.raises(NotImplementedError, match="is implemented for p type Own and q type Poisson"):
        dist.kl_divergence(p, dist.Poisson(2.0))
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        dist.register_kl(3, Own)


def test_formulas_that_are_equally_near() -> None:
    class Left(dist.Normal):
        pass

    class Right(dist.Normal):
        pass

    dist.register_kl(Left, dist.Normal)(lambda p, q: jitgrad.tensor(1.0))
    dist.register_kl(dist.Normal, Right)(lambda p, q: jitgrad.tensor(2.0))
    with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Left, Right\)"):
        dist.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0))


def test_a_transform_remembers_its_argument() -> None:
    x = jitgrad.tensor([30.0])
    once, again = dist.SigmoidTransform(cache_size=1), dist.SigmoidTransform()
    assert once.inv(once(x)) is x
    assert again.inv(again(x)).item() != 30.0
    assert once.inv.inv is once
    assert dist.ComposeTransform([once, again]).inv(dist.ComposeTransform([once, again])(x)).shape == (1,)


def test_a_step_that_learns_by_sampling(mode: Mode) -> None:
    """The reparameterized gradient of an evidence bound moves a normal distribution to its target."""
    target = dist.Normal(jitgrad.tensor(2.0), jitgrad.tensor(0.5))

    def make() -> Any:
        jitgrad.manual_seed(0)
        return jitgrad.zeros(2, requires_grad=True), target.loc

    def step(parameters: Any, loc: Any) -> Any:
        for _ in range(50):
            q = dist.Normal(parameters[0], parameters[1].exp(), validate_args=False)
            x = q.rsample((16,))
            other = dist.Normal(loc, 0.5, validate_args=False)
            loss = (q.log_prob(x) - other.log_prob(x)).mean()
            (grad,) = jitgrad.autograd.grad(loss, parameters)
            with jitgrad.no_grad():
                parameters -= 0.1 * grad
        return dist.kl_divergence(dist.Normal(parameters[0], parameters[1].exp(), validate_args=False), target)

    assert mode.run(step, make, is_steady=False).item() < 0.05
