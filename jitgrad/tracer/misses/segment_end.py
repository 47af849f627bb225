"""The end of a segment that is no usual hit.

Owns: ``SegmentEnd``, the part of a recorder that has a segment compiled and run.
Must not know: what must be computed and stored (``flush.py``); how it is run (``Backend``).
"""

from __future__ import annotations

from typing import Any

from jitgrad.garbage import without_collections
from jitgrad.locks import process_lock
from jitgrad.tracer.misses.flush import build_end
from jitgrad.tracer.recording.history import RETURNED, EndEvent, UpdateEvent
from jitgrad.tracer.recording.hot import HOT
from jitgrad.tracer.recording.keys import END
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.trie import TrieNode
from jitgrad.user_line import user_call

__all__ = ["SegmentEnd"]


_keeping = process_lock()


def _keep_plan(event: EndEvent, plan: Any) -> None:
    """Give the event its plan, once: hits on other threads hold the one that is there by nothing but the event."""
    with _keeping:
        if not event.has_plan:
            event.plan, event.has_plan = plan, True


class SegmentEnd:
    """Ends the open segment: ``RecorderState.handles`` since the last end are what it is asked for."""

    __slots__ = ("_path", "_recorder")

    def __init__(self, recorder: Any, path: Path) -> None:
        self._recorder = recorder
        self._path = path

    def end(self, is_last: bool) -> None:
        """``flush`` of an end that is new, or not a usual one."""
        recorder = self._recorder
        if recorder.picks:
            recorder.picked.drop_idle()
        alive = HOT.living(recorder)
        key: tuple[Any, ...] = (END, *[h._vid for h in alive]) if alive else (END,)
        shared = HOT.sharing(alive)
        if shared:  # their values do not say which of the handles share a storage
            key = (*key, shared)
        node = recorder.node.children.get(key)
        if node is None:
            node = self._grow(key, alive, is_last)
        elif node.event.is_deferred:
            node.event.program = self._compiled(node)
            node.event.is_deferred = False
        recorder.node.last = recorder.node = node
        if is_last and recorder.path.misses and not recorder.has_stopped:
            self._note_path(node)
        recorder.handles, recorder.linked = [], 0
        recorder.keepers.clear()
        event = node.event
        try:
            if event.is_fresh:
                event.is_fresh = False
            elif not event.has_plan and not event.is_deferred:
                _keep_plan(event, recorder.backend.end_plan(recorder, event, alive))
            recorder.backend.run(recorder, event, alive, is_last)
        except BaseException:
            self._drop_lost_gradients()
            raise
        finally:
            # also after an error, which the step may catch: what came before the operation that raised has happened
            self._settle(node, alive, is_last)

    def _note_path(self, node: TrieNode) -> None:
        """The call has recorded a new path: its program may follow from those before, Note [Path families]."""
        recorder, event = self._recorder, node.event
        without_collections(recorder.backend.note_path, recorder)
        if event.is_deferred:
            found = without_collections(recorder.backend.copied_program, recorder, node)
            if found is None and not self._defers():  # it was to be derived, and could not be
                found = without_collections(recorder.backend.compile_end, event.segment, recorder.trie.plans)
            if found is not None:
                event.program, event.is_deferred = found, False

    def _defers(self) -> bool:
        """Whether a new segment is not compiled yet, Note [New graphs]."""
        recorder = self._recorder
        return recorder.trie.defers or recorder.has_stopped or self._path.is_new_and_long()

    def _compiled(self, node: TrieNode) -> Any:
        """The program of a segment that has come again."""
        recorder, backend = self._recorder, self._recorder.backend
        found = without_collections(backend.copied_program, recorder, node) if recorder.trie.forks else None
        if found is not None:
            return found
        return without_collections(backend.compile_end, node.event.segment, recorder.trie.plans)

    def _settle(self, node: TrieNode, alive: list[Any], is_last: bool) -> None:
        """The segment has ended; what it leaves behind has memory from here on."""
        recorder, event = self._recorder, node.event
        if event.keeps_graph:
            recorder.graph.keep(node, alive, event.saves, event.windows)
        if is_last:
            recorder.stubs.end()
        else:
            HOT.settle(recorder, node.event, alive)
        recorder.dirty.clear()
        recorder.claims.clear()
        if recorder.viewed and not is_last:  # their views are windows on memory from here on
            for slot in recorder.viewed:
                slot.settle()
            recorder.viewed.clear()

    def _drop_lost_gradients(self) -> None:
        """The segment raised: a backward after the operation that did so has not happened."""
        recorder = self._recorder
        for tensor in recorder.inputs.values():
            grad = tensor._grad
            if grad is not None and grad._tid == recorder.tid and (grad._storage is None or not grad._storage.addr):
                tensor._grad = None

    def _reason(self, is_last: bool) -> str:
        """What ends the segment, in words."""
        if is_last:
            return RETURNED
        if self._path.is_full(0):
            return f"it reached {self._path.segment_limit} operations (config.max_segment_ops)"
        event = self._recorder.node.event
        if type(event) is UpdateEvent and event.ends_segment:
            return "an optimizer's step came round again (Note [Turns])"
        name, where = user_call()
        return f"{name}() at {where} needs values"

    def _grow(self, key: Any, alive: list[Any], is_last: bool) -> TrieNode:
        recorder = self._recorder
        history = self._path.live()
        defers = self._defers() or (is_last and recorder.backend.will_derive(recorder))
        tables = recorder.slots, recorder.inputs, recorder.trie.plans
        event = without_collections(build_end, history, recorder.backend, alive, *tables, defers)
        event.reason = self._reason(is_last)
        node = self._path.grow(key, event)
        node.op, node.ids = END, tuple(h._vid for h in alive)
        node.params = HOT.sharing(alive)
        return self._path.publish(node, event)
