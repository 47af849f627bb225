"""Inputs of a trace: tensors that a call meets for the first time.

Owns: ``Entry``, the part of a recorder that stamps tensors from outside, and second handles on known storages.
"""

from __future__ import annotations

from typing import Any

from jitgrad.devices import CPU
from jitgrad.errors import STILL_RECORDED, ElsewhereError, JitgradError
from jitgrad.ops.aval import Aval
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.history import InputEvent, OpEvent
from jitgrad.tracer.recording.keys import ALIAS, EXTERNAL, HOOKED, IN, JOIN, LEAF, PLAIN, InputKind
from jitgrad.tracer.recording.numbers import number_key
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.slots import Slot, input_kind, looks_refused, twin_of
from jitgrad.tracer.recording.views_of_base import become_views_of_base, has_stand_in
from jitgrad.version_counter import VERSION, inference_tensors, is_inference

__all__ = ["Entry"]


def _key(tensor: Any, kind: InputKind) -> tuple[Any, ...]:
    """The event of a new input. Graphs must not save an inference tensor: what is recorded of one is a path apart."""
    if inference_tensors and is_inference(tensor):
        return (IN, tensor._aval, kind, "inference")
    return (IN, tensor._aval, kind)


def _origin(tensor: Any) -> tuple[Any, int]:
    """(Node, output number) of a tensor with a graph of its own; see Note [Backward from outside]."""
    if tensor._base is not None and tensor._view_version not in (None, tensor._vc[VERSION]):
        return tensor.grad_fn, tensor._output_nr
    if tensor._grad_fn is None:
        tensor._graph.join(tensor)
    return tensor._grad_fn, tensor._output_nr


