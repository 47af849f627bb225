"""The native steps of equal turns as one native step.

Owns: ``merge``.
Must not know: how a turn was planned.
In: turns, each with the step of one that is equal to it. Out: a ``NativeStep``. See Note [Equal turns].
"""

from __future__ import annotations

from typing import NamedTuple

from jitgrad.abi import Launch, NativeStep
from jitgrad.codegen.schedule.memory import Lifetime, plan_arena
from jitgrad.codegen.turns.split import Turn
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.tracer.recording.graph import Segment
from jitgrad.tracer.recording.renumbered import Renumbered

__all__ = ["Planned", "ScalarWord", "SlotWord", "merge"]


class SlotWord(int):
    """An argument word that numbers a slot of memory; the next word is an offset in bytes."""

    __slots__ = ()


class ScalarWord(int):
    """An argument word that numbers a slot with a number."""

    __slots__ = ()


class Planned(NamedTuple):
    """A turn and its plan.

    Attributes:
        turn: the turn.
        numbered: its segment, renumbered.
        known: the first turn that is equal to it.
        step: of that one; its argument words are marked (``Linker.marks``). None: it launches nothing.
    """

    turn: Turn
    numbered: Renumbered
    known: Renumbered
    step: NativeStep | None


class _Spot(NamedTuple):
    """Where a value is: slot, and bytes from its beginning."""

    slot: int
    offset: int


def merge(segment: Segment, turns: list[Planned]) -> NativeStep:
    """All launches, turn by turn, over the memory of one step."""
    return _Merger(segment, turns).step()


