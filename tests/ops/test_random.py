"""Random numbers are PyTorch's: one seed, the same numbers, in every mode.

Uniform numbers and integers agree to the last bit everywhere. The others do where PyTorch runs its AVX2 code, and are
within ``ULPS`` elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.runtime.random import twister

torch: Any = pytest.importorskip("torch")

SIZES = (*range(40), 63, 64, 65, 623, 624, 625, 1000, 4099)
DTYPES = ("float32", "float64")
ULPS = 0 if torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512") else 8

Draw = Callable[[Any], Any]


@pytest.fixture(params=["native", "numpy"])
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both forms of the generator."""
    assert twister.is_native()
    kernel = None
    if request.param == "numpy":
        kernel = twister.use_numpy()
        opener, twister._native.open = twister._native.open, None
        assert not twister.is_native()
        yield
        twister._native.open = opener
        twister.use_numpy(kernel)
    else:
        yield


def assert_same(own: Any, theirs: Any, ulps: int = 0) -> None:
    """Dtype, layout and numbers."""
    assert str(own.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    assert tuple(own.shape) == tuple(theirs.shape)
    a, b = own.detach().numpy(), theirs.detach().numpy()
    if ulps:
        np.testing.assert_array_max_ulp(a, b, ulps)
    else:
        np.testing.assert_array_equal(a, b)


def assert_same_state(own: Any = jitgrad, theirs: Any = torch) -> None:
    np.testing.assert_array_equal(_bytes(own), _bytes(theirs))


def _bytes(library: Any) -> Any:
    return library.get_rng_state().numpy().view(np.uint8)


def both(draw: Draw, seed: int = 7) -> tuple[Any, Any]:
    """What ``draw`` gives in either library after the same seed; the states agree afterwards."""
    found = []
    for library in (jitgrad, torch):
        library.manual_seed(seed)
        found.append(draw(library))
    assert_same_state()
    return found[0], found[1]


def _dtype(t: Any, name: str) -> Any:
    return getattr(t, name)


# --- streams ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["rand", "randn"])
def test_every_size(name: str, dtype: str, form: None) -> None:
    def draw(t: Any) -> Any:
        return [getattr(t, name)(n, dtype=_dtype(t, dtype)) for n in SIZES]

    for own, theirs in zip(*both(draw), strict=True):
        assert_same(own, theirs, ULPS if name == "randn" else 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_numbers(dtype: str) -> None:
    def draw(t: Any) -> Any:
        return [f(100_003, dtype=_dtype(t, dtype)) for f in (t.rand, t.randn)]

    (uniform, normal), (theirs_uniform, theirs_normal) = both(draw)
    assert_same(uniform, theirs_uniform)
    assert_same(normal, theirs_normal, ULPS)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("float16", 1, 2), ("bfloat16", -100, 100), ("float32", 1e6, 1e6 + 1), ("float64", 1e15, 1e15 + 1)],
)
def test_the_upper_bound_is_never_reached(dtype: str, low: float, high: float, form: None) -> None:
    own, theirs = both(lambda t: t.empty(5000, dtype=_dtype(t, dtype)).uniform_(low, high))
    assert_same(own.double(), theirs.double())
    assert not bool((own == high).any())


