"""The backward of a call whose results escaped, as one program.

Owns: ``CallBackward``, what is known of it per end of a path, and the programs for what was asked.
Must not know: LLVM, the engine's queues, which objects hold a graph.

# Note [Backward from outside]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# The usual way to use a compiler is to compile the model, and to call ``loss.backward()`` outside, in plain Python. The
# graph of such a call is one node for the engine, a ``CallNode``, as long as nobody looks: its gradients in are those
# of the call's results, its edges lead to the accumulators of the call's leaves and to the graphs of its arguments.
# Everything on these edges (hooks of leaves, accumulation, ``inputs=``) is the engine's business as ever.
# When the engine runs it, the gradients of the leaves are computed by one program. It is made as a recorded backward
# is (Note [Recorded backward]): the Nodes of the path are built over handles that have no memory, the engine runs over
# them, an ``InnerRecorder`` collects what the rules compute. Programs hang at the trie node where the call ended, one
# per choice of results that have a gradient, of the layouts of these, and of edges that want one.
# In a plain backward (Note [Plain backward]) a ``CallNode`` is a Node like any other. A call that a hit has closed left
# flat lists of what it has met (``CallGraph.entered``, ``noted``); calls that end at one trie node have each input at
# the same place of these, and each edge. So native code makes the ``CallNode`` (``join_call``), looks whether anything
# was written since, and runs the program from gradients to gradients (``call_runs.py``), where that is one short native
# step; no table is made. ``offer`` hands it such programs, once the general way has recorded them. A result may have no
# gradient there: edges that it alone leads to get None, and leaves stay as they are (an actor's loss leaves the critic
# alone); where one of these edges leads on to a graph, that must not be used up, and the engine takes over.
# The real Nodes are made, and the engine runs them, in every case that Python could tell from that: somebody has looked
# at a ``grad_fn`` or hooked a result, ``create_graph``, anomaly mode, saved-tensor hooks, a value that was written
# since the forward (the error says which), buffers that are gone, a result without a gradient where some edge depends
# on it alone, rules that read values. That is decided before the engine starts (``TraceGraph.must_open``); edges that
# lead to the ``CallNode`` are then changed to lead to the real Nodes. What turns up later - a rule that reads values, a
# sparse gradient, a hook of another graph that writes what was saved - is run by ``sweep`` over the real Nodes, in the
# stand-in's place: one thing is then unlike eager execution, that leaves of this call have no gradient yet where a Node
# raises in the middle.
# ``loss.backward()`` frees what it used (``TraceGraph.use_up``): a loss that is kept holds no batch and no activations.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.compiled.backward.inner_recorder import InnerRecorder, symbolic_number
from jitgrad.compiled.nodes.graph_nodes import Sources, ancestors, build_nodes, make_recipe, needs_and_plan
from jitgrad.config import config
from jitgrad.cpython.arrays import ARRAY_DATA
from jitgrad.door import door
from jitgrad.events import bump, log
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, own_layout
from jitgrad.ops.views.strided import COPY_SLICES
from jitgrad.runtime.engine.graph.call_node import CallOutline, OwnedGrads
from jitgrad.runtime.engine.graph.node import ACCUMULATE_GRAD_SEQUENCE_NR, Edge, Node
from jitgrad.runtime.engine.run.engine import engine
from jitgrad.runtime.engine.run.trace import Provisional
from jitgrad.state import switch_handler
from jitgrad.tensor_base import new_tensor
from jitgrad.tracer.recording.graph import Instr, Segment
from jitgrad.tracer.recording.history import History, ViewStep
from jitgrad.tracer.recording.keys import END
from jitgrad.tracer.recording.recorder_state import new_tid
from jitgrad.tracer.recording.slots import fresh_handle
from jitgrad.user_line import let_through

__all__ = ["CallBackward", "GradTarget", "call_backward"]

_programs: Any = LazyModule("jitgrad.compiled.backward.call_programs")
_MAX_PROGRAMS = 16
"""Per end of a path; gradients of ever new layouts take the general way."""


_SMALL_NBYTES = 1 << 16


class GradTarget(NamedTuple):
    """Where gradients of a call go.

    Attributes:
        vid: the input id of a leaf, or of a tensor that came with a graph of its own.
        is_leaf: which of the two.
        aval: of the gradient.
    """

    vid: int
    is_leaf: bool
    aval: Aval


class Used(NamedTuple):
    """What one backward has used up.

    Attributes:
        vids: the first outputs of the instructions whose Nodes would have run.
        freed: saved values that no other Node needs.
    """

    vids: frozenset[int]
    freed: tuple[int, ...]


class _Result(NamedTuple):
    """Where the gradient of one edge comes from.

    Attributes:
        vid, aval: the value that it is, or of which it is a view.
        given: the number of the result whose gradient this value is; None if the program computes it.
        views: what is done to the value, first to last.
    """

    vid: int
    aval: Aval
    given: int | None
    views: tuple[ViewStep, ...]


class _Program(NamedTuple):
    """One backward, compiled.

    Attributes:
        loaded: what to run; None if every gradient is one that came in.
        inputs: value ids of what it reads, but for gradients and constants.
        seeds: (value id, number of the result) of the gradients that come in.
        consts: (value id, storage) of tensors that rules have made.
        owned: no gradient came in, and no two are the same.
        results: per edge: where its gradient comes from, or None.
        segment: what was compiled.
    """

    loaded: Any
    inputs: tuple[int, ...]
    seeds: tuple[tuple[int, int], ...]
    consts: tuple[tuple[int, Any], ...]
    owned: bool
    results: tuple[_Result | None, ...]
    segment: Segment


class _Sink(Node):
    """Takes the place of an edge's node while a backward is recorded."""

    __slots__ = ("grad",)

    def __init__(self, aval: Aval) -> None:
        super().__init__((), (aval,))
        self.sequence_nr = ACCUMULATE_GRAD_SEQUENCE_NR
        self.grad: Any = None

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        self.grad = grad_outputs[0]
        return ()