class _Merger:
    """The whole in the making.

    Attributes:
        ids: of each turn: value id in the equal turn that was planned -> its own.
        scalars: (run-time scalar slot, is_float).
        inputs, outputs: of the step; outputs with their bytes.
        read, made: value id -> where it is: inputs; outputs and what crosses.
        scratch: of each turn, where its own memory begins in the arena.
    """

    def __init__(self, segment: Segment, turns: list[Planned]) -> None:
        self.segment, self.turns = segment, turns
        self.ids = [dict(zip(t.known.ids, t.numbered.ids, strict=True)) for t in turns]
        self.scalars = self._scalars()
        self.outputs = self._outputs()
        self.inputs = self._inputs()
        self.arena_slot = 1 + len(self.inputs) + len(self.outputs)
        self.scratch: list[int] = []
        self.read = {vid: _Spot(nr, 0) for nr, vid in enumerate(self.inputs, 1)}
        self.made = {vid: _Spot(nr, 0) for nr, vid in enumerate(self.outputs, 1 + len(self.inputs))}
        self.arena_nbytes = self._place_arena()

    def step(self) -> NativeStep:
        """The step of the whole."""
        marked: dict[int, list[list[_Marked]]] = {}
        stages: list[tuple[Launch, ...]] = []
        keep_alive: dict[int, object] = {}
        for nr, step in self._each_step():
            if id(step) not in marked:
                marked[id(step)] = [[_marked(launch.args) for launch in stage] for stage in step.stages]
                keep_alive[id(step)] = step.keep_alive
            slots = self._slots(nr, step)
            for stage, words in zip(step.stages, marked[id(step)], strict=True):
                stages.append(tuple([_moved(x, places, slots) for x, places in zip(stage, words, strict=True)]))
        outputs = tuple(self.outputs.items())
        return NativeStep(
            self.inputs, outputs, self.arena_nbytes, self.scalars, tuple(stages), [*keep_alive.values()]
        )

    # --- slots ---

    def _each_step(self) -> list[tuple[int, NativeStep]]:
        """The turns that launch something, by number."""
        return [(nr, planned.step) for nr, planned in enumerate(self.turns) if planned.step is not None]

    def _scalars(self) -> tuple[tuple[int, bool], ...]:
        found: dict[tuple[int, bool], None] = {}
        for nr, step in self._each_step():
            slot_of = self._slot_of(nr)
            found.update(dict.fromkeys([(slot_of[slot], is_float) for slot, is_float in step.scalars]))
        return tuple(found)

    def _slot_of(self, nr: int) -> dict[int, int]:
        planned = self.turns[nr]
        return dict(zip(planned.known.slots, planned.numbered.slots, strict=True))

    def _outputs(self) -> dict[int, int]:
        """What the segment hands out: value id -> bytes."""
        wanted = set(self.segment.outputs)
        found: dict[int, int] = {}
        for nr, step in self._each_step():
            found.update((self.ids[nr][vid], nbytes) for vid, nbytes in step.outputs if self.ids[nr][vid] in wanted)
        return found

    def _inputs(self) -> tuple[int, ...]:
        """What the launches touch of the segment's inputs. Of one that is handed out, a copy is made: it is both."""
        found: dict[int, None] = {}
        for nr, step in self._each_step():
            roots = [self._root(nr, vid)[0] for vid in step.inputs]
            found.update(dict.fromkeys([vid for vid in roots if vid in self.segment.inputs]))
        return tuple(found)

    def _root(self, nr: int, known_vid: int) -> tuple[int, int]:
        """(what an input of a turn is, or is a view of; where it starts there)."""
        vid = self.ids[nr][known_vid]
        return self.turns[nr].turn.places.get(vid, (vid, 0))

    def _place_arena(self) -> int:
        """Memory for what crosses, from the turn that makes it to the last that reads it, and for each turn's own."""
        crossing: dict[int, Lifetime] = {}
        own: list[Lifetime] = []
        for nr, planned in enumerate(self.turns):
            step = planned.step
            own.append(Lifetime(step.arena_nbytes if step else 0, nr, nr))
            if step is None:
                continue
            for known_vid in step.inputs:
                root = self._root(nr, known_vid)[0]
                if root in crossing:
                    crossing[root].last = nr
            made = [(self.ids[nr][known_vid], nbytes) for known_vid, nbytes in step.outputs]
            crossing.update((vid, Lifetime(nbytes, nr, nr)) for vid, nbytes in made if vid not in self.outputs)
        size = plan_arena([*crossing.values(), *own])
        self.made.update((vid, _Spot(self.arena_slot, x.offset)) for vid, x in crossing.items())
        self.scratch = [x.offset for x in own]
        if config.verify:
            _verify_apart([*crossing.values(), *own], size)
        return size

    def _slots(self, nr: int, step: NativeStep) -> list[_Spot]:
        """What each slot of a turn's step is in the whole."""
        found = [_Spot(0, 0)]
        for known_vid in step.inputs:
            root, start = self._root(nr, known_vid)
            place = self.read.get(root) or self.made.get(root)
            if place is None:
                raise CompileError(f"planning failed: a turn reads %{root}, which no turn makes")
            found.append(_Spot(place.slot, place.offset + start))
        found += [self.made[self.ids[nr][vid]] for vid, _ in step.outputs]
        found.append(_Spot(self.arena_slot, self.scratch[nr]))
        slot_of = self._slot_of(nr)
        first = self.arena_slot + 1
        found += [_Spot(first + self.scalars.index((slot_of[slot], is_float)), 0) for slot, is_float in step.scalars]
        return found


_Marked = list[tuple[int, bool]]
"""The argument words of a launch that number slots: (position, whether an offset follows)."""


def _marked(args: tuple[int, ...]) -> _Marked:
    return [(at, type(word) is SlotWord) for at, word in enumerate(args) if type(word) in (SlotWord, ScalarWord)]


def _moved(launch: Launch, marked: _Marked, slots: list[_Spot]) -> Launch:
    args = [*launch.args]
    for at, has_offset in marked:
        slot, offset = slots[args[at]]
        args[at] = slot
        if has_offset:
            args[at + 1] += offset
    return Launch(launch.kernel, tuple(args), launch.units, launch.grain, launch.cost, launch.name)


def _verify_apart(lifetimes: list[Lifetime], size: int) -> None:
    """What is alive in one turn does not overlap, Note [Verification]."""
    for turn in range(max([x.last for x in lifetimes]) + 1):
        end = 0
        for x in sorted([x for x in lifetimes if x.first <= turn <= x.last and x.nbytes], key=lambda x: x.offset):
            if x.offset < end or x.offset + x.nbytes > size:
                raise CompileError(f"after pass merge: memory of turn {turn} overlaps at {x.offset}")
            end = x.offset + x.nbytes
