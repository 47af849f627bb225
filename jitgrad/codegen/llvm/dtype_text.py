"""How dtypes and small constants are spelled in LLVM text.

Owns: names of element types in registers and in memory, intrinsic suffixes, literals.
Must not know: instructions.
"""

from __future__ import annotations

import functools

from jitgrad.dtypes import DType, bool_, float32, float64, int32, int64

__all__ = ["memory", "number", "of", "register", "short_steps", "steps", "suffix"]

_BY_NAME = {d.name: d for d in (bool_, int32, int64, float32, float64)}
_REGISTER = {"bool": "i1", "int32": "i32", "int64": "i64", "float32": "float", "float64": "double"}
_MEMORY = {**_REGISTER, "bool": "i8"}
_SUFFIX = {"bool": "i1", "int32": "i32", "int64": "i64", "float32": "f32", "float64": "f64"}
_WORDS = {"True": 1.0, "False": 0.0}


def of(name: str) -> DType:
    return _BY_NAME[name]


def register(name: str) -> str:
    """The element type in a register; a bool is one bit."""
    return _REGISTER[name]


def memory(name: str) -> str:
    """The element type in memory; a bool is one byte."""
    return _MEMORY[name]


def suffix(name: str, lanes: int, memory: bool = False) -> str:
    """``v16f32``: how intrinsics' names end."""
    scalar = "i8" if memory and name == "bool" else _SUFFIX[name]
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


def number(literal: str, dtype: str) -> float | int:
    """The number that a constant's ``repr`` stands for."""
    if literal in _WORDS:
        value: float | int = int(_WORDS[literal])
    else:
        try:
            value = int(literal)
        except ValueError:
            value = float(literal)
    if dtype == "bool":
        return int(bool(value))
    return value if dtype.startswith("float") else int(value)


@functools.cache
def steps(lanes: int) -> str:
    """The constant <0, 1, 2, ...> of i64."""
    return "0" if lanes == 1 else "<" + ", ".join(f"i64 {n}" for n in range(lanes)) + ">"


@functools.cache
def short_steps(lanes: int) -> str:
    """The constant <0, 1, 2, ...> of i32."""
    return "<" + ", ".join(f"i32 {n}" for n in range(lanes)) + ">"
