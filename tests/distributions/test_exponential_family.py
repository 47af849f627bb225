"""``ExponentialFamily``: entropies of the log normalizer's slope are those of the formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from jitgrad import distributions as dist

tensor = jitgrad.tensor
FAMILIES: dict[str, Callable[[Any], Any]] = {
    "Bernoulli": lambda lib: lib.distributions.Bernoulli(lib.tensor(0.3)),
    "ContinuousBernoulli": lambda lib: lib.distributions.ContinuousBernoulli(lib.tensor([0.3, 0.5])),
    "Exponential": lambda lib: lib.distributions.Exponential(lib.tensor(2.0)),
    "Gamma": lambda lib: lib.distributions.Gamma(lib.tensor([2.0, 0.5]), lib.tensor(3.0)),
    "Normal": lambda lib: lib.distributions.Normal(lib.tensor([1.0, 2.0]), lib.tensor([0.5, 3.0])),
    "Wishart": lambda lib: lib.distributions.Wishart(lib.tensor(5.0), lib.eye(3) * 2),
}
WITHOUT_CARRIER: dict[str, Callable[[Any], Any]] = {
    "Beta": lambda lib: lib.distributions.Beta(lib.tensor(2.0), lib.tensor(0.5)),
    "Dirichlet": lambda lib: lib.distributions.Dirichlet(lib.tensor([0.5, 1.0, 2.0])),
    "Poisson": lambda lib: lib.distributions.Poisson(lib.tensor(3.0)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_entropy(name: str) -> None:
    found = FAMILIES[name](jitgrad)
    assert isinstance(found, dist.ExponentialFamily)
    assert dist.ExponentialFamily.entropy(found).tolist() == pytest.approx(found.entropy().tolist(), rel=2e-6, abs=1e-6)


@pytest.mark.parametrize("name", WITHOUT_CARRIER)
def test_a_mean_that_is_not_known(name: str) -> None:
    with pytest.raises(NotImplementedError):
        dist.ExponentialFamily.entropy(WITHOUT_CARRIER[name](jitgrad))


@pytest.mark.parametrize("name", [*FAMILIES, *WITHOUT_CARRIER])
def test_parameters_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    make = {**FAMILIES, **WITHOUT_CARRIER}[name]
    ours, theirs = make(jitgrad), make(torch)
    assert isinstance(theirs, torch.distributions.ExponentialFamily)
    for a, b in zip(ours._natural_params, theirs._natural_params, strict=True):
        assert jitgrad.allclose(a, jitgrad.tensor(b.tolist()))
    found, want = ours._log_normalizer(*ours._natural_params), theirs._log_normalizer(*theirs._natural_params)
    assert found.tolist() == pytest.approx(want.tolist(), rel=1e-6)


def test_constraints_by_name() -> None:
    """Pyro's constraints give the bounds by name."""
    between = dist.constraints.interval(0.0, upper_bound=2.0)
    assert repr(between) == "Interval(lower_bound=0.0, upper_bound=2.0)"
    assert between.check(tensor([1.0, 3.0])).tolist() == [True, False]
    assert type(dist.constraints.positive)(lower_bound=1.0).check(tensor(0.5)).item() is False
    for wrong in (lambda: dist.constraints.interval(0.0), lambda: dist.constraints.less_than(1.0, upper_bound=1.0)):
        with pytest.raises(TypeError):
            wrong()
