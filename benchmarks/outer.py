"""A compiled model in a plain Python step: what ``backward()`` and ``optimizer.step()`` cost outside.

``python -m benchmarks.outer``. Each model is trained in five ways, which take turns within one process, so that the
figures are ratios of one run: the whole step compiled; the model and its loss compiled; the model alone; nothing; and
PyTorch without a compiler. Microseconds per step: medians of blocks, processor time of all threads (``--wall``: wall
time).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import jitgrad

__all__ = ["MODELS", "WAYS", "main", "measure"]

Step = Callable[[], Any]

WAYS = ("whole step", "model and loss", "model", "eager", "torch eager")


def _mlp(xp: Any) -> tuple[Any, Any, Any]:
    """(model, inputs, labels): three linear layers, batch 32."""
    nn = xp.nn
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    return model, *_classes(xp, (32, 16), 4)


def _lenet(xp: Any) -> tuple[Any, Any, Any]:
    """As ``rows/lenet.py``, batch 32."""
    nn = xp.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    return model, *_classes(xp, (32, 1, 28, 28), 10)


def _transformer(xp: Any) -> tuple[Any, Any, Any]:
    """As ``rows/transformer.py``: two pre-norm layers of width 64 with 4 heads, 64 tokens, batch 8."""
    nn, functional = xp.nn, xp.nn.functional
    batch, length, width, heads, words = 8, 64, 64, 4, 64

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.project = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            query, key, value = (self._heads(part) for part in self.qkv(self.norm1(x)).split(width, -1))
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

        def _heads(self, x: Any) -> Any:
            return x.reshape(batch, length, heads, width // heads).transpose(1, 2)

    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.token, self.blocks = nn.Embedding(words, width), nn.Sequential(Block(), Block())
            self.position = nn.Parameter(xp.zeros(length, width))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.norm(self.blocks(self.token(tokens) + self.position))).reshape(-1, words)

    rng = np.random.default_rng(0)
    tokens = rng.integers(0, words, (batch, length + 1))
    return Model(), xp.from_numpy(tokens[:, :-1].copy()), xp.from_numpy(tokens[:, 1:].copy().reshape(-1))


def _classes(xp: Any, shape: tuple[int, ...], classes: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal(shape).astype(np.float32)
    return xp.from_numpy(inputs), xp.from_numpy(rng.integers(0, classes, shape[0]))


MODELS: dict[str, Callable[[Any], tuple[Any, Any, Any]]] = {"mlp": _mlp, "lenet": _lenet, "transformer": _transformer}


def make_step(name: str, way: str) -> Step:
    """A training step of a model, by Adam."""
    xp: Any = torch if way == "torch eager" else jitgrad
    xp.manual_seed(0)
    model, inputs, labels = MODELS[name](xp)
    optimizer = xp.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    cross_entropy = xp.nn.functional.cross_entropy
    forward = jitgrad.compile(model) if way == "model" else model

    def loss_of() -> Any:
        return cross_entropy(forward(inputs), labels)

    if way == "model and loss":
        loss_of = jitgrad.compile(loss_of)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return jitgrad.compile(step) if way == "whole step" else step


def measure(name: str, blocks: int, block_s: float, clock: Callable[[], float]) -> dict[str, float]:
    """Microseconds per step of each way: the median of ``blocks`` blocks of about ``block_s`` seconds each."""
    steps = {way: make_step(name, way) for way in WAYS}
    counts = {}
    for way, step in steps.items():
        for _ in range(20):
            step()
        start = time.perf_counter()
        for _ in range(5):
            step()
        counts[way] = max(3, int(5 * block_s / (time.perf_counter() - start)))
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(blocks):
        for way, step in steps.items():
            start = clock()
            for _ in range(counts[way]):
                step()
            found[way].append((clock() - start) / counts[way] * 1e6)
    return {way: statistics.median(times) for way, times in found.items()}


def main() -> None:
    """Print a table, and JSON with ``--json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.05, help="per block")
    parser.add_argument("--wall", action="store_true", help="wall time instead of processor time")
    parser.add_argument("--threads", type=int, default=1, help="of either library")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    jitgrad.set_num_threads(args.threads)
    clock = time.perf_counter if args.wall else time.process_time
    table = {name: measure(name, args.blocks, args.seconds, clock) for name in args.only}
    if args.json:
        print(json.dumps(table))
        return
    print(f"{'':12}" + "".join(f"{way:>16}" for way in WAYS) + f"{'model / torch':>16}{'model / whole':>16}")
    for name, row in table.items():
        ratios = (row["model"] / row["torch eager"], row["model"] / row["whole step"])
        print(f"{name:12}" + "".join(f"{row[way]:14.0f}us" for way in WAYS) + "".join(f"{r:16.2f}" for r in ratios))


if __name__ == "__main__":
    main()
