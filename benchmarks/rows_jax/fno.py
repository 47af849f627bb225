"""``rows/fno.py`` in JAX."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows.fno import DEPTH, examples, weights
from benchmarks.rows_jax.carry import adam, adam_state, carried

__all__ = ["make"]


def _local(x: Any, weight: Any) -> Any:
    return jnp.einsum("bixy,oi->boxy", x, weight[:, :, 0, 0])


def _spectral(x: Any, pairs: Any, m: int) -> Any:
    w = jax.lax.complex(pairs[..., 0], pairs[..., 1])
    spectrum = jnp.fft.rfft2(x)
    kept = jnp.zeros((x.shape[0], w.shape[2], *spectrum.shape[2:]), jnp.complex64)
    kept = kept.at[:, :, :m, :m].set(jnp.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], w[0]))
    kept = kept.at[:, :, -m:, :m].set(jnp.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], w[1]))
    return jnp.fft.irfft2(kept, s=x.shape[2:])


def _loss(modes: int, p: Any, x: Any, y: Any) -> Any:
    x = _local(x, p["in"])
    for n in range(DEPTH):
        x = jax.nn.gelu(_spectral(x, p[f"spectral{n}"], modes) + _local(x, p[f"local{n}"]), approximate=False)
    return jnp.mean((_local(x, p["out"]) - y) ** 2)


def make(seed: int, batch: int, size: int, width: int, modes: int) -> Training:
    """The local layers are products over channels: XLA's convolution by a kernel of one pixel is slower."""
    rng = np.random.default_rng(seed)
    arrays = weights(rng, width, modes)
    state = adam_state({name: jnp.asarray(array) for name, array in arrays.items()})
    batches = examples(rng, batch, size)

    def parameters(state: Any) -> Any:
        return [state[0][name] for name in arrays]

    return carried(adam(partial(_loss, modes), 1e-3), state, batches, parameters)
