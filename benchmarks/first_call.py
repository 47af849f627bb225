"""What a graph costs the first time: calls of a compiled step over the eager step, by length.

``python -m benchmarks.first_call``. For each kind of step and each number of operations: the first call, which records
the graph; the second, which compiles a long one (Note [New graphs]); the fifth. Before them two shares of theirs: what
the first call is without planning ("record"), and planning and linking in all five ("plan"). Each over the eager step,
the best of several fresh functions, in processor time, so that other work on the machine does not count. Kernels are in
the disk cache after the first of them, so LLVM's time does not count; with ``--cold`` there is no disk cache.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jitgrad
from jitgrad.codegen.llvm.jit import drop_idle_kernels
from jitgrad.config import config
from jitgrad.probe import probe

__all__ = ["KINDS", "LENGTHS", "Ratios", "main", "ratios"]

LENGTHS = (30, 300, 3_000)
CALLS = 5
_EAGER_OPERATIONS = 10_000
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


class _Planning:
    """A probe that adds up how long segments are planned and linked, see Note [Profiling points]."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def enter(self, name: str) -> int:
        return 0

    def leave(self, name: str, category: str, args: tuple[Any, ...], start: int) -> None:
        """Ranges of the user's do not count."""

    def call(self, category: str, subject: Any, function: Callable[..., Any], *args: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args)
        finally:
            if category == "compile":
                self.seconds += time.process_time() - start


@contextmanager
def _planning() -> Iterator[_Planning]:
    found = _Planning()
    probe.session = found  # type: ignore[assignment]
    try:
        yield found
    finally:
        probe.session = None


class Ratios(NamedTuple):
    """Calls of a compiled step over the eager one.

    Attributes:
        eager: seconds of the eager step.
        calls: how many times as long each call took.
        planning: how many times as long planning and linking took in each.
    """

    eager: float
    calls: list[float]
    planning: list[float]

    @property
    def record(self) -> float:
        """The first call without planning."""
        return self.calls[0] - self.planning[0]

    @property
    def plan(self) -> float:
        """Planning and linking in all calls."""
        return sum(self.planning)


def ratios(kind: Kind, operations: int, size: int = _SIZE, repeats: int = 3) -> Ratios:
    """What each call costs, the best of ``repeats`` fresh functions."""
    step, arguments = kind(operations, size)
    eager = min(_seconds(step, arguments()) for _ in range(repeats + 1))
    calls, planning = [], []
    for _ in range(repeats):
        compiled, given = jitgrad.compile(step), arguments()
        gc.collect()  # what earlier functions have left does not count
        calls.append([_seconds(compiled, given) / eager for _ in range(CALLS)])
        compiled, given = jitgrad.compile(step), arguments()
        planning.append([_seconds_of_planning(compiled, given) / eager for _ in range(CALLS)])
        if config.cache_dir is None:
            drop_idle_kernels()
    return Ratios(eager, *([min(times) for times in zip(*rows, strict=True)] for rows in (calls, planning)))


def _seconds_of_planning(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    with _planning() as found:
        function(*arguments).sum().item()
    return found.seconds


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="operations (default: 30 300 3000)")
    parser.add_argument("--cold", action="store_true", help="compile every kernel anew")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    config.builders = 0  # what they make would come in the middle of what is measured
    with tempfile.TemporaryDirectory() as folder:
        config.cache_dir = None if arguments.cold else folder
        x = jitgrad.ones(1)
        for _ in range(2):
            jitgrad.compile(lambda x: x + 1)(x)  # LLVM and the hits are loaded
        for _ in range(_EAGER_OPERATIONS):
            x + x  # eager mode's native code, too: the eager step is at its best
        if not arguments.json:
            print("operations      eager   record     plan    first   second    fifth  (over the eager step)")
        rows = [_row(name, n, not arguments.json) for name in KINDS for n in arguments.lengths]
    if arguments.json:
        print(json.dumps(rows, indent=1))


def _row(name: str, operations: int, is_shown: bool) -> dict[str, Any]:
    """Measure a line of the table, and print it."""
    found = ratios(KINDS[name], operations)
    if is_shown:
        shown = (found.record, found.plan, *[found.calls[i] for i in (0, 1, 4)])
        figures = "  ".join(f"{ratio:7.2f}" for ratio in shown)
        print(f"{operations:10}  {1e3 * found.eager:6.2f} ms  {figures}  {name}", flush=True)
    return {"kind": name, "operations": operations, "eager_s": found.eager, "calls": found.calls,
            "planning": found.planning}  # fmt: skip


if __name__ == "__main__":
    main()
