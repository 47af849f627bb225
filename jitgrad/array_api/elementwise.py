"""The array API's functions of elements.

Owns: their names and signatures. What they compute are jitgrad's functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad import functions
from jitgrad.array_api.dtype_functions import common
from jitgrad.functions import PUBLIC
from jitgrad.functions.devices import clone
from jitgrad.tensor_base import TensorBase

__all__ = ["BINARY", "UNARY", "clip", "conj", "imag", "real", "sign"]

_UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil cos cosh exp expm1 floor isfinite isinf isnan log log10 "
    "log1p log2 logical_not negative positive reciprocal round signbit sin sinh sqrt square tan tanh trunc"
).split()
_BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
    "floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum "
    "minimum multiply nextafter not_equal pow remainder subtract"
).split()
_OTHER_NAMES = {"bitwise_invert": "bitwise_not", "equal": "eq", "divide": "div", "not_equal": "ne"}


def _finished(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name}`` of the array API, element by element."
    return function


def _unary(name: str) -> Callable[..., Any]:
    compute = PUBLIC[_OTHER_NAMES.get(name, name)]

    def function(x: Any, /) -> Any:
        return compute(x)

    return _finished(function, name)


def _binary(name: str) -> Callable[..., Any]:
    compute = PUBLIC[_OTHER_NAMES.get(name, name)]

    def function(x1: Any, x2: Any, /) -> Any:
        x1, x2 = common(x1, x2)
        # functions of two tensors take no number; the standard allows one of the two to be one
        if not isinstance(x2, TensorBase):
            x2 = functions.full((), x2, dtype=_dtype_beside(x1, x2), device=x1.device)
        elif not isinstance(x1, TensorBase):
            x1 = functions.full((), x1, dtype=_dtype_beside(x2, x1), device=x2.device)
        return compute(x1, x2)

    return _finished(function, name)


def _dtype_beside(x: Any, number: Any) -> Any:
    """A Python number takes the array's dtype, unless it is of a higher kind."""
    is_higher = type(number) is float and not x.dtype.is_floating_point
    return None if is_higher or (type(number) is int and x.dtype.category == 0) else x.dtype


UNARY = {name: _unary(name) for name in _UNARY}
BINARY = {name: _binary(name) for name in _BINARY}


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 for each element; NaN for NaN."""
    found = functions.sign(x)
    return functions.where(functions.isnan(x), x, found) if x.dtype.is_floating_point else found


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Each element, but at least ``min`` and at most ``max``, in the dtype of ``x``."""
    for bound, choose in ((min, functions.maximum), (max, functions.minimum)):
        if isinstance(bound, TensorBase):
            x = choose(x, bound.to(x.dtype))
        elif bound is not None:
            x = choose(x, functions.full((), bound, dtype=x.dtype, device=x.device))
    return clone(x) if min is None and max is None else x


def conj(x: Any, /) -> Any:
    """The conjugate of each element: there are no complex dtypes, so the array itself."""
    return x


def real(x: Any, /) -> Any:
    """The real part of each element: there are no complex dtypes, so the array itself."""
    return x


def imag(x: Any, /) -> Any:
    """The imaginary part of each element. TypeError: there are no complex dtypes."""
    raise TypeError(f"imag() takes an array of a complex dtype, not {x.dtype}")
