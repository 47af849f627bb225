"""New tensors whose memory is drawn: what may be asked for, where numbers go, in which order, from which generator.

Owns: ``make``, ``made``, ``fresh_like``, ``draw_array``; PyTorch's order of filling a layout; checks of dtypes,
deviations and ranges of integers, with their messages, and how bounds are moved to what a dtype holds.
Must not know: distributions (methods of ``runtime.random.draws.RandomStream``, by name), what is public.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.dtypes import BOOLEAN, FLOATING, DType
from jitgrad.functions.creation import zeros
from jitgrad.functions.devices import placed
from jitgrad.generator import Generator, default_generator
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.aval import kept as kept_strides
from jitgrad.runtime.devices.device import META, canonical
from jitgrad.runtime.eager.makings import MAKINGS, MOST, Drawing
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import state
from jitgrad.tensor_base import new_tensor

__all__ = [
    "C_NAMES",
    "above",
    "check_bounds",
    "check_continuous",
    "check_probability",
    "check_std",
    "dense",
    "draw_array",
    "floating",
    "fresh_like",
    "fresh_now",
    "generator_or_default",
    "integer_range",
    "largest_of",
    "made",
    "make",
    "number_text",
    "type_name",
    "whole_range_of",
]

_DIRECT = LazyModule("jitgrad.runtime.random.direct_draws")
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Of floating dtypes: integers up to 2 to this power are exact."""
_TYPE_NAMES = {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long"}
"""Dtypes as PyTorch's messages name them."""
C_NAMES = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long",
    "float16": "c10::Half",
}  # fmt: skip
"""Dtypes as PyTorch's messages name them where C++ speaks."""
_LARGEST_HALF = 65504


def generator_or_default(name: str, generator: Any) -> Generator:
    """The generator that a function draws from; TypeError for what is none."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(
            f"{name}() received an invalid combination of arguments: generator must be a jitgrad.Generator, not "
            f"{type(generator).__name__}"
        )
    return generator


_drawings: dict[Any, Drawing | None] = {}
_MAX_DRAWINGS = 1024


def drawing_of(aval: Aval, distribution: str, params: tuple[Any, ...]) -> Drawing | None:
    """How a small tensor is drawn by one call of the kernel, Note [Known makings]; None: that takes more."""
    key = (aval, distribution, params)
    try:
        return _drawings[key]
    except KeyError:
        pass
    except TypeError:  # arrays among the params
        return None
    if len(_drawings) >= _MAX_DRAWINGS:
        _drawings.clear()
    found, is_plain = None, aval.is_canonical and not aval.offset and aval.device is CPU and not aval.dtype.is_short
    if is_plain and 0 < aval.numel <= MOST:
        call = _DIRECT.kernel_call(distribution, aval.numel, aval.dtype.np, params)
        found = call and Drawing(aval, functools.partial(np.empty, aval.shape, aval.dtype.np), *call)
    _drawings[key] = found
    return found


def fresh_now(aval: Aval, generator: Generator, distribution: str, params: tuple[Any, ...]) -> Any:
    """A new tensor whose memory is filled from its first element to its last."""
    if aval.numel <= MOST:
        drawing = drawing_of(aval, distribution, params)
        if drawing is not None and (drawn := MAKINGS.draw_again(drawing, generator.address)) is not None:
            return drawn
    storage = Storage(aval.nbytes)
    generator.draw(distribution, storage.addr, aval.numel, aval.dtype.np, *params)
    return new_tensor(aval, storage)


def _with_front(aval: Aval, sizes: tuple[int, ...]) -> Aval:
    """The layout with more dimensions in front."""
    if not sizes:
        return aval
    steps, step = [], aval.numel
    for n in reversed(sizes):
        steps.append(step)
        step *= n
    return make_aval((*sizes, *aval.shape), aval.dtype, (*reversed(steps), *aval.stride))


def make(
    shape: tuple[int, ...],
    dtype: DType,
    device: Any,
    requires_grad: bool,
    generator: Generator,
    distribution: str,
    *params: Any,
) -> Any:
    """A new contiguous tensor; the host draws, whatever the device: a seed gives the same numbers everywhere."""
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    return made(make_aval(shape, dtype), device, requires_grad, generator, distribution, params)


def made(
    aval: Aval,
    device: Any,
    requires_grad: bool,
    generator: Generator,
    distribution: str,
    params: tuple[Any, ...],
) -> Any:
    """As ``make``, in any layout."""
    place = state.default_device if device is None else device
    if place is CPU:
        place = None
    if place is not None and canonical(place) is META:
        out = zeros(aval.shape, dtype=aval.dtype, device=META)
    elif state.handler is None:
        out = fresh_now(aval, generator, distribution, params)
    else:  # inside vmap, each example may have to see numbers of its own
        out = state.handler.draws(lambda front: fresh_now(_with_front(aval, front), generator, distribution, params))
    if place is not None:
        out = placed(out, place)
    return out.requires_grad_() if requires_grad else out


def draw_array(
    shape: tuple[int, ...], dtype: DType, generator: Any, distribution: str, *params: Any
) -> Any:
    """Numbers in a NumPy array; for code that works on the host."""
    tensor = fresh_now(make_aval(shape, dtype), generator_or_default("draw", generator), distribution, params)
    return tensor._ndarray()


# --- the order in which a layout is filled ---


def dense(aval: Aval, dtype: DType) -> Aval:
    """A layout without gaps whose memory is in the order in which ``aval`` is counted."""
    if aval.is_canonical and dtype is aval.dtype and not aval.offset and aval.device is CPU:
        return aval
    return make_aval(aval.shape, dtype, kept_strides(aval))


def fresh_like(
    input: Any,
    distribution: str,
    *params: Any,
    dtype: DType | None = None,
    generator: Any = None,
    name: str = "draw",
) -> Any:
    """A new tensor in the layout of ``input``, on its device, filled in the order of its memory."""
    aval = input._aval
    source = generator_or_default(name, generator)
    return made(dense(aval, dtype or aval.dtype), aval.device, False, source, distribution, params)


# --- what may be asked for ---


def floating(name: str, dtype: DType, numel: int = 1) -> DType:
    """The dtype; NotImplementedError if it is not floating, unless there is nothing to draw."""
    if dtype.category is not FLOATING and numel:
        raise NotImplementedError(f'"{name}" not implemented for \'{type_name(dtype)}\'')
    return dtype


def check_continuous(distribution: str, dtype: DType, names: dict[str, str] | None = None) -> None:
    """RuntimeError for a dtype that is not floating; ``names``: of dtypes, in the message."""
    if dtype.category is not FLOATING:
        name = type_name(dtype) if names is None else names.get(dtype.name, dtype.name)
        raise RuntimeError(
            f"{distribution} distribution is a continuous probability distribution. dtype must be a floating point but "
            f"you specified {name}"
        )


def type_name(dtype: DType) -> str:
    """A dtype as PyTorch's messages name it."""
    return _TYPE_NAMES.get(dtype.name, dtype.name)


