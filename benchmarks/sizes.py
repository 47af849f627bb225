"""Training steps whose inputs have another size at each call, against PyTorch.

``python -m benchmarks.sizes``: sentences, sets, graphs, batches of ever other lengths. Each program runs in a process
of its own, in PyTorch, in jitgrad's eager mode and compiled, on one thread; losses are compared. Milliseconds of the
first hundred steps together, and of one step after two hundred, on average.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["PROGRAMS", "WAYS", "Times", "main", "measure", "run"]

WAYS = ("torch", "jitgrad, eager", "jitgrad, compiled")
EARLY, LATE, STEPS = 100, 200, 300
LENGTHS = {
    "block": (16, 128), "mlp": (10, 2000), "set": (5, 100), "lstm": (8, 64), "packed": (8, 64), "images": (16, 48),
    "graph": (50, 800),
}  # fmt: skip
"""Of sentences, of a batch, of a set, of series, of an image's sides, of a graph's nodes."""

Part = tuple[Any, Callable[[int], tuple[Any, ...]], Callable[..., Any]]
"""(Model, size -> inputs, loss of inputs)."""


class Times(NamedTuple):
    """Milliseconds: of the first ``EARLY`` steps, of one of those after ``LATE``; and the last loss."""

    early: float
    late: float
    loss: float


def _block(m: Any, other: Callable[[], int]) -> Part:
    """A block of a transformer over sentences."""
    model = m.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    return model, lambda n: (m.randn(8, n, 64), m.randn(8, n, 64)), lambda x, y: m.nn.functional.mse_loss(model(x), y)


def _mlp(m: Any, other: Callable[[], int]) -> Part:
    """A network over batches."""
    nn = m.nn
    layers = [nn.Linear(16, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4)]
    model = nn.Sequential(*layers)
    loss_of = nn.functional.cross_entropy
    return model, lambda n: (m.randn(n, 16), m.randint(0, 4, (n,))), lambda x, y: loss_of(model(x), y)


def _set(m: Any, other: Callable[[], int]) -> Part:
    """Attention among the elements of a set, and their distances; PyTorch's ``cdist`` has two ways, by the size."""
    model = m.nn.ModuleList([m.nn.Linear(32, 64), m.nn.Linear(64, 64), m.nn.Linear(64, 1)])

    def loss_of(x: Any, y: Any) -> Any:
        h = m.relu(model[0](x))
        h = m.softmax(model[1](h) @ h.T / 8, -1) @ h
        value = model[2](h.max(0).values)
        return ((value - y) ** 2).mean() + 0.01 * m.cdist(h, h).mean()

    return model, lambda n: (m.randn(n, 32), m.randn(())), loss_of


def _lstm(m: Any, other: Callable[[], int]) -> Part:
    """A recurrence over series."""
    model = m.nn.LSTM(32, 64, batch_first=True)
    loss_of = m.nn.functional.mse_loss
    return model, lambda n: (m.randn(8, n, 32), m.randn(8, n, 64)), lambda x, y: loss_of(model(x)[0], y)


