"""A small U-Net that learns the noise of a diffusion, trained by Adam.

Two sizes of image, a residual block on each way, attention at the smaller size, the diffusion's time in each block.

Source: Ho et al., "Denoising Diffusion Probabilistic Models", 2020.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["GROUPS", "HEADS", "NUM_BATCHES", "examples", "make", "shapes"]

NUM_BATCHES, GROUPS, HEADS, CHANNELS = 4, 8, 4, 3
Shapes = dict[str, tuple[int, ...]]


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _layer(name: str, *shape: int) -> Shapes:
    return {name: shape, f"{name}.bias": shape[:1]}


def _block(name: str, before: int, width: int, times: int) -> Shapes:
    found = _norm(f"{name}.norm1", before) | _layer(f"{name}.1", width, before, 3, 3)
    found |= _layer(f"{name}.time", width, times)
    found |= _norm(f"{name}.norm2", width) | _layer(f"{name}.2", width, width, 3, 3)
    return found if before == width else found | _layer(f"{name}.skip", width, before, 1, 1)


def shapes(width: int) -> Shapes:
    """Each parameter's shape; ``width``: the channels at full size."""
    wide = 2 * width
    found = _layer("time1", wide, width) | _layer("time2", wide, wide) | _layer("in", width, CHANNELS, 3, 3)
    found |= _block("down", width, width, wide) | _layer("shrink", wide, width, 3, 3) | _block("mid", wide, wide, wide)
    found |= _norm("attention.norm", wide) | _layer("qkv", 3 * wide, wide) | _layer("project", wide, wide)
    found |= _layer("grow", width, wide, 3, 3) | _block("up", wide, width, wide)
    return found | _norm("out.norm", width) | _layer("out", CHANNELS, width, 3, 3)


def examples(rng: np.random.Generator, batch: int, size: int, width: int) -> list[tuple[Any, Any, Any]]:
    """Batches of (noisy images, sines and cosines of the times, noise)."""
    frequencies = np.exp(-np.log(10_000.0) * np.arange(width // 2) / (width // 2))
    found = []
    for _ in range(NUM_BATCHES):
        images, noise = rng.standard_normal((2, batch, CHANNELS, size, size))
        times = rng.uniform(0.0, 1.0, batch)
        kept = np.cos(0.5 * np.pi * times)[:, None, None, None]
        angles = 1000.0 * times[:, None] * frequencies
        parts = (kept * images + np.sqrt(1 - kept**2) * noise, np.hstack([np.sin(angles), np.cos(angles)]), noise)
        found.append(tuple(part.astype(np.float32) for part in parts))
    return found


def make(xp: Any, seed: int, wrap: Wrap, width: int, batch: int, size: int) -> Training:
    """Images of ``size`` times ``size``; the mean squared error of the noise."""
    rng = np.random.default_rng(seed)
    w = {name: xp.from_numpy(array).requires_grad_() for name, array in data.filled(rng, shapes(width)).items()}
    batches = cycle([tuple(xp.from_numpy(part) for part in parts) for parts in examples(rng, batch, size, width)])
    optimizer = xp.optim.Adam(w.values(), lr=1e-3, fused=True)
    functional = xp.nn.functional
    silu = functional.silu

    def convolve(x: Any, name: str, stride: int = 1) -> Any:
        return functional.conv2d(x, w[name], w[f"{name}.bias"], stride=stride, padding=w[name].shape[-1] // 2)

    def linear(x: Any, name: str) -> Any:
        return functional.linear(x, w[name], w[f"{name}.bias"])

    def normalise(x: Any, name: str) -> Any:
        return functional.group_norm(x, GROUPS, w[f"{name}.weight"], w[f"{name}.bias"])

    def block(x: Any, time: Any, name: str) -> Any:
        inner = convolve(silu(normalise(x, f"{name}.norm1")), f"{name}.1")
        inner = inner + linear(time, f"{name}.time")[:, :, None, None]
        inner = convolve(silu(normalise(inner, f"{name}.norm2")), f"{name}.2")
        return inner + (convolve(x, f"{name}.skip") if f"{name}.skip" in w else x)

    def attend(x: Any) -> Any:
        count, channels, height, _ = x.shape
        rows = normalise(x, "attention.norm").flatten(2).transpose(1, 2)
        split = (count, height * height, HEADS, channels // HEADS)
        query, key, value = (part.reshape(split).transpose(1, 2) for part in linear(rows, "qkv").chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(rows.shape)
        return x + linear(mixed, "project").transpose(1, 2).reshape(x.shape)

    @wrap.loss
    def loss_fn(x: Any, times: Any, noise: Any) -> Any:
        time = silu(linear(silu(linear(times, "time1")), "time2"))
        full = block(convolve(x, "in"), time, "down")
        small = attend(block(convolve(full, "shrink", 2), time, "mid"))
        grown = convolve(functional.interpolate(small, scale_factor=2, mode="nearest"), "grow")
        x = block(xp.cat([grown, full], 1), time, "up")
        return functional.mse_loss(convolve(silu(normalise(x, "out.norm")), "out"), noise)

    @wrap.step
    def train(x: Any, times: Any, noise: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(x, times, noise)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(lambda: train(*next(batches)), lambda: list(w.values()))
