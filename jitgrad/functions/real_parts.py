"""Questions about complex numbers, of tensors that are real; mantissas and exponents.

Owns: angle, conj, conj_physical, frexp, imag, is_conj, is_neg, real, resolve_conj, resolve_neg.
Must not know: how the operations are computed. Imported late.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.functions.outputs import takes_out
from jitgrad.ops.dispatch_hook import call

__all__ = [
    "angle", "conj", "conj_physical", "conj_physical_", "frexp", "imag", "is_conj", "is_neg", "real", "resolve_conj",
    "resolve_neg",
]  # fmt: skip


class MantissaExponent(NamedTuple):
    """``mantissa * 2 ** exponent``."""

    mantissa: Any
    exponent: Any


@takes_out
def angle(input: Any) -> Any:
    """pi of negative numbers, else 0; its derivative is 0."""
    return call("angle", input)


@takes_out
def frexp(input: Any) -> MantissaExponent:
    """(mantissa, exponent): the mantissa is 0, or its magnitude is in [1/2, 1); exponents are int32.

    Raises:
        NotImplementedError: for integers.
    """
    return MantissaExponent(*call("frexp", input))


def _itself(name: str, text: str) -> Any:
    def function(input: Any) -> Any:
        return input

    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


conj = _itself("conj", "The tensor itself: all tensors are real.")
real = _itself("real", "The tensor itself: all tensors are real.")
resolve_conj = _itself("resolve_conj", "The tensor itself: none is the conjugate of another.")
resolve_neg = _itself("resolve_neg", "The tensor itself: none is the negative of another.")
conj_physical_ = _itself("conj_physical_", "The tensor itself: all tensors are real.")


@takes_out
def conj_physical(input: Any) -> Any:
    """The tensor itself: all tensors are real."""
    return input


def imag(input: Any) -> Any:
    """RuntimeError: all tensors are real."""
    raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")


def is_conj(input: Any) -> bool:
    """False: all tensors are real."""
    return False


def is_neg(input: Any) -> bool:
    """False: no tensor is the negative of another."""
    return False
