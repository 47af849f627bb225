"""``python -m benchmarks.attention``: scaled_dot_product_attention against PyTorch, forward and whole step."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import alternating

__all__ = ["CASES", "main"]


class Shape(NamedTuple):
    """Extents of q, k and v, and which scores count: "full", "causal", or those of a boolean "mask"."""

    batch: int
    heads: int
    length: int
    width: int
    scores: str = "causal"


SHAPES = (
    Shape(16, 4, 64, 32),
    Shape(16, 4, 32, 16, "full"),
    Shape(1, 1, 256, 64, "full"),
    Shape(4, 8, 128, 64, "mask"),
    Shape(4, 8, 256, 64),
    Shape(1, 8, 512, 64),
    Shape(1, 8, 1024, 64, "full"),
    Shape(1, 8, 1024, 64),
    Shape(2, 4, 1024, 16),
)


def call_of(shape: Shape, subject: str, kind: str) -> Callable[[], list[Any]]:
    """A call of the subject's attention. It returns the result, and in a step the gradients of q, k and v."""
    m = importlib.import_module(subject)
    attend = importlib.import_module(f"{subject}.nn.functional").scaled_dot_product_attention
    rng = np.random.default_rng(0)
    extents = (shape.batch, shape.heads, shape.length, shape.width)
    q, k, v, up = (m.from_numpy(rng.standard_normal(extents).astype(np.float32)) for _ in range(4))
    allowed = rng.random((shape.length, shape.length)) < 0.8
    np.fill_diagonal(allowed, True)  # no row without a score
    mask = m.from_numpy(allowed) if shape.scores == "mask" else None

    def forward(q: Any, k: Any, v: Any) -> Any:
        return attend(q, k, v, attn_mask=mask, is_causal=shape.scores == "causal")

    def step(q: Any, k: Any, v: Any, up: Any) -> Any:
        out = forward(q, k, v)
        out.backward(up)
        return out

    if kind == "forward":
        run = m.compile(forward) if subject == "jitgrad" else forward
        return lambda: [run(q, k, v)]
    leaves = [t.requires_grad_() for t in (q, k, v)]
    compiled = m.compile(step) if subject == "jitgrad" else step

    def whole() -> list[Any]:
        for leaf in leaves:
            leaf.grad = None
        out = compiled(q, k, v, up)
        return [out.detach(), *(leaf.grad for leaf in leaves)]

    return whole


def name_of(shape: Shape) -> str:
    return f"batch {shape.batch}, heads {shape.heads}, T {shape.length}, width {shape.width}, {shape.scores}"


CASES = tuple(alternating.Case(name_of(shape), partial(call_of, shape)) for shape in SHAPES)


def main() -> int:
    return alternating.main("benchmarks.attention", CASES, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
