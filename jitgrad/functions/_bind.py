"""Making public functions out of table entries.

Owns: ``unary`` and ``binary``, for functions that are one operation without arguments, and argument helpers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.ops.table import OPS

__all__ = ["binary", "ints", "operator", "unary"]


def _named(function: Callable[..., Any], name: str, text: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text} As ``torch.{name}``."
    return function


def unary(name: str, text: str, op_name: str | None = None) -> Callable[[Any], Any]:
    """The public function of a one-input operation; ``text`` is its docstring."""
    op = OPS[op_name or name]

    def function(input: Any) -> Any:
        return door.apply(op, input)

    return _named(function, name, text)


def binary(name: str, text: str, op_name: str | None = None) -> Callable[[Any, Any], Any]:
    """The public function of a two-input operation."""
    op = OPS[op_name or name]

    def function(input: Any, other: Any) -> Any:
        return door.apply(op, input, other)

    return _named(function, name, text)


def operator(function: Callable[[Any, Any], Any], is_reflected: bool = False) -> Callable[[Any, Any], Any]:
    """A binary function as an operator, which leaves to the other operand what it does not take."""

    def method(self: Any, other: Any) -> Any:
        try:
            return function(other, self) if is_reflected else function(self, other)
        except TypeError:
            return NotImplemented

    return method


def ints(args: tuple[Any, ...]) -> tuple[int, ...]:
    """``f(x, 2, 3)``, ``f(x, (2, 3))`` and ``f(x, [2, 3])`` mean the same."""
    if len(args) == 1 and not isinstance(args[0], int):
        return (int(args[0]),) if isinstance(args[0], np.integer) else tuple(args[0])
    return args
