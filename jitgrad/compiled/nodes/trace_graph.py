"""The graph behind results that escape a compiled step, built only if somebody asks.

Owns: ``TraceGraph``.

# Note [Escaping graphs]
# ~~~~~~~~~~~~~~~~~~~~~~
# (``loss.backward()`` outside usually needs no Nodes: Note [Backward from outside].)
# Every differentiable handle of a call points at the call's one ``TraceGraph``. While the call runs, a look at a
# ``grad_fn`` is an event that holds the recipe of the Nodes it makes; their saved values are handles of the call, which
# may have no memory yet. Afterwards the graph holds what the survivors need - the end of the path, the saved values'
# storages, the leaves - and builds the Nodes on the first look. The versions that the saved tensors had when the
# segment ended are kept, so a later in-place change is noticed as in eager mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

from jitgrad.compiled.nodes.creation_order import CreationOrder
from jitgrad.compiled.nodes.graph_nodes import Recipe, Sources, build_nodes, make_recipe, take_history
from jitgrad.config import config
from jitgrad.devices import CPU
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, own_layout
from jitgrad.runtime.engine.graph.accumulate_grad import accumulator_of
from jitgrad.runtime.engine.graph.call_node import CallNode, join_call
from jitgrad.runtime.engine.graph.node import NextEdge
from jitgrad.runtime.engine.graph.saved_variable import SavedVariable, pack_saved
from jitgrad.state import anomaly, modes_in_use, state
from jitgrad.tracer.recording.call_graph import OPENED_COSTS, CallGraph
from jitgrad.tracer.recording.history import History
from jitgrad.tracer.recording.slots import fresh_handle, twin_of
from jitgrad.version_counter import VERSION, version_of

if TYPE_CHECKING:
    from jitgrad.compiled.backward.from_outside import CallBackward
    from jitgrad.compiled.nodes.upkeep import Upkeep

__all__ = ["TraceGraph"]

# loaded by the first backward outside of a compiled call
_from_outside: Any = LazyModule("jitgrad.compiled.backward.from_outside")
_sweep: Any = LazyModule("jitgrad.compiled.nodes.sweep")
_upkeep: Any = LazyModule("jitgrad.compiled.nodes.upkeep")  # by the first Node, or the first read in a step


@functools.cache
def _upkeep_class() -> type[Upkeep]:
    """Looked up once: steps that read need it at every call."""
    found: type[Upkeep] = _upkeep.Upkeep
    return found


class TraceGraph(CallGraph):
    """What the escaped results of one call can be differentiated with.

    """

    __slots__ = (
        "_buffers",
        "_former_leaves",
        "_inputs",
        "_outer",
        "_scalars",
        "_twins",
        "_upkeep",
    )

    TABLES: ClassVar[dict[str, Callable[[], Any]]] = {
        **CallGraph.TABLES, "_buffers": dict, "_former_leaves": dict, "_inputs": dict, "_outer": dict,
        "_scalars": list, "_twins": list, "_upkeep": lambda: None,
    }  # fmt: skip

    _buffers: dict[int, Any]
    _former_leaves: dict[int, Any]
    _inputs: dict[int, Any]
    _outer: dict[int, Any]
    _scalars: list[int | float]
    _twins: list[tuple[ref[Any], ref[Any]]]
    _upkeep: Upkeep | None

    @property
    def order(self) -> CreationOrder:
        """How Nodes are numbered."""
        return CreationOrder(self.marks)

    def begin(self, recorder: Any) -> None:
        """Serve another call, when nothing of the last one escaped."""
        self.recorder = recorder
        self.tid = recorder.tid

    def keep(self, tip: Any, alive: list[Any], saves: bool, windows: tuple[tuple[int, int], ...]) -> None:
        """Remember the path, and the versions of everything that may have been saved.

        Args:
            windows: (value id, value id): a saved view, and what it is a view of.
        """
        self.tip = tip
        if not saves:
            return
        self.saves = True
        self.note_versions([*self.recorder.inputs.values(), *alive])
        held = {h._vid: h for h in alive}
        for vid, root in windows:
            whole = held.get(root, self.recorder.inputs.get(root))
            counter = self.counters[vid] = whole._vc
            self.versions[vid] = counter[VERSION]
            self.recorder.aliases.note_window(whole)

    @property
    def upkeep(self) -> Upkeep:
        """When the running call lets go of its Nodes, see Note [Nodes that die]."""
        if self._upkeep is None:
            self._upkeep = _upkeep_class()()
        return self._upkeep

    def note_versions(self, tensors: Iterable[Any]) -> None:
        """Remember which version each value has, the first time it is seen."""
        self.is_settled = True
        for tensor in tensors:
            vid = tensor._vid
            if tensor._tid == self.tid and vid not in self.counters:
                self.counters[vid] = tensor._vc
                self.versions[vid] = version_of(tensor)

    def close(self) -> None:
        """The call is over: hold on to what the graph needs, and to nothing else."""
        recorder, self.recorder = self.recorder, None
        if self._upkeep is not None:
            self._upkeep.reset()
        self.has_made = False
        self.ends = self.nbytes = 0
        self.survivors.clear()
        self.settled = None
        self._take_notes()
        if self.tip is not None or self.order.is_in_use:
            self.order.close(recorder.node.next_vid)
        if self.tip is None:
            self.nodes.clear()  # a user that holds a Node still has it
            self.detached.clear()
            self._former_leaves.clear()
            self._twins.clear()
            self.counters.clear()
            self.versions.clear()
            self.order.reset()
            self.is_touched = self.is_settled = False
            return
        if self.saves and self.nodes and not self.released():  # a backward in the call itself would have used them up
            self.trie.opened += OPENED_COSTS
        self.tip = recorder.node  # what came after the survivors counts: values overwritten, graphs used up
        self._inputs, self._scalars, self._outer = recorder.inputs, recorder.scalars, recorder.entry.outer
        if self.saves:
            self._buffers = recorder.buffers
        else:  # a graph that has been used up: its shape, and its leaves
            self._inputs = {vid: t for vid, t in recorder.inputs.items() if t._requires_grad}

    def _take_over(self) -> None:
        """A hit has closed the call: make tables of what it left."""
        self._take_notes()
        if self.entered is not None:
            entered, self.entered = self.entered, None
            self._inputs, self._buffers = {}, self.table
            self.unfold(self._buffers)
            for x, storage, vid in zip(entered[::3], entered[1::3], entered[2::3], strict=True):
                if x is not None:  # it was not used up by a program
                    self._inputs[vid] = x
                    self._buffers.setdefault(vid, storage)
            self._outer, self._scalars = self.outer, self.numbers
            self.table = self.outer = None

    def _take_notes(self) -> None:
        """Versions that a hit has noted."""
        if self.noted is not None:
            noted, self.noted = self.noted, None
            for vid, counter, version in zip(noted[::3], noted[1::3], noted[2::3], strict=True):
                if vid not in self.counters:
                    self.counters[vid], self.versions[vid] = counter, version

    def note_former_leaf(self, vid: int, tensor: Any) -> None:
        """A leaf requires no gradient any more. Nodes lead to it nevertheless, and it may change its mind."""
        self._former_leaves[vid] = tensor

    def _leaf(self, vid: int) -> Any:
        """The leaf that came in under an input id, once the call is over."""
        found = self._inputs.get(vid)
        return self._former_leaves[vid] if found is None else found

    def attach(self, tensor: Any) -> Any:
        """Give a tensor of the call its ``grad_fn``, and return that."""
        if self.entered is not None:
            self._take_over()
        vid = tensor._vid
        if abs(tensor._tid) != self.tid and tensor._grad_fn is not None:
            return tensor._grad_fn  # it was just entered by a call on another thread, which asked for the Node first
        if vid not in self.nodes:
            tip = self.tip if self.recorder is None else self.recorder.node
            self.build(vid, make_recipe(History.replay(tip), (vid,), self.nodes))
        tensor._grad_fn, tensor._output_nr = self.nodes[vid]
        return tensor._grad_fn

    # --- backward from outside, see the Note ---

    def join(self, tensor: Any) -> None:
        """Give a result of the call, as it was made, the ``_grad_fn`` that edges lead to: a stand-in, or the Node.

        ``join_call`` has done so where the call's end is known, and a hit has closed it.
        """
        if self.entered is not None:
            known = _from_outside.call_backward(self.tip) if self.saves and self.recorder is None else None
            if known and known.places is None:
                known.note_places(self.entered)
                if join_call(tensor):
                    return
            self._take_over()
        if self.recorder is None and self.saves and not self.nodes and not self.used:
            node = self._stand_in()
            number = node.known.numbers.get(tensor._vid) if node is not None else None
            if number is not None:
                tensor._grad_fn, tensor._output_nr = node, number
                return
        self.attach(tensor)

    def _stand_in(self) -> CallNode | None:
        """The call's only Node, as long as nobody looks; None if there is none like that."""
        node = self.stand_in() if self.stand_in is not None else None
        if node is not None:
            return node
        known = self.tip.outside
        if known is None:
            known = _from_outside.call_backward(self.tip)
        if not known:
            return None
        edges: list[Any] = []
        for vid, is_leaf, _ in known.targets:
            edge = (accumulator_of(self._leaf(vid)), 0) if is_leaf else self._outer.get(vid)
            if edge is None or edge[0] is None:
                return None
            edges.append(edge)
        node = CallNode(self, known, tuple(edges))
        node.sequence_nr = self.order.number_of(known.vids[-1])
        node.topological_nr = known.depth + max(edge[0].topological_nr for edge in edges)
        self.stand_in = ref(node)
        return node

    def node_of(self, vid: int) -> tuple[Any, int]:
        """The real (Node, output number) of a value."""
        if self.entered is not None:
            self._take_over()
        if vid not in self.nodes:
            self.build(vid, make_recipe(History.replay(self.tip), (vid,), self.nodes))
        found: tuple[Any, int] = self.nodes[vid]
        return found

    def must_open(self, known: CallBackward, numbers: set[int]) -> bool:
        """Whether a backward that comes from some results must run the real Nodes."""
        if self.nodes or self.used or self.detached or state.handler is not None or modes_in_use:
            return True
        if anomaly.enabled or state.eager_depth or config.eager:
            return True
        return not known.covers(numbers) or self._is_overwritten(known)

    def _is_overwritten(self, known: CallBackward) -> bool:
        """Whether what was saved is not what it was when the call ended."""
        if self.entered is not None:
            self._take_over()
        counters, versions, inputs, buffers = self.counters, self.versions, self._inputs, self._buffers
        for vid, whole in known.watch:
            if vid not in counters:
                vid = whole
            counter = counters.get(vid)
            if counter is not None and counter[VERSION] != versions[vid]:
                return True
            tensor = inputs.get(vid)
            if tensor is not None and tensor._storage.addr != buffers[vid].addr:
                return True
        return False

    def run_backward(self, node: CallNode, grads: list[Any], needed: tuple[bool, ...] | None) -> Sequence[Any]:
        """The gradients of a stand-in's edges."""
        known = node.known
        if all(grad is None for grad in grads):
            return (None,) * len(node.next_edges)
        if not any(grad is not None and (grad.is_sparse or grad._aval.device is not CPU) for grad in grads):
            key = (tuple([None if grad is None else grad._aval for grad in grads]), needed)
            if not self._is_overwritten(known):
                program = known.program(self.tip, self.backend, self._scalars, key)
                if program is not None:
                    self.trie.opened -= self.trie.opened > 0
                    known.offer(self.tip, self.backend, key)
                    return known.run(self.backend, program, self._buffers, self._scalars, grads)
        roots = [self.node_of(vid) for vid, grad in zip(known.vids, grads, strict=True) if grad is not None]
        return _sweep.sweep(roots, [grad for grad in grads if grad is not None], self._edges_of(known))

    def _edges_of(self, known: CallBackward) -> list[NextEdge]:
        """Where the call's real Nodes lead. A stand-in's edges may lead to the real Nodes of a call before it."""
        return [(accumulator_of(self._leaf(v)), 0) if is_leaf else self._outer[v] for v, is_leaf, _ in known.targets]

    def use_up(self, known: CallBackward, numbers: tuple[int, ...], needed: tuple[bool, ...] | None) -> None:
        """A backward is over that does not retain the graph: drop what nothing else can ask for."""
        if not numbers:
            return
        if self.entered is not None:
            self._take_over()
        used = known.used(self.tip, numbers, needed)
        self.used |= used.vids
        for vid in used.freed:
            self._buffers.pop(vid, None)
            tensor = self._inputs.get(vid)
            if tensor is not None and not tensor._requires_grad:
                del self._inputs[vid]
        for vid in self.used & self.nodes.keys():
            self.nodes[vid][0].release_variables()

    def make_all_nodes(self) -> None:
        """Make the Nodes of everything that the last segment left, all at once: each look would walk the whole path."""
        recorder = self.recorder
        history = recorder.path.live()
        vids = (vid for vid, _ in history.end.avals) if history.end is not None else ()
        roots = [v for v in vids if v in history.defs and history.defs[v][0].requires_grad and v not in self.nodes]
        roots = [v for v in roots if not self.upkeep.is_lost(recorder.path.live, v)]
        if roots:
            self.build(roots[0], make_recipe(history, roots, self.nodes))

    def recipe(self, vid: int) -> Recipe:
        """How ``build`` will make the Node of a value, at this point of the path. Only while the call runs."""
        recorder = self.recorder
        history = recorder.path.live()
        recipe = make_recipe(history, (vid,), self.nodes)
        lost = {v for v in recipe.vids if v in history.defs and v not in history.here and v not in recorder.buffers}
        recipe.gone |= lost
        return recipe

    def build(self, vid: int, recipe: Recipe) -> None:
        """Make the Nodes behind a value."""
        if self.recorder is None and not self.nodes:
            self.trie.opened += OPENED_COSTS
        self.is_touched = True
        if self.entered is not None:
            self._take_over()
        if self.leaves is not None:  # a hit has closed the call
            self._inputs = dict(zip(self.leaves[::2], self.leaves[1::2], strict=True))
            self._scalars, self.leaves = self.numbers, None
        recorder = self.recorder
        is_running = recorder is not None
        outer = recorder.entry.outer if is_running else self._outer
        if recipe.steps:
            sources = self._running_sources(recipe) if is_running else self._closed_sources(recipe)
            made = build_nodes(recipe, sources, self.nodes, self.order.number_of)
            if not is_running:
                self._restore_versions(made)
                for used in self.used & self.nodes.keys():
                    self.nodes[used][0].release_variables()
            elif state.handler is None:  # else the handler has reported it itself
                self._adopt_outputs(made)
            elif modes_in_use:
                for node in made:
                    pack_saved(node)
        if vid not in self.nodes:  # still the Node of an older value, though it has been written outside the graph
            source = recipe.sources.get(vid, vid)
            self.nodes[vid] = self.nodes[source] if source in self.nodes else outer[source]

    def detach(self, tensor: Any) -> None:
        """``tensor.detach_()``: Nodes that saved it as an operand refuse to use it."""
        self.is_touched = True
        self.detached.add(tensor._vid)
        for twin in self._twins_of(tensor):
            take_history(twin)

    def replace_data(self, tensor: Any, value: Any) -> None:
        """``tensor.data = value``: so it is for Nodes that saved the tensor as an operand."""
        for twin in self._twins_of(tensor):
            twin._aval, twin._storage, twin._array, twin._tid = value._aval, value._storage, None, 0

    def _twins_of(self, tensor: Any) -> list[Any]:
        """What the Nodes that exist have saved in place of a tensor."""
        return [twin for known, twin in ((a(), b()) for a, b in self._twins) if known is tensor and twin is not None]

    def forget(self, storage: Any) -> None:
        """A storage is about to be written outside: what Nodes saved of it is to be looked at afresh."""
        for saved in self._saved():
            found = saved.tensor._storage
            if found is not None and (found is storage or found.addr == storage.addr != 0):
                saved.tensor._tid = 0

    def _saved(self) -> Iterator[Any]:
        """What the Nodes that exist have saved of this call's values."""
        for node, _ in tuple(self.nodes.values()):
            for saved in getattr(node, "saved", None) or ():
                if isinstance(saved, SavedVariable) and saved.tensor is not None and saved.tensor._tid == self.tid:
                    yield saved

    def released(self) -> frozenset[int]:
        """The values whose Nodes have been used up."""
        return frozenset(vid for vid, (node, _) in self.nodes.items() if getattr(node, "saved", ()) is None)

    def _running_sources(self, recipe: Recipe) -> Sources:
        """While the call runs: saved values are handles of the call; the segment's end gives memory to those in use."""
        recorder = self.recorder
        tid, handles, buffers, counters = recorder.tid, recorder.handles, recorder.buffers, self.counters
        known_twins, wholes = self._twins, recipe.wholes
        slots = recorder.slots.values() if wholes else ()
        shared = {h._vid: h._vc for slot in slots for h in slot.live() if h._tid == tid}
        twins = {h._vid: h for h in reversed(handles)}
        twins.update((vid, t) for vid, t in recorder.inputs.items() if t._vid == vid and t._tid == tid)

        def value(vid: int, aval: Aval, is_output: bool = False) -> Any:
            twin = twins.get(vid)
            if twin is not None:
                handle = twin_of(twin)
                if not is_output:
                    known_twins.append((ref(twin), ref(handle)))
            elif vid in buffers:
                handle = fresh_handle(aval, buffers[vid], tid, vid)
                counter = counters.get(vid, shared.get(wholes.get(vid)))
                if counter is not None:
                    handle._vc = counter
                return handle
            else:
                handle = fresh_handle(own_layout(aval), None, tid, vid)
                if wholes.get(vid) in shared:
                    handle._vc = shared[wholes[vid]]
            recorder.adopt(handle)
            return handle

        leaf, origin = recorder.inputs.__getitem__, recorder.entry.outer.__getitem__
        return Sources(value, leaf, origin, recorder.scalars, lambda v: True, self.detached, tid)

    def _adopt_outputs(self, made: list[Any]) -> None:
        """Saved outputs are aliases of the handles that the Nodes were built with: they need memory of their own."""
        for node in made:
            for saved in node.saved or ():
                if isinstance(saved, SavedVariable) and saved.output_nr >= 0 and saved.tensor._tid == self.tid:
                    self.recorder.adopt(saved.tensor)

    def _closed_sources(self, recipe: Recipe) -> Sources:
        buffers, inputs = self._buffers, self._inputs

        def value(vid: int, aval: Aval, is_output: bool = False) -> Any:
            known, storage = inputs.get(vid), buffers.get(vid)
            if known is not None and storage is not None and known._storage.addr != storage.addr and not is_output:
                return twin_of(known)  # its data was replaced after the call
            handle = fresh_handle(aval, storage, self.tid, vid)
            whole = recipe.wholes.get(vid)
            if vid not in self.counters and whole in self.counters:
                self.counters[vid], self.versions[vid] = self.counters[whole], self.versions[whole]
            counter = self.counters.get(vid)
            if counter is not None and vid not in recipe.gone:
                handle._vc = counter
            return handle

        history = History.replay(self.tip)
        leaf, origin = self._leaf, self._outer.__getitem__
        has_value = lambda v: v in buffers or v not in history.defs  # noqa: E731
        return Sources(value, leaf, origin, self._scalars, has_value, self.detached)

    def _restore_versions(self, made: list[Any]) -> None:
        """Saved at the end of the segment, not now."""
        for node in made:
            for saved in node.saved or ():
                version = self.versions.get(getattr(getattr(saved, "tensor", None), "_vid", -1))
                if version is not None and saved.tensor._vc is self.counters.get(saved.tensor._vid):
                    saved.version = version