def check_std(std: Any) -> None:
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {number_text(std)}")


def check_probability(name: str, p: float) -> None:
    """RuntimeError unless ``p`` is one."""
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"{name} expects p to be in [0, 1], but got p={number_text(p)}")


def number_text(x: float) -> str:
    """A number as PyTorch's messages print it."""
    return f"{x:g}"


def largest_of(dtype: DType) -> int:
    """The largest integer up to which a dtype holds all."""
    return 1 << _DIGITS[dtype.name] if dtype.is_floating_point else _limits(dtype)[1]


def whole_range_of(dtype: DType) -> tuple[int, bool]:
    """(the modulus of draws of the whole range, whether they have 64 bits)."""
    return largest_of(dtype) + 1, dtype.itemsize == 8


def integer_range(low: int, high: int, dtype: DType) -> tuple[int, int]:
    """(the first integer, how many there are), checked as PyTorch does."""
    for bound in (low, high):
        if not -(1 << 63) <= bound < 1 << 63:
            raise ValueError(f"Overflow when unpacking long long: 64 bits do not hold {bound}")
    if dtype.is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    if not low < high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    check_bounds("from", low, dtype)
    check_bounds("to - 1", high - 1, dtype)
    if dtype.is_floating_point:
        low, high = above(low, dtype), _below(high, dtype)
        if not low < high:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
                f"from={low} >= to={high}"
            )
    return low, high - low


@functools.cache
def _limits(dtype: DType) -> tuple[int, int]:
    return (0, 1) if dtype.category is BOOLEAN else (int(np.iinfo(dtype.np).min), int(np.iinfo(dtype.np).max))


def check_bounds(what: str, value: int, dtype: DType) -> None:
    """RuntimeError unless the dtype's range has ``value``."""
    if dtype.is_floating_point and dtype.name != "float16":  # they go beyond 64 bits
        return
    least, largest = (-_LARGEST_HALF, _LARGEST_HALF) if dtype.is_floating_point else _limits(dtype)
    if not least <= value <= largest:
        raise RuntimeError(f"{what} is out of bounds for {C_NAMES.get(dtype.name, dtype.name)}")


def _as_stored(value: int, dtype: DType) -> int:
    """An integer as the floating dtype holds it; C++'s conversion back where it does not fit."""
    stored = int(np.asarray(value).astype(dtype.np))
    return stored if _INT64_MIN <= stored <= _INT64_MAX else _INT64_MIN


def _unit(value: int, dtype: DType) -> int:
    """The distance between numbers of the dtype at ``value``."""
    return 1 << (abs(value).bit_length() - _DIGITS[dtype.name])


def above(low: int, dtype: DType) -> int:
    """The least integer from ``low`` on that the dtype holds."""
    stored = _as_stored(low + 1, dtype)
    return low if stored >= low else stored + _unit(low + 1, dtype)


def _below(high: int, dtype: DType) -> int:
    """The bound that keeps what is stored below ``high``."""
    stored = _as_stored(high - 1, dtype)
    return high if stored < high else stored - _unit(high - 1, dtype)
