"""The usual backward inside a step, recorded without Nodes.

Owns: ``sweep``: which instructions' rules run, in which order, and where their gradients go.
Must not know: the trie, what rules are, how copies of what they record are made (``rule_templates.py``).

# Note [Backward without Nodes]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# The engine runs Nodes by descending sequence number, as dependencies allow; an accumulator as soon as all that it
# waits for has arrived. In a trace the value ids of results are these numbers, so the order of a backward into all
# leaves is known: the instructions, last to first. For ``loss.backward()`` over nothing but operations of the trace,
# which is what most steps do, neither Nodes nor the engine are needed: the instructions are the Nodes, a dictionary
# has the gradients that have arrived, and what rules record comes from templates (Note [Rule templates]). What is
# recorded is the same, instruction by instruction; ``JITGRAD_CHECK=1`` records both ways and compares.
# Whatever else there is (writes through views, values that were written over, graphs that are used up, sparse leaves,
# a look at the engine's trace) is for Nodes and the engine: ``NeedsNodesError`` says so, and nothing has happened then
# but what the caller can take back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.compiled.backward.inner_recorder import InnerRecorder, symbolic_number
from jitgrad.compiled.backward.rule_templates import Gradient, NeedsNodesError, Templates
from jitgrad.compiled.nodes.graph_nodes import ancestors, context_of, needs_and_plan
from jitgrad.events import bump
from jitgrad.grad_mode import set_grad_mode
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import RuleContext
from jitgrad.ops.views.strided import COPY_SLICES
from jitgrad.probe import probe
from jitgrad.runtime.engine.graph.accumulate_grad import accumulator_of
from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.graph.op_node import BackwardPlan, ends_with_release, name_of_op, run_rules
from jitgrad.runtime.engine.graph.validate import fit
from jitgrad.runtime.engine.run.input_buffer import accumulate
from jitgrad.runtime.engine.run.request import BackwardRequest, fill_grads
from jitgrad.runtime.engine.run.trace import is_active as is_traced
from jitgrad.state import modes_in_use, state
from jitgrad.tracer.recording.graph import Const, Instr, RuntimeScalar
from jitgrad.tracer.recording.history import History
from jitgrad.tracer.recording.slots import fresh_handle

__all__ = ["NeedsNodesError", "can_sweep", "sweep"]


def can_sweep(request: BackwardRequest) -> bool:
    """Whether a backward is of the usual kind, as far as its arguments tell."""
    return (
        request.accumulate
        and not request.inputs
        and not request.create_graph
        and len(request.roots) == 1
        and request.grads[0] is None
        and current.graph_task is None
        and current.wanted is None
        and probe.session is None
        and not modes_in_use
        and not state.saved_tensor_hooks
        and not is_traced()
    )


def sweep(
    history: History, request: BackwardRequest, inner: InnerRecorder, inputs: Any, scalars: list[Any]
) -> set[int]:
    """Record a backward that ``can_sweep``; returns the results of instructions whose saved values are gone.

    Args:
        inputs: input id -> tensor.
        scalars: the call's run-time scalars.

    Raises:
        NeedsNodesError: only the engine can do it.
        Whatever a rule or the recorder raises.
    """
    found = _Sweep(history, inner, inputs, scalars)
    found.look(request.roots[0]._vid)
    (seed,) = fill_grads(request.roots, request.grads)
    before = state.grad_enabled
    try:
        set_grad_mode(False)
        found.run(request.roots[0]._vid, seed)
    finally:
        set_grad_mode(before)
    bump("copied_rules", found.num_copies)
    return set() if request.keep_graph else found.released


class _Destination(NamedTuple):
    """Where a gradient goes: the first result of an instruction, or ``id`` of a leaf; which of its results; its layout.

    Attributes:
        leaf: the leaf; None: it goes to an instruction.
    """

    key: int
    nr: int
    aval: Aval
    leaf: Any


class _Visit(NamedTuple):
    """An instruction as a Node: what ``_Step`` of ``graph_nodes.py`` is to one that is made."""

    instr: Instr
    plan: BackwardPlan
    context: RuleContext
    places: tuple[_Destination | None, ...]


class _Sweep:
    """One backward."""

    __slots__ = (
        "_accumulators", "_arrived", "_awaited", "_history", "_inner", "_inputs", "_rules", "_scalars", "_templates",
        "released",
    )  # fmt: skip

    def __init__(self, history: History, inner: InnerRecorder, inputs: Any, scalars: list[Any]) -> None:
        self._history = history
        self._inner = inner
        self._inputs = inputs
        self._scalars = scalars
        self._templates = Templates(inner)
        self._rules: list[_Visit] = []
        self._accumulators: dict[int, Any] = {}  # id of a leaf -> its accumulator
        self._awaited: dict[int, int] = {}  # id of a leaf -> how many edges lead to it
        self._arrived: dict[int, list[Gradient | None]] = {}  # first result of an instruction -> its gradients
        self.released: set[int] = set()

    @property
    def num_copies(self) -> int:
        """See ``Templates``."""
        return self._templates.num_copies

    # --- what there is to do ---

    def look(self, root: int) -> None:
        """Find the instructions that the engine would reach, and what their rules need."""
        history = self._history
        start = self._place(root)
        if start.leaf is not None or history.replaced_in:
            raise NeedsNodesError
        reached = {start.key}
        for instr in ancestors(history, [root]):
            if instr.outputs[0] not in reached:
                continue
            if instr.op is COPY_SLICES or not history.released.isdisjoint(instr.outputs):
                raise NeedsNodesError
            needs, plan = needs_and_plan(instr)
            gone = history.overwritten
            if gone and plan.saves and not gone.isdisjoint(_saved_values(instr, plan)):
                raise NeedsNodesError
            avals = tuple([history.aval_of(x) if type(x) is int else None for x in instr.inputs])
            places = tuple([self._place(x) if need else None for x, need in zip(instr.inputs, needs, strict=True)])
            for place in places:
                if place is None:
                    continue
                if place.leaf is None:
                    reached.add(place.key)
                else:
                    self._awaited[place.key] = self._awaited.get(place.key, 0) + 1
            self._rules.append(_Visit(instr, plan, context_of(instr, avals, needs), places))

    def _place(self, vid: int) -> _Destination:
        history = self._history
        source = history.leaves.get(vid)
        if source is not None:
            leaf = self._inputs[source]
            node = self._accumulators.get(id(leaf))
            if node is None:
                node = self._accumulators[id(leaf)] = accumulator_of(leaf)
                if node.hooks is not None or leaf.is_sparse:
                    raise NeedsNodesError
            return _Destination(id(leaf), 0, node.input_metadata[0], leaf)
        instr, nr = history.defs[history.node_source(vid)]
        return _Destination(instr.outputs[0], nr, instr.avals[nr], None)

    # --- doing it ---

    def run(self, root: int, seed: Any) -> None:
        """Run the rules."""
        start = self._place(root)
        self._arrive(start, self._templates.taken(seed))
        for rules in self._rules:
            instr, plan, context, places = rules
            name = name_of_op(instr.op, context)
            self._inner.origin = f"{name} of {instr.where}" if instr.where else name
            grads = self._arrived.pop(instr.outputs[0], None)
            found = None if grads is None or not any(grads) else self._gradients(rules, grads)
            if ends_with_release(instr.op, plan, bool(_saved_values(instr, plan))):
                self.released.update(instr.outputs)
            ready: list[_Destination] = []
            for nr, place in enumerate(places):
                if place is None:
                    continue
                grad = None if found is None else found[nr]
                if grad is not None:
                    self._arrive(place, self._fitting(nr, grad, place.aval))
                if place.leaf is not None:
                    self._awaited[place.key] -= 1
                    if not self._awaited[place.key]:
                        ready.append(place)
            for place in ready:
                self._accumulate(place)

    def _gradients(self, rules: _Visit, grads: list[Gradient | None]) -> list[Gradient | None]:
        """What the rules of an instruction return."""
        instr, plan, context, places = rules
        operands: list[Any] = [g.vid for g in grads if g is not None]
        kind: list[Any] = [context, *[None if g is None else g.aval for g in grads]]
        if plan.saves:
            for x in _saved(instr, plan):
                if type(x) is Const:
                    kind.append((type(x.value), x.value))
                else:
                    operands.append(x)
                    kind.append(x.is_float if type(x) is RuntimeScalar else None)

        def work() -> tuple[Any, ...]:
            given = [None if g is None else self._templates.handle(g) for g in grads]
            return run_rules(instr.op, plan, context, given, self._saved_handles(rules), (True,) * len(places))

        return self._templates.record(tuple(kind), operands, work)

    def _saved_handles(self, rules: _Visit) -> list[Any]:
        """What a Node's ``unpack_saved`` gives."""
        instr, plan, _, _ = rules
        found: list[Any] = []
        for i in plan.inputs:
            x = instr.inputs[i]
            if type(x) is Const:
                found.append(x.value)
            elif type(x) is RuntimeScalar:
                found.append(symbolic_number(self._scalars[x.slot], x.slot))
            else:
                handle = fresh_handle(self._history.aval_of(x), None, self._inner.tid, x)
                handle._requires_grad = instr.needs[i]
                found.append(handle)
        aval_of = self._history.aval_of
        results = [instr.outputs[nr] for nr in plan.outputs]
        return found + [fresh_handle(aval_of(vid), None, self._inner.tid, vid) for vid in results]

    def _fitting(self, index: int, grad: Gradient, expected: Aval) -> Gradient:
        """A gradient as what it goes to expects it, see ``validate.fit``."""
        aval = grad.aval
        if aval is expected:
            return grad
        if aval.ndim == expected.ndim and aval.shape == expected.shape and aval.dtype is expected.dtype:
            return grad
        handle = self._templates.handle
        (fitting,) = self._templates.record(
            ("fit", aval, expected), [grad.vid], lambda: [fit(None, index, handle(grad), expected)]
        )
        assert fitting is not None
        return fitting

    def _arrive(self, place: _Destination, grad: Gradient) -> None:
        """What ``InputBuffer.add`` does."""
        buffer = self._arrived.get(place.key)
        if buffer is None:
            count = 1 if place.leaf is not None else len(self._history.defs[place.key][0].outputs)
            buffer = self._arrived[place.key] = [None] * count
        old = buffer[place.nr]
        if old is not None:
            handle = self._templates.handle
            (grad_or_none,) = self._templates.record(
                ("sum", old.aval, grad.aval),
                [old.vid, grad.vid],
                lambda: [accumulate(handle(old), handle(grad), False)],
            )
            assert grad_or_none is not None
            grad = grad_or_none
        buffer[place.nr] = grad

    def _accumulate(self, place: _Destination) -> None:
        """All that a leaf waits for has arrived."""
        node, buffer = self._accumulators[place.key], self._arrived.pop(place.key, None)
        if buffer is not None:
            self._inner.origin = node.name()
            grad = buffer[0]
            node.apply([None if grad is None else self._templates.handle(grad)])


def _saved(instr: Instr, plan: BackwardPlan) -> list[Any]:
    """What a Node saves, in the plan's order: value ids and numbers."""
    return [instr.inputs[i] for i in plan.inputs] + [instr.outputs[nr] for nr in plan.outputs]


def _saved_values(instr: Instr, plan: BackwardPlan) -> list[int]:
    return [x for x in _saved(instr, plan) if type(x) is int]
