"""Results do not depend on the number of threads, on what else is computed in the step, or on the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg

SHAPES = ((7,), (1000,), (3, 1001), (257, 33), (64, 64), (4, 50, 31), (100_003,), (2, 3, 5, 7), (513, 129), (70_000, 2))


def data(*shape: int, seed: int = 0) -> jg.Tensor:
    return jg.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


STEPS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: (x * 2 + 1).tanh().exp(),
    "sum": lambda x: x.sum(),
    "rows": lambda x: x.sum(-1),
    "columns": lambda x: (x * x).sum(0),
    "softmax": lambda x: x.softmax(-1),
    "standardised": lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, unbiased=False, keepdim=True).add(1e-3),
    "logsumexp": lambda x: x.logsumexp(0),
    "several": lambda x: (x.sum(), x.amax(0), (x * 3).mean(-1), x.exp().sum(0) * x),
    "gram": lambda x: x.reshape(x.shape[0], -1)[:200].t()[:300] @ x.reshape(x.shape[0], -1)[:200][:, :300],
    "cumulative": lambda x: x.cumsum(0) + x.cumsum(-1),
    "shifted": lambda x: x[1:] * x[:-1] + x.flip(0)[1:],
    "transposed": lambda x: x.transpose(0, -1) + 1,
}


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = jg.get_num_threads()
    yield jg.set_num_threads
    jg.set_num_threads(before)


def arrays(result: Any) -> list[Any]:
    return [r.detach().numpy().copy() for r in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("name", STEPS)
def test_any_number_of_threads_gives_the_same_bits(name: str, threads: Callable[[int], None]) -> None:
    step = jg.compile(STEPS[name])
    for shape in SHAPES:
        x = data(*shape)
        results = []
        for count in (1, 2, 3, 2, 1):
            threads(count)
            results.append(arrays(step(x)))
        want = [np.asarray(r) for r in arrays(STEPS[name](x))]
        for got in results:
            for a, first, w in zip(got, results[0], want, strict=True):
                np.testing.assert_array_equal(a, first, err_msg=f"{shape}")
                scale = float(np.abs(w).max(initial=1.0))
                np.testing.assert_allclose(
                    a, w, rtol=1e-4, atol=1e-5 * scale * max(1.0, len(x) ** 0.5), err_msg=f"{shape}"
                )


def test_gradients_have_the_same_bits_with_any_number_of_threads(threads: Callable[[int], None]) -> None:
    @jg.compile
    def step(x: Any, w: Any, v: Any) -> Any:
        h = (x @ w).relu()
        loss = (h @ v).log_softmax(-1)[:, 0].mean()
        loss.backward()
        return loss

    seen = []
    for count in (1, 2, 3, 1):
        threads(count)
        x, w, v = data(200, 64), data(64, 100, seed=1).requires_grad_(), data(100, 10, seed=2).requires_grad_()
        loss = step(x, w, v)
        seen.append([loss.detach().numpy().tobytes(), w.grad.numpy().tobytes(), v.grad.numpy().tobytes()])
    assert all(s == seen[0] for s in seen)


def test_calls_give_the_same_bits() -> None:
    step = jg.compile(lambda x: (x.softmax(-1) @ x.transpose(-1, -2)).sum(0))
    x = data(65, 33)
    first = arrays(step(x))[0]
    for _ in range(20):
        np.testing.assert_array_equal(arrays(step(x))[0], first)