class Entry:
    """Enters tensors into the trace: every value from outside gets its id here, or by a hit.

    It fills ``RecorderState.entered``, from which ``inputs`` and ``buffers`` are made when they are asked for.

    Attributes:
        outer: value id -> (Node, output number), for inputs that came with a graph of their own.
    """

    __slots__ = ("_path", "_recorder", "outer")

    outer: dict[int, tuple[Any, int]]

    def __init__(self, recorder: Any, path: Path) -> None:
        self._recorder = recorder
        self._path = path
        self.outer = {}

    def enter(self, tensor: Any) -> int:
        """Stamp a tensor that this call has not seen (under this stamp); returns its value id.

        A view whose base has been written in this call reads the base as it is now.

        Raises:
            ElsewhereError: it is not on the CPU, or a view that differentiable operations refuse.
        """
        recorder = self._recorder
        if tensor._tid == -recorder.tid:
            known: int | None = recorder.windows.look_afresh(tensor)
            if known is not None:
                return known
        if has_stand_in(tensor) and tensor._view_version != tensor._vc[VERSION]:
            become_views_of_base([tensor])
        storage = tensor._storage
        if tensor._aval.device is not CPU:
            raise ElsewhereError(f"a tensor on {tensor._aval.device} has no place in a trace")
        if storage is None:
            raise JitgradError(STILL_RECORDED)
        # the property, for a view: a write may have brought its base into the graph
        looks = tensor._base is not None and state.grad_enabled
        requires_grad = tensor.requires_grad if looks else tensor._requires_grad
        if requires_grad and looks_refused(tensor):
            raise ElsewhereError("a view whose base has changed, and which can have no new history")
        kind = input_kind(tensor) if requires_grad else PLAIN
        if kind is EXTERNAL:  # now, before the stamp of the call it came from is overwritten
            origin = _origin(tensor)
        slots = recorder.slots
        slot = slots.get(id(storage))
        root = recorder.backend.root_of(storage)
        if storage.addr == 0 and slot is None:
            raise JitgradError(STILL_RECORDED)
        recorder.meet(tensor, storage, root)
        if slot is None and root is not storage:
            slot = slots.get(id(root))
        if slot is not None:
            vid = self._enter_alias(tensor, storage, slot, kind)
        else:
            vid = self._input(tensor, storage, _key(tensor, kind), kind)
            slots = recorder.slots
            slots[id(storage)] = slots[id(root)] = Slot(storage, tensor, vid)
            root.tid = recorder.tid
        if kind is EXTERNAL:
            self.outer[vid] = origin
        return vid

    def _input(self, tensor: Any, storage: Any, key: Any, kind: InputKind) -> int:
        recorder = self._recorder
        node = recorder.node.children.get(key)
        if node is None and recorder.trie.forks and len(key) == 3:
            node = recorder.backend.copied_path(recorder, tensor._aval, kind)
        if node is None:
            event = InputEvent(recorder.node.next_vid, tensor._aval, kind)
            node = self._path.grow(key, event, vids=1)
            node.vid, node.ids = event.vid, (tensor._aval, kind)
            node.op = IN if len(key) <= 3 else None  # inference tensors are entered here
            self._path.publish(node, event)
        recorder.node.last = recorder.node = node
        vid: int = node.vid
        tensor._tid = storage.tid = recorder.tid
        tensor._vid = vid
        recorder.entered.extend((tensor, storage, vid))
        # ``enter`` sees to the slot, and has caught up with all others
        recorder.input_table[vid], recorder.buffer_table[vid] = tensor, storage
        recorder.caught = len(recorder.entered)
        return vid

    def _enter_alias(self, tensor: Any, storage: Any, slot: Slot, kind: InputKind) -> int:
        """A second handle on a storage: the same value if the window is the same, else one more input."""
        recorder = self._recorder
        if slot.storage is not storage:
            slot.is_family = True
            recorder.slots[id(storage)] = slot
            if recorder.dirty:
                recorder.flush()
        for other in slot.live():
            if other._vc is not tensor._vc:
                recorder.counted_twice[id(storage)] = storage
            known: Any = other._vid if other._tid == recorder.tid else None
            is_same = known is not None and other._aval is tensor._aval and other._storage is storage
            # a view made in this segment: nobody would give memory to its id when its own handle is gone
            if is_same and (known in recorder.buffers or id(storage) in recorder.dirty):
                vid = self._same_value(tensor, other, known, kind)
                break
        else:
            if id(storage) in recorder.dirty:
                recorder.flush()
            vid = self._input(tensor, storage, _key(tensor, kind), kind)
        slot.add_older(tensor)
        return vid

    def _same_value(self, tensor: Any, known: Any, vid: int, kind: InputKind) -> int:
        """The value id for another handle on a known value. An id is a leaf's, or a node's, or nobody's: never two."""
        recorder = self._recorder
        differs = bool(inference_tensors) and is_inference(tensor) is not is_inference(known)
        if kind is PLAIN and not known._requires_grad and not differs:
            tensor._tid, tensor._vid = recorder.tid, vid
            return int(vid)
        key = (ALIAS, vid, kind, differs)
        node = recorder.node.children.get(key)
        if node is None:
            event = self._alias_event(vid, kind, tensor._aval)
            node = self._path.grow(key, event, vids=1)
            node.vid = event.instr.outputs[0]
            self._path.publish(node, event)
        recorder.node = node
        fresh = node.vid
        tensor._tid, tensor._vid = recorder.tid, fresh
        recorder.inputs[fresh] = tensor
        recorder.buffers[fresh] = tensor._storage  # where later segments find the value
        return int(fresh)

    def _alias_event(self, vid: int, kind: InputKind, aval: Aval, has_memory: bool = True) -> OpEvent:
        fresh = self._recorder.node.next_vid
        instr = self._recorder.backend.alias_instr(vid, fresh, aval)
        rebinds = ((fresh, fresh),) if kind in (LEAF, HOOKED) else ()
        return OpEvent(instr, (instr,), leaf_rebinds=rebinds, is_alias=has_memory)

    def join_outer(self, tensor: Any, graph_node: Any, output_nr: int) -> None:
        """Give a tensor of the call a Node that Python made (a custom Function's): a graph of its own, as an input's.

        The tensor gets a value id of its own: other handles on the value are not part of that graph.
        """
        if tensor._aval.device is not CPU:  # no value of the call: as in eager execution
            tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, graph_node, output_nr
            return
        recorder = self._recorder
        if tensor._tid != recorder.tid:
            self.enter(tensor)
        recorder.graph.upkeep.before_a_node(recorder.graph)
        graph_node.sequence_nr = recorder.graph.order.number_now(recorder.node.next_vid)
        self.join_graph(tensor, graph_node, output_nr)

    def join_graph(self, tensor: Any, graph_node: Any, output_nr: int) -> None:
        """``join_outer`` for a tensor of this call and a Node that exists."""
        fresh = self.renumber(tensor)
        tensor._requires_grad, tensor._grad_fn, tensor._output_nr, tensor._graph = True, graph_node, output_nr, None
        self.outer[fresh] = (graph_node, output_nr)

    def renumber(self, tensor: Any) -> int:
        """Give a tensor of this call a value id of its own: what the old one is in the graph no longer concerns it."""
        recorder = self._recorder
        vid, storage = tensor._vid, tensor._storage
        has_memory = storage is not None and storage.addr != 0
        key = (JOIN, vid, has_memory)
        node = recorder.node.children.get(key)
        if node is None:
            event = self._alias_event(vid, EXTERNAL, tensor._aval, has_memory)
            node = self._path.grow(key, event, vids=1)
            node.vid = event.instr.outputs[0]
            self._path.publish(node, event)
        recorder.node = node
        fresh = node.vid
        tensor._tid, tensor._vid = recorder.tid, fresh
        if has_memory:
            recorder.inputs[fresh], recorder.buffers[fresh] = tensor, storage
        return int(fresh)

    def twin(self, tensor: Any) -> Any:
        """A second handle on a value of the call and on its Node, which keeps nothing else of the call alive."""
        is_here = tensor._aval.device is CPU
        if is_here and tensor._tid != self._recorder.tid:
            self.enter(tensor)
        node = tensor.grad_fn
        twin = twin_of(tensor)
        twin._requires_grad, twin._grad_fn, twin._output_nr = tensor._requires_grad, node, tensor._output_nr
        if is_here:
            self._recorder.adopt(twin)
        return twin

    def ids(self, inputs: tuple[Any, ...]) -> tuple[list[Any], bool]:
        """(value ids, with numbers as (value, type); whether there are numbers). Inputs that are new are entered."""
        tid = self._recorder.tid
        ids: list[Any] = []
        numeric = False
        for x in inputs:
            if isinstance(x, TensorBase):
                ids.append(x._vid if x._tid == tid else self.enter(x))
            else:
                ids.append((number_key(x), type(x)))
                numeric = True
        return ids, numeric
