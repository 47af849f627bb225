"""The eager engine on long chains: microseconds per node of forward and of backward, against torch.

``python -m benchmarks.backward``. Both libraries run in this process, in turns, on one-element tensors and one thread.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import time
from typing import Any

import jitgrad

__all__ = ["main", "measure"]


def _chain(x: Any, length: int) -> Any:
    y = x
    for _ in range(length // 2):
        y = y * 1.0001
        y = y.sin()
    return y.sum()


def _once(xp: Any, length: int) -> tuple[float, float]:
    """Seconds of the forward and of the backward."""
    x = xp.ones(1, requires_grad=True)
    start = time.perf_counter()
    loss = _chain(x, length)
    middle = time.perf_counter()
    loss.backward()
    return middle - start, time.perf_counter() - middle


def measure(libraries: dict[str, Any], length: int, rounds: int) -> dict[str, dict[str, float]]:
    """Lower quartiles per node, the libraries taking turns."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in libraries}
    for _ in range(rounds):
        for name, xp in libraries.items():
            samples[name].append(_once(xp, length))
    found = {}
    for name, pairs in samples.items():
        forward, backward = (sorted(column)[len(column) // 4] for column in zip(*pairs, strict=True))
        found[name] = {"forward_us": 1e6 * forward / length, "backward_us": 1e6 * backward / length}
    return found


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=2000, help="nodes of the chain (default: 2000)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    libraries: dict[str, Any] = {"jitgrad": jitgrad}
    if importlib.util.find_spec("torch") is not None:
        libraries["torch"] = importlib.import_module("torch")
        libraries["torch"].set_num_threads(1)
    found = measure(libraries, arguments.length, arguments.rounds)
    if arguments.json:
        print(json.dumps({"length": arguments.length, "per_node": found}, indent=1))
        return
    for name, row in found.items():
        print(f"{name:>8}: forward {row['forward_us']:.3f} us, backward {row['backward_us']:.3f} us per node")


if __name__ == "__main__":
    main()
