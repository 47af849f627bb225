"""``OpNode``: the graph node of an operation from the table.

Owns: what an operation saves, and running its derivative rules.
Must not know: the rules themselves, how tensors are computed.
In: an operation's inputs and outputs, at the end of its forward. Out: a node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.cpython.primitives import blank, eager_native
from jitgrad.numbering import sequence
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op, RuleContext
from jitgrad.runtime.engine.graph.accumulate_grad import accumulator_of, gradient_edge
from jitgrad.runtime.engine.graph.anomaly import store_stack
from jitgrad.runtime.engine.graph.call_node import CallNode, join_call
from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.graph.node import INVALID_EDGE, NextEdge, Node
from jitgrad.runtime.engine.graph.overwrites import Place, caught, place_now
from jitgrad.runtime.engine.graph.saved_names import (
    ALL_NAMES,
    saved_parameter,
    saved_parameters,
    saved_tensors,
    shows_sizes,
    tensor_name,
)
from jitgrad.runtime.engine.graph.saved_variable import RELEASED_MESSAGE, SavedTensor, SavedVariable, new_saved
from jitgrad.state import anomaly, state, without_overrides
from jitgrad.structs import struct
from jitgrad.symbols.number import current_env
from jitgrad.tensor_base import TensorBase
from jitgrad.version_counter import VERSION

__all__ = [
    "BackwardPlan",
    "OpNode",
    "assemble",
    "backward_plan",
    "build_node",
    "context_for",
    "edge_of",
    "edges_asked",
    "ends_with_release",
    "install_programs",
    "make_op_node",
    "name_of_op",
    "node_class",
    "release",
    "remember_line",
    "run_rules",
    "save",
    "saved_inputs",
    "wanted_nodes",
]


@struct
class BackwardPlan:
    """What an operation saves and computes, for one choice of inputs that need gradients.

    Attributes:
        inputs: positions of the inputs to save.
        outputs: numbers of the outputs to save; they follow the inputs.
        rules: (edge, rule, positions among the saved) of each gradient.
        only: (edge, rule), if there is only one and it takes what is saved in that order; else None.
        saves: there is something to save.
        ends: a release may end the node: it has saved something, or PyTorch's has.
        has_numbers: there may be numbers among what is saved that no release takes, see ``Op.numbers``.
        node_class: of the nodes, unless the operation has ``node_names``.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    rules: tuple[tuple[int, Any, tuple[int, ...]], ...]
    only: tuple[int, Any] | None
    saves: bool
    node_class: type[OpNode]
    ends: bool
    has_numbers: bool


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
        wanted.sort(key=lambda row: (tensor_name(op, row[0]), row[0]))
    keys = {key for _, vjp in wanted if vjp is not None for key in vjp.saves}
    # by their names, as in PyTorch: hooks on saved tensors see the order
    inputs = tuple(sorted((key for key in keys if isinstance(key, int)), key=lambda key: (tensor_name(op, key), key)))
    outputs = tuple(sorted({_output_number(key) for key in keys if isinstance(key, str)}))
    place = _places(inputs, outputs)
    rules = tuple((i, vjp.rule, tuple(place[key] for key in vjp.saves)) for i, vjp in wanted if vjp is not None)
    is_simple = len(rules) == 1 and rules[0][2] == tuple(range(len(inputs) + len(outputs)))
    only = rules[0][:2] if is_simple else None
    has_numbers = not op.numbers.isdisjoint(inputs)
    ends = bool(keys) or op.runs_once
    return BackwardPlan(inputs, outputs, rules, only, bool(keys), node_class(op.node_name), ends, has_numbers)


