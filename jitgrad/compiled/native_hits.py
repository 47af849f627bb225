"""Native hits: the functions of ``tracer/hits.py`` compiled, and put in place once.

Owns: what is compiled, and which slots of the library get it: ``HOT``, ``door``, Tensor's operators.
Must not know: the rules of a hit, an interpreter's objects (``jitgrad/cpython/`` knows them).

# Note [Native hits]
# ~~~~~~~~~~~~~~~~~~
# Python's own form of a hit costs about a microsecond; compiled (Note [Native Python]) it costs less than the call of a
# function. ``install`` runs at the first compile of the process. From then on ``HOT`` holds the compiled functions, and
# the door and Tensor's operators are entries that try a hit natively and else call what stood there before. They may
# answer for one recorder at a time, that of the thread that activated it last (``state.switch_handler``); every other
# thread takes the general way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from jitgrad import dispatch
from jitgrad.codegen.llvm.jit import KernelSource, compile_kernels
from jitgrad.compiled.check_hits import checked
from jitgrad.config import config
from jitgrad.cpython.install import callables, operator_method
from jitgrad.cpython.layout import why_unknown
from jitgrad.cpython.native import Handles, Stub, layout_key, load_module, make_module
from jitgrad.cpython.primitives import NATIVE
from jitgrad.door import door
from jitgrad.events import log
from jitgrad.locks import process_lock
from jitgrad.ops.table import OPS
from jitgrad.state import native_cell, state, switch_handler
from jitgrad.tensor_base import tensor_class
from jitgrad.tracer import hits, write_hits
from jitgrad.tracer.hot import HOT

__all__ = ["install"]

_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__pow__": "pow", "__rsub__": "rsub", "__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le",
    "__gt__": "gt", "__ge__": "ge",
}  # fmt: skip
_REFLECTED = {"__rtruediv__": "div"}
_KEPT = ("_tid", "_vid", "_aval", "_requires_grad")

_installing = process_lock()


def install(driver_address: int = 0) -> None:
    """Compile the native hits and put them in place, once; a no-op where the interpreter is not known."""
    with _installing:
        if not native_cell.is_installed and config.native_hits:
            reason = why_unknown()
            if reason:
                log("record", "no native hits: %s", reason)
            else:
                _install(driver_address)


def _install(driver_address: int) -> None:
    tensor = tensor_class()
    handles = Handles(tensor, _KEPT)
    stubs = [Stub(f"operator{n}", hits.operate, (OPS[op],), getattr(tensor, n)) for n, op in _OPERATORS.items()]
    stubs += [Stub(f"operator{n}", hits.reflect, (OPS[op],), getattr(tensor, n)) for n, op in _REFLECTED.items()]
    stubs.append(Stub("door_apply", hits.through_door, (), dispatch.apply))
    stubs.append(Stub("door_apply_inplace", write_hits.write_through_door, (), dispatch.apply_inplace))
    module = make_module(NATIVE, NATIVE, stubs, handles, hits.MISSED)
    key = layout_key(NATIVE, handles, module.text)
    source = KernelSource("native_hits", key, lambda: module.text, is_glue=True, needs_passes=True)
    kernel = compile_kernels([source])[0]
    entries = load_module(kernel, module, {"driver": driver_address})
    functions = callables(NATIVE, [entries[f"entry_{f.__name__}"] for f in NATIVE], entries)
    HOT.use(functions)
    native_cell.activate = functions["activate"]
    door.apply, door.apply_inplace = functions["door_apply"], functions["door_apply_inplace"]
    for name in (*_OPERATORS, *_REFLECTED):
        setattr(tensor, name, operator_method(tensor, name, entries[f"stub_operator{name}"]))
    if config.check_hits:
        _check_hits(tensor)
    native_cell.is_installed = True
    switch_handler(state.handler)
    log("record", "native hits installed")


def _check_hits(tensor: Any) -> None:
    """Put ``checked`` around the entries."""
    door.apply = checked(door.apply, lambda op, *args: (op, args))
    for name in (*_OPERATORS, *_REFLECTED):
        op = OPS[_OPERATORS.get(name) or _REFLECTED[name]]
        is_reflected = name in _REFLECTED
        arguments = partial(_operands, op, is_reflected)
        setattr(tensor, name, _as_method(checked(getattr(tensor, name), arguments)))


def _operands(op: Any, is_reflected: bool, a: Any, b: Any) -> tuple[Any, tuple[Any, ...]]:
    return op, (b, a) if is_reflected else (a, b)


def _as_method(function: Any) -> Any:
    """A function that binds."""
    return lambda self, other: function(self, other)
