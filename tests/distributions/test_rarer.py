"""Rarer distributions where PyTorch is no reference, regions of parts, and transforms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions as dist
from tests.conftest import Mode

MATRIX = np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 1.0]])


@pytest.mark.parametrize("concentration", [-0.4, 0.0, 0.3, 2.0])
def test_the_generalized_pareto_distribution(concentration: float) -> None:
    """PyTorch's raises in float64."""
    stats = pytest.importorskip("scipy.stats")
    x = np.array([0.6, 1.2, 2.4])
    expected = stats.genpareto(concentration, loc=0.5, scale=1.5)
    found = dist.GeneralizedPareto(jitgrad.full((3,), 0.5, dtype=jitgrad.float64), 1.5, concentration)
    value = jitgrad.tensor(x)
    np.testing.assert_allclose(found.log_prob(value).numpy(), expected.logpdf(x), rtol=1e-9)
    np.testing.assert_allclose(found.cdf(value).numpy(), expected.cdf(x), rtol=1e-9)
    np.testing.assert_allclose(found.log_survival_function(value).numpy(), expected.logsf(x), rtol=1e-9)
    np.testing.assert_allclose(found.icdf(value / 3).numpy(), expected.ppf(x / 3), rtol=1e-9)
    np.testing.assert_allclose(found.entropy().numpy()[0], expected.entropy(), rtol=1e-9)
    mean, variance = expected.stats("mv")
    for ours, theirs in ((found.mean, mean), (found.variance, variance)):
        np.testing.assert_allclose(ours.numpy()[0], theirs if np.isfinite(theirs) else np.nan, rtol=1e-9)
    samples = found.sample((2000,))
    assert bool(found.support.check(samples).all())
    assert samples.median().item() == pytest.approx(expected.median(), rel=0.1)
    assert found.expand((2, 3)).log_prob(value).shape == (2, 3)


def _wishart(kind: str, lib: Any = dist) -> Any:
    make = jitgrad.tensor if lib is dist else pytest.importorskip("torch").tensor
    df = make([4.5, 6.0], dtype=(jitgrad if lib is dist else pytest.importorskip("torch")).float64)
    if kind == "scale_tril":
        return lib.Wishart(df, scale_tril=make(np.linalg.cholesky(MATRIX)))
    if kind == "precision_matrix":
        return lib.Wishart(df, precision_matrix=make(np.linalg.inv(MATRIX)))
    return lib.Wishart(df, make(MATRIX))


