"""``OpNode``: the graph node of an operation from the table.

Owns: what an operation saves, and running its derivative rules.
Must not know: the rules themselves, how tensors are computed.
In: an operation's inputs and outputs, at the end of its forward. Out: a node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.ops.table import Op, RuleContext
from jitgrad.runtime.engine.accumulate_grad import gradient_edge
from jitgrad.runtime.engine.edge import INVALID_EDGE, Edge
from jitgrad.runtime.engine.graph_task import current
from jitgrad.runtime.engine.node import Node, next_sequence_nr
from jitgrad.runtime.engine.saved_variable import RELEASED_MESSAGE, SavedVariable
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase

__all__ = ["BackwardPlan", "OpNode", "backward_plan", "build_node", "make_op_node", "saved_inputs"]


class BackwardPlan(NamedTuple):
    """What an operation saves and computes, for one choice of inputs that need gradients.

    Attributes:
        inputs: positions of the inputs to save.
        outputs: numbers of the outputs to save; they follow the inputs.
        rules: (edge, rule, positions among the saved) of each gradient.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    rules: tuple[tuple[int, Any, tuple[int, ...]], ...]


_PLANS: dict[tuple[Op, tuple[bool, ...]], BackwardPlan] = {}


def _output_number(key: str) -> int:
    return int(key.removeprefix("out") or 0)


def backward_plan(op: Op, needs: tuple[bool, ...]) -> BackwardPlan:
    """What ``op`` saves and computes when these inputs need gradients; made once for each choice."""
    plan = _PLANS.get((op, needs))
    return plan if plan is not None else _PLANS.setdefault((op, needs), _make_plan(op, needs))


def _make_plan(op: Op, needs: tuple[bool, ...]) -> BackwardPlan:
    if op.num_inputs < 0:
        # one rule for a list of tensors: it returns one gradient per tensor
        wanted = [(0, op.vjps[0])] if op.vjps and any(needs) else []
    else:
        wanted = [(i, vjp) for i, vjp in enumerate(op.vjps) if i < len(needs) and needs[i]]
    keys = {key for _, vjp in wanted if vjp is not None for key in vjp.saves}
    inputs = tuple(sorted(key for key in keys if isinstance(key, int)))
    outputs = tuple(sorted({_output_number(key) for key in keys if isinstance(key, str)}))
    place = _places(inputs, outputs)
    rules = tuple((i, vjp.rule, tuple(place[key] for key in vjp.saves)) for i, vjp in wanted if vjp is not None)
    return BackwardPlan(inputs, outputs, rules)


