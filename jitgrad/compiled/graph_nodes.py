"""From recorded instructions to graph nodes.

Owns: which instructions a graph is made of, what they save, and building their Nodes.
Must not know: how a trace is recorded or run.
In: a ``History`` and value ids. Out: Nodes, exactly those that eager execution would have made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.runtime.engine.accumulate_grad import accumulator_of
from jitgrad.runtime.engine.op_node import backward_plan, make_op_node
from jitgrad.tensor_base import TensorBase, new_tensor
from jitgrad.tracer.graph import Const, Instr
from jitgrad.tracer.history import History

__all__ = ["ancestors", "build_nodes", "effective_needs", "saved_vids"]


def ancestors(history: History, roots: Iterable[int]) -> list[Instr]:
    """The differentiable instructions that the roots were computed by, latest first."""
    wanted = set(roots)
    found = []
    for instr in reversed(history.instrs):
        if not instr.requires_grad or wanted.isdisjoint(instr.outputs):
            continue
        found.append(instr)
        wanted.update(
            v for v, need in zip(instr.inputs, instr.needs, strict=True) if need and v not in history.leaves
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
        saved.update(v for v in (instr.inputs[i] for i in plan.inputs) if isinstance(v, int))
        saved.update(instr.outputs[nr] for nr in plan.outputs)
    return saved - history.overwritten.keys()


def build_nodes(
    history: History,
    roots: Iterable[int],
    value: Callable[[int], Any],
    leaf: Callable[[int], Any],
    outer: Callable[[int], Any],
    scalars: list[int | float],
) -> dict[int, tuple[Any, int]]:
    """Make the Nodes behind the roots.

    Args:
        value: value id -> a fresh handle on it, outside any graph.
        leaf: input id -> the leaf that came in under it.
        outer: input id -> (Node, output number) of a tensor that came in with a graph of its own.
        scalars: the run-time scalars of the call.

    Returns:
        value id -> (Node, output number), for every output of every instruction visited.
    """
    nodes: dict[int, tuple[Any, int]] = {}
    for instr in reversed(ancestors(history, roots)):
        node = _build(history, instr, nodes, value, leaf, outer, scalars)
        nodes.update((vid, (node, nr)) for nr, vid in enumerate(instr.outputs))
    return nodes


def _build(
    history: History, instr: Instr, nodes: dict[int, Any], value: Any, leaf: Any, outer: Any, scalars: list[int | float]
) -> Any:
    needs = effective_needs(instr)
    inputs = tuple(
        _operand(history, x, need, nodes, value, leaf, outer, scalars)
        for x, need in zip(instr.inputs, instr.needs, strict=True)
    )
    outputs = tuple(_with_aval(value(vid), aval) for vid, aval in zip(instr.outputs, instr.avals, strict=True))
    node = make_op_node(instr.op, inputs, outputs, instr.params, needs)
    for vid, handle in zip((*instr.inputs, *instr.outputs), (*inputs, *outputs), strict=True):
        if vid in history.overwritten and isinstance(handle, TensorBase):
            handle._vc[0] += 1  # what was saved is no longer there: unpacking it must say so
    if not history.released.isdisjoint(instr.outputs):
        node.release_variables()
    return node


def _with_aval(handle: Any, aval: Any) -> Any:
    if handle._aval is not aval and handle._storage is None:
        handle._aval = aval
    return handle


def _operand(
    history: History, x: Any, need: bool, nodes: dict[int, Any], value: Any, leaf: Any, outer: Any, scalars: list[int | float]
) -> Any:
    """An input as the node will see it: a number, a plain handle, or a handle with its history."""
    if isinstance(x, Const):
        return x.value
    if not isinstance(x, int):
        return scalars[x.slot]
    handle = value(x)
    if not need:
        return handle
    handle._requires_grad = True
    source = history.leaves.get(x)
    if source is not None:
        handle._grad_fn = accumulator_of(leaf(source))
    elif x in nodes:
        handle._grad_fn, handle._output_nr = nodes[x]
    else:
        handle._grad_fn, handle._output_nr = outer(x)
    return handle


def fresh_handle(aval: Any, storage: Any, tid: int = 0, vid: int = -1) -> Any:
    """A handle outside any graph, stamped for a trace if there is one."""
    handle = new_tensor(aval, storage)
    handle._tid, handle._vid = tid, vid
    return handle
