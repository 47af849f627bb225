"""Planning and linking a segment that is split into turns: those that are equal are planned and linked once.

Owns: ``PlannedTurns``, ``plan_turns``, ``link_turns``.
Must not know: how a turn is planned, which its caller passes in.
In: a segment. Out: ``abi.Program``. See Note [Equal turns].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitgrad.abi import EagerStep, Program
from jitgrad.codegen.link import Linker, lazy_text
from jitgrad.codegen.llvm.jit import compile_kernels
from jitgrad.codegen.piece import Piece, has_lowering
from jitgrad.codegen.turns.merge import Planned, merge
from jitgrad.codegen.turns.split import Turn, split
from jitgrad.events import bump, log
from jitgrad.symbols.number import without_tokens
from jitgrad.tracer.recording.graph import Segment
from jitgrad.tracer.recording.renumbered import Renumbered

__all__ = ["PlannedTurns", "link_turns", "plan_turns"]

_SHARE = 0.6
"""Of the instructions, how many may have to be planned, so that splitting pays."""


class PlannedTurns(NamedTuple):
    """A segment's turns and their plans.

    Attributes:
        turns: in order, as all below.
        numbered: their segments, renumbered.
        known: for each the first that is equal to it.
        pieces: of those, in order.
    """

    turns: list[Turn]
    numbered: list[Renumbered]
    known: list[Renumbered]
    pieces: dict[Renumbered, Piece]

    def parts(self) -> list[tuple[Segment, Piece]]:
        """Each turn with its plan, whose value ids may be another turn's."""
        return [(turn.segment, self.pieces[known]) for turn, known in zip(self.turns, self.known, strict=True)]


def plan_turns(segment: Segment, plan: Callable[[Segment], Sequence[Piece | EagerStep]]) -> PlannedTurns | None:
    """Split and plan a segment. None: no loop is found, too few turns are equal, or an operation runs eagerly."""
    turns = split(segment)
    if turns is None or not all([has_lowering(instr) for instr in segment.instrs]):
        return None
    numbered = [Renumbered(turn.segment) for turn in turns]
    first: dict[Any, Renumbered] = {}
    known = [first.setdefault(x.key, x) for x in numbered]
    if sum([len(x.segment.instrs) for x in first.values()]) > _SHARE * len(segment.instrs):
        return None
    pieces: dict[Renumbered, Piece] = {}
    for x in first.values():
        (pieces[x],) = [part for part in plan(x.segment) if isinstance(part, Piece)]  # nothing in it runs eagerly
    return PlannedTurns(turns, numbered, known, pieces)


def link_turns(segment: Segment, planned: PlannedTurns) -> Program:
    """Compile the kernels, and make one native step of all turns."""
    linkers = {x: Linker(piece, marks=True) for x, piece in planned.pieces.items()}
    codes = {code.name: code for code in compile_kernels([s for x in linkers.values() for s in x.sources.values()])}
    steps = {x: linker.step(codes) for x, linker in linkers.items()}
    rows = zip(planned.turns, planned.numbered, planned.known, strict=True)
    merged = merge(segment, [Planned(turn, numbered, known, steps[known]) for turn, numbered, known in rows])
    bump("equal_turns", len(planned.turns) - len(steps))
    log("pipeline", "%d parts of loops, %d of them planned", len(planned.turns), len(steps))
    nbytes = dict(merged.outputs)
    return Program(
        [merged],
        tuple([(vid, nbytes[vid]) for vid in segment.outputs]),
        tuple([launch.name for stage in merged.stages for launch in stage]),
        tuple([without_tokens(note) for linker in linkers.values() for note in linker.piece.notes]),
        lazy_text([*linkers.values()]),
    )
