"""Calls of functions of whole arrays: where their operands are, and what is launched.

Owns: ``operand_places``, ``RoutineKernel``, ``routine_kernel``.
Must not know: the function's text, how launches are ordered.
In: a "routine" value. Out: ``RoutineKernel``. See Note [Array kernels].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jitgrad.codegen.fusion.domain import Domain, Refuse, Resplit
from jitgrad.codegen.fusion.lower import Lowerer
from jitgrad.codegen.primitives.builder import Value
from jitgrad.codegen.routines.routine import RoutineCall
from jitgrad.codegen.schedule.kernel_ir import BufferArg
from jitgrad.ops.aval import contiguous_strides

__all__ = ["RoutineKernel", "operand_places", "routine_kernel"]

Place = tuple[Value, int]


@dataclass(slots=True, eq=False)
class RoutineKernel:
    """A function of whole arrays to launch.

    Attributes:
        call: which, and for which shapes.
        buffers: (buffer, offset in bytes, size in bytes, whether it is written) per array.
        words: its argument words, see ``kernel_ir.LoopKernel``.
        units: units of work.
        cost: estimated nanoseconds on one core.
    """

    call: RoutineCall
    buffers: list[tuple[Any, int, int, bool]]
    words: list[Any]
    units: int
    cost: float


def operand_places(routine: Value, stored: Mapping[Value, Any]) -> list[Place]:
    """Per operand: the value in memory, and the byte in it where the operand begins.

    Raises:
        Refuse: an operand is not row-major in memory; ``store`` is what must be copied.
    """
    root = stored[routine]
    if root.views is None:
        root.views = [_place(x, stored) for x in routine.srcs]
    places: list[Place] = root.views
    return places


def _place(x: Value, stored: Mapping[Value, Any]) -> Place:
    lowerer = Lowerer(Domain(x.shape), stored)
    try:
        reg = lowerer.value_at(x, lowerer.domain.full_identity())
    except (Refuse, Resplit):
        raise Refuse("an operand of a function of arrays must lie in memory", x) from None
    load = lowerer.instrs[reg]
    if load.op != "load" or load.srcs or load.address is None:
        raise Refuse("an operand of a function of arrays must lie in memory", x)
    offset, *strides = load.address
    wanted = contiguous_strides(x.shape)
    if 0 not in x.shape and any(n != 1 and s != w for n, s, w in zip(x.shape, strides, wanted, strict=True)):
        raise Refuse("an operand of a function of arrays must be row-major", x)
    return load.extra[0], offset * x.dtype.itemsize


def routine_kernel(call: RoutineCall, operands: Sequence[tuple[Any, int]], results: Sequence[Any]) -> RoutineKernel:
    """The launch. ``operands``: buffer and byte offset of each; ``results``: the buffers, which they fill."""
    places = [(b, offset, False) for b, offset in operands] + [(b, 0, True) for b in results]
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in zip(call.shapes, call.dtypes, strict=True)]
    buffers = [(b, offset, size, made) for (b, offset, made), size in zip(places, sizes, strict=True)]
    words = call.words([BufferArg(b, offset) for b, offset, _ in places])
    return RoutineKernel(call, buffers, words, call.units, call.cost)
