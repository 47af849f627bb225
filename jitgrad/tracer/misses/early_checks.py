"""Errors that depend on values, found while the step is being recorded.

Owns: ``EarlyChecks``, the part of a recorder that looks at indices before an operation is recorded.
Must not know: which operation asks for what (``ops/value_checks.py``).

# Note [Early checks]
# ~~~~~~~~~~~~~~~~~~~
# An index out of range must raise at its statement: by the end of the segment, Python has gone on, has replaced
# gradients and stepped optimizers. So an operation that checks values has its demands looked at when it is called, cold
# or warm; if they are not met, the segment ends and the operation runs eagerly, which raises. An index nearly always
# comes from outside; where it was looked at and has not been written since, it is not looked at again. One that the
# open segment computes has no value yet: if its operations say enough (``argmax``, ``% rows``, ``clamp``), that does;
# if they move, shift or scale what came from outside (``tokens[:, 1:].reshape(-1) + 1``), that is looked at, which is
# more than it must be (``ranges.py``); else, or if that fails, the segment ends before the operation that uses it
# (``PauseEvent``). A hit looks at a few indices by itself (``TrieNode.bounds``). After an operation that raises for
# some floating values (``Op.checks_reals``) the segment ends. The kernels still check: memory can change unseen.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from jitgrad.dtypes import int64
from jitgrad.lazy import LazyModule
from jitgrad.ops.table import Op
from jitgrad.ops.value_checks import Within
from jitgrad.ops.value_checks import demands as demands_of
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.graph import Instr
from jitgrad.tracer.recording.history import History, PauseEvent
from jitgrad.tracer.recording.numbers import Mark
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.trie import Bounds, TrieNode
from jitgrad.version_counter import version_of

__all__ = ["EarlyChecks", "Look", "bounds_for", "may_hits_look", "must_pause", "must_raise_now"]

_ranges: Any = LazyModule("jitgrad.tracer.recording.ranges")  # few steps compute their positions


class Look(NamedTuple):
    """Something to look at before an operation is recorded.

    Attributes:
        demand: what is asked of the values.
        position: of the operand that must meet it; -1 for an operand that only moves the values of an older one.
        vid, aval: that value, which has memory.
    """

    demand: Any
    position: int
    vid: int = -1
    aval: Any = None


class EarlyChecks:
    """Looks at values that an operation checks. What was found right is remembered with the event."""

    __slots__ = ("_path", "_recorder")

    def __init__(self, recorder: Any, path: Path) -> None:
        self._recorder = recorder
        self._path = path

    def demands(self, op: Op, inputs: tuple[Any, ...], instr: Instr) -> tuple[Look, ...] | None:
        """What must be looked at whenever the operation is called; None if the segment must end first."""
        if not op.checks_values:
            return ()
        avals = tuple(x._aval if isinstance(x, TensorBase) else None for x in inputs)
        looks = []
        for position, demand in demands_of(op, avals, instr.params):
            x = inputs[position]
            if not isinstance(x, TensorBase) or self._has_value(x):
                looks.append(Look(demand, position))
                continue
            history = self._path.live()
            if not isinstance(demand, Within):
                return None
            needs = _ranges.enough_for(history, instr.inputs[position], demand)
            if needs is None or any(need.vid not in self._recorder.buffers for need in needs):
                return None
            for vid, low, high in needs:
                is_same = (low, high) == (demand.low, demand.high)
                looks.append(Look(demand if is_same else Within(low, high), -1, vid, history.aval_of(vid)))
        return tuple(looks)

    def _has_value(self, tensor: Any) -> bool:
        """Whether what is in the tensor's memory is its value."""
        storage = tensor._storage
        return storage is not None and storage.addr != 0 and id(storage) not in self._recorder.dirty

    def pause(self, key: Any, mark: Mark | None) -> TrieNode:
        """From now on, the segment ends before the operation of ``key``."""
        return self._path.pause(key, PauseEvent(), mark)

    def meets(self, event: Any, inputs: tuple[Any, ...]) -> bool:
        """Whether the operation of an event with demands can be recorded."""
        if event.is_pause:
            return False
        recorder, passed = self._recorder, event.passed
        for nr, (demand, position, vid, aval) in enumerate(event.demands):
            x: Any = inputs[position] if position >= 0 else recorder.inputs.get(vid)
            if position >= 0 and not isinstance(x, TensorBase):
                if not demand(np.asarray(x)):
                    return False
                continue
            storage = x._storage if position >= 0 else recorder.buffers[vid]
            version = None if x is None else version_of(x)
            known = passed[nr]
            if known is not None and known[0]() is storage and known[1] == version is not None:
                continue
            values = x._array if position >= 0 else None
            if not demand(storage.array(x._aval if position >= 0 else aval) if values is None else values):
                return False
            passed[nr] = (ref(storage), version)
        return True


_WITHIN_ONE = frozenset({"sigmoid", "_softmax", "hardsigmoid"})


def must_raise_now(history: History, instr: Instr) -> bool:
    """Whether the segment must end after an operation that floating values may make raise, so that it does so here.

    Not after ``binary_cross_entropy`` of what a sigmoid has just computed: nothing is wrong with that.
    """
    if not instr.op.checks_reals:
        return False
    vid = instr.inputs[0]
    while instr.op.name == "binary_cross_entropy" and vid in history.defs:
        source = history.defs[vid][0]
        if source.op.name in _WITHIN_ONE:
            return False
        if not (source.op.is_view or source.op.name in _ranges.MOVING):
            break
        vid = source.inputs[0]
    return True


_FEW = 4096  # values that a hit looks at anew; of more, what was looked at is remembered


def may_hits_look(node: Any, event: Any, inputs: tuple[Any, ...]) -> bool:
    """Whether a hit of an operation can see by itself that its demands are met; ``TrieNode.bounds`` then says how."""
    rows = [_bounds_of(look, inputs) for look in event.demands]
    if rows:
        node.bounds = None if None in rows else tuple(rows)
    return None not in rows


def _bounds_of(look: Look, inputs: tuple[Any, ...]) -> Bounds | None:
    """What a hit of an operation looks at; None if that is too much for it."""
    aval = look.aval
    if look.position >= 0:
        aval = inputs[look.position]._aval if isinstance(inputs[look.position], TensorBase) else None
    return bounds_for(look, aval)


def bounds_for(look: Look, aval: Any) -> Bounds | None:
    """``TrieNode.bounds`` of one look at values laid out as ``aval``; None if that is too much for a hit."""
    demand, position, vid, _ = look
    if not isinstance(demand, Within) or aval is None:
        return None
    if aval.dtype is not int64 or not aval.is_contiguous or aval.numel > _FEW:
        return None
    allowed = demand.low if demand.allowed is None else demand.allowed
    return position, aval.offset * aval.dtype.itemsize, aval.numel, demand.low, demand.high, allowed, vid


def must_pause(event: Any) -> bool:
    """Of an event whose demands are not met: whether the operation may still be fine, once the segment has ended."""
    return event.is_pause or any(look.position < 0 for look in event.demands)
