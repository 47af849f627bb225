"""Inputs and starting weights, the same for every subject: plain NumPy, seeded.

Must not know: any tensor library.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["black_scholes", "classification_batches", "filled", "layers", "lstm", "nbody", "pinn", "transformer"]

Array = np.ndarray[Any, np.dtype[Any]]


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> Array:
    return rng.uniform(low, high, shape).astype(np.float32)


def layers(rng: np.random.Generator, widths: tuple[int, ...]) -> list[Array]:
    """Weight (out, in) and bias (out,) of each linear layer, in ``torch.nn.Linear``'s distribution."""
    found = []
    for fan_in, fan_out in pairwise(widths):
        bound = fan_in**-0.5
        found += [_uniform(rng, -bound, bound, fan_out, fan_in), _uniform(rng, -bound, bound, fan_out)]
    return found


def filled(rng: np.random.Generator, shapes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    """Parameters by name: normal with the variance 1 / fan in; of one dimension: biases 0, a norm's weights 1."""
    found = {}
    for name, shape in shapes.items():
        if len(shape) > 1:
            scale = float(np.prod(shape[1:])) ** -0.5
            found[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
        else:
            found[name] = np.full(shape, 0.0 if name.endswith("bias") else 1.0, np.float32)
    return found


def classification_batches(
    rng: np.random.Generator, count: int, shape: tuple[int, ...], classes: int
) -> list[tuple[Array, Array]]:
    """``count`` batches of standard-normal inputs and integer labels."""
    return [
        (rng.standard_normal(shape).astype(np.float32), rng.integers(0, classes, shape[0]).astype(np.int64))
        for _ in range(count)
    ]


def black_scholes(seed: int, n: int) -> list[Array]:
    """Spot, strike, expiry (years), rate and volatility of ``n`` options."""
    rng = np.random.default_rng(seed)
    bounds = ((50.0, 150.0), (50.0, 150.0), (0.1, 2.0), (0.0, 0.1), (0.1, 0.5))
    return [_uniform(rng, low, high, n) for low, high in bounds]


def lstm(seed: int, steps: int, batch: int, features: int, hidden: int) -> tuple[list[Array], Array, Array]:
    """Weights (input, hidden, bias, read-out), a sequence (steps, batch, features) and a target (batch, 1)."""
    rng = np.random.default_rng(seed)
    bound = hidden**-0.5
    shapes = ((4 * hidden, features), (4 * hidden, hidden), (4 * hidden,), (1, hidden))
    weights = [_uniform(rng, -bound, bound, *shape) for shape in shapes]
    return weights, _uniform(rng, -1, 1, steps, batch, features), _uniform(rng, -1, 1, batch, 1)


def nbody(seed: int, bodies: int, dtype: str = "float32") -> list[Array]:
    """Positions, velocities, masses and target positions."""
    rng = np.random.default_rng(seed)
    position = _uniform(rng, -1, 1, bodies, 3)
    velocity = _uniform(rng, -0.1, 0.1, bodies, 3)
    mass, target = _uniform(rng, 0.5, 1.5, bodies) / bodies, position + _uniform(rng, -0.1, 0.1, bodies, 3)
    return [array.astype(dtype) for array in (position, velocity, mass, target)]


def pinn(seed: int, points: int, hidden: int) -> tuple[list[Array], Array]:
    """Weights of a 1-h-h-1 network and collocation points in (0, 1)."""
    rng = np.random.default_rng(seed)
    return layers(rng, (1, hidden, hidden, 1)), _uniform(rng, 0, 1, points, 1)


def transformer(
    seed: int, depth: int, vocabulary: int, width: int, length: int, batch: int
) -> tuple[dict[str, Array], Array, Array]:
    """Parameters by name, tokens (batch, length) and next tokens (batch, length)."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        return (0.02 * rng.standard_normal(shape)).astype(np.float32)

    weights = {"token": normal(vocabulary, width), "position": normal(length, width)}
    for i in range(depth):
        weights |= {f"{i}.norm1.weight": np.ones(width, np.float32), f"{i}.norm1.bias": np.zeros(width, np.float32)}
        weights |= {f"{i}.qkv": normal(3 * width, width), f"{i}.project": normal(width, width)}
        weights |= {f"{i}.norm2.weight": np.ones(width, np.float32), f"{i}.norm2.bias": np.zeros(width, np.float32)}
        weights |= {f"{i}.up.weight": normal(4 * width, width), f"{i}.up.bias": np.zeros(4 * width, np.float32)}
        weights |= {f"{i}.down.weight": normal(width, 4 * width), f"{i}.down.bias": np.zeros(width, np.float32)}
    weights |= {"norm.weight": np.ones(width, np.float32), "norm.bias": np.zeros(width, np.float32)}
    weights["head"] = normal(vocabulary, width)
    tokens = rng.integers(0, vocabulary, (batch, length + 1)).astype(np.int64)
    return weights, np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
