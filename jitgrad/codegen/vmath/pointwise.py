"""Every pointwise primitive as inline LLVM IR, on scalars and vectors.

Owns: the table from primitive to emitter.
Must not know: loops, loads, kernels.
In: register names. Out: instructions in a ``FnBuilder``, and the result's register.

Accuracy: every function of floats is within 2 ULP of the exact value over its whole domain, subnormal numbers, signed
zeros, infinities and NaN included, in float32 and float64, on every target (Note [Targets] in ``core``).
No call leaves the kernel, and no fast-math flag is set.
"""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.codegen.llvm.dtype_text import register
from jitgrad.codegen.llvm.text import FnBuilder
from jitgrad.codegen.vmath import basic
from jitgrad.codegen.vmath import exp as vmath_exp
from jitgrad.codegen.vmath import log as vmath_log
from jitgrad.codegen.vmath import root as vmath_root
from jitgrad.codegen.vmath import trig as vmath_trig
from jitgrad.codegen.vmath.core import Lanes, select
from jitgrad.codegen.vmath.round import round_mode
from jitgrad.codegen.vmath.short import narrowed
from jitgrad.dtypes import DType, bool_, float64, uint8

__all__ = ["EMIT", "emit_cast", "emit_pointwise"]


def _rounding(mode: str) -> Callable[[Lanes], Lanes]:
    return lambda x: round_mode(x, mode) if x.is_float else x


def _pow(x: Lanes, y: Lanes) -> Lanes:
    return vmath_log.pow(x, y) if x.is_float else basic.int_pow(x, y)


EMIT: dict[str, Callable[..., Lanes]] = {
    "exp": vmath_exp.exp,
    "exp2": vmath_exp.exp2,
    "expm1": vmath_exp.expm1,
    "log": vmath_log.log,
    "log2": vmath_log.log2,
    "log10": vmath_log.log10,
    "log1p": vmath_log.log1p,
    "sqrt": vmath_root.sqrt,
    "sin": vmath_trig.sin,
    "cos": vmath_trig.cos,
    "tan": vmath_trig.tan,
    "asin": vmath_trig.asin,
    "acos": vmath_trig.acos,
    "atan": vmath_trig.atan,
    "sinh": vmath_exp.sinh,
    "cosh": vmath_exp.cosh,
    "tanh": vmath_exp.tanh,
    "sigmoid": vmath_exp.sigmoid,
    "erf": vmath_exp.erf,
    "neg": Lanes.__neg__,
    "abs": basic.absolute,
    "sign": basic.sign,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "round": _rounding("roundeven"),
    "not": Lanes.invert,
    "isnan": basic.isnan,
    "add": basic.arithmetic("add"),
    "sub": basic.arithmetic("sub"),
    "mul": basic.arithmetic("mul"),
    "div": basic.div,
    "floordiv": basic.floordiv,
    "mod": basic.mod,
    "fmod": basic.fmod,
    "pow": _pow,
    "max": basic.maximum,
    "min": basic.minimum,
    "atan2": vmath_trig.atan2,
    "copysign": Lanes.copysign,
    "and": Lanes.__and__,
    "or": Lanes.__or__,
    "xor": Lanes.__xor__,
    "lt": basic.comparison("lt"),
    "le": basic.comparison("le"),
    "gt": basic.comparison("gt"),
    "ge": basic.comparison("ge"),
    "eq": basic.comparison("eq"),
    "ne": basic.comparison("ne"),
    "where": select,
}


def emit_pointwise(b: FnBuilder, op: str, dtype: DType, width: int, *regs: str) -> str:
    """Apply the primitive ``op`` to registers or literals of ``dtype``; returns the result's register.

    Args:
        b: the function under construction. Some primitives start new blocks: read ``b.block`` afterwards. ``b.isa``
            says what the target has. ``sin``, ``cos`` and ``tan`` add a function and a table to ``b.declarations``.
        op: a name of Note [Primitives] in ``builder``, but ``cast``.
        dtype: of the operands. ``where`` takes a mask first, then two operands of ``dtype``.
        width: lanes per register, a power of two; 1 = scalars.
        regs: the operands, never poison, since some primitives branch on "any lane". Masks (bool) are
            ``<width x i1>``, or ``i1`` for width 1.

    Raises:
        KeyError: no such primitive.
    """
    scalar = register(dtype.name)
    operands = [Lanes(b, scalar, width, reg) for reg in regs]
    if op == "where":
        operands[0] = Lanes(b, "i1", width, regs[0])
    return EMIT[op](*operands).reg


def emit_cast(b: FnBuilder, src: DType, dst: DType, width: int, reg: str) -> str:
    """Convert ``reg`` from ``src`` to ``dst``; see ``basic.cast`` for NaN and for what does not fit."""
    x = Lanes(b, register(src.name), width, reg)
    if src is float64 and dst is uint8:
        x = basic.cast(x, "i64")  # as PyTorch: it shows in what does not fit 32 bits
    x = basic.cast(x, register(dst.name))
    return (narrowed(x, dst) if dst.is_short and src not in (dst, bool_) else x).reg
