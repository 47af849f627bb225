"""Linking a segment that was split into turns: those that are equal are planned and linked once.

Owns: ``link_turns``.
Must not know: how a turn is planned, which its caller passes in.
In: turns. Out: ``abi.Program``. See Note [Equal turns].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.abi import EagerStep, Program
from jitgrad.codegen.link import Linker, lazy_text
from jitgrad.codegen.llvm.jit import compile_kernels
from jitgrad.codegen.piece import Piece
from jitgrad.codegen.turns.merge import Planned, merge
from jitgrad.codegen.turns.split import Turn
from jitgrad.events import bump, log
from jitgrad.tracer.graph import Segment
from jitgrad.tracer.renumbered import Renumbered

__all__ = ["link_turns"]

_SHARE = 0.6
"""Of the instructions, how many may have to be planned, so that splitting pays."""


def link_turns(
    segment: Segment, turns: list[Turn], plan: Callable[[Segment], Sequence[Piece | EagerStep]]
) -> Program | None:
    """The program, or None: too few turns are equal, or one has operations without a lowering."""
    numbered = [Renumbered(turn.segment) for turn in turns]
    first: dict[Any, Renumbered] = {}
    known = [first.setdefault(x.key, x) for x in numbered]
    if sum([len(x.segment.instrs) for x in first.values()]) > _SHARE * len(segment.instrs):
        return None
    linkers = {}
    for x in first.values():
        parts = plan(x.segment)
        if len(parts) != 1 or isinstance(parts[0], EagerStep):
            return None
        linkers[x] = Linker(parts[0], marks=True)
    codes = {code.name: code for code in compile_kernels([s for x in linkers.values() for s in x.sources.values()])}
    steps = {x: linker.step(codes) for x, linker in linkers.items()}
    merged = merge(segment, [Planned(*row, steps[row[2]]) for row in zip(turns, numbered, known, strict=True)])
    for linker in linkers.values():
        linker.piece.untie()
    bump("equal_turns", len(turns) - len(first))
    log("pipeline", "%d parts of loops, %d of them planned", len(turns), len(first))
    return Program(
        [merged],
        _sizes(segment, merged.outputs),
        tuple([launch.name for stage in merged.stages for launch in stage]),
        tuple([note for linker in linkers.values() for note in linker.piece.notes]),
        lazy_text([*linkers.values()]),
    )


def _sizes(segment: Segment, made: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Value id and bytes of what the segment hands out, in its order."""
    nbytes = dict(made)
    return tuple([(vid, nbytes[vid]) for vid in segment.outputs])