def _places(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> dict[int | str, int]:
    """Where each key of ``Vjp.saves`` stands among the saved values."""
    names = [f"out{n or ''}" for n in outputs]
    keys: list[int | str] = [*inputs, *names]
    place = {key: i for i, key in enumerate(keys)}
    if "out" in place:
        place["out0"] = place["out"]
    return place


class OpNode(Node):
    """A step of the graph made by an operation of the table.

    Attributes:
        op: the operation.
        context: what its rules may know without saving.
        plan: which values are saved, and which rules run.
        saved: ``SavedVariable``s and plain numbers, in the plan's order; None once released.
    """

    __slots__ = ("context", "op", "plan", "saved")

    op: Op
    context: RuleContext
    plan: BackwardPlan
    saved: tuple[Any, ...] | None

    def name(self) -> str:
        return self.op.node_name

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        if self.saved is None:
            raise RuntimeError(RELEASED_MESSAGE)
        if len(grad_outputs) == 1:
            g = grad_outputs[0]
            is_defined = g is not None
        else:
            g = tuple(grad_outputs)
            is_defined = any(x is not None for x in g)
        edges = self.next_edges
        grad_inputs: list[Any] = [None] * len(edges)
        if not is_defined:
            return tuple(grad_inputs)
        if self.op.num_inputs < 0:
            return tuple(self._apply_list_rule(g))
        values = self.unpack_saved() if self.saved else None
        task = current.graph_task
        wanted = task.exec_info if task is not None else None
        context = self.context
        for edge, rule, picks in self.plan.rules:
            if wanted and edges[edge][0] not in wanted:
                continue
            if values is None:
                grad_inputs[edge] = rule(context, g)
            else:
                grad_inputs[edge] = rule(context, g, *[values[i] for i in picks])
        return tuple(grad_inputs)

    def _apply_list_rule(self, g: Any) -> Any:
        """An operation on a list has one rule, which returns a gradient for each tensor of the list."""
        values = self.unpack_saved()
        ((_, rule, picks),) = self.plan.rules
        return rule(self.context, g, *[values[i] for i in picks])

    def unpack_saved(self) -> list[Any]:
        """The saved values, in the plan's order, after the version checks."""
        if self.saved is None:
            raise RuntimeError(RELEASED_MESSAGE)
        with_history = state.grad_enabled
        return [x.unpack(self, with_history) if isinstance(x, SavedVariable) else x for x in self.saved]

    def saved_tensor(self, key: int | str) -> Any:
        """The value saved for input ``key`` or output ``"out"``, with its history.

        Raises:
            KeyError: the node does not save it.
            RuntimeError: it has been released, or overwritten.
        """
        if self.saved is None:
            raise RuntimeError(RELEASED_MESSAGE)
        value = self.saved[_places(self.plan.inputs, self.plan.outputs)[key]]
        return value.unpack(self, True) if isinstance(value, SavedVariable) else value

    def __getattr__(self, name: str) -> Any:
        """``_saved_self``, ``_saved_other``, ``_saved_result``: PyTorch's names of saved values."""
        key = _SAVED_NAMES.get(name)
        if key is not None and key in _places(self.plan.inputs, self.plan.outputs):
            return self.saved_tensor(key)
        raise AttributeError(f"'{self.name()}' object has no attribute '{name}'")

    def release_variables(self) -> None:
        # a node that saved nothing can run again: so does PyTorch's
        if self.saved:
            self.saved = None


_SAVED_NAMES: dict[str, int | str] = {"_saved_self": 0, "_saved_other": 1, "_saved_result": "out"}

_new_edge = tuple.__new__


def _edge_of(tensor: Any) -> Edge:
    """``gradient_edge``, short for the common cases: a result that is no view, a leaf used before."""
    node = tensor._grad_fn
    if node is None:
        accumulator = tensor._accumulator
        if accumulator is not None:
            node = accumulator()
            if node is not None:
                return _new_edge(Edge, (node, 0))
    elif tensor._base is None:
        return _new_edge(Edge, (node, tensor._output_nr))
    return gradient_edge(tensor)


def saved_inputs(op: Op, needs: tuple[bool, ...]) -> tuple[int, ...]:
    """Positions of the inputs that a node would save: what an in-place form must keep a copy of."""
    return backward_plan(op, needs).inputs


def make_op_node(
    op: Op, inputs: tuple[Any, ...], outputs: tuple[Any, ...], params: tuple[Any, ...], needs: tuple[bool, ...]
) -> OpNode:
    """The node of an operation that has just run. Nothing is set on the outputs.

    Args:
        op: the operation.
        inputs: tensors or Python numbers, as the operation received them (the list's tensors if it takes a list).
        outputs: all outputs.
        params: the static parameters.
        needs: which inputs need a gradient; at least one.
    """
    avals = tuple([x._aval if isinstance(x, TensorBase) else None for x in inputs])
    context = RuleContext(avals, tuple([x._aval for x in outputs]), params, needs)
    return build_node(op, backward_plan(op, needs), context, inputs, outputs)


def build_node(
    op: Op, plan: BackwardPlan, context: RuleContext, inputs: tuple[Any, ...], outputs: tuple[Any, ...]
) -> OpNode:
    """``make_op_node`` with what does not depend on the tensors already at hand; eager execution keeps it."""
    node = OpNode.__new__(OpNode)
    edges = []
    topological_nr = -1
    for tensor, needed in zip(inputs, context.needs):  # noqa: B905 (equal by construction; this is the eager hot path)
        if needed:
            edge = _edge_of(tensor)
            edges.append(edge)
            below = edge[0].topological_nr  # type: ignore[union-attr]  # what needs a gradient has a valid edge
            if below > topological_nr:
                topological_nr = below
        else:
            edges.append(INVALID_EDGE)
    node.next_edges = tuple(edges)
    node.topological_nr = topological_nr + 1
    node.sequence_nr = next_sequence_nr()
    node.hooks = None
    node.input_metadata = context.out_avals
    node.op = op
    node.plan = plan
    node.context = context
    saved = [SavedVariable(x) if isinstance(x := inputs[i], TensorBase) else x for i in plan.inputs]
    for number in plan.outputs:
        saved.append(SavedVariable(outputs[number], number))
    node.saved = tuple(saved)
    return node
