"""Small models in plain training loops, in many forms: eager, with the model compiled, and PyTorch.

``python -m benchmarks.forms``. All three take turns within one process, on one thread; figures are microseconds per
step, medians of blocks, and ratios of PyTorch's time. A form in which something is slow by a factor stands out here:
a plan that is made at every call, a graph that leaves the fast path.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import jitgrad
import jitgrad.distributions
from benchmarks.loops import LOOPS
from benchmarks.result import geometric_mean
from benchmarks.single import begin

__all__ = ["WAYS", "main", "measure"]

WAYS = ("eager", "compiled", "torch")
_WARM_CALLS = 400
"""By then native code is in place, and what is new at first is known."""


def _step(name: str, way: str) -> Callable[[], Any]:
    library: Any = torch if way == "torch" else jitgrad
    library.manual_seed(0)
    return LOOPS[name](library, jitgrad.compile if way == "compiled" else lambda model: model)


def measure(name: str, seconds: float, blocks: int = 7, warm_calls: int = _WARM_CALLS) -> dict[str, float]:
    """Microseconds per step, by way. ``seconds``: for each."""
    steps = {way: _step(name, way) for way in WAYS}
    repeats: dict[str, int] = {}
    for way, step in steps.items():
        for _ in range(warm_calls):
            step()
        start = time.perf_counter()
        step()
        repeats[way] = max(1, int(seconds / blocks / max(time.perf_counter() - start, 1e-6)))
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(blocks):
        for way, step in steps.items():
            start = time.perf_counter()
            for _ in range(repeats[way]):
                step()
            times[way].append(1e6 * (time.perf_counter() - start) / repeats[way])
    return {way: statistics.median(found) for way, found in times.items()}


def main() -> None:
    """Print the table, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=0.3, help="per form and way")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    jitgrad.set_num_threads(1)
    names = arguments.only.split(",") if arguments.only else [*LOOPS]
    begin()
    rows = {name: measure(name, arguments.seconds) for name in names}
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    heads = ("microseconds per step", *WAYS, "torch / eager", "/ compiled")
    print("".join(f"{head:<24}" if nr == 0 else f"{head:>14}" for nr, head in enumerate(heads)))
    for name, row in rows.items():
        numbers = [row[way] for way in WAYS] + [row["torch"] / row[way] for way in WAYS[:2]]
        print(f"{name:<24}" + "".join(f"{number:>14.2f}" for number in numbers))
    for way in WAYS[:2]:
        ratios = {name: row["torch"] / row[way] for name, row in rows.items()}
        worst, mean = min(ratios, key=lambda name: ratios[name]), geometric_mean([*ratios.values()])
        print(f"torch / {way}: geometric mean {mean:.2f}, least {ratios[worst]:.2f} ({worst})")


if __name__ == "__main__":
    main()