FILLS: dict[str, Draw] = {
    "uniform": lambda x: x.uniform_(),
    "uniform-bounds": lambda x: x.uniform_(-0.3, 1.77),
    "normal": lambda x: x.normal_(),
    "normal-scaled": lambda x: x.normal_(0.3, 1.7),
    "normal-constant": lambda x: x.normal_(2, 0),
    "bernoulli": lambda x: x.bernoulli_(),
    "bernoulli-p": lambda x: x.bernoulli_(0.3),
    "exponential": lambda x: x.exponential_(),
    "exponential-rate": lambda x: x.exponential_(1.7),
    "geometric": lambda x: x.geometric_(0.3),
    "cauchy": lambda x: x.cauchy_(),
    "cauchy-moved": lambda x: x.cauchy_(0.3, 1.7),
    "log_normal": lambda x: x.log_normal_(),
    "log_normal-narrow": lambda x: x.log_normal_(0.3, 0.2),
    "random": lambda x: x.random_(),
    "random-to": lambda x: x.random_(7),
    "random-from": lambda x: x.random_(-5, 7),
    "random-named": lambda x: x.random_(to=5),
}
LAYOUTS: dict[str, Draw] = {
    "few": lambda t: (7,),
    "some": lambda t: (3, 21),
    "none": lambda t: (0, 3),
    "scalar": lambda t: (),
}
VIEWS: dict[str, Draw] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "stepped": lambda x: x[::2, 1:],
    "permuted": lambda x: x.unflatten(1, (2, 4)).permute(2, 0, 1),
    "permuted-stepped": lambda x: x.unflatten(1, (2, 4)).permute(2, 0, 1)[::2, 1:],
    "row": lambda x: x[2],
    "column": lambda x: x[:, 3],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", LAYOUTS)
@pytest.mark.parametrize("name", FILLS)
def test_filling(name: str, shape: str, dtype: str, form: None) -> None:
    def draw(t: Any) -> Any:
        return [FILLS[name](t.zeros(LAYOUTS[shape](t), dtype=_dtype(t, dtype))) for _ in range(3)]

    for own, theirs in zip(*both(draw), strict=True):
        assert_same(own, theirs, ULPS)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", FILLS)
def test_filling_layouts(name: str, view: str, mode: Any) -> None:
    """In the order of the memory, whatever the dimensions are called."""

    def draw(t: Any) -> Any:
        base = t.zeros(6, 8)
        FILLS[name](VIEWS[view](base))
        return base

    own, theirs = _in_mode(draw, mode)
    assert_same(own, theirs, ULPS)


def _in_mode(draw: Draw, mode: Any, seed: int = 7) -> tuple[Any, Any]:
    """As ``both``, with a step of the mode's; the last call is the one with the seed."""

    def step() -> Any:
        jitgrad.manual_seed(seed)
        return draw(jitgrad)

    own = mode.run(step)
    state = _bytes(jitgrad)
    torch.manual_seed(seed)
    theirs = draw(torch)
    np.testing.assert_array_equal(state, _bytes(torch))
    return own, theirs


INTEGER_FILLS = ("bernoulli", "bernoulli-p", "geometric", "random", "random-to", "random-named")


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
@pytest.mark.parametrize("name", INTEGER_FILLS)
def test_filling_integers(name: str, dtype: str) -> None:
    if dtype == "bool" and name in ("random-to", "random-named", "geometric"):
        pytest.skip("PyTorch refuses it")
    own, theirs = both(lambda t: FILLS[name](t.zeros(53, dtype=_dtype(t, dtype))))
    assert_same(own, theirs)


