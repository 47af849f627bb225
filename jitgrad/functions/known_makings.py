"""Which calls that make tensors are kept, to be made again: Note [Known makings].

Owns: ``keep``.
Must not know: how a tensor is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.functions.drawing import drawing_of
from jitgrad.generator import default_generator
from jitgrad.runtime.eager.makings import MOST, Making
from jitgrad.state import state
from jitgrad.tensor_base import tensor_class

__all__ = ["keep"]

_MAX_KNOWN = 4096


def _fraction(*sizes: Any) -> tuple[str, tuple[Any, ...]]:
    return "uniform", (0.0, 1.0)


def _normal(*sizes: Any) -> tuple[str, tuple[Any, ...]]:
    return "normal", (0.0, 1.0)


def _integers(*args: Any) -> tuple[str, tuple[Any, ...]]:
    """``randint(high, size)`` or ``randint(low, high, size)``."""
    low, high = (0, args[0]) if len(args) == 2 else args[:2]
    return "integers", (low, high - low)


_Draws = Callable[..., tuple[str, tuple[Any, ...]]]
_DRAWS: dict[str, _Draws] = {"rand": _fraction, "randn": _normal, "randint": _integers}
"""Of functions that draw: (distribution, its params) of the arguments."""


def keep(name: str, table: dict[Any, Making], args: tuple[Any, ...], options: dict[str, Any], made: Any) -> Any:
    """Keep how the function ``name`` has made a tensor, if that can be done again. Returns the tensor."""
    if state.handler is not None or type(made) is not tensor_class() or not options.keys() <= {"dtype", "device"}:
        return made
    aval = made._aval
    is_plain = aval.is_canonical and not aval.offset and 0 < aval.numel <= MOST and not made._requires_grad
    if not is_plain or state.default_device is not None or aval.device.type != "cpu":
        return made
    key = (*args, *options.items())
    draws = _DRAWS.get(name)
    making = None
    if draws is None:
        making = Making(key, aval, made._ndarray().copy().copy, None, 0)
    elif (drawing := drawing_of(aval, *draws(*args))) is not None:
        making = Making(key, aval, None, drawing, default_generator.address)
    if making is not None and _is_hashable(key):
        if len(table) >= _MAX_KNOWN:
            table.clear()
        table[key] = making
    return made


def _is_hashable(key: tuple[Any, ...]) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
