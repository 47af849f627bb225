"""What re-recording costs: microseconds per operation of a compiled step whose trace is already known.

``python -m benchmarks.recording``. The figure is a slope: the time of a call with many operations less the time of a
call with few, over the difference, on one-element tensors, so that running the kernels costs next to nothing. Then a
small step, piece by piece: what each statement adds to a call, and what is left of a call that records ten operations,
a backward and an in-place update when its twelve operations are taken off.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import jitgrad

__all__ = ["KINDS", "PIECES", "main", "microseconds_of_rest", "microseconds_per_op", "microseconds_per_piece"]

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


PIECES: dict[str, str] = {
    "jitgrad.no_grad()": "jitgrad.no_grad()",
    "with no_grad(): pass": "with jitgrad.no_grad(): pass",
    "(p * x).backward(); p.grad = None": "(p * x).backward(); p.grad = None",
    "p.grad": "q.grad",
    "y.sub_(x)": "y.sub_(x)",
    "y -= x": "y -= x",
    "x[0]": "m[0]",
    "x[0:2]": "m[0:2]",
    "x.view(2, 2)": "m.view(2, 2)",
    "x.sum()": "m.sum()",
    "x.sum(1, keepdim=True)": "m.sum(1, keepdim=True)",
    "x[rows]": "m[rows]",
    "torch.cat([x, y], 1)": "jitgrad.cat([m, m], 1)",
    "torch.einsum('ij,jk->ik', x, y)": "jitgrad.einsum('ij,jk->ik', m, m)",
    "F.scaled_dot_product_attention(q, k, v)": "F.scaled_dot_product_attention(n, n, n)",
    "torch.matmul(x, w)": "jitgrad.matmul(m, m)",
    "F.relu(x)": "F.relu(x)",
    "F.linear(x, w, b)": "F.linear(m, m, b)",
    "F.mse_loss(x, y)": "F.mse_loss(m, m)",
    "Linear(2, 2)(x)": "linear(m)",
    "optimizer.zero_grad()": "sgd.zero_grad()",
    "x.sum().item()": "m.sum().item()",
    "backward and SGD.step()": "(p * x).backward(); sgd.step(); p.grad = None",
}
"""Statements of a small step: what they are called -> the statement, over the names of ``_piece``."""


def _piece(statement: str, count: int) -> Callable[[], Any]:
    """A function that repeats a statement."""
    names: dict[str, Any] = {"jitgrad": jitgrad, "F": jitgrad.nn.functional, "linear": jitgrad.nn.Linear(2, 2)}
    names |= {"x": jitgrad.ones(1), "m": jitgrad.ones(2, 2), "n": jitgrad.ones(2, 2, 2), "b": jitgrad.ones(2)}
    names["rows"] = jitgrad.tensor([1, 0])
    names["p"], names["q"] = jitgrad.ones(1, requires_grad=True), jitgrad.ones(1, requires_grad=True)
    names["q"].grad = jitgrad.ones(1)
    names["sgd"] = jitgrad.optim.SGD([names["p"]], lr=0.1)
    lines = ["def repeat(y):", *[f"    {statement}"] * count]
    exec("\n".join(lines), names)
    y = jitgrad.ones(1)
    return lambda: names["repeat"](y)


def microseconds_per_piece(statement: str, seconds: float = 0.5) -> float:
    """What a statement adds to a compiled call."""

    def timed(count: int) -> float:
        step = jitgrad.compile(_piece(statement, count))
        for _ in range(4):
            step()
        return _lower_quartile(step, seconds / 2)

    return 1e6 * (timed(30) - timed(10)) / 20


def microseconds_of_rest(per_op: float, seconds: float = 0.5) -> tuple[float, float]:
    """(A call of ten operations, a backward and an in-place update; the same without its twelve operations)."""
    x, p = jitgrad.ones(1), jitgrad.ones(1, requires_grad=True)

    def step() -> None:
        y = p * x
        for _ in range(4):
            y = y * x
            y = y + x
        (y + p).backward()
        with jitgrad.no_grad():
            p.sub_(0.001 * p.grad)
        p.grad = None

    compiled = jitgrad.compile(step)
    for _ in range(4):
        compiled()
    whole = 1e6 * _lower_quartile(compiled, seconds)
    return whole, whole - 12 * per_op


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
    pieces = {name: microseconds_per_piece(text, arguments.seconds) for name, text in PIECES.items()}
    whole, rest = microseconds_of_rest(next(iter(found.values())), arguments.seconds)
    pieces["a call of ten operations, a backward, an update"] = whole
    pieces["the same without its operations"] = rest
    if arguments.json:
        print(json.dumps({"microseconds_per_op": found, "limit": LIMIT_US, "microseconds": pieces}, indent=1))
        return
    for kind, value in found.items():
        print(f"{value:6.3f} us  {kind}")
    print("a small step, piece by piece:")
    for piece, value in pieces.items():
        print(f"{value:6.3f} us  {piece}")


if __name__ == "__main__":
    main()
