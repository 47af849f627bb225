"""Arguments that are views at changing offsets.

Owns: ``Batches``: the tensors that a call gets instead of such arguments, and what becomes of them afterwards.

# Note [Batches of a data set]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# ``step(data[i : i + 64])`` passes the same window on other memory at every call. Where a tensor begins in its storage
# is part of its layout, and the layout of the call's path: each offset would be a path of its own. So an argument that
# is such a view outside any graph, or in a tuple that is an argument, is replaced for the call by a tensor over a
# ``StorageWindow``, which begins where the view does, under the view's own version counter. The recorder takes a
# window and its storage for what they are: one slot holds the handles of both, and while a call knows more than one of
# them (``Slot.is_family``), writes to any of them are done outside.
# The function must not find out. If it returns the argument, the caller gets the tensor that was passed. A function
# that makes its argument a leaf gets its arguments as they are from then on.
"""

from __future__ import annotations

from typing import Any

from jitgrad.devices import CPU
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.storage.storage import Storage, StorageWindow
from jitgrad.tensor_base import TensorBase, new_tensor, tensor_class

__all__ = ["Batches"]

_AUTOGRAD_STATE = ("_requires_grad", "_grad", "_hooks", "_post_accumulate_hooks", "_grad_fn", "_graph", "_accumulator")


class Batches:
    """What one compiled function does with arguments that are views.

    Attributes:
        are_rebased: whether they are replaced. The first call gets its arguments as they are, and tells.
    """

    __slots__ = ("are_rebased",)

    def __init__(self) -> None:
        self.are_rebased: bool | None = None

    def swap(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
        """(positional arguments, keyword arguments, pairs of a passed tensor and the one that stands in for it)."""
        swapped: list[Any] = []
        if self.are_rebased:
            args = tuple([_moved(x, swapped) for x in args])
            if kwargs:
                kwargs = {name: _moved(x, swapped) for name, x in kwargs.items()}
        elif self.are_rebased is None:
            given = [y for x in (*args, *kwargs.values()) for y in (x if type(x) is tuple else (x,))]
            swapped = [(x, x) for x in given if isinstance(x, TensorBase) and not x._requires_grad]
        return args, kwargs, swapped

    def settle(self, swapped: list[Any]) -> None:
        """The call is over: what it did to a stand-in was meant for the tensor that was passed."""
        kept_out = True
        for passed, stand_in in swapped:
            if stand_in._requires_grad or stand_in._grad is not None:
                kept_out = False
                for name in _AUTOGRAD_STATE if passed is not stand_in else ():
                    setattr(passed, name, getattr(stand_in, name))
        self.are_rebased = kept_out and self.are_rebased is not False

    @staticmethod
    def returned(result: Any, swapped: list[Any]) -> Any:
        """The function's result, with passed tensors for their stand-ins."""
        passed = {id(stand_in): x for x, stand_in in swapped}
        if id(result) in passed:
            return passed[id(result)]
        if type(result) in (tuple, list):
            return type(result)([passed.get(id(x), x) for x in result])
        if type(result) is dict:
            return {name: passed.get(id(x), x) for name, x in result.items()}
        return result


def _may_move(x: Any) -> bool:
    """Whether an argument is a view that begins somewhere in its storage, outside any graph."""
    return (
        type(x) is tensor_class()
        and x._aval.offset != 0
        and x._aval.device is CPU
        and type(x._storage) is Storage
        and x._storage.addr != 0
        and not x.requires_grad
        and x._grad is None
    )


def _moved(x: Any, swapped: list[Any]) -> Any:
    """An argument, or a tuple of them, with stand-ins for such views."""
    if type(x) is tuple and any(map(_may_move, x)):
        return tuple([_stand_in(y, swapped) if _may_move(y) else y for y in x])
    return _stand_in(x, swapped) if _may_move(x) else x


def _stand_in(x: Any, swapped: list[Any]) -> Any:
    """The same tensor at offset 0 of a window; one for each tensor, however often it is passed."""
    for passed, stand_in in swapped:
        if passed is x:
            return stand_in
    aval = x._aval
    window = StorageWindow(x._storage, aval.offset * aval.dtype.itemsize)
    stand_in = new_tensor(make_aval(aval.shape, aval.dtype, aval.stride), window)
    stand_in._vc = x._vc
    swapped.append((x, stand_in))
    return stand_in
