"""What re-recording costs: microseconds per operation of a compiled step whose trace is already known.

``python -m benchmarks.recording``. The figure is a slope: the time of a call with many operations less the time of a
call with few, over the difference, on one-element tensors, so that running the kernels costs next to nothing. Then what
recording a long step for the first time costs: the first call over the eager step, on 10,000 elements.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import jitgrad

__all__ = ["KINDS", "main", "microseconds_per_op"]

Body = Callable[[Any, Any, int], Any]

_FEW, _MANY = 50, 450
LIMIT_US = 0.6
"""The project's own bound for an operation on a trace hit."""


def _operators(x: Any, y: Any, count: int) -> Any:
    for _ in range(count // 2):
        x = x * y
        x = x + y
    return x


def _scalars(x: Any, y: Any, count: int) -> Any:
    for _ in range(count // 2):
        x = x * 1.01
        x = x - 0.5
    return x


def _functions(x: Any, y: Any, count: int) -> Any:
    for _ in range(count // 2):
        x = jitgrad.tanh(x)
        x = jitgrad.sin(x)
    return x


def _views(x: Any, y: Any, count: int) -> Any:
    for _ in range(count // 2):
        x = x.unsqueeze(0)
        x = x.squeeze(0)
    return x


KINDS: dict[str, Body] = {
    "operators on tensors (x * y + y)": _operators,
    "operators on numbers (x * 1.01 - 0.5)": _scalars,
    "functions (tanh, sin)": _functions,
    "views (unsqueeze, squeeze)": _views,
}


def _lower_quartile(call: Callable[[], Any], seconds: float) -> float:
    samples = []
    end = time.perf_counter() + seconds
    while len(samples) < 20 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return sorted(samples)[len(samples) // 4]


def microseconds_per_op(body: Body, seconds: float = 0.5, requires_grad: bool = False) -> float:
    """The slope for one kind of operation."""
    x = jitgrad.ones(1, requires_grad=requires_grad)
    y = jitgrad.ones(1)

    def timed(count: int) -> float:
        step = jitgrad.compile(lambda: body(x, y, count))
        for _ in range(3):
            step()
        return _lower_quartile(step, seconds / 2)

    return 1e6 * (timed(_MANY) - timed(_FEW)) / (_MANY - _FEW)


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="per kind (default: 1)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = {
        f"{kind}{', requires grad' if grad else ''}": microseconds_per_op(body, arguments.seconds, grad)
        for kind, body in KINDS.items()
        for grad in (False, True)
    }
    if arguments.json:
        print(json.dumps({"microseconds_per_op": found, "limit": LIMIT_US}, indent=1))
        return
    for kind, value in found.items():
        print(f"{value:6.3f} us  {kind}")


if __name__ == "__main__":
    main()
