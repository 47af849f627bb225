"""``python -m benchmarks.recurrent``: recurrent layers and a hand-written cell against PyTorch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import alternating

__all__ = ["CASES", "main"]

BATCH, STEPS = 20, 35


def calls(subject: str, kind: str, leaves: list[Any], function: Callable[..., Any]) -> Callable[[], list[Any]]:
    """A call of function, without gradients; in a step, of it and of its mean square's gradients of the leaves."""
    m = importlib.import_module(subject)

    def step() -> Any:
        out = function()
        out.square().mean().backward()
        return out

    run = step if kind == "step" else function
    compiled = m.compile(run) if subject == "jitgrad" else run

    def whole() -> list[Any]:
        if kind == "forward":
            with m.no_grad():
                return [compiled()]
        for leaf in leaves:
            leaf.grad = None
        out = compiled()
        return [out.detach(), *(leaf.grad for leaf in leaves)]

    return whole


def values_of(m: Any, *shape: int, scale: float = 1.0) -> Callable[[np.random.Generator], Any]:
    return lambda rng: m.from_numpy((scale * rng.standard_normal(shape)).astype(np.float32))


def layer(kind_of_layer: str, hidden: int, subject: str, kind: str) -> Callable[[], list[Any]]:
    """Two layers of nn.LSTM, nn.GRU or nn.RNN."""
    m, rng = importlib.import_module(subject), np.random.default_rng(0)
    nn = importlib.import_module(f"{subject}.nn")
    module = getattr(nn, kind_of_layer)(hidden, hidden, 2)
    with m.no_grad():
        for p in module.parameters():
            p.copy_(values_of(m, *p.shape, scale=hidden**-0.5)(rng))
    x = values_of(m, STEPS, BATCH, hidden)(rng)
    return calls(subject, kind, list(module.parameters()), lambda: module(x)[0])


def cell(hidden: int, subject: str, kind: str) -> Callable[[], list[Any]]:
    """An LSTM of one layer, written as a loop over time."""
    m, rng = importlib.import_module(subject), np.random.default_rng(0)
    leaves = [values_of(m, 4 * hidden, hidden, scale=hidden**-0.5)(rng).requires_grad_() for _ in range(2)]
    x = values_of(m, STEPS, BATCH, hidden)(rng)

    def unrolled() -> Any:
        h = c = m.zeros(BATCH, hidden)
        for t in range(STEPS):
            i, f, g, o = (x[t] @ leaves[0].t() + h @ leaves[1].t()).chunk(4, 1)
            c = m.sigmoid(f) * c + m.sigmoid(i) * m.tanh(g)
            h = m.sigmoid(o) * m.tanh(c)
        return h

    return calls(subject, kind, leaves, unrolled)


LAYERS = ("LSTM", "GRU", "RNN")
CASES = (
    *(alternating.Case(f"nn.{k}, 2 layers, hidden {n}", partial(layer, k, n)) for k in LAYERS for n in (64, 256)),
    *(alternating.Case(f"LSTM by hand, hidden {n}", partial(cell, n)) for n in (64, 256)),
)


def main() -> int:
    return alternating.main("benchmarks.recurrent", CASES, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
