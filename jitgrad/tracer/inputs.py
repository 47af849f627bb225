"""Inputs of a trace: tensors that a call meets for the first time.

Owns: ``Inputs``, the part of a recorder that stamps tensors from outside, and second handles on known storages.
"""

from __future__ import annotations

from typing import Any

from jitgrad.errors import JitgradError
from jitgrad.ops.aval import Aval
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.history import InputEvent, OpEvent
from jitgrad.tracer.numbers import number_key
from jitgrad.tracer.recorder_state import RecorderState
from jitgrad.tracer.slots import EXTERNAL, LEAF, PLAIN, Slot, input_kind

__all__ = ["IN", "Inputs"]

IN, _ALIAS = "<in>", "<alias>"


class Inputs(RecorderState):
    """Enters tensors into the trace."""

    __slots__ = ()

    def enter(self, tensor: Any) -> int:
        """Stamp a tensor that this call has not seen (under this stamp); returns its value id."""
        storage = tensor._storage
        if storage is None:
            raise JitgradError("this tensor belongs to a compiled step that another thread is still recording")
        # the property, for a view: a write may have brought its base into the graph
        looks = tensor._base is not None and state.grad_enabled
        requires_grad = tensor.requires_grad if looks else tensor._requires_grad
        kind = input_kind(tensor) if requires_grad else PLAIN
        if kind == EXTERNAL:  # now, before the stamp of the call it came from is overwritten
            origin = (tensor.grad_fn, tensor._output_nr)
        slot = self._slots.get(id(storage))
        if slot is not None:
            vid = self._enter_alias(tensor, storage, slot, kind)
        else:
            vid = self._input(tensor, storage, (IN, tensor._aval, kind), kind)
            self._slots[id(storage)] = Slot(storage, tensor, vid)
        if kind == EXTERNAL:
            self.outer[vid] = origin
        return vid

    def _input(self, tensor: Any, storage: Any, key: Any, kind: int) -> int:
        node = self.node.children.get(key)
        if node is None:
            event = InputEvent(self.node.next_vid, tensor._aval, kind)
            node = self._publish(self.trie.grow(self.node, key, event, vids=1), event)
            node.vid = event.vid
        self.node = node
        vid = node.vid
        tensor._tid = self.tid
        tensor._vid = vid
        self.inputs[vid] = tensor
        self.buffers[vid] = storage
        return vid

    def _enter_alias(self, tensor: Any, storage: Any, slot: Slot, kind: int) -> int:
        """A second handle on a storage: the same value if the window is the same, else one more input."""
        for other in slot.live():
            if other._aval is tensor._aval and other._tid == self.tid:
                vid = self._same_value(tensor, other, kind)
                break
        else:
            if id(storage) in self._dirty:
                self.flush()
            vid = self._input(tensor, storage, (IN, tensor._aval, kind), kind)
        slot.add_older(tensor)
        return vid

    def _same_value(self, tensor: Any, known: Any, kind: int) -> int:
        """The value id for another handle on a known value. An id is a leaf's, or a node's, or nobody's: never two."""
        tensor._tid, vid = self.tid, known._vid
        if kind == PLAIN and not known._requires_grad:
            tensor._vid = vid
            return vid
        key = (_ALIAS, vid, kind)
        node = self.node.children.get(key)
        if node is None:
            event = self._alias_event(vid, kind, tensor._aval)
            node = self._publish(self.trie.grow(self.node, key, event, vids=1), event)
            node.vid = event.instr.outputs[0]
        self.node = node
        tensor._vid = node.vid
        self.inputs[node.vid] = tensor
        self.buffers[node.vid] = tensor._storage  # where later segments find the value
        return node.vid

    def _alias_event(self, vid: int, kind: int, aval: Aval) -> OpEvent:
        fresh = self.node.next_vid
        instr = self.backend.alias_instr(vid, fresh, aval)
        rebinds = ((fresh, fresh),) if kind == LEAF else ()
        return OpEvent(instr, (instr,), leaf_rebinds=rebinds, is_alias=True)

    def _ids(self, inputs: tuple[Any, ...]) -> tuple[list[Any], bool]:
        """(value ids, with numbers as (value, type); whether there are numbers). Inputs that are new are entered."""
        tid = self.tid
        ids: list[Any] = []
        numeric = False
        for x in inputs:
            if isinstance(x, TensorBase):
                ids.append(x._vid if x._tid == tid else self.enter(x))
            else:
                ids.append((number_key(x), type(x)))
                numeric = True
        return ids, numeric
