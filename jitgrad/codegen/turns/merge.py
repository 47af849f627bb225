"""The native steps of equal turns as one native step.

Owns: ``merge``.
Must not know: how a turn was planned.
In: turns, each with the step of one that is equal to it. Out: a ``NativeStep``. See Note [Equal turns].
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jitgrad.abi import Launch, NativeStep
from jitgrad.codegen.link import ScalarSlot, Slot
from jitgrad.codegen.schedule.memory import Lifetime, plan_arena
from jitgrad.codegen.turns.split import Turn
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.tracer.graph import Segment
from jitgrad.tracer.renumbered import Renumbered

__all__ = ["Planned", "merge"]


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


class _Place(NamedTuple):
    """Where a value is: slot, and bytes from its beginning."""

    slot: int
    offset: int


def merge(segment: Segment, turns: list[Planned]) -> NativeStep:
    """All launches, turn by turn, over the memory of one step."""
    return _Merger(segment, turns).step()


class _Merger:
    def __init__(self, segment: Segment, turns: list[Planned]) -> None:
        self.segment, self.turns = segment, turns
        self.ids = [dict(zip(t.known.ids, t.numbered.ids, strict=True)) for t in turns]
        self.scalars = self._scalars()
        self.outputs = self._outputs()
        self.inputs = self._inputs()
        self.arena_slot = 1 + len(self.inputs) + len(self.outputs)
        self.scratch: list[int] = []
        self.places: dict[int, _Place] = {vid: _Place(nr, 0) for nr, vid in enumerate((*self.inputs, *self.outputs), 1)}
        self.arena_nbytes = self._place_arena()

    def step(self) -> NativeStep:
        first = self.arena_slot + 1
        scalar_slots = {slot: first + nr for nr, (slot, _) in enumerate(self.scalars)}
        words: dict[int, list[list[list[tuple[int, bool]]]]] = {}
        stages: list[tuple[Launch, ...]] = []
        keep_alive: dict[int, object] = {}
        for nr, planned in enumerate(self.turns):
            step = planned.step
            if step is None:
                continue
            keep_alive[id(step)] = step.keep_alive
            marked = words.get(id(step))
            if marked is None:
                marked = words[id(step)] = [[_marked(x.args) for x in stage] for stage in step.stages]
            slots = self._slots(nr, step, scalar_slots)
            stages += [
                tuple([_moved(x, where, slots) for x, where in zip(stage, places, strict=True)])
                for stage, places in zip(step.stages, marked, strict=True)
            ]
        return NativeStep(
            self.inputs, self.outputs_with_sizes(), self.arena_nbytes, self.scalars, tuple(stages), [*keep_alive.values()]
        )

    def outputs_with_sizes(self) -> tuple[tuple[int, int], ...]:
        return tuple(self.outputs.items())

    # --- slots ---

    def _each_step(self) -> Iterable[tuple[int, NativeStep]]:
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
        """What the launches touch of the segment's inputs. An input that is handed out as it is, is an output, too."""
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
            for known_vid, nbytes in step.outputs:
                vid = self.ids[nr][known_vid]
                if vid not in self.outputs:
                    crossing[vid] = Lifetime(nbytes, nr, nr)
        size = plan_arena([*crossing.values(), *own])
        self.places.update((vid, _Place(self.arena_slot, x.offset)) for vid, x in crossing.items())
        self.scratch = [x.offset for x in own]
        if config.verify:
            _verify_apart([*crossing.values(), *own], size)
        return size

    def _slots(self, nr: int, step: NativeStep, scalar_slots: dict[int, int]) -> list[_Place]:
        """What each slot of a turn's step is in the whole."""
        found = [_Place(0, 0)]
        for known_vid in step.inputs:
            root, start = self._root(nr, known_vid)
            slot, offset = self._place_of(root)
            found.append(_Place(slot, offset + start))
        found += [self._place_of(self.ids[nr][vid], is_made=True) for vid, _ in step.outputs]
        found.append(_Place(self.arena_slot, self.scratch[nr]))
        slot_of = self._slot_of(nr)
        found += [_Place(scalar_slots[slot_of[slot]], 0) for slot, _ in step.scalars]
        return found

    def _place_of(self, vid: int, is_made: bool = False) -> _Place:
        """Of an input that is handed out as it is, there are two: what is read, and what is made."""
        if not is_made and vid in self.segment.inputs:
            return _Place(1 + self.inputs.index(vid), 0)
        place = self.places.get(vid)
        if place is None:
            raise CompileError(f"planning failed: a turn reads %{vid}, which no turn makes")
        return place


def _marked(args: tuple[int, ...]) -> list[tuple[int, bool]]:
    """The argument words that number slots: (position, whether an offset follows)."""
    return [(at, type(word) is Slot) for at, word in enumerate(args) if type(word) in (Slot, ScalarSlot)]


def _moved(launch: Launch, marked: list[tuple[int, bool]], slots: list[_Place]) -> Launch:
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
