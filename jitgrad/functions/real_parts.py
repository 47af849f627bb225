"""Parts and conjugates of complex tensors, and what they are of real ones; mantissas and exponents.

Owns: angle, complex, conj, conj_physical, frexp, imag, is_conj, is_neg, polar, real, resolve_conj, resolve_neg,
view_as_complex, view_as_real.
Must not know: how the operations are computed. Imported late.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.door import door
from jitgrad.dtypes import HALVES, bfloat16
from jitgrad.functions.outputs import takes_out
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.functions.views import select
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import refuse
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

__all__ = [
    "angle", "complex", "conj", "conj_physical", "conj_physical_", "frexp", "imag", "is_conj", "is_neg",
    "polar", "real", "resolve_conj", "resolve_neg", "set_imag", "set_real", "view_as_complex",
    "view_as_real",
]  # fmt: skip


class MantissaExponent(NamedTuple):
    """``mantissa * 2 ** exponent``."""

    mantissa: Any
    exponent: Any


@takes_out
def angle(input: Any) -> Any:
    """The angle in radians, of the dtype of the parts; of real numbers pi below 0, else 0, with derivative 0."""
    return call("angle", input)


@takes_out
def frexp(input: Any) -> MantissaExponent:
    """(mantissa, exponent): the mantissa is 0, or its magnitude is in [1/2, 1); exponents are int32.

    Raises:
        NotImplementedError: for integers.
    """
    return MantissaExponent(*call("frexp", input))


@takes_out
def complex(real: Any, imag: Any) -> Any:
    """The complex tensor of two real ones of one floating dtype, broadcast: float64 makes complex128, others complex64.

    Raises:
        RuntimeError: the dtypes differ, or are not floating.
        TypeError: a number.
    """
    _check_tensors("complex", real=real, imag=imag)
    return call("complex", real, imag)


def _check_tensors(name: str, **operands: Any) -> None:
    for position, (argument, x) in enumerate(operands.items(), 1):
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(x).__name__}"
            )
        if x.dtype is bfloat16:
            raise RuntimeError(f"{name}(): Expected both inputs to be Half, Float or Double tensors but got BFloat16")


@takes_out
@float32_in_autocast
def polar(abs: Any, angle: Any) -> Any:
    """``abs * exp(i * angle)`` of two real tensors of one floating dtype; see ``complex``."""
    _check_tensors("polar", abs=abs, angle=angle)
    refuse("polar_cpu", abs, HALVES)
    return call("polar", abs, angle)


def view_as_real(input: Any) -> Any:
    """The memory of a complex tensor as pairs (real part, imaginary part), [*, 2]: a view. RuntimeError for others."""
    return call("view_as_real", input)


@float32_in_autocast
def view_as_complex(input: Any) -> Any:
    """The memory of pairs, [*, 2], as complex numbers: a view.

    Raises:
        RuntimeError: the dtype is neither float32 nor float64, or the parts of a pair are not neighbours in memory.
    """
    return call("view_as_complex", input)


def _is_complex(x: Any) -> bool:
    return bool(x._aval.dtype.is_complex)


def conj(input: Any) -> Any:
    """The conjugate; a real tensor itself. It is computed: no tensor is lazily the conjugate of another."""
    return call("_conj", input) if _is_complex(input) else input


@takes_out
def conj_physical(input: Any) -> Any:
    """The conjugate; a real tensor itself."""
    return call("conj_physical", input) if _is_complex(input) else input


def conj_physical_(input: Any) -> Any:
    """Conjugate in place; a real tensor stays as it is."""
    if _is_complex(input):
        door.apply_inplace(OPS["conj_physical"], (input,), input)
    return input


def resolve_conj(input: Any) -> Any:
    """The tensor itself: none is lazily the conjugate of another."""
    return input


def resolve_neg(input: Any) -> Any:
    """The tensor itself: none is lazily the negative of another."""
    return input


def real(input: Any) -> Any:
    """The real parts, a view that may be written; a real tensor itself."""
    return select(call("view_as_real", input), -1, 0) if _is_complex(input) else input


def imag(input: Any) -> Any:
    """The imaginary parts, a view that may be written. RuntimeError for a real tensor."""
    if not _is_complex(input):
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return select(call("view_as_real", input), -1, 1)


def is_conj(input: Any) -> bool:
    """False: no tensor is lazily the conjugate of another."""
    return False


def is_neg(input: Any) -> bool:
    """False: no tensor is lazily the negative of another."""
    return False


# --- the properties ``real`` and ``imag`` of tensors ---

def set_real(input: Any, value: Any) -> None:
    """``input.real = value``."""
    real(input).copy_(value)


def set_imag(input: Any, value: Any) -> None:
    """``input.imag = value``."""
    imag(input).copy_(value)
