"""Square roots as inline vector code.

Owns: ``sqrt``.
Must not know: kernels.

Method: AVX-512 has square roots of whole registers, of 12 (float32) and 25 cycles, and approximations of 1 / sqrt to 14
bits, of 2. Where it has these, g and h, near sqrt(x) and 1 / (2 sqrt(x)), are improved together (P. W. Markstein,
"Computation of elementary functions on the IBM RISC System/6000", 1990), and g at last by h times what x - g^2 is
exactly, with one rounding: the correctly rounded root, as the instruction's, in 7 and 9 cycles.
"""

from __future__ import annotations

from jitgrad.codegen.vmath.core import Lanes, select

__all__ = ["sqrt"]

_STEPS = {"float": 1, "double": 2}
_LEAST = {"float": (2.0**-96, 2.0**64), "double": (2.0**-960, 2.0**128)}
"""What is smaller is multiplied: x - g^2 would be subnormal."""


def sqrt(x: Lanes) -> Lanes:
    """NaN below 0; -0 of -0."""
    if not (x.b.isa.lookup and x.width > 1):
        return x.sqrt()
    return x.in_registers(512 // (32 if x.scalar == "float" else 64), _of_register)


def _of_register(x: Lanes) -> Lanes:
    least, factor = _LEAST[x.scalar]
    is_small = x < least
    z = select(is_small, x * factor, x)
    y = _approximate_inverse(z)
    g, h = z * y, y * 0.5
    for _ in range(_STEPS[x.scalar]):
        rest = (-g).fma(h, 0.5)
        g, h = g.fma(rest, g), h.fma(rest, h)
    g = (-g).fma(g, z).fma(h, g)
    g = select(is_small, g * factor**-0.5, g)
    return select(y.eq(y + y), x, g)  # zeros and infinity, whose inverses are infinite and zero


def _approximate_inverse(x: Lanes) -> Lanes:
    """1 / sqrt(x) to 14 bits."""
    kind, mask = ("ps", "i16 -1") if x.scalar == "float" else ("pd", "i8 -1")
    name = f"llvm.x86.avx512.rsqrt14.{kind}.512"
    return Lanes(x.b, x.scalar, x.width, x.b.call(x.type, name, x.typed, x.typed, mask))
