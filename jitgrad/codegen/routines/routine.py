"""Functions of whole arrays that came as LLVM IR, as kernels.

Owns: ``ArrayRoutine``, ``RoutineCall``, the text that calls one, ``run``: what eager execution calls.
Must not know: Numba, tensors, how launches are planned.
In: the text of a module, and what each parameter is. Out: a ``KernelSource``, argument words.

# Note [Array kernels]
# ~~~~~~~~~~~~~~~~~~~~
# The user's function of whole arrays (``jitgrad.kernel``) comes as a module of LLVM IR, optimized, with Numba's
# calling convention: ``i32 f(ptr result, ptr exception, args...)``; the status it returns is 0, or the number of the
# exception that it raised. ``result`` points to two words: the second is the address of ``bufs``, at whose status word
# loops look that may not end (``looks.py``). An array is ``ptr, ptr, i64 count, i64 itemsize, ptr data``, its extents,
# its strides in bytes. The two first pointers belong to Numba's memory management and are null.
# Around it stands a kernel of Note [Program ABI]. Its argument words, parameter by parameter:
#   unit     none: the number of the unit of work, from ``begin`` to ``end``
#   array    slot, offset in bytes, count, extents, strides
#   float    slot, offset in bytes of a double
#   int, bool  the number itself
# A status that is not 0 becomes the program's status word: nothing is written to an existing storage, and the caller
# runs the segment again by NumPy rules, where ``run`` returns that status and the exception is raised.
# A primitive "routine" is the first result; "routine_part" is another one, and reads the first. All operands lie in
# memory, row-major. Results are stored row-major; any other place gets a copy.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import re
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.codegen.llvm.text import FnBuilder
from jitgrad.dtypes import DType
from jitgrad.ops.aval import contiguous_strides
from jitgrad.symbols.number import whole

__all__ = ["ArrayRoutine", "RoutineCall", "RoutineParam", "run"]

_ELEMENT_NS = 10.0
"""A guess: nobody knows how often a function touches an element. It decides what is worth sharing."""
_UNIT_NS = 1000.0
"""A kernel that declares units of work expects each of them to be worth a thread's start."""
_ENDLESS_NS = 1e8
"""A step with a loop that may not end runs where Ctrl-C can reach it, Note [Interrupting a native step]."""
_PATIENCE = 0.01  # seconds between looks for Ctrl-C while such a loop runs on a thread of its own


class RoutineParam(NamedTuple):
    """A parameter of a routine.

    Attributes:
        kind: "unit", "array", "float", "int" or "bool".
        type: LLVM's, of a number; the dtype's name, of an array.
        ndim: of an array.
    """

    kind: str
    type: str
    ndim: int = 0


class ArrayRoutine:
    """A function of whole arrays.

    Attributes:
        name: the user's, for logs and kernels' names.
        text: an LLVM module that holds it and what it calls.
        symbol: its name there.
        params: in order.
        can_fail: whether it may return a status that is not 0.
        may_not_end: whether it looks at the status word, and so can be stopped.
        digest: of all that; the same in every process.
    """

    def __init__(
        self,
        name: str,
        text: str,
        symbol: str,
        params: Sequence[RoutineParam],
        can_fail: bool,
        may_not_end: bool = False,
    ) -> None:
        self.may_not_end = may_not_end
        self.name = re.sub(r"\W", "_", name)
        self.text, self.symbol, self.params, self.can_fail = text, symbol, tuple(params), can_fail
        self.has_units = any(p.kind == "unit" for p in params)
        key = "\0".join((text, symbol, repr(self.params)))
        self.digest = hashlib.blake2b(key.encode(), digest_size=10).hexdigest()

    def __repr__(self) -> str:
        return f"ArrayRoutine({self.name}, {self.digest})"

    def source(self) -> KernelSource:
        """The kernel around it."""
        name = f"routine_{self.name}_{self.digest}"
        return KernelSource(name, self.digest, lambda: self.text + _launcher(self, name))

    @functools.cached_property
    def compiled(self) -> tuple[Any, CompiledKernel]:
        """The kernel as ctypes calls it, and its machine code."""
        (kernel,) = compile_kernels([self.source()])
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        return prototype(kernel.address), kernel


