"""Generators: their state, which PyTorch reads and writes too, and what runs between two draws."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import abi, distributions, nn
from jitgrad.abi import RANDOM_PERMUTE_WIDE
from jitgrad.nn import functional as F
from jitgrad.runtime.random import twister
from jitgrad.runtime.random.twister import Twister
from jitgrad.utils.checkpoint import checkpoint


def _bytes(state: Any) -> Any:
    return state.numpy().view(np.uint8)


def _numbers(t: Any, generator: Any = None) -> list[Any]:
    """Of all kinds, with an odd number of normal ones."""
    return [
        t.rand(3, generator=generator).numpy(),
        t.randn(5, generator=generator).numpy(),
        t.randn(40, dtype=t.float64, generator=generator).numpy(),
        t.randperm(9, generator=generator).numpy(),
        t.randn(2, generator=generator).numpy(),
    ]


def _assert_equal(own: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(own, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


# --- states ---


@pytest.mark.parametrize("drawn", [0, 1, 623, 624, 625, 1248, 1250])
def test_states_are_exchanged_with_torch(drawn: int) -> None:
    torch: Any = pytest.importorskip("torch")
    torch.manual_seed(11)
    torch.randint(3, (drawn,))
    torch.randn(3)  # a number is kept
    jitgrad.set_rng_state(torch.get_rng_state().numpy())
    np.testing.assert_array_equal(_bytes(jitgrad.get_rng_state()), _bytes(torch.get_rng_state()))
    assert jitgrad.initial_seed() == torch.initial_seed()
    _assert_equal(_numbers(jitgrad), _numbers(torch))

    jitgrad.manual_seed(12)
    jitgrad.randint(3, (drawn,))
    jitgrad.randn(3)
    torch.set_rng_state(torch.from_numpy(_bytes(jitgrad.get_rng_state()).copy()))
    _assert_equal(_numbers(jitgrad), _numbers(torch))


def test_a_state_is_where_the_stream_goes_on(mode: Any) -> None:
    def step() -> Any:
        jitgrad.manual_seed(4)
        jitgrad.randn(3)
        state = jitgrad.get_rng_state()
        first = _numbers(jitgrad)
        jitgrad.set_rng_state(state)
        return first, _numbers(jitgrad)

    _assert_equal(*mode.run(step))


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(TypeError, match="RNG state must be"):
        jitgrad.set_rng_state([1, 2])
    with pytest.raises(TypeError, match="RNG state must be"):
        jitgrad.set_rng_state(jitgrad.zeros(632))
    with pytest.raises(RuntimeError, match="of size 5056 but found the input RNG state size to be 24"):
        jitgrad.set_rng_state(np.zeros(24, np.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        jitgrad.set_rng_state(np.zeros(5056, np.uint8))


# --- generators ---


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63, 2**64 - 1, -(2**63), 2**32 + 5])
def test_seeds(seed: int) -> None:
    torch: Any = pytest.importorskip("torch")
    own, theirs = jitgrad.Generator(), torch.Generator()
    assert own.initial_seed() == theirs.initial_seed()
    assert own.manual_seed(seed) is own
    theirs.manual_seed(seed)
    assert own.initial_seed() == theirs.initial_seed()
    np.testing.assert_array_equal(_bytes(own.get_state()), _bytes(theirs.get_state()))
    _assert_equal(_numbers(jitgrad, own), _numbers(torch, theirs))
    np.testing.assert_array_equal(_bytes(own.get_state()), _bytes(theirs.get_state()))


def test_generators_are_apart() -> None:
    jitgrad.manual_seed(1)
    expected = _numbers(jitgrad)
    jitgrad.manual_seed(1)
    generator = jitgrad.Generator().manual_seed(2)
    other = [jitgrad.rand(3, generator=generator), jitgrad.zeros(3).normal_(generator=generator)]
    _assert_equal(_numbers(jitgrad), expected)
    assert not np.array_equal(other[0].numpy(), expected[0])
    assert jitgrad.rand(2, generator=jitgrad.default_generator).shape == (2,)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), lambda g: g.clone_state()]
)
def test_copies_go_on_by_themselves(copied: Any) -> None:
    generator = jitgrad.Generator().manual_seed(3)
    jitgrad.randn(3, generator=generator)
    twin = copied(generator)
    assert twin.device == generator.device
    expected = _numbers(jitgrad, generator)
    _assert_equal(_numbers(jitgrad, twin), expected)


def test_seed_restarts_with_another_one() -> None:
    seeds = {jitgrad.seed(), jitgrad.seed(), jitgrad.Generator().seed()}
    assert len(seeds) == 3
    value = jitgrad.random.seed()
    assert value == jitgrad.initial_seed()
    drawn = jitgrad.rand(3)
    assert jitgrad.manual_seed(value) is jitgrad.default_generator
    assert jitgrad.equal(jitgrad.rand(3), drawn)


def test_devices() -> None:
    assert str(jitgrad.Generator("vcpu:0").device) == "vcpu:0"
    with pytest.raises(RuntimeError, match="META"):
        jitgrad.Generator("meta")
    jitgrad.manual_seed(2)
    here = jitgrad.randn(20)
    jitgrad.manual_seed(2)
    there = jitgrad.randn(20, device="vcpu:0")
    assert jitgrad.equal(there.cpu(), here)
    jitgrad.manual_seed(2)
    assert jitgrad.randn(20, device="meta").is_meta
    assert jitgrad.equal(jitgrad.randn(20), here), "a tensor without data was drawn"


def test_fork_rng(mode: Any) -> None:
    def step() -> Any:
        jitgrad.manual_seed(4)
        first = jitgrad.randn(3)
        with jitgrad.random.fork_rng():
            jitgrad.manual_seed(9)
            inside = jitgrad.rand(3)
        return first * 1, inside * 1, jitgrad.randn(4) * 1

    first, inside, after = mode.run(step)
    jitgrad.manual_seed(4)
    np.testing.assert_array_equal(first.numpy(), jitgrad.randn(3).numpy())
    np.testing.assert_array_equal(after.numpy(), jitgrad.randn(4).numpy())
    jitgrad.manual_seed(9)
    np.testing.assert_array_equal(inside.numpy(), jitgrad.rand(3).numpy())


# --- modes ---


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(0.4)

    def forward(self, x: Any) -> Any:
        hidden = self.drop(self.first(x).relu())
        noise = jitgrad.randn_like(hidden) * 0.1
        return self.second(F.alpha_dropout(hidden + noise, 0.2, self.training))


def _train(wrap: Any, calls: int, change: int = -1) -> tuple[list[float], Any]:
    jitgrad.manual_seed(6)
    net = _Net()
    optimizer = jitgrad.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any, is_long: bool) -> Any:
        optimizer.zero_grad()
        out = net(x)
        if is_long:  # a miss in a function that has been found so far
            out = out + jitgrad.rand(3)
        loss = (out**2).mean()
        loss.backward()
        optimizer.step()
        return loss

    function = wrap(step)
    losses = [function(jitgrad.rand(5, 6), i == change).item() for i in range(calls)]
    return losses, _bytes(jitgrad.get_rng_state())


@pytest.mark.parametrize("change", [-1, 0, 3])
def test_a_compiled_training_draws_what_an_eager_one_does(change: int) -> None:
    eager, state = _train(lambda step: step, 7, change)
    compiled, compiled_state = _train(jitgrad.compile, 7, change)
    np.testing.assert_allclose(compiled, eager, rtol=1e-5)
    np.testing.assert_array_equal(compiled_state, state)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_draws_again(use_reentrant: bool, mode: Any) -> None:
    weight = np.linspace(-1, 1, 36).reshape(6, 6).astype(np.float32)

    def run(through: Any, x: Any) -> Any:
        jitgrad.manual_seed(8)
        out = through(lambda x: F.dropout(x @ jitgrad.tensor(weight), 0.5).tanh(), x)
        (out * jitgrad.rand_like(out)).sum().backward()
        return out.detach() * 1, x.grad, jitgrad.randn(3) * 1

    def step(x: Any) -> Any:
        return run(lambda f, x: checkpoint(f, x, use_reentrant=use_reentrant), x)

    def make() -> tuple[Any, ...]:
        return (jitgrad.tensor(weight, requires_grad=True),)

    plain = run(lambda f, x: f(x), *make())
    for a, b in zip(mode.run(step, make), plain, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_vmap_draws_as_torch_does(randomness: str) -> None:
    torch: Any = pytest.importorskip("torch")

    def draw(t: Any) -> Any:
        t.manual_seed(2)
        x = t.zeros(3, 2)
        one = t.func.vmap(lambda x: x + t.randn(9).sum() + t.rand(2), randomness=randomness)(x)
        nested = t.func.vmap(lambda y: t.func.vmap(lambda x: x + t.rand(2), randomness=randomness)(x) + y,
                             randomness=randomness)(t.zeros(4))  # fmt: skip
        return one.numpy(), nested.numpy()

    for own, theirs in zip(draw(jitgrad), draw(torch), strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-6)


# --- threads and forms ---


def test_threads_share_the_stream_and_each_draw_is_whole() -> None:
    jitgrad.manual_seed(5)
    expected = {jitgrad.rand(1000).numpy().tobytes() for _ in range(40)}
    jitgrad.manual_seed(5)
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.extend(jitgrad.rand(1000).numpy().tobytes() for _ in range(10)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == expected


def test_the_number_of_threads_changes_nothing() -> None:
    before, states = jitgrad.get_num_threads(), []
    for count in (1, 3):
        jitgrad.set_num_threads(count)
        jitgrad.manual_seed(5)
        states.append(jitgrad.randn(100_000).numpy())
    jitgrad.set_num_threads(before)
    np.testing.assert_array_equal(*states)


KINDS = {
    abi.RANDOM_WORDS: np.uint32, abi.RANDOM_UNIFORM32: np.float32, abi.RANDOM_UNIFORM64: np.float64,
    abi.RANDOM_NORMAL32: np.float32, abi.RANDOM_NORMAL64: np.float64, abi.RANDOM_PAIRS32: np.float32,
    abi.RANDOM_PAIRS64: np.float64, abi.RANDOM_PERMUTE: np.int64, abi.RANDOM_PERMUTE_WIDE: np.int64,
    abi.RANDOM_BERNOULLI32: np.float32, abi.RANDOM_BERNOULLI64: np.float64, abi.RANDOM_EXPONENTIAL32: np.float32,
    abi.RANDOM_EXPONENTIAL64: np.float64, abi.RANDOM_INTEGERS: np.int64,
}  # fmt: skip
"""Kinds of draws, Note [Random kernel], and what they write."""


def test_both_forms_draw_the_same() -> None:
    """Any kinds of draws in any order, and the same state after each."""
    assert twister.is_native()
    rng = np.random.default_rng(1)
    kernel = twister._native.fill
    native, plain = Twister(3), Twister(3)
    for number in range(400):
        kind = list(KINDS)[int(rng.integers(0, len(KINDS)))]
        count = int(rng.integers(16 if kind in (abi.RANDOM_NORMAL32, abi.RANDOM_NORMAL64) else 0, 200))
        dtype = KINDS[kind]
        a, b = ((0.0, 1.0), (0.25, 1.7), (-1e6, 1e-3), (5.0, 0.0))[number % 4]
        if kind == abi.RANDOM_INTEGERS:
            a, b = ((0.0, 1.0), (-7.0, 10.0), (-(2.0**53), 2.0**28 - 1), (2.0**53, 3.0))[number % 4]
        first = native.array(count, kind, dtype, a, b)
        twister.use_numpy()
        opener, twister._native.open = twister._native.open, None
        second = plain.array(count, kind, dtype, a, b)
        twister._native.open = opener
        twister.use_numpy(kernel)
        assert first.tobytes() == second.tobytes(), (kind, count, a, b)
        assert native.state().tobytes() == plain.state().tobytes(), (kind, count)


_QUIET = """
import sys
import jitgrad
jitgrad.manual_seed(0)
first = jitgrad.nn.Linear(20, 10).weight[0, :3].tolist()
assert "llvmlite" not in sys.modules, "a few numbers loaded LLVM"
assert "numpy.random" not in sys.modules
jitgrad.randn(200_000)
assert "llvmlite" in sys.modules, "NumPy drew very many numbers"
jitgrad.manual_seed(0)
assert jitgrad.nn.Linear(20, 10).weight[0, :3].tolist() == first
"""


def test_few_numbers_do_not_load_the_compiler() -> None:
    usual = {**os.environ, "JITGRAD_EAGER": ""}  # "kernels" would compile the rest of the script's operations
    subprocess.run([sys.executable, "-c", _QUIET], check=True, env=usual)


def test_the_largest_permutations_draw_64_bits() -> None:
    """PyTorch's way from 214,748,364 numbers on, here for few."""
    own = Twister(5).array(50, RANDOM_PERMUTE_WIDE, np.int64)
    order: list[int] = []
    for i, draw in enumerate(Twister(5).wide_words(50).tolist()):
        j = draw % (i + 1)
        order.append(i)
        order[i], order[j] = order[j], i
    assert own.tolist() == order


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma_distributed_numbers_are_torch_s(dtype: str) -> None:
    torch: Any = pytest.importorskip("torch")
    rates = np.array([0.0, 0.3, 0.9, 1.0, 2.5, 50.0, 1e6] * 20, dtype)

    def draw(t: Any, distributions: Any) -> Any:
        t.manual_seed(4)
        t.randn(3)  # a number is kept
        found = distributions.gamma.Gamma(t.tensor(rates + rates.dtype.type(1e-3)), t.ones(())).sample().numpy()
        return found, t.randn(3).numpy(), t.rand(2).numpy()

    own, theirs = draw(jitgrad, distributions), draw(torch, torch.distributions)
    np.testing.assert_allclose(own[0], theirs[0], rtol=2e-6 if dtype == "float32" else 1e-14)
    np.testing.assert_array_equal(own[1], theirs[1])
    np.testing.assert_array_equal(own[2], theirs[2])
