"""A backward inside a compiled step.

Owns: when a backward can be recorded, its one event, and what the event does on a hit.
Must not know: LLVM, the trie's insides.

# Note [Recorded backward]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# The first time, Nodes are built for the recorded instructions and the real engine runs over them, with rules whose
# operations are recorded (``InnerRecorder``); the usual backward needs neither, Note [Backward without Nodes]. What
# was done to the leaves becomes one event: on a hit, no Node is made and no rule runs; the leaves' ``.grad`` are set
# to handles of the recorded values. The key has two parts, because which leaves are reached is known only to the
# event: first the call itself, then what ``.grad`` each leaf has.
# Where Python has a part in the backward - hooks, custom Functions, graphs that began outside the step, rules that read
# values - the engine runs at every call, over Nodes made from the trace, with the recorder still active: what rules and
# hooks compute is recorded operation by operation, as the user's own is. A hook that reads a gradient ends the segment,
# as any read does; one that does not costs no more than its Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, NamedTuple

from jitgrad.compiled.backward.inner_recorder import InnerRecorder, symbolic_number
from jitgrad.compiled.nodes.graph_nodes import Sources, ancestors, build_nodes, make_recipe
from jitgrad.config import config
from jitgrad.devices import CPU
from jitgrad.door import door
from jitgrad.errors import OTHER_THREAD, ElsewhereError, JitgradError
from jitgrad.events import bump, bump_engine_run, log
from jitgrad.garbage import without_collections
from jitgrad.grad_mode import set_grad_mode
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import own_layout
from jitgrad.ops.dispatch_hook import sparse_gradient
from jitgrad.runtime.engine.run.request import BackwardRequest, execute_request
from jitgrad.runtime.engine.run.trace import Provisional, emit
from jitgrad.runtime.engine.run.trace import is_active as is_traced
from jitgrad.state import anomaly, state, switch_handler
from jitgrad.structs import struct
from jitgrad.tracer.recording.history import BackwardEvent, History, Returned, SparseSet
from jitgrad.tracer.recording.keys import BACKWARD, GRADS, HOOKED
from jitgrad.tracer.recording.recorder_state import RUNNING
from jitgrad.tracer.recording.slots import fresh_handle, input_kind
from jitgrad.user_line import let_through
from jitgrad.version_counter import VERSION, count_write

__all__ = ["Reach", "record_backward", "repeat_backward"]

_sweep: Any = LazyModule("jitgrad.compiled.backward.rule_sweep")  # hits need none of it


@struct
class Reach:
    """First half of the event: the leaves that the backward reaches; or why it cannot be recorded.

    Attributes:
        leaves: their input ids.
        refusal: empty if it can be recorded.
        fresh_key: of the second half, where no leaf has a gradient yet.
    """

    leaves: tuple[int, ...]
    refusal: str = ""
    fresh_key: Any = None

    def __post_init__(self) -> None:
        self.fresh_key = (GRADS, (None,) * len(self.leaves))

    def replay(self, history: History) -> None:
        """Nothing was computed yet."""


def record_backward(recorder: Any, request: BackwardRequest) -> Any:
    """Do a backward as an event of the trace; returns what ``execute_request`` would."""
    before, recorder.busy = recorder.busy, True  # Note [Interrupts]; rules ask another recorder meanwhile
    try:
        reason, results = _record(recorder, request)
    finally:
        recorder.busy = before
    if not reason:
        return _as_views(request, results) if results else results
    # The engine itself, at this and every call, over Nodes of the trace; what they compute is recorded one by one. No
    # function of its own: backwards nest, and each level has few frames to spare (``reentrant_pool.MAX_DEPTH``).
    bump_engine_run(reason)
    results = execute_request(request)
    if not request.keep_graph:
        recorder.mark_released((_known_ids(recorder, request.roots), _known_ids(recorder, request.inputs)))
    return results


def _record(recorder: Any, request: BackwardRequest) -> tuple[str, Any]:
    """(why the engine must run at every call, or nothing, the results if it need not)."""
    if anomaly.enabled:
        return "anomaly mode looks at every node", None
    if request.create_graph and state.saved_tensor_hooks:
        return "saved-tensor hooks see what its own operations save", None
    reach = _reach(recorder, request)
    if reach.refusal:
        return reach.refusal, None
    leaves = [recorder.inputs[vid] for vid in reach.leaves] if request.accumulate else []
    for leaf in leaves:
        recorder.claim_grad(leaf)
    grads = [leaf._grad for leaf in leaves]
    olds = tuple([grad for grad in grads if grad is not None])
    if olds and (any(old.is_sparse or old._requires_grad for old in olds) or recorder.writes.rebinds(olds) is None):
        return "a .grad with a graph, a sparse one, or one in several windows", None
    states = tuple([grad if grad is None else grad._vid for grad in grads])
    key = (GRADS, states)
    node = recorder.node.children.get(key)
    if node is None:
        sources = dict(zip(reach.leaves, leaves, strict=False))
        grown = without_collections(_grow, recorder, request, sources, key)
        return ("a rule that cannot be recorded", None) if grown is None else ("", grown[1])
    recorder.node = node
    return "", _repeat(recorder, node.event)


def repeat_backward(recorder: Any, root: Any, keep_graph: bool, create_graph: bool) -> bool:
    """``loss.backward()`` into leaves without gradients, by two look-ups. False if it is anything else."""
    if anomaly.enabled or (create_graph and state.saved_tensor_hooks):
        return False
    node = recorder.node.children.get((BACKWARD, root._vid, keep_graph, create_graph))
    if node is None or node.event.refusal:
        return False
    reach, inputs = node.event, recorder.inputs
    for vid in reach.leaves:
        recorder.claim_grad(inputs[vid])
        if inputs[vid]._grad is not None:
            return False
    node = node.children.get(reach.fresh_key)
    if node is None:
        return False
    recorder.node = node
    _repeat(recorder, node.event)
    return True


def _simple_key(request: BackwardRequest) -> Any:
    return (BACKWARD, request.roots[0]._vid, request.keep_graph, request.create_graph)


def _is_simple(recorder: Any, request: BackwardRequest) -> bool:
    """One root of this trace, no gradient, every leaf."""
    return (
        len(request.roots) == 1
        and not request.inputs
        and request.grads[0] is None
        and getattr(request.roots[0], "_tid", None) == recorder.tid
    )


def _is_plain(recorder: Any, request: BackwardRequest) -> bool:
    """Requests whose checks would fail, or whose graph began elsewhere, are left to the engine itself."""
    tensors = [*request.roots, *(g for g in request.grads if g is not None), *request.inputs]
    if not all(hasattr(t, "_aval") and not t.is_sparse and t._aval.device is CPU for t in tensors):
        return False
    for root in request.roots:
        if not root._requires_grad or root._tid != recorder.tid or root._grad_fn is not None or root._hooks:
            return False
    for t in request.inputs:
        if not t._requires_grad or t._hooks or (request.accumulate and not t.is_leaf):
            return False
        if not t.is_leaf and (t._tid != recorder.tid or t._grad_fn is not None):
            return False
    return True


def _ids(recorder: Any, tensors: Iterable[Any]) -> tuple[int | None, ...]:
    tid = recorder.tid
    return tuple([None if t is None else t._vid if t._tid == tid else recorder.enter(t) for t in tensors])


def _reach(recorder: Any, request: BackwardRequest) -> Reach:
    """Move to the first half of the event."""
    if not _is_plain(recorder, request):
        return Reach((), "its arguments, or the graph they belong to, are for the engine itself")
    try:
        roots, grads = _ids(recorder, request.roots), _ids(recorder, request.grads)
        inputs = _ids(recorder, request.inputs) if request.inputs else None
    except ElsewhereError:
        return Reach((), "an argument has no place in a trace")
    key = (BACKWARD, roots, grads, inputs, request.keep_graph, request.create_graph, request.accumulate,
           request.allow_unused)  # fmt: skip
    if _is_simple(recorder, request):
        key = _simple_key(request)
    node = recorder.node.children.get(key)
    if node is None:
        event = _find_leaves(recorder, request, [v for v in (*roots, *(inputs or ())) if v is not None])
        node = recorder.path.grow(key, event)
        if key[0] is BACKWARD and len(key) == 4 and not event.refusal:
            node.op, node.ids = BACKWARD, key[1:]
        recorder.path.publish(node, event)
    recorder.node.last = recorder.node = node
    return node.event


def _find_leaves(recorder: Any, request: BackwardRequest, roots: list[int]) -> Reach:
    history = recorder.path.live()
    if history.looked_at:
        return Reach((), "a value that is hooked, or whose Node was looked at")
    if history.replaced or history.detached:
        return Reach((), "a value whose data was replaced, or that was detached in place")
    reached = [v for i in ancestors(history, roots) for v, need in zip(i.inputs, i.needs, strict=True) if need]
    leaves: dict[int, None] = {}
    for vid in (*reached, *roots):
        if vid in history.leaves:
            leaves[history.leaves[vid]] = None
        elif not _is_made_here(history, history.node_source(vid)):
            return Reach((), "a graph that began outside the step")
    if any(input_kind(recorder.inputs[vid]) is HOOKED for vid in leaves):
        return Reach((), "a hooked leaf")
    if request.inputs:
        chosen = _ids(recorder, request.inputs)
        leaves = {history.leaves[v]: None for v in chosen if v is not None and v in history.leaves}
    return Reach(tuple(leaves))


def _is_made_here(history: History, vid: int) -> bool:
    """Whether the value's Node is one of the trace's own."""
    found = history.defs.get(vid)
    return found is not None and found[0].requires_grad


class _Before(NamedTuple):
    """A leaf before the backward: the input id it came in under, the tensor, its gradient and the value of that."""

    source: int
    leaf: Any
    grad: Any
    vid: int


def _grow(recorder: Any, request: BackwardRequest, leaves: dict[int, Any], key: Any) -> Any:
    """Record the backward; None if a rule could not be recorded."""
    # a leaf that was written outside may have come in twice
    sources = {id(leaf): source for source, leaf in leaves.items()}
    before = [
        _Before(source, leaf, leaf._grad, leaf._grad._vid if leaf._grad is not None else -1)
        for source, leaf in leaves.items()
        if sources[id(leaf)] == source
    ]
    made = _recorded_without_nodes(recorder, request, before) or _recorded_by_engine(recorder, request, before)
    if made is None:
        return None
    inner, released, results = made
    if _others_set(recorder, inner, before):
        _undo(before)
        raise RuntimeError(OTHER_THREAD)
    event = _event(recorder, inner, released, before, _what_is_returned(inner, request, results))
    node = recorder.path.grow(key, event, vids=inner.next_vid - recorder.node.next_vid)
    _let_hits_know(recorder, node, event, leaves, key)
    recorder.path.publish(node, event)
    recorder.node = node
    _adopt(recorder, event, before)
    return node, _returned(recorder, event)


class _Recorded(NamedTuple):
    """What a backward has recorded.

    Attributes:
        inner: has the instructions; the leaves have their gradients.
        released: see ``BackwardEvent.released``.
        results: what ``execute_request`` returned.
    """

    inner: InnerRecorder
    released: frozenset[int]
    results: tuple[Any, ...]


def _recorded_by_engine(recorder: Any, request: BackwardRequest, before: list[_Before]) -> _Recorded | None:
    """Run the engine over Nodes; None, and the leaves are as they were, if something cannot be recorded."""
    nodes, saved_results = _nodes(recorder, [t._vid for t in (*request.roots, *request.inputs)])
    is_plain = request.accumulate and not request.inputs and not request.create_graph
    inner = InnerRecorder(recorder, nodes, saved_results, recorder.node.next_vid, _grow.__code__, is_plain)
    active = switch_handler(inner)
    try:
        with Provisional() as attempt:  # a failed attempt traces nothing: the run that follows does
            results = execute_request(request)
            attempt.keep()
    except Exception as error:
        # whatever it was, eager execution will meet it too, and leave the leaves as eager execution does
        log("record", "backward not recorded: %r", error)
        _undo(before)
        let_through(error)
        return None
    finally:
        switch_handler(active)
    return _Recorded(inner, frozenset(v for v, (node, _) in nodes.items() if node.saved is None), results)


def _recorded_without_nodes(recorder: Any, request: BackwardRequest, before: list[_Before]) -> _Recorded | None:
    """The same of the usual backward, Note [Backward without Nodes]; None, and nothing is changed, for any other."""
    if not _sweep.can_sweep(request):
        return None
    inner = InnerRecorder(recorder, {}, [], recorder.node.next_vid, _grow.__code__, is_plain=True)
    active = switch_handler(inner)
    try:
        released = _sweep.sweep(recorder.path.live(), request, inner, recorder.inputs, recorder.scalars)
    except Exception as error:  # the engine will meet it too, or it is nothing but that Nodes are needed
        _undo(before)
        let_through(error)
        return None
    finally:
        switch_handler(active)
    made = _Recorded(inner, frozenset(released), ())
    bump("nodeless_backwards")
    return _checked(recorder, request, before, made) if config.check_hits else made


def _checked(recorder: Any, request: BackwardRequest, before: list[_Before], swept: _Recorded) -> _Recorded:
    """What the engine records, after a look whether the recording without Nodes is the same; JitgradError if not."""
    grads = [None if row.leaf._grad is None else row.leaf._grad._vid for row in before]
    _undo(before)
    made = _recorded_by_engine(recorder, request, before)
    if made is None and len(RUNNING) != 1:  # a call on another thread came between the two
        raise RuntimeError(OTHER_THREAD)
    if made is None:
        raise JitgradError("only a backward without Nodes could be recorded")
    set_grads = [None if row.leaf._grad is None else row.leaf._grad._vid for row in before]
    both: list[tuple[Any, Any]] = [(grads, set_grads), (swept.released, made.released)]
    instrs = zip_longest(swept.inner.instrs, made.inner.instrs)
    both += [(one and one.fields(), other and other.fields()) for one, other in instrs]
    for one, other in both:
        if one != other:
            raise JitgradError(f"a backward without Nodes has {one!r} where the engine's has {other!r}")
    return made


def _others_set(recorder: Any, inner: InnerRecorder, before: list[_Before]) -> bool:
    """Whether another thread gave a leaf a gradient meanwhile: it would be a part of what is recorded, for ever."""
    consts = {id(tensor) for _, tensor in inner.consts}
    new = [leaf._grad for _, leaf, old, _ in before if leaf._grad is not None and leaf._grad is not old]
    return any(part._tid != recorder.tid or id(part) in consts for grad in new for part in _parts(grad))


def _parts(grad: Any) -> tuple[Any, ...]:
    """The tensors that a gradient lies in: of a sparse one the indices and the values, else itself."""
    return (grad._indices(), grad._values()) if grad.is_sparse else (grad,)


def _let_hits_know(recorder: Any, node: Any, event: BackwardEvent, leaves: dict[int, Any], key: Any) -> None:
    """The usual backward, into dense gradients: note where the call has entered the leaves."""
    entered = recorder.entered
    places = {entered[i + 2]: i for i in range(0, len(entered), 3)}
    if event.consts or event.results or event.sparse_sets or not places.keys() >= leaves.keys():
        return
    event.set_places = tuple(places[source] for source, _, _, _ in event.sets)
    event.add_places = tuple(places[source] for source, _ in event.adds)
    event.before = key[1]
    node.op, node.ids = GRADS, tuple(places[source] for source in leaves)


def _nodes(recorder: Any, roots: list[int]) -> tuple[dict[int, Any], list[Any]]:
    """(the Nodes behind some values, handles on what they have saved of their results)."""
    history = recorder.path.live()
    saved_results = []

    def value(vid: int, aval: Any, is_result: bool) -> Any:
        handle = fresh_handle(aval, None, recorder.tid, vid)
        if is_result:
            saved_results.append(handle)
        return handle

    numbers = [symbolic_number(value, slot) for slot, value in enumerate(recorder.scalars)]
    active = switch_handler(None)
    try:
        sources = Sources(
            value,
            recorder.inputs.__getitem__,
            recorder.entry.outer.__getitem__,
            numbers,
            lambda v: True,
        )
        nodes: dict[int, Any] = {}
        build_nodes(make_recipe(history, roots), sources, nodes, lambda vid: vid)  # no other Node takes part
        return nodes, saved_results
    finally:
        switch_handler(active)


def _undo(before: list[_Before]) -> None:
    """Take back what a recording that failed did to the leaves."""
    for _, leaf, grad, vid in before:
        if grad is not None and grad._vid != vid:
            grad._vid = vid
            grad._vc[VERSION] -= 1
        leaf._grad = grad


def _event(
    recorder: Any,
    inner: InnerRecorder,
    released: frozenset[int],
    before: list[_Before],
    results: tuple[Returned | None, ...],
) -> BackwardEvent:
    sets, sparse_sets, adds, writes, overwritten = [], [], [], [], []
    for source, leaf, old, old_vid in before:
        new = leaf._grad
        if new is None or (new is old and new._vid == old_vid):
            continue
        if new is not old and new.is_sparse:
            indices, values = _parts(new)
            places, entries = (indices._vid, indices._aval), (values._vid, values._aval)
            sparse_sets.append(SparseSet(source, places, entries, new.shape))
            continue
        if new is not old:
            new._aval = own_layout(new._aval)
            sets.append((source, new._vid, new._aval, new._requires_grad))
            continue
        adds.append((source, new._vid))
        overwritten.append(old_vid)
        if new._storage is not None and new._storage.addr:
            writes.append((recorder.aliases.owner_of(new, old_vid), new._vid))
    return BackwardEvent(
        tuple(inner.instrs), tuple(sets), tuple(adds), results, released, tuple(inner.consts), tuple(overwritten),
        tuple(writes), by_results=frozenset(inner.by_results), sparse_sets=tuple(sparse_sets),
    )  # fmt: skip


def _adopt(recorder: Any, event: BackwardEvent, before: list[_Before]) -> None:
    """The recording call's own handles are the ones a hit would make."""
    for vid, tensor in event.consts:
        recorder.inputs[vid], recorder.buffers[vid] = tensor, tensor._storage
    fresh: dict[int, Any] = {}
    for _, leaf, old, _ in before:
        new = leaf._grad
        if new is not None and new is not old:
            fresh.update((id(part), part) for part in _parts(new))
        elif old is not None and old._storage is not None:
            recorder.dirty.add(id(old._storage))
    known = {id(h) for h in recorder.handles}
    recorder.handles.extend(h for key, h in fresh.items() if key not in known)


