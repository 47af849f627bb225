"""Hits: what a call does that an earlier call has done before.

Owns: the rules of a hit of operations, each once, in the subset of Note [Native Python].
Must not know: misses. ``MISSED`` or False says that the general way must be taken; nothing has happened then, but that
inputs were entered.

# Note [Hits]
# ~~~~~~~~~~~
# A trie node keeps the child that was taken last, and links its children. A hit compares the event at hand with that
# child: the operation by identity, operands by their value ids, also by identity (an id is one int object, the trie's,
# on every handle that has it), params by ``same``. A step that repeats makes one such comparison per event, and no
# tuple, dictionary or int. Example: for ``z = x * y`` it is ``child.op is MUL and x._vid is child.ids[0] and y._vid is
# child.ids[1]``. Only if no child fits, the general way builds the key and looks into ``children``.
# A constant number among the operands stands in ``ids`` as ``(number,)``, so that it is no value id; one that is a
# run-time scalar as its type.
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import (
    active,
    inlined,
    is_atomic,
    is_word,
    native,
    new_handle,
    once_per_call,
    optimized,
    packed_rest,
    same,
    take_out,
    within,
)
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.state import autocasts, override_classes, plain_tensors
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.entry_hits import hit_enter
from jitgrad.tracer.hits.growth import grow
from jitgrad.tracer.hits.search_hits import following, likeliest, taken
from jitgrad.tracer.hits.view_hits import makes_stub, note_source
from jitgrad.tracer.recording.keys import MARK, MISSED, Args
from jitgrad.tracer.recording.recorder_state import LATEST, RUNNING, RecorderState
from jitgrad.tracer.recording.trie import TrieNode

__all__ = [
    "MISSED",
    "Args",
    "are_ours",
    "follow",
    "has_values",
    "hit_apply",
    "hit_binary",
    "hit_mark",
    "is_operand",
    "is_ours",
    "memory_has",
    "multiply",
    "new_result_handle",
    "note_number",
    "operate",
    "overrides",
    "rank_of",
    "step_to",
    "takes",
    "takes_all",
    "through_door",
]  # fmt: skip

# --- operands ---


@inlined
def takes(want: Any, x: Any) -> bool:
    """Whether an operand is what ``TrieNode.ids`` says at its place."""
    if type(want) is tuple:
        constant: tuple = want
        return same(x, constant[0])
    if isinstance(x, TensorBase):
        return x._vid is want
    if want is int:
        return type(x) is int and is_word(x)
    return type(x) is want


@inlined
def began(recorder: RecorderState) -> None:
    """A call is recorded from now on."""
    LATEST[0] = recorder.tid
    RUNNING[recorder.tid] = recorder
    if len(RUNNING) != 1:
        LATEST[0] = 0


@inlined
def ended(tid: Any) -> None:
    """The call is over, or never began."""
    take_out(RUNNING, tid)


@native
def is_ours(recorder: RecorderState, x: Any) -> bool:
    """Whether an operand still has the stamp that ``is_operand`` saw, and so had it when value ids were compared.

    To be asked unless ``is_atomic()``: a call on another thread may have put its own stamp on it, see Note [Threads
    that share tensors].
    """
    return not isinstance(x, TensorBase) or x._tid is recorder.tid


@native
def are_ours(recorder: RecorderState, args: Args, count: int) -> bool:
    """``is_ours`` of the first ``count`` arguments."""
    for i in range(count):  # noqa: SIM110
        if not is_ours(recorder, args[i]):
            return False
    return True


@inlined
def is_operand(recorder: RecorderState, x: Any) -> bool:
    """Whether an operand is a value of the call, after entering it if it is new, or a plain number."""
    if type(x) is float or type(x) is int:
        return True
    if not isinstance(x, TensorBase):
        return False
    return x._tid is recorder.tid or hit_enter(recorder, x)


# --- operations ---


@inlined
def handle_of(recorder: RecorderState, node: TrieNode) -> Any:
    """A pending handle on the result of a node."""
    out: TensorBase = new_handle()
    out._tid = recorder.tid
    out._vid = node.vid
    out._aval = node.aval
    if node.requires_grad:
        out._requires_grad = True
        out._graph = recorder.graph
    else:
        out._requires_grad = False
    recorder.handles.append(out)
    return out


@inlined
def new_result_handle(recorder: RecorderState, vid: Any, aval: Any, requires_grad: Any) -> Any:
    """A pending handle on a value that is no node's only result."""
    out: TensorBase = new_handle()
    out._tid = recorder.tid
    out._vid = vid
    out._aval = aval
    out._requires_grad = requires_grad
    if requires_grad is True:
        out._graph = recorder.graph
    recorder.handles.append(out)
    return out


@inlined
def is_binary(child: TrieNode, op: Any, a: Any, b: Any) -> bool:
    """Whether a trie node is ``op(a, b)``."""
    if child.op is not op:
        return False
    ids: tuple = child.ids
    return takes(ids[0], a) and takes(ids[1], b)


