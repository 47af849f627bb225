"""Loops of formulas: how often they turn depends on the element.

Owns: ``Iteration``.
Must not know: kernels, any formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Iteration"]


class Iteration(NamedTuple):
    """A loop over the numbers of one element, written once for kernels and for NumPy.

    A kernel makes a function of scalars of it (Note [Scalar functions]): lanes that are done wait for the others.
    Each function gets the arguments and the state as tuples of expressions, and k, which counts the turns from 0.

    Attributes:
        name: for logs.
        start: ``start(arguments)`` is the state before the first turn; numbers may stand for expressions.
        goes_on: ``goes_on(k, arguments, state)`` says whether there is another turn.
        step: ``step(k, arguments, state)`` is the state after it.
        most: there are no more turns than so many.
    """

    name: str
    start: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    goes_on: Callable[[Any, tuple[Any, ...], tuple[Any, ...]], Any]
    step: Callable[[Any, tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]
    most: int
