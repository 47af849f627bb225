"""``python -m benchmarks.kernels``: what a compiled step makes of one operation, against PyTorch, forward and step.

Rows of all lengths, functions of an element in float32 and float64, movements: of each form of kernel one at least, and
each one that was once slower than PyTorch's.
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

Function = Callable[[Any, Any], Any]
"""(library, x) -> a tensor."""


class Operation(NamedTuple):
    """A function of one array.

    Attributes:
        name: in the table.
        function: see ``Function``.
        shape: the array's extents.
        dtype: its dtype.
        is_positive: numbers between 0 and 1 instead of normal ones.
    """

    name: str
    function: Function
    shape: tuple[int, ...]
    dtype: str = "float32"
    is_positive: bool = False


_ROWS: dict[str, Function] = {
    "softmax": lambda m, x: x.softmax(-1),
    "log_softmax": lambda m, x: x.log_softmax(-1),
    "cross_entropy": lambda m, x: m.nn.functional.cross_entropy(x, m.arange(x.shape[0]) % x.shape[1]),
    "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, x.shape[-1:]),
    "sum(-1)": lambda m, x: x.sum(-1),
    "sum(0)": lambda m, x: x.sum(0),
    "amax(-1)": lambda m, x: x.amax(-1),
    "logsumexp(0)": lambda m, x: x.logsumexp(0),
    "var(-1)": lambda m, x: x.var(-1),
    "cumsum(-1)": lambda m, x: x.cumsum(-1),
}
_ROW_SHAPES = ((1024, 10), (65536, 2), (4096, 64), (512, 1000), (64, 20000))

_OF_ELEMENTS: dict[str, Function] = {
    **{
        name: lambda m, x, name=name: getattr(m, name)(x)
        for name in ("exp tanh sigmoid sin cos tan erf erfc log log1p expm1 sqrt rsqrt atan relu").split()
    },
    "gelu": lambda m, x: m.nn.functional.gelu(x),
    "silu": lambda m, x: m.nn.functional.silu(x),
    "softplus": lambda m, x: m.nn.functional.softplus(x),
    "x ** 2.5": lambda m, x: x**2.5,
}
_ONLY_POSITIVE = frozenset({"log", "sqrt", "rsqrt", "x ** 2.5"})

_MOVES: dict[str, tuple[Function, tuple[int, ...]]] = {
    "flip(-1)": (lambda m, x: x.flip(-1), (256, 1000)),
    "roll": (lambda m, x: x.roll(1, -1), (256, 1000)),
    "transpose": (lambda m, x: x.transpose(-1, -2).contiguous(), (8, 128, 768)),
    "cat along rows": (lambda m, x: m.cat([x, x], -1), (256, 1000)),
    "stack at the end": (lambda m, x: m.stack([x, 2 * x], -1), (256, 1000)),
    "repeat_interleave": (lambda m, x: x.repeat_interleave(2, -1), (256, 1000)),
    "nearest upsampling": (lambda m, x: m.nn.functional.interpolate(x, scale_factor=2), (4, 32, 28, 28)),
    "sums of unfolded": (lambda m, x: x.unfold(-1, 3, 1).sum(-1), (8, 128, 768)),
    "pad": (lambda m, x: m.nn.functional.pad(x, (1, 1, 1, 1)), (16, 64, 14, 14)),
    "tril": (lambda m, x: x.tril(), (8, 256, 256)),
    "max_pool2d": (lambda m, x: m.nn.functional.max_pool2d(x, 2), (16, 32, 28, 28)),
    "batch_norm": (lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True), (16, 64, 28, 28)),
}

_ELEMENTS = 1 << 16
OPERATIONS = (
    *(
        Operation(f"{name} of {rows} x {columns}", function, (rows, columns))
        for name, function in _ROWS.items()
        for rows, columns in _ROW_SHAPES
    ),
    *(
        Operation(f"{name}, {dtype}", function, (_ELEMENTS,), dtype, name in _ONLY_POSITIVE)
        for name, function in _OF_ELEMENTS.items()
        for dtype in ("float32", "float64")
    ),
    *(Operation(name, function, shape) for name, (function, shape) in _MOVES.items()),
)


def call_of(operation: Operation, subject: str, kind: str) -> Callable[[], list[Any]]:
    """A call of the subject's operation. It returns the result, and in a step the gradient of the array."""
    m = importlib.import_module(subject)
    importlib.import_module(f"{subject}.nn.functional")
    rng = np.random.default_rng(0)
    array = rng.random(operation.shape) * 0.9 + 0.05 if operation.is_positive else rng.standard_normal(operation.shape)
    x = m.from_numpy(np.asarray(array, operation.dtype))

    def forward(x: Any) -> Any:
        return operation.function(m, x)

    def step(x: Any) -> Any:
        out = forward(x)
        (out * out).sum().backward()
        return out.detach()

    if kind == "forward":
        run = m.compile(forward) if subject == "jitgrad" else forward
        return lambda: [run(x)]
    leaf = x.requires_grad_()
    compiled = m.compile(step) if subject == "jitgrad" else step

    def whole() -> list[Any]:
        leaf.grad = None
        return [compiled(leaf), leaf.grad]

    return whole


CASES = tuple(alternating.Case(one.name, partial(call_of, one)) for one in OPERATIONS)


def main() -> int:
    return alternating.main("benchmarks.kernels", CASES, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
