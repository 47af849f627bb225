"""Kernels take extents as arguments: operations on ever new extents are LLVM's work once or a few times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.nn import functional as F
from jitgrad.ops.dispatch_hook import call
from jitgrad.runtime.eager.new_shapes import at_once

SIZES = (101, 300, 301, 517, 640, 777, 1000, 1203)


def _positions(n: int, *shape: int) -> Any:
    return jg.from_numpy(np.random.default_rng(n).integers(0, n, shape))


def _through_a_layer(name: str, gates: Any, rest: list[Any]) -> Any:
    """A recurrent layer and its backward, of as many gates as its weight has rows."""
    width = gates.shape[-1]
    operands = [gates, 0.1 * jg.ones(width, 5), jg.ones(width), *rest]  # states forget
    operands = [x.requires_grad_() if x.is_floating_point() else x for x in operands]
    outputs = call(name, *operands, False)[0]
    return outputs.detach(), *jg.autograd.grad(outputs.sum(), operands[:2])


OPERATIONS: dict[str, Callable[[int], Any]] = {
    "index_add": lambda n: jg.zeros(n, 8).index_add_(0, _positions(n, 3 * n), jg.ones(3 * n, 8)),
    "rows": lambda n: jg.ones(n, 8)[_positions(n, 3 * n)],
    "index_select": lambda n: jg.ones(n, 8).index_select(0, _positions(n, 3 * n)),
    "gather": lambda n: jg.ones(n, 8).gather(0, _positions(n, 5, 8)),
    "scatter_reduce": lambda n: jg.zeros(n).scatter_reduce(0, _positions(n, 3 * n), jg.ones(3 * n), "amax"),
    "scatter_add": lambda n: jg.zeros(n, 4).scatter_add(0, _positions(n, 3 * n, 4), jg.ones(3 * n, 4)),
    "embedding": lambda n: F.embedding(_positions(n, 9), jg.ones(n, 8)),
    "max along the first": lambda n: jg.ones(n, 8).max(0),
    "min along the last": lambda n: jg.ones(8, n).min(1),
    "argmax": lambda n: jg.ones(n, 8).argmax(0),
    "softmax": lambda n: jg.ones(4, n).softmax(1),
    "layer_norm": lambda n: F.layer_norm(jg.ones(4, n), (n,)),
    "mean": lambda n: jg.ones(n, 8).mean(0),
    "var": lambda n: jg.ones(n, 8).var(0),
    "cross_entropy": lambda n: F.cross_entropy(jg.ones(n, 4), _positions(4, n)),
    "cumsum": lambda n: jg.ones(n, 4).cumsum(0),
    "sort": lambda n: jg.ones(n, 4).sort(0),
    "topk": lambda n: jg.ones(n).topk(3),
    "flip": lambda n: jg.ones(n, 4).flip(0),
    "cat": lambda n: jg.cat([jg.ones(n, 4), jg.ones(2 * n, 4)]),
    "pad": lambda n: F.pad(jg.ones(n, 4), (1, 2, 3, 4)),
    "linear": lambda n: F.linear(jg.ones(n, 16), jg.ones(8, 16), jg.ones(8)),
    "transposed copy": lambda n: jg.ones(n, 8).t().contiguous(),
    "one_hot": lambda n: F.one_hot(_positions(n, 7), n),
    "triu": lambda n: jg.ones(n, n).triu(2),
    "conv1d": lambda n: F.conv1d(jg.ones(2, 3, n), jg.ones(4, 3, 3)),
    "max_pool1d": lambda n: F.max_pool1d(jg.ones(2, 3, 2 * n), 2),
    "max_pool2d": lambda n: F.max_pool2d(jg.ones(1, 2, n, 9), 2),
    "max_pool2d of widths": lambda n: F.max_pool2d(jg.ones(1, 2, 12, n), 3, 2, 1, return_indices=True),
    "adaptive_avg_pool2d": lambda n: F.adaptive_avg_pool2d(jg.ones(1, 2, 9, n), (3, 7)),
    "rows of places": lambda n: _positions(n, n, n) // n + _positions(n, n, n) % n,
    "places of rows": lambda n: jg.arange(n)[:, None] * n + jg.arange(n),
    "clamp": lambda n: _positions(n, n).clamp(3, n - 3),
    "a number": lambda n: _positions(n, n) + n,
    "steps of a layer": lambda n: _through_a_layer("_lstm_layer", jg.ones(n, 3, 20), [jg.ones(3, 5)] * 2),
    "rows of a layer": lambda n: _through_a_layer("_gru_layer", jg.ones(4, n, 15), [jg.ones(n, 5)]),
    "packed rows of a layer": lambda n: _through_a_layer(
        "_rnn_tanh_layer_packed", jg.ones(2 * n - 1, 5), [jg.ones(n, 5), jg.tensor([n, n - 1])]
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_extent_is_no_part_of_a_kernel(operation: Callable[[int], Any]) -> None:
    def objects() -> int:
        stats = jg.stats()
        return stats["compiles"] + stats["cache_reads"]

    with at_once():
        for n in SIZES[:4]:
            operation(n)
        before = objects()
        for n in SIZES[4:]:
            operation(n)
    assert objects() - before <= 2, "a large extent may have another form than a small one"


@pytest.mark.parametrize("shape", [(3, 5), (7, 40), (4, 6, 33)])
def test_sums_and_multiples_of_indices_are_indices(shape: tuple[int, ...]) -> None:
    places = np.meshgrid(*[np.arange(n) for n in shape], indexing="ij")
    x, y = places[0], places[-1]

    def compute(x: Any, y: Any) -> list[Any]:
        far = (x * 2**62 * 4 + y) * 7  # more than a word holds: it wraps
        return [x * 37 + y, y - x, x - 3 * y, (x + y) * -5, (y - x) * (y + 2), 7 * x - y * 11 + 3, far]

    def step(*extents: int) -> list[Any]:
        indices = [
            jg.arange(n).reshape([-1 if d == dim else 1 for d in range(len(extents))]).expand(extents)
            for dim, n in enumerate(extents)
        ]
        return [r.clone() for r in compute(indices[0], indices[-1])]

    for run in (step, *[jg.compile(step)] * 3):
        for got, want in zip(run(*shape), compute(x, y), strict=True):
            np.testing.assert_array_equal(got.numpy(), want)


def _as_words(a: Any, n: Any, limit: Any, xp: Any) -> list[Any]:
    """Operations that take a word."""
    where = xp.where
    return [xp.maximum(a, limit), xp.minimum(a, limit), where(a < n, a, limit), where(a == n, limit, a) - n + a]


def _in_the_text(a: Any, n: Any, limit: Any, xp: Any) -> list[Any]:
    """Operations of which LLVM makes more where they have a constant."""
    return [xp.where(a >= n, a * n, a // 3), a & n, a % n if n else a, xp.maximum(a, limit)]


@pytest.mark.parametrize("compute", [_as_words, _in_the_text])
@pytest.mark.parametrize("dtype", [jg.int32, jg.int64])
@pytest.mark.parametrize("number", [0, 1, -1, 2, 3, 300, -77777, 2**31 - 1, -(2**31), 2**40 + 1])
def test_integer_constants(number: int, dtype: Any, compute: Callable[..., list[Any]]) -> None:
    number = number if dtype is jg.int64 else max(min(number, 2**31 - 1), -(2**31))
    x = np.random.default_rng(1).integers(-1000, 1000, 37).astype("int32" if dtype is jg.int32 else "int64")
    with np.errstate(all="ignore"):
        expected = compute(x, x.dtype.type(number), x.dtype.type(number), np)
    step = jg.compile(lambda a: compute(a, number, jg.tensor(number, dtype=dtype), jg))
    for _ in range(3):
        for got, want in zip(step(jg.from_numpy(x)), expected, strict=True):
            np.testing.assert_array_equal(got.numpy(), want)
