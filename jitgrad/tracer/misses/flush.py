"""The end of a segment, seen for the first time: what must be computed, stored, written.

Owns: ``build_end``.
In: the history and the surviving handles. Out: an ``EndEvent``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import once_per_call
from jitgrad.ops.aval import Aval, make_aval, own_layout
from jitgrad.tracer.hits.view_hits import assignments
from jitgrad.tracer.recording.graph import Instr, Segment
from jitgrad.tracer.recording.history import EndEvent, History
from jitgrad.tracer.recording.hot import HOT
from jitgrad.tracer.recording.keys import FRESH, PENDING, VIEW
from jitgrad.tracer.recording.slots import has_node

__all__ = ["build_end"]


def build_end(
    history: History,
    backend: Any,
    alive: list[Any],
    slots: dict[int, Any],
    inputs: dict[int, Any],
    plans: Any,
    defers: bool,
) -> EndEvent:
    """Decide what the open segment must leave behind, and compile it.

    Args:
        slots: id of a storage -> its slot.
        inputs: value id -> tensor, of the recorder.
        plans: of the trie.
        defers: do not compile it yet if its plan is not known, see Note [New graphs].
    """
    assign = assignments(alive)
    survivors = {h._vid for h, how in zip(alive, assign, strict=True) if how in (FRESH, PENDING)}
    roots = [h._vid for h in alive if h._requires_grad and has_node(h)]
    here = history.here
    saved = backend.saved_vids(history, roots) if roots else set()
    in_place = {h._vid for h, how in zip(alive, assign, strict=True) if how is VIEW} | history.aliases
    held = {vid for vid, t in inputs.items() if t._vid == vid} | {h._vid for h in alive}
    windows = _windows(history, (saved - in_place - survivors) & here, held, here)
    in_place |= {vid for vid, _, _ in windows}
    outputs = tuple(sorted((survivors | (saved - in_place)) & here))
    writes = tuple((vid, owner) for owner, vid in history.writes.items())
    outputs += _unused_checks(history, outputs, writes)
    segment = _segment(history, outputs, writes)
    layouts = [(h._vid, h._aval if how is VIEW else own_layout(h._aval)) for h, how in zip(alive, assign, strict=True)]
    fresh = [row for row, how in zip(layouts, assign, strict=True) if how is not VIEW]
    segment.layouts = {vid: aval for vid, aval in fresh if not aval.is_contiguous}
    make = backend.defer_end if defers else backend.compile_end
    program = make(segment, plans) if outputs or writes else None
    layouts += [
        (vid, make_aval(history.aval_of(vid).shape, history.aval_of(vid).dtype))
        for vid in (saved - in_place - survivors) & here
    ]
    layouts += [(vid, layout) for vid, _, layout in windows]
    # last: a value that is written is found in the storage that it was written to, whatever else holds it
    layouts += [(vid, history.aval_of(owner)) for vid, owner in writes]
    named = [(slots[id(h._storage)].owner, h._vid) for h, how in zip(alive, assign, strict=True) if how is PENDING]
    named = [(owner, vid) for owner, vid in named if owner not in survivors]  # else it has memory of its own
    return EndEvent(
        program,
        assign,
        writes,
        outputs,
        tuple(layouts),
        keeps_graph=bool(roots),
        saves=bool(saved) or (bool(roots) and not history.released),
        has_pending=PENDING in assign,
        is_deferred=program is not None and program.is_stand_in,
        named=tuple(named),
        windows=tuple((vid, root) for vid, root, _ in windows),
        segment=segment,
        nbytes=sum([history.aval_of(vid).nbytes for vid in outputs]),
    )


def _windows(history: History, saved: set[int], held: set[int], here: set[int]) -> list[tuple[int, int, Aval]]:
    """Of saved values, the views that nobody holds: (value id, whose memory it is a window on, layout).

    As in eager execution they are no copies: a Node that saved the view notices a write to that memory, or sees it.
    Only of a value that somebody holds, by whose version counter a write is known.
    """
    windows = []
    for vid in sorted(saved):
        path, root = [], vid
        while root in here and root not in held and history.defs[root][0].op.is_view:
            path.append(history.defs[root])
            root = path[-1][0].inputs[0]
        if not path or root not in held:
            continue
        layout = _layout_at_the_end(history, root, here)
        if layout is None:
            continue
        for instr, nr in reversed(path):
            laid_out = instr.op.aval(layout, *instr.params)
            layout = laid_out[nr] if isinstance(laid_out, tuple) else laid_out
        windows.append((vid, root, layout))
    return windows


def _layout_at_the_end(history: History, vid: int, here: set[int]) -> Aval | None:
    """How a value lies in memory when the segment has ended; None if it is not there as it is."""
    if vid not in here:
        is_there = vid in history.avals and history.canonical(vid) not in history.writes
        return history.avals[vid] if is_there else None
    owners = [owner for owner, written in history.writes.items() if written == vid]
    if owners:
        return history.aval_of(owners[0])
    aval = history.aval_of(vid)
    return aval if own_layout(aval) is aval else None


def _unused_checks(history: History, outputs: tuple[int, ...], writes: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """Results that nobody uses, of the user's operations that may raise: eager execution raises there, used or not.

    A result of which only a part is read counts as unused: kernels compute, and so check, no more than that part.
    """
    instrs = history.instrs[history.start :]
    if not any([i.op.checks_reals or i.op.checks_values for i in instrs]):
        return ()
    wanted = set(outputs) | {vid for vid, _ in writes}
    unused = []
    for nr in range(len(instrs) - 1, -1, -1):
        instr = instrs[nr]
        is_unused = wanted.isdisjoint(instr.outputs)
        may_raise = instr.where and (instr.op.checks_reals or (instr.op.checks_values and _has_integers(instr)))
        if may_raise and (is_unused or _is_read_in_part(instr, instrs[nr + 1 :])):
            unused.append(instr.outputs[0])
        elif is_unused:
            continue
        wanted.update(v for v in instr.inputs if isinstance(v, int))
    return tuple(reversed([vid for vid in unused if vid not in outputs]))


_PICKING = ("index", "gather", "take", "masked_select", "embedding")


def _is_read_in_part(instr: Instr, later: list[Instr]) -> bool:
    """Whether an operation may use some elements only of what a floating check guards."""
    if not instr.op.checks_reals or all(aval is None or aval.numel == 1 for aval in instr.avals[:1]):
        return False  # what is asked of integers was looked at when the operation was called: Note [Early checks]
    reached = set(instr.outputs)
    for reader in later:
        if reached.isdisjoint(v for v in reader.inputs if isinstance(v, int)):
            continue
        if reader.op.is_view or reader.op.name.startswith(_PICKING):
            return True
        reached.update(vid for vid, aval in zip(reader.outputs, reader.avals, strict=True) if aval.numel > 1)
    return False


def _has_integers(instr: Instr) -> bool:
    return any(a is not None and not a.dtype.is_inexact for a in instr.input_avals)


@once_per_call
def needed_instrs(instrs: list[Any], start: int, wanted: set[Any], made: set[Any]) -> Any:
    """The instructions from one on that wanted values need, last to first.

    Args:
        instrs: of a path.
        start: the first one that counts.
        wanted: value ids; what these instructions read is added.
        made: gets the value ids of their results.
    """
    found: list[Any] = []
    i = len(instrs) - 1
    while i >= start:
        instr: Instr = instrs[i]
        is_needed = False
        for vid in instr.outputs:
            if vid in wanted:
                is_needed = True
        if is_needed:
            found.append(instr)
            for vid in instr.outputs:
                made.add(vid)
            for x in instr.inputs:
                if type(x) is int:
                    wanted.add(x)
        i -= 1
    return found


def _segment(history: History, outputs: tuple[int, ...], writes: tuple[tuple[int, int], ...]) -> Segment:
    """The instructions that the outputs and writes need, in order, with the inputs that those need."""
    wanted = set(outputs) | {vid for vid, _ in writes}
    made: set[int] = set()
    instrs = HOT.needed_instrs(history.instrs, history.start, wanted, made)
    instrs.reverse()
    wanted.update(owner for _, owner in writes)
    inputs = {vid: history.aval_of(vid) for vid in sorted(wanted - made)}
    return Segment(instrs, inputs, outputs, writes, tuple(history.write_log))