@inlined
def find_binary(node: TrieNode, op: Any, a: Any, b: Any) -> TrieNode | None:
    """The child that is ``op(a, b)``, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if is_binary(child, op, a, b):
            return taken(node, child, tries)
        child = following(node, child, tries)
        tries += 1
    return None


@inlined
def note_number(recorder: RecorderState, want: Any, x: Any) -> None:
    """A number that is a run-time scalar of the path is one of this call."""
    if type(want) is type:
        recorder.scalars.append(x)


@optimized
def hit_binary(recorder: RecorderState, op: Any, a: Any, b: Any) -> Any:
    """``a op b`` of an operator."""
    if not (is_operand(recorder, a) and is_operand(recorder, b)):
        return MISSED
    node: TrieNode = find_binary(recorder.node, op, a, b)
    if node is None:
        return grow(recorder, op, (a, b), ())
    if not node.is_simple or node.is_view:
        return MISSED
    if not is_atomic() and not (is_ours(recorder, a) and is_ours(recorder, b)):
        return MISSED
    ids: tuple = node.ids
    note_number(recorder, ids[0], a)
    note_number(recorder, ids[1], b)
    recorder.node = node
    return handle_of(recorder, node)


@optimized
def takes_all(child: TrieNode, first: int, args: Args, count: int) -> bool:
    """Whether a trie node takes ``args``: ``count`` operands, which are in ``ids`` from place ``first`` on; params."""
    ids: tuple = child.ids
    params: tuple = child.params
    if len(params) != len(args) - count:
        return False
    for i in range(count):
        if not takes(ids[first + i], args[i]):
            return False
    for i in range(len(params)):  # noqa: SIM110
        if not same(params[i], args[count + i]):
            return False
    return True


@optimized
def fits(child: TrieNode, op: Any, args: Args, count: int) -> bool:
    """Whether a trie node is ``op(*args)``, of which the first ``count`` are operands."""
    return child.op is op and takes_all(child, 0, args, count)


@optimized
def find(node: TrieNode, op: Any, args: Args, count: int) -> TrieNode | None:
    """The child that is ``op(*args)``, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if fits(child, op, args, count):
            return taken(node, child, tries)
        child = following(node, child, tries)
        tries += 1
    return None


@native
def is_inside(recorder: RecorderState, node: TrieNode, args: Args) -> bool:
    """Whether the values that an operation checks are what it demands, see Note [Early checks]."""
    bounds: tuple = node.bounds
    for item in bounds:
        row: tuple = item
        place: int = int(row[0])
        if place >= 0:
            if not has_values(args[place], row):
                return False
        elif not older_has_values(recorder, row):
            return False
    return True


@native
def older_has_values(recorder: RecorderState, bounds: tuple) -> bool:
    """``has_values`` of the value with memory that an operand came from."""
    entered: list = recorder.entered
    at: int = recorder.caught
    while at < len(entered):  # not to catch up: the call can be left lightly then
        if int(entered[at + 2]) == int(bounds[6]):
            return memory_has(entered[at + 1], bounds)
        at += 3
    buffers: dict = recorder.buffer_table
    found = buffers.get(bounds[6])
    storage: StorageBase = found
    return memory_has(storage, bounds)


@native
def has_values(x: TensorBase, bounds: tuple) -> bool:
    """Whether the values of an operand are what one of ``TrieNode.bounds`` demands."""
    if x._source is not None:  # a view that is not linked lies where its source does
        return has_values(x._source, bounds)
    return memory_has(x._storage, bounds)


@native
def memory_has(storage: StorageBase, bounds: tuple) -> bool:
    """``has_values`` of what lies in a storage, which may be None."""
    if storage is None or int(storage.addr) == 0:
        return False
    first = int(storage.addr) + int(bounds[1])
    return within(first, int(bounds[2]), int(bounds[3]), int(bounds[4]), int(bounds[5]))


@optimized
def several_handles(recorder: RecorderState, node: TrieNode, source: Any) -> Any:
    """Pending handles on the results of an operation that has several."""
    made: list = []
    outs: tuple = node.outs
    for nr in range(len(outs)):
        told: tuple = outs[nr]
        handle = new_result_handle(recorder, told[0], told[1], told[2])
        out: TensorBase = handle
        if nr != 0 and told[2] is True:
            out._output_nr = nr
        if node.is_view:
            note_source(recorder, node, out, source)
        made.append(handle)
    return tuple(made)


@once_per_call
def first_of(args: Args, count: int) -> tuple:
    """The first arguments."""
    items: list = []
    for i in range(count):
        items.append(args[i])
    return tuple(items)


@optimized
def hit_apply(recorder: RecorderState, op: Op, args: Args) -> Any:
    """``op(*args)``: operands, then params."""
    count: int = op.num_inputs
    if count < 0 and len(args) != 0:
        return hit_list(recorder, op, args)
    if count < 1 or count > len(args):
        return MISSED
    for i in range(count):
        if not is_operand(recorder, args[i]):
            return MISSED
    node: TrieNode = find(recorder.node, op, args, count)
    if node is None:
        return grow(recorder, op, first_of(args, count), packed_rest(args, count))
    return follow(recorder, node, args, count)