def _repeat(recorder: Any, event: BackwardEvent) -> tuple[Any, ...]:
    """A hit: what the engine did, without the engine."""
    inputs = recorder.inputs
    if is_traced():
        leaves = tuple([inputs[change[0]] for change in (*event.sets, *event.sparse_sets, *event.adds)])
        emit("recorded", count=len(leaves) or len(event.results), leaves=leaves, detail="no node ran")
    for vid, tensor in event.consts:
        inputs[vid], recorder.buffers[vid] = tensor, tensor._storage
    handle = recorder.operations.handle
    for leaf, vid, aval, requires_grad in event.sets:
        inputs[leaf]._grad = handle(vid, aval, requires_grad)
    for leaf, indices, values, shape in event.sparse_sets:
        inputs[leaf]._grad = sparse_gradient(handle(*indices, False), handle(*values, False), shape)
    for leaf, vid in event.adds:
        grad = inputs[leaf]._grad
        grad._vid = vid
        count_write(grad)
        if grad._storage is not None:
            recorder.dirty.add(id(grad._storage))
    return _returned(recorder, event)


def _returned(recorder: Any, event: BackwardEvent) -> tuple[tuple[Returned, Any] | None, ...]:
    """What ``grad()`` returns, each with a handle on the value that it is, or of which it is a view."""
    made: dict[int, Any] = {}
    for r in event.results:
        if r is not None and r.given is None and r.vid not in made:
            made[r.vid] = recorder.operations.handle(r.vid, r.aval, r.requires_grad)
    return tuple([None if r is None else (r, made.get(r.vid)) for r in event.results])