class _PretendedCall:
    """What an ``InnerRecorder`` asks of the recorder that it works for."""

    __slots__ = ("graph", "tid")

    def __init__(self) -> None:
        self.tid = new_tid()
        self.graph = None


class CallBackward(CallOutline):
    """What is known of the backward of all calls that end at one trie node.

    Attributes:
        vids: the results that may have escaped, by their value ids.
        targets: where gradients go, in the order in which the engine would reach them.
        reach: per result: the targets that it leads to.
        watch: what was saved, and by whose version counter a write is known: (value id, value id).
    """

    __slots__ = ("_entered", "_leads_on", "_met", "_programs", "_used", "reach", "targets", "vids", "watch")

    def __init__(self, history: History, roots: list[int]) -> None:
        self.vids, self.last_vid = tuple(roots), roots[-1]
        self.numbers = {vid: nr for nr, vid in enumerate(roots)}
        self.metadata = tuple([history.defs[vid][0].avals[history.defs[vid][1]] for vid in roots])
        self.depth = len(ancestors(history, roots)) + 1
        self.targets = _targets(history, roots)
        self.edge_vids = tuple([target.vid for target in self.targets])
        self.reach = tuple([frozenset(_targets(history, [vid])) for vid in roots])
        self.is_covered = all(len(reached) == len(self.targets) for reached in self.reach)
        recipe = make_recipe(history, roots)
        self.watch = tuple(sorted((vid, recipe.wholes.get(vid, vid)) for vid in recipe.vids))
        self.places = None
        self.programs = []
        self._entered: dict[int, int] = {}
        self._programs: dict[Any, _Program | None] = {}
        self._used: dict[Any, Used] = {}
        self._leads_on: dict[tuple[bool, ...], bool] = {}
        self._met = 0

    def note_places(self, entered: list[Any]) -> None:
        """Note where calls that end here have their inputs, by what one of them has entered."""
        self._entered = {vid: 3 * i for i, vid in enumerate(entered[2::3])}
        if all(vid in self._entered for vid, is_leaf, _ in self.targets if is_leaf):
            self.places = tuple([self._entered[vid] if is_leaf else -1 for vid, is_leaf, _ in self.targets])

    def covers(self, numbers: set[int]) -> bool:
        """Whether all targets are reached from some of the results."""
        return len(numbers) == len(self.vids) or len(frozenset().union(*[self.reach[nr] for nr in numbers])) == len(
            self.targets
        )

    def leads_on(self, arrives: tuple[bool, ...]) -> bool:
        found = self._leads_on.get(arrives)
        if found is None:
            reached = frozenset().union(*[self.reach[nr] for nr, does in enumerate(arrives) if does])
            found = self._leads_on[arrives] = not all(t.is_leaf or t in reached for t in self.targets)
        return found

    def used(self, tip: Any, numbers: tuple[int, ...], needed: tuple[bool, ...] | None) -> Used:
        """What a backward from some results, to some targets or all, uses up."""
        key = (numbers, needed)
        found = self._used.get(key)
        if found is None:
            history = History.replay(tip)
            roots = [self.vids[nr] for nr in numbers]
            wanted = set(self.targets) if needed is None else {
                target for target, need in zip(self.targets, needed, strict=True) if need
            }  # fmt: skip
            vids = _leading_to(history, roots, wanted)
            kept = [step for step in make_recipe(history, self.vids).steps if step.vids[0] not in vids]
            gone = [step for step in make_recipe(history, roots).steps if step.vids[0] in vids]
            found = self._used[key] = Used(vids, tuple(_saved_by(gone) - _saved_by(kept)))
        return found

    def program(self, tip: Any, backend: Any, scalars: list[Any], key: tuple[Any, ...]) -> _Program | None:
        """The program for gradients of some layouts and some wanted targets; None if the real Nodes are to run."""
        found: Any = self._programs.get(key, self)
        if found is not self:
            return found
        self._met += 1
        if len(self._programs) >= _MAX_PROGRAMS:
            return None
        if self._met == 1 and self.depth > config.compile_at_once and not config.same_bits:
            return None  # Note [New graphs]: it is compiled when it is met again
        program = self._programs[key] = self._record(tip, backend, scalars, key)
        return program

    def offer(self, tip: Any, backend: Any, key: tuple[Any, ...]) -> None:
        """Let plain backwards run a program by themselves from now on, if it is one native step: ``call_runs.py``."""
        program, (avals, needed) = self._programs.get(key), key
        if program is None or needed is not None or self.places is None or ARRAY_DATA < 0:
            return
        if any(known.avals == avals for known in self.programs):
            return
        step = program.loaded.only if program.loaded is not None else None
        made = {r.vid: r.aval for r in program.results if r is not None and r.given is None}
        is_plain = all(r is None or (not r.views and r.aval.numel and not r.aval.offset) for r in program.results)
        is_apart = len(made) == sum(r is not None and r.given is None for r in program.results)
        if step is None or not (is_plain and is_apart) or {vid for vid, _ in step.step.outputs} != made.keys():
            return
        used = self.used(tip, tuple([nr for nr, aval in enumerate(avals) if aval is not None]), None)
        known = _programs.call_program(program, step, avals, used, self._entered)
        known.addends = _programs.places_of_sums(program, self.targets)
        known.make_adding = functools.partial(_programs.add_form, program, used, self._entered, backend)
        self.programs.append(known)

    def _record(self, tip: Any, backend: Any, scalars: list[Any], key: tuple[Any, ...]) -> _Program | None:
        """Run the engine over freshly built Nodes, and compile what their rules have computed."""
        avals, needed = key
        outer = _PretendedCall()
        history = History.replay(tip)
        chosen = [nr for nr, aval in enumerate(avals) if aval is not None]
        sinks = {target: _Sink(target.aval) for target in self.targets}
        active = switch_handler(None)
        try:
            nodes, saved_results = _build(history, [self.vids[nr] for nr in chosen], sinks, outer.tid, scalars)
            seeds = [fresh_handle(avals[nr], None, outer.tid, tip.next_vid + i) for i, nr in enumerate(chosen)]
            first = tip.next_vid + len(seeds)
            inner = InnerRecorder(outer, nodes, saved_results, first, CallBackward._record.__code__)
            switch_handler(inner)
            with Provisional():
                engine.execute([Edge(*nodes[self.vids[nr]]) for nr in chosen], seeds, True, False, True)
        except Exception as error:
            let_through(error)
            log("record", "backward from outside not recorded: %r", error)
            return None
        finally:
            switch_handler(active)
        grads = [sink.grad for sink in sinks.values()]
        if needed is not None:
            grads = [grad if need else None for grad, need in zip(grads, needed, strict=True)]
        numbers = {seed._vid: nr for seed, nr in zip(seeds, chosen, strict=True)}
        known = {vid: tensor._aval for vid, tensor in inner.consts}
        known.update({seed._vid: seed._aval for seed in seeds})
        results = [
            None if grad is None else _result(inner, backend, grad, numbers, _may_be_view(target, needed))
            for grad, target in zip(grads, self.targets, strict=True)
        ]
        return self._compile(history, backend, inner, results, numbers, known)

    def _compile(
        self,
        history: History,
        backend: Any,
        inner: InnerRecorder,
        results: list[_Result | None],
        numbers: dict[int, int],
        known: dict[int, Aval],
    ) -> _Program:
        computed = [r for r in results if r is not None and r.given is None]
        outputs = tuple(dict.fromkeys([r.vid for r in computed]))
        segment = _cut(inner.instrs, outputs, lambda vid: known[vid] if vid in known else history.aval_of(vid))
        segment.layouts = {r.vid: r.aval for r in computed if not r.aval.is_contiguous}
        own = tuple([vid for vid in segment.inputs if vid not in known])
        consts = tuple([(vid, t._storage) for vid, t in inner.consts if vid in segment.inputs])
        seeds = tuple([(vid, nr) for vid, nr in numbers.items() if vid in segment.inputs])
        owned = len(outputs) == sum(r is not None for r in results) and not any(r.views for r in computed)
        loaded = backend.compile_end(segment, {}) if outputs else None
        return _Program(loaded, own, seeds, consts, owned, tuple(results), segment)

    @staticmethod
    def run(
        backend: Any, program: _Program, buffers: dict[int, Any], scalars: list[Any], grads: list[Any]
    ) -> Sequence[Any]:
        """The gradients of the targets; each that was computed has memory of its own."""
        bump("outside_backwards")
        memory: dict[int, Any] = {}
        if program.loaded is not None:
            for vid in program.inputs:
                memory[vid] = buffers[vid]
            for vid, nr in program.seeds:
                memory[vid] = grads[nr]._storage
            memory.update(program.consts)
            backend.run_program(program.loaded, memory, scalars)
        made: dict[int, Any] = {}
        results: list[Any] = []
        for result in program.results:
            if result is None:
                results.append(None)
                continue
            tensor = made.get(result.vid) if result.given is None else grads[result.given]
            if tensor is None:
                tensor = made[result.vid] = new_tensor(result.aval, memory[result.vid])
            results.append(_viewed(tensor, result.views) if result.views else tensor)
        return OwnedGrads(results) if program.owned else tuple(results)