RANGES = (
    (0, 10), (-5, 7), (0, 2**28 - 1), (0, 2**28), (0, 2**31), (0, 2**32), (-(2**40), 2**41 + 1), (-(2**62), 2**62 + 5),
    (0, 2**63 - 1), (2**24 + 1, 2**24 + 4), (-(2**25) - 7, 2**26 + 9), (-(2**55) - 3, 2**56 + 5), (3, None), (-7, None),
    (-(2**63), None), (5, 5), (6, 5), (0, 1), (-(2**31), 2**31), (2**31 - 1, None),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_ranges_of_integers(bounds: Any, dtype: str) -> None:
    """What is drawn, and what is refused."""

    def draw(t: Any) -> Any:
        try:
            return t.zeros(50, dtype=_dtype(t, dtype)).random_(*bounds)
        except (RuntimeError, NotImplementedError) as error:
            return type(error), str(error)

    own, theirs = both(draw)
    if isinstance(theirs, tuple):
        assert own == theirs or (own[0] is RuntimeError and "not implemented for 'Bool'" in theirs[1])
    else:
        assert_same(own, theirs)


NEW: dict[str, Draw] = {
    "rand": lambda t: t.rand(3, 5),
    "rand-list": lambda t: t.rand([2, 3], dtype=t.float64),
    "rand-scalar": lambda t: t.rand(()),
    "randn": lambda t: t.randn((4, 9)),
    "randint": lambda t: t.randint(10, (3, 4)),
    "randint-low": lambda t: t.randint(-3, 10, (3, 4)),
    "randint-named": lambda t: t.randint(low=2, high=10, size=(20,)),
    "randint-high": lambda t: t.randint(high=10, size=(20,)),
    "randint-float": lambda t: t.randint(3, 10, (50,), dtype=t.float32),
    "randint-bool": lambda t: t.randint(0, 2, (50,), dtype=t.bool),
    "randint-int32": lambda t: t.randint(-9, 2**30, (50,), dtype=t.int32),
    "randint-wide": lambda t: t.randint(2**40, (50,)),
    "randperm": lambda t: t.randperm(100),
    "randperm-one": lambda t: t.randperm(1),
    "randperm-none": lambda t: t.randperm(0),
    "randperm-int32": lambda t: t.randperm(77, dtype=t.int32),
    "randperm-float": lambda t: t.randperm(77, dtype=t.float32),
    "rand_like": lambda t: t.rand_like(t.zeros(3, 4)),
    "rand_like-transposed": lambda t: t.rand_like(t.zeros(3, 4).t()),
    "rand_like-stepped": lambda t: t.rand_like(t.zeros(6, 8).t()[::2]),
    "rand_like-float64": lambda t: t.rand_like(t.zeros(3, 4, dtype=t.int64), dtype=t.float64),
    "randn_like": lambda t: t.randn_like(t.zeros(5, 5)),
    "randn_like-transposed": lambda t: t.randn_like(t.zeros(5, 6).t()),
    "randint_like": lambda t: t.randint_like(t.zeros(5, 6).t(), 3, 9),
    "randint_like-high": lambda t: t.randint_like(t.zeros(5, dtype=t.int64), 9),
    "normal": lambda t: t.normal(0.3, 1.7, (4, 9)),
    "normal-mean": lambda t: t.normal(t.arange(40.0)),
    "normal-mean-std": lambda t: t.normal(t.arange(40.0), 1.7),
    "normal-std": lambda t: t.normal(0.3, t.arange(40.0)),
    "normal-tensors": lambda t: t.normal(t.arange(5.0), t.arange(20.0).view(4, 5)),
    "normal-float64": lambda t: t.normal(t.arange(5.0, dtype=t.float64), 0.5),
    "bernoulli": lambda t: t.bernoulli(t.linspace(0, 1, 42).view(6, 7)),
    "bernoulli-float64": lambda t: t.bernoulli(t.linspace(0, 1, 42, dtype=t.float64)),
    "bernoulli-transposed": lambda t: t.bernoulli(t.linspace(0, 1, 42).view(6, 7).t()),
    "bernoulli-p": lambda t: t.bernoulli(t.zeros(42), 0.4),
    "bernoulli-method": lambda t: t.linspace(0, 1, 42).bernoulli(),
    "bernoulli_-tensor": lambda t: t.zeros(6, 7).bernoulli_(t.linspace(0, 1, 7)),
    "bernoulli_-tensor64": lambda t: t.zeros(6, 7).bernoulli_(t.linspace(0, 1, 7, dtype=t.float64)),
    "bernoulli_-integers": lambda t: t.zeros(6, 7, dtype=t.int64).bernoulli_(t.linspace(0, 1, 7)),
    "multinomial": lambda t: t.multinomial(t.arange(1.0, 12.0), 5),
    "multinomial-one": lambda t: t.multinomial(t.arange(1.0, 12.0), 1),
    "multinomial-all": lambda t: t.multinomial(t.arange(1.0, 12.0), 11),
    "multinomial-rows": lambda t: t.multinomial(t.arange(1.0, 13.0).view(3, 4), 2),
    "multinomial-replacement": lambda t: t.multinomial(t.arange(0.0, 12.0).view(3, 4), 30, replacement=True),
    "multinomial-replacement-one": lambda t: t.multinomial(t.arange(0.0, 12.0).view(3, 4), 1, True),
    "multinomial-float64": lambda t: t.arange(1.0, 12.0, dtype=t.float64).multinomial(30, True),
    "poisson": lambda t: t.poisson(t.linspace(0, 30, 60).view(3, 20)),
    "poisson-float64": lambda t: t.poisson(t.linspace(5, 500, 60, dtype=t.float64)),
    "poisson-transposed": lambda t: t.poisson(t.linspace(0, 30, 60).view(3, 20).t()),
}  # fmt: skip


@pytest.mark.parametrize("name", NEW)
def test_new_tensors(name: str, mode: Any, form: None) -> None:
    own, theirs = _in_mode(NEW[name], mode)
    assert_same(own, theirs, ULPS)
    assert own.stride() == theirs.stride()


def test_streams_interleave(form: None) -> None:
    """One generator behind all of them, and the second number of a pair of normal ones kept meanwhile."""
    rng = np.random.default_rng(3)
    names = [*FILLS, *NEW]
    plan = [(names[rng.integers(len(names))], int(rng.integers(20))) for _ in range(150)]

    def draw(t: Any) -> Any:
        found = []
        for name, n in plan:
            found.append(NEW[name](t) if name in NEW else FILLS[name](t.zeros(n)))
        return found

    for (name, _), own, theirs in zip(plan, *both(draw), strict=True):
        assert_same(own, theirs, ULPS), name


# --- layers ---

LAYERS: dict[str, tuple[Draw, tuple[int, ...]]] = {
    "dropout": (lambda t: lambda x: t.nn.functional.dropout(x, 0.3), (5, 8)),
    "dropout-half": (lambda t: lambda x: t.nn.functional.dropout(x), (5, 8)),
    "dropout-all": (lambda t: lambda x: t.nn.functional.dropout(x, 1.0), (5, 8)),
    "dropout-none": (lambda t: lambda x: t.nn.functional.dropout(x, 0.0), (5, 8)),
    "dropout-inplace": (lambda t: lambda x: t.nn.functional.dropout(x * 1, 0.3, inplace=True), (5, 8)),
    "dropout-transposed": (lambda t: lambda x: t.nn.functional.dropout(x.t(), 0.3), (5, 8)),
    "dropout1d": (lambda t: lambda x: t.nn.functional.dropout1d(x, 0.3), (4, 5, 3)),
    "dropout1d-single": (lambda t: lambda x: t.nn.functional.dropout1d(x, 0.3), (9, 3)),
    "dropout2d": (lambda t: lambda x: t.nn.functional.dropout2d(x, 0.3), (4, 5, 3, 2)),
    "dropout2d-inplace": (lambda t: lambda x: t.nn.functional.dropout2d(x * 1, 0.3, inplace=True), (4, 5, 3, 2)),
    "dropout3d": (lambda t: lambda x: t.nn.functional.dropout3d(x, 0.3), (4, 5, 1, 3, 2)),
    "dropout3d-single": (lambda t: lambda x: t.nn.functional.dropout3d(x, 0.3), (5, 1, 3, 2)),
    "alpha_dropout": (lambda t: lambda x: t.nn.functional.alpha_dropout(x, 0.3, True), (5, 8)),
    "alpha_dropout-inplace": (lambda t: lambda x: t.nn.functional.alpha_dropout(x * 1, 0.3, True, True), (5, 8)),
    "feature_alpha_dropout": (lambda t: lambda x: t.nn.functional.feature_alpha_dropout(x, 0.3, True), (4, 5, 3)),
    "rrelu": (lambda t: lambda x: t.nn.functional.rrelu(x, training=True), (5, 8)),
    "rrelu-bounds": (lambda t: lambda x: t.nn.functional.rrelu(x, 0.2, 0.9, True), (5, 8)),
    "rrelu-inplace": (lambda t: lambda x: t.nn.functional.rrelu(x * 1, 0.2, 0.9, True, True), (5, 8)),
    "gumbel_softmax": (lambda t: lambda x: t.nn.functional.gumbel_softmax(x, 0.7), (5, 8)),
    "gumbel_softmax-hard": (lambda t: lambda x: t.nn.functional.gumbel_softmax(x, 0.7, True), (5, 8)),
    "gumbel_softmax-dim": (lambda t: lambda x: t.nn.functional.gumbel_softmax(x, dim=0), (5, 8)),
    "attention": (
        lambda t: lambda x: t.nn.functional.scaled_dot_product_attention(x, x * 2, x * 3, dropout_p=0.3), (2, 3, 5, 4)
    ),
    "module-dropout": (lambda t: t.nn.Dropout(0.3), (5, 8)),
    "module-dropout1d": (lambda t: t.nn.Dropout1d(0.3), (4, 5, 3)),
    "module-dropout2d": (lambda t: t.nn.Dropout2d(0.3), (4, 5, 3, 2)),
    "module-dropout3d": (lambda t: t.nn.Dropout3d(0.3), (4, 5, 1, 3, 2)),
    "module-alpha": (lambda t: t.nn.AlphaDropout(0.3), (5, 8)),
    "module-feature-alpha": (lambda t: t.nn.FeatureAlphaDropout(0.3), (4, 5, 3)),
    "module-rrelu": (lambda t: t.nn.RReLU(), (5, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, mode: Any) -> None:
    """Values and gradients, in training."""
    make, shape = LAYERS[name]
    start = np.random.default_rng(2).standard_normal(shape).astype(np.float32)

    def draw(t: Any) -> Any:
        x = t.tensor(start, requires_grad=True)
        out = make(t)(x)
        (out * out).sum().backward()
        return out.detach(), x.grad

    own, theirs = _in_mode(draw, mode)
    for a, b in zip(own, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-6)


def test_layers_outside_training_draw_nothing() -> None:
    def draw(t: Any) -> Any:
        F, x = t.nn.functional, t.linspace(-1, 1, 12).view(2, 3, 2)
        return [
            F.dropout(x, 0.3, False), F.dropout1d(x, 0.3, False), F.alpha_dropout(x, 0.3), F.rrelu(x),
            F.feature_alpha_dropout(x, 0.3), F.rrelu(x, 0.1, 0.2),
        ]  # fmt: skip

    for own, theirs in zip(*both(draw), strict=True):
        assert_same(own, theirs)


CONSTANTS: dict[str, Callable[[Any, Any], Any]] = {
    "bernoulli": lambda t, x: t.bernoulli(x),
    "poisson": lambda t, x: t.poisson(x),
    "normal-mean": lambda t, x: t.normal(x, 0.5),
    "normal-std": lambda t, x: t.normal(0.5, x),
    "normal-tensors": lambda t, x: t.normal(x, x.detach() * 2),
    "uniform_": lambda t, x: (x * 1).uniform_(),
    "bernoulli_": lambda t, x: (x * 1).bernoulli_(0.5),
    "random_": lambda t, x: (x * 1).random_(9),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_gradients_are_zeros(name: str, mode: Any) -> None:
    """What is drawn does not depend on the tensor, but belongs to its graph."""
    start = np.linspace(0.1, 0.9, 24, dtype=np.float32)

    def run(t: Any) -> Any:
        x = t.tensor(start, requires_grad=True)
        out = CONSTANTS[name](t, x)
        assert out.requires_grad
        (out * 3).sum().backward()
        return out.detach(), x.grad

    own, theirs = _in_mode(run, mode)
    for a, b in zip(own, theirs, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


# --- errors ---

ERRORS: dict[str, Draw] = {
    "uniform": lambda t: t.zeros(3).uniform_(2, 1),
    "uniform-integer": lambda t: t.zeros(3, dtype=t.int64).uniform_(),
    "normal": lambda t: t.zeros(3).normal_(0, -1),
    "normal-new": lambda t: t.normal(0.0, -1.0, (2,)),
    "normal-float": lambda t: t.normal(t.zeros(3), -1.0),
    "normal-tensor": lambda t: t.normal(t.zeros(3), -t.ones(3)),
    "normal-shapes": lambda t: t.normal(t.zeros(3), t.ones(4)),
    "bernoulli": lambda t: t.zeros(3).bernoulli_(1.5),
    "bernoulli-tensor": lambda t: t.bernoulli(t.tensor([1.5])),
    "bernoulli-integer": lambda t: t.bernoulli(t.tensor([1])),
    "exponential": lambda t: t.zeros(3).exponential_(0),
    "geometric": lambda t: t.zeros(3).geometric_(1),
    "cauchy": lambda t: t.zeros(3).cauchy_(0, 0),
    "log_normal": lambda t: t.zeros(3).log_normal_(0, 0),
    "rand-integer": lambda t: t.rand(3, dtype=t.int64),
    "randn-integer": lambda t: t.randn(3, dtype=t.int64),
    "rand-negative": lambda t: t.rand(-3),
    "randint-empty": lambda t: t.randint(5, 3, (2,)),
    "randint-bool": lambda t: t.randint(0, 300, (2,), dtype=t.bool),
    "randint-int32": lambda t: t.randint(0, 2**40, (2,), dtype=t.int32),
    "randperm": lambda t: t.randperm(-1),
    "randperm-bool": lambda t: t.randperm(3, dtype=t.bool),
    "multinomial-many": lambda t: t.multinomial(t.ones(3), 4),
    "multinomial-dims": lambda t: t.multinomial(t.ones(2, 2, 2), 1),
    "multinomial-zero": lambda t: t.multinomial(t.ones(3), 0),
    "multinomial-negative": lambda t: t.multinomial(t.tensor([-1.0, 1.0]), 1),
    "multinomial-nothing": lambda t: t.multinomial(t.tensor([0.0, 0.0]), 1),
    "multinomial-integer": lambda t: t.multinomial(t.tensor([1, 2]), 1),
    "poisson": lambda t: t.poisson(t.tensor([-1.0])),
    "poisson-integer": lambda t: t.poisson(t.tensor([1])),
    "dropout1d": lambda t: t.nn.functional.dropout1d(t.ones(3)),
    "dropout": lambda t: t.nn.functional.alpha_dropout(t.ones(3), 2.0),
    "dropout-feature": lambda t: t.nn.functional.feature_alpha_dropout(t.ones(3), 0.5, True),
    "rrelu": lambda t: t.nn.functional.rrelu(t.ones(3), 2.0, 1.0, True),
    "generator": lambda t: t.rand(2, generator=3),
    "generator-fill": lambda t: t.zeros(2).normal_(generator=3),
    "shared": lambda t: t.zeros(1).expand(3).uniform_(),
    "leaf": lambda t: t.ones(3, requires_grad=True).uniform_(),
    "state-size": lambda t: t.Generator().set_state(t.get_rng_state()[:3]),
    "seed": lambda t: t.manual_seed(2**64),
    "seed-kind": lambda t: t.Generator().manual_seed(1.5),
    "offset": lambda t: t.Generator().get_offset(),
    "graph": lambda t: t.Generator().graphsafe_get_state(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str, mode: Any) -> None:
    with pytest.raises(Exception) as theirs:
        ERRORS[name](torch)

    def step() -> None:
        with pytest.raises(theirs.type) as own:
            ERRORS[name](jitgrad)
        if theirs.type is not TypeError:
            assert str(own.value)[:50] == str(theirs.value)[:50]

    mode.run(step)
