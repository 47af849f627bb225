"""Putting the native hits in place, see Note [Native hits].

Owns: the words they read, the method tables, and the check that this interpreter is one they know.
"""

from __future__ import annotations

import ctypes
from typing import Any

from jitgrad import dispatch
from jitgrad.codegen.llvm.jit import KernelSource, compile_kernels
from jitgrad.codegen.python_api import API, BINARY, REFLECTED, WORDS
from jitgrad.codegen.python_hits import ENTRY_POINTS, module_text
from jitgrad.config import config
from jitgrad.cpython.build import is_known_interpreter
from jitgrad.cpython.liveness import counts_references
from jitgrad.door import door
from jitgrad.events import log
from jitgrad.locks import process_lock
from jitgrad.ops.table import OPS, Op
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import native_cell, override_classes, state, switch_handler, write_checks
from jitgrad.tensor_base import tensor_class
from jitgrad.tracer.hot import FRESH, HOT, PENDING, VIEW, assignments
from jitgrad.tracer.inputs import IN
from jitgrad.tracer.recorder import SIMPLE, TRACKED, UNTRACKED, VIEWS, Recorder
from jitgrad.tracer.slots import LEAF, PLAIN, Slot
from jitgrad.tracer.trie import TrieNode
from jitgrad.tracer.writes import WRITE

__all__ = ["install", "slot_offset"]

_METH_FASTCALL, _METH_O = 0x0080, 0x0008
_DUNDERS = {
    "add": ("__add__", "__radd__"),
    "sub": ("__sub__",),
    "mul": ("__mul__", "__rmul__"),
    "div": ("__truediv__",),
    "pow": ("__pow__",),
    "rsub": ("__rsub__",),
}
_REFLECTED_DUNDERS = {"div": "__rtruediv__"}


class _MethodDef(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_keep: list[Any] = []
"""What the native hits point at, or are."""


def slot_offset(cls: type, name: str) -> int:
    """Where a ``__slots__`` member lies in its objects (``PyMemberDescrObject.d_member->offset``)."""
    if name == "__weakref__":
        return cls.__weakrefoffset__
    for base in cls.__mro__:
        if name in base.__dict__:
            member = ctypes.c_void_p.from_address(id(base.__dict__[name]) + 5 * 8).value
            assert member is not None
            return ctypes.c_ssize_t.from_address(member + 2 * 8).value
    raise AttributeError(f"{cls.__name__} has no slot {name}")


_installing = process_lock()


def install() -> None:
    """Compile the native hits and put them in place, once; a no-op where the interpreter is not known."""
    with _installing:  # a second time, the functions that they stand before would be they themselves
        if not native_cell.is_installed and config.native_hits:
            _install()


def _install() -> None:
    if not is_known_interpreter() or not counts_references or not _slots_are_where_expected():
        return
    kernel = compile_kernels([KernelSource("native_hits", "native_hits", module_text, is_glue=True)])[0]
    find = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(kernel.address)
    words = (ctypes.c_int64 * len(WORDS)).from_address(find(-1))
    _keep.extend((kernel, find))
    _fill(words)
    entries = {name: find(nr) for nr, name in enumerate(ENTRY_POINTS)}
    _attach(entries)
    native_cell.is_installed = True
    switch_handler(state.handler)
    log("record", "native hits installed")


def _slots_are_where_expected() -> bool:
    probe = Slot(object(), object(), object())  # type: ignore[arg-type]
    at = id(probe) + slot_offset(Slot, "owner")
    return ctypes.c_void_p.from_address(at).value == id(probe.owner)


def _fill(words: Any) -> None:
    api = ctypes.pythonapi
    objects: dict[str, Any] = {
        "Tensor": tensor_class(),
        "Slot": Slot,
        "Storage": Storage,
        "float": float,
        "int": int,
        "list": list,
        "True": True,
        "False": False,
        "None": None,
        "simple": SIMPLE,
        "views": VIEWS,
        "in": IN,
        "plain": PLAIN,
        "leaf": LEAF,
        "tracked": TRACKED,
        "untracked": UNTRACKED,
        "link_view": Recorder._link_view,
        "pool": [],
        "write": WRITE,
        "write_checks": write_checks,
        "override_classes": override_classes,
        "slow_apply": dispatch.apply,
        "slow_apply_inplace": dispatch.apply_inplace,
        "slow_enter": Recorder.enter,
        "slow_assignments": assignments,
        "fresh": FRESH,
        "pending": PENDING,
        "view": VIEW,
    }
    objects.update({f"op {name}": OPS[name] for name in BINARY})
    tensor = tensor_class()
    objects.update({f"slow {name}": getattr(tensor, _DUNDERS[name][0]) for name in BINARY})
    objects.update({f"slow r{name}": getattr(tensor, _REFLECTED_DUNDERS[name]) for name in REFLECTED})
    _keep.extend(objects.values())
    for name, value in objects.items():
        words[WORDS[name]] = id(value)
    for name in API:
        words[WORDS[name]] = ctypes.cast(getattr(api, name), ctypes.c_void_p).value
    owners = {"tensor": tensor, "recorder": Recorder, "node": TrieNode, "op": Op, "slot": Slot, "storage": Storage}
    for name, nr in WORDS.items():
        owner, _, slot = name.partition(".")
        if slot:
            words[nr] = slot_offset(owners[owner], slot)


def _attach(entries: dict[str, int]) -> None:
    """Replace the Python functions by method objects over the native ones."""
    tensor = tensor_class()
    for name in BINARY:
        for dunder in _DUNDERS[name]:
            setattr(tensor, dunder, _method(tensor, dunder, entries[f"op_{name}"]))
    for name in REFLECTED:
        dunder = _REFLECTED_DUNDERS[name]
        setattr(tensor, dunder, _method(tensor, dunder, entries[f"op_r{name}"]))
    Recorder.enter = _method(Recorder, "enter", entries["enter"])  # type: ignore[method-assign]
    native_cell.activate = _function("activate", entries["activate"], _METH_O)
    HOT.alive = _function("alive", entries["alive"], _METH_O)
    HOT.assignments = _function("assignments", entries["assignments"], _METH_O)
    HOT.unwatched = _function("unwatched", entries["unwatched"], _METH_FASTCALL)
    HOT.move = _function("move", entries["move"], _METH_FASTCALL)
    door.apply = _function("apply", entries["apply"], _METH_FASTCALL)
    door.apply_inplace = _function("apply_inplace", entries["apply_inplace"], _METH_FASTCALL)


def _definition(name: str, address: int, flags: int) -> Any:
    definition = _MethodDef(name.encode(), address, flags, None)
    _keep.append(definition)
    return definition


def _method(cls: type, name: str, address: int) -> Any:
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(cls, ctypes.addressof(_definition(name, address, _METH_O)))


def _function(name: str, address: int, flags: int) -> Any:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return make(ctypes.addressof(_definition(name, address, flags)), None, None)
