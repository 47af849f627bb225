"""From recorded instructions to graph nodes.

Owns: which instructions a graph is made of, what they save, and building their Nodes.
Must not know: how a trace is recorded or run.
In: a ``History`` and value ids. Out: a ``Recipe``, and Nodes: exactly those that eager execution would have made.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, NamedTuple

from jitgrad.ops.aval import Aval, own_layout
from jitgrad.ops.table import Op, RuleContext
from jitgrad.ops.views.strided import COPY_SLICES
from jitgrad.runtime.engine.graph.accumulate_grad import accumulator_of
from jitgrad.runtime.engine.graph.anomaly import store_line
from jitgrad.runtime.engine.graph.copy_slices import CopySlices
from jitgrad.runtime.engine.graph.node import INVALID_EDGE, NextEdge
from jitgrad.runtime.engine.graph.op_node import BackwardPlan, assemble, backward_plan, context_for
from jitgrad.runtime.engine.graph.saved_variable import SavedVariable
from jitgrad.state import anomaly
from jitgrad.structs import struct
from jitgrad.tracer.recording.graph import Const, Instr, RuntimeScalar
from jitgrad.tracer.recording.history import History
from jitgrad.tracer.recording.slots import fresh_handle, twin_of
from jitgrad.version_counter import count_write, remember_write

__all__ = [
    "Recipe",
    "Sources",
    "ancestors",
    "build_nodes",
    "context_of",
    "make_recipe",
    "needs_and_plan",
    "saved_vids",
    "savers",
    "take_history",
]


def ancestors(history: History, roots: Iterable[int], known: Container[int] = ()) -> list[Instr]:
    """The differentiable instructions that the roots were computed by, latest first; not those behind known values.

    The walk ends with the first of them: a call that trains many times asks for each turn's own.
    """
    leaves, sources, defs = history.leaves, history.nodes_from, history.defs
    wanted = {source for vid in roots if (source := history.node_source(vid)) in defs}
    found = []
    for instr in reversed(history.instrs):
        if not wanted:
            break
        outputs = instr.outputs
        if len(outputs) == 1:
            if outputs[0] not in wanted:
                continue
            wanted.discard(outputs[0])
        else:
            if wanted.isdisjoint(outputs):
                continue
            wanted.difference_update(outputs)
        if not instr.requires_grad or outputs[0] in known:
            continue
        found.append(instr)
        inputs, needs = instr.inputs, instr.needs
        for nr in range(len(inputs)):
            if needs[nr]:
                v = inputs[nr]
                if v not in leaves:
                    source = sources.get(v, v) if sources else v
                    if source in defs:
                        wanted.add(source)
        if instr.op is COPY_SLICES:
            wanted.add(instr.inputs[1])  # the operation itself: its Node is part of this one
    return found


_NEEDS: dict[tuple[Op, tuple[bool, ...]], tuple[tuple[bool, ...], BackwardPlan]] = {}
_MAX_NEEDS = 4096


def needs_and_plan(instr: Instr) -> tuple[tuple[bool, ...], BackwardPlan]:
    """(which inputs get a gradient: those that need one and have a rule; what the Node saves and computes)."""
    op = instr.op
    found = _NEEDS.get((op, instr.needs))
    if found is None:
        rules = op.vjps * len(instr.inputs) if op.num_inputs < 0 else op.vjps
        needs = tuple([need and rule is not None for need, rule in zip(instr.needs, rules, strict=True)])
        if len(_NEEDS) >= _MAX_NEEDS:  # lists may have any length
            _NEEDS.clear()
        found = _NEEDS[op, instr.needs] = (needs, backward_plan(op, needs))
    return found


def context_of(instr: Instr, avals: tuple[Aval | None, ...], needs: tuple[bool, ...]) -> RuleContext:
    """The context of an instruction's Node."""
    return context_for(instr.op, avals, instr.avals, instr.params, needs)