def _may_be_view(target: GradTarget, needed: tuple[bool, ...] | None) -> bool:
    """Whether a gradient may leave as a view of what the program computes, as it would in eager mode.

    What a leaf accumulates is laid out for it anyway, and to copy a small gradient costs less than to make a view.
    """
    return needed is not None or (not target.is_leaf and target.aval.nbytes > _SMALL_NBYTES)


def _result(inner: InnerRecorder, backend: Any, grad: Any, numbers: dict[int, int], with_views: bool) -> _Result:
    """Where a recorded gradient comes from; without views, it is computed as it is."""
    vid, views = inner.source_of(grad._vid)
    if vid in numbers and (with_views or not views):
        return _Result(vid, grad._aval, numbers[vid], views)
    made = {vid: aval for instr in inner.instrs for vid, aval in zip(instr.outputs, instr.avals, strict=True)}
    if views and with_views and vid in made:
        return _Result(vid, made[vid], None, views)
    vid = grad._vid
    if vid not in made:  # a saved value, or a tensor that a rule has made
        vid, inner.next_vid = inner.next_vid, inner.next_vid + 1
        inner.instrs.append(backend.copy_instr(grad._vid, vid, grad._aval))
    return _Result(vid, own_layout(grad._aval), None, ())


def _viewed(tensor: Any, views: tuple[ViewStep, ...]) -> Any:
    """Views of a gradient, made as the engine's rules make them."""
    active = switch_handler(None)
    try:
        for view in views:
            made = door.apply(view.op, tensor, *view.params)
            tensor = made[view.nr] if isinstance(made, tuple | list) else made
        return tensor
    finally:
        switch_handler(active)