class RoutineCall:
    """A routine for arrays of certain shapes. Compared by identity.

    Attributes:
        routine: what is called.
        shapes: of the arrays in the order of the parameters: the operands, then the results; a float is ().
        dtypes: of the same.
        numbers: values of the int and bool parameters, in order.
        count: of operands.
        units: of work; 1 where the function declares none.
        cost: estimated nanoseconds on one core.
    """

    def __init__(
        self,
        routine: ArrayRoutine,
        shapes: Sequence[tuple[int, ...]],
        dtypes: Sequence[DType],
        numbers: Sequence[int],
        count: int,
        units: int,
        cost: float | None = None,
    ) -> None:
        self.routine, self.shapes, self.dtypes = routine, tuple(shapes), tuple(dtypes)
        self.numbers, self.count, self.units = tuple(numbers), count, units
        if cost is not None:  # somebody knows
            self.cost = cost
            return
        elements = sum(map(math.prod, self.shapes))
        least = _ENDLESS_NS if routine.may_not_end else _UNIT_NS * units if routine.has_units else 1.0
        self.cost = max(_ELEMENT_NS * elements, least)

    def __repr__(self) -> str:
        return self.routine.name

    @property
    def results(self) -> tuple[tuple[tuple[int, ...], DType], ...]:
        """Shape and dtype of each result."""
        return tuple(zip(self.shapes[self.count :], self.dtypes[self.count :], strict=True))

    def words(self, places: Sequence[Any]) -> list[Any]:
        """Argument words. ``places``: per array the words that say where it is: two, or one that stands for two."""
        words: list[Any] = []
        arrays = iter(zip(places, self.shapes, self.dtypes, strict=True))
        numbers = iter(self.numbers)
        for param in self.routine.params:
            if param.kind in ("int", "bool"):
                words.append(whole(next(numbers)))
            elif param.kind != "unit":
                place, shape, dtype = next(arrays)
                words += place if isinstance(place, list) else [place]
                if param.kind == "array":
                    strides = [s * dtype.itemsize for s in contiguous_strides(shape)]
                    words += [math.prod(shape), *shape, *strides]
        return words

    def describe(self) -> str:
        """For ``explain``."""
        shared = f", {self.units} units of work" if self.routine.has_units else ""
        return f"{self.routine.name}: a function of whole arrays, one native call{shared}"


def _launcher(routine: ArrayRoutine, name: str) -> str:
    b = FnBuilder(name)
    result, exception = b.op("alloca [2 x ptr]"), b.op("alloca ptr")
    b.do(f"store ptr %bufs, ptr {b.op(f'getelementptr ptr, ptr {result}, i64 1')}")
    at = 0

    def word() -> str:
        nonlocal at
        found = b.op(f"load i64, ptr {b.op(f'getelementptr i64, ptr %args, i64 {at}')}")
        at += 1
        return found

    def pointer() -> str:
        slot, offset = word(), word()
        base = b.op(f"load ptr, ptr {b.op(f'getelementptr i64, ptr %bufs, i64 {slot}')}")
        return b.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    passed = [f"ptr {result}", f"ptr {exception}"]
    unit_at = None
    for p in routine.params:
        if p.kind == "unit":
            unit_at = len(passed)
            passed.append("")
        elif p.kind == "array":
            data, count = pointer(), word()
            size = _ITEM[p.type]
            passed += ["ptr null", "ptr null", f"i64 {count}", f"i64 {size}", f"ptr {data}"]
            passed += [f"i64 {word()}" for _ in range(2 * p.ndim)]
        elif p.kind == "float":
            passed.append(f"double {b.op(f'load double, ptr {pointer()}')}")
        elif p.type == "i64":
            passed.append(f"i64 {word()}")
        else:
            passed.append(f"{p.type} {b.op(f'trunc i64 {word()} to {p.type}')}")
    bad, end = b.label("bad"), b.label("end")
    with b.loop("%begin", "%end") as unit:
        if unit_at is not None:
            passed[unit_at] = f"i64 {unit}"
        status = b.op(f'call i32 @"{routine.symbol}"({", ".join(passed)})')
        following = b.label()
        b.do(f"br i1 {b.op(f'icmp eq i32 {status}, 0')}, label %{following}, label %{bad}")
        b.start(following)
    b.do(f"br label %{end}")
    b.start(bad)
    b.do(f"store i64 {b.op(f'zext i32 {status} to i64')}, ptr %bufs")
    b.do(f"br label %{end}")
    b.start(end)
    return "\n" + b.finish()


_ITEM = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float32": 4, "float64": 8}


def run(call: RoutineCall, arrays: Sequence[Any], outs: Sequence[Any]) -> int:
    """Compute ``outs`` by one thread, unit by unit.

    Args:
        call: what to do.
        arrays, outs: NumPy arrays of its shapes and dtypes, row-major.

    Returns:
        0, or the number of the exception that was raised.
    """
    function, _ = call.routine.compiled
    everything = [*arrays, *outs]
    words = call.words([[n, 0] for n in range(1, len(everything) + 1)])
    bufs = (ctypes.c_int64 * (1 + len(everything)))(0, *(a.ctypes.data for a in everything))
    args = (ctypes.c_int64 * max(len(words), 1))(*words)
    if call.routine.may_not_end and threading.current_thread() is threading.main_thread():
        _run_aside(lambda: function(bufs, args, 0, call.units), bufs)
    else:
        function(bufs, args, 0, call.units)
    return int(bufs[0])


def _run_aside(work: Any, bufs: Any) -> None:
    """On another thread, so that this one can receive Ctrl-C; its loops end once the status word is set."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_PATIENCE)
    except BaseException:
        bufs[0] = -1
        thread.join()
        raise
