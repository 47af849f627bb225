"""``rows/unet.py`` in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows import data
from benchmarks.rows.unet import GROUPS, HEADS, examples, shapes
from benchmarks.rows_jax import resnet
from benchmarks.rows_jax.carry import adam, adam_state, carried

__all__ = ["make"]

_silu = jax.nn.silu


def _convolve(w: Any, x: Any, name: str, stride: int = 1) -> Any:
    return resnet.convolve(x, w[name], stride) + w[f"{name}.bias"][:, None, None]


def _linear(w: Any, x: Any, name: str) -> Any:
    return x @ w[name].T + w[f"{name}.bias"]


def _normalise(w: Any, x: Any, name: str) -> Any:
    groups = x.reshape(x.shape[0], GROUPS, -1)
    centred = groups - groups.mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return scaled.reshape(x.shape) * w[f"{name}.weight"][:, None, None] + w[f"{name}.bias"][:, None, None]


def _block(w: Any, x: Any, time: Any, name: str) -> Any:
    inner = _convolve(w, _silu(_normalise(w, x, f"{name}.norm1")), f"{name}.1")
    inner = inner + _linear(w, time, f"{name}.time")[:, :, None, None]
    inner = _convolve(w, _silu(_normalise(w, inner, f"{name}.norm2")), f"{name}.2")
    return inner + (_convolve(w, x, f"{name}.skip") if f"{name}.skip" in w else x)


def _attend(w: Any, x: Any) -> Any:
    count, channels, height, _ = x.shape
    rows = _normalise(w, x, "attention.norm").reshape(count, channels, -1).swapaxes(1, 2)
    split = (count, height * height, HEADS, channels // HEADS)
    query, key, value = (part.reshape(split) for part in jnp.split(_linear(w, rows, "qkv"), 3, axis=-1))
    mixed = jax.nn.dot_product_attention(query, key, value).reshape(rows.shape)
    return x + _linear(w, mixed, "project").swapaxes(1, 2).reshape(x.shape)


def _loss(w: Any, x: Any, times: Any, noise: Any) -> Any:
    time = _silu(_linear(w, _silu(_linear(w, times, "time1")), "time2"))
    full = _block(w, _convolve(w, x, "in"), time, "down")
    small = _attend(w, _block(w, _convolve(w, full, "shrink", 2), time, "mid"))
    grown = _convolve(w, small.repeat(2, axis=2).repeat(2, axis=3), "grow")
    x = _block(w, jnp.concatenate([grown, full], 1), time, "up")
    return ((_convolve(w, _silu(_normalise(w, x, "out.norm")), "out") - noise) ** 2).mean()


def make(seed: int, width: int, batch: int, size: int) -> Training:
    """Images of ``size`` times ``size``; the mean squared error of the noise."""
    rng = np.random.default_rng(seed)
    arrays = data.filled(rng, shapes(width))
    names = list(arrays)  # a list is carried: JAX sorts a dict's keys, and the comparison needs every subject's order

    def loss_fn(weights: Any, x: Any, times: Any, noise: Any) -> Any:
        return _loss(dict(zip(names, weights, strict=True)), x, times, noise)

    state = adam_state([jnp.asarray(array) for array in arrays.values()])
    return carried(adam(loss_fn, 1e-3), state, examples(rng, batch, size, width), lambda state: state[0])
