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

from jitgrad.cpython.primitives import active, inlined, is_atomic, native, optimized, same
from jitgrad.dtypes import float32, float64
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import OPS, Op
from jitgrad.state import autocasts
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.hits import (
    MISSED,
    Args,
    follow,
    is_operand,
    is_ours,
    may_be_operand,
    overrides,
    rank_of,
    step_to,
    takes,
)
from jitgrad.tracer.hits.recall_hits import recall
from jitgrad.tracer.hits.search_hits import following, likeliest, taken
from jitgrad.tracer.hits.view_hits import makes_stub
from jitgrad.tracer.hits.write_hits import hit_write
from jitgrad.tracer.recording.recorder_state import RecorderState
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["OPERATION_FRONTS", "CallForm", "FrontRow"]

_SELECT, _SLICE, _UNSQUEEZE = OPS["select"], OPS["slice"], OPS["unsqueeze"]
_LOG_SOFTMAX = OPS["_log_softmax"]


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
        is_first: of several results, the function returns the first one.
    """

    NATIVE_LASTS = True
    NATIVE_FIXED = frozenset(("extras", "op", "order"))

    __slots__ = ("casts", "count", "extras", "is_first", "matrices", "op", "order", "packs", "tensors")

    casts: bool
    count: int
    extras: tuple[Any, ...]
    is_first: bool
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
        casts: bool = False,
        is_first: bool = False,
    ) -> None:
        self.op = op
        self.count = op.num_inputs
        self.tensors = tensors
        self.extras = extras
        self.packs = packs
        self.matrices = matrices
        self.order = order
        self.casts = casts or matrices > 0
        self.is_first = is_first


class FrontRow:
    """What a function does with its arguments: a ``CallForm`` or, of in-place methods, an operation per number of them.

    Attributes:
        differentiates: each of its calls has a backward in it.
        forms: of so many arguments by position; None: something else is done with them.
        named: of so many arguments, the last ones of which are given by their names.
        names: of all parameters.
        function: the function itself, if calls that are no single operation are to be remembered; else None.
    """

    NATIVE_LASTS = True
    NATIVE_FIXED = frozenset(("forms", "function", "named", "names"))

    __slots__ = ("differentiates", "forms", "function", "named", "names")

    differentiates: bool
    forms: tuple[Any, ...]
    function: Any
    named: tuple[Any, ...]
    names: tuple[str, ...]

    def __init__(self, forms: tuple[Any, ...], named: tuple[Any, ...], names: tuple[str, ...]) -> None:
        self.differentiates = False
        self.forms = forms
        self.function = None
        self.named = named
        self.names = names


# --- operations ---


@inlined
def form_of(row: FrontRow, args: Args, names: Any) -> CallForm | None:
    """What a function does with these arguments; None: nothing that a front knows.

    Names must be those of the parameters that follow the positional ones, in their order, as most calls have them. They
    are the same objects, because names in code are.
    """
    forms: tuple = row.forms
    count = len(args)
    if names is not None:
        given: tuple = names
        known: tuple = row.names
        forms = row.named
        first = count - len(given)
        if count > len(known):
            return None
        for i in range(len(given)):
            if given[i] is not known[first + i]:
                return None
    return None if count >= len(forms) else forms[count]


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


@inlined
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


@inlined
def place_of(form: CallForm, i: int) -> int:
    """Which argument an operand is."""
    order: tuple = form.order
    if order is None:
        return i
    return int(order[i])


@inlined
def is_call(child: TrieNode, form: CallForm, args: Args, count: int) -> bool:
    """Whether a trie node is what a call does."""
    if child.op is not form.op:
        return False
    ids: tuple = child.ids
    for i in range(count):
        if not takes(ids[i], args[place_of(form, i)]):
            return False
    return takes_params(child.params, form, args, count)


@inlined
def find_call(node: TrieNode, form: CallForm, args: Args, count: int) -> TrieNode | None:
    """The child that is what a call does, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if is_call(child, form, args, count):
            return taken(node, child, tries)
        child = following(node, child, tries)
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
        if overrides(args[i]) or not isinstance(args[i], TensorBase) or (i < matrices and rank_of(args[i]) != 2):
            return MISSED
    for i in range(count):
        x = args[place_of(form, i)]
        if overrides(x) or not is_operand(recorder, x):
            return MISSED
    out = follow(recorder, find_call(recorder.node, form, args, count), args, count)
    if form.is_first and out is not MISSED:
        results: tuple = out
        return results[0]
    return out


@optimized
def call(row: FrontRow, args: Args, names: Any) -> Any:
    """A function whose operation depends on the number of its arguments, or which does several."""
    form = form_of(row, args, names)
    if form is not None:
        out = hit_call(form, args)
        if out is not MISSED:
            return out
    return MISSED if row.function is None else recall(row, args, names)


@optimized
def call_with_sizes(row: CallForm, args: Args) -> Any:
    """A method that takes any number of sizes."""
    return hit_call(row, args)