def call_backward(tip: Any) -> CallBackward | None:
    """What is known of calls that end at a trie node; None if their Nodes must look like eager ones."""
    found = tip.outside
    if found is None:
        found = tip.outside = _look_at(tip) or False
    return found or None


def _look_at(tip: Any) -> CallBackward | None:
    history = History.replay(tip)
    if history.looked_at or history.replaced or history.detached or history.released:
        return None
    roots = _escaped(history, tip)
    if not roots:
        return None
    recipe = make_recipe(history, roots)
    if recipe.gone or any(step.is_released for step in recipe.steps):
        return None
    return CallBackward(history, roots)


def _escaped(history: History, tip: Any) -> list[int]:
    """The differentiable values that handles held when some segment of the path ended."""
    found: dict[int, None] = {}
    node = tip
    while node is not None:
        if node.op is END:
            found.update(dict.fromkeys(node.ids))
        node = node.parent
    return sorted(vid for vid in found if _is_root(history, vid))


def _is_root(history: History, vid: int) -> bool:
    made = history.defs.get(vid)
    if made is None or vid in history.leaves or history.node_source(vid) != vid:
        return False
    instr, nr = made
    return instr.requires_grad and instr.avals[nr].dtype.is_inexact


def _edges_of(history: History, instr: Instr) -> list[GradTarget | int]:
    """Where an instruction's Node sends gradients: targets, and values of the call."""
    edges: list[GradTarget | int] = []
    needs = instr.needs if instr.op is COPY_SLICES else needs_and_plan(instr)[0]
    for vid, need in zip(instr.inputs, needs, strict=True):
        if not need:
            continue
        if vid in history.leaves:
            leaf = history.leaves[vid]
            edges.append(GradTarget(leaf, True, history.aval_of(leaf)))
            continue
        source = history.node_source(vid)
        is_made_here = source in history.defs and history.defs[source][0].requires_grad
        edges.append(source if is_made_here else GradTarget(source, False, history.aval_of(source)))
    if instr.op is COPY_SLICES:
        edges.append(instr.inputs[1])  # the operation itself: its Node is part of this one
    return edges


