"""What is flipped, and every second element, is loaded as vectors, Note [Lanes in other order]."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.codegen.llvm.target import host_target
from jitgrad.nn import functional as F

DTYPES = (np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.bool_)


def _step(x: Any, turns: list[tuple[int, int, int]]) -> Any:
    """Parts of ``x``: (dimension, first element, step), steps of -1 by ``flip``; a copy of what is left."""
    for dim, first, step in turns:
        x = x.flip(dim) if step < 0 else x[(slice(None),) * dim + (slice(first, None, step),)]
    return x.clone()


@pytest.mark.parametrize("seed", range(12))
def test_random_turns(seed: int) -> None:
    """Any lengths, those of a vector and their neighbours among them; parts of parts, turned as often as it comes."""
    rng, draw = np.random.default_rng(seed), random.Random(seed)
    for dtype in DTYPES:
        shape = tuple(draw.choice([1, 2, 3, 8, 15, 16, 17, 32, 33, 70, 129]) for _ in range(draw.choice([1, 2, 3])))
        x = (rng.standard_normal(shape) * 10).astype(dtype)
        turns = [(draw.randrange(len(shape)), draw.randrange(2), draw.choice([-1, 2, 3])) for _ in range(3)]
        wanted = x
        for dim, first, step in turns:
            wanted = wanted[(slice(None),) * dim + (slice(None, None, -1) if step < 0 else slice(first, None, step),)]
        compiled = jg.compile(lambda x, turns=turns: _step(x, turns))
        for got in (_step(jg.tensor(x), turns), compiled(jg.tensor(x)), compiled(jg.tensor(x))):
            np.testing.assert_array_equal(got.numpy(), wanted, err_msg=str((shape, turns)))


@pytest.mark.parametrize("padding", [(2, 3), (0, 20), (17, 1)])
def test_under_a_mask_of_their_own(padding: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal((3, 37)).astype(np.float32)
    step = jg.compile(lambda x: (F.pad(x.flip(-1), padding), F.pad(x[:, ::2], padding), F.pad(x, padding).flip(-1)))
    around = ((0, 0), padding)
    wanted = (np.pad(x[:, ::-1], around), np.pad(x[:, ::2], around), np.pad(x, around)[:, ::-1])
    for _ in range(2):
        for got, want in zip(step(jg.tensor(x)), wanted, strict=True):
            np.testing.assert_array_equal(got.numpy(), want)


def test_sums_and_gradients() -> None:
    """Rows that are read in several passes, and what comes back for a turned operand."""
    x = np.random.default_rng(0).standard_normal((5, 131))

    def step(x: Any) -> tuple[Any, ...]:
        y = x.flip(-1).softmax(-1)
        return y, *jg.autograd.grad((y * x[:, 1::2].repeat_interleave(2, 1).sum(1, keepdim=True)).cumsum(1).sum(), x)

    leaf = jg.tensor(x, requires_grad=True)
    eager, compiled = step(leaf), jg.compile(step)
    shifted = np.exp(x[:, ::-1] - x.max(1, keepdims=True))
    np.testing.assert_allclose(eager[0].detach().numpy(), shifted / shifted.sum(1, keepdims=True), rtol=1e-12)
    for _ in range(3):
        for got, want in zip(compiled(leaf), eager, strict=True):
            np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(not host_target().has_masks, reason="how lanes are loaded without masks is LLVM's choice")
@pytest.mark.parametrize("operation", [
    lambda x: x.flip(-1) + 1, lambda x: x[:, ::2] * 2, lambda x: x[:, 1::2].flip(-1) - 1,
    lambda x: x.flip(-1)[:, ::2] + 3, lambda x: F.max_pool1d(x, 2), lambda x: F.avg_pool2d(x[None], 2),
], ids=["flip", "second", "second, then flip", "flip, then second", "max_pool1d", "avg_pool2d"])  # fmt: skip
def test_no_lane_is_loaded_alone(operation: Callable[[Any], Any], texts: list[str]) -> None:
    jg.compile(operation)(jg.randn(64, 512))
    loops = [text for text in texts if "shufflevector" in text]
    assert loops and not any("masked.gather" in text for text in texts)
