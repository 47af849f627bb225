"""What a graph costs the first time: calls of a compiled step over the eager step, by length.

``python -m benchmarks.first_call``. For each kind of step and each number of operations: the first call, which records
the graph; the second, which compiles a long one (Note [New graphs]); the fifth. Each over the eager step, the best of
several fresh functions, in processor time, so that other work on the machine does not count. Kernels are in the disk
cache after the first of them, so LLVM's time does not count; with ``--cold`` there is no disk cache.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.codegen.llvm.jit import drop_idle_kernels
from jitgrad.config import config

__all__ = ["KINDS", "LENGTHS", "main", "ratios"]

LENGTHS = (30, 300, 3_000)
CALLS = 5
_SIZE = 10_000

Kind = Callable[[int, int], tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]]
"""(operations, elements) -> (the step, what makes its arguments)."""


def _elementwise(operations: int, size: int) -> Any:
    def step(x: Any) -> Any:
        y = x
        for _ in range(operations // 2):
            y = y * 0.999 + x
        return y

    return step, lambda: (jitgrad.ones(size),)


def _backward(operations: int, size: int) -> Any:
    def step(x: Any, w: Any) -> Any:
        y = x * w
        for _ in range(operations // 2):
            y = y * 0.999 + x
        y.sum().backward()
        return y.detach()

    return step, lambda: (jitgrad.ones(size), jitgrad.ones(size, requires_grad=True))


def _training(operations: int, size: int) -> Any:
    """Training steps of a small network in one call, some 30 operations each."""
    width = max(1, size // 150)

    def step(net: Any, optimizer: Any, x: Any, y: Any) -> Any:
        for _ in range(max(1, operations // 30)):
            optimizer.zero_grad()
            loss = (net(x) - y).square().mean()
            loss.backward()
            optimizer.step()
        return loss.detach()

    def arguments() -> tuple[Any, ...]:
        jitgrad.manual_seed(0)
        layers = [jitgrad.nn.Linear(width, width) for _ in range(3)]
        net = jitgrad.nn.Sequential(layers[0], jitgrad.nn.Tanh(), layers[1], jitgrad.nn.Tanh(), layers[2])
        data = jitgrad.randn(32, width), jitgrad.randn(32, width)
        return net, jitgrad.optim.SGD(net.parameters(), lr=0.01), *data

    return step, arguments


def _writes(operations: int, size: int) -> Any:
    """Rows of a tensor written one by one, each of what its predecessor holds."""
    rows = max(2, operations // 4)

    def step(x: Any) -> Any:
        y = jitgrad.zeros(rows, len(x))
        for i in range(1, rows):
            y[i] = y[i - 1] + x
        return y

    return step, lambda: (jitgrad.ones(max(1, size // 100)),)


KINDS: dict[str, Kind] = {
    "elementwise (y * 0.999 + x)": _elementwise,
    "elementwise, then a backward": _backward,
    "training steps of a small network": _training,
    "rows written one by one": _writes,
}


def _seconds(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    start = time.process_time()
    function(*arguments).sum().item()
    return time.process_time() - start


def ratios(kind: Kind, operations: int, size: int = _SIZE, repeats: int = 3) -> tuple[float, list[float]]:
    """(seconds of the eager step, per call of the compiled one how much longer it took)."""
    step, arguments = kind(operations, size)
    eager = min(_seconds(step, arguments()) for _ in range(repeats + 1))
    calls = []
    for _ in range(repeats):
        compiled = jitgrad.compile(step)
        given = arguments()
        calls.append([_seconds(compiled, given) / eager for _ in range(CALLS)])
        if config.cache_dir is None:
            drop_idle_kernels()
    return eager, [min(times) for times in zip(*calls, strict=True)]


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="operations (default: 30 300 3000)")
    parser.add_argument("--cold", action="store_true", help="compile every kernel anew")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config.cache_dir = None if arguments.cold else folder
        for _ in range(2):
            jitgrad.compile(lambda x: x + 1)(jitgrad.ones(1))  # LLVM and the hits are loaded
        if not arguments.json:
            print("operations      eager    first   second    fifth  (calls, over the eager step)")
        rows = [_row(name, n, not arguments.json) for name in KINDS for n in arguments.lengths]
    if arguments.json:
        print(json.dumps(rows, indent=1))


def _row(name: str, operations: int, is_shown: bool) -> dict[str, Any]:
    """Measure a line of the table, and print it."""
    eager, calls = ratios(KINDS[name], operations)
    if is_shown:
        figures = "  ".join(f"{calls[i]:7.2f}" for i in (0, 1, 4))
        print(f"{operations:10}  {1e3 * eager:6.2f} ms  {figures}  {name}", flush=True)
    return {"kind": name, "operations": operations, "eager_s": eager, "calls": calls}


if __name__ == "__main__":
    main()
