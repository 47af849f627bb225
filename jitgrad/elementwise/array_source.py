"""Python functions of arrays through Numba.

Owns: how Numba compiles a function of arrays: types, flags, which exception is which status, why it is refused.
Must not know: tensors, what becomes of the LLVM IR.
In: a Python function and its parameters. Out: ``ArrayCode``.
"""

from __future__ import annotations

import copy
import ctypes
import dis
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitgrad.codegen.routines.looks import parsed, with_looks
from jitgrad.codegen.routines.routine import RoutineParam
from jitgrad.elementwise.numba_source import typing_error
from jitgrad.lazy import LazyModule

__all__ = ["ArrayCode", "Refused", "Site", "compile_arrays"]

INSTALL = "jitgrad.kernel compiles Python functions by Numba, which is not installed: pip install 'jitgrad[numba]'"

_types = LazyModule("numba.types")
_numpy_support = LazyModule("numba.np.numpy_support")
_compiler = LazyModule("numba.core.compiler")
_registry = LazyModule("numba.core.registry")
_callconv = LazyModule("numba.core.callconv")
_bytecode = LazyModule("numba.core.bytecode")
_lock = LazyModule("numba.core.compiler_lock")
_FIRST_SITE = 2
"""Statuses from here on are sites of the function itself; 1 is an exception of a function that it calls."""
_ALLOCATES = "allocates memory (a new array, list or string); its results are given to it, ready to be filled"
_REASONS = (
    ("NRT required", _ALLOCATES),
    ("Only accept returning of array", _ALLOCATES),
    ("Cannot modify readonly array", "writes to an operand; only results can be written"),
    ("untyped global name", "uses a global name that Numba has no type for"),
    ("is not defined", "uses a name that is not defined"),
)
_OTHER_NAMES = {"numba_gamma": "tgamma"}


class Site(NamedTuple):
    """A place where the function raises.

    Attributes:
        exception: the class's name.
        args: what it is raised with.
        line: counted from the function's first line; None if it is not known.
    """

    exception: str
    args: tuple[Any, ...]
    line: int | None


class ArrayCode(NamedTuple):
    """What Numba made of a function.

    Attributes:
        text: an LLVM module, optimized.
        symbol: the function's name in it.
        params: as they were asked for, with LLVM's types of numbers.
        sites: status minus 2 -> where it is raised.
        can_fail: whether a status other than 0 can be returned.
        may_not_end: whether a ``while`` of its own looks whether it shall stop.
    """

    text: str
    symbol: str
    params: tuple[RoutineParam, ...]
    sites: tuple[Site, ...]
    can_fail: bool
    may_not_end: bool


class Refused(TypeError):
    """Numba cannot compile the function, or it does what has no place in a kernel.

    Attributes:
        line: where, in the user's file; None if it is not known.
        detail: Numba's own words.
    """

    def __init__(self, reason: str, line: int | None = None, detail: str = "") -> None:
        super().__init__(reason)
        self.line, self.detail = line, detail


def compile_arrays(
    function: Callable[..., Any], params: Sequence[RoutineParam], results: int, is_checked: bool
) -> ArrayCode:
    """Compile ``function``.

    Args:
        function: plain Python, or what Numba made of it.
        params: of arrays, the dtype's name and ``ndim``; the last ``results`` of them are written.
        results: see there.
        is_checked: whether every index is looked at; an exception then names its line.

    Raises:
        ImportError: there is no Numba.
        Refused: it cannot be compiled.
    """
    plain = getattr(function, "py_func", function)
    try:
        signature = tuple(_type(p, n < len(params) - results) for n, p in enumerate(params))
    except ImportError as error:
        raise ImportError(INSTALL) from error
    sites: list[Site] = []
    target = _registry.cpu_target
    typing, context = target.typing_context, target.target_context
    typing.refresh()
    context.refresh()
    context = _reporting(context, sites, plain.__code__.co_firstlineno)
    flags = _compiler.Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    flags.nrt = False  # what allocates is refused
    flags.noalias = True  # results are memory of their own; operands are only read
    flags.boundscheck = flags.debuginfo = is_checked
    library = _recording_library(context, plain)
    try:
        with _lock.global_compiler_lock:
            made = _compiler.compile_extra(typing, context, plain, signature, None, flags, {}, library=library)
    except Exception as error:
        if isinstance(error, ImportError) or not typing_error(error):
            raise
        raise _refusal(plain, error) from error
    if made.signature.return_type != _types.none:
        raise Refused(f"returns {made.signature.return_type}; it fills its results and returns nothing")
    text, symbol = _own_module(library.text), made.fndesc.llvm_func_name
    head = next(
        line for line in text.splitlines() if line.startswith("define") and f"@{symbol}(" in line.replace('"', "")
    )
    _check_symbols(text)
    names = plain.__code__.co_varnames
    typed = tuple(_typed(p, names[n], head) for n, p in enumerate(params))
    return ArrayCode(text, symbol, typed, tuple(sites), _returns_a_status(text), library.looks)


def _type(param: RoutineParam, is_operand: bool) -> Any:
    if param.kind == "array":
        dtype = _types.boolean if param.type == "bool" else getattr(_types, param.type)
        return _types.Array(dtype, param.ndim, "C", readonly=is_operand)
    return {"float": _types.float64, "bool": _types.boolean}.get(param.kind, _types.int64)


