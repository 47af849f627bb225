"""The eager engine on long chains: microseconds per node of forward and of backward, against torch.

``python -m benchmarks.backward``. Both libraries run in this process, in turns, on one-element tensors and one thread.
Besides a chain of several operations, one of each: what the engine itself costs shows where the rule computes nothing
(``add``). The last line is one backward of a very long chain, in seconds.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import time
from collections.abc import Callable
from typing import Any

import jitgrad

__all__ = ["CHAINS", "main", "measure"]


def _mixed(x: Any) -> Any:
    return (x * 1.0001).sin()


CHAINS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "mul-sin": (_mixed, 2),
    "add": (lambda x: x + 1.0, 1),
    "mul": (lambda x: x * 1.0001, 1),
    "exp": (lambda x: x.exp(), 1),
    "add-self": (lambda x: x + x, 1),
}
"""What one step of a chain does, and of how many nodes it is made."""

LONG = 100_000
"""Nodes of the long chain."""


def _once(xp: Any, chain: str, length: int) -> tuple[float, float]:
    """Seconds of the forward and of the backward."""
    step, num_nodes = CHAINS[chain]
    x = xp.ones(1, requires_grad=True)
    start = time.perf_counter()
    y = x
    for _ in range(length // num_nodes):
        y = step(y)
    loss = y.sum()
    middle = time.perf_counter()
    loss.backward()
    return middle - start, time.perf_counter() - middle


def measure(
    libraries: dict[str, Any], length: int, rounds: int, chain: str = "mul-sin"
) -> dict[str, dict[str, float]]:
    """Lower quartiles per node, the libraries taking turns."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in libraries}
    for _ in range(rounds):
        for name, xp in libraries.items():
            samples[name].append(_once(xp, chain, length))
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
    found = {chain: measure(libraries, arguments.length, arguments.rounds, chain) for chain in CHAINS}
    long = {name: _once(xp, "add", LONG)[1] for name, xp in libraries.items()}
    if arguments.json:
        print(json.dumps({"length": arguments.length, "per_node": found, f"backward_{LONG}_s": long}, indent=1))
        return
    for chain, rows in found.items():
        for name, row in rows.items():
            forward, backward = row["forward_us"], row["backward_us"]
            print(f"{chain:>9} {name:>8}: forward {forward:.3f} us, backward {backward:.3f} us per node")
    print(f"backward of {LONG:,} nodes: " + ", ".join(f"{name} {seconds:.3f} s" for name, seconds in long.items()))


if __name__ == "__main__":
    main()
