"""Errors that depend on values, found while the step is being recorded.

Owns: ``EarlyChecks``, the part of a recorder that looks at indices before an operation is recorded.
Must not know: which operation asks for what (``ops/value_checks.py``).

# Note [Early checks]
# ~~~~~~~~~~~~~~~~~~~
# An index out of range must raise at its statement: by the end of the segment, Python has gone on, has replaced
# gradients and stepped optimizers. So an operation that checks values has its demands looked at when it is called, cold
# or warm; if they are not met, the segment ends and the operation runs eagerly, which raises. An index nearly always
# comes from outside; where it was looked at and has not been written since, it is not looked at again. One that the
# open segment computes has no value yet: if its operation says enough (``argmax``), that does; else the segment ends
# before the operation that uses it (``PauseEvent``). The kernels still check: memory can change unseen.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from jitgrad.ops.table import Op
from jitgrad.ops.value_checks import Demand, Within, demands
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.graph import Const, Instr
from jitgrad.tracer.history import History, PauseEvent
from jitgrad.tracer.inputs import Inputs
from jitgrad.tracer.numbers import Mark
from jitgrad.tracer.trie import OTHER, Trie, TrieNode

__all__ = ["EarlyChecks"]


class EarlyChecks(Inputs):
    """Looks at values that an operation checks."""

    __slots__ = ()

    def _demands(self, op: Op, inputs: tuple[Any, ...], instr: Instr) -> tuple[Demand, ...] | None:
        """What must be looked at whenever the operation is called; None if the segment must end first."""
        if not op.checks_values:
            return ()
        avals = tuple(x._aval if isinstance(x, TensorBase) else None for x in inputs)
        wanted = []
        for position, demand in demands(op, avals, instr.params):
            x = inputs[position]
            if not isinstance(x, TensorBase) or self._has_value(x):
                wanted.append((position, demand))
            elif not _is_implied(self._live(), instr.inputs[position], demand):
                return None
        return tuple(wanted)

    def _has_value(self, tensor: Any) -> bool:
        """Whether what is in the tensor's memory is its value."""
        storage = tensor._storage
        return storage is not None and storage.addr != 0 and id(storage) not in self._dirty

    def _pause(self, key: Any, mark: Mark | None) -> TrieNode:
        """From now on, the segment ends before the operation of ``key``. No path goes through such a node."""
        node = self.trie.grow(self.node, key, PauseEvent())
        node.special = OTHER
        self.misses += 1
        self._numbers.follow(node, mark)
        return Trie.publish(node)

    def _meets(self, event: Any, inputs: tuple[Any, ...]) -> bool:
        """Whether the operation of an event with demands can be recorded."""
        if event.is_pause:
            return False
        passed = event.passed
        for nr, (position, demand) in enumerate(event.demands):
            x = inputs[position]
            if not isinstance(x, TensorBase):
                if not demand(np.asarray(x)):
                    return False
                continue
            storage, version = x._storage, x._vc[0]
            known = passed[nr]
            if known is not None and known[0]() is storage and known[1] == version:
                continue
            if not demand(storage.array(x._aval)):
                return False
            passed[nr] = (ref(storage), version)
        return True


_SAME_VALUES = frozenset({"clone", "contiguous", "detach", "flip", "roll", "repeat"})


def _is_implied(history: History, vid: int, demand: Any) -> bool:
    """Whether the operations that the open segment computes an index by cannot give any other."""
    if not isinstance(demand, Within):
        return False
    while vid in history.defs:
        instr, nr = history.defs[vid]
        op, source = instr.op, instr.input_avals[0] if instr.input_avals else None
        if op.name in ("argmax", "argmin", "max_dim", "min_dim"):
            if source is None or (nr == 0) is (op.name in ("max_dim", "min_dim")):
                return False
            dim = instr.params[0]
            return (source.numel if dim is None else source.shape[dim] if source.ndim else 1) <= demand.high
        if op.name == "arange":
            start, end, step = instr.params[:3]
            return bool(step > 0 and start >= demand.low and end <= demand.high)
        if op.name == "_to_copy" and source is not None and source.dtype.category == 0:
            return demand.low <= 0 and demand.high > 1
        is_same = op.is_view or op.name in _SAME_VALUES
        is_same = is_same or (op.name == "_to_copy" and source is not None and source.dtype.category == 1)
        if not is_same or isinstance(instr.inputs[0], Const):
            return False
        vid = instr.inputs[0]
    return False
