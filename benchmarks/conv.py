"""``python -m benchmarks.conv``: convolutions against PyTorch, forward and whole step, one thread and more.

A step is a convolution with bias and its three gradients; the forward is without gradients. See ``alternating.py`` for
how they are timed, and for ``--memory``.
"""

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
    """One convolution: extents of the image (as many as it has dimensions), of the window, and the rest."""

    name: str
    batch: int
    channels: int
    image: tuple[int, ...]
    outs: int
    window: int
    stride: int = 1
    padding: int = 0
    groups: int = 1

    @property
    def multiply_adds(self) -> int:
        """Of the forward."""
        positions = [(n + 2 * self.padding - self.window) // self.stride + 1 for n in self.image]
        per_position = self.channels // self.groups * self.outs * self.window ** len(self.image)
        return self.batch * int(np.prod(positions)) * per_position


SHAPES = (
    Shape("3x3 64 to 64", 16, 64, (32, 32), 64, 3, 1, 1),
    Shape("3x3 128 to 128", 16, 128, (16, 16), 128, 3, 1, 1),
    Shape("3x3 64 to 128, stride 2", 16, 64, (32, 32), 128, 3, 2, 1),
    Shape("1x1 64 to 64", 16, 64, (32, 32), 64, 1),
    Shape("depthwise 3x3 64", 16, 64, (32, 32), 64, 3, 1, 1, 64),
    Shape("3x3 64 to 64, 4 groups", 16, 64, (32, 32), 64, 3, 1, 1, 4),
    Shape("LeNet 5x5 1 to 6", 64, 1, (28, 28), 6, 5, 1, 2),
    Shape("LeNet 5x5 6 to 16", 64, 6, (14, 14), 16, 5),
    Shape("ResNet-18 3x3 3 to 64", 16, 3, (32, 32), 64, 3, 1, 1),
    Shape("ResNet-18 1x1 64 to 128, stride 2", 16, 64, (32, 32), 128, 1, 2),
    Shape("ResNet-18 3x3 128 to 256, stride 2", 16, 128, (16, 16), 256, 3, 2, 1),
    Shape("ResNet-18 3x3 256 to 256", 16, 256, (8, 8), 256, 3, 1, 1),
    Shape("ResNet-18 3x3 256 to 512, stride 2", 16, 256, (8, 8), 512, 3, 2, 1),
    Shape("ResNet-18 3x3 512 to 512", 16, 512, (4, 4), 512, 3, 1, 1),
    Shape("1d 5 64 to 64", 16, 64, (512,), 64, 5, 1, 2),
    Shape("3d 3x3x3 16 to 32", 4, 16, (16, 16, 16), 32, 3, 1, 1),
)


def call_of(case: Shape, subject: str, kind: str) -> Callable[[], list[Any]]:
    """A call of the subject's convolution. It returns the result, and in a step the gradients."""
    m = importlib.import_module(subject)
    functional = importlib.import_module(f"{subject}.nn.functional")
    conv = getattr(functional, f"conv{len(case.image)}d")
    rng = np.random.default_rng(0)

    def values(*shape: int) -> Any:
        return m.from_numpy(rng.standard_normal(shape).astype(np.float32))

    x = values(case.batch, case.channels, *case.image)
    weight = values(case.outs, case.channels // case.groups, *[case.window] * len(case.image))
    bias = values(case.outs)

    def forward(x: Any, weight: Any, bias: Any) -> Any:
        return conv(x, weight, bias, case.stride, case.padding, 1, case.groups)

    if kind == "forward":
        run = m.compile(forward) if subject == "jitgrad" else forward
        return lambda: [run(x, weight, bias)]
    leaves = [v.requires_grad_() for v in (x, weight, bias)]
    with m.no_grad():
        up = values(*forward(x, weight, bias).shape)

    def step(x: Any, weight: Any, bias: Any, up: Any) -> Any:
        out = forward(x, weight, bias)
        out.backward(up)
        return out

    compiled = m.compile(step) if subject == "jitgrad" else step

    def whole() -> list[Any]:
        for leaf in leaves:
            leaf.grad = None
        out = compiled(x, weight, bias, up)
        return [out.detach(), *(leaf.grad for leaf in leaves)]

    return whole


CASES = tuple(alternating.Case(shape.name, partial(call_of, shape), shape.multiply_adds) for shape in SHAPES)


def main() -> int:
    return alternating.main("benchmarks.conv", CASES, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
