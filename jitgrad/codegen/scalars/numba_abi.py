"""What Numba compiled, as a function of scalars.

Owns: the wrapper that calls a function with Numba's calling convention and hands its results to ``@jitgrad_result``.
Must not know: Numba's Python side.

Numba's convention: ``i32 f(ptr result, ptr exception, args...)`` returns a status, 0 for success, and stores the result
through its first argument. Inlined into the wrapper, both pointers are the wrapper's own variables, and disappear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jitgrad.codegen.scalars.clean import cleaned
from jitgrad.codegen.scalars.reader import ENTRY, RESULT, read
from jitgrad.codegen.scalars.ssa import Routine

__all__ = ["function_from_numba"]

_CALL_OF_NUMBAS = re.compile(r"^( *)(%[-\w.$]+) = ((?:tail )?call (?:[\w() ,-]+ )?i32 @_ZN5numba.*)$", re.M)
"""A call of a function that belongs to Numba. Its exceptions are dropped: ``x ** n`` raises for the least int64."""
_PARAM = {"float": "double", "int": "i64", "bool": "i1"}


def function_from_numba(
    text: str, symbol: str, kinds: Sequence[str], result_type: str, results: Sequence[str], is_tuple: bool
) -> Routine:
    """The function of scalars that ``symbol`` is.

    Args:
        text: LLVM IR of a module that holds it and what it calls.
        symbol: its name there.
        kinds: "float", "int" or "bool" per parameter.
        result_type: what LLVM calls its result.
        results: type of each result, in LLVM's words: a float, or an integer, which becomes a float.
        is_tuple: whether the result is a tuple, even of one.

    Raises:
        NotScalar: it is not a function of scalars without effects.
    """
    text = _CALL_OF_NUMBAS.sub(r"\1\2.status = \3\n\1\2 = add i32 0, 0", text.replace("= common ", "= internal "))
    return read(cleaned(text + _wrapper(symbol, kinds, result_type, results, is_tuple)))


def _wrapper(symbol: str, kinds: Sequence[str], result_type: str, results: Sequence[str], is_tuple: bool) -> str:
    params = ", ".join(f"{_PARAM[kind]} %a{n}" for n, kind in enumerate(kinds))
    lines = [f"%ret = alloca {result_type}", "%exc = alloca ptr"]
    passed = []
    for n, kind in enumerate(kinds):
        if kind == "bool":
            lines.append(f"%w{n} = zext i1 %a{n} to i8")
        passed.append(f"i8 %w{n}" if kind == "bool" else f"{_PARAM[kind]} %a{n}")
    operands = ", ".join(["ptr %ret", "ptr %exc", *passed])
    lines.append(f'%status = call i32 @"{symbol}"({operands})')
    for n, kind in enumerate(results):
        at = f"%at{n}"
        path = f", i32 0, i32 {n}" if is_tuple else ""
        lines.append(f"{at} = getelementptr {result_type}, ptr %ret{path or ', i32 0'}")
        lines.append(f"%r{n} = load {kind}, ptr {at}")
        lines.append(f"%d{n} = {_to_double(kind, f'%r{n}')}")
    kept = ", ".join(["i32 %status", *(f"double %d{n}" for n in range(len(results)))])
    lines += [f"call void @{RESULT}({kept})", "ret void"]
    body = "\n  ".join(lines)
    declared = ", ".join(["i32", *["double"] * len(results)])
    return f"\ndeclare void @{RESULT}({declared})\n\ndefine void @{ENTRY}({params}) {{\nentry:\n  {body}\n}}\n"


def _to_double(kind: str, word: str) -> str:
    if kind == "double":
        return f"fadd double {word}, -0.0"  # the same bits
    if kind == "float":
        return f"fpext float {word} to double"
    return f"{'uitofp' if kind in ('i1', 'i8') else 'sitofp'} {kind} {word} to double"
