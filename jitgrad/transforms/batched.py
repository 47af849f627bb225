"""``BatchedTensor``: what one example looks like, inside ``vmap``.

Owns: the handle, and moving between it and the whole batch.
Must not know: batching rules.

A handle has the shape of one example; ``_physical`` is the whole batch, whose first dimension counts the examples.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops.aval import make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.overrides import disabled_torch_function
from jitgrad.tensor import Tensor
from jitgrad.transforms.level import Level
from jitgrad.version_counter import count_write

__all__ = ["BatchedTensor", "Batching", "nests"]


class BatchedTensor(Tensor):
    """One example of a batch.

    Attributes:
        _level: the ``vmap`` it belongs to.
        _physical: [batch, *shape].
    """

    __slots__ = ("_level", "_physical")
    __torch_function__: Any = classmethod(disabled_torch_function)

    _level: Any
    _physical: Any

    def is_inference(self) -> bool:
        """Whether the whole batch was made in ``inference_mode``."""
        made_so: bool = self._level.beneath(self._physical.is_inference)
        return made_so

    def __repr__(self) -> str:
        return f"BatchedTensor(lvl={self._level.depth}, bdim=0, value=\n{self._physical!r}\n)"


def nests(level: Any, x: Any) -> bool:
    """Whether ``x`` is batched at ``level``, at whatever depth."""
    while isinstance(x, BatchedTensor):
        if x._level is level:
            return True
        x = x._physical
    return False


class Batching(Level):
    """The half of a ``vmap`` level that wraps and unwraps.

    Attributes:
        size: of the batch.
        depth: how many ``vmap`` are active, with this one.
        maps_values: False if only tangents are batched, as in ``jacfwd``: no value ever is, then.
    """

    def __init__(self, size: int, maps_values: bool = True) -> None:
        super().__init__()
        self.size = size
        self.maps_values = maps_values
        below, depth = self.below, 1
        while isinstance(below, Level):
            depth += isinstance(below, Batching)
            below = below.below
        self.depth = depth
        self.tid = -1 - depth

    def wrap(self, physical: Any) -> Any:
        """The handle on one example of ``physical``."""
        aval = physical._aval
        handle = BatchedTensor.__new__(BatchedTensor)
        handle._aval = make_aval(aval.shape[1:], aval.dtype).on(aval.device)
        handle._level, handle._physical = self, physical
        handle._tid, handle._vc = self.tid, physical._vc
        self.renew(handle)
        return handle

    def renew(self, handle: Any) -> None:
        """Copy the graph's side of the batch to its handle."""
        physical = handle._physical
        handle._requires_grad = physical.requires_grad
        handle._graph = self if handle._requires_grad and not physical.is_leaf else None

    def replace(self, handle: Any, other: Any) -> None:
        """A handle stands for another batch from here on, which counts as a write."""
        handle._aval, handle._physical = other._aval, other._physical
        handle._vc = other._vc
        count_write(handle)
        self.renew(handle)

    def attach(self, tensor: Any) -> None:
        """A handle's ``grad_fn``, when it is looked at from another level."""
        tensor._grad_fn = self.beneath(lambda: tensor._physical.grad_fn)

    def expanded(self, x: Any) -> Any:
        """The batch that consists of ``x`` only, as often as there are examples."""
        return call("expand", call("unsqueeze", x, 0), (self.size, *x._aval.shape))

    def physical(self, x: Any) -> Any:
        """The batch behind a handle of this level; any other tensor, repeated."""
        if isinstance(x, BatchedTensor) and x._level is self:
            return x._physical
        return self.expanded(x)

    def lower(self, x: Any) -> Any:
        """``x`` as it looks beneath this level, with the batch as its first dimension.

        ``x`` may be a handle of levels above this one: those stay, around the larger tensor.
        """
        if not isinstance(x, BatchedTensor) or x._level is self or not nests(self, x):
            return self.physical(x)
        above = x._level
        return above.wrap(call("transpose", self.lower(x._physical), 0, 1))

    def lift(self, x: Any) -> Any:
        """The inverse of ``lower``."""
        if isinstance(x, BatchedTensor) and x._level.depth > self.depth:
            return x._level.wrap(self.lift(call("transpose", x._physical, 0, 1)))
        return self.wrap(x)