@native
def find_softmax(node: TrieNode, vid: Any) -> TrieNode | None:
    """The child that is the logarithm of softmax over a value's dimension 1, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        ids: tuple = child.ids
        params: tuple = child.params
        if child.op is _LOG_SOFTMAX and ids[0] is vid and int(params[0]) == 1:
            return taken(node, child, tries) if child.is_simple else None
        child = following(node, child, tries)
        tries += 1
    return None


@native
def cross_entropy(rows: tuple, args: Args, names: Any) -> Any:
    """``rows``: the function that follows the logarithm of softmax; what ``recall`` must know of all other calls."""
    if names is None:
        loss = usual_cross_entropy(rows[0], args)
        if loss is not MISSED:
            return loss
    return recall(rows[1], args, names)


@native
def usual_cross_entropy(row: Any, args: Args) -> Any:
    """Of a matrix and a vector of class numbers: the logarithm of softmax, then what the function ``row`` does."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or autocasts or len(args) != 2:
        return MISSED
    if rank_of(args[0]) != 2 or rank_of(args[1]) != 1 or overrides(args[0]) or overrides(args[1]):
        return MISSED
    x: TensorBase = args[0]
    if not is_operand(recorder, x):
        return MISSED
    node: TrieNode = find_softmax(recorder.node, x._vid)
    if node is None or not (is_atomic() or is_ours(recorder, x)):
        return MISSED
    return row(step_to(recorder, node, x), args[1])


@optimized
def write(row: FrontRow, args: Args, names: Any) -> Any:
    """An in-place method, whose arguments are the operands of an operation."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy:
        return MISSED
    op: Any = form_of(row, args, names)
    if op is None:
        return MISSED
    for i in range(len(args)):
        if overrides(args[i]) or not may_be_operand(args[i]):
            return MISSED
    target = args[0]
    if isinstance(target, TensorBase) and hit_write(recorder, op, target, args):
        return target
    return MISSED


# --- indexing ---


@optimized
def is_item(child: TrieNode, vid: Any, dim: int, item: Any) -> bool:
    """Whether a trie node takes an int, a slice without a step, or None, as the index of a value's dimension."""
    params: tuple = child.params
    ids: tuple = child.ids
    if type(item) is int:
        return child.op is _SELECT and ids[0] is vid and int(params[0]) == dim and same(params[1], item)
    if item is None:
        return child.op is _UNSQUEEZE and ids[0] is vid and int(params[0]) == dim
    if child.op is not _SLICE or ids[0] is not vid or int(params[0]) != dim or int(params[3]) != 1:
        return False
    return same(params[1], item.start) and same(params[2], item.stop)


@optimized
def find_item(node: TrieNode, vid: Any, dim: int, item: Any) -> TrieNode | None:
    """The child that does so and is a usual view, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if is_item(child, vid, dim, item):
            return taken(node, child, tries) if child.is_simple and child.is_view else None
        child = following(node, child, tries)
        tries += 1
    return None


@inlined
def is_basic(item: Any) -> bool:
    """Whether an index is an int or a slice without a step."""
    return type(item) is int or (type(item) is slice and item.step is None)


@native
def consumed(items: tuple) -> int:
    """How many dimensions a tuple of indices takes; -1 if some index is no basic one, or there are several ``...``."""
    count = 0
    ellipses = 0
    for item in items:
        if is_basic(item):
            count += 1
        elif item is Ellipsis:
            ellipses += 1
        elif item is not None:
            return -1
    return -1 if ellipses > 1 else count


@native
def get_part(recorder: RecorderState, x: TensorBase, items: tuple) -> Any:
    """``x[:, 3]``: a view per index, all of which must be found before the first one is made."""
    count = consumed(items)
    if count < 0:
        return MISSED
    aval: Aval = x._aval
    shape: tuple = aval.shape
    path: list = []
    node: TrieNode = recorder.node
    vid = x._vid
    dim = 0
    for item in items:
        if item is Ellipsis:
            dim += len(shape) - count
        elif type(item) is slice and item.start is None and item.stop is None:
            dim += 1
        else:
            child: TrieNode = find_item(node, vid, dim, item)
            if child is None or makes_stub(child.window, child.meta, x):
                return MISSED
            path.append(child)
            node = child
            vid = child.vid
            if type(item) is not int:
                dim += 1
    if len(path) == 0 or not (is_atomic() or is_ours(recorder, x)):
        return MISSED
    out = x
    for found in path:
        out = step_to(recorder, found, out)
    return out


@optimized
def get_item(row: FrontRow, args: Args) -> Any:
    """``x[index]``."""
    out = get_basic(args, len(args))
    return recall(row, args, None) if out is MISSED else out


@optimized
def get_basic(args: Args, count: int) -> Any:
    """``x[3]``, ``x[1:3]`` and ``x[:, 3]``: the first two of the arguments, of which ``count`` are for that."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or count != 2:
        return MISSED
    index = args[1]
    if not is_basic(index) and type(index) is not tuple:
        return MISSED
    if overrides(args[0]) or not isinstance(args[0], TensorBase) or not is_operand(recorder, args[0]):
        return MISSED
    if type(index) is tuple:
        return get_part(recorder, args[0], index)
    x: TensorBase = args[0]
    node: TrieNode = find_item(recorder.node, x._vid, 0, index)
    if node is None or makes_stub(node.window, node.meta, x) or not (is_atomic() or is_ours(recorder, x)):
        return MISSED
    return step_to(recorder, node, x)


@native
def set_item(row: Any, args: Args) -> Any:
    """``x[index] = value``; ``row`` copies a value into a view."""
    if len(args) != 3 or overrides(args[2]) or not isinstance(args[0], TensorBase):
        return MISSED
    x: TensorBase = args[0]
    aval: Aval = x._aval
    value = args[2]
    if not isinstance(value, TensorBase):
        is_number = type(value) is float or type(value) is int
        if not is_number or (aval.dtype is not float32 and aval.dtype is not float64):
            return MISSED
    part = get_basic(args, 2)
    return MISSED if part is MISSED else row(part, value)


OPERATION_FRONTS = (call, call_with_sizes, cross_entropy, write, get_item, set_item)
"""The fronts of functions that apply operations."""
