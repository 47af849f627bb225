"""``rows/transformer.py`` in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows import data
from benchmarks.rows.transformer import HEADS, LENGTH, VOCABULARY
from benchmarks.rows_jax.carry import adam, adam_state, carried
from benchmarks.rows_jax.mlp import cross_entropy

__all__ = ["make"]


def _normalise(w: Any, x: Any, name: str) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * w[f"{name}.weight"] + w[f"{name}.bias"]


def _attention(w: Any, x: Any, i: int) -> Any:
    split = (*x.shape[:-1], HEADS, x.shape[-1] // HEADS)
    query, key, value = (part.reshape(split) for part in jnp.split(x @ w[f"{i}.qkv"].T, 3, axis=-1))
    mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    return mixed.reshape(x.shape) @ w[f"{i}.project"].T


def _feed_forward(w: Any, x: Any, i: int) -> Any:
    up = jax.nn.gelu(x @ w[f"{i}.up.weight"].T + w[f"{i}.up.bias"], approximate=True)
    return up @ w[f"{i}.down.weight"].T + w[f"{i}.down.bias"]


def _loss(w: Any, inputs: Any, labels: Any, depth: int) -> Any:
    x = w["token"][inputs] + w["position"]
    for i in range(depth):
        x = x + _attention(w, _normalise(w, x, f"{i}.norm1"), i)
        x = x + _feed_forward(w, _normalise(w, x, f"{i}.norm2"), i)
    logits = _normalise(w, x, "norm") @ w["head"].T
    return cross_entropy(logits.reshape(-1, VOCABULARY), labels)


def make(seed: int, depth: int, batch: int, width: int) -> Training:
    """Cross entropy of the next token over every position."""
    arrays, tokens, targets = data.transformer(seed, depth, VOCABULARY, width, LENGTH, batch)
    # a list, not a dict, is carried: JAX sorts a dict's keys, and the comparison needs every subject's order
    names = list(arrays)

    def loss_fn(weights: Any, inputs: Any, labels: Any) -> Any:
        return _loss(dict(zip(names, weights, strict=True)), inputs, labels, depth)

    state = adam_state([jnp.asarray(arrays[name]) for name in names])
    example = (tokens.astype(np.int32), targets.reshape(-1).astype(np.int32))
    return carried(adam(loss_fn, 1e-3), state, [example], lambda state: state[0])
