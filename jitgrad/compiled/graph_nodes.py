"""From recorded instructions to graph nodes.

Owns: which instructions a graph is made of, what they save, and building their Nodes.
Must not know: how a trace is recorded or run.
In: a ``History`` and value ids. Out: Nodes, exactly those that eager execution would have made.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, NamedTuple

from jitgrad.runtime.engine.accumulate_grad import accumulator_of
from jitgrad.runtime.engine.op_node import backward_plan, make_op_node
from jitgrad.tensor_base import TensorBase, new_tensor
from jitgrad.tracer.graph import Const, Instr
from jitgrad.tracer.history import History

__all__ = ["Sources", "ancestors", "build_nodes", "effective_needs", "fresh_handle", "saved_vids"]


def ancestors(history: History, roots: Iterable[int], known: Container[int] = ()) -> list[Instr]:
    """The differentiable instructions that the roots were computed by, latest first; not those behind known values."""
    wanted = {history.node_source(vid) for vid in roots}
    found = []
    for instr in reversed(history.instrs):
        if not instr.requires_grad or wanted.isdisjoint(instr.outputs) or instr.outputs[0] in known:
            continue
        found.append(instr)
        wanted.update(
            history.node_source(v)
            for v, need in zip(instr.inputs, instr.needs, strict=True)
            if need and v not in history.leaves
        )
    return found


def effective_needs(instr: Instr) -> tuple[bool, ...]:
    """Which inputs get a gradient: those that need one and have a rule."""
    op = instr.op
    rules = op.vjps * len(instr.inputs) if op.num_inputs < 0 else op.vjps
    return tuple(need and rule is not None for need, rule in zip(instr.needs, rules, strict=True))


def saved_vids(history: History, roots: list[int]) -> set[int]:
    """The values that a later backward from the roots will read."""
    saved: set[int] = set()
    for instr in ancestors(history, roots):
        if not history.released.isdisjoint(instr.outputs):
            continue
        plan = backward_plan(instr.op, effective_needs(instr))
        inputs = (instr.inputs[i] for i in plan.inputs)
        saved.update(v for v in inputs if isinstance(v, int))
        saved.update(instr.outputs[nr] for nr in plan.outputs)
    return saved - history.overwritten


class Sources(NamedTuple):
    """Where the Nodes of a history find what they refer to.

    Attributes:
        value: value id -> a fresh handle on it, outside any graph.
        leaf: input id -> the leaf that came in under it.
        outer: input id -> (Node, output number) of a tensor that came in with a graph of its own.
        scalars: the run-time scalars of the call.
        has_value: whether a value that may have been saved is still to be had.
    """

    value: Callable[[int], Any]
    leaf: Callable[[int], Any]
    outer: Callable[[int], tuple[Any, int]]
    scalars: list[Any]
    has_value: Callable[[int], bool]


def build_nodes(
    history: History, roots: Iterable[int], sources: Sources, known: dict[int, tuple[Any, int]] | None = None
) -> dict[int, tuple[Any, int]]:
    """Make the Nodes behind the roots.

    Args:
        known: Nodes that exist already: value id -> (Node, output number).

    Returns:
        The same for every output of every instruction visited, and what was known.
    """
    nodes = dict(known or {})
    for instr in reversed(ancestors(history, roots, nodes)):
        node = _build(history, instr, nodes, sources)
        nodes.update((vid, (node, nr)) for nr, vid in enumerate(instr.outputs))
    nodes.update((vid, nodes[older]) for vid, older in history.nodes_from.items() if older in nodes)
    return nodes


def _build(history: History, instr: Instr, nodes: dict[int, Any], sources: Sources) -> Any:
    pairs = zip(instr.inputs, instr.needs, strict=True)
    inputs = tuple(_operand(history, x, need, nodes, sources) for x, need in pairs)
    outputs = tuple(_with_aval(sources.value(vid), aval) for vid, aval in zip(instr.outputs, instr.avals, strict=True))
    node = make_op_node(instr.op, inputs, outputs, instr.params, effective_needs(instr))
    for vid, handle in zip((*instr.inputs, *instr.outputs), (*inputs, *outputs), strict=True):
        if not isinstance(handle, TensorBase):
            continue
        if vid in history.overwritten or not sources.has_value(vid):
            handle._vc[0] += 1  # what was saved is no longer there: unpacking it must say so
    if not history.released.isdisjoint(instr.outputs):
        node.release_variables()
    return node


def _with_aval(handle: Any, aval: Any) -> Any:
    if handle._aval is not aval and handle._storage is None:
        handle._aval = aval
    return handle


def _operand(history: History, x: Any, need: bool, nodes: dict[int, Any], sources: Sources) -> Any:
    """An input as the node will see it: a number, a plain handle, or a handle with its history."""
    if isinstance(x, Const):
        return x.value
    if not isinstance(x, int):
        return sources.scalars[x.slot]
    handle = sources.value(x)
    if not need:
        return handle
    handle._requires_grad = True
    source = history.leaves.get(x)
    if source is not None:
        handle._grad_fn = accumulator_of(sources.leaf(source))
    else:
        x = history.node_source(x)
        handle._grad_fn, handle._output_nr = nodes[x] if x in nodes else sources.outer(x)
    return handle


def fresh_handle(aval: Any, storage: Any, tid: int = 0, vid: int = -1) -> Any:
    """A handle outside any graph, stamped for a trace if there is one."""
    handle = new_tensor(aval, storage)
    handle._tid, handle._vid = tid, vid
    return handle
