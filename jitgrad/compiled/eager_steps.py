"""Operations without a lowering, as steps of a compiled segment: run by their NumPy rules.

Owns: ``LoadedEagerStep``.
Must not know: other steps, what a rule does.
In: value id -> storage. Out: the results' storages there.
"""

from __future__ import annotations

from typing import Any

from jitgrad.abi import EagerStep
from jitgrad.compiled.interpret import Buffers, Numbers, compute, store
from jitgrad.events import bump
from jitgrad.probe import probe
from jitgrad.runtime.eager.plan import EagerPlan, find_plan
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tracer.recording.graph import Const, RuntimeScalar, Segment

__all__ = ["LoadedEagerStep"]

_LARGE = 1 << 16
"""Bytes from which on a result is copied: memory that NumPy takes, and keeps for a while, comes from the system anew at
each call, which costs more than a copy to memory of ours."""


class LoadedEagerStep:
    """An ``EagerStep`` with what is the same at each run: where its operands lie, and the plan of its operation.

    Attributes:
        instr: the operation.
    """

    __slots__ = ("_layouts", "_operands", "_plan", "instr")

    def __init__(self, step: EagerStep, segment: Segment) -> None:
        self.instr = instr = step.instr
        pairs = zip(instr.inputs, instr.input_avals, strict=True)
        self._operands = [(x, _layout(x, aval, segment)) for x, aval in pairs]
        self._layouts = [segment.stored_aval(vid, aval) for vid, aval in zip(instr.outputs, instr.avals, strict=True)]
        self._plan: EagerPlan | None = None

    def run(self, buffers: Buffers, scalars: Numbers) -> None:
        """Add the results' storages. Raises what the NumPy rule raises."""
        bump("fallbacks")
        arrays: list[Any] = []
        for x, aval in self._operands:
            if aval is not None:
                arrays.append(buffers[x].array(aval))
            else:
                arrays.append(scalars[x.slot] if type(x) is RuntimeScalar else x.value)
        instr = self.instr
        plan = self._found_plan(arrays) if probe.session is None else None
        results = compute(instr, arrays) if plan is None else [plan.run_anyhow(self._constants(plan, arrays))]
        for vid, result, aval in zip(instr.outputs, results, self._layouts, strict=True):
            is_small = aval.is_contiguous and aval.nbytes < _LARGE
            if is_small and vid not in buffers and result.flags.c_contiguous:  # nobody else knows its memory
                buffers[vid] = Storage.over(result)
            else:
                store(vid, result, aval, buffers)

    def _found_plan(self, arrays: list[Any]) -> EagerPlan | None:
        """The plan of an operation of one result that the plain way will do; a number has one for each value."""
        plan = self._plan
        if plan is None:
            op, avals = self.instr.op, self.instr.input_avals
            if op.numpy is None or len(self.instr.avals) != 1 or op.num_inputs <= 0:
                return None
            plan = find_plan(op, [x if a is None else a for a, x in zip(avals, arrays, strict=True)], self.instr.params)
            if not plan.is_plain:
                return None
            if plan.is_settled and not any([type(x) is RuntimeScalar for x, _ in self._operands]):
                self._plan = plan
        return plan

    def _constants(self, plan: EagerPlan, arrays: list[Any]) -> list[Any]:
        """The operands, with numbers as the plan has them."""
        return [plan.constant(x) if a is None else x for x, (_, a) in zip(arrays, self._operands, strict=True)]


def _layout(x: Any, aval: Any, segment: Segment) -> Any:
    """How an operand lies in memory; None for a number."""
    if isinstance(x, Const | RuntimeScalar):
        return None
    stored = segment.inputs.get(x)
    return segment.stored_aval(x, aval) if stored is None else stored
