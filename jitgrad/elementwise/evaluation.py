"""What an operation of ``ops/elementwise`` computes: components of functions of scalars.

Owns: ``Evaluation``, ``Family``: derivatives by hand take the place of the compiler's.
Must not know: Tensor, Numba.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jitgrad.codegen.scalars import array_loop
from jitgrad.codegen.scalars.family import Component, ScalarFunction

__all__ = ["Evaluation", "Family"]

Call = tuple[ScalarFunction, Component]


class Family:
    """A function of scalars as the user sees it.

    Attributes:
        title: its name, for messages.
        names: of its parameters.
        kinds: "float", "int" or "bool" per parameter.
        function: its code.
        by_hand: code of its derivatives that the user gave: for each result one derivative per floating parameter.
    """

    def __init__(self, title: str, names: Sequence[str], kinds: Sequence[str], function: ScalarFunction) -> None:
        self.title, self.names, self.kinds, self.function = title, tuple(names), tuple(kinds), function
        self.by_hand: ScalarFunction | None = None
        self._programs: dict[tuple[Call, ...], Evaluation] = {}

    def value(self) -> Evaluation:
        """All results."""
        return self.program(tuple((self.function, (n, ())) for n in range(self.function.results)))

    def program(self, calls: tuple[Call, ...]) -> Evaluation:
        """One object per list of calls: a trie's keys compare it by identity."""
        found = self._programs.get(calls)
        return found if found is not None else self._programs.setdefault(calls, Evaluation(self, calls))

    def slope(self, called: Call, i: int) -> Call:
        """The derivative of a component by input ``i``."""
        function, (result, inputs) = called
        if self.by_hand is not None and function is self.function:
            floats = [n for n, kind in enumerate(self.kinds) if kind == "float"]
            return self.by_hand, (result * len(floats) + floats.index(i), ())
        return function, (result, tuple(sorted((*inputs, i))))


class Evaluation:
    """Components of the functions of a family, in one evaluation per function. Compared by identity.

    Attributes:
        calls: (function, component) per output.
        count: of outputs.
        title, names, kinds: the family's.
    """

    def __init__(self, family: Family, calls: tuple[Call, ...]) -> None:
        self.family, self.calls, self.count = family, calls, len(calls)
        self.title, self.names, self.kinds = family.title, family.names, family.kinds

    def __repr__(self) -> str:
        parts = ", ".join(f"{function.name}{component}" for function, component in self.calls)
        return f"Evaluation({parts})"

    @functools.lru_cache(maxsize=1024)  # noqa: B019  (programs live as long as their function)
    def derivatives(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Evaluation:
        """The derivatives of all ``outputs`` by the first of ``inputs``, then by the second, and so on."""
        return self.family.program(tuple(self.family.slope(self.calls[k], i) for i in inputs for k in outputs))

    def evaluate(self, arrays: Sequence[Any]) -> list[Any]:
        """Each output for each element, as float64 arrays; ``arrays`` are as ``array_loop.run`` takes them."""
        outs: dict[Call, Any] = {}
        for function in dict.fromkeys(function for function, _ in self.calls):
            components = tuple(sorted({c for f, c in self.calls if f is function}))
            found = array_loop.run(function, components, arrays)
            outs.update(zip([(function, c) for c in components], found, strict=True))
        return [outs[called] for called in self.calls]
