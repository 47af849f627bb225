"""Building: recorded operations to primitives, by each operation's own lowering.

Owns: ``build``.
Must not know: what an operation lowers to.
In: a ``Piece`` with instructions. Out: its results.

Numbers: a ``Const`` reaches a lowering as the Python number; a ``RuntimeScalar`` as a primitive "scalar" (float64 or
int64), which takes the dtype of the tensor it meets (``Builder.pointwise``, ``Builder.cast``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jitgrad.codegen.piece import Piece, complex_lowering, has_complex
from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.codegen.primitives.complex_pairs import Pair
from jitgrad.dtypes import DType, float64, int64
from jitgrad.ops.shapes import result_dtype
from jitgrad.tracer.recording.graph import Const, Instr, RuntimeScalar

__all__ = ["build"]


def build(piece: Piece) -> None:
    """Fill ``piece.results``."""
    b = piece.builder = Builder()
    values: dict[int, Any] = {}

    def operand(x: Any, widens: bool = True) -> Any:
        """What a lowering sees of an operand; a complex one as it lies in memory."""
        if isinstance(x, Const):
            return x.value
        if isinstance(x, RuntimeScalar):
            return b.scalar(x, float64 if x.is_float else int64)
        found = values.get(x)
        if found is None:
            found = values[x] = b.input(x, piece.inputs[x])
        if isinstance(found, Pair):
            return found.whole
        return b.widened(found) if widens else found

    for number, instr in piece.instrs:
        b.instr = number
        if has_complex(instr):
            values.update(_complex_results(b, instr, operand, values))
            continue
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


def _complex_results(b: Builder, instr: Instr, operand: Any, values: dict[int, Any]) -> Iterator[tuple[int, Any]]:
    """Value ids and values of an operation on complex numbers, Note [Complex values]."""
    real = _dtype_of_parts(instr)
    operands = []
    for x, aval in zip(instr.inputs, instr.input_avals, strict=True):
        if aval is None or not aval.dtype.is_complex:
            operands.append(operand(x))
            continue
        found = values.get(x)
        operands.append(found if isinstance(found, Pair) else Pair(b, whole=operand(x, False)))
    lower = complex_lowering(instr)
    args = [operands] if instr.op.num_inputs < 0 else operands
    out = lower(b, real, *args, *instr.params)
    outs = out if type(out) in (tuple, list) else (out,)
    for vid, aval, made in zip(instr.outputs, instr.avals, outs, strict=True):
        if not aval.dtype.is_complex:
            yield vid, _exactly(b, made, aval.shape, aval.dtype)
        elif len(made) == 1:
            yield vid, Pair(b, whole=_exactly(b, made[0], (*aval.shape, 2), real))
        else:
            re, im = (_exactly(b, part, aval.shape, real) for part in made)
            yield vid, Pair(b, parts=(re, im))


def _dtype_of_parts(instr: Instr) -> DType:
    """What is computed in: the dtype of a result's parts, or of what comparisons promote their operands to."""
    if instr.avals[0].dtype.is_inexact:
        return instr.avals[0].dtype.to_real()
    pairs = zip(instr.inputs, instr.input_avals, strict=True)
    return result_dtype(*[aval or (x.value if isinstance(x, Const) else 1.0) for x, aval in pairs]).to_real()
