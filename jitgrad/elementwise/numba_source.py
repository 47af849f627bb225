"""Python functions of scalars through Numba.

Owns: all that jitgrad knows of Numba: the types of scalars, how a function is compiled, whose line an error is.
Must not know: what becomes of the LLVM IR.
In: a Python function and the kinds of its parameters. Out: ``NumbaCode``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitgrad.lazy import LazyModule

__all__ = ["INSTALL", "NumbaCode", "compile_scalar", "line_of", "typing_error"]

INSTALL = "jitgrad.vectorize compiles Python functions by Numba, which is not installed: pip install 'jitgrad[numba]'"

_numba = LazyModule("numba")
_types = LazyModule("numba.types")
_compiler = LazyModule("numba.core.compiler")
_registry = LazyModule("numba.core.registry")
_errors = LazyModule("numba.core.errors")
_DEPTH = 10  # of calls, from the user's line to what is refused

_flags = LazyModule("numba.core.compiler_lock")


class NumbaCode(NamedTuple):
    """What Numba made of a function; see ``codegen.scalars.numba_abi.function_from_numba``.

    Attributes:
        text: LLVM IR of a module, before optimization.
        symbol: the function's name in it.
        result_type: LLVM's type of the result.
        results: LLVM's type per result.
        is_tuple: whether the result is a tuple.
    """

    text: str
    symbol: str
    result_type: str
    results: tuple[str, ...]
    is_tuple: bool


class NotNumbers(TypeError):
    """The function returns something else than numbers."""


def compile_scalar(function: Callable[..., Any], kinds: Sequence[str], is_traced: bool = False) -> NumbaCode:
    """Compile ``function`` for parameters of these kinds.

    Args:
        function: plain Python, or what Numba made of it.
        kinds: "float", "int" or "bool".
        is_traced: whether the text says from which line each instruction comes; it is slower code.

    Raises:
        ImportError: there is no Numba.
        numba.core.errors.NumbaError: it cannot be typed or compiled.
        NotNumbers: it returns something else than numbers.
    """
    try:
        names = {"float": _types.float64, "int": _types.int64, "bool": _types.boolean}
    except ImportError as error:
        raise ImportError(INSTALL) from error
    target = _registry.cpu_target
    typing, context = target.typing_context, target.target_context
    typing.refresh()
    context.refresh()
    flags = _compiler.Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"  # a division by zero gives an infinity
    flags.nrt = True  # what allocates is refused by its symbol, with a reason
    flags.debuginfo = is_traced
    library = _recording_library(context, function.__name__)
    signature = tuple(names[kind] for kind in kinds)
    plain = getattr(function, "py_func", function)
    with _flags.global_compiler_lock:
        result = _compiler.compile_extra(typing, context, plain, signature, None, flags, {}, library=library)
    kind = result.signature.return_type
    is_tuple = isinstance(kind, _types.BaseTuple)
    parts = list(kind.types) if is_tuple else [kind]
    if not parts or not all(isinstance(p, _types.Float | _types.Integer | _types.Boolean) for p in parts):
        raise NotNumbers(f"returns {kind}, not a number or a tuple of numbers")
    types = tuple(str(context.get_data_type(part)) for part in parts)
    return NumbaCode(library.text, result.fndesc.llvm_func_name, str(context.get_data_type(kind)), types, is_tuple)


def _recording_library(context: Any, name: str) -> Any:
    """A library of Numba's that remembers its text as it was before optimization: no loop is vectorised yet."""
    codegen = context.codegen()
    base: Any = type(codegen.create_library(name))

    def optimize(self: Any) -> None:
        self.text = str(self._final_module)
        base._optimize_final_module(self)

    return type("Recording", (base,), {"text": "", "_optimize_final_module": optimize})(codegen, name)


def line_of(function: Callable[..., Any], kinds: Sequence[str], needle: str) -> int | None:
    """The line of the first instruction that names ``needle``, in the user's file; None if it is not found."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a function without a source file has lines all the same
            code = compile_scalar(function, kinds, is_traced=True)
    except Exception:  # the function is refused anyway, and the message is as good as can be without a line
        return None
    for _ in range(_DEPTH):
        found = _find(code.text, needle, code.symbol)
        if found is None:
            return None
        owner, place = found
        if owner == code.symbol:
            line = re.search(rf"^!{place} = .*DILocation\(line: (\d+)", code.text, re.M)
            return int(line[1]) if line and line[1] != "0" else None
        needle = owner  # which function calls it?
    return None


def _find(text: str, needle: str, symbol: str) -> tuple[str, str] | None:
    """The function whose code names ``needle`` first; if it is the user's, the number of the instruction's place."""
    owner = ""
    for line in text.splitlines():
        if line.startswith("define"):
            owner = re.sub(r'^[^@]*@"?([^"(]+)"?\(.*$', r"\1", line)
        place = re.search(r"!dbg !(\d+)", line)
        if needle in line and line.startswith(" ") and (place or owner != symbol):
            return owner, place[1] if place else ""
    return None


def typing_error(error: Exception) -> bool:
    """Whether Numba refused the user's code."""
    return isinstance(error, _errors.NumbaError)