def saved_vids(history: History, roots: list[int]) -> set[int]:
    """The values that a later backward from the roots will read."""
    saved: set[int] = set()
    released: set[int] = set()
    for instr in ancestors(history, roots):
        if not history.released.isdisjoint(instr.outputs) or not released.isdisjoint(instr.outputs):
            if instr.op is COPY_SLICES:
                released.add(instr.inputs[1])
            continue
        plan = needs_and_plan(instr)[1]
        if plan.saves:
            saved.update([v for v in [instr.inputs[i] for i in plan.inputs] if isinstance(v, int)])
            saved.update([instr.outputs[nr] for nr in plan.outputs])
    return saved - history.overwritten


def savers(history: History, values: tuple[int, ...]) -> tuple[int, ...]:
    """Results, one each, of the operations whose Nodes save what is in the storages of some values."""
    homes = {history.home(v) for v in values}
    found = []
    for instr in history.instrs:
        if not instr.requires_grad or not history.released.isdisjoint(instr.outputs):
            continue
        plan = needs_and_plan(instr)[1]
        saved = [instr.inputs[i] for i in plan.inputs] + [instr.outputs[nr] for nr in plan.outputs]
        if any(isinstance(v, int) and history.home(v) in homes for v in saved):
            found.append(instr.outputs[0])
    return tuple(found)


class _Step(NamedTuple):
    """How one Node is made.

    Attributes:
        op, plan, context: as the Node has them.
        edges: per input: the input id of a leaf, a value id, or nothing.
        inputs: per saved input: a number, or a value id with its aval and the edge of its history, if it has one.
        outputs: per saved output: (output number, value id, aval).
        vids: the value ids of all outputs.
        is_released: the saved values are gone.
        where: the user's line.
        wraps: of a ``CopySlices``: the result of the operation that was written, whose Node is part of it; else -1.
    """

    op: Op
    plan: BackwardPlan
    context: RuleContext
    edges: tuple[_Target | None, ...]
    inputs: tuple[Const | RuntimeScalar | _SavedInput, ...]
    outputs: tuple[tuple[int, int, Aval], ...]
    vids: tuple[int, ...]
    is_released: bool
    where: str
    wraps: int = -1


class _Target(NamedTuple):
    """Where a gradient goes: to the leaf that came in under an input id, or to the Node of a value."""

    vid: int
    is_leaf: bool


class _SavedInput(NamedTuple):
    """A value that a Node saves of an operand.

    Attributes:
        is_replaced: the operand is a tensor whose data was replaced since.
        is_result: it is what another Node has saved of its own result, see ``BackwardEvent.by_results``.
    """

    vid: int
    aval: Aval
    history: _Target | None
    is_replaced: bool
    is_result: bool


@struct
class Recipe:
    """The Nodes behind some values: all that making them again needs to know. A call that hits makes them from this.

    Attributes:
        steps: one per Node, in recording order.
        sources: value id -> the one whose Node it has, where that is another one.
        gone: values that are no longer in their storage.
        vids: every value that a Node saves.
        writers: of values that are gone: the operation that wrote over them first, and its line.
        wholes: saved windows -> the value that they are a part of, whose tensor has the version counter.
    """

    steps: tuple[_Step, ...]
    sources: dict[int, int]
    gone: frozenset[int]
    vids: frozenset[int]
    writers: dict[int, tuple[str, str]]
    wholes: dict[int, int]


def make_recipe(history: History, roots: Iterable[int], known: Container[int] = ()) -> Recipe:
    """The recipe for the Nodes behind the roots, without those of known values."""
    roots = tuple(roots)
    steps = tuple(_make_step(history, i) for i in reversed(ancestors(history, roots, known)))
    vids = {x.vid for step in steps for x in step.inputs if isinstance(x, _SavedInput)}
    vids |= {vid for step in steps for _, vid, _ in step.outputs}
    named = {*roots, *(vid for step in steps for vid in step.vids)}
    sources = {v: history.node_source(v) for v in named if history.node_source(v) != v}
    gone = frozenset(vids & history.overwritten)
    writers = {vid: history.writers[vid] for vid in gone if vid in history.writers}
    wholes = {vid: whole for vid in vids - gone if (whole := history.whole(vid)) != vid}
    return Recipe(steps, sources, gone, frozenset(vids), writers, wholes)


