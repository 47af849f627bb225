"""Attention and transformers against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nn.compare import Case, assert_same, assert_same_error, assert_same_face

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

CAUSAL = np.triu(np.ones((4, 4), bool), 1)
CAUSAL_TERM = np.where(CAUSAL, -np.inf, 0.0)
PADDING = np.array([[False, False, True, False], [False, True, False, False]])
HEADS = np.where(np.arange(64).reshape(4, 4, 4) % 5 == 4, -1.0, 0.5)
QUERY, KEY = (4, 2, 6), (3, 2, 6)


def _attention(options: dict[str, Any], **call: Any) -> Any:
    def make(xp: Any) -> Any:
        module = xp.nn.MultiheadAttention(6, 2, **options)
        given = {k: xp.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in call.items()}
        return _with(xp, module, given)

    return make


def _with(xp: Any, module: Any, given: dict[str, Any]) -> Any:
    """The module, called with keyword arguments besides."""

    class Attend(xp.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *args: Any) -> Any:
            return self.inner(*args, **given)

    return Attend()


def _layer(name: str, *args: Any, call: dict[str, Any] | None = None, **options: Any) -> Any:
    def make(xp: Any) -> Any:
        module = getattr(xp.nn, name)(*args, dropout=0.0, **options)
        given = {k: xp.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in (call or {}).items()}
        return _with(xp, module, given)

    return make


SELF = [QUERY, QUERY, QUERY]
CASES: dict[str, Case] = {
    "weights": (_attention({}), SELF),
    "weights-of-heads": (_attention({}, average_attn_weights=False), [QUERY, KEY, KEY]),
    "no-weights": (_attention({}, need_weights=False), [QUERY, KEY, KEY]),
    "masked": (_attention({"batch_first": True}, attn_mask=CAUSAL), [(2, 4, 6)] * 3),
    "masked-term": (_attention({}, attn_mask=CAUSAL_TERM, need_weights=False), SELF),
    "masked-heads": (_attention({}, attn_mask=HEADS), SELF),
    "causal": (_attention({}, attn_mask=CAUSAL, is_causal=True, need_weights=False), SELF),
    "causal-weights": (_attention({}, attn_mask=CAUSAL, is_causal=True), SELF),
    "padding": (_attention({}, key_padding_mask=PADDING), SELF),
    "padding-and-mask": (_attention({}, key_padding_mask=PADDING, attn_mask=CAUSAL, need_weights=False), SELF),
    "dims": (_attention({"kdim": 5, "vdim": 3}), [QUERY, (3, 2, 5), (3, 2, 3)]),
    "dims-no-bias": (_attention({"kdim": 5, "bias": False}, need_weights=False), [QUERY, (3, 2, 5), (3, 2, 6)]),
    "bias-kv": (_attention({"add_bias_kv": True}, attn_mask=CAUSAL), SELF),
    "zero": (_attention({"add_zero_attn": True, "add_bias_kv": True}, key_padding_mask=PADDING), SELF),
    "unbatched": (_attention({}), [(4, 6), (3, 6), (3, 6)]),
    "unbatched-padding": (_attention({}, key_padding_mask=PADDING[0], need_weights=False), [(4, 6)] * 3),
    "encoder-layer": (_layer("TransformerEncoderLayer", 6, 2, 8), [QUERY]),
    "encoder-layer-all": (
        _layer(
            "TransformerEncoderLayer", 6, 2, 8, activation="gelu", layer_norm_eps=1e-3, batch_first=True,
            norm_first=True, bias=False, call={"src_mask": CAUSAL, "src_key_padding_mask": PADDING},
        ),
        [(2, 4, 6)],
    ),
    "decoder-layer": (_layer("TransformerDecoderLayer", 6, 2, 8), [QUERY, KEY]),
    "decoder-layer-all": (
        _layer(
            "TransformerDecoderLayer", 6, 2, 8, norm_first=True, bias=False,
            call={"tgt_mask": CAUSAL_TERM, "tgt_is_causal": True, "memory_key_padding_mask": PADDING[:, :3]},
        ),
        [QUERY, KEY],
    ),
    "transformer": (_layer("Transformer", 6, 2, 2, 1, 8), [KEY, QUERY]),
    "transformer-masks": (
        _layer("Transformer", 6, 2, 1, 2, 8, batch_first=True, call={"tgt_mask": CAUSAL_TERM, "src_mask": CAUSAL}),
        [(2, 4, 6), (2, 4, 6)],
    ),
}  # fmt: skip

quiet = pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:Support for mismatched")


@quiet
@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives(case: str, mode: Any, rng: np.random.Generator) -> None:
    assert_same(torch, CASES[case], mode, rng)


FACES: dict[str, Any] = {
    "list": lambda xp: xp.nn.ModuleList([xp.nn.ReLU(), xp.nn.ReLU(), xp.nn.Linear(2, 2), xp.nn.ModuleList()]),
    "attention": lambda xp: xp.nn.MultiheadAttention(6, 2),
    "attention-all": lambda xp: xp.nn.MultiheadAttention(6, 2, 0.1, True, True, True, 5, 3),
    "encoder": lambda xp: xp.nn.TransformerEncoder(xp.nn.TransformerEncoderLayer(6, 2, 8), 2),
    "decoder-layer": lambda xp: xp.nn.TransformerDecoderLayer(6, 2, 8, bias=False),
    "transformer": lambda xp: xp.nn.Transformer(6, 2, 1, 1, 8),
}


@quiet
@pytest.mark.parametrize("case", FACES)
def test_face(case: str) -> None:
    assert_same_face(torch, FACES[case])


ERRORS: dict[str, Any] = {
    "heads": lambda xp: xp.nn.MultiheadAttention(5, 2),
    "extent": lambda xp: xp.nn.MultiheadAttention(0, 2),
    "rank": lambda xp: xp.nn.MultiheadAttention(4, 2)(xp.ones(4), xp.ones(4), xp.ones(4)),
    "ranks": lambda xp: xp.nn.MultiheadAttention(4, 2)(xp.ones(2, 4), xp.ones(2, 1, 4), xp.ones(2, 1, 4)),
    "features": lambda xp: xp.nn.MultiheadAttention(4, 2)(*[xp.ones(2, 1, 3)] * 3),
    "mask": lambda xp: xp.nn.MultiheadAttention(4, 2)(*[xp.ones(2, 1, 4)] * 3, attn_mask=xp.zeros(3, 2)),
    "mask-integers": lambda xp: xp.nn.MultiheadAttention(4, 2)(
        *[xp.ones(2, 1, 4)] * 3, attn_mask=xp.zeros(2, 2, dtype=xp.int64)
    ),
    "hint": lambda xp: xp.nn.MultiheadAttention(4, 2)(*[xp.ones(2, 1, 4)] * 3, is_causal=True),
    "activation": lambda xp: xp.nn.TransformerEncoderLayer(4, 2, activation="sin"),
    "batches": lambda xp: xp.nn.Transformer(4, 2, 1, 1, 4)(xp.ones(2, 1, 4), xp.ones(2, 2, 4)),
    "model": lambda xp: xp.nn.Transformer(4, 2, 1, 1, 4)(xp.ones(2, 1, 3), xp.ones(2, 1, 3)),
}


@quiet
@pytest.mark.parametrize("case", ERRORS)
def test_error(case: str) -> None:
    assert_same_error(torch, ERRORS[case])


def test_the_causal_mask() -> None:
    masks = [xp.nn.Transformer.generate_square_subsequent_mask(3).numpy() for xp in (jitgrad, torch)]
    np.testing.assert_array_equal(*masks)
