"""Hits of public functions and methods: what their fronts try, see Note [Native fronts].

Owns: these rules, once, in the subset of Note [Native Python]; ``CallForm``.
Must not know: which functions have fronts (``compiled/native_fronts.py``), what they do when a call is no hit.

Each function here is the front of some functions of Python, and says ``MISSED`` where it does nothing. What it answers
is what the function would have done by way of the door; it need not look at an argument as closely, because an event
that was recorded before had arguments that fit: the same operation on the same values with the same params is what
the function made of them then. Whether an operand may be a number is the function's own affair, so the row tells.
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import active, blank, native, optimized, same
from jitgrad.grad_mode import GradMode, no_grad
from jitgrad.ops.table import OPS, Op
from jitgrad.state import autocasts, override_classes, plain_tensors
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.end_hits import hit_backward
from jitgrad.tracer.hits import (
    MAX_SIBLINGS,
    MISSED,
    Args,
    follow,
    hit_mark,
    is_matrix,
    is_operand,
    may_be_operand,
    takes,
)
from jitgrad.tracer.recorder_state import RecorderState
from jitgrad.tracer.trie import TrieNode
from jitgrad.tracer.write_hits import hit_write

__all__ = ["FRONTS", "CallForm"]

_SELECT, _SLICE = OPS["select"], OPS["slice"]


class CallForm:
    """What a function does with so many arguments: one operation.

    Attributes:
        op: the operation.
        count: how many of the arguments are its operands, the first ones; the others are params.
        order: which argument each operand is; None: the first one is the first, and so on.
        tensors: how many operands, from the first on, must be tensors; the others may be numbers.
        extras: params behind those that are arguments.
        packs: the arguments behind the operands are one param, a tuple; they may also be given as a tuple.
        matrices: how many arguments, from the first on, must have two dimensions: with others, the function does
            something else.
        casts: ``autocast`` changes it.
    """

    __slots__ = ("casts", "count", "extras", "matrices", "op", "order", "packs", "tensors")

    casts: bool
    count: int
    extras: tuple[Any, ...]
    matrices: int
    op: Op
    order: tuple[int, ...] | None
    packs: bool
    tensors: int

    def __init__(
        self,
        op: Op,
        tensors: int,
        extras: tuple[Any, ...] = (),
        packs: bool = False,
        matrices: int = 0,
        order: tuple[int, ...] | None = None,
    ) -> None:
        self.op = op
        self.count = op.num_inputs
        self.tensors = tensors
        self.extras = extras
        self.packs = packs
        self.matrices = matrices
        self.order = order
        self.casts = matrices > 0


# --- operations ---


@optimized
def overrides(x: Any) -> bool:
    """Whether an argument may be of a class that overrides functions."""
    return len(override_classes) != 0 and isinstance(x, TensorBase) and type(x) not in plain_tensors


@optimized
def takes_packed(sizes: tuple, args: Args, first: int) -> bool:
    """Whether a param is the arguments from one place on, or the tuple that is the only one of them."""
    count = len(args) - first
    if count == 1 and same(sizes, args[first]):
        return True
    if len(sizes) != count:
        return False
    for i in range(count):  # noqa: SIM110
        if not same(sizes[i], args[first + i]):
            return False
    return True


@optimized
def takes_params(params: tuple, form: CallForm, args: Args, count: int) -> bool:
    """Whether an event's params are those of a call."""
    if form.packs:
        return len(params) == 1 and takes_packed(params[0], args, count)
    given = len(args) - count
    extras: tuple = form.extras
    if len(params) != given + len(extras):
        return False
    for i in range(given):
        if not same(params[i], args[count + i]):
            return False
    for i in range(len(extras)):  # noqa: SIM110
        if not same(params[given + i], extras[i]):
            return False
    return True


@optimized
def place_of(form: CallForm, i: int) -> int:
    """Which argument an operand is."""
    order: tuple = form.order
    if order is None:
        return i
    return int(order[i])


@optimized
def is_call(child: TrieNode, form: CallForm, args: Args, count: int) -> bool:
    """Whether a trie node is what a call does."""
    if child.op is not form.op:
        return False
    ids: tuple = child.ids
    for i in range(count):
        if not takes(ids[i], args[place_of(form, i)]):
            return False
    return takes_params(child.params, form, args, count)


@optimized
def find_call(node: TrieNode, form: CallForm, args: Args, count: int) -> Any:
    """The child that is what a call does, or None."""
    child: TrieNode = node.last
    if child is not None and is_call(child, form, args, count):
        return child
    child = node.first
    tries = 0
    while child is not None and tries < MAX_SIBLINGS:
        if is_call(child, form, args, count):
            node.last = child
            return child
        child = child.sibling
        tries += 1
    return None


