"""Shape rules, for events recorded for the first time.

Owns: ``out_avals_of``, ``known_avals`` (the same, remembered), ``gives_complex``, and ``name_line``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import DType, on_new_default
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import user_line

__all__ = ["gives_complex", "known_avals", "name_line", "out_avals_of"]

_MAX_KNOWN = 4096
_known: dict[tuple[Any, ...], tuple[tuple[Aval, ...], bool]] = {}
on_new_default.append(_known.clear)


def _number(x: Any) -> Any:
    """What a shape rule may know of a number; those that stand for run-time scalars have no value."""
    kind = type(x)
    return (kind, x) if kind is float or kind is int or kind is bool else kind


def known_avals(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> tuple[tuple[Aval, ...], bool]:
    """``out_avals_of``, asked once per kind of operands: loops repeat what they do long before a call is a hit."""
    key = (op, params, *[x._aval if isinstance(x, TensorBase) else _number(x) for x in inputs])
    if params:  # equal ones may differ in type: 1, 1.0, True
        key = (tuple(map(type, params)), key)
    try:
        found = _known.get(key)
    except TypeError:  # a parameter that cannot be hashed
        return out_avals_of(op, inputs, params)
    if found is None:
        found = out_avals_of(op, inputs, params)
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[key] = found
    return found


def out_avals_of(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> tuple[tuple[Aval, ...], bool]:
    """(avals of the outputs, whether the operation returns a tuple). Raises what the shape rule raises.

    An error inside a compiled step names the user's line, since the step may be far from where it is called.
    """
    args = [x._aval if isinstance(x, TensorBase) else x for x in inputs]
    try:
        out = op.aval(args, *params) if op.num_inputs < 0 else op.aval(*args, *params)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        name_line(error, op)
        raise
    return (out, True) if isinstance(out, tuple) else ((out,), False)


def gives_complex(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> bool:
    """Whether an operation on real tensors gives complex ones: by what it is, or for a complex number or dtype."""
    return op.is_complex or any(
        isinstance(x, complex) or (type(x) is DType and x.is_complex) for x in (*inputs, *params)
    )


def name_line(error: BaseException, op: Op) -> None:
    """Note the user's line on an error inside a compiled step."""
    line = user_line()
    if line:
        error.add_note(f"in jitgrad operation {op.name!r}, recorded at {line}")