@native
def hit_list(recorder: RecorderState, op: Op, args: Args) -> Any:
    """``op(tensors, *params)`` of an operation over a list of tensors."""
    if type(args[0]) is list:
        return hit_row(recorder, op, tuple(args[0]), packed_rest(args, 1))
    return hit_row(recorder, op, args[0], packed_rest(args, 1)) if type(args[0]) is tuple else MISSED


@native
def hit_row(recorder: RecorderState, op: Op, tensors: tuple, params: tuple) -> Any:
    """``hit_list`` of these tensors."""
    for x in tensors:
        if not isinstance(x, TensorBase) or not is_operand(recorder, x):
            return MISSED
    node: TrieNode = find_row(recorder.node, op, tensors, params)
    if node is None or not node.is_simple or node.is_view:
        return MISSED
    if not is_atomic():
        for x in tensors:
            if not is_ours(recorder, x):
                return MISSED
    recorder.node = node
    return handle_of(recorder, node)


@native
def find_row(node: TrieNode, op: Op, tensors: tuple, params: tuple) -> TrieNode | None:
    """The child that is ``op(tensors, *params)``, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if child.op is op and is_row(child, tensors) and same(child.params, params):
            return taken(node, child, tries)
        child = following(node, child, tries)
        tries += 1
    return None


@native
def is_row(child: TrieNode, tensors: tuple) -> bool:
    """Whether these are the operands of a trie node."""
    ids: tuple = child.ids
    if len(ids) != len(tensors):
        return False
    for i in range(len(ids)):
        x: TensorBase = tensors[i]
        if x._vid is not ids[i]:
            return False
    return True


@optimized
def follow(recorder: RecorderState, node: TrieNode | None, args: Args, count: int) -> Any:
    """Go on to the trie node that an operation on ``args`` was found to be, if to any: its result."""
    if node is None or not (node.is_simple or node.outs is not None):
        return MISSED
    if node.is_view and makes_stub(node.window, node.meta, args[0]):
        return MISSED
    if node.bounds is not None and not is_inside(recorder, node, args):
        return MISSED
    if not is_atomic() and not are_ours(recorder, args, count):
        return MISSED
    ids: tuple = node.ids
    for i in range(count):
        note_number(recorder, ids[i], args[i])
    if node.outs is None:
        return step_to(recorder, node, args[0])
    recorder.node = node
    return several_handles(recorder, node, args[0])


@inlined
def step_to(recorder: RecorderState, node: TrieNode, source: Any) -> Any:
    """Go on to a trie node that makes one result, a view of ``source`` if it is one."""
    recorder.node = node
    out = handle_of(recorder, node)
    if node.is_view:
        note_source(recorder, node, out, source)
    return out


@inlined
def hit_mark(recorder: RecorderState, key: Any) -> bool:
    """An event without operands or results, such as a change of the grad mode."""
    child: TrieNode = recorder.node.last
    if child is None or child.op is not MARK or child.key is not key:
        return False
    recorder.node = child
    return True


# --- where native code is called ---


@inlined
def overrides(x: Any) -> bool:
    """Whether an argument may be of a class that overrides functions."""
    return len(override_classes) != 0 and isinstance(x, TensorBase) and type(x) not in plain_tensors


@inlined
def may_be_operand(x: Any) -> bool:
    """Whether an operator may take it: nothing is entered for ``x == None``."""
    return type(x) is float or type(x) is int or isinstance(x, TensorBase)


@optimized
def operate(op: Any, swapped: Any, a: Any, b: Any) -> Any:
    """An operator of Tensor: ``op(a, b)``, or ``swapped(b, a)`` if there is such an operation and ``a`` is no tensor.

    A class that overrides operators is asked in Python.
    """
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or overrides(a) or overrides(b):
        return MISSED
    if not (may_be_operand(a) and may_be_operand(b)):
        return MISSED
    if swapped is None or isinstance(a, TensorBase):
        return hit_binary(recorder, op, a, b)
    return hit_binary(recorder, swapped, b, a)


@inlined
def rank_of(x: Any) -> int:
    """How many dimensions an operand has; -1 if it is no tensor."""
    if not isinstance(x, TensorBase):
        return -1
    aval: Aval = x._aval
    shape: tuple = aval.shape
    return len(shape)


@optimized
def multiply(op: Any, vector_op: Any, a: Any, b: Any) -> Any:
    """``a @ b`` of a matrix and a matrix (``op``) or a vector. Of others it begins with other operations, which enter
    its operands in their order; in an ``autocast`` block, too."""
    if autocasts or rank_of(a) != 2:
        return MISSED
    rank = rank_of(b)
    if rank == 2:
        return operate(op, None, a, b)
    return operate(vector_op, None, a, b) if rank == 1 else MISSED


@optimized
def through_door(op: Op, args: Args) -> Any:
    """``door.apply``."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy:
        return MISSED
    return hit_apply(recorder, op, args)