@optimized
def hit_call(form: CallForm, args: Args) -> Any:
    """A call that is one operation."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or (form.casts and autocasts):
        return MISSED
    count: int = form.count
    tensors: int = form.tensors
    if len(args) < count:
        return MISSED
    matrices: int = form.matrices
    for i in range(tensors):
        if overrides(args[i]) or not isinstance(args[i], TensorBase) or (i < matrices and not is_matrix(args[i])):
            return MISSED
    for i in range(count):
        x = args[place_of(form, i)]
        if overrides(x) or not is_operand(recorder, x):
            return MISSED
    return follow(recorder, find_call(recorder.node, form, args, count), args, count)


@optimized
def call(row: tuple, args: Args) -> Any:
    """A function whose operation depends on the number of its arguments: ``row`` has a form for each, or None."""
    if len(args) >= len(row) or row[len(args)] is None:
        return MISSED
    return hit_call(row[len(args)], args)


@optimized
def call_with_sizes(row: CallForm, args: Args) -> Any:
    """A method that takes any number of sizes."""
    return hit_call(row, args)


@optimized
def write(row: tuple, args: Args) -> Any:
    """An in-place method: ``row`` has an operation for each number of arguments, or None; all are its operands."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or len(args) >= len(row) or row[len(args)] is None:
        return MISSED
    for i in range(len(args)):
        if overrides(args[i]) or not may_be_operand(args[i]):
            return MISSED
    target = args[0]
    if isinstance(target, TensorBase) and hit_write(recorder, row[len(args)], target, args):
        return target
    return MISSED


# --- indexing ---


@optimized
def is_item(child: TrieNode, x: TensorBase, index: Any) -> bool:
    """Whether a trie node is ``x[index]``, of an int or a slice without a step."""
    ids: tuple = child.ids
    params: tuple = child.params
    if type(index) is int:
        return child.op is _SELECT and ids[0] is x._vid and same(params[0], 0) and same(params[1], index)
    if child.op is not _SLICE or ids[0] is not x._vid or not same(params[0], 0) or not same(params[3], 1):
        return False
    return same(params[1], index.start) and same(params[2], index.stop)


@optimized
def get_item(row: Any, args: Args) -> Any:
    """``x[3]`` and ``x[1:3]``."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or len(args) != 2:
        return MISSED
    index = args[1]
    if type(index) is not int and (type(index) is not slice or index.step is not None):
        return MISSED
    if overrides(args[0]) or not isinstance(args[0], TensorBase) or not is_operand(recorder, args[0]):
        return MISSED
    node: TrieNode = recorder.node
    child: TrieNode = node.last
    if child is not None and is_item(child, args[0], index):
        return follow(recorder, child, args, 1)
    child = node.first
    tries = 0
    while child is not None and tries < MAX_SIBLINGS:
        if is_item(child, args[0], index):
            node.last = child
            return follow(recorder, child, args, 1)
        child = child.sibling
        tries += 1
    return MISSED


# --- gradients ---


@native
def call_backward(row: Any, args: Args) -> Any:
    """``loss.backward()``."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or len(args) != 1 or not isinstance(args[0], TensorBase):
        return MISSED
    root: TensorBase = args[0]
    if root._tid is not recorder.tid:
        return MISSED
    recorder.busy = True
    is_hit = hit_backward(recorder, root, False, False)
    recorder.busy = False
    return None if is_hit else MISSED


@optimized
def get_grad(row: Any, args: Args) -> Any:
    """``leaf.grad`` that is there, also outside a step."""
    if len(args) != 1 or not isinstance(args[0], TensorBase):
        return MISSED
    x: TensorBase = args[0]
    return MISSED if x._grad is None else x._grad


@native
def new_no_grad(row: Any, args: Args) -> Any:
    """``no_grad()``, also outside a step."""
    if len(args) != 1 or args[0] is not no_grad:
        return MISSED
    made: GradMode = blank(args[0])
    made._outer = None
    return made


@native
def enter_no_grad(row: Any, args: Args) -> Any:
    """The beginning of a ``no_grad`` block."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or type(args[0]) is not no_grad:
        return MISSED
    thread: dict = recorder.thread
    enabled = thread.get("grad_enabled")
    if enabled is None or (enabled is True and not hit_mark(recorder, False)):
        return MISSED
    mode: GradMode = args[0]
    mode._outer = (enabled, mode._outer)
    thread["grad_enabled"] = False
    return None


@native
def exit_no_grad(row: Any, args: Args) -> Any:
    """Its end."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or type(args[0]) is not no_grad:
        return MISSED
    mode: GradMode = args[0]
    before: tuple = mode._outer
    thread: dict = recorder.thread
    if thread.get("grad_enabled") is not before[0]:
        if recorder.stubs.unlinked or not hit_mark(recorder, before[0]):
            return MISSED
        thread["grad_enabled"] = before[0]
    mode._outer = before[1]
    return None


FRONTS = (
    call, call_with_sizes, write, get_item, call_backward, get_grad, new_no_grad, enter_no_grad, exit_no_grad,
)  # fmt: skip
"""The fronts that are installed in functions."""