def _packed(m: Any, other: Callable[[], int]) -> Part:
    """A recurrence over packed sequences, each of another length."""
    model, rnn = m.nn.LSTM(32, 64, batch_first=True), m.nn.utils.rnn
    loss_of = m.nn.functional.mse_loss

    def inputs(n: int) -> tuple[Any, ...]:
        lengths = [n, *[other() for _ in range(7)]]
        return m.randn(8, max(lengths), 32), m.tensor(lengths), m.randn(8, max(lengths), 64)

    def loss(x: Any, lengths: Any, y: Any) -> Any:
        out, _ = model(rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        return loss_of(rnn.pad_packed_sequence(out, batch_first=True)[0], y)

    return model, inputs, loss


def _images(m: Any, other: Callable[[], int]) -> Part:
    """Convolutions over images of other heights and widths."""
    nn = m.nn
    convolutions = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1)]
    model = nn.Sequential(*convolutions, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    loss_of = nn.functional.cross_entropy
    return model, lambda n: (m.randn(4, 3, n, other()), m.randint(0, 10, (4,))), lambda x, y: loss_of(model(x), y)


def _graph(m: Any, other: Callable[[], int]) -> Part:
    """Messages along the edges of a graph."""
    model = m.nn.ModuleList([m.nn.Linear(16, 32), m.nn.Linear(32, 32), m.nn.Linear(32, 4)])

    def loss_of(x: Any, ends: Any, labels: Any) -> Any:
        h = x
        for nr, layer in enumerate(model):
            h = layer(h)
            h = h + 0.25 * m.zeros_like(h).index_add(0, ends[1], h[ends[0]])
            h = h.relu() if nr < 2 else h
        return m.nn.functional.cross_entropy(h, labels)

    return model, lambda n: (m.randn(n, 16), m.randint(0, n, (2, 4 * n)), m.randint(0, 4, (n,))), loss_of


PROGRAMS: dict[str, Callable[[Any, Callable[[], int]], Part]] = {
    "block": _block, "mlp": _mlp, "set": _set, "lstm": _lstm, "packed": _packed, "images": _images,
    "graph": _graph,
}  # fmt: skip


def run(name: str, way: str, steps: int = STEPS) -> Times:
    """One program in one way, in this process."""
    m = importlib.import_module(way.split(",")[0])
    m.manual_seed(0)
    sizes = random.Random(1)

    def size() -> int:
        return sizes.randint(*LENGTHS[name])

    model, inputs_of, loss_of = PROGRAMS[name](m, size)
    optimizer = m.optim.Adam(model.parameters(), 1e-3)

    def step(*inputs: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*inputs)
        loss.backward()
        optimizer.step()
        return loss

    train = m.compile(step) if way.endswith("compiled") else step
    times, loss = [], math.nan
    for _ in range(steps):
        inputs = inputs_of(size())
        start = time.perf_counter()
        loss = float(train(*inputs).item())
        times.append(time.perf_counter() - start)
    late = times[min(LATE, steps // 2) :]
    return Times(1e3 * sum(times[:EARLY]), 1e3 * sum(late) / len(late), loss)


def measure(name: str, way: str) -> Times:
    """``run`` in a process of its own, whose kernels are in the disk cache: the second of two."""
    command = [sys.executable, "-m", "benchmarks.sizes", "--worker", name, way]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)]
    return Times(*json.loads(runs[-1]))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--only", default=",".join(PROGRAMS), help="programs, with commas between them")
    parser.add_argument("--worker", nargs=2, metavar=("PROGRAM", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        importlib.import_module(options.worker[1].split(",")[0]).set_num_threads(1)
        print(json.dumps(run(*options.worker)))
        return 0
    print(f"{'':10}{''.join([f'{way:>24}' for way in WAYS])}   torch / compiled")
    ratios = []
    for name in options.only.split(","):
        found = [measure(name, way) for way in WAYS]
        for times in found[1:]:
            if not math.isclose(times.loss, found[0].loss, rel_tol=2e-3):
                raise SystemExit(f"{name}: a loss of {times.loss} instead of {found[0].loss}")
        ratios.append((found[0].early / found[2].early, found[0].late / found[2].late))
        cells = "".join([f"{times.early:>14.0f} ms{times.late:>6.2f}" for times in found])
        print(f"{name:10}{cells}   {ratios[-1][0]:.2f} {ratios[-1][1]:.2f}", flush=True)
    means = [math.exp(sum([math.log(r[at]) for r in ratios]) / len(ratios)) for at in range(2)]
    print(f"geometric means of torch / compiled: {means[0]:.2f} for the first {EARLY} steps, {means[1]:.2f} later")
    return 0


if __name__ == "__main__":
    sys.exit(main())
