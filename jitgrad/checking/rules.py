"""Derivative rules against differences of values.

Owns: ``wrong_rule``.
Must not know: kernels.
In: a ``SegmentRun``. Out: the first operation whose gradient is not that of its values.

Each operation of the forward runs again alone, in double precision, at the operands of the step. The gradient of a
random combination of its results, times a random direction, must be the difference quotient along that direction.
Operations that are not smooth there (a maximum of equal elements, ``relu`` at 0) show it by quotients that depend on
the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.autograd import grad
from jitgrad.checking.array_facts import widened
from jitgrad.checking.faults import Fault, window_of
from jitgrad.checking.reference import evaluate, operands_of, run_wide
from jitgrad.checking.rounding import Difference
from jitgrad.checking.segment_runs import SegmentRun
from jitgrad.compile import eager
from jitgrad.functions.from_data import from_array_copy
from jitgrad.ops.dispatch_hook import apply
from jitgrad.tracer.recording.graph import Instr

__all__ = ["wrong_rule"]

_STEPS = (1e-6, 1e-5)
_AGREE, _WRONG = 1e-3, 2e-2
_LARGEST = 1 << 18


def wrong_rule(run: SegmentRun) -> Fault | None:
    """The first operation of the forward whose derivative rule is wrong, or None."""
    values = evaluate(run.segment, run.inputs(), run.scalars)
    for instr in run.segment.instrs:
        if not instr.requires_grad or instr.op.is_view or not instr.where:
            continue
        operands = operands_of(instr, values, run.scalars)
        if sum(np.size(x) for x in operands) > _LARGEST:
            continue
        pair = _slopes(instr, operands)
        if pair is not None:
            by_rule, by_values = pair
            difference = Difference((), by_values, by_rule, abs(by_values) * _WRONG, 1, 1)
            window = window_of(run.segment, instr.outputs[:1])
            return Fault(
                "derivative", instr, np.array(by_values), np.array(by_rule), difference, window, run.memory, run.scalars
            )
    return None


def _slopes(instr: Instr, operands: list[Any]) -> tuple[float, float] | None:
    """(by the rule, by differences) along a random direction, if they are not the same."""
    random = np.random.default_rng(0)
    wide = [widened(x) if isinstance(x, np.ndarray) else x for x in operands]
    moving = [isinstance(x, np.ndarray) and x.dtype.kind == "f" and need
              for x, need in zip(wide, instr.needs, strict=True)]  # fmt: skip
    directions = [random.standard_normal(x.shape) if m else None for x, m in zip(wide, moving, strict=True)]
    try:
        results = run_wide(instr, wide)
    except (TypeError, ValueError, RuntimeError):
        return None
    weights = [random.standard_normal(r.shape) if r.dtype.kind == "f" else None for r in results]

    def total(step: float) -> float:
        moved = [x if d is None else x + step * d for x, d in zip(wide, directions, strict=True)]
        pairs = zip(run_wide(instr, moved), weights, strict=True)
        return float(sum((w * r).sum() for r, w in pairs if w is not None))

    with np.errstate(all="ignore"):
        quotients = [(total(s) - total(-s)) / (2 * s) for s in _STEPS]
        one_sided = (total(_STEPS[1]) - total(0.0)) / _STEPS[1]
    scale = max(abs(q) for q in quotients) + 1e-6
    is_smooth = (
        abs(quotients[0] - quotients[1]) < _AGREE * scale and abs(one_sided - quotients[1]) < 10 * _AGREE * scale
    )
    if not is_smooth:
        return None
    by_rule = _by_rule(instr, wide, directions, weights)
    if by_rule is None or abs(by_rule - quotients[1]) <= _WRONG * scale:
        return None
    return by_rule, quotients[1]


def _by_rule(instr: Instr, wide: list[Any], directions: list[Any], weights: list[Any]) -> float | None:
    with eager():
        tensors = [from_array_copy(x) if isinstance(x, np.ndarray) else x for x in wide]
        leaves = [t.requires_grad_() for t, d in zip(tensors, directions, strict=True) if d is not None]
        try:
            made = apply(instr.op, *([tensors] if instr.op.num_inputs < 0 else tensors), *instr.params)
            results = made if isinstance(made, tuple | list) else (made,)
            pairs = [(r, w) for r, w in zip(results, weights, strict=True) if w is not None and r.requires_grad]
            grads = grad([r for r, _ in pairs], leaves, [from_array_copy(w) for _, w in pairs], allow_unused=True)
        except (TypeError, ValueError, RuntimeError):
            return None
        used = [d for d in directions if d is not None]
        return float(sum((g.numpy() * d).sum() for g, d in zip(grads, used, strict=True) if g is not None))
