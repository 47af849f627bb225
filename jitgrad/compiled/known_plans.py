"""Plans of segments that a function has planned before, under other value ids.

Owns: ``KnownPlan``.
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
# Example: 100 turns of 30 operations are 34 segments of three turns; two or three are planned, not 3,000 operations.
"""

from __future__ import annotations

from jitgrad.abi import EagerStep, NativeStep, Program
from jitgrad.structs import replaced
from jitgrad.tracer.recording.renumbered import Renumbered

__all__ = ["KnownPlan"]


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
