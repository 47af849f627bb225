"""Growing the path in native code: operations that no call has had before, where nothing about them is special.

Owns: ``grow``, once, in the subset of Note [Native Python].
Must not know: what else a path may record (``operations.py``), writes, views.

# Note [Growing natively]
# ~~~~~~~~~~~~~~~~~~~~~~~
# An operation that is no hit is recorded: a trie node, its event and its instruction are made, and the history goes on.
# In Python that takes five times as long as a small operation takes eagerly. So the usual case is written in the
# subset: an operation with one result, and no write, of operands whose kinds were met before, on another path perhaps
# (``Kind.is_plain``), at the tip of a history. ``hit_apply`` and the operators of Tensor come here when no child
# fits. What ``grow`` leaves alone (``MISSED``) is recorded by ``operations.Operations``: the first operation of a kind,
# the first that is new in a call, numbers that changed.
# Example: a loop of 1,000 turns ``y = y * 0.999 + x``. Its first turn is recorded by Python, all others here.
# ``grow`` first makes all that is needed, which may run Python: a collection, a signal's handler, ``__eq__`` of a
# param. If that has moved the path, nothing has happened yet. Then it changes the recorder; nothing can come between.
# What it makes of instructions and keys can be in no cycle, so Python's collector need not look at it (``untrack``).
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import (
    blank,
    is_hashable,
    new_handle,
    once_per_call,
    this_frame,
    untrack,
)
from jitgrad.layouts import Size
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.view_hits import makes_stub, note_source
from jitgrad.tracer.recording.graph import Instr
from jitgrad.tracer.recording.history import History, PlainEvent, add_views
from jitgrad.tracer.recording.keys import MISSED
from jitgrad.tracer.recording.numbers import NumberKeys, NumberRow, is_fitted, known_number
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.recorder_state import RecorderState
from jitgrad.tracer.recording.shape_rules import Kind, kind_key, kinds
from jitgrad.tracer.recording.trie import Trie, TrieNode, new_node
from jitgrad.user_line import INSIDE, LINES, user_line
from jitgrad.version_counter import inference_tensors

__all__ = ["grow"]


@once_per_call
def line_here() -> Any:
    """``user_line()`` of native code's caller."""
    frame = this_frame()
    lines: dict = LINES
    while frame is not None:
        code = frame.f_code
        if code.co_filename not in INSIDE:
            found = lines.get((id(code), frame.f_lasti))
            if found is None:
                return user_line()
            row: tuple = found
            return row[1]
        frame = frame.f_back
    return ""


@once_per_call
def may_grow(recorder: RecorderState) -> bool:
    """Whether the path goes on from where its history is, without old numbers beside it, and may grow here."""
    path: Path = recorder.path
    history: History = path.history
    parent: TrieNode = recorder.node
    if history is None or history.tip is not parent or parent.seen is not None or parent.masks is not None:
        return False
    numbers: NumberKeys = path.numbers
    trie: Trie = recorder.trie
    if numbers.shadow is not None or numbers.peers is not None or not path.is_quiet or trie.follows:
        return False
    if int(path.new_values) >= int(trie.new_limit):
        return False
    return len(history.instrs) - int(history.start) + 1 < int(path.segment_limit)


@once_per_call
def kind_of_plain(op: Op, enabled: Any, inputs: tuple, params: tuple) -> Kind | None:
    """What is known of such operands, if nothing about the operation is special; else None."""
    for param in params:
        if type(param) is Size or not is_hashable(param):
            return None
    known: dict = kinds
    found = known.get(kind_key(op, enabled, inputs, params))
    if found is None:
        return None
    kind: Kind = found
    return found if kind.is_plain else None


@once_per_call
def loose(items: list) -> tuple:
    """``tuple(items)``, of what is in no cycle."""
    made = tuple(items)
    untrack(made)
    return made


@once_per_call
def seen_of(op: Op, inputs: tuple, params: tuple, quick: tuple, key: Any) -> Any:
    """``TrieNode.seen`` of the parent of an operation with numbers, all of which are constants."""
    is_small = is_fitted(op, inputs)
    kinds_of_inputs: list = []
    numbers: list = []
    for x, vid in zip(inputs, quick, strict=True):
        if isinstance(x, TensorBase):
            kinds_of_inputs.append(vid)
            numbers.append(None)
        else:
            row: NumberRow = known_number(x)
            kinds_of_inputs.append(row.small_kind if is_small else row.kind)
            numbers.append(x)
    seen: dict = {}
    blind = (None, op, loose(kinds_of_inputs), params)
    found = (loose(numbers), key)
    untrack(blind)
    untrack(found)
    seen[blind] = found
    untrack(seen)
    return seen


