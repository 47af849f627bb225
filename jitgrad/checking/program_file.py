"""A program that repeats a fault, and the arrays that it reads.

Owns: ``write_program``.
Must not know: how faults are found.
In: a window of a segment. Out: a Python file, and a file of arrays beside it.
"""

from __future__ import annotations

import base64
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.checking.faults import Fault
from jitgrad.checking.reference import what_is
from jitgrad.dtypes import DType
from jitgrad.ops.aval import Aval
from jitgrad.tracer.recording.graph import Const, Instr

__all__ = ["write_program"]

_TEMPLATE = '''"""{about}

``python {name}.py`` prints the value by NumPy's rules and as a kernel computes it. Written by ``jitgrad.verify``.
"""

import jitgrad
from jitgrad.checking.repeat import arrays, aval, compare, pickled, tensor
from jitgrad.ops.dispatch_hook import call

nan, inf = float("nan"), float("inf")
data = arrays(__file__)


def step({names}):
{body}
    return v{target}


inputs = [
{inputs}
]
compare(step, inputs)
'''


def write_program(fault: Fault, folder: Path, name: str) -> Path:
    """Write both files; returns the program's path."""
    folder.mkdir(parents=True, exist_ok=True)
    window = fault.window
    vids = list(window.inputs)
    arrays: dict[str, Any] = {f"v{vid}": np.asarray(fault.memory[vid]) for vid in vids}
    np.savez(folder / f"{name}.npz", **arrays)
    text = _TEMPLATE.format(
        about=f"{what_is(fault.instr)}: {fault.difference}.",
        name=name,
        names=", ".join(f"v{vid}" for vid in vids),
        body="\n".join(_statement(i, fault.scalars) for i in window.instrs),
        target=window.outputs[0],
        inputs="\n".join(f'    tensor(data["v{vid}"], {_text(aval)}),' for vid, aval in window.inputs.items()),
    )
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def _statement(instr: Instr, scalars: list[int | float]) -> str:
    operands = [
        f"v{x}" if type(x) is int else _text(x.value if type(x) is Const else scalars[x.slot]) for x in instr.inputs
    ]
    if instr.op.num_inputs < 0:
        operands = [f"[{', '.join(operands)}]"]
    arguments = ", ".join([f'"{instr.op.name}"', *operands, *map(_text, instr.params)])
    results = ", ".join(f"v{vid}" for vid in instr.outputs)
    return f"    {results} = call({arguments})  # {what_is(instr)}"


def _text(value: Any) -> str:
    """A parameter of an operation as Python source."""
    if isinstance(value, Aval):
        return f"aval({value.shape!r}, {_text(value.dtype)}, {value.stride!r}, {value.offset})"
    if isinstance(value, DType):
        return f"jitgrad.{value.name}"
    if isinstance(value, tuple) and type(value) is tuple:
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}"
    if value is None or type(value) in (bool, int, float, str, slice):
        return repr(value)
    return f"pickled({base64.b64encode(pickle.dumps(value)).decode()!r})"