def _places(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> dict[int | str, int]:
    """Where each key of ``Vjp.saves`` stands among the saved values."""
    names = [f"out{n or ''}" for n in outputs]
    keys: list[int | str] = [*inputs, *names]
    place = {key: i for i, key in enumerate(keys)}
    if "out" in place:
        place["out0"] = place["out"]
    return place


_WITH_AUXILIARIES = frozenset(
    {
        "native_batch_norm", "native_batch_norm_plain", "native_group_norm", "native_group_norm_plain",
        "native_layer_norm", "native_layer_norm_plain", "nll_loss", "nll_loss_weighted",
    }
)  # fmt: skip
"""Operations whose floating results but for the first are for the backward alone."""


class OpNode(Node):
    """A step of the graph made by an operation of the table.

    Attributes:
        op: the operation.
        context: what its rules may know without saving.
        plan: which values are saved, and which rules run.
        saved: ``SavedVariable``s and plain numbers, in the plan's order; None once released.
        numbers: once released: the numbers among them, None in the place of a tensor; set if the plan has numbers.
        place: where in the user's code it was made, if that was caught; see Note [Both lines].
    """

    __slots__ = ("context", "numbers", "op", "place", "plan", "saved")

    __init__ = object.__init__  # ``assemble`` fills it: an ``__init__`` in Python would double the price
    refuses_detached = True

    op: Op
    context: RuleContext
    plan: BackwardPlan
    saved: tuple[Any, ...] | None
    numbers: tuple[Any, ...]
    place: Place | None

    def name(self) -> str:
        return name_of_op(self.op, self.context)

    @property
    def num_seen(self) -> int:
        """Those of results that may have a gradient: of ``sort``'s values, not of its positions, which come last."""
        avals = self.context.out_avals
        count = 1 if self.op.name in _WITH_AUXILIARIES else len(avals)
        while count > 1 and not avals[count - 1].dtype.is_inexact:
            count -= 1
        return count

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges of the operands that can have a gradient.

        PyTorch has none for an index or a condition, nor for a number of an overload with a name of its own; it has
        one for a bias that was not given.
        """
        places = self.seen_edges
        if places is None:
            return super().next_functions
        shown = [self.next_edges[i] for i in places]
        edges = tuple([(None, nr) if node is None else node.real(nr) for node, nr in shown])
        return edges + ((None, 0),) * self.op.missing_edges

    @property
    def seen_edges(self) -> tuple[int, ...] | None:
        """The edges that ``next_functions`` has."""
        op, avals = self.op, self.context.avals
        if op.num_inputs < 0:
            return None
        return tuple(
            [
                i
                for i, (_, rule) in enumerate(zip(self.next_edges, op.vjps, strict=False))
                if rule is not None and not (avals[i] is None and i in op.node_names)
            ]
        )

    @property
    def num_missing_edges(self) -> int:
        """Edges that PyTorch's Node has and this one has not."""
        return 0 if self.op.num_inputs < 0 else self.op.missing_edges

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        if self.saved is None:
            raise RuntimeError(RELEASED_MESSAGE)
        if state.handler is None and not state.grad_enabled:
            context = self.context
            programs = context.programs
            grads: tuple[Any, ...] | None
            if programs is not None:
                grads = programs.run(self, grad_outputs)
                if grads is not None:
                    return grads
            else:
                context.num_runs += 1
                if _make_programs and _make_programs[1](self.op, context):
                    context.programs = _make_programs[0]()
                    grads = context.programs.run(self, grad_outputs)
                    if grads is not None:
                        return grads
        is_defined = any([g is not None for g in grad_outputs])
        if not is_defined:
            return (None,) * len(self.next_edges)
        saved = self.unpack_saved() if self.saved else ()
        return run_rules(self.op, self.plan, self.context, grad_outputs, saved, self.asked_edges())

    def asked_edges(self) -> tuple[bool, ...]:
        """For each edge, whether the running backward wants a gradient along it."""
        wanted = wanted_nodes()
        return tuple([not wanted or node in wanted for node, _ in self.next_edges])

    def unpack_saved(self) -> list[Any]:
        """The saved values, in the plan's order, after the version checks."""
        if self.saved is None:
            raise RuntimeError(RELEASED_MESSAGE)
        with_history = state.grad_enabled
        values = []
        for x in self.saved:
            values.append(x.unpack(self, with_history) if isinstance(x, SavedVariable) else x)
        return values

    def saved_tensor(self, key: int | str) -> Any:
        """The value saved for input ``key`` or output ``"out"``, with its history.

        Raises:
            KeyError: the node does not save it.
            RuntimeError: it has been released, or overwritten.
        """
        place = _places(self.plan.inputs, self.plan.outputs)[key]
        if self.saved is None:
            if key in self.op.numbers and self.numbers[place] is not None:
                return self.numbers[place]
            raise RuntimeError(RELEASED_MESSAGE)
        value = self.saved[place]
        return value.unpack(self, True) if isinstance(value, SavedVariable) else value

    def __dir__(self) -> list[str]:
        tensors = list(saved_tensors(self.op))
        general = [name for name in super().__dir__() if name not in ALL_NAMES]
        parameters = [x for x, at in saved_parameters(self.op).items() if at < len(self.context.params)]
        sizes = ["_saved_self_sym_sizes"] if shows_sizes(self.op) else []
        return [*general, *tensors, *[f"_raw{x}" for x in tensors], *parameters, *sizes]

    def _read_saved(self, key: int | str) -> Any:
        """A saved value; None if no gradient that this node computes needs it."""
        if key not in _places(self.plan.inputs, self.plan.outputs):
            return None
        return self.saved_tensor(key)

    def _raw_saved(self, key: int | str) -> SavedTensor:
        position = _places(self.plan.inputs, self.plan.outputs).get(key, -1)
        return SavedTensor(self, "saved", position)

    def release_variables(self) -> None:
        release(self)


def name_of_op(op: Op, context: RuleContext) -> str:
    """``name()`` of an operation's Node."""
    names = op.node_names
    if names:
        for position, aval in enumerate(context.avals):
            if aval is None and position in names:
                return names[position]
    return op.node_name


def wanted_nodes() -> dict[Any, Any] | None:
    """The Nodes that the running backward wants gradients for, as keys; None: all."""
    task = current.graph_task
    return current.wanted if task is None else task.exec_info or None


@eager_native
def edges_asked(node: Node, wanted: Any) -> Any:
    """For each edge, whether it leads to a Node among ``wanted``; None: all edges that lead anywhere do."""
    if wanted is None:
        return None
    known: dict = wanted
    asked: list = []
    are_all = True
    edges: tuple = node.next_edges
    for pair in edges:
        edge: tuple = pair
        if edge[0] is None:
            asked.append(False)
        elif known.get(edge[0]) is None:
            asked.append(False)
            are_all = False
        else:
            asked.append(True)
    return None if are_all else tuple(asked)


@eager_native
def release(node: OpNode) -> None:
    """Drop the tensors that a Node has saved; one that has saved none can run again, as PyTorch's can."""
    plan: BackwardPlan = node.plan
    saved = node.saved
    if saved is None or not plan.ends:
        return
    if plan.has_numbers and not keep_numbers(node, saved):
        return
    node.saved = None


def ends_with_release(op: Op, plan: BackwardPlan, saves_tensor: bool) -> bool:
    """Whether ``release`` takes what a Node has saved; ``saves_tensor``: something of that is a tensor."""
    return plan.ends and (not plan.has_numbers or saves_tensor or op.runs_once is True)


@eager_native
def keep_numbers(node: OpNode, saved: tuple) -> bool:
    """Keep the numbers among what a Node has saved beyond its release; returns whether there is more to release."""
    op: Op = node.op
    has_more = op.runs_once is True
    numbers: list = []
    for x in saved:
        if isinstance(x, SavedVariable):
            has_more = True
            numbers.append(None)
        else:
            numbers.append(x)
    node.numbers = tuple(numbers)
    return has_more


_make_programs: list[Callable[..., Any]] = []


def install_programs(make: Callable[[], Any], are_due: Callable[[Op, RuleContext], bool]) -> None:
    """Let ``make()`` make what keeps the programs of one kind of Node, Note [Rule programs].

    ``are_due(op, context)``: when, as ``context.num_runs`` says how often the kind has run, this time included.
    """
    _make_programs[:] = [make, are_due]


def run_rules(
    op: Op,
    plan: BackwardPlan,
    context: RuleContext,
    grad_outputs: Sequence[Any],
    saved: Sequence[Any],
    asked: Sequence[bool],
) -> tuple[Any, ...]:
    """The gradients of an operation's inputs, by its rules.

    Args:
        op, plan, context: of the Node.
        grad_outputs: one gradient per output, None where none arrived; not all of them.
        saved: the saved values, in the plan's order.
        asked: for each edge, whether a gradient is wanted.
    """
    return without_overrides(_by_rules, op, plan, context, grad_outputs, saved, asked)


def _by_rules(
    op: Op, plan: BackwardPlan, context: RuleContext, grad_outputs: Sequence[Any], saved: Sequence[Any], asked: Any
) -> tuple[Any, ...]:
    g = grad_outputs[0] if len(grad_outputs) == 1 else tuple(grad_outputs)
    if op.num_inputs < 0:  # one rule, which returns a gradient for each tensor of the list
        ((_, list_rule, picks),) = plan.rules
        return tuple(list_rule(context, g, *[saved[i] for i in picks]))
    grads: list[Any] = [None] * len(asked)
    if plan.only is not None:
        # a node with one rule runs only if that gradient is wanted
        edge, rule = plan.only
        grads[edge] = rule(context, g, *saved)
    elif op.joint is not None:
        edges = [edge for edge, _, _ in plan.rules if asked[edge]]
        for edge, grad in op.joint(context, g, edges, *[saved[i] for i in plan.rules[0][2]]).items():
            grads[edge] = grad
    else:
        for edge, rule, picks in plan.rules:
            if asked[edge]:
                grads[edge] = rule(context, g, *[saved[i] for i in picks])
    return tuple(grads)


_CLASSES: dict[str, type[OpNode]] = {}


def node_class(name: str) -> type[OpNode]:
    """The class of nodes of this name: programs that draw graphs ask for ``type(node).__name__``."""
    found = _CLASSES.get(name)
    if found is None:
        made = type(name.rpartition("::")[2], (OpNode,), {"__slots__": (), "__module__": OpNode.__module__})
        found = _CLASSES.setdefault(name, made)
    return found


def _look(node: OpNode, name: str) -> Any:
    """``_saved_self``, ``_saved_dim``, ``_raw_saved_result``: PyTorch's names of what the operation keeps.

    Raises:
        AttributeError: an operation of this kind has no such attribute.
        RuntimeError: as ``saved_tensor``.
    """
    op, is_raw = node.op, name.startswith("_raw_saved_")
    key = saved_tensors(op).get(name.removeprefix("_raw"))
    if key is not None:
        return node._raw_saved(key) if is_raw else node._read_saved(key)
    if not is_raw:
        if saved_parameters(op).get(name, len(node.context.params)) < len(node.context.params):
            return saved_parameter(op, name, node.context.params)
        if name == "_saved_self_sym_sizes" and shows_sizes(op) and node.context.avals[0] is not None:
            return node.context.avals[0].shape
    raise AttributeError(f"'{node.name()}' object has no attribute '{name}'")


for _name in ALL_NAMES:
    # one property for each name that any operation has: a ``__getattr__`` would make every other look six times slower
    setattr(OpNode, _name, property(functools.partial(_look, name=_name)))


@eager_native
def edge_of(tensor: TensorBase) -> Any:
    """``gradient_edge``, short for results, leaves, and views that nobody has written since: a ``NextEdge``."""
    node = tensor._grad_fn
    if tensor._base is None:
        if node is not None:
            return (node, tensor._output_nr)
        if tensor._requires_grad and tensor._graph is None:
            return (accumulator_of(tensor), 0)
    elif node is not None and _knows_its_node(tensor):
        return (node, tensor._output_nr)
    if tensor._graph is not None and tensor._requires_grad and state.handler is None and is_as_made(tensor):
        if tensor._grad_fn is None and not join_call(tensor):
            tensor._graph.join(tensor)
        return (tensor._grad_fn, tensor._output_nr)
    return gradient_edge(tensor)


@eager_native
def _knows_its_node(view: TensorBase) -> bool:
    """Whether the Node that a view refers to is that of its value now, and one that Python may see."""
    is_known = view._requires_grad and int(view._tid) >= 0 and type(view._grad_fn) is not CallNode
    return is_known and is_as_made(view)


@eager_native
def is_as_made(tensor: TensorBase) -> bool:
    """Whether nobody has written the base of a view since; true of what is no view."""
    if tensor._base is None or tensor._view_version is None:
        return True
    versions: list[Any] = tensor._vc
    return int(tensor._view_version) == int(versions[VERSION])


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
    context = context_for(op, avals, tuple([x._aval for x in outputs]), params, needs)
    return build_node(op, backward_plan(op, needs), context, inputs, outputs)


_CONTEXTS: dict[tuple[Any, ...], RuleContext] = {}
_MAX_CONTEXTS = 4096


def context_for(
    op: Op,
    avals: tuple[Aval | None, ...],
    out_avals: tuple[Aval, ...],
    params: tuple[Any, ...],
    needs: tuple[bool, ...],
) -> RuleContext:
    """The context of Nodes that are alike: they share their rule programs, Note [Rule programs].

    An ``EagerPlan`` keeps those of its own Nodes. Here are those of Nodes that are made otherwise: of writes, and from
    traces. Example: a call leaves its recording after 60 turns of a loop. Its Nodes run as eager ones do, and 60 equal
    products need one program.
    """
    key = (op, avals, out_avals, params, needs)
    if current_env() is not None:  # symbolic extents are no keys
        return RuleContext(*key[1:])
    try:
        context = _CONTEXTS.get(key)
    except TypeError:  # a parameter that cannot be hashed
        return RuleContext(*key[1:])
    if context is None:
        if len(_CONTEXTS) >= _MAX_CONTEXTS:
            _CONTEXTS.clear()
        context = _CONTEXTS[key] = RuleContext(*key[1:])
    return context


def build_node(
    op: Op, plan: BackwardPlan, context: RuleContext, inputs: tuple[Any, ...], outputs: tuple[Any, ...]
) -> OpNode:
    """``make_op_node`` with what does not depend on the tensors already at hand; eager execution keeps it."""
    edges: list[NextEdge] = []
    for x, needed in zip(inputs, context.needs):  # noqa: B905 (equal by construction; this is the eager hot path)
        if needed:
            below = x._grad_fn
            edges.append((below, x._output_nr) if below is not None and x._base is None else edge_of(x))
        else:
            edges.append(INVALID_EDGE)
    saved = save(plan, inputs, outputs) if plan.saves else ()
    node = assemble(op, plan, context, tuple(edges), saved)
    if saved and caught.left:
        remember_line(node)
    return node


@eager_native
def save(plan: BackwardPlan, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the rules will read, in the plan's order."""
    saved: list[Any] = []
    for i in plan.inputs:
        saved.append(kept_of(inputs[i]))
    for number in plan.outputs:
        saved.append(new_saved(outputs[number], int(number)))
    return tuple(saved)


@eager_native
def kept_of(x: Any) -> Any:
    """What a Node keeps of an input: a number as it is."""
    return new_saved(x, -1) if isinstance(x, TensorBase) else x


@eager_native
def assemble(
    op: Op, plan: BackwardPlan, context: RuleContext, next_edges: tuple[Any, ...], saved: tuple[Any, ...]
) -> Any:
    """A node from its parts: where the gradients go, and what its rules read, in the plan's order."""
    node: OpNode = blank(node_class(name_of_op(op, context)) if op.node_names else plan.node_class)
    longest = -1
    for edge in next_edges:
        pair: tuple[Any, ...] = edge
        if pair[0] is not None:
            below: Node = pair[0]
            if int(below.topological_nr) > longest:
                longest = int(below.topological_nr)
    node.next_edges = next_edges
    node.topological_nr = longest + 1
    take: Any = sequence.take
    node.sequence_nr = take()
    node.hooks = None
    node.input_metadata = context.out_avals
    node.op = op
    node.plan = plan
    node.context = context
    node.saved = saved
    if anomaly.enabled:
        store_stack(node, current.node)
    return node


def remember_line(node: OpNode) -> None:
    """Keep where an eager operation was called, see Note [Both lines]."""
    caught.left -= 1
    node.place = place_now(1)  # of native code there are no frames: the user's may be the caller's
