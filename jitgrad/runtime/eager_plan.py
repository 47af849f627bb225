"""What eager execution knows of an operation before it looks at any value.

Owns: ``EagerPlan`` and the table of plans, by operation and avals.
Must not know: tensors' data, the dispatcher.

Avals are interned, so a plan is found by one dict look-up. It holds what the shape rule said, the NumPy function
without its dtype promotion where none is needed, and the graph side: one ``RuleContext`` serves every node of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.devices import CPU, Device
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op, RuleContext
from jitgrad.runtime.device_ops import placement
from jitgrad.runtime.engine.op_node import BackwardPlan, backward_plan

__all__ = ["EagerPlan", "aval_args", "find_plan", "known_plan", "number_key"]

_MAX_PLANS = 8192
"""Then all are dropped: shapes that keep changing must not fill the memory."""


class EagerPlan:
    """An operation on inputs of given avals.

    Attributes:
        op: the operation.
        out_avals: of the outputs.
        is_several: the operation returns a tuple.
        direct: the bare NumPy function, if inputs and output share one floating dtype and are row-major; else None.
        context_avals: of the inputs; None for numbers.
        params: the static parameters.
        differentiable: which inputs have a derivative rule.
        is_differentiable: all of them do.
        is_elsewhere: inputs or results are not on the CPU.
    """

    __slots__ = (
        "_graph",
        "context_avals",
        "differentiable",
        "direct",
        "is_differentiable",
        "is_elsewhere",
        "is_several",
        "op",
        "out_avals",
        "params",
    )

    def __init__(self, op: Op, avals: list[Any], params: tuple[Any, ...]) -> None:
        out_avals = aval_args(op, avals, params)
        self.op = op
        self.is_several = isinstance(out_avals, tuple)
        self.out_avals: tuple[Aval, ...] = out_avals if self.is_several else (out_avals,)
        self.is_elsewhere = any(type(a) is Aval and a.device is not CPU for a in (*self.out_avals, *avals))
        self.params = _without_device(params)
        self.context_avals = tuple(a if isinstance(a, Aval) else None for a in avals)
        self.direct = self._direct()
        vjps = op.vjps * len(avals) if op.num_inputs < 0 else op.vjps
        self.differentiable = tuple(vjp is not None for vjp in vjps)
        self.is_differentiable = bool(vjps) and all(self.differentiable)
        self._graph: dict[tuple[bool, ...], tuple[BackwardPlan, RuleContext]] = {}

    def _direct(self) -> Callable[..., Any] | None:
        """See ``direct``; NumPy would choose other layouts for other layouts, and scalars for 0-d results."""
        out = self.out_avals[0]
        inputs = [a for a in self.context_avals if a is not None]
        is_plain = out.dtype.is_floating_point and out.ndim > 0 and bool(inputs) and not self.is_elsewhere
        if is_plain and all(a.dtype is out.dtype and a.is_contiguous for a in inputs):
            return getattr(self.op.numpy, "direct", None)
        return None

    def graph(self, needs: tuple[bool, ...]) -> tuple[BackwardPlan, RuleContext]:
        """What a node needs, for one choice of inputs that need gradients."""
        found = self._graph.get(needs)
        if found is None:
            context = RuleContext(self.context_avals, self.out_avals, self.params, needs)
            found = self._graph[needs] = (backward_plan(self.op, needs), context)
        return found


def _without_device(params: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(p for p in params if type(p) is not Device) if Device in map(type, params) else params


def _on(device: Device, avals: Any) -> Any:
    """An aval, or a tuple of them, on another device; a number as it is."""
    if isinstance(avals, tuple):
        return tuple(a.on(device) for a in avals)
    return avals.on(device) if type(avals) is Aval else avals


_plans: dict[tuple[Any, ...], EagerPlan] = {}


def known_plan(key: tuple[Any, ...]) -> EagerPlan | None:
    """The plan under (operation, params, then each input's aval or ``number_key``); None: ask ``find_plan``."""
    try:
        return _plans.get(key)
    except TypeError:  # a parameter that cannot be hashed
        return None


def aval_args(op: Op, avals: list[Any], params: tuple[Any, ...]) -> Any:
    """What the shape rule says, called the way the operation takes its inputs; on the device where the result will be.

    Rules know nothing of devices: they see everything on the CPU, and no Device among the params.
    """
    device, params = placement(avals, params), _without_device(params)
    if any(type(a) is Aval and a.device is not CPU for a in avals):
        avals = [_on(CPU, a) for a in avals]
    return _on(device, op.aval(avals, *params) if op.num_inputs < 0 else op.aval(*avals, *params))


def find_plan(op: Op, avals: list[Any], params: tuple[Any, ...]) -> EagerPlan:
    """The plan for these avals and numbers.

    Raises:
        Whatever the shape rule raises.
    """
    key = (op, params, *[a if type(a) is Aval else number_key(op, a) for a in avals])
    try:
        plan = _plans.get(key)
    except TypeError:  # a parameter that cannot be hashed
        return EagerPlan(op, avals, params)
    if plan is not None:
        return plan
    plan = EagerPlan(op, avals, params)
    if _is_settled(plan):
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


def number_key(op: Op, number: Any) -> Any:
    """Of a plain pointwise operation only a number's type matters; of others its value may decide the shape."""
    return type(number) if hasattr(op.numpy, "direct") else (type(number), number)


def _is_settled(plan: EagerPlan) -> bool:
    """Whether the plan holds for ever: what the default dtype decides does not."""
    inputs = [a for a in plan.context_avals if a is not None]
    return bool(inputs) and all(a.dtype.is_floating_point for a in inputs)
