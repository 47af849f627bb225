"""Shape rules and source lines, for events recorded for the first time.

Owns: ``out_avals_of``, ``name_line`` and ``user_line``.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.tensor_base import TensorBase

__all__ = ["name_line", "out_avals_of", "user_line"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


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


def user_line() -> str:
    """``file:line`` of the innermost frame outside jitgrad; empty if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
