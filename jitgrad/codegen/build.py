"""Building: recorded operations to primitives, by each operation's own lowering.

Owns: ``build``.
Must not know: what an operation lowers to.
In: a ``Piece`` with instructions. Out: its results.

Numbers: a ``Const`` reaches a lowering as the Python number; a ``RuntimeScalar`` as a primitive "scalar" (float64 or
int64), which takes the dtype of the tensor it meets (``Builder.pointwise``, ``Builder.cast``).
"""

from __future__ import annotations

from typing import Any

from jitgrad.codegen.piece import Piece
from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.dtypes import float64, int64
from jitgrad.tracer.recording.graph import Const, RuntimeScalar

__all__ = ["build"]


def build(piece: Piece) -> None:
    """Fill ``piece.results``."""
    b = piece.builder = Builder()
    values: dict[int, Value] = {}

    def operand(x: Any, widens: bool = True) -> Any:
        if isinstance(x, Const):
            return x.value
        if isinstance(x, RuntimeScalar):
            return b.scalar(x, float64 if x.is_float else int64)
        found = values.get(x)
        if found is None:
            found = values[x] = b.input(x, piece.inputs[x])
        return b.widened(found) if widens else found

    for number, instr in piece.instrs:
        b.instr = number
        lower = instr.op.lower
        assert lower is not None
        widens = not hasattr(lower, "takes_short")
        operands = [operand(x, widens) for x in instr.inputs]
        out = lower(b, operands, *instr.params) if instr.op.num_inputs < 0 else lower(b, *operands, *instr.params)
        outs = out if isinstance(out, (tuple, list)) else (out,)
        for vid, aval, value in zip(instr.outputs, instr.avals, outs, strict=True):
            is_exact = value.dtype is aval.dtype and value.shape == aval.shape
            values[vid] = value if is_exact else _exactly(b, value, aval.shape, aval.dtype)
    written = [(operand(vid, False), piece.inputs[into]) for vid, into in piece.writes]
    piece.results = [_in_memory(b, operand(vid, False), piece.orders.get(vid)) for vid in piece.outputs]
    piece.results += [_exactly(b, value, aval.shape, aval.dtype) for value, aval in written]


def _in_memory(b: Builder, value: Value, order: tuple[int, ...] | None) -> Value:
    """What fills an output's memory, row-major: Note [Strides of results]."""
    return value if order is None else b.permute(value, order)


def _exactly(b: Builder, value: Value, shape: tuple[int, ...], dtype: Any) -> Value:
    """``value`` with the dtype and shape that were recorded: a lowering may return one that still broadcasts."""
    value = b.cast(value, dtype)
    if value.shape == shape:
        return value
    pairs = zip(value.shape[::-1], shape[::-1], strict=False)
    if len(value.shape) <= len(shape) and all(m in (1, n) for m, n in pairs):
        return b.expand(value, shape)
    return b.reshape(value, shape)