def _targets(history: History, roots: list[int]) -> tuple[GradTarget, ...]:
    """Where gradients go. The engine runs Nodes latest first; a target is ready when the last of its users has run."""
    found: dict[GradTarget, None] = {}
    for instr in ancestors(history, roots):
        for edge in _edges_of(history, instr):
            if isinstance(edge, GradTarget):
                found.pop(edge, None)
                found[edge] = None
    return tuple(found)


def _leading_to(history: History, roots: list[int], wanted: set[GradTarget]) -> frozenset[int]:
    """The first outputs of the instructions behind the roots whose Nodes lead to some targets."""
    leading: set[Any] = set(wanted)
    found = []
    for instr in reversed(ancestors(history, roots)):
        if not leading.isdisjoint(_edges_of(history, instr)):
            leading.update(instr.outputs)
            found.append(instr.outputs[0])
    return frozenset(found)


def _saved_by(steps: Any) -> set[int]:
    """The values that the Nodes of some steps save."""
    saved = {vid for step in steps for _, vid, _ in step.outputs}
    return saved | {x.vid for step in steps for x in step.inputs if hasattr(x, "vid")}


def _build(
    history: History, roots: list[int], sinks: dict[GradTarget, _Sink], tid: int, scalars: list[Any]
) -> tuple[dict[int, Any], list[Any]]:
    """(the Nodes behind some values, handles on what they have saved of their results)."""
    saved_results = []

    def value(vid: int, aval: Any, is_result: bool = False) -> Any:
        handle = fresh_handle(aval, None, tid, vid)
        if is_result:
            saved_results.append(handle)
        return handle

    leaves = {}
    for target, sink in sinks.items():
        if target.is_leaf:
            leaves[target.vid] = leaf = fresh_handle(target.aval, None)
            leaf._requires_grad, leaf._accumulator = True, weakref.ref(sink)
    outer = {target.vid: (sink, 0) for target, sink in sinks.items() if not target.is_leaf}
    numbers = [symbolic_number(x, slot) for slot, x in enumerate(scalars)]
    sources = Sources(value, leaves.__getitem__, outer.__getitem__, numbers, lambda v: True)
    nodes: dict[int, Any] = {}
    build_nodes(make_recipe(history, roots), sources, nodes, lambda vid: vid)  # no other Node takes part
    return nodes, saved_results


def _cut(instrs: list[Instr], outputs: tuple[int, ...], aval_of: Any) -> Segment:
    """The instructions that the outputs need, with the inputs that those need."""
    wanted = set(outputs)
    kept: list[Instr] = []
    for instr in reversed(instrs):
        if wanted.isdisjoint(instr.outputs):
            continue
        kept.append(instr)
        wanted.update(v for v in instr.inputs if isinstance(v, int))
    kept.reverse()
    made = {vid for instr in kept for vid in instr.outputs}
    return Segment(kept, {vid: aval_of(vid) for vid in sorted(wanted - made)}, outputs)
