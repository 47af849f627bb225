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
#
# Note [Parts of a graph's tensors]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# ``for t in range(length): h = cell(x[:, t], h)`` passes views that come with a graph. Those get stand-ins, too, whose
# gradients go where the view's would. As long as nobody writes, that is all there is to it. A write, to the view or to
# its base, changes the histories of both, so a stand-in becomes a view of the base again (``become_views_of_base``)
# before it is written, and where it, or a view of it, is entered after the base was written, which its version tells.
# ``StorageBase.passed`` is the view that was passed. A view of a stand-in that the function returns becomes a view of
# the base as well.
"""

from __future__ import annotations

from typing import Any

from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.batch_hits import are_leaves, comes_back, moved
from jitgrad.tracer.recording.views_of_base import become_views_of_base

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
        """(positional arguments, keyword arguments, rows of a passed tensor, the one that stands in for it, and whether
        that requires grad)."""
        swapped: list[Any] = []
        if self.are_rebased:
            args = tuple([moved(x, swapped) for x in args])
            if kwargs:
                kwargs = {name: moved(x, swapped) for name, x in kwargs.items()}
        elif self.are_rebased is None:
            given = [y for x in (*args, *kwargs.values()) for y in (x if type(x) is tuple else (x,))]
            swapped = [(x, x, x._requires_grad) for x in given if isinstance(x, TensorBase)]
            swapped = [row for row in swapped if not row[2] or row[0]._aval.offset]
        return args, kwargs, swapped

    def settle(self, swapped: list[Any]) -> None:
        """The call is over: what it did to a stand-in was meant for the tensor that was passed."""
        has_leaves = are_leaves(swapped)
        if has_leaves:
            for passed, stand_in, required_grad in swapped:
                if passed is stand_in:
                    continue
                if required_grad:
                    passed._grad = stand_in._grad
                    if stand_in._retains_grad:
                        passed.retain_grad()
                elif stand_in._requires_grad or stand_in._grad is not None:
                    for name in _AUTOGRAD_STATE:
                        setattr(passed, name, getattr(stand_in, name))
        self.are_rebased = not has_leaves and self.are_rebased is not False

    @staticmethod
    def returned(result: Any, swapped: list[Any]) -> Any:
        """The function's result, with passed tensors for their stand-ins; a list or dictionary is the same object."""
        if not comes_back(result, swapped):
            return result
        for x, stand_in, requires_grad in swapped:
            if requires_grad and x is not stand_in:
                become_views_of_base([found for found in _tensors_in(result) if found._base is stand_in])
        passed = {id(stand_in): x for x, stand_in, _ in swapped}
        if type(result) is tuple:
            return tuple([passed.get(id(x), x) for x in result])
        if type(result) in (list, dict):
            for key, x in enumerate(result) if type(result) is list else result.items():
                if id(x) in passed:
                    result[key] = passed[id(x)]
            return result
        return passed.get(id(result), result)


def _tensors_in(result: Any) -> list[Any]:
    """The tensors that are a result, or directly in one."""
    items = result.values() if type(result) is dict else result if type(result) in (tuple, list) else (result,)
    return [x for x in items if isinstance(x, TensorBase)]
