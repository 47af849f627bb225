"""What the profiler costs a warm compiled step: ratios of processor time, by turns within one process.

``python -m benchmarks.profiling [--json]``. Three figures for a small and a middle step, each by the step outside of
any profiler: right after a profiler was closed (what it leaves behind), in ``with profile()``, and in
``with profile(kernels=True)``. The bounds are 1.02 when off and 1.10 when on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import jitgrad
from jitgrad import nn, optim
from jitgrad.nn import functional as F
from jitgrad.profiler import profile

__all__ = ["STEPS", "main", "ratios"]

_TURNS, _TURN_S = 40, 0.02
OFF, ON = 1.02, 1.10
"""The bounds."""


def _step(sizes: tuple[int, ...], batch: int) -> Callable[[], Any]:
    """A training step of a perceptron, warm."""
    jitgrad.manual_seed(0)
    layers: list[Any] = []
    for m, n in pairwise(sizes):
        layers += [nn.Linear(m, n), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    x, y = jitgrad.randn(batch, sizes[0]), jitgrad.randint(0, sizes[-1], (batch,))

    @jitgrad.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(10):
        step()
    return step


STEPS: dict[str, tuple[tuple[int, ...], int]] = {
    "small: 8-8-4, batch 16": ((8, 8, 4), 16),
    "middle: 64-256-256-10, batch 128": ((64, 256, 256, 10), 128),
}


def _per_call(step: Callable[[], Any], repeats: int, block: Callable[[], AbstractContextManager[Any]]) -> float:
    """Seconds of the processor per call; entering and leaving the block is not counted."""
    with block():
        step()
        start = time.process_time()
        for _ in range(repeats):
            step()
        return (time.process_time() - start) / repeats


def ratios(sizes: tuple[int, ...], batch: int) -> dict[str, float]:
    """Microseconds of the step alone, and the three ratios: medians over turns that alternate."""
    step = _step(sizes, batch)
    repeats = max(1, int(_TURN_S / _per_call(step, 20, nullcontext)))
    kinds: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "on": profile, "kernels": lambda: profile(kernels=True), "off": nullcontext, "alone": nullcontext,
    }  # fmt: skip
    for block in kinds.values():
        _per_call(step, 2, block)
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(_TURNS):
        for name, block in kinds.items():
            times[name].append(_per_call(step, repeats, block))
    alone = times.pop("alone")
    found = {"us": 1e6 * statistics.median(alone)}
    for name in ("off", "on", "kernels"):
        found[name] = statistics.median(x / y for x, y in zip(times[name], alone, strict=True))
    return found


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {name: ratios(*given) for name, given in STEPS.items()}
    if options.json:
        print(json.dumps({"bounds": {"off": OFF, "on": ON}, "steps": found}, indent=1))
        return
    print(f"{'step':36}{'us':>9}{'off':>8}{'on':>8}{'kernels':>9}   bounds: off {OFF}, on {ON}")
    for name, row in found.items():
        print(f"{name:36}{row['us']:9.1f}{row['off']:8.3f}{row['on']:8.3f}{row['kernels']:9.3f}")


if __name__ == "__main__":
    main()