@pytest.mark.parametrize("kind", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_the_wishart_distribution(kind: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _wishart(kind), _wishart(kind, torch.distributions)
    value = np.stack([MATRIX, MATRIX * 3 + np.eye(3)])
    np.testing.assert_allclose(
        ours.log_prob(jitgrad.tensor(value)).numpy(), theirs.log_prob(torch.tensor(value)).numpy(), rtol=1e-9
    )
    for name in ("mean", "mode", "variance", "covariance_matrix", "precision_matrix", "scale_tril"):
        np.testing.assert_allclose(getattr(ours, name).numpy(), getattr(theirs, name).numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.entropy().numpy(), theirs.entropy().numpy(), rtol=1e-9)
    jitgrad.manual_seed(1)
    samples = ours.expand((2,)).sample((4000,))
    assert samples.shape == (4000, 2, 3, 3)
    assert bool(ours.support.check(samples[:50]).all())
    np.testing.assert_allclose(samples.mean(0).numpy(), ours.mean.numpy(), atol=0.35)
    np.testing.assert_allclose(samples.var(0).numpy(), ours.variance.numpy(), rtol=0.25, atol=0.4)


def test_the_divergence_of_wishart_distributions() -> None:
    """The mean of the difference of log densities under the first: PyTorch's formula adds up a batch."""
    p = dist.Wishart(jitgrad.tensor(6.0, dtype=jitgrad.float64), jitgrad.tensor(MATRIX))
    q = dist.Wishart(jitgrad.tensor(4.5, dtype=jitgrad.float64), jitgrad.tensor(MATRIX + 0.5 * np.eye(3)))
    jitgrad.manual_seed(0)
    samples = p.sample((20000,))
    differences = p.log_prob(samples) - q.log_prob(samples)
    error = differences.std().item() / len(samples) ** 0.5
    assert abs(dist.kl_divergence(p, q).item() - differences.mean().item()) < 5 * error
    assert dist.kl_divergence(p, p).item() == pytest.approx(0.0, abs=1e-12)


BAD = {
    "no matrix": (lambda d, t: d.Wishart(t(3.0)), AssertionError),
    "a vector": (lambda d, t: d.Wishart(t(3.0), t([1.0, 1.0])), ValueError),
    "too few degrees": (lambda d, t: d.Wishart(t(1.0), t([[1.0, 0.0], [0.0, 1.0]])), ValueError),
    "one row": (lambda d, t: d.LKJCholesky(1), ValueError),
    "both": (lambda d, t: d.ContinuousBernoulli(t(0.5), t(0.5)), ValueError),
    "a probability above one": (lambda d, t: d.ContinuousBernoulli(t(1.5), validate_args=True), ValueError),
    "a factor that does not fit": (
        lambda d, t: d.LowRankMultivariateNormal(t([0.0, 0.0]), t([[1.0]]), t([1.0, 1.0])), ValueError,
    ),
    "a number": (lambda d, t: d.LowRankMultivariateNormal(t(0.0), t([[1.0]]), t([1.0])), ValueError),
    "a diagonal that does not fit": (
        lambda d, t: d.LowRankMultivariateNormal(t([0.0]), t([[1.0]]), t([1.0, 1.0])), ValueError,
    ),
    "below the scale": (lambda d, t: d.Pareto(t(1.0), t(1.0)).log_prob(t(0.5)), ValueError),
    "other sizes": (lambda d, t: d.ReshapeTransform((2, 3), (5,)), ValueError),
    "a shape that is none": (lambda d, t: d.ReshapeTransform((2, 3), (6,)).forward_shape((4,)), ValueError),
    "no triangle": (lambda d, t: d.CorrCholeskyTransform()(t([1.0, 2.0])), ValueError),
    "no transform": (lambda d, t: d.CatTransform([3]), AssertionError),
    "another number of lengths": (lambda d, t: d.CatTransform([d.ExpTransform()], lengths=[1, 2]), AssertionError),
    "another number of slices": (lambda d, t: d.StackTransform([d.ExpTransform()])(t([1.0, 2.0])), AssertionError),
    "no such dimension": (lambda d, t: d.StackTransform([d.ExpTransform()], 3)(t([1.0])), AssertionError),
    "no row": (lambda d, t: d.transform_to(d.constraints.boolean), NotImplementedError),
    "no region": (lambda d, t: d.biject_to.register(int, lambda c: None), TypeError),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_misuses(name: str) -> None:
    torch = pytest.importorskip("torch")
    program, expected = BAD[name]
    for lib in (jitgrad, torch):
        with pytest.raises(expected):
            program(lib.distributions, lib.tensor)


# --- transforms and regions ---


_X = np.random.default_rng(3).uniform(-1.2, 1.2, (2, 6))
TRANSFORMS = {
    "reshape": (lambda d: d.ReshapeTransform((2, 3), (6,)), _X.reshape(2, 2, 3)),
    "sticks": (lambda d: d.StickBreakingTransform(), _X),
    "correlations": (lambda d: d.CorrCholeskyTransform(), _X),
    "factors": (lambda d: d.LowerCholeskyTransform(), _X[:, :4].reshape(2, 2, 2)),
    "positive definite": (lambda d: d.PositiveDefiniteTransform(), _X[:, :4].reshape(2, 2, 2)),
    "beside each other": (
        lambda d: d.CatTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)], 1, [2, 4]), _X,
    ),
    "beside each other, of vectors": (
        lambda d: d.CatTransform([d.SoftmaxTransform(), d.IndependentTransform(d.ExpTransform(), 1)], 0), _X,
    ),
    "slices": (lambda d: d.StackTransform([d.ExpTransform(), d.SigmoidTransform(), d.TanhTransform()], -1), _X[:, :3]),
    "ranks": (lambda d: d.CumulativeDistributionTransform(d.Normal(0.0, 2.0)), _X),
}  # fmt: skip


