"""How dtypes and small constants are spelled in LLVM text.

Owns: names of element types in registers and in memory, intrinsic suffixes, literals.
Must not know: instructions.
"""

from __future__ import annotations

import functools
from typing import Any

from jitgrad.dtypes import FLOATING, DType, known_dtypes
from jitgrad.symbols.number import TOKEN, current_env, whole

__all__ = ["memory", "number", "of", "register", "register_nbytes", "short_steps", "steps", "suffix"]

_BY_NAME = {d.name: d for d in known_dtypes()}
_OF_COMPUTE = {"bool": "i1", "int32": "i32", "int64": "i64", "float32": "float", "float64": "double"}
_REGISTER = {d.name: _OF_COMPUTE[d.compute.name] for d in known_dtypes() if not d.is_complex}
_STORED_AS_INTEGERS = {d.name: f"i{8 * d.itemsize}" for d in known_dtypes() if d.is_short or d.name == "bool"}
_MEMORY = {**_REGISTER, **_STORED_AS_INTEGERS}
_SUFFIX = {name: {"float": "f32", "double": "f64"}.get(text, text) for name, text in _REGISTER.items()}
_WORDS = {"True": 1.0, "False": 0.0}


def of(name: str) -> DType:
    return _BY_NAME[name]


def register(name: str) -> str:
    """The element type in a register; a bool is one bit, a short dtype its compute dtype (``vmath.short``)."""
    return _REGISTER[name]


def register_nbytes(name: str) -> int:
    """What an element in a register takes in memory."""
    return 8 if _REGISTER[name] in ("double", "i64") else 4


def memory(name: str) -> str:
    """The element type in memory; a bool is one byte, a short dtype an integer of its size."""
    return _MEMORY[name]


def suffix(name: str, lanes: int, memory: bool = False) -> str:
    """``v16f32``: how intrinsics' names end."""
    scalar = _STORED_AS_INTEGERS.get(name, _SUFFIX[name]) if memory else _SUFFIX[name]
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


def number(literal: str, dtype: str) -> float | int:
    """The number that a constant's ``repr`` stands for."""
    env = current_env()
    if env is not None and literal.startswith(TOKEN):
        found: Any = env.number(literal)
        return found if _BY_NAME[dtype].category is FLOATING else whole(found)
    if literal in _WORDS:
        value: float | int = int(_WORDS[literal])
    else:
        try:
            value = int(literal)
        except ValueError:
            value = float(literal)
    if dtype == "bool":
        return int(bool(value))
    return value if _BY_NAME[dtype].category is FLOATING else int(value)


@functools.cache
def steps(lanes: int) -> str:
    """The constant <0, 1, 2, ...> of i64."""
    return "0" if lanes == 1 else "<" + ", ".join(f"i64 {n}" for n in range(lanes)) + ">"


@functools.cache
def short_steps(lanes: int) -> str:
    """The constant <0, 1, 2, ...> of i32."""
    return "<" + ", ".join(f"i32 {n}" for n in range(lanes)) + ">"
