"""Small steps in whose operations ``planted.py`` puts errors, and what calls each has had before it is verified."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad import nn, optim
from jitgrad.nn import functional as F

Calls = tuple[Callable[..., Any], list[tuple[Any, ...]]]
"""A compiled step, and arguments: of the calls before, and last of the call that is verified."""


def classifier() -> Calls:
    """Linear, GELU, layer norm, linear, cross entropy, AdamW."""
    model = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 5))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)

    @jitgrad.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    args = (jitgrad.randn(16, 12), jitgrad.randint(0, 5, (16,)))
    return step, [args, args]


def perceptron() -> Calls:
    """Linear, ReLU, linear, mean square error, SGD with a learning rate of each call."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @jitgrad.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    args = (jitgrad.randn(10, 6), jitgrad.randn(10, 3))
    return step, [args, args]


def functions() -> Calls:
    """One elementary function after the other, each on the leaf itself, and their gradients."""
    x = (jitgrad.rand(4, 37) + 0.3).requires_grad_()

    @jitgrad.compile
    def step() -> Any:
        parts = [
            x.exp(), x.log(), x.tanh(), x.sigmoid(), x.sin(), x.expm1(), x.sinh(), x.log1p(), x.rsqrt(), x**3.0,
            F.softplus(x),
        ]  # fmt: skip
        total = jitgrad.zeros(())
        for part in parts:
            total = total + part.sum()
        (g,) = jitgrad.autograd.grad(total, [x])
        return (*parts, g)

    return step, [(), ()]


def arithmetic() -> Calls:
    """Sums, quotients, reductions; operations that rewrite rules and contraction have to do with."""
    x, y, z = (jitgrad.randn(5, 33).requires_grad_() for _ in range(3))

    @jitgrad.compile
    def step() -> Any:
        parts = [
            x - y, x / (y * y + 1.0), x * -1, x + (-y), x * y - z, x.mean(1), x.var(1), x.amax(1), x.softmax(1),
            x.prod(1), x.clamp(-0.5, 0.5),
        ]  # fmt: skip
        loss = sum(p.sum() for p in parts)
        (g,) = jitgrad.autograd.grad(loss, [x])
        return (*parts, g)

    return step, [(), ()]


def movement() -> Calls:
    """Slices, flips, pads, concatenation, broadcasting, writes to parts, gathers."""
    x, table = jitgrad.randn(8, 8), jitgrad.randn(20, 4)
    row = jitgrad.arange(8).float()
    places = jitgrad.randint(0, 20, (6,))

    @jitgrad.compile
    def step() -> Any:
        part = x[1:5, 2:6] * 2.0
        flipped = x.flip(0) + row
        both = jitgrad.cat([part, part.t() + 1.0], 1)
        padded = F.pad(part, (1, 2, 0, 1)) + 1.0
        base = x * 1.5
        base[2:4] = part[:2, :1]
        return part, flipped, both, padded, base, F.embedding(places, table) * 3.0

    return step, [(), ()]


def scaling() -> Calls:
    """A number that is not the one of the calls before."""
    x = jitgrad.randn(7, 7)

    @jitgrad.compile
    def step(scale: float) -> Any:
        return (x * scale).sum(0) + 1.0

    return step, [(2.0,), (2.0,), (3.0,)]


def summing() -> Calls:
    """A dimension that is not the one of the calls before."""
    x = jitgrad.randn(7, 7)

    @jitgrad.compile
    def step(dim: int) -> Any:
        return (x * 2.0).sum(dim) + 1.0

    return step, [(0,), (0,), (0,), (1,)]


def main(name: str) -> None:
    """Verify a step and print the report as JSON."""
    jitgrad.manual_seed(0)
    jitgrad.config.eager_kernels = -1
    step, calls = globals()[name]()
    for args in calls[:-1]:
        step(*args)
    report = jitgrad.Verification(derivatives=True)(step, *calls[-1])
    print(report, file=sys.stderr)
    print(json.dumps(report.to_json()))


if __name__ == "__main__":
    main(sys.argv[1])
