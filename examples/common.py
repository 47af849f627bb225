"""What the examples share: arguments, the eager and the compiled run from one seed, times, the plot's file, JSON.

An example gives ``run_example`` a function that trains and one that draws. Training is written once: ``run.step``
compiles a step in the compiled run and leaves it alone in the eager one, which is all the difference there is.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import jitgrad

__all__ = ["Run", "run_example"]


@dataclass
class Run:
    """One training.

    Attributes:
        mode: "eager" or "compiled".
        losses: one per round (an epoch, or so many steps).
        seconds: of each round; the first of a compiled run holds the compiling.
        figures: numbers that are worth reporting, by name.
        drawn: what the plot needs; not part of the JSON.
    """

    mode: str
    report: Callable[[str], None]
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    drawn: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds_per_round(self) -> float:
        """The median."""
        return float(np.median(self.seconds))

    def step(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The step as this run calls it."""
        return jitgrad.compile(function) if self.mode == "compiled" else function

    def rounds(self, count: int) -> Iterator[int]:
        """0, 1, ...: the body of the loop is timed, and appends one loss."""
        for number in range(count):
            start = time.perf_counter()
            yield number
            self.seconds.append(time.perf_counter() - start)
            if count <= 20 or number % (count // 20) == 0 or number == count - 1:
                loss, duration = self.losses[-1], 1e3 * self.seconds[-1]
                self.report(f"{self.mode:>8}  {number + 1:5d}  loss {loss:.6f}  {duration:8.2f} ms")


Train = Callable[[Run, argparse.Namespace], None]
Draw = Callable[[Any, list[Run]], None]
"""Draws on a matplotlib figure."""


def run_example(doc: str | None, train: Train, draw: Draw, *, name: str, unit: str, count: int, **more: int) -> None:
    """Read the arguments, train eagerly and compiled, compare, draw, report.

    Args:
        doc: the example's own text; the first line describes it.
        name: of the plot's file, without its ending.
        unit: what a round is called: the argument is ``--epochs`` or ``--steps``.
        count: how many rounds unless it is said otherwise.
        more: further arguments that are numbers, and their defaults.
    """
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument(f"--{unit}", dest="count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    for argument, default in more.items():
        parser.add_argument(f"--{argument.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--plot", type=Path, default=None, help=f"where the plot goes (default: {name}.png)")
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    options = parser.parse_args()

    def report(line: str) -> None:
        if not options.json:
            print(line, flush=True)

    runs = [Run(mode, report) for mode in ("eager", "compiled")]
    for run in runs:
        jitgrad.manual_seed(options.seed)
        train(run, options)
    summary = _summarise(*runs)
    if options.plot is not None or not options.json:
        path = options.plot or Path(f"{name}.png")
        _save(draw, runs, path)
        report(f"\nplot: {path}")
    for run in runs:
        figures = "".join(f", {key} {value:.4g}" for key, value in run.figures.items())
        report(f"{run.mode:>8}: loss {run.losses[-1]:.6f}{figures}, {1e3 * run.seconds_per_round:.2f} ms per round")
    report(
        f"losses agree within {summary['max_relative_loss_difference']:.1e} relative; "
        f"compiled rounds are {summary['speed_up']:.1f}x faster"
    )
    if options.json:
        print(json.dumps(summary, indent=1))


def _summarise(eager: Run, compiled: Run) -> dict[str, Any]:
    pairs = zip(eager.losses, compiled.losses, strict=True)
    return {
        **{
            run.mode: {
                "losses": run.losses, "seconds": run.seconds, "seconds_per_round": run.seconds_per_round,
                "figures": run.figures,
            }
            for run in (eager, compiled)
        },
        "max_relative_loss_difference": max(abs(a - b) / max(abs(a), 1e-12) for a, b in pairs),
        "speed_up": eager.seconds_per_round / compiled.seconds_per_round,
        "stats": jitgrad.stats(),
    }  # fmt: skip


def _save(draw: Draw, runs: list[Run], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 2))
    axes = left.subplots()
    for run, style in zip(runs, ("-", "--"), strict=True):
        axes.plot(range(1, len(run.losses) + 1), run.losses, style, label=run.mode)
    axes.set_xlabel("round")
    axes.set_ylabel("loss")
    axes.legend()
    draw(right, runs)
    figure.savefig(path, dpi=150)