def _as_views(request: BackwardRequest, results: tuple[tuple[Returned, Any] | None, ...]) -> tuple[Any, ...]:
    """What ``grad()`` returns: an expanded gradient is a view of what was expanded, as the engine makes it."""
    if all(pair is None or (pair[0].given is None and not pair[0].views) for pair in results):
        return tuple([None if pair is None else pair[1] for pair in results])
    found: dict[Any, Any] = {}
    before = state.grad_enabled
    if before is not request.create_graph:
        set_grad_mode(request.create_graph)
    try:
        return tuple([None if pair is None else _viewed(request, *pair, found) for pair in results])
    finally:
        if before is not request.create_graph:
            set_grad_mode(before)


def _viewed(request: BackwardRequest, result: Returned, handle: Any, found: dict[Any, Any]) -> Any:
    """One result; ``found``: views that are made already, by what they are views of."""
    value = handle if result.given is None else request.grads[result.given]
    key: Any = result.vid
    for view in result.views:
        key = (key, view.op, view.params)
        if key not in found:
            found[key] = door.apply(view.op, value, *view.params)
        value, key = found[key], (key, view.nr)
        if isinstance(value, tuple | list):
            value = value[view.nr]
    return value


def _what_is_returned(
    inner: InnerRecorder, request: BackwardRequest, results: tuple[Any, ...]
) -> tuple[Returned | None, ...]:
    """The event's form of what the engine returned."""
    given = {g._vid: nr for nr, g in enumerate(request.grads) if getattr(g, "_tid", 0) == inner.tid}
    made = {vid: (instr, aval) for instr in inner.instrs for vid, aval in zip(instr.outputs, instr.avals, strict=True)}
    found: list[Returned | None] = []
    for r in results:
        if r is None:
            found.append(None)
            continue
        source, views = inner.source_of(r._vid)
        if source in given:
            found.append(Returned(source, r._aval, r._requires_grad, given[source], views))
        elif source in made and views:
            instr, aval = made[source]
            requires_grad = instr.requires_grad and aval.dtype.is_inexact
            found.append(Returned(source, aval, requires_grad, None, views))
        else:  # a view of something that is kept with the graph would share its memory
            found.append(Returned(r._vid, own_layout(r._aval), r._requires_grad, None, ()))
    return tuple(found)


def _known_ids(recorder: Any, tensors: Iterable[Any]) -> tuple[int, ...]:
    return tuple([getattr(t, "_vid", -1) if getattr(t, "_tid", 0) == recorder.tid else -1 for t in tensors])
