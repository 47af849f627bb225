"""Segments by their operations' NumPy rules, with every value kept.

Owns: ``evaluate``, ``run_rule``, ``what_is``: an instruction in words.
Must not know: programs.
In: a segment and its inputs as arrays. Out: value id -> array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.checking.array_facts import widened
from jitgrad.checking.rounding import eps_of, shaken, terms_of
from jitgrad.compiled.interpret import compute
from jitgrad.ops.table import Op
from jitgrad.runtime.eager.numpy_rule import run_numpy
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.tracer.recording.graph import Const, Instr, Segment

__all__ = ["evaluate", "operands_of", "run_rule", "run_wide", "what_is", "where_is"]

Values = dict[int, Any]


def operands_of(instr: Instr, values: Values, scalars: Sequence[int | float]) -> list[Any]:
    """Arrays and Python numbers."""
    return [values[x] if type(x) is int else x.value if type(x) is Const else scalars[x.slot] for x in instr.inputs]


def run_rule(instr: Instr, operands: Sequence[Any]) -> list[Any]:
    """The results as eager execution of NumPy's rules has them, exactly of the recorded shapes and dtypes."""
    if instr.op.numpy is None:
        return compute(instr, list(operands))
    return [np.array(r) for r in run_numpy(instr.op, operands, instr.params, instr.avals)]


def run_wide(instr: Instr, operands: Sequence[Any]) -> list[Any]:
    """The same rules on double precision, rounded nowhere but where the rule itself does so."""
    op: Op = instr.op
    if op.numpy is None:
        return compute(instr, list(operands))
    raw = run_quietly(op.numpy, *((list(operands),) if op.num_inputs < 0 else operands), *instr.params)
    results = raw if isinstance(raw, tuple | list) else (raw,)
    return [np.broadcast_to(np.asarray(r), aval.shape) for r, aval in zip(results, instr.avals, strict=True)]


def evaluate(
    segment: Segment, inputs: Values, scalars: Sequence[int | float], random: Any = None, is_wide: bool = False
) -> Values:
    """Every value of a segment.

    Args:
        inputs: value id -> array.
        scalars: of the trace.
        random: a NumPy generator that moves each result by a unit in its last place; None: results are as they are.
        is_wide: compute in double precision.
    """
    values: Values = {vid: widened(x) if is_wide else x for vid, x in inputs.items()}
    for instr in segment.instrs:
        operands = operands_of(instr, values, scalars)
        results = run_wide(instr, operands) if is_wide else run_rule(instr, operands)
        for vid, result, aval in zip(instr.outputs, results, instr.avals, strict=True):
            if is_wide:
                result = widened(result)
            elif random is not None and eps_of(result) and not instr.op.is_view:
                result = shaken(result, random, terms=terms_in(instr, operands, aval.numel)).astype(aval.dtype.np)
            values[vid] = result
    return values


def terms_in(instr: Instr, operands: Sequence[Any], size: int) -> float:
    """How many numbers an instruction adds up for one element of a result of ``size`` elements."""
    return terms_of(instr.op.name, [x.size for x in operands if isinstance(x, np.ndarray)], size)


def where_is(instr: Instr) -> str:
    """The user's line of an instruction, or of the forward whose backward it belongs to."""
    return instr.where or instr.origin.partition(" of ")[2]


def what_is(instr: Instr) -> str:
    """``mul at train.py:12``, or ``mul in the backward of MulBackward0 of train.py:12``."""
    if instr.where:
        return f"{instr.op.name} at {instr.where}"
    return f"{instr.op.name} in the backward, {instr.origin}" if instr.origin else f"{instr.op.name} in the backward"
