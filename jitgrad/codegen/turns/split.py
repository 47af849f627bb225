"""Splitting a long segment into segments of a few turns each.

Owns: ``Turn``, ``split``.
Must not know: how segments are planned, how what was planned is put together again (``merge.py``).
In: a segment. Out: turns, in order; None if there is no loop in it.

# Note [Equal turns]
# ~~~~~~~~~~~~~~~~~~
# A loop of 512 turns in a step leaves a segment of tens of thousands of instructions. To plan it costs a hundred
# microseconds an instruction, though all turns are alike. So a long segment is split where its loops come round, each
# part is renumbered (``tracer.recording.renumbered``), and parts that are equal up to their ids are planned once. The
# launches of the others are copies, with other places in memory (``merge.py``), and the whole is one native step as
# before.
#   A part holds so many turns that ``PART`` instructions come together: products that are added up over the turns
# (Note [Joined products]) and values that share a kernel are looked for inside a part.
#   Values that one part makes and a later part reads lie in the arena, row-major. Views of them are not copied: a part
# reads the memory of the value through the view's layout. ``x[t]``, which is another view in each turn, is the same
# input in each, at another place.
#   Example: 512 turns of an LSTM cell and their backward are 92 parts of 19 turns forward or 8 turns backward. Six are
# planned: those at the ends, where a gradient is new or the first state is zeros, and one of each kind between.
#   What has other params in each turn, as the gradient of ``x[t]``, is put off until the loop ends (``postpone.py``).
#   A loop that writes into one large tensor, turn by turn, is not split: each part's value of the whole tensor would
# cross (Note [Updates]). Nor is a segment whose parts turn out to be no equals.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from jitgrad.codegen.turns.find import TurnLoop, find_loops
from jitgrad.codegen.turns.postpone import postpone
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.structs import replaced
from jitgrad.tracer.recording.graph import Instr, Segment

__all__ = ["LONG", "PART", "Turn", "split"]

LONG = 2_000
"""Segments of so many instructions are split."""
PART = 256
"""A part has about so many."""
_LARGE = 32 << 10
"""Bytes of a tensor that a loop writes parts of, from which copying it counts."""
_WRITES = frozenset({"copy_slices", "index_add", "index_copy", "index_fill", "masked_scatter", "put", "scatter_reduce"})


class Turn(NamedTuple):
    """A part of a segment.

    Attributes:
        segment: the part, as a segment of its own. What is a view of something earlier is an input that starts at 0.
        places: input that is a view -> (value id of what it is a view of, where it starts in it, in bytes).
    """

    segment: Segment
    places: dict[int, tuple[int, int]]


def split(segment: Segment) -> list[Turn] | None:
    """The segment in parts, or None if it is short or no loop is found in it."""
    if len(segment.instrs) < LONG:
        return None
    loops = find_loops(_kinds(segment.instrs))
    instrs, late = postpone(segment.instrs, loops)
    if late:
        segment = replaced(segment, instrs=instrs)
        loops = [x for x in find_loops(_kinds(instrs)) if not any([a < x.stop and x.start < b for a, b in late])]
    if not loops:
        return None
    splitter = _Splitter(segment)
    bounds = [0, *splitter.cuts(loops), len(segment.instrs)]
    if any([splitter.copies_much(start, stop) for start, stop in pairwise(bounds)]):
        return None
    turns = [splitter.turn(start, stop) for start, stop in pairwise(bounds)]
    return [turn for turn in turns if turn.segment.instrs or turn.segment.outputs or turn.segment.writes]


def _kinds(instrs: list[Instr]) -> np.ndarray:
    """Equal numbers for instructions of the same operation with results of the same shape and dtype."""
    numbers: dict[tuple[object, ...], int] = {}
    keys = [(i.op, i.avals[0].shape, i.avals[0].dtype) for i in instrs]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def _writes_a_part(name: str) -> bool:
    """Whether an operation copies its first operand but for a part."""
    return name in _WRITES or name.startswith("index_put") or name == "scatter" or name.endswith("_scatter")


class _Splitter:
    """What is known of a segment's values.

    Attributes:
        avals: value id -> aval, of all.
        born: value id -> the instruction that makes it; of inputs -1.
        roots: value id of a view -> what it is a view of; of others there is no entry.
        layouts: value id of a view -> how it lies in the memory of its root.
        died: value id, but no view's -> the last instruction that reads it, also through a view.
        handed_out: what the segment hands out.
        kept: what it hands out or writes.
    """

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.handed_out = frozenset(segment.outputs)
        self.kept = self.handed_out.union(vid for vid, _ in segment.writes)
        self.avals: dict[int, Aval] = dict(segment.inputs)
        self.born: dict[int, int] = dict.fromkeys(segment.inputs, -1)
        self.roots: dict[int, int] = {}
        self.layouts: dict[int, Aval] = {}
        self.died: dict[int, int] = {}
        for nr, instr in enumerate(segment.instrs):
            for vid, aval in zip(instr.outputs, instr.avals, strict=True):
                self.avals[vid], self.born[vid] = aval, nr
            for x in instr.inputs:
                if type(x) is int:
                    self.died[self.roots.get(x, x)] = nr
            if instr.op.is_view:
                self._note_views(instr)
        for vid in self.kept:
            self.died[self.roots.get(vid, vid)] = len(segment.instrs)

    def _note_views(self, instr: Instr) -> None:
        """Lay the views out in the memory of what they are views of, as it is stored; a trace may say otherwise."""
        source = instr.inputs[0]
        layout = self.layouts.get(source) or self.stored(source)
        try:
            found = instr.op.aval(layout, *instr.params)
        except (RuntimeError, IndexError, ValueError):  # no view of what is stored in another order than was recorded
            return
        views = found if isinstance(found, tuple) else (found,)
        if all([view.dtype is layout.dtype for view in views]):
            self.layouts.update(zip(instr.outputs, views, strict=True))
            self.roots.update(dict.fromkeys(instr.outputs, self.roots.get(source, source)))

    def stored(self, vid: int) -> Aval:
        """How a value that is no view lies in memory."""
        aval = self.avals[vid]
        return aval if vid in self.segment.inputs else self.segment.stored_aval(vid, aval)

    # --- where to cut ---

    def cuts(self, loops: list[TurnLoop]) -> list[int]:
        """Where parts begin, but for the first."""
        alive = self._alive_nbytes()
        found: list[int] = []
        for loop in loops:
            step = -(-PART // loop.period) * loop.period
            first = loop.start + _least_place(alive, loop)
            found += range(max(first, 1), loop.stop + 1, step)
        count = len(self.segment.instrs)
        return [cut for cut in found if cut < count]

    def _alive_nbytes(self) -> np.ndarray:
        """Before each instruction, the bytes of the values that were made and are read later; (n + 1,) int64."""
        change = np.zeros(len(self.segment.instrs) + 2, np.int64)
        for vid, last in self.died.items():
            first = self.born[vid]
            if first >= 0:
                change[first + 1] += self.avals[vid].nbytes
                change[last + 1] -= self.avals[vid].nbytes
        return np.cumsum(change)[:-1]

    # --- parts ---

    def turn(self, start: int, stop: int) -> Turn:
        """The part of the instructions from ``start`` to ``stop``."""
        is_last = stop == len(self.segment.instrs)
        part = _Part(self, start, is_last)
        for nr in range(start, stop):
            part.add(self.segment.instrs[nr])
        return part.turn(start, stop)

    def copies_much(self, start: int, stop: int) -> bool:
        """Whether a large tensor of which a part is written is read after the instructions from start to stop."""
        for instr in self.segment.instrs[start:stop]:
            is_large = instr.avals[0].nbytes > _LARGE
            if is_large and _writes_a_part(instr.op.name) and self.crosses(instr.outputs[0], stop):
                return True
        return False

    def crosses(self, vid: int, stop: int) -> bool:
        """Whether something reads a value after a part that ends at ``stop``."""
        return self.died.get(vid, -1) >= stop


class _Part:
    """A turn in the making."""

    def __init__(self, values: _Splitter, start: int, is_last: bool) -> None:
        self.values, self.start, self.is_last = values, start, is_last
        self.instrs: list[Instr] = []
        self.inputs: dict[int, Aval] = {}
        self.places: dict[int, tuple[int, int]] = {}
        self.made: set[int] = set()
        self.written = {owner for _, owner in values.segment.writes} if is_last else set()

    def add(self, instr: Instr) -> None:
        """Take an instruction in, unless it makes views of earlier values, which their readers read themselves."""
        if self._is_view_of_earlier(instr) and self.values.kept.isdisjoint(instr.outputs):
            return
        is_placed = False
        for x in instr.inputs:
            if type(x) is int:
                self.read(x)
                is_placed |= x in self.places
        if is_placed:  # the layouts of its operands are the part's
            avals = [self.inputs.get(x, a) for x, a in zip(instr.inputs, instr.input_avals, strict=True)]
            instr = replaced(instr, input_avals=tuple(avals))
        self.instrs.append(instr)
        self.made.update(instr.outputs)

    def _is_view_of_earlier(self, instr: Instr) -> bool:
        root = self.values.roots.get(instr.outputs[0])
        return root is not None and self.values.born[root] < self.start

    def read(self, vid: int) -> None:
        """Make an input of a value that is not made here."""
        if vid in self.made or vid in self.inputs:
            return
        values = self.values
        root = values.roots.get(vid)
        if root is None:
            self.inputs[vid] = values.stored(vid)
        elif root in self.written:  # it is read before it is written: the planner must know whose memory it is
            self._add_view(values.segment.instrs[values.born[vid]])
        else:
            aval = values.layouts[vid]
            self.inputs[vid] = make_aval(aval.shape, aval.dtype, aval.stride)
            self.places[vid] = (root, aval.offset * aval.dtype.itemsize)

    def _add_view(self, instr: Instr) -> None:
        """Make an earlier view again."""
        if instr.outputs[0] not in self.made:
            self.read(instr.inputs[0])
            self.instrs.append(instr)
            self.made.update(instr.outputs)

    def turn(self, start: int, stop: int) -> Turn:
        """What has become of it."""
        segment = self.values.segment
        writes = segment.writes if self.is_last else ()
        outputs = [vid for vid in self.made if self._leaves(vid, start, stop)]
        if self.is_last:
            outputs += [vid for vid in segment.outputs if vid in segment.inputs]
            for vid, owner in writes:
                self.read(vid)
                self.inputs.setdefault(owner, segment.inputs[owner])
            for vid in segment.outputs:
                if vid in segment.inputs:
                    self.read(vid)
        inputs = {vid: self.inputs[vid] for vid in sorted(self.inputs)}
        layouts = {vid: segment.layouts[vid] for vid in outputs if vid in segment.layouts}
        return Turn(Segment(self.instrs, inputs, tuple(sorted(outputs)), writes, (), layouts), self.places)

    def _leaves(self, vid: int, start: int, stop: int) -> bool:
        """Whether a value that is made here is the segment's to hand out, or is read later."""
        values = self.values
        if not start <= values.born[vid] < stop:  # a view that was made again
            return False
        return vid in values.handed_out or (vid not in values.roots and values.crosses(vid, stop))


def _least_place(alive: np.ndarray, loop: TurnLoop) -> int:
    """Where in its period a loop is best cut: where the least crosses, but for what adds up from turn to turn."""
    period = loop.period
    middle = loop.start + (loop.stop - loop.start) // period // 2 * period
    here = alive[middle : middle + period].astype(np.float64)
    growth = (alive[min(middle + period, len(alive) - 1)] - alive[middle]) / period
    return int(np.argmin(here - growth * np.arange(len(here))))
