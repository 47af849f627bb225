"""Recording while NumPy arrays look at the memory of tensors.

Owns: ``SharedMemoryHandler`` and ``Share``.
Must not know: which function has handed out the memory.

# Note [Shared memory]
# ~~~~~~~~~~~~~~~~~~~~
# ``x.numpy()`` and ``from_numpy(array)`` share memory that Python may write at any moment, unseen. An operation that is
# recorded reads its operands when its segment ends, which would be too late. So in a step, both end the segment, and as
# long as such an array lives this handler stands in front of the recorder: an operation that has the shared storage
# among its operands or targets ends its segment at once. Example: in ``a = x.detach().numpy(); y = x * 2; a[...] = 7``,
# the product runs before the assignment. Operations on other tensors are recorded as ever.
# The base of an array that ``numpy()`` returns is a ``Share``, and so is, on some way, the base of its views: when the
# ``Share`` has died, nobody can write any more. Of an array that Python made itself the tensor counts, unless the
# references tell that nobody else holds the array, as in ``from_numpy(rng.random(8))``: then this handler steps aside
# at the first operation. An array whose memory no tensor had before ends no segment when it comes.
# Arrays from before the call are not looked for: that would cost a look at every input of every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import ref

import numpy as np

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.handler import ForwardingHandler
from jitgrad.state import state, switch_handler
from jitgrad.tensor_base import TensorBase

__all__ = ["Share", "SharedMemoryHandler", "share"]


class Share:
    """What an array from a step has as its base."""

    __slots__ = ("__array_interface__", "__weakref__", "array")

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


def share(recorder: Any, tensor: Any, owner: Any) -> None:
    """From now on somebody may write to ``tensor``'s memory, as long as ``owner`` lives."""
    if not isinstance(state.handler, SharedMemoryHandler):
        switch_handler(SharedMemoryHandler(state.handler, recorder.tid, recorder.backend.root_of))
    front: Any = state.handler
    front.add(tensor, owner)


class SharedMemoryHandler(ForwardingHandler):
    """Ends the segment after every operation on memory that is shared, see Note [Shared memory]."""

    __slots__ = ("_behind", "_owners", "_root_of", "tid")

    def __init__(self, behind: Any, tid: int, root_of: Callable[[Any], Any]) -> None:
        self._behind = behind
        self._owners: list[tuple[ref[Any], Any]] = []  # (the array or tensor that may write, the storage)
        self._root_of = root_of
        self.tid = tid

    def pass_on(self, name: str, *args: Any) -> Any:
        return getattr(self._behind, name)(*args)

    def add(self, tensor: Any, owner: Any) -> None:
        self._owners.append((ref(owner), self._root_of(tensor._storage)))

    def _is_shared(self, operands: Iterable[Any]) -> bool:
        """Whether one of the operands is in shared memory. If none is left anywhere, this handler steps aside."""
        self._owners = [
            (owner, storage)
            for owner, storage in self._owners
            if owner() is not None and not _is_out_of_reach(owner(), storage)
        ]
        if not self._owners:
            if state.handler is self:
                switch_handler(self._behind)
            return False
        shared = {id(storage) for _, storage in self._owners}
        storages = [x._storage for x in operands if isinstance(x, TensorBase) and x._storage is not None]
        return any(id(self._root_of(storage)) in shared for storage in storages)

    def _done(self, operands: Iterable[Any], result: Any) -> Any:
        if self._is_shared(operands):
            self._behind.flush()
        return result

    def binary(self, op: Any, a: Any, b: Any) -> Any:
        return self._done((a, b), self._behind.binary(op, a, b))

    def reflected(self, op: Any, number: int | float, x: Any) -> Any:
        return self._done((x,), self._behind.reflected(op, number, x))

    def apply(self, op: Any, args: tuple[Any, ...]) -> Any:
        result = self._behind.apply(op, args)
        return result if op.is_view else self._done(args[0] if op.num_inputs < 0 else args, result)

    def apply_inplace(self, op: Any, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        operands = args[0] if op.num_inputs < 0 else args
        result: tuple[Any, ...] = self._done((*targets, *operands), self._behind.apply_inplace(op, targets, args))
        return result

    def apply_update(self, op: Any, rows: Any, writes: Any, numbers: Any, params: Any) -> None:
        self._behind.apply_update(op, rows, writes, numbers, params)
        self._done((x for row in rows for x in row), None)

    def repeat_backward(self, root: Any, keep_graph: bool, create_graph: bool) -> bool:
        """Never quickly: ``record_backward`` does it."""
        return False

    def record_backward(self, request: Any) -> Any:
        """A backward may read and write anything that is shared."""
        result = self._behind.record_backward(request)
        if self._owners:
            self._behind.flush()
        return result

    def saved_hooks_changed(self) -> None:
        """The handler behind may put another one into the slot, or step aside: this one stays in front."""
        switch_handler(self._behind)
        self._behind.saved_hooks_changed()
        self._behind = switch_handler(self)


def _is_out_of_reach(owner: Any, storage: Any) -> bool:
    """Whether an array that a tensor was made of is held by the tensor and its storage alone."""
    array = storage.owner
    if not isinstance(owner, TensorBase) or type(array) is not np.ndarray or array.base is not None:
        return False
    return references(array) <= ONE_LOCAL + 1 + (owner._array is array)
