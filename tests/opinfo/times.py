"""``python -m tests.opinfo.times``: PyTorch's sample inputs, which are small, timed in both libraries, eagerly.

A row is torch's time over jitgrad's, of the sample where that is least: it finds functions that are slow by a factor,
whatever their names. ``--graph`` times them with a derivative by ``torch.autograd.grad``. ``--compiled`` compares
eager mode with a compiled step of this one call instead: what loses there is something that steps do worse than eager
mode. One thread; each of the two in turn, after native code of eager mode is in place.

Owns: the command line, what is timed.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from opinfo.calls import Call, tensors_of
from opinfo.checks import operations, pairs
from opinfo.differences import LEFT_OUT

import jitgrad
from jitgrad.compiled import native_eager

__all__ = ["Row", "main", "row_of"]

_WARM, _ROUNDS, _SECONDS = 25, 4, 1.5e-3


class Row(NamedTuple):
    """Of an operation: seconds per call of the sample where jitgrad, or the compiled step, does worst."""

    name: str
    ours: float
    theirs: float
    sample: int

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def _on_its_own(call: Call) -> Call:
    """Tensors in memory of their own: samples are parts of larger ones, which few operands are."""
    new = {
        id(x): x.detach().clone().requires_grad_(x.requires_grad)
        for x in tensors_of(call.t, (call.input, call.args, call.kwargs))
        if x.is_contiguous()
    }
    return call.replaced(new)


def _step(call: Call, in_graph: bool) -> Callable[[], Any]:
    function, first, args, kwargs, t = call.function, call.input, call.args, call.kwargs, call.t
    if not in_graph:
        return lambda: function(first, *args, **kwargs)
    leaves = call.leaves()

    def step() -> Any:
        made = function(first, *args, **kwargs)
        outs = [y for y in (made if isinstance(made, list | tuple) else [made]) if getattr(y, "requires_grad", False)]
        return t.autograd.grad(outs, leaves, [t.ones_like(y) for y in outs], allow_unused=True)

    step()
    return step


def _seconds(step: Callable[[], Any]) -> float:
    for _ in range(_WARM):
        step()
    start = time.perf_counter()
    step()
    count = max(1, min(200, int(_SECONDS / max(time.perf_counter() - start, 1e-7))))
    best = math.inf
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        for _ in range(count):
            step()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def row_of(name: str, op: Any, dtype: torch.dtype, in_graph: bool, is_compiled: bool, samples: int) -> Row | None:
    """The worst sample of an operation; None if none runs in both libraries."""
    rows: list[Row] = []
    for pair in pairs(op, dtype, "graph" if in_graph else "", samples):
        try:
            step = _step(_on_its_own(pair.ours()), in_graph)
            ours = _seconds(jitgrad.compile(step) if is_compiled else step)
            theirs = _seconds(step if is_compiled else _step(_on_its_own(pair.theirs()), in_graph))
        except Exception:  # values and errors are compared elsewhere
            continue
        rows.append(Row(name, ours, theirs, pair.index))
    return min(rows, key=lambda row: row.ratio, default=None)


def _begin() -> None:
    """One thread, and native code in place."""
    torch.set_num_threads(1)
    jitgrad.set_num_threads(1)
    x = jitgrad.ones(10)
    for _ in range(100):
        for _ in range(600):
            x * x
        if native_eager.is_installed():
            return
        time.sleep(0.1)


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    dtype = getattr(torch, options.dtype)
    for name, op in operations().items():
        if op.name in LEFT_OUT or dtype not in op.dtypes or (options.graph and not op.supports_autograd):
            continue
        if options.op and not any(one in name for one in options.op):
            continue
        row = row_of(name, op, dtype, options.graph, options.compiled, options.samples)
        if row is not None:
            yield row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo.times", description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", help="only operations whose names have this in them")
    parser.add_argument("--graph", action="store_true", help="with a derivative")
    parser.add_argument("--compiled", action="store_true", help="eager mode against a compiled step")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=2, help="of each operation")
    parser.add_argument("--worst", type=int, default=60, help="how many rows are printed")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    _begin()
    rows = sorted(_rows(options), key=lambda row: row.ratio)
    for row in rows[: options.worst]:
        ours, theirs = 1e6 * row.ours, 1e6 * row.theirs
        other = "eager" if options.compiled else "torch"
        print(f"{row.ratio:6.2f}  {row.name:44} {ours:9.1f} us, {other} {theirs:7.1f}, sample {row.sample}")
    print(f"{len(rows)} operations, geometric mean {math.exp(sum(math.log(r.ratio) for r in rows) / len(rows)):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
