"""What a kernel of whole arrays is for arrays of certain dtypes: code from the cache, else by Numba.

Owns: ``KernelCode``, ``kernel_code``, the exceptions that statuses stand for.
Must not know: tensors, shapes.
"""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.codegen.llvm.object_cache import open_cache
from jitgrad.codegen.routines.routine import ArrayRoutine, RoutineParam
from jitgrad.config import config
from jitgrad.elementwise.array_source import ArrayCode, Refused, Site, compile_arrays
from jitgrad.elementwise.source_key import source_key
from jitgrad.events import bump

__all__ = ["KernelCode", "kernel_code"]

_VERSION = "2"  # of what the cache keeps of a function


class KernelCode:
    """A function compiled for arrays of certain dtypes and numbers of dimensions.

    Attributes:
        routine: the machine code's source.
    """

    def __init__(self, function: Callable[..., Any], code: ArrayCode) -> None:
        self._function, self._sites = function, code.sites
        self.routine = ArrayRoutine(
            function.__name__, code.text, code.symbol, code.params, code.can_fail, code.may_not_end
        )

    def exception(self, status: int) -> Exception:
        """What the function raised when it returned ``status``."""
        name, code = self._function.__name__, self._function.__code__
        if not 2 <= status < 2 + len(self._sites):
            return RuntimeError(f"{name}(): a function that it calls raised an exception")
        site = self._sites[status - 2]
        line = "" if site.line is None else f"{code.co_filename}:{code.co_firstlineno + site.line}"
        if site.exception == "IndexError" and site.args == ("index is out of bounds",):
            return IndexError(f"{name}(): index is out of bounds ({line or code.co_filename})")
        kind = getattr(builtins, site.exception, RuntimeError)
        error: Exception = kind(*site.args)
        error.add_note(f"raised by {name}()" + (f" ({line})" if line else ""))
        return error


def kernel_code(
    function: Callable[..., Any], params: Sequence[RoutineParam], results: int, is_checked: bool
) -> KernelCode:
    """The function for such parameters: from the object cache, else compiled.

    Raises:
        ImportError: there is no Numba.
        TypeError: it cannot be compiled; the message names the user's line.
    """
    plain = getattr(function, "py_func", function)
    words = [_VERSION, "arrays", str(results), str(is_checked), repr([tuple(p) for p in params])]
    key = source_key(function, [*words, plain.__code__.co_linetable.hex()])
    cache = open_cache(None if config.cache_dir is None else os.fspath(config.cache_dir), config.cache_limit_nbytes)
    stored = cache.load(key) if cache and key else None
    if stored is not None:
        bump("cache_reads")
        return KernelCode(plain, _from_text(stored.decode()))
    try:
        code = compile_arrays(function, params, results, is_checked)
    except Refused as refusal:
        line = refusal.line or plain.__code__.co_firstlineno
        detail = f":\n{refusal.detail}" if refusal.detail else ""
        place = f"{plain.__code__.co_filename}:{line}"
        raise TypeError(f"{plain.__name__}() {refusal} ({place}){_of(plain, params)}{detail}") from None
    bump("compiles")
    text = _to_text(code)
    if cache and key and text is not None and cache.store(key, text.encode()):
        bump("cache_writes")
    return KernelCode(plain, code)


def _of(function: Any, params: Sequence[RoutineParam]) -> str:
    """What it was compiled for, for messages."""
    names = function.__code__.co_varnames
    shown = [
        f"{name}: {p.type}[{', '.join(':' * p.ndim)}]" if p.kind == "array" else f"{name}: {p.kind}"
        for name, p in zip(names, params, strict=False)
        if p.kind != "unit"
    ]
    return f" for {', '.join(shown)}"


def _to_text(code: ArrayCode) -> str | None:
    """None where an exception's arguments cannot be written down."""
    try:
        return json.dumps(code._asdict() | {"sites": [[s.exception, s.args, s.line] for s in code.sites]})
    except TypeError:
        return None


def _from_text(text: str) -> ArrayCode:
    found = json.loads(text)
    sites = tuple(Site(name, tuple(args), line) for name, args, line in found.pop("sites"))
    params = tuple(RoutineParam(*p) for p in found.pop("params"))
    return ArrayCode(params=params, sites=sites, **found)
