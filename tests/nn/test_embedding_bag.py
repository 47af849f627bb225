"""``EmbeddingBag`` against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nn.compare import Case, assert_same, assert_same_error, assert_same_face

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

ROWS = np.array([[1, 2, 4], [4, 3, 2], [0, 0, 2]])
VECTOR, STARTS = np.array([1, 2, 4, 4, 3, 2, 0]), np.array([0, 2, 2, 5])

CASES: dict[str, Case] = {
    **{mode: (lambda xp, mode=mode: xp.nn.EmbeddingBag(5, 2, mode=mode), [ROWS]) for mode in ("sum", "mean", "max")},
    **{
        f"{mode}-padding": (lambda xp, mode=mode: xp.nn.EmbeddingBag(5, 2, mode=mode, padding_idx=2), [ROWS])
        for mode in ("sum", "mean", "max")
    },
    **{
        f"{mode}-offsets": (lambda xp, mode=mode: xp.nn.EmbeddingBag(5, 2, mode=mode), [VECTOR, STARTS])
        for mode in ("sum", "mean", "max")
    },
    "offsets-padding": (lambda xp: xp.nn.EmbeddingBag(5, 2, padding_idx=-1), [VECTOR, STARTS]),
    "offsets-last": (lambda xp: xp.nn.EmbeddingBag(5, 2, include_last_offset=True), [VECTOR, np.array([0, 3, 7])]),
    "weights": (
        lambda xp: lambda x, w, s: xp.nn.functional.embedding_bag(x, w, mode="sum", per_sample_weights=s),
        [ROWS, (5, 2), (3, 3)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives(case: str, mode: Any, rng: np.random.Generator) -> None:
    assert_same(torch, CASES[case], mode, rng)


def test_face() -> None:
    assert_same_face(torch, lambda xp: xp.nn.EmbeddingBag(5, 2, mode="max", padding_idx=-1))


def test_from_pretrained() -> None:
    layer = jitgrad.nn.EmbeddingBag.from_pretrained(jitgrad.ones(3, 2), mode="sum")
    assert not layer.weight.requires_grad
    assert layer(jitgrad.tensor([[0, 1]])).tolist() == [[2.0, 2.0]]


ERRORS: dict[str, Any] = {
    "mode": lambda xp: xp.nn.functional.embedding_bag(xp.tensor([[0]]), xp.ones(2, 2), mode="other"),
    "offsets": lambda xp: xp.nn.functional.embedding_bag(xp.tensor([0]), xp.ones(2, 2)),
    "offsets-of-rows": lambda xp: xp.nn.functional.embedding_bag(xp.tensor([[0]]), xp.ones(2, 2), xp.tensor([0])),
    "weight": lambda xp: xp.nn.functional.embedding_bag(xp.tensor([[0]]), xp.ones(2)),
    "padding": lambda xp: xp.nn.EmbeddingBag(2, 3, padding_idx=2),
    "sparse": lambda xp: xp.nn.functional.embedding_bag(xp.tensor([[0]]), xp.ones(2, 2), mode="max", sparse=True),
    "sample-weights": lambda xp: xp.nn.functional.embedding_bag(
        xp.tensor([[0]]), xp.ones(2, 2), per_sample_weights=xp.ones(1, 1)
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error(case: str) -> None:
    assert_same_error(torch, ERRORS[case])
