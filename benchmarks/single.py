"""Single operations in eager mode, against torch: 60 operations by size, forward, and forward with backward.

And 20 on integers; and, of some ten elements, 24 that make, pick and write, with lists and names as people give them.

``python -m benchmarks.single``. Both libraries run in this process, in turns, on one thread, in processor time. A row
is torch's time over jitgrad's: above 1, jitgrad is faster. Printed are the geometric means by size, and the ten worst.
Square operands of products have at most as many elements as said.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import jitgrad
from benchmarks.result import geometric_mean
from jitgrad.compiled import native_eager

__all__ = ["AROUND", "ON_INTEGERS", "OPERATIONS", "Row", "begin", "main", "measure"]

SIZES = (10, 1_000, 100_000, 1_000_000, 10_000_000)

_AROUND_SIZE = 10

Operation = Callable[[Any, Any, Any], Any]
"""(library, x, y) -> a tensor; x and y: positive float32 matrices of one shape, as square as may be."""

_UNARY = (
    "exp log sqrt rsqrt sin cos tanh sigmoid relu abs neg erf log1p expm1 square reciprocal floor sign atan sinh"
)
_BINARY = "add sub mul div maximum minimum pow atan2 hypot logaddexp"


def _unary(name: str) -> Operation:
    return lambda xp, x, y: getattr(xp, name)(x)


def _binary(name: str) -> Operation:
    return lambda xp, x, y: getattr(xp, name)(x, y)


OPERATIONS: dict[str, Operation] = {
    **{name: _unary(name) for name in _UNARY.split()},
    **{name: _binary(name) for name in _BINARY.split()},
    "add number": lambda xp, x, y: x + 1.5,
    "mul number": lambda xp, x, y: x * 1.5,
    "number / x": lambda xp, x, y: 1.0 / x,
    "x ** 2": lambda xp, x, y: x**2,
    "add row": lambda xp, x, y: x + y[0],
    "mul column": lambda xp, x, y: x * y[:, :1],
    "where": lambda xp, x, y: xp.where(x > y, x, y),
    "clamp": lambda xp, x, y: x.clamp(0.6, 1.2),
    "sum": lambda xp, x, y: x.sum(),
    "sum 0": lambda xp, x, y: x.sum(0),
    "sum 1": lambda xp, x, y: x.sum(1),
    "mean": lambda xp, x, y: x.mean(),
    "amax 1": lambda xp, x, y: x.amax(1),
    "var": lambda xp, x, y: x.var(1),
    "norm": lambda xp, x, y: xp.linalg.vector_norm(x),
    "cumsum": lambda xp, x, y: x.cumsum(1),
    "softmax": lambda xp, x, y: x.softmax(1),
    "log_softmax": lambda xp, x, y: x.log_softmax(1),
    "layer_norm": lambda xp, x, y: xp.nn.functional.layer_norm(x, x.shape[1:]),
    "gelu": lambda xp, x, y: xp.nn.functional.gelu(x),
    "silu": lambda xp, x, y: xp.nn.functional.silu(x),
    "softplus": lambda xp, x, y: xp.nn.functional.softplus(x),
    "mse_loss": lambda xp, x, y: xp.nn.functional.mse_loss(x, y),
    "mm": lambda xp, x, y: x[:, : len(x)] @ y,
    "linear": lambda xp, x, y: xp.nn.functional.linear(x, y),
    "cat": lambda xp, x, y: xp.cat([x, y], 1),
    "stack": lambda xp, x, y: xp.stack([x, y]),
    "transposed": lambda xp, x, y: x.t() * y.t(),
    "slice": lambda xp, x, y: x[1:, ::2],
    "flip": lambda xp, x, y: x.flip(0),
}

ON_INTEGERS: dict[str, Operation] = {
    "i + j": lambda xp, x, y: x + y,
    "i + 1": lambda xp, x, y: x + 1,
    "i * 2": lambda xp, x, y: x * 2,
    "1 - i": lambda xp, x, y: 1 - x,
    "i % 3": lambda xp, x, y: x % 3,
    "i // 2": lambda xp, x, y: x // 2,
    "i / 2": lambda xp, x, y: x / 2,
    "i ** 2": lambda xp, x, y: x**2,
    "i == 3": lambda xp, x, y: x == 3,
    "i < j": lambda xp, x, y: x < y,
    "i & 3": lambda xp, x, y: x & 3,
    "i == 3 & j == 2": lambda xp, x, y: (x == 3) & (y == 2),
    "~(i == 3)": lambda xp, x, y: ~(x == 3),
    "i.clamp": lambda xp, x, y: x.clamp(0, 5),
    "i.where": lambda xp, x, y: xp.where(x == 3, x, 0),
    "i[i == 3]": lambda xp, x, y: x[x == 3],
    "i.float": lambda xp, x, y: x.float(),
    "i.sum": lambda xp, x, y: x.sum(),
    "i.argmax": lambda xp, x, y: x.argmax(1),
    "any": lambda xp, x, y: (x == 3).any(),
}
"""(library, i, j) -> a tensor; i and j: int64 matrices of small numbers. They have no backward."""


def _written(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


AROUND: dict[str, Operation] = {
    "zeros": lambda xp, x, y: xp.zeros(2, 5),
    "zeros of a list": lambda xp, x, y: xp.zeros([2, 5], dtype=xp.int64),
    "arange": lambda xp, x, y: xp.arange(10),
    "linspace": lambda xp, x, y: xp.linspace(0, 1, steps=10),
    "full": lambda xp, x, y: xp.full((2, 5), 1.5),
    "new_zeros": lambda xp, x, y: x.new_zeros(2, 5),
    "randn": lambda xp, x, y: xp.randn(2, 5),
    "rand": lambda xp, x, y: xp.rand(10),
    "randint": lambda xp, x, y: xp.randint(0, 5, size=(10,)),
    "randn_like": lambda xp, x, y: xp.randn_like(x),
    "normal_": lambda xp, x, y: x.normal_(),
    "multinomial": lambda xp, x, y: xp.multinomial(y, 1),
    "tensor of lists": lambda xp, x, y: xp.tensor([[1.0, 2.0], [3.0, 4.0]]),
    "x[i]": lambda xp, x, y: y[xp.arange(2)],
    "x[mask]": lambda xp, x, y: y[y > 1],
    "x[i] = 0": lambda xp, x, y: _written(x, xp.arange(2), 0.0),
    "x[mask] = 0": lambda xp, x, y: _written(x, x > 1, 0.0),
    "x[0] += y[1]": lambda xp, x, y: x[0].add_(y[1]),
    "scatter_": lambda xp, x, y: x.scatter_(1, xp.zeros(2, 1, dtype=xp.int64), 1.0),
    "reshape([..])": lambda xp, x, y: y.reshape([-1, 1]),
    "sum(dim=[..])": lambda xp, x, y: y.sum(dim=[0, 1]),
    "max(dim=)": lambda xp, x, y: y.max(dim=1)[0],
    "std(dim=)": lambda xp, x, y: y.std(dim=1, keepdim=True),
    "movedim": lambda xp, x, y: y.movedim(0, 1),
}
"""(library, x, y) -> a tensor; x and y: positive float32 matrices of some ten elements; x is written."""


class Row(NamedTuple):
    """An operation at one size; ``ratio``: torch's time over jitgrad's."""

    operation: str
    size: int
    backward: bool
    ours_us: float
    theirs_us: float

    @property
    def ratio(self) -> float:
        return self.theirs_us / self.ours_us


def _step(xp: Any, name: str, size: int, backward: bool) -> Callable[[], Any]:
    height = max(2, math.isqrt(size))
    rng = np.random.default_rng(0)
    if name in ON_INTEGERS:
        i, j = (xp.from_numpy(rng.integers(0, 8, (height, size // height))) for _ in range(2))
        return lambda: ON_INTEGERS[name](xp, i, j)
    x, y = (xp.from_numpy(rng.uniform(0.5, 1.5, (height, size // height)).astype(np.float32)) for _ in range(2))
    operation = (AROUND if name in AROUND else OPERATIONS)[name]
    if not backward:
        return lambda: operation(xp, x, y)
    x.requires_grad_()
    seed = xp.ones_like(operation(xp, x, y).detach())

    def step() -> None:
        x.grad = None
        operation(xp, x, y).backward(seed)

    return step


def _seconds(step: Callable[[], Any], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        step()
    return (time.process_time() - start) / repeats


def measure(torch: Any, name: str, size: int, backward: bool, rounds: int, budget_s: float) -> Row:
    """The best of some rounds, in which the libraries take turns; each round takes about ``budget_s`` per library."""
    steps = [_step(xp, name, size, backward) for xp in (jitgrad, torch)]
    for step in steps:
        for _ in range(5):  # the rules are programs then
            step()
    repeats = [max(1, int(budget_s / max(_seconds(step, 3), 1e-7))) for step in steps]
    best = [math.inf, math.inf]
    for _ in range(rounds):
        for nr, step in enumerate(steps):
            best[nr] = min(best[nr], _seconds(step, repeats[nr]))
    return Row(name, size, backward, 1e6 * best[0], 1e6 * best[1])


def _rows(torch: Any, arguments: argparse.Namespace) -> Iterator[Row]:
    names = arguments.only.split(",") if arguments.only else [*OPERATIONS, *ON_INTEGERS]
    for name in AROUND:
        if not arguments.only or name in names:
            yield measure(torch, name, _AROUND_SIZE, False, arguments.rounds, arguments.budget)
    names = [name for name in names if name not in AROUND]
    for size in arguments.sizes:
        for backward in (False, True):
            for name in names:
                if not (backward and name in ON_INTEGERS):
                    yield measure(torch, name, size, backward, arguments.rounds, arguments.budget)


def _mean(rows: list[Row]) -> float:
    return geometric_mean([row.ratio for row in rows]) or math.nan


def _cpu_name() -> str:
    """As the system calls it; else the architecture."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def begin() -> None:
    """Run operations until eager mode's native code is in place, and that of random numbers, or will not come."""
    for _ in range(2000):
        jitgrad.rand(10)
    x, end = jitgrad.ones(10), time.perf_counter() + 20.0
    while not native_eager.is_installed() and time.perf_counter() < end:
        for _ in range(1000):
            x * 2.0


