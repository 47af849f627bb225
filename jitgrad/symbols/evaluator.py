"""Expressions and guards as one Python function of the extents.

Owns: ``evaluator``.
Must not know: what the numbers are for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.symbols.number import Guard, SymNumber, is_tuple

__all__ = ["Evaluator", "evaluator", "symbols_in"]

Evaluator = Callable[..., "tuple[Any, ...] | None"]


def evaluator(guards: Sequence[Guard], count: int, wanted: Sequence[Any]) -> Evaluator:
    """A function of the first ``count`` extents: what ``wanted`` is for them; None where a guard's answer is another.

    Guards come in the order in which they were asked, and each number just before it is needed: what a guard rules
    out, such as a division by zero, is never computed.
    """
    writer = _Writer()
    for op, x, y, answer in guards:
        test = f"{writer.text(x)} {op} {writer.text(y)}"
        writer.lines.append(f"if {'not ' * answer}({test}): return None")
    result = ", ".join([writer.text(x) for x in wanted])
    body = "\n ".join([*writer.lines, f"return ({result}{',' if wanted else ''})"])
    names = ", ".join([f"s{n}" for n in range(count)])
    exec(f"def evaluate({names}):\n {body}", writer.names)
    found: Evaluator = writer.names["evaluate"]
    return found


def symbols_in(x: Any) -> int:
    """How many of an environment's symbols must be known to know ``x``, a number or a tuple of such."""
    if is_tuple(x):
        return max(map(symbols_in, x), default=0)
    return x.needs if type(x) is SymNumber else 0


class _Writer:
    """The function's lines; each number has a variable."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def text(self, x: Any) -> str:
        """The number, or tuple of numbers, as it is written, once those that it is computed of have their variables."""
        if is_tuple(x):
            items = f"({''.join([self.text(y) + ', ' for y in x])})"
            return items if type(x) is tuple else self._constant(type(x)) + items  # a NamedTuple stays one
        if type(x) is not SymNumber:
            return self._constant(x)
        waiting = [x]
        while waiting:
            number = waiting[-1]
            missing = [a for a in number.args if type(a) is SymNumber and a.place not in self._known]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if number.place not in self._known:
                self._known[number.place] = self._defined(number)
        return self._known[x.place]

    def _defined(self, x: SymNumber) -> str:
        if x.op == "symbol":
            return f"s{x.args[0]}"
        args = [self._known[a.place] if type(a) is SymNumber else self._constant(a) for a in x.args]
        name = f"v{x.place}"
        if x.op in ("product", "sum"):
            term = (" * " if x.op == "product" else " + ").join(args)
        elif x.op == "call":
            term = f"{args[0]}({', '.join(args[1:])})"
        else:
            term = f"{args[0]} {x.op} {args[1]}"
        self.lines.append(f"{name} = {term}")
        return name

    def _constant(self, x: Any) -> str:
        if type(x) is int:
            return f"({x})" if x < 0 else str(x)
        name = f"c{len(self.names)}"
        self.names[name] = x
        return name
