"""Questions about extents whose answers decide about time alone.

Owns: ``advice``; ``within``, ``identical``, ``always_equal``; ``near``.
Must not know: what is planned.

# Note [Advice]
# ~~~~~~~~~~~~~
# Many questions are about time alone: which loop is vectorised, whether two kernels become one, into how many parts a
# sum is cut. Each has a threshold of its own, so a step of forty operations would need a program for each of twenty
# stretches of extents, and to plan one takes as long as a hundred steps. Whatever the answer is, the program is right:
# it takes longer, and the last bits of sums may be others. So the questions that functions under ``@advice`` ask are no
# guards but advice. For extents that all guards let through, but some advice does not, a known program serves as long
# as they are *near* to those that it was planned for (``near``); what is met often is planned for itself.
# What is asked under ``@advice`` must not be what makes a program right. ``within`` and ``identical`` are for questions
# where one answer is right in any case, and the other one is a guard: a row fits into a buffer, or needs none.
# ``always_equal`` does not see that two sizes are equal by chance, as 128 * n * n and 6144 * n are for 48: it looks
# whether they are for some other extents, too.
# ``JITGRAD_SAME_BITS=1`` and ``JITGRAD_VERIFY=1`` take advice as guards.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from jitgrad.symbols.number import SymNumber, current_env, is_certain, is_tuple, value_of

__all__ = ["advice", "always_equal", "identical", "near", "within"]

_STEPS = (48, 96, 240)
"""Multiples of many windows and blocks: what holds for every second extent holds for these, too."""

P = ParamSpec("P")
T = TypeVar("T")


def advice(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose answer decides about time alone: what it asks of extents is advice, Note [Advice]."""

    @functools.wraps(function)
    def advised(*args: P.args, **named: P.kwargs) -> T:
        env = current_env()
        if env is None:
            return function(*args, **named)
        made: T = env.asking(True, function, *args, **named)
        return made

    return advised


@advice
def _is_within(x: Any, most: Any) -> bool:
    return bool(x <= most)


@advice
def _is_identical(x: Any, y: Any) -> bool:
    return bool(x == y)


def within(x: Any, most: Any) -> bool:
    """``x <= most``, a guard where it is so; to go on as if it were not is right in any case, Note [Advice]."""
    return bool(x <= most) if type(x) is type(most) is int else _is_within(x, most) and bool(x <= most)


def identical(x: Any, y: Any) -> bool:
    """``x == y``, a guard where it is so; to go on as if it were not is right in any case, Note [Advice]."""
    return bool(x == y) if type(x) is type(y) is int else _is_identical(x, y) and bool(x == y)


def always_equal(x: Any, y: Any) -> bool:
    """Whether two sizes are equal for all extents; not to see that they are is right in any case, Note [Advice].

    Tuples of sizes are equal if these are.
    """
    env = current_env()
    if x is y or env is None:
        return x is y or bool(x == y)
    if is_tuple(x):
        return len(x) == len(y) and all(map(always_equal, x, y))
    if type(x) is not SymNumber and type(y) is not SymNumber:
        return bool(x == y)
    if value_of(x) != value_of(y) or is_certain("==", x, y):
        return _is_identical(x, y)
    with contextlib.suppress(ArithmeticError):
        if all([_value_at(x, step) == _value_at(y, step) for step in _STEPS]):
            return bool(x == y)
    env.differ(x, y)
    return False


def _value_at(x: Any, step: int) -> Any:
    """What a number would be for larger extents, the first by ``step``, the second by twice as much, and so on."""
    if type(x) is not SymNumber:
        return x
    known: dict[int, Any] = {}
    waiting = [x]
    while waiting:
        number = waiting[-1]
        missing = [a for a in number.args if type(a) is SymNumber and a.place not in known]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        args = [known[a.place] if type(a) is SymNumber else a for a in number.args]
        known[number.place] = number.value + step * (args[0] + 1) if number.op == "symbol" else number.computed(args)
    return known[x.place]


_NEAR = 8
"""Thresholds that lie so far apart are too many, and what is best for one extent is good for another."""


def near(extents: Sequence[int], others: Sequence[int]) -> bool:
    """Whether extents are about as large as others, so that advice for these is good for them, Note [Advice]."""
    return all([n <= _NEAR * m and m <= _NEAR * n for n, m in zip(extents, others, strict=False)])
