"""Which calls that make tensors are kept, to be made again: Note [Known makings].

Owns: ``keep``.
Must not know: how a tensor is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.functions._parse import MISSING
from jitgrad.functions.drawing import drawing_of
from jitgrad.generator import default_generator
from jitgrad.runtime.eager.makings import MOST, Making
from jitgrad.state import state
from jitgrad.tensor_base import tensor_class

__all__ = ["keep"]

_CONSTANTS = frozenset({bool, float, int, str})
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


def _permutation(n: int, **options: Any) -> tuple[str, tuple[Any, ...]]:
    return "permutation", ()


_Draws = Callable[..., tuple[str, tuple[Any, ...]]]
_DRAWS: dict[str, _Draws] = {
    "rand": _fraction, "randn": _normal, "randint": _integers, "randperm": _permutation,
}  # fmt: skip
"""Of functions that draw: (distribution, its params) of the arguments."""
_OPTIONS = frozenset({"dtype", "device"})
_NAMED = {"randint": _OPTIONS | {"low", "high", "size"}}
"""What may be given by name."""


def keep(name: str, table: dict[Any, Making], args: tuple[Any, ...] | None, options: dict[str, Any], made: Any) -> Any:
    """Keep how the function ``name`` has made a tensor, if that can be done again. Returns the tensor.

    ``args``: None where the call had options that are not looked up.
    """
    if args is None or state.handler is not None or not options.keys() <= _NAMED.get(name, _OPTIONS):
        return made
    if type(made) is not tensor_class() or made._requires_grad or state.default_device is not None:
        return made
    aval = made._aval
    if not aval.is_canonical or aval.offset or not 0 < aval.numel <= MOST or aval.device.type != "cpu":
        return made
    key = (*args, *options.items())
    is_constant = all(map(_is_constant, (*args, *(options[n] for n in options if n not in _OPTIONS))))
    making = _making(name, key, args, options, made) if is_constant else None
    if making is not None:
        if len(table) >= _MAX_KNOWN:
            table.clear()
        table[key] = making
    return made


def _making(
    name: str, key: tuple[Any, ...], args: tuple[Any, ...], options: dict[str, Any], made: Any
) -> Making | None:
    draws = _DRAWS.get(name)
    if draws is None:
        return Making(key, made._aval, made._ndarray().copy().copy, None, 0)
    drawing = drawing_of(made._aval, *draws(*args, **options))
    return None if drawing is None else Making(key, made._aval, None, drawing, default_generator.address)


def _is_constant(arg: Any) -> bool:
    """Whether an argument is always the same: a tensor may be written, and a list is no key."""
    if isinstance(arg, tuple):
        return all(map(_is_constant, arg))
    return type(arg) in _CONSTANTS or arg is MISSING
