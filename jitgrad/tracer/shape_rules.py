"""Shape rules, for events recorded for the first time.

Owns: ``out_avals_of`` and ``name_line``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import user_line

__all__ = ["name_line", "out_avals_of"]


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


def name_line(error: BaseException, op: Op) -> None:
    """Note the user's line on an error inside a compiled step."""
    line = user_line()
    if line:
        error.add_note(f"in jitgrad operation {op.name!r}, recorded at {line}")
