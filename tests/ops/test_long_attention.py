"""Attention over sequences that are computed in blocks of rows: the same values and gradients as in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad
from jitgrad.config import config
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


def _expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
    """Causal attention, and the gradients of q, k and v where ``g`` is the result's."""
    q, k, v, g = (x.astype(np.float64) for x in (q, k, v, g))
    factor = q.shape[-1] ** -0.5
    scores = q @ k.swapaxes(-1, -2) * factor
    scores[..., ~np.tri(*scores.shape[-2:], dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    up = g @ v.swapaxes(-1, -2)
    inner = weights * (up - (up * weights).sum(-1, keepdims=True)) * factor
    return weights @ v, inner @ k, inner.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g


def _operands(lead: tuple[int, ...], length: int, width: int, dtype: str, seed: int = 0) -> list[jitgrad.Tensor]:
    """q, k, v and the result's gradient: ``length`` queries, ``width`` keys."""
    rng = np.random.default_rng(seed)
    extents = (length, 5), (width, 5), (width, 3), (length, 3)
    return [jitgrad.from_numpy(rng.standard_normal((*lead, *e)).astype(dtype)) for e in extents]


def _with_gradients(q: Any, k: Any, v: Any, g: Any) -> Any:
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return out, *jitgrad.autograd.grad(out, (q, k, v), g)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_extents_against_the_definition(dtype: str) -> None:
    rng, tolerance = np.random.default_rng(1), 1e-12 if dtype == "float64" else 2e-5
    for seed in range(4):
        length, width = (int(n) for n in rng.integers(1, 700, 2))
        operands = _operands((1, 2), length, width, dtype, seed)
        expected = _expected(*(x.numpy() for x in operands))
        for x in operands[:3]:
            x.requires_grad_()
        for got, want in zip(_with_gradients(*operands), expected, strict=True):
            np.testing.assert_allclose(got.detach().numpy(), want, atol=tolerance, err_msg=f"{length} x {width}")


def test_scores_right_of_the_diagonal_are_not_kept() -> None:
    """Of eight blocks nine sixteenths of the square lie on and left of the diagonal blocks."""
    q, k, v, _ = (x.requires_grad_() for x in _operands((1, 1), 1024, 1024, "float32"))
    sizes: dict[int, int] = {}

    def pack(x: Any) -> Any:
        if min(x.shape[-2:]) >= 128 and x.is_floating_point():  # weights; operands are narrower
            sizes[x.data_ptr()] = x.numel()
        return x

    with jitgrad.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert out.shape == (1, 1, 1024, 3)
    assert sorted(sizes.values()) == [128 * 128 * n for n in range(1, 9)]


def test_bits_do_not_depend_on_threads_or_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "same_bits", True)
    operands = _operands((1, 3), 600, 600, "float32")
    for x in operands[:3]:
        x.requires_grad_()
    step, before, found = jitgrad.compile(_with_gradients), jitgrad.get_num_threads(), []
    try:
        for count in (1, 2, 3, 1):
            jitgrad.set_num_threads(count)
            found.append([x.detach().numpy().tobytes() for x in step(*operands)])
    finally:
        jitgrad.set_num_threads(before)
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(("width", "values", "mask"), [
    (400, 500, None), (400, 350, None), (40, 40, (700, 40)), (40, 40, (2, 700, 40)),
])  # fmt: skip
def test_extents_that_do_not_fit_are_refused(mode: Mode, width: int, values: int, mask: tuple[int, ...] | None) -> None:
    """A block's part of such an operand would fit."""
    q, k, v = (jitgrad.ones(1, 2, n, 4) for n in (300 if mask is None else 600, width, values))
    given = None if mask is None else jitgrad.ones(mask)
    with pytest.raises(RuntimeError, match=r"must match|Expected size"):
        mode.run(lambda: F.scaled_dot_product_attention(q, k, v, given, is_causal=mask is None))
