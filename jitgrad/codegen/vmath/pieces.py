"""tanh and erf of float32, piece by piece, where the coefficients of 16 lanes are looked up at once.

Owns: ``by_pieces``.
Must not know: kernels.

# Note [Functions by pieces]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~
# A function that is smooth and soon constant is cut into at most 32 pieces, each with a polynomial of low degree in
# the distance from a number near its middle, its center. AVX-512 finds one number of 32 for each of 16 lanes in an
# instruction (VPERMT2PS), so a polynomial of degree 5 costs seven such instructions, one of them for the center, and
# five multiply-adds, without a division: tanh takes 13 cycles for 16 lanes instead of 22. Other targets have no such
# instruction, and compute the function as ``exp`` says.
# The pieces from 1/16 on are quarters of octaves: the exponent and two bits of the mantissa number them. One piece is
# for all smaller numbers; there the polynomial says by what the function differs from x. A center is chosen so that the
# function of it is very nearly a float: then the constant term has no error, and the rest, which is small, adds little
# to the last rounding. tanh is right in 98 of 100 cases, and never off by a ULP (S. Gal, "An accurate elementary
# mathematical library", 1991). ``python tools/minimax.py`` fits the pieces.
# Lanes that are less than a register are filled up, and two registers are computed one by one: the bits do not depend
# on the width.
"""

from __future__ import annotations

from jitgrad.codegen.vmath.coefs import PIECES
from jitgrad.codegen.vmath.core import Lanes, select

__all__ = ["by_pieces", "has_pieces"]

_LANES = 16
_FIRST_EXPONENT = -4
"""Pieces are quarters of octaves from 2 to this power on."""


def has_pieces(x: Lanes) -> bool:
    """Whether ``by_pieces`` takes these lanes, see Note [Functions by pieces]."""
    return x.scalar == "float" and x.b.isa.lookup


def by_pieces(name: str, x: Lanes) -> Lanes:
    """The odd function that ``PIECES`` has under a name; NaN of NaN."""
    return x.in_registers(_LANES, lambda x: _of_register(name, x))


def _of_register(name: str, x: Lanes) -> Lanes:
    last, rows = PIECES[name]
    size = x.abs().at_most(last)
    fraction_bits = x.fmt.mantissa - 2
    first = (x.fmt.bias + _FIRST_EXPONENT << 2) - 1  # what numbers the piece below the first octave
    bits = size.bits()
    piece = bits.intrinsic("smax", bits.const(first << fraction_bits)).lshr(fraction_bits)
    columns = [_turned(column, first % 32) for column in zip(*rows, strict=True)]
    distance = size - piece.lookup(columns[0])
    found = piece.lookup(columns[-1])
    for column in reversed(columns[2:-1]):
        found = found.mad(distance, piece.lookup(column))
    constant = select(size < 2.0**_FIRST_EXPONENT, size, piece.lookup(columns[1]))
    return found.mad(distance, constant).copysign(x)


def _turned(column: tuple[float, ...], by: int) -> list[float]:
    """32 numbers, the first of them at place ``by``, and on from there."""
    numbers = [*column, *[0.0] * (32 - len(column))]
    return numbers[32 - by :] + numbers[: 32 - by]
