"""Plans of segments that a function has planned before, under other value ids.

Owns: ``Renumbered``, ``KnownPlan``.
Must not know: how segments are planned or run, where plans are kept.
In: a segment, and the program of an equal one. Out: its own program.

# Note [Known plans]
# ~~~~~~~~~~~~~~~~~~
# A loop that reads a value in each turn ends a segment in each turn, and every one is a path of its own in the trie:
# its value ids are larger than those of the turn before. To plan all of them would cost a hundred microseconds an
# operation. So a function keeps the plans of its segments under keys in which value ids, and slots of run-time scalars,
# are replaced by their ranks among those of the segment. A segment with a known key gets the known program with its own
# ids: kernels, argument words and the arena's layout are the same, because launches name slots of a program and no ids.
# Ranks keep the order of the ids, so a plan never depends on which of two equal segments was planned first.
# Example: ``%7 = mul(%3, %6); %8 = sum(%7)`` is ``2 = mul(0, 1); 3 = sum(2)``, and so is the next turn's
# ``%11 = mul(%3, %8); %12 = sum(%11)``.
# A plan is known as long as some program has it, and to one function only: what one function does never depends on
# which others were called before. A segment whose plan is known does not wait, see Note [New graphs].

# Note [Turns]
# ~~~~~~~~~~~~
# A call that trains several times - a loop over batches, a meta-learner's inner loop - would be one segment of equal
# turns, and to plan it would cost as much as all its turns. At the end of each the weights are written to memory, so
# there is next to nothing to fuse across it. From ``writes.TURN_OPS`` operations on, a segment therefore ends at an
# optimizer's step whose tensors it has updated before: the segments that follow hold as many turns each, are equal up
# to their ids, and get the first one's plan. The one or two that differ come first, where gradients or moments are new.
# Example: 100 turns of 30 operations are 12 segments of nine turns; two or three are planned, not 3,000 operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.abi import EagerStep, NativeStep, Program
from jitgrad.structs import replaced
from jitgrad.tracer.graph import Const, RuntimeScalar, Segment

__all__ = ["KnownPlan", "Renumbered"]


class Renumbered:
    """A segment, and all that its plan depends on, apart from the ids themselves.

    Attributes:
        ids, slots: value ids and slots of run-time scalars, in order; the key has their positions here.
        key: equal for segments that one plan fits.
    """

    __slots__ = ("ids", "key", "segment", "slots")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        made = {vid for instr in segment.instrs for vid in instr.outputs}
        self.ids = sorted(made.union(segment.inputs))
        self.slots = sorted({x.slot for i in segment.instrs for x in i.inputs if type(x) is RuntimeScalar})
        self.key = self._key()

    def _key(self) -> Any:
        """Avals, operations and dtypes are equal to themselves only."""
        segment = self.segment
        rank = {vid: nr for nr, vid in enumerate(self.ids)}
        slot_rank = {slot: nr for nr, slot in enumerate(self.slots)}

        def operand(x: Any) -> Any:
            if type(x) is int:
                return rank[x]
            return (_exact(x.value),) if type(x) is Const else (slot_rank[x.slot], x.is_float)

        def ranks(vids: Iterable[int]) -> tuple[int, ...]:
            return tuple([rank[vid] for vid in vids])

        instrs = [
            (i.op, tuple([operand(x) for x in i.inputs]), _exact(i.params), ranks(i.outputs), i.avals, i.input_avals)
            for i in segment.instrs
        ]
        return (
            tuple(instrs),
            tuple([(rank[vid], aval) for vid, aval in segment.inputs.items()]),
            ranks(segment.outputs),
            tuple([(rank[vid], rank[owner]) for vid, owner in segment.writes]),
            tuple([(rank[vid], aval) for vid, aval in segment.layouts.items()]),
        )


def _exact(x: Any) -> Any:
    """Equal for what is equal and of one type only: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    kind = type(x)
    if kind is tuple:
        return tuple([_exact(y) for y in x])
    if kind is float:
        return kind, x.hex()
    return (kind, x) if kind is int or kind is bool else (kind, repr(x)) if kind is complex else x


class KnownPlan:
    """A program, and the segment that it was made for."""

    __slots__ = ("__weakref__", "_made_for", "_program")

    def __init__(self, program: Program, made_for: Renumbered) -> None:
        self._program, self._made_for = program, made_for

    def program_of(self, other: Renumbered) -> Program:
        """The program of a segment with the same key, in its own ids; it shares the launches."""
        own = self._made_for
        id_of = dict(zip(own.ids, other.ids, strict=True))
        slot_of = dict(zip(own.slots, other.slots, strict=True))
        instr_of = {id(old): new for old, new in zip(own.segment.instrs, other.segment.instrs, strict=True)}

        def step_of(step: NativeStep | EagerStep) -> NativeStep | EagerStep:
            if isinstance(step, EagerStep):
                return EagerStep(instr_of[id(step.instr)], step.reason)
            return replaced(
                step,
                inputs=tuple([id_of[vid] for vid in step.inputs]),
                outputs=tuple([(id_of[vid], nbytes) for vid, nbytes in step.outputs]),
                scalars=tuple([(slot_of[slot], is_float) for slot, is_float in step.scalars]),
            )

        known = self._program
        outputs = tuple([(id_of[vid], nbytes) for vid, nbytes in known.outputs])
        return replaced(known, steps=[step_of(step) for step in known.steps], outputs=outputs)
