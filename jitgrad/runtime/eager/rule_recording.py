"""What a Node's rules compute: its operations, written down over handles that have no memory.

Owns: ``RuleCall``, what a program is made for; ``record`` and ``RuleRecorder``; ``RuleValue``.
Must not know: the text of programs, the rules themselves.
In: a Node, and the gradients that come in. Out: values, and the steps that make them, Note [Rule programs].
"""

from __future__ import annotations

from typing import Any

from jitgrad.devices import CPU
from jitgrad.handler import Handler
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op, RuleContext
from jitgrad.runtime.eager.eager import split_args
from jitgrad.runtime.eager.fused_rules import RuleStep
from jitgrad.runtime.eager.plan import find_plan
from jitgrad.runtime.engine.graph.op_node import BackwardPlan, OpNode, run_rules
from jitgrad.runtime.engine.graph.saved_variable import SavedVariable
from jitgrad.runtime.engine.graph.validate import is_expandable_to, sum_to_shape
from jitgrad.state import switch_handler
from jitgrad.structs import struct
from jitgrad.symbols.number import is_symbolic
from jitgrad.tensor_base import TensorBase, new_tensor
from jitgrad.tracer.recording.recorder_state import new_tid
from jitgrad.user_line import is_called_from_outside

__all__ = ["NoProgramError", "RuleCall", "RuleRecorder", "RuleValue", "call_of", "record"]


class NoProgramError(Exception):
    """The rules do something that a program cannot."""


@struct
class RuleValue:
    """A value of the rules: a gradient that comes in, a saved value, or what an operation computed.

    Attributes:
        name: the variable that holds its array; of a view, once it is needed.
        aval: its layout.
        tensor: of a value from outside, the variable that holds the tensor.
        source: of a view, the number of what it is a view of; else -1.
        has_base: of a view: it remembers its base.
        made: what the rules have made it by; None: it comes from outside.
    """

    name: str
    aval: Aval
    tensor: str = ""
    source: int = -1
    has_base: bool = False
    made: RuleStep | None = None

    @property
    def is_fresh(self) -> bool:
        """A step has made the array, and nobody else knows it."""
        return self.made is not None and self.source < 0


@struct
class RuleCall:
    """What a program is made for.

    Attributes:
        op, plan, context: of the Node.
        grads: layouts of the gradients that come in, on the CPU; None where there is none.
        saved: layouts of the saved tensors, on the CPU; numbers as they are.
        asked: for each edge, whether a gradient is wanted.
        shapes: for each edge, what its gradient is un-broadcast to; None: it stays as it is.
    """

    op: Op
    plan: BackwardPlan
    context: RuleContext
    grads: tuple[Aval | None, ...]
    saved: tuple[Any, ...]
    asked: tuple[bool, ...]
    shapes: tuple[tuple[int, ...] | None, ...]


def call_of(node: OpNode, grads: list[Any]) -> RuleCall:
    """What a Node's program is made for, with gradients like these."""
    shapes: list[tuple[int, ...] | None] = []
    for index, (target, input_nr) in enumerate(node.next_edges):
        if target is None or node.hooks is not None:  # hooks see what the rules return
            shapes.append(None)
            continue
        # not the edge's: what was written through a view has its base's edge, see ``CopySlices``
        operand = node.context.avals[index]
        shapes.append(target.input_metadata[input_nr].shape if operand is None else operand.shape)
    saved = [x.tensor._aval.on(CPU) if type(x) is SavedVariable else x for x in node.saved or ()]
    given = [None if g is None else g._aval.on(CPU) for g in grads]
    return RuleCall(
        node.op, node.plan, node.context, tuple(given), tuple(saved), node.asked_edges(), tuple(shapes)
    )  # fmt: skip


class RuleRecorder(Handler):
    """Writes down what rules do with handles that have no memory.

    Attributes:
        tid: stamp of the handles; ``_vid`` of one is the number of its value.
        values: by number.
        steps: what computes, in order: all but views.
    """

    __slots__ = ("steps", "tid", "values")

    def __init__(self) -> None:
        self.tid = new_tid()
        self.values: list[RuleValue] = []
        self.steps: list[RuleStep] = []

    def refuse(self, what: str) -> Any:
        raise NoProgramError(what)

    def makes_sparse(self) -> None:
        self.refuse("a sparse gradient")

    def draws(self, draw: Any) -> Any:
        self.refuse("random numbers")

    def add(self, value: RuleValue) -> Any:
        """A handle on a new value."""
        handle = new_tensor(value.aval, None)
        handle._tid, handle._vid = self.tid, len(self.values)
        self.values.append(value)
        return handle

    def number_of(self, x: Any) -> int:
        """The number of a handle's value."""
        if not isinstance(x, TensorBase) or x._tid != self.tid:
            raise NoProgramError("a tensor that the rules have made by themselves")
        return x._vid

    def binary(self, op: Op, a: Any, b: Any) -> Any:
        if isinstance(b, complex):
            self.refuse("a complex number")
        is_operand = isinstance(b, TensorBase | int | float) or is_symbolic(b)
        return self.apply(op, (a, b)) if is_operand else NotImplemented

    def reflected(self, op: Op, number: int | float | complex, x: Any) -> Any:
        if isinstance(number, complex):
            self.refuse("a complex number")
        return self.apply(op, (number, x))

    def plan_for(self, op: Op, operands: list[Any], params: tuple[Any, ...]) -> Any:
        """The plan of an operation; ``operands``: avals, or numbers."""
        return find_plan(op, operands, params)

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        if is_called_from_outside(record.__code__):
            raise NoProgramError("a finalizer or a signal handler has come in between")
        inputs, params = split_args(op, args)
        operands = tuple([self.number_of(x) if isinstance(x, TensorBase) else [x] for x in inputs])
        plan = self.plan_for(op, [x._aval if isinstance(x, TensorBase) else x for x in inputs], params)
        if plan.is_elsewhere or not plan.is_settled:
            raise NoProgramError(f"{op.name} on other devices, or with a default dtype that may change")
        first = len(self.values)
        step = RuleStep(plan, operands, tuple(range(first, first + len(plan.out_avals))))
        if op.is_view:
            if op.name == "as_strided" or len(operands) != 1:  # its operand is a value: views take no number
                raise NoProgramError(op.name)
            source: Any = operands[0]
            made = [self.add(RuleValue("", a, "", source, op.has_base, step)) for a in plan.out_avals]
        else:
            made = [self.add(RuleValue(f"v{first + nr}", a, made=step)) for nr, a in enumerate(plan.out_avals)]
            self.steps.append(step)
        return tuple(made) if plan.is_several else made[0]


def record(call: RuleCall, recorder: RuleRecorder) -> list[int | None]:
    """Run the rules over handles: the numbers of the gradients, made to fit; None where there is none."""
    given = [None if a is None else recorder.add(RuleValue(f"a{i}", a, f"g{i}")) for i, a in enumerate(call.grads)]
    saved = [
        recorder.add(RuleValue(f"b{i}", x, f"x{i}")) if type(x) is Aval else x for i, x in enumerate(call.saved)
    ]
    before = switch_handler(recorder)
    try:
        found = list(run_rules(call.op, call.plan, call.context, given, saved, call.asked))
        for index, shape in enumerate(call.shapes):
            grad = found[index]
            if shape is None or grad is None or grad._aval.shape == shape:
                continue
            if is_expandable_to(shape, grad._aval.shape):
                found[index] = sum_to_shape(grad, shape)
    finally:
        switch_handler(before)
    return [None if g is None else recorder.number_of(g) for g in found]
