"""A bar chart of step times. Imported only when a chart is asked for: matplotlib is an extra."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from benchmarks.result import RowResult

matplotlib.use("Agg")

import matplotlib.pyplot as plt

__all__ = ["save_chart"]

_COLOURS = {
    "jitgrad-eager": "#9ecae1",
    "jitgrad": "#08519c",
    "torch-eager": "#fdae6b",
    "torch-compile": "#e6550d",
    "jax": "#74c476",
}


def save_chart(results: list[RowResult], path: Path) -> None:
    """One group of bars per row: lower quartiles on a logarithmic axis."""
    names = list(results[0].subjects)
    figure, axes = plt.subplots(figsize=(10, 1.2 + 0.6 * len(results)), layout="constrained")
    height = 0.8 / len(names)
    for i, name in enumerate(names):
        values = [result.subjects[name].lower_quartile_us or float("nan") for result in results]
        positions = [y + i * height - 0.4 + height / 2 for y in range(len(results))]
        axes.barh(positions, values, height, label=name, color=_COLOURS[name])
    axes.set_yticks(range(len(results)), [result.row.title for result in results])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("microseconds per training step (lower quartile; shorter is better)")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)
    plt.close(figure)
