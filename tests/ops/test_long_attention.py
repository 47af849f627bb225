"""Attention over sequences that are computed in blocks of rows: the same values and gradients as in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad
from jitgrad.functions import layers
from jitgrad.nn import functional as F

CASES = {
    "causal": ((2, 300, 8), 300, None),
    "causal, two heads": ((1, 2, 385, 8), 385, None),
    "causal, fewer keys": ((1, 1, 300, 8), 150, None),
    "causal, more keys": ((1, 1, 300, 8), 500, None),
    "causal, without batch": ((256, 4), 256, None),
    "causal, very long": ((1, 1, 2100, 4), 2100, None),
    "full": ((1, 2, 600, 8), 600, ()),
    "full, few keys": ((3, 530, 8), 40, ()),
    "mask of rows and columns": ((2, 2, 520, 4), 520, (520, 520)),
    "mask of columns": ((2, 2, 520, 4), 520, (520,)),
    "mask of each batch": ((2, 2, 520, 4), 520, (2, 1, 1, 520)),
    "mask of each head": ((1, 2, 520, 4), 520, (2, 520, 520)),
}


def _inputs(name: str, is_bool: bool) -> tuple[list[Any], Any]:
    shape, width, mask_shape = CASES[name]
    rng = np.random.default_rng(0)
    keys = (*shape[:-2], width, shape[-1])
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (shape, keys, keys, shape)]
    if not mask_shape:
        return arrays, None
    mask = rng.random(mask_shape) < 0.7 if is_bool else rng.standard_normal(mask_shape).astype(np.float32)
    return arrays, mask


def _step(name: str, mask: Any) -> Any:
    is_causal = CASES[name][2] is None

    def step(q: Any, k: Any, v: Any, up: Any) -> Any:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
        out.backward(up)
        return out

    return step


def _run(mode: Mode, name: str, is_bool: bool) -> list[Any]:
    arrays, mask = _inputs(name, is_bool)
    mask = None if mask is None else jitgrad.from_numpy(mask)

    def make() -> tuple[Any, ...]:
        return tuple(jitgrad.from_numpy(a.copy()).requires_grad_(nr < 3) for nr, a in enumerate(arrays))

    given: list[Any] = []

    def fresh() -> tuple[Any, ...]:
        given[:] = make()
        return tuple(given)

    out = mode.run(_step(name, mask), fresh)
    return [out.detach().numpy(), *(x.grad.numpy() for x in given[:3])]


@pytest.mark.parametrize(("name", "is_bool"), [
    *((name, False) for name in CASES), *((name, True) for name in CASES if name.startswith("mask")),
])  # fmt: skip
def test_blocks_are_the_whole(mode: Mode, name: str, is_bool: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _run(mode, name, is_bool)
    monkeypatch.setattr(layers, "_LONG", 1 << 30)
    monkeypatch.setattr(layers, "_LONG_CAUSAL", 1 << 30)
    for one, other in zip(found, _run(mode, name, is_bool), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_half_of_a_causal_product_is_not_computed() -> None:
    q = jitgrad.randn(1, 2, 1024, 16)
    work = {}
    for is_causal in (False, True):
        step = jitgrad.compile(lambda q, c=is_causal: F.scaled_dot_product_attention(q, q, q, is_causal=c))
        for _ in range(2):
            step(q)
        (segment,) = jitgrad.explain(step, q).segments
        work[is_causal] = sum(cost.operations for cost in segment.costs if cost.form.startswith("matmul"))
    assert work[True] / work[False] == pytest.approx(9 / 16), "eight blocks: 1 + 2 + ... + 8 of 64"


def test_a_dropout_is_drawn_in_one_piece() -> None:
    q = jitgrad.randn(1, 1, 600, 4)
    jitgrad.manual_seed(0)
    whole = F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    jitgrad.manual_seed(0)
    weights = F.dropout((q @ q.transpose(-2, -1) / 2.0).softmax(-1), 0.5)
    assert jitgrad.allclose(whole, weights @ q, atol=1e-5)
