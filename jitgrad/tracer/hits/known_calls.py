"""Calls of functions that record several operations: what is known of them.

Owns: ``KnownCall``; which calls are remembered, and what of them.
Must not know: how a call is found again and repeated (``recall_hits.py``), which functions are asked
(``compiled/native_fronts.py``).

# Note [Remembered calls]
# ~~~~~~~~~~~~~~~~~~~~~~~
# Many public functions are a few lines of Python around several operations: ``einsum`` reads its equation, ``matmul``
# of batches reshapes, multiplies and reshapes. As a hit each operation costs a tenth of a microsecond, and the Python
# around them 2 to 20. What such a function does depends only on where the path is (that says the grad mode, the
# default dtype, and of each value its shape, layout and dtype), on which values it gets, and on its other arguments.
# So the trie node at which the call begins remembers (``TrieNode.calls``): this function with these arguments led to
# that node, and its results are those values. The next such call goes there at once, and makes the same handles: those
# on values between are gone when it returns, but a Node that is made in the same segment finds them where it saves one.
# Example: ``torch.einsum("bij,bjk->bik", x, y)`` goes from the node where it begins to the one behind its last
# ``view``. Arguments that the call has not met are entered in the order in which the function did so.
# A call is remembered when it meets nothing new, in the second turn of a step, and only if each of its events enters
# an argument or is an operation that only makes values: what reads values, draws, writes, enters a constant, changes a
# mode or warns is not repeated. Positions that an operation checks (Note [Early checks]) are looked at as by its own
# hit. ``autograd.grad`` is such a function, too, where its backward is recorded: the two halves of that event, and the
# gradients, are all that it leaves.
# A number among the arguments is compared like the rest of them. Once another one comes, and becomes a run-time scalar
# (Note [Number promotion]), calls forget the constant's path (``trie.forget_calls``): operations' hits leave it then.
# Arguments must be tensors, constants that ``same`` compares, or lists, tuples and slices of these.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import DType
from jitgrad.layouts import Size
from jitgrad.tensor_base import TensorBase, tensor_class
from jitgrad.tracer.recording.history import BackwardEvent, OpEvent, PlainEvent
from jitgrad.tracer.recording.keys import BACKWARD, IN
from jitgrad.tracer.recording.recorder_state import LATEST
from jitgrad.tracer.recording.trie import MAX_CALL_EVENTS, SEVERAL, UNTRACKED, Bounds, TrieNode

__all__ = ["MAX_CALLS", "Items", "KnownCall", "MadeValue", "remember"]

MAX_CALLS = 8
"""How many calls a node remembers."""

_CONSTANTS = (type(None), bool, int, float, str, DType, type(Ellipsis))


class Items:
    """An argument with items: a list, a tuple or a slice.

    Attributes:
        kind: its class.
        items: what they are, as in ``KnownCall.args``.
    """

    __slots__ = ("items", "kind")

    items: tuple[Any, ...]
    kind: type

    def __init__(self, kind: type, items: tuple[Any, ...]) -> None:
        self.kind, self.items = kind, items


class MadeValue:
    """A value that a call makes a handle on.

    Attributes:
        vid, aval, requires_grad, output_nr: of the handle.
        node: of a view, where the path makes it; None of what is no view.
        source: of a view, whose: a place among the values that the call makes handles on; -1: that of an argument.
        argument: the argument's place among the call's tensors.
    """

    __slots__ = ("argument", "aval", "node", "output_nr", "requires_grad", "source", "vid")

    argument: int
    aval: Any
    node: Any
    output_nr: int
    requires_grad: bool
    source: int
    vid: int

    def __init__(self, vid: int, aval: Any, requires_grad: bool, output_nr: int) -> None:
        self.vid, self.aval, self.requires_grad, self.output_nr = vid, aval, requires_grad, output_nr
        self.node, self.source, self.argument = None, -1, -1


class KnownCall:
    """What a call did at some place of the path.

    Attributes:
        row: of the function.
        args: per argument None for a tensor, ``(constant,)``, or ``Items``.
        names: of the last arguments.
        tensors: per tensor among the arguments, in order: its value id; or the node that enters it; or, where the call
            looked at no more of a tensor than that, its aval; or, of one that comes again, ``(its first place,)``.
        enters: which of these are entered, in the order of the path.
        checks: (which of these, the checks of its values: ``TrieNode.bounds``).
        tip: where the path got to; None: the call must run.
        makes: the values that it makes handles on.
        results: of what it returns, places in ``makes``; -1, -2, ...: the call's first tensor, the second one, ...
        differentiates: it has a backward in it.
        kind: ``tuple`` if it returns several, or what makes a named tuple of them; None: it returns one tensor.
    """

    __slots__ = (
        "args", "checks", "differentiates", "enters", "kind", "makes", "names", "results", "row", "tensors", "tip",
    )  # fmt: skip

    args: tuple[Any, ...]
    checks: tuple[tuple[int, Bounds], ...]
    differentiates: bool
    enters: tuple[int, ...]
    kind: Any
    makes: tuple[MadeValue, ...]
    names: tuple[str, ...] | None
    results: tuple[int, ...]
    row: Any
    tensors: tuple[Any, ...]
    tip: TrieNode | None

    def __init__(self, row: Any, args: tuple[Any, ...], names: tuple[str, ...] | None) -> None:
        self.row, self.args, self.names = row, args, names
        self.tip = None
        self.differentiates = False
        self.tensors, self.enters, self.checks = (), (), ()
        self.makes, self.results, self.kind = (), (), None


def remember(recorder: Any, start: TrieNode, known: KnownCall, given: list[Any], result: Any) -> None:
    """Note at ``start`` what a call did, or that it must run.

    Args:
        known: its arguments as they are.
        given: the tensors among them.
    """
    if recorder.path.copied == recorder.tid:
        return  # the path may never be met again
    keys = _keys(known.args)
    if keys is None or start.next_scalar != recorder.node.next_scalar:
        return  # numbers that change are run-time scalars, here or at the next such call
    known.args = keys
    nodes = _usual_nodes(recorder, start)
    halves = [type(node.event) for node in nodes or () if _is_half(node)]
    known.differentiates = len(halves) == 2 and halves[1] is BackwardEvent
    is_usual = nodes is not None and known.differentiates is (known.row.differentiates or bool(halves))
    if is_usual and _is_noted(known, recorder.tid, nodes or [], given, result):
        known.tip = recorder.node
    if LATEST[0] is not recorder.tid:
        return  # a call on another thread may have put its stamp on one of the tensors meanwhile
    start.calls = [*(start.calls or ()), known]  # another thread may be looking at the list


_TENSOR: Any = object()


def _keys(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """``KnownCall.args`` of arguments; None if there are some that cannot be compared."""
    keys = []
    for x in args:
        key = _key(x)
        if key is None:
            return None
        keys.append(None if key is _TENSOR else key)
    return tuple(keys)


def _key(x: Any) -> Any:
    if isinstance(x, TensorBase):
        return _TENSOR
    if _is_constant(x):
        return (x,)
    if type(x) in (tuple, list, slice):
        items = _keys((x.start, x.stop, x.step) if type(x) is slice else tuple(x))
        return None if items is None else Items(type(x), items)
    return None


def _is_constant(x: Any) -> bool:
    """Whether ``same`` compares it: a tuple may come as a ``Size`` the next time, a list may change."""
    return type(x) in _CONSTANTS or (type(x) in (tuple, Size) and all([_is_constant(item) for item in x]))


def _usual_nodes(recorder: Any, start: TrieNode) -> list[TrieNode] | None:
    """The nodes behind ``start``; None if some event is not one that can be repeated."""
    nodes: list[TrieNode] = []
    node = recorder.node
    while node is not start:
        if node is None or len(nodes) == MAX_CALL_EVENTS or not (node.op is IN or _is_half(node) or _only_makes(node)):
            return None
        nodes.append(node)
        node = node.parent
    return nodes[::-1]


def _is_half(node: TrieNode) -> bool:
    """Whether a node is a half of a backward that changes no leaf, see Note [Recorded backward].

    One that cannot be recorded has none, or only the first: Python has a part in it.
    """
    event = node.event
    if type(event) is not BackwardEvent:
        return type(node.key) is tuple and node.key[0] is BACKWARD and not event.refusal
    changes = event.sets or event.adds or event.sparse_sets or event.consts
    return not changes and all([r is not None and r.given is None and not r.views for r in event.results])


def _only_makes(node: TrieNode) -> bool:
    """Whether a node is an operation that only makes values."""
    event = node.event
    if type(event) is OpEvent:
        if node.bounds is None or not (node.is_simple or node.outs is not None):
            return False
    elif type(event) is not PlainEvent:
        return False
    if event.ends_segment or (node.is_view and _depends_on_modes(node)):
        return False
    return not event.several or node.outs is not None or not node.is_view


def _depends_on_modes(view: TrieNode) -> bool:
    """Whether a view was made in no_grad mode: what it is depends on inference mode, and on what it is a view of."""
    return view.window is UNTRACKED or (view.window is SEVERAL and view.meta is None)


def _is_noted(known: KnownCall, tid: int, nodes: list[TrieNode], given: list[Any], result: Any) -> bool:
    return _note_tensors(known, tid, nodes, given) and _note_results(known, tid, nodes, given, result)


def _note_tensors(known: KnownCall, tid: int, nodes: list[TrieNode], given: list[Any]) -> bool:
    """Note which values the arguments are, in which order they are entered, what is asked of them."""
    entered = {node.vid: node for node in nodes if node.op is IN}
    places = {x._vid: nr for nr, x in reversed([*enumerate(given)]) if x._tid == tid}
    instrs = [node.event.instr for node in nodes if node.op is not IN and node.is_view]
    sources = {vid: instr.inputs[0] for instr in instrs for vid in instr.outputs}
    checks = []
    for node in nodes:
        if node.op is IN and node.vid not in places:
            return False  # a constant of the function's own
        for bounds in node.bounds or ():
            vid = node.event.instr.inputs[bounds[0]] if bounds[0] >= 0 else bounds[-1]
            while vid not in places and vid in sources:
                vid = sources[vid]  # a view: ``Bounds`` count from the start of the storage
            place = places.get(vid)
            if place is None:
                return False
            checks.append((place, bounds))
    wanted: list[Any] = []
    for nr, x in enumerate(given):
        if x._tid != tid:
            if x._requires_grad:
                return False
            wanted.append(x._aval)
        elif x._vid not in entered:
            wanted.append(x._vid)
        elif places[x._vid] == nr:
            wanted.append(entered[x._vid])
        elif x is given[places[x._vid]]:
            wanted.append((places[x._vid],))
        else:
            return False
    known.tensors = tuple(wanted)
    known.enters, known.checks = tuple(places[vid] for vid in entered), tuple(checks)
    return True


def _note_results(known: KnownCall, tid: int, nodes: list[TrieNode], given: list[Any], result: Any) -> bool:
    """Note what the call returns, and on which values it makes handles; False if its results are not all its own."""
    is_tuple = isinstance(result, tuple)
    if is_tuple:
        known.kind = tuple if type(result) is tuple else getattr(type(result), "_make", None)
    results = tuple(result) if is_tuple else (result,)
    own = {id(x): -1 - nr for nr, x in reversed([*enumerate(given)])}
    new = {id(x): x._vid for x in results if id(x) not in own and type(x) is tensor_class() and x._tid == tid}
    places = _note_makes(known, tid, nodes, given)
    if places is None or len({*new.values()}) < len(new):
        return False
    found: list[int] = []
    for x in results:
        place = own.get(id(x), places.get(new.get(id(x), -1)))
        if place is None or (place >= 0 and known.makes[place].aval is not x._aval):
            return False
        found.append(place)
    known.results = tuple(found)
    return bool(found) and is_tuple is (known.kind is not None)


def _note_makes(known: KnownCall, tid: int, nodes: list[TrieNode], given: list[Any]) -> dict[int, int] | None:
    """Value id -> place in ``known.makes``, in the order of the path; None if a view's source is none of the call's."""
    operations = [node for node in nodes if node.op is not IN and not _is_half(node)]
    made = [(node, nr, vid) for node in operations for nr, vid in enumerate(node.event.instr.outputs)]
    arguments = {x._vid: nr for nr, x in reversed([*enumerate(given)]) if x._tid == tid}
    places: dict[int, int] = {}
    makes: list[MadeValue] = []
    for node, nr, vid in made:
        instr = node.event.instr
        aval = instr.avals[nr]
        value = MadeValue(vid, aval, bool(instr.requires_grad and aval.dtype.is_inexact), nr)
        if node.is_view:
            source = instr.inputs[0]
            value.node, value.source, value.argument = node, places.get(source, -1), arguments.get(source, -1)
            if value.source < 0 and value.argument < 0:
                return None
        places[vid] = len(makes)
        makes.append(value)
    events = [node.event for node in nodes if type(node.event) is BackwardEvent]
    for r in [r for event in events for r in event.results if r is not None]:
        places[r.vid] = len(makes)
        makes.append(MadeValue(r.vid, r.aval, r.requires_grad, 0))
    known.makes = tuple(makes)
    return places