def _make_step(history: History, instr: Instr) -> _Step:
    if instr.op is COPY_SLICES:
        return _make_copy_slices_step(history, instr)
    needs, plan = needs_and_plan(instr)
    inputs, outputs, known, defs = instr.inputs, instr.outputs, history.avals, history.defs
    avals: list[Aval | None] = []
    targets: list[_Target | None] = []
    edges: list[_Target | None] = []
    for nr in range(len(inputs)):
        x = inputs[nr]
        aval = known.get(x) if type(x) is int else None
        if aval is None and type(x) is int:
            source, place = defs[x]
            aval = source.avals[place]
        avals.append(aval)
        target = _target(history, x) if instr.needs[nr] else None
        targets.append(target)
        edges.append(target if needs[nr] else None)
    saved_inputs = [_saved_input(history, instr, i, avals[i], targets[i]) for i in plan.inputs] if plan.saves else ()
    saved_outputs = [(nr, outputs[nr], history.aval_of(outputs[nr])) for nr in plan.outputs] if plan.outputs else ()
    return _Step(
        instr.op,
        plan,
        context_of(instr, tuple(avals), needs),
        tuple(edges),
        tuple(saved_inputs),
        tuple(saved_outputs),
        outputs,
        bool(history.released) and not history.released.isdisjoint(outputs),
        instr.where,
    )


def _saved_input(history: History, instr: Instr, i: int, aval: Aval | None, target: _Target | None) -> Any:
    """What a Node saves of operand ``i``."""
    x, place = instr.inputs[i], (instr.outputs[0], i)
    if aval is None:
        return x
    return _SavedInput(x, aval, target, place in history.replaced_in, place in history.by_results)


def _make_copy_slices_step(history: History, instr: Instr) -> _Step:
    base, written = instr.inputs
    context = context_of(instr, (history.aval_of(base), None), instr.needs)
    return _Step(
        instr.op,
        backward_plan(instr.op, (False, False)),
        context,
        (_target(history, base) if instr.needs[0] else None,),
        (),
        (),
        instr.outputs,
        not history.released.isdisjoint(instr.outputs),
        instr.where,
        written,
    )


def _target(history: History, vid: int) -> _Target:
    leaf = history.leaves.get(vid)
    return _Target(history.nodes_from.get(vid, vid), False) if leaf is None else _Target(leaf, True)


class Sources(NamedTuple):
    """Where the Nodes of a recipe find what they refer to.

    Attributes:
        value: (value id, aval, whether it is saved as an output) -> a fresh handle on it, outside any graph.
        leaf: input id -> the leaf that came in under it.
        outer: input id -> (Node, output number) of a tensor that came in with a graph of its own.
        scalars: the run-time scalars of the call.
        has_value: whether a value that may have been saved is still to be had.
        detached: values of tensors that ``detach_()`` took out of the graph since.
        tid: the stamp of the call's handles while it runs, else 0.
    """

    value: Callable[..., Any]
    leaf: Callable[[int], Any]
    outer: Callable[[int], tuple[Any, int]]
    scalars: list[Any]
    has_value: Callable[[int], bool]
    detached: Container[int] = ()
    tid: int = 0


def build_nodes(
    recipe: Recipe, sources: Sources, nodes: dict[int, tuple[Any, int]], number_of: Callable[[int], int]
) -> list[Any]:
    """Make the Nodes of a recipe.

    Args:
        nodes: value id -> (Node, output number) of those that exist; every output of a new Node is added.
        number_of: first output's value id -> the sequence number.

    Returns:
        The new Nodes, in recording order.
    """
    made: list[Any] = []
    parts = {step.wraps for step in recipe.steps} - {-1}
    written: dict[int, tuple[Any, int]] = {}  # Nodes that are parts of others
    for step in recipe.steps:
        edges = tuple([INVALID_EDGE if t is None else _edge(t, nodes, sources) for t in step.edges])
        if step.wraps >= 0:
            node = _copy_slices(step, edges[0], *written[step.wraps])
            node.sequence_nr = number_of(step.vids[0])
            nodes[step.vids[0]] = (node, 0)
            made.append(node)
            continue
        saved = _numbers(step, sources) if step.is_released else _saved(recipe, step, nodes, sources)
        node = assemble(step.op, step.plan, step.context, edges, saved)
        node.sequence_nr = number_of(step.vids[0])
        if step.is_released and step.plan.ends:
            node.numbers, node.saved = saved, None
        node.place = step.where
        if anomaly.enabled:
            store_line(node, step.where)
        for nr, vid in enumerate(step.vids):
            (written if vid in parts else nodes)[vid] = (node, nr)
        made.append(node)
    if recipe.sources:
        nodes.update((vid, nodes[older]) for vid, older in recipe.sources.items() if older in nodes)
    return made


