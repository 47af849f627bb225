"""What was made with symbols for some extents, and serves others: of one kind of segments, or of Nodes.

Owns: ``ExtentNumbers``, what a kind is; ``Member``, ``FamilyMembers``, ``symbols_for``: which member serves, and when
another one is made.
Must not know: what is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.config import config
from jitgrad.events import bump
from jitgrad.symbols.advice import near
from jitgrad.symbols.evaluator import Evaluator, evaluator
from jitgrad.symbols.number import ShapeEnv, SymNumber

__all__ = ["MAX_PINNED", "TRACED_FROM", "ExtentNumbers", "FamilyMembers", "Member", "symbols_for"]

TRACED_FROM = 4
"""Sets of extents from which on a kind has members."""
MAX_PINNED = 3
"""Members for one set of extents that a kind may have before it is given up."""
_MAX_MEMBERS = 12
_MOST_LENT = 400
"""After so many times that extents were near to a member's own, another member is made."""


class ExtentNumbers:
    """Layouts as they are in the key of a kind: extents are replaced by the order in which different ones are met.

    Attributes:
        known: the different extents, of 2 or more, and their numbers, in order.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[int, int] = {}

    def number(self, n: int) -> int:
        """0, 1 and negative integers as they are; of an extent two more than its number."""
        return n if n < 2 else 2 + self.known.setdefault(n, len(self.known))

    def layout(self, aval: Any) -> tuple[Any, ...]:
        """Of an ``Aval``; a row-major one has no strides."""
        number = self.number
        if aval.is_canonical and not aval.offset:
            return (aval.dtype, *[number(n) for n in aval.shape])
        numbers = (*aval.shape, *aval.stride, aval.offset)
        flags = aval.is_canonical, aval.is_contiguous
        return (aval.dtype, flags, aval.device, *[number(n) for n in numbers])


def symbols_for(
    env: ShapeEnv, extents: Sequence[int], before: Sequence[int]
) -> tuple[dict[int, SymNumber], dict[int, int]]:
    """(Symbols for the extents that differ from those of ``before``, the numbers of the others and what they are)."""
    symbols, fixed = {}, {}
    for nr, (n, other) in enumerate(itertools.zip_longest(extents, before)):
        if n == other:
            fixed[nr] = n
        else:
            symbols[n] = env.symbol(n)
    return symbols, fixed


class Member:
    """What serves all extents that its guards let through.

    Attributes:
        made: it.
        is_pinned: these are one set.
    """

    __slots__ = ("_advice", "_evaluate", "_fixed", "_free", "_own", "is_pinned", "made")

    def __init__(
        self, made: Any, wanted: Sequence[Any], env: ShapeEnv, extents: Sequence[int], fixed: dict[int, int]
    ) -> None:
        """``wanted``: the numbers of ``made`` that extents decide; ``extents``, ``fixed``: of ``symbols_for``."""
        self.made, self.is_pinned = made, env.is_pinned()
        self._fixed = fixed
        self._free = [n for n in range(len(extents)) if n not in fixed]
        self._own = [symbol.value for symbol in env.symbols]
        self._evaluate: Evaluator = evaluator(env.guards, len(env.symbols), wanted)
        self._advice: Evaluator = evaluator(env.advice, len(env.symbols), ())

    def numbers_for(self, extents: Sequence[int], is_best: bool) -> tuple[Any, ...] | None:
        """The numbers; None where guards say no, or advice (``is_best``), or the extents are not near."""
        if any([extents[n] != value for n, value in self._fixed.items()]):
            return None
        free = [extents[n] for n in self._free]
        if self._advice(*free) is None if is_best else not near(free, self._own):
            return None
        return self._evaluate(*free)


class FamilyMembers:
    """The members of one kind; threads may ask at the same time."""

    __slots__ = ("_last", "_lent", "_members", "_pinned", "_seen")

    def __init__(self) -> None:
        self._members: list[Member] = []
        self._seen = self._pinned = self._lent = 0
        self._last: Sequence[int] = ()

    @property
    def is_given_up(self) -> bool:
        """Whether there will be no more members."""
        return self._pinned >= MAX_PINNED

    def give_up(self) -> None:
        """Let there be no more members."""
        self._pinned = MAX_PINNED

    def serving(self, extents: Sequence[int], derive: Callable[[Sequence[int]], Member | None]) -> Any:
        """(What a member has made, its numbers for these extents); None: no member serves.

        Args:
            extents: as many as the kind has.
            derive: makes a member for extents that differ from the given ones; None: there is none.
        """
        for nr, member in enumerate(self._members):
            found = member.numbers_for(extents, True)
            if found is not None:
                if nr:
                    self._put_first(member)
                bump("family_programs")
                return member.made, found
        lent = self._lent_to(extents)
        if lent is not None:
            bump("lent_programs")
            return lent
        before, self._last = self._last, extents
        if before == extents:
            return None
        self._seen += 1
        if self._seen < TRACED_FROM or len(self._members) >= _MAX_MEMBERS or self.is_given_up:
            return None
        derived = derive(before)
        if derived is None:
            self._pinned += 1
            return None
        bump("families")
        self._pinned += derived.is_pinned
        self._put_first(derived)
        found = derived.numbers_for(extents, True)
        return None if found is None else (derived.made, found)

    def _put_first(self, member: Member) -> None:
        """In another list: threads may go through this one, and at worst lose a member that two of them made."""
        self._members = [member, *[other for other in self._members if other is not member]]

    def _lent_to(self, extents: Sequence[int]) -> Any:
        """As ``serving``, for extents near to a member's own, Note [Advice]; None where they should have their own."""
        if not self._members or config.verify or config.same_bits:
            return None
        self._lent += 1
        if self._lent % _MOST_LENT == 0 and len(self._members) < _MAX_MEMBERS:
            return None
        for member in self._members:
            found = member.numbers_for(extents, False)
            if found is not None:
                return member.made, found
        return None
