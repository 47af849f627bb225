"""Operations that differ from turn to turn, put off until their loop has ended.

Owns: ``postpone``.
Must not know: how turns are made of a segment.
In: instructions and the loops in them. Out: the same instructions in another order.

The gradient of ``x[t]`` is zeros with something at ``t``, and the sum of these grows in each turn; ``out[t] = h``
leaves another value of ``out`` behind. Nothing else in the turns reads them. So they move to the end of the loop, in
their order, and the turns are equal; there the planner makes one ``cat`` of them (Note [Updates]).
"""

from __future__ import annotations

from typing import NamedTuple

from jitgrad.codegen.turns.find import TurnLoop
from jitgrad.tracer.recording.graph import Instr

__all__ = ["Postponed", "postpone"]

_SHARE = 0.5
"""Of a loop's instructions, how many may be put off."""


class Postponed(NamedTuple):
    """Instructions in their new order, and where in it those are that were put off, as (start, stop)."""

    instrs: list[Instr]
    late: list[tuple[int, int]]


def postpone(instrs: list[Instr], loops: list[TurnLoop]) -> Postponed:
    """Put off what has other params in each turn, and what depends on it.

    A view of an earlier value is none of these: it is the same input in each turn, at another place.
    """
    ordered: list[Instr] = []
    late: list[tuple[int, int]] = []
    done = 0
    for loop in loops:
        ordered += instrs[done : loop.start]
        done = loop.stop
        inside = instrs[loop.start : loop.stop]
        waiting = _dependents(inside, _odd_phases(inside, loop.period), loop.period)
        if not waiting or len(waiting) > _SHARE * len(inside):
            ordered += inside
            continue
        ordered += [instr for nr, instr in enumerate(inside) if nr not in waiting]
        late.append((len(ordered), len(ordered) + len(waiting)))
        ordered += [inside[nr] for nr in sorted(waiting)]
    return Postponed(ordered + instrs[done:], late)


def _odd_phases(inside: list[Instr], period: int) -> set[int]:
    """The places in a turn where the params are not the same in all turns."""
    return {
        nr % period
        for nr in range(period, len(inside))
        if inside[nr].params != inside[nr - period].params and not inside[nr].op.is_view
    }


def _dependents(inside: list[Instr], phases: set[int], period: int) -> set[int]:
    """Numbers of the instructions at these places, and of all that read what they make."""
    found: set[int] = set()
    made: set[int] = set()
    if not phases:
        return found
    for nr, instr in enumerate(inside):
        if nr % period in phases or not made.isdisjoint([x for x in instr.inputs if type(x) is int]):
            found.add(nr)
            made.update(instr.outputs)
    return found