def main() -> None:
    """Print the means and the worst rows, or all rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=0.002, help="seconds per library and round")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    jitgrad.set_num_threads(1)
    begin()
    rows = [*_rows(torch, arguments)]
    if arguments.json:
        print(json.dumps({"cpu": _cpu_name(), "rows": [row._asdict() for row in rows]}, indent=1))
        return
    print(f"{_cpu_name()}, one thread; torch {torch.__version__} / jitgrad")
    print(f"{_AROUND_SIZE:>9,} {'around it':>13}: {_mean([row for row in rows if row.operation in AROUND]):.2f}")
    for size in arguments.sizes:
        for backward in (False, True):
            found = [r for r in rows if r.size == size and r.backward is backward and r.operation in OPERATIONS]
            print(f"{size:>9,} {'with backward' if backward else 'forward':>13}: {_mean(found):.2f}")
        found = [row for row in rows if row.size == size and row.operation in ON_INTEGERS]
        print(f"{size:>9,} {'on integers':>13}: {_mean(found):.2f}")
    print(f"geometric mean of {len(rows)}: {_mean(rows):.2f}; the worst:")
    for row in sorted(rows, key=lambda row: row.ratio)[:10]:
        kind = "with backward" if row.backward else "forward"
        print(f"{row.ratio:6.2f} {row.operation} {row.size:,} {kind}: {row.ours_us:.1f} us, torch {row.theirs_us:.1f}")


if __name__ == "__main__":
    main()
