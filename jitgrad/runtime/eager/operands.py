"""Operands of an operation as its shape rule sees them: avals and Python numbers.

Owns: ``aval_args``, ``number_key``; where operands are, what of a number matters.
Must not know: plans, tensors' data.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jitgrad.devices import CPU, Device
from jitgrad.dtypes import COMPLEX, DType, int64
from jitgrad.ops.aval import Aval
from jitgrad.ops.shapes import check_width
from jitgrad.ops.table import Op
from jitgrad.runtime.eager.device_ops import placement

__all__ = [
    "are_elsewhere", "aval_args", "is_complex", "is_wide", "number_key", "on_device", "takes_all_numbers", "values_of",
    "without_device",
]  # fmt: skip


def are_elsewhere(avals: Sequence[Any]) -> bool:
    """Whether any of avals and numbers is not on the CPU."""
    for a in avals:  # noqa: SIM110
        if type(a) is Aval and a.device is not CPU:
            return True
    return False


def _kinds_of(dtype: DType) -> tuple[str, ...]:
    """A dtype in the words of ``Op.aval.checks_numbers``; every int is an int64."""
    if dtype.is_inexact:
        return ("half",) if dtype.is_half else ()
    return ("integer",) if dtype is int64 else ("integer", "narrow")


def values_of(op: Op, avals: Sequence[Aval | None]) -> list[Aval]:
    """Of the tensor inputs, but for the mask of an operation that selects by one. ``avals``: None for numbers."""
    first = 1 if getattr(op.numpy, "takes_mask", False) else 0
    return [a for a in avals[first:] if a is not None]


def takes_all_numbers(op: Op, avals: Sequence[Aval | None]) -> bool:
    """Whether the shape rule looks at the types of numbers alone. ``avals``: of the inputs, None for numbers."""
    checked = getattr(op.aval, "checks_numbers", ())
    if not checked or None not in avals or not hasattr(op.numpy, "direct"):
        return True
    return not any([kind in checked for a in values_of(op, avals) for kind in _kinds_of(a.dtype)])


def is_complex(x: Any) -> bool:
    """Whether an input, an aval or a number, is complex."""
    return x.dtype.category is COMPLEX if type(x) is Aval else isinstance(x, complex)


def without_device(params: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(p for p in params if type(p) is not Device) if Device in map(type, params) else params


def on_device(device: Device, avals: Any) -> Any:
    """An aval, or a tuple of them, on another device; a number as it is."""
    if isinstance(avals, tuple):
        return tuple(a.on(device) for a in avals)
    return avals.on(device) if type(avals) is Aval else avals


def aval_args(op: Op, avals: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """What the shape rule says, called the way the operation takes its inputs; on the device where the result will be.

    Rules know nothing of devices: they see everything on the CPU, and no Device among the params.
    """
    if len(avals) == 1 and type(avals[0]) is Aval and avals[0].device is CPU and Device not in map(type, params):
        return op.aval(avals, *params) if op.num_inputs < 0 else op.aval(avals[0], *params)
    device, params = placement(avals, params), without_device(params)
    if are_elsewhere(avals):
        avals = [on_device(CPU, a) for a in avals]
    return on_device(device, op.aval(avals, *params) if op.num_inputs < 0 else op.aval(*avals, *params))


def number_key(op: Op, number: Any) -> Any:
    """Of pointwise operations and updates only a number's type matters; of others its value may decide the shape."""
    check_width(number)
    if _is_keyed_by_type(op) and not is_wide(number):
        return type(number)
    return type(number), number


def is_wide(number: Any) -> bool:
    """Whether a number is an int that no int64 holds: some operations refuse it, others wrap it."""
    return type(number) is int and number >= 1 << 63


@functools.cache
def _is_keyed_by_type(op: Op) -> bool:
    """Whether only the types of an operation's numbers matter."""
    return op.is_update or hasattr(op.numpy, "direct")