def _copy_slices(step: _Step, base_edge: NextEdge, node: Any, output_nr: int) -> Any:
    """The Node of a write through a view, around that of the operation; see Note [In-place on views]."""
    whole, view = step.context.params
    first = node.next_edges[0] if node.next_edges else INVALID_EDGE
    made = CopySlices(fresh_handle(whole, None), base_edge, view, node, first, output_nr)
    if anomaly.enabled:
        store_line(made, step.where)
    if step.is_released:
        made.release_variables()
    return made


def _edge(target: _Target, nodes: dict[int, Any], sources: Sources) -> NextEdge:
    vid, is_leaf = target
    if is_leaf:
        return accumulator_of(sources.leaf(vid)), 0
    return nodes[vid] if vid in nodes else sources.outer(vid)


def _saved(recipe: Recipe, step: _Step, nodes: dict[int, Any], sources: Sources) -> tuple[Any, ...]:
    """What the Node saves, in the plan's order."""
    saved: list[Any] = []
    for x in step.inputs:
        if isinstance(x, Const):
            saved.append(x.value)
        elif isinstance(x, RuntimeScalar):
            saved.append(sources.scalars[x.slot])
        elif (leaf := _leaf_itself(x, sources)) is not None:
            saved.append(SavedVariable(leaf))
        else:
            if x.is_replaced and x.vid not in recipe.gone:
                handle, is_there = twin_of(sources.leaf(x.vid)), True
            else:
                handle, is_there = _handle(recipe, x.vid, x.aval, sources, x.is_result)
            if x.history is not None:
                handle._requires_grad = True
                handle._grad_fn, handle._output_nr = _edge(x.history, nodes, sources)
            saved.append(_save(handle, -1, is_there, recipe.writers.get(x.vid)))
            if x.vid in sources.detached and x.history is not None:
                take_history(handle)
    for nr, vid, aval in step.outputs:
        handle, is_there = _handle(recipe, vid, aval, sources, True)
        saved.append(_save(handle, nr, is_there, recipe.writers.get(vid)))
    return tuple(saved)


def _numbers(step: _Step, sources: Sources) -> tuple[Any, ...]:
    """``OpNode.numbers`` of a Node that has been released."""
    if not step.plan.has_numbers:
        return ()
    kept = [
        x.value if isinstance(x, Const) else sources.scalars[x.slot] if isinstance(x, RuntimeScalar) else None
        for x in step.inputs
    ]
    return (*kept, *[None] * len(step.outputs))


def _leaf_itself(x: _SavedInput, sources: Sources) -> Any:
    """The leaf, if a running call saves what it holds: Nodes see what is done to its ``.data``, as eager ones do."""
    if x.history is None or not x.history.is_leaf or not sources.tid:
        return None
    leaf = sources.leaf(x.history.vid)
    return leaf if leaf._vid == x.vid and leaf._tid == sources.tid else None


def take_history(handle: Any) -> None:
    """What a Node saved was detached in place: unpacking it will refuse."""
    handle._requires_grad, handle._grad_fn, handle._graph = False, None, None


def _handle(recipe: Recipe, vid: int, aval: Aval, sources: Sources, is_output: bool = False) -> tuple[Any, bool]:
    """A handle on a value; on one that is lost, a handle under a version counter of its own."""
    if vid in recipe.gone or not sources.has_value(vid):
        return fresh_handle(own_layout(aval), None), False
    return sources.value(vid, aval, is_output), True


def _save(handle: Any, output_nr: int, is_there: bool, writer: tuple[str, str] | None) -> SavedVariable:
    saved = SavedVariable(handle, output_nr)
    if not is_there:
        count_write(handle)  # unpacking it must say that it has been overwritten, and by whom
        if writer is not None:
            remember_write(handle._vc, *writer)
    return saved
