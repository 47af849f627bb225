"""Which calls that make tensors are kept, to be made again: Note [Known makings].

Owns: ``keep``; ``made_again`` for functions that look themselves.
Must not know: how a tensor is made again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.devices import Device
from jitgrad.dtypes import DType
from jitgrad.functions._parse import MISSING
from jitgrad.functions.drawing import drawing_of
from jitgrad.generator import default_generator
from jitgrad.layouts import layout
from jitgrad.runtime.eager.makings import MAKINGS, MOST, Making, making_table
from jitgrad.state import state
from jitgrad.tensor_base import tensor_class
from jitgrad.tracer.hits.hits import MISSED

__all__ = ["keep", "made_again"]

_CONSTANTS = frozenset({DType, Device, layout, bool, complex, float, int, str, type(None)})
_MAX_KNOWN = 512
"""Of one function: their arrays are no more than 4 MiB."""


def _fraction(*sizes: Any, **options: Any) -> tuple[str, tuple[Any, ...]]:
    return "uniform", (0.0, 1.0)


def _normal(*sizes: Any, **options: Any) -> tuple[str, tuple[Any, ...]]:
    return "normal", (0.0, 1.0)


def _integers(*args: Any, **options: Any) -> tuple[str, tuple[Any, ...]]:
    """``randint(high, size)`` or ``randint(low, high, size)``, the last ones perhaps by name."""
    given = [*args, *(options[name] for name in ("low", "high", "size") if name in options)]
    low, high = (0, given[0]) if len(given) == 2 else given[:2]
    return "integers", (low, high - low)


def _permutation(n: int, *options: Any) -> tuple[str, tuple[Any, ...]]:
    return "permutation", ()


_Draws = Callable[..., tuple[str, tuple[Any, ...]]]
_DRAWS: dict[str, _Draws] = {
    "rand": _fraction, "randn": _normal, "randint": _integers, "randperm": _permutation,
}  # fmt: skip
"""Of functions that draw: (distribution, its params) of the arguments."""
_DRAW_OPTIONS = frozenset({"dtype", "device", "requires_grad"})
_NAMED = {"randint": _DRAW_OPTIONS | {"low", "high", "size"}}
"""What draws may be given by name."""


def keep(name: str, table: dict[Any, Making], args: tuple[Any, ...] | None, options: dict[str, Any], made: Any) -> Any:
    """Keep how the function ``name`` has made a tensor, if that can be done again. Returns the tensor.

    ``args``: None where the call had options that are not looked up.
    """
    if args is None or state.handler is not None or type(made) is not tensor_class() or made._requires_grad:
        return made
    if name in _DRAWS and not options.keys() <= _NAMED.get(name, _DRAW_OPTIONS):
        return made
    aval = made._aval
    if state.default_device is not None or aval.offset or aval.numel > MOST or aval.device.type != "cpu":
        return made
    key = (*args, *options.items())
    is_constant = all(map(_is_constant, (*args, *options.values())))
    making = _making(name, key, args, options, made) if is_constant else None
    if making is not None:
        if len(table) >= _MAX_KNOWN:
            table.clear()
        table[key] = making
    return made


def made_again(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which makes a tensor of its arguments and draws nothing, with a look at what it has made."""
    table = making_table()

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        made = MAKINGS.make_again(table, args, options)
        return keep("", table, args, options, function(*args, **options)) if made is MISSED else made

    return call


def _making(
    name: str, key: tuple[Any, ...], args: tuple[Any, ...], options: dict[str, Any], made: Any
) -> Making | None:
    draws = _DRAWS.get(name)
    if draws is None:
        copy = _copier(made._ndarray())
        return None if copy is None else Making(key, made._aval, copy, None, 0)
    if not made._aval.numel or not made._aval.is_canonical:
        return None
    drawing = drawing_of(made._aval, *draws(*args, **options))
    return None if drawing is None else Making(key, made._aval, None, drawing, default_generator.address)


def _copier(array: Any) -> Callable[[], Any] | None:
    """What makes a copy of an array that lies as it does; None: it has gaps, or repeats elements."""
    kept = array.copy("K")
    if kept.strides != array.strides:
        return None
    return kept.copy if kept.flags.c_contiguous else functools.partial(kept.copy, "K")


def _is_constant(arg: Any) -> bool:
    """Whether an argument is always the same: a tensor may be written, and a list is no key."""
    if isinstance(arg, tuple):
        return all(map(_is_constant, arg))
    return type(arg) in _CONSTANTS or arg is MISSING
