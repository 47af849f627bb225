"""Gradients on their way through a plain backward: made to fit, and added up where several arrive.

Owns: ``PlainRun``, the state of one plain backward; ``merge_sums``, ``fitting``.
Must not know: which Node runs when (``plain_graph.py``).

Native code and Python run the same functions, Note [Eager in native code].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.cpython.primitives import blank, call_inside, eager_native, same
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager.direct import operate_now
from jitgrad.runtime.engine.graph.node import Node
from jitgrad.runtime.engine.graph.validate import fit
from jitgrad.runtime.engine.run.input_buffer import FEW, accumulate
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.hits import MISSED

__all__ = ["PartialSums", "PlainRun", "fitting", "merge_sums"]

_ADD, _np_add = OPS["add"], np.add


class PlainRun:
    """The state of one plain backward.

    Attributes:
        dependencies: gradients still to arrive, per Node.
        wanted: the Nodes on a path to an input, and whether they run; None: all do.
        captures: for Nodes whose gradients are asked for: number and place in ``captured`` in turn.
        captured: the gradients that are asked for.
        create_graph: the backward is part of the graph.
        waiting: what has arrived so far at Nodes that wait for more, as ``PartialSums``.
        heap: Nodes that are ready, as (-sequence number, arrival, Node, its gradients).
        leaves: what arrived at leaves that are ready: a leaf's Node, its gradient, the next one's Node ...
        upcoming: a Node that is ready and not in the heap; None: there is none.
        inputs: its gradients.
        arrival: its place among the Nodes that became ready.
        context: the thread's ``quiet.context``.
        num_ready: how many did.
        thread: the dictionary of ``current``.
        keep_graph: saved values stay in place.
        sources: ``CallProgram.sources`` of the program that ran last; None: the Node that runs is no call, or ran none.
        shown: the graph task that the user's code on the way finds; None: there is no such code.
    """

    __slots__ = (
        "arrival", "captured", "captures", "context", "create_graph", "dependencies", "heap", "inputs", "keep_graph",
        "leaves", "num_ready", "shown", "sources", "thread", "upcoming", "waiting", "wanted",
    )  # fmt: skip

    arrival: int
    captured: list[Any]
    captures: dict[Any, Any]
    context: Any
    create_graph: bool
    dependencies: dict[Any, int]
    heap: list[Any]
    inputs: Any
    keep_graph: bool
    leaves: list[Any]
    num_ready: int
    shown: Any
    sources: Any
    thread: dict[str, Any]
    upcoming: Any
    waiting: dict[Any, Any]
    wanted: dict[Any, Any] | None


class PartialSums:
    """What has arrived so far at a Node that waits for more: what ``InputBuffer`` is to the engine.

    Attributes:
        grads: a gradient per input of the Node, or None.
        owned: for each, whether it is one that nobody else knows, as a sum is, Note [Accumulating in place].
    """

    __slots__ = ("grads", "owned")

    grads: list[Any]
    owned: list[Any]


@eager_native
def merge_sums(task: PlainRun, target: Node, input_nr: int, grad: Any, missing: int, is_own: bool) -> Any:
    """Add a gradient to those that have arrived; returns them, in a list, if they are all.

    ``is_own``: nobody else knows the gradient.
    """
    waiting: dict[Any, Any] = task.waiting
    known = waiting.get(target)
    if known is None:
        first: PartialSums = blank(PartialSums)
        grads: list[Any] = []
        owned: list[Any] = []
        metadata: tuple[Any, ...] = target.input_metadata
        for i in range(len(metadata)):
            grads.append(grad if i == input_nr else None)
            owned.append(is_own if i == input_nr else False)
        first.grads = grads
        first.owned = owned
        waiting[target] = first
        return None
    sums: PartialSums = known
    if grad is not None:
        add_to_sums(task, sums, input_nr, grad)
    if missing > 0:
        return None
    waiting.pop(target)
    return sums.grads


@eager_native
def add_to_sums(task: PlainRun, sums: PartialSums, nr: int, grad: Any) -> None:
    """What ``InputBuffer.add`` does, on the CPU."""
    grads: list[Any] = sums.grads
    owned: list[Any] = sums.owned
    old = grads[nr]
    if old is None:
        grads[nr] = grad
        return
    grads[nr] = summed(task, old, grad, owned[nr] is True and not task.create_graph)
    owned[nr] = True


@eager_native
def summed(task: PlainRun, old: TensorBase, new: TensorBase, may_write: bool) -> Any:
    """``accumulate(old, new, may_write)``."""
    if may_write:
        aval: Aval = old._aval
        is_usual = aval is new._aval and old._array is not None and new._array is not None
        is_usual = is_usual and int(aval.numel) < FEW and aval.dtype.is_inexact and not aval.dtype.is_half
        if is_usual and call_inside(task.context, _np_add, (old._array, new._array, old._array)) is not None:
            return old
    else:
        made = operate_now(_ADD, None, old, new)
        if made is not MISSED:
            return made
    return accumulate(old, new, may_write)


@eager_native
def fitting(node: Node, nr: int, grad: TensorBase, expected: Aval) -> Any:
    """``fit(node, nr, grad, expected)``."""
    aval: Aval = grad._aval
    if aval is expected:
        return grad
    if same(aval.shape, expected.shape) and aval.dtype is expected.dtype and aval.device is expected.device:
        return grad
    return fit(node, nr, grad, expected)
