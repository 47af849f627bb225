"""A Fourier neural operator on a grid, two spectral layers with complex weights, trained by Adam on four batches.

Source: Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", 2021.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["CHANNELS", "DEPTH", "examples", "make", "weights"]

NUM_BATCHES, CHANNELS, DEPTH = 4, 3, 2


def weights(rng: np.random.Generator, width: int, modes: int) -> dict[str, Any]:
    """By name; ``spectral``: (real, imaginary) part last, of the low and the high frequencies along the first axis."""
    shapes: dict[str, tuple[int, ...]] = {"in": (width, CHANNELS, 1, 1), "out": (1, width, 1, 1)}
    shapes |= {f"local{n}": (width, width, 1, 1) for n in range(DEPTH)}
    found = data.filled(rng, shapes)
    for n in range(DEPTH):
        part = rng.uniform(-1, 1, (2, width, width, modes, modes, 2)) / width
        found[f"spectral{n}"] = part.astype(np.float32)
    return found


def examples(rng: np.random.Generator, batch: int, size: int) -> list[tuple[Any, Any]]:
    """Batches of (functions on the grid, what the operator makes of them)."""
    shapes = (batch, CHANNELS, size, size), (batch, 1, size, size)
    return [
        tuple(rng.standard_normal(shape).astype(np.float32) for shape in shapes)  # type: ignore[misc]
        for _ in range(NUM_BATCHES)
    ]


def make(xp: Any, seed: int, wrap: Wrap, batch: int, size: int, width: int, modes: int) -> Training:
    """Written as the authors' code: the spectrum is zeros, into which the kept frequencies are assigned."""
    rng = np.random.default_rng(seed)
    p = {name: xp.from_numpy(array).requires_grad_() for name, array in weights(rng, width, modes).items()}
    batches = cycle([(xp.from_numpy(x), xp.from_numpy(y)) for x, y in examples(rng, batch, size)])
    optimizer = xp.optim.Adam(p.values(), lr=1e-3, fused=True)
    functional, m = xp.nn.functional, modes

    def spectral(x: Any, pairs: Any) -> Any:
        w = xp.view_as_complex(pairs)
        spectrum = xp.fft.rfft2(x)
        kept = xp.zeros(batch, width, size, size // 2 + 1, dtype=xp.complex64)
        kept[:, :, :m, :m] = xp.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], w[0])
        kept[:, :, -m:, :m] = xp.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], w[1])
        return xp.fft.irfft2(kept, s=(size, size))

    @wrap.loss
    def loss_fn(x: Any, y: Any) -> Any:
        x = functional.conv2d(x, p["in"])
        for n in range(DEPTH):
            x = functional.gelu(spectral(x, p[f"spectral{n}"]) + functional.conv2d(x, p[f"local{n}"]))
        return functional.mse_loss(functional.conv2d(x, p["out"]), y)

    @wrap.step
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(lambda: train(*next(batches)), lambda: list(p.values()))