@once_per_call
def plain_node(parent: TrieNode, key: Any, instr: Instr, quick: tuple, kind: Kind) -> Any:
    """A trie node for an operation of a known kind; nobody finds it yet."""
    made = blank(PlainEvent)
    event: PlainEvent = made
    event.instr = instr
    event.several = False
    event.ends_segment = False
    untrack(made)
    vid = parent.next_vid
    child = new_node(parent, key, made, int(vid) + 1, parent.next_scalar)
    node: TrieNode = child
    avals: tuple = kind.avals
    node.vid = vid
    node.aval = avals[0]
    node.requires_grad = kind.requires_grad
    node.op = instr.op
    node.params = instr.params
    node.ids = quick
    node.param_types = kind.param_types
    node.is_view = kind.is_view
    node.window = kind.window
    node.is_simple = True
    return child


@once_per_call
def avals_of(inputs: tuple, kind: Kind) -> Any:
    """``Instr.input_avals``: of the kind, if all operands begin where a storage does."""
    is_moved = False
    for x in inputs:
        if isinstance(x, TensorBase):
            aval: Aval = x._aval
            if int(aval.offset) != 0:
                is_moved = True
    if not is_moved:
        return kind.in_avals
    avals: list = []
    for x in inputs:
        avals.append(x._aval if isinstance(x, TensorBase) else None)
    return loose(avals)


@once_per_call
def instr_of(parent: TrieNode, op: Op, inputs: tuple, operands: tuple, params: tuple, kind: Kind) -> Any:
    """The instruction of an operation of a known kind."""
    made = blank(Instr)
    instr: Instr = made
    instr.op = op
    instr.inputs = operands
    instr.params = params
    outputs = (parent.next_vid,)
    untrack(outputs)
    instr.outputs = outputs
    instr.avals = kind.avals
    instr.input_avals = kind.in_avals if op.is_view else avals_of(inputs, kind)
    instr.requires_grad = kind.joins
    instr.needs = kind.needs
    instr.where = line_here()
    instr.origin = ""
    untrack(made)
    return made


@once_per_call
def go_on(recorder: RecorderState, node: TrieNode, instr: Instr) -> None:
    """Make a new operation findable, a part of the history, and where the path is."""
    parent: TrieNode = recorder.node
    path: Path = recorder.path
    trie: Trie = recorder.trie
    history: History = path.history
    path.history = None  # as in ``Path.live``: where memory is exhausted, it is made anew
    vid = node.vid
    operation: Op = instr.op
    history.instrs.append(instr)
    made = (instr, 0)
    untrack(made)
    history.defs[vid] = made
    history.here.add(vid)
    if operation.is_view:
        add_views(history, instr)
    node.sibling = parent.first
    parent.children[node.key] = node
    parent.first = node
    parent.last = node
    recorder.node = node
    history.tip = node
    path.history = history
    trie.size = int(trie.size) + 1
    path.misses = int(path.misses) + 1
    path.new_values = int(path.new_values) + 1


@once_per_call
def grow(recorder: RecorderState, op: Op, inputs: tuple, params: tuple) -> Any:
    """Record ``op(*inputs, *params)``, of operands that the call has met, if nothing is special.

    Returns:
        The handle on the result, or ``MISSED``: then nothing has happened.
    """
    if not may_grow(recorder):
        return MISSED
    parent: TrieNode = recorder.node
    ids: list = []
    operands: list = []
    quick: list = []
    numbers = 0
    for x in inputs:
        if isinstance(x, TensorBase):
            vid = x._vid
            ids.append(vid)
            operands.append(vid)
            quick.append(vid)
            if x._tid is not recorder.tid:  # another thread's call has stamped it meanwhile
                return MISSED
        else:
            row: NumberRow = known_number(x)
            if row is None:
                return MISSED
            numbers += 1
            ids.append(row.key)
            operands.append(row.constant)
            quick.append(row.quick)
    thread: dict = recorder.thread
    kind: Kind = kind_of_plain(op, thread.get("grad_enabled"), inputs, params)
    if kind is None or (kind.joins and len(inference_tensors) != 0):  # perhaps one is saved, which is refused
        return MISSED
    if kind.is_view and makes_stub(kind.window, None, inputs[0]):
        return MISSED
    key = (op, loose(ids), params)
    children: dict = parent.children
    if parent.first is not None and children.get(key) is not None:
        return MISSED
    untrack(key)
    known = loose(quick)
    instr = instr_of(parent, op, inputs, loose(operands), params, kind)
    child = plain_node(parent, key, instr, known, kind)
    node: TrieNode = child
    handle = new_handle()
    out: TensorBase = handle
    out._tid = recorder.tid
    out._vid = node.vid
    out._aval = node.aval
    out._requires_grad = node.requires_grad
    if kind.requires_grad:
        out._graph = recorder.graph
    seen = None if numbers == 0 else seen_of(op, inputs, params, known, key)
    if recorder.node is not parent or not may_grow(recorder):
        return MISSED  # Python has run in between
    go_on(recorder, node, instr)
    parent.seen = seen
    recorder.handles.append(handle)
    if node.is_view:
        note_source(recorder, node, out, inputs[0])
    return handle