@pytest.mark.parametrize("cache", [0, 1])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str, cache: int) -> None:
    torch = pytest.importorskip("torch")
    make, array = TRANSFORMS[name]

    def outcome(lib: Any) -> Any:
        transform = make(lib.distributions).with_cache(cache)
        x = lib.tensor(array).requires_grad_()
        y = transform(x)
        found = [y.detach().numpy(), transform.inv(y.detach().clone()).numpy()]
        try:
            jacobian = transform.log_abs_det_jacobian(x, y)
            jacobian.sum().backward()
            found += [jacobian.detach().numpy(), np.zeros(()) if x.grad is None else x.grad.numpy()]
        except (NotImplementedError, RuntimeError):
            found.append(np.array("none"))
        shapes = [tuple(transform.forward_shape(x.shape)), tuple(transform.inverse_shape(y.shape))]
        facts = [bool(transform.bijective), repr(make(lib.distributions) == make(lib.distributions)), shapes]
        return found, facts, transform.inv(y) is x

    found, expected = outcome(jitgrad), outcome(torch)
    assert found[1:] == expected[1:]
    for ours, theirs in zip(found[0], expected[0], strict=True):
        if ours.dtype.kind == "U":
            assert ours == theirs
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


REGIONS = {
    "real": lambda c: c.real,
    "real vectors": lambda c: c.real_vector,
    "positive": lambda c: c.positive,
    "not negative": lambda c: c.nonnegative,
    "above": lambda c: c.greater_than(2.0),
    "from": lambda c: c.greater_than_eq(2.0),
    "below": lambda c: c.less_than(-1.0),
    "unit interval": lambda c: c.unit_interval,
    "interval": lambda c: c.interval(-2.0, 3.0),
    "half-open": lambda c: c.half_open_interval(0.0, 5.0),
    "simplex": lambda c: c.simplex,
    "lower_cholesky": lambda c: c.lower_cholesky,
    "corr_cholesky": lambda c: c.corr_cholesky,
    "positive_definite": lambda c: c.positive_definite,
    "positive_semidefinite": lambda c: c.positive_semidefinite,
    "blocks": lambda c: c.independent(c.positive, 1),
    "beside each other": lambda c: c.cat([c.positive, c.real], -1, [2, 4]),
    "slices": lambda c: c.stack([c.positive, c.less_than(0.0), c.real, c.real, c.unit_interval, c.real], -1),
}


@pytest.mark.parametrize("table", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", REGIONS)
def test_ways_into_regions(name: str, table: str) -> None:
    torch = pytest.importorskip("torch")
    square = name in ("lower_cholesky", "positive_definite", "positive_semidefinite")
    array = _X[:, :4].reshape(2, 2, 2) if square else _X

    def outcome(lib: Any) -> Any:
        region = REGIONS[name](lib.distributions.constraints)
        try:
            transform = getattr(lib.distributions, table)(region)
        except NotImplementedError:
            return "none", None, None
        y = transform(lib.tensor(array))
        return y.numpy(), transform.inv(y).numpy(), region.check(y).numpy()

    found, expected = outcome(jitgrad), outcome(torch)
    if isinstance(expected[0], str):
        assert found == expected
        return
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    assert found[2].all()


def test_a_table_of_one_s_own() -> None:
    class Even(type(dist.constraints.real)):  # type: ignore[misc]
        pass

    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        dist.transform_to(Even())

    @dist.transform_to.register(Even)
    def make(constraint: Any) -> Any:
        return dist.AffineTransform(0.0, 2.0)

    assert dist.transform_to(Even())(jitgrad.tensor(3.0)).item() == 6.0


def test_learning_a_correlation_in_a_step(mode: Mode) -> None:
    """The likelihood of normal vectors is greatest at their correlation."""
    rng = np.random.default_rng(0)
    data = jitgrad.tensor(rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 400))

    def step(x: Any) -> Any:
        raw = jitgrad.zeros(1, dtype=jitgrad.float64, requires_grad=True)
        for _ in range(25):
            factor = dist.CorrCholeskyTransform()(raw)
            q = dist.MultivariateNormal(x.new_zeros(2), scale_tril=factor, validate_args=False)
            (grad,) = jitgrad.autograd.grad(-q.log_prob(x).mean(), raw)
            with jitgrad.no_grad():
                raw -= 0.5 * grad
        factor = dist.CorrCholeskyTransform()(raw)
        return (factor @ factor.mT)[1, 0]

    assert mode.run(step, lambda: (data,), is_steady=False).item() == pytest.approx(0.6, abs=0.07)
