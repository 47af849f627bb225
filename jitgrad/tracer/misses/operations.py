"""Operations that are no usual hit: those that need a second look, and those recorded for the first time.

Owns: ``Operations``, the part of a recorder that finds or grows the event of an operation, and makes handles of it.
Must not know: writes; what a hit is (``hits.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.door import door
from jitgrad.errors import ElsewhereError
from jitgrad.layouts import plain
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.state import state
from jitgrad.tensor_base import tensor_class
from jitgrad.tracer.misses.early_checks import may_hits_look, must_pause, must_raise_now
from jitgrad.tracer.misses.long_calls import must_leave, stop_recording
from jitgrad.tracer.recording.graph import Instr
from jitgrad.tracer.recording.history import OpEvent, PlainEvent
from jitgrad.tracer.recording.numbers import quick_ids
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.shape_rules import has_no_place, kind_of, known_kind, name_line
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["Operations"]

_DEPTH = 2  # frames between the one that asks for the user's line and that which ``Recorder.apply`` is called from


class Operations:
    """Records operations, and hands out the handles on their results."""

    __slots__ = ("_class", "_new", "_path", "_recorder")

    def __init__(self, recorder: Any, path: Path) -> None:
        self._recorder = recorder
        self._path = path
        self._class = cls = tensor_class()
        self._new = cls.__new__

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        """An operation that is no usual hit: inputs, then static params."""
        recorder = self._recorder
        count = op.num_inputs
        inputs, params = (args[:count], args[count:]) if count >= 0 else (tuple(args[0]), args[1:])
        params = plain(params)
        try:
            found, numeric = recorder.entry.ids(inputs)
        except ElsewhereError:
            return recorder.outside(recorder.backend.apply_elsewhere, op, *args)
        ids = tuple(found)
        key = (op, ids, params)
        node = recorder.node.children.get(key)
        if node is None and numeric and recorder.node.masks:
            node = self._path.numbers.promoted_hit(recorder, op, inputs, params)
        if node is None and recorder.trie.forks:
            node = recorder.backend.copied_path(recorder, (op, ids, params))
        if node is None:
            return self._grow(op, inputs, params, ids, key)
        return self._apply_special(op, node, inputs, params, ids, key)

    def _apply_special(
        self, op: Op, node: TrieNode, inputs: tuple[Any, ...], params: tuple[Any, ...], ids: tuple[Any, ...], key: Any
    ) -> Any:
        """A hit that needs a second look: params whose type matters, several outputs, a full segment."""
        recorder = self._recorder
        types = node.param_types
        if types is not None and types != tuple(map(type, params)):
            # params that compare equal but differ in type (1, 1.0, True) are different events
            key = (key, tuple(map(type, params)))
            other = recorder.node.children.get(key)
            if other is None:
                return self._grow(op, inputs, params, ids, key)
            node = other
        event = node.event
        if event.demands and not recorder.checks.meets(event, inputs):
            return self._apply_unmet(op, event, inputs, params)
        if recorder.node.last is not node:
            recorder.node.last = node
        recorder.node = node
        return self._results(node, inputs)

    def _apply_unmet(self, op: Op, event: Any, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """An operation that will raise, or that cannot tell yet: Note [Early checks]."""
        recorder = self._recorder
        del recorder.scalars[recorder.node.next_scalar :]  # numbers of an event that is not recorded
        args = (*((inputs,) if op.num_inputs < 0 else inputs), *params)
        recorder.flush()
        if must_pause(event):
            return self.apply(op, args)
        try:
            return recorder.outside(recorder.backend.apply_elsewhere, op, *args)
        except Exception as error:
            name_line(error, op)
            raise

    def _results(self, node: TrieNode, inputs: tuple[Any, ...]) -> Any:
        """Handles for a node's results."""
        recorder = self._recorder
        event = node.event
        instr = event.instr
        outs = []
        for nr, (vid, aval) in enumerate(zip(instr.outputs, instr.avals, strict=True)):
            out = self.handle(vid, aval, _requires_grad(instr, aval))
            if nr and out._requires_grad:
                out._output_nr = nr
            if node.is_view:
                recorder.aliases.note_view(node, out, inputs[0])
            outs.append(out)
        if event.ends_segment:
            recorder.flush()
        return tuple(outs) if event.several else outs[0]

    def handle(self, vid: int, aval: Aval, requires_grad: bool) -> Any:
        """A pending handle on a value."""
        recorder = self._recorder
        out = self._new(self._class)
        out._tid = recorder.tid
        out._vid = vid
        out._aval = aval
        if requires_grad:
            out._requires_grad = True
            out._graph = recorder.graph
        else:
            out._requires_grad = False
        recorder.handles.append(out)
        return out

    def _grow(
        self,
        op: Op,
        inputs: tuple[Any, ...],
        params: tuple[Any, ...],
        ids: tuple[Any, ...],
        key: Any,
    ) -> Any:
        """Record an operation for the first time. Raises what eager execution would, leaving no trace of it."""
        recorder, path = self._recorder, self._path
        if must_leave(recorder):
            stop_recording(recorder)
            return door.apply(op, *((inputs,) if op.num_inputs < 0 else inputs), *params)
        kind = known_kind(op, inputs, params)
        if has_no_place(op, inputs, params) if kind is None else kind.is_outside:
            operands = (inputs,) if op.num_inputs < 0 else inputs
            return recorder.outside(recorder.backend.apply_elsewhere, op, *operands, *params)
        history = path.live()
        operands, mark = ids, None
        fresh_scalars: Sequence[Any] = ()
        if tuple in map(type, ids):
            operands, key, fresh_scalars, mark = path.numbers.operands(recorder, op, inputs, params, ids, key)
        instr, several = path.instr(op, inputs, params, operands)
        event: Any = PlainEvent(instr, several)
        if op.checks_values:
            event = OpEvent(instr, (instr,), several=several)
            wanted = recorder.checks.demands(op, inputs, instr)
            if wanted is None:
                return self._apply_unmet(op, recorder.checks.pause(key, mark).event, inputs, params)
            event.demands, event.passed = wanted, [None] * len(wanted)
            if not recorder.checks.meets(event, inputs):
                return self._apply_unmet(op, event, inputs, params)
        node = path.grow(key, event, vids=len(instr.outputs), scalars=len(fresh_scalars))
        aval = instr.avals[0]
        node.vid, node.aval = instr.outputs[0], aval
        node.requires_grad = _requires_grad(instr, aval)
        if history.length() + 1 >= path.segment_limit or (op.checks_reals and must_raise_now(history, instr)):
            event.ends_segment = True
        if params and any([type(p) in (float, bool) for p in params]):
            node.param_types = tuple(map(type, params))
        kind = kind_of(op, inputs, params)
        node.op, node.params, node.is_view, node.window = op, params, kind.is_view, kind.window
        node.ids = quick_ids(op, inputs, ids, mark.mask) if mark is not None else ids
        self._let_hits_make(node, op, instr, inputs)
        path.publish(node, event, mark)
        recorder.scalars.extend(fresh_scalars)
        recorder.node = node
        if node.is_simple and not node.is_view:
            return self.handle(node.vid, aval, node.requires_grad)
        return self._results(node, inputs)

    def _let_hits_make(self, node: TrieNode, op: Op, instr: Instr, inputs: tuple[Any, ...]) -> None:
        """Say in the node whether a hit may make the result, or the results, by itself."""
        event = node.event
        if op.num_inputs == 0 or event.ends_segment or not may_hits_look(node, event, inputs):
            return
        node.is_simple = not event.several
        if event.several:
            rows = zip(instr.outputs, instr.avals, strict=True)
            node.outs = tuple((vid, aval, _requires_grad(instr, aval)) for vid, aval in rows)
            if op.has_base and state.grad_enabled:
                node.meta = self._recorder.backend.creation_meta_of(inputs[0], True)


def _requires_grad(instr: Instr, aval: Aval) -> bool:
    """Whether a result of this layout does."""
    return instr.requires_grad and aval.dtype.is_inexact