def _typed(param: RoutineParam, name: str, head: str) -> RoutineParam:
    """A number with LLVM's type of it."""
    if param.kind == "array":
        return param
    found = re.search(rf"(i\d+|double)[^,]* %\"?arg\.{name}\"?[,)]", head)
    return param._replace(type=found[1] if found else {"float": "double", "bool": "i8"}.get(param.kind, "i64"))


def _reporting(context: Any, sites: list[Site], first_line: int) -> Any:
    """Numba's context with a calling convention that numbers the exceptions, and keeps no pickled objects."""

    class Convention(_callconv.CPUCallConv):  # type: ignore[misc, name-defined]
        def return_user_exc(
            self, builder: Any, exc: Any, exc_args: Any = None, loc: Any = None, func_name: Any = None
        ) -> None:
            line = loc.line if loc is not None else None
            if line is None and builder.debug_metadata is not None:
                line = dict(builder.debug_metadata.operands).get("line")
            sites.append(Site(exc.__name__, tuple(exc_args or ()), line - first_line if line else None))
            self._return_errcode_raw(builder, _callconv.errcode_t(_FIRST_SITE + len(sites) - 1))

    kind = type(context)
    own = copy.copy(context)
    own.__class__ = type("ReportingContext", (kind,), {"call_conv": property(Convention)})
    own.cached_internal_func = {}  # functions with this convention are nobody else's
    return own


def _recording_library(context: Any, function: Any) -> Any:
    """A library of Numba's that remembers its text as it is after optimization; its loops without a counter look."""
    codegen, name = context.codegen(), function.__name__
    base: Any = type(codegen.create_library(name))
    own = re.compile(rf'^define [^@\n]*@"?(_ZN[^"(\n]*?{len(name)}{re.escape(name)}B[^"(\n]*)"?\(.*%retptr', re.M)

    def optimize(self: Any) -> None:
        text = str(self._final_module)
        symbol = own.search(text)
        shift = getattr(_bytecode, "_FIXED_OFFSET", 0)
        labels = [f"B{offset + shift}" for offset in _while_loops(function.__code__)]
        looking = with_looks(text, symbol[1], labels) if symbol and labels else None
        if looking is not None:
            self.looks, self._final_module = True, parsed(looking)
        base._optimize_final_module(self)
        self.text = str(self._final_module)

    return type("Recording", (base,), {"text": "", "looks": False, "_optimize_final_module": optimize})(codegen, name)


def _while_loops(code: Any) -> list[int]:
    """Where the loops of ``while`` begin, as Numba names blocks: by the number of the first instruction."""
    instructions = list(dis.get_instructions(code))
    iterating = {i.offset for i in instructions if i.opname == "FOR_ITER"}
    jumps = {*dis.hasjrel, *dis.hasjabs}
    back = {i.argval for i in instructions if i.opcode in jumps and i.argval <= i.offset}
    return sorted(back - iterating)


_DEFINED = re.compile(r"^define (?!internal |private )(?:linkonce_odr |weak |dso_local )*", re.M)


def _own_module(text: str) -> str:
    """All that a module defines is its own: several kernels are loaded side by side."""
    text = text.replace("= common ", "= internal ").replace("= linkonce_odr ", "= internal ")
    for name, other in _OTHER_NAMES.items():
        text = re.sub(rf"@{name}\b", f"@{other}", text)
    return _DEFINED.sub("define internal ", text)


def _returns_a_status(text: str) -> bool:
    """Whether a function returns anything but 0: a number, or what it has computed."""
    return any(word != "0" for word in re.findall(r"^ +ret i32 (\S+)", text, re.M))


def _check_symbols(text: str) -> None:
    """Everything that is called must be the C library's: a second process has no Numba."""
    library = ctypes.CDLL(None)
    for name in re.findall(r'^declare [^@]*@"?([^"(]+)', text, re.M):
        if name.startswith("NRT_"):
            raise Refused(_ALLOCATES)
        if not name.startswith("llvm.") and not hasattr(library, name):
            what = "Python" if name.startswith(("Py", "numba_")) else repr(name)
            raise Refused(f"calls {what}, which has no place in a kernel")


def _refusal(function: Any, error: Exception) -> Refused:
    """Numba's error with the last line of the user's file that it names."""
    code, words = function.__code__, str(error)
    reason = next((reason for needle, reason in _REASONS if needle.lower() in words.lower()), "cannot be compiled")
    if "recurs" in words or f"global name '{function.__name__}'" in words:
        reason = "is recursive, or uses its own name: a kernel has no stack"
    file = re.escape(code.co_filename.replace("\\", "/").rpartition("/")[2])
    lines = re.findall(rf'{file}"?(?:, line | \()(\d+)', words)
    return Refused(reason, int(lines[-1]) if lines else _line_of_name(code, words), words)


def _line_of_name(code: Any, words: str) -> int | None:
    """Where the name that is not defined is used."""
    found = re.search(r"name '(\w+)' is not defined", words)
    uses = [i.positions for i in dis.get_instructions(code) if found and i.argval == found[1]]
    return uses[0].lineno if uses and uses[0] else None
