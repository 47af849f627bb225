"""Native hits: the functions of ``tracer/hits/hits.py`` compiled, and put in place once.

Owns: what is compiled, and what gets it: ``HOT``, ``door``, the number slots of Tensor's type, public functions.
Must not know: the rules of a hit, an interpreter's objects (``jitgrad/cpython/`` knows them).

# Note [Native hits]
# ~~~~~~~~~~~~~~~~~~
# Python's own form of a hit costs about a microsecond; compiled (Note [Native Python]) it costs less than the call of a
# function. ``install`` runs at the first compile of the process; where the disk cache lacks the object code, a builder
# makes it, and ends of calls ask for it (Note [Builders]). From then on ``HOT`` holds the compiled functions, and the
# door and the number slots of Tensor's type (``nb_multiply``, which ``x * y`` calls) are entries that try a hit
# natively, and else call what stood there before, the special methods (``__mul__``). Public functions and methods get
# fronts, see Note [Native fronts]. They may answer for one recorder at a time, that of the thread that activated it
# last (``state.switch_handler``); every other thread takes the general way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from jitgrad.compiled.check_hits import checked, checked_front
from jitgrad.compiled.native_code import NativeCode, source_of
from jitgrad.compiled.native_fronts import all_fronts, front_of
from jitgrad.config import config
from jitgrad.cpython.fronts import ROWS_ADDRESS, put_fronts
from jitgrad.cpython.install import callables, native_slots, put_in_compare_slot, put_in_getattr_slot, put_in_slots
from jitgrad.cpython.known_modules import module_of
from jitgrad.cpython.layout import (
    compare_slot,
    followed_version,
    function_runner,
    getattr_slot,
    type_runner,
    why_unknown,
)
from jitgrad.cpython.native import (
    COMPARISONS,
    Front,
    Handles,
    ModuleParts,
    NumberStub,
    Stub,
    TypeFront,
    load_module,
)
from jitgrad.cpython.primitives import NATIVE, late_fronts, renew_versions
from jitgrad.door import door
from jitgrad.events import log
from jitgrad.grad_mode import no_grad
from jitgrad.locks import process_lock
from jitgrad.ops.table import OPS
from jitgrad.state import native_cell, state, switch_handler
from jitgrad.tensor_base import tensor_class
from jitgrad.tracer.hits import hits, update_hits, write_hits
from jitgrad.tracer.hits.front_hits import OPERATION_FRONTS
from jitgrad.tracer.hits.method_fronts import METHOD_FRONTS, make_no_grad
from jitgrad.tracer.recording.hot import HOT

__all__ = ["KEPT_SLOTS", "NUMBERS", "install"]

NUMBERS = {  # slot: the operation; the one that takes the operands the other way round, or a vector; the methods
    "nb_add": ("add", "add", "__add__", "__radd__"),
    "nb_subtract": ("sub", "rsub", "__sub__", "__rsub__"),
    "nb_multiply": ("mul", "mul", "__mul__", "__rmul__"),
    "nb_true_divide": ("div", "", "__truediv__", "__rtruediv__"),
    "nb_power": ("pow", "", "__pow__", "__rpow__"),
    "nb_matrix_multiply": ("mm", "mv", "__matmul__", ""),
    "nb_remainder": ("remainder", "", "__mod__", "__rmod__"),
    "nb_floor_divide": ("floor_divide", "", "__floordiv__", "__rfloordiv__"),
    "nb_and": ("bitwise_and", "bitwise_and", "__and__", "__rand__"),
    "nb_or": ("bitwise_or", "bitwise_or", "__or__", "__ror__"),
    "nb_xor": ("bitwise_xor", "bitwise_xor", "__xor__", "__rxor__"),
}
SIGNS = {"nb_negative": ("neg", "__neg__"), "nb_invert": ("bitwise_not", "__invert__")}
"""The same of one operand."""
METHODS = {slot: tuple(filter(None, names)) for slot, (_, _, *names) in NUMBERS.items()}
METHODS |= {slot: (name,) for slot, (_, name) in SIGNS.items()}
"""Slot -> the methods whose place it takes."""
KEPT_SLOTS = ("_tid", "_vid", "_aval", "_requires_grad")

_installing = process_lock()


def install(code: NativeCode, driver_address: int = 0) -> bool:
    """Compile the native hits and put them in place, once; a no-op where the interpreter is not known.

    Args:
        code: has it made, here or by a builder.

    Returns:
        Whether that is settled; if not, a builder is at it, Note [Builders], and this is to be called again.
    """
    with _installing:
        if native_cell.is_installed or not config.native_hits:
            return True
        reason = why_unknown()
        if reason:
            log("record", "no native hits: %s", reason)
            return True
        return _install(code, driver_address)


def _install(code: NativeCode, driver_address: int) -> bool:
    if code.is_on_the_way():
        return False
    tensor = tensor_class()
    handles = Handles(tensor, KEPT_SLOTS)
    stubs = [
        Stub("door_apply", hits.through_door, (), door.apply),
        Stub("door_apply_inplace", write_hits.write_through_door, (), door.apply_inplace),
        Stub("door_apply_update", update_hits.update_through_door, (), door.apply_update),
    ]
    found: dict[str, Any] = {}  # what ``callables`` will have made
    looked_at = OPERATION_FRONTS if config.check_hits else ()
    fronts = [Front(f, checked_front(f.__name__, found)) for f in looked_at]
    fronts += [Front(f) for f in (*OPERATION_FRONTS, *METHOD_FRONTS) if f not in looked_at]
    called = [f for f in NATIVE if f in looked_at or f not in (*OPERATION_FRONTS, *METHOD_FRONTS)]
    numbers, makers = _number_stubs(), [TypeFront(no_grad, make_no_grad)]
    parts = ModuleParts(NATIVE, called, stubs, numbers, _compare(), fronts, handles, hits.MISSED, makers)
    module = module_of(parts, code)
    kernel = code.compiled(source_of(module))
    if kernel is None:
        return False
    outside = {"driver": driver_address, "tp_richcompare": compare_slot(tensor).value}
    outside |= {f"before_{slot}": native_slots.get(slot, 0) for slot in (*NUMBERS, *SIGNS)}
    outside["tp_getattro"] = getattr_slot(tensor).value
    for maker in makers:
        outside[f"version_{maker.cls.__name__}"], renew_versions[maker.cls] = followed_version(maker.cls)
    outside |= {"front_rows": ROWS_ADDRESS, "function_runner": function_runner()}
    entries = load_module(kernel, module, outside)
    functions = callables(called, [entries[f"entry_{f.__name__}"] for f in called], entries)
    found |= functions
    HOT.use(functions)
    native_cell.activate = functions["activate"]
    door.apply, door.apply_inplace = functions["door_apply"], functions["door_apply_inplace"]
    door.apply_update = functions["door_apply_update"]
    if config.check_hits:
        _check_hits(tensor, functions)
    else:
        put_in_slots(tensor, {slot: entries[f"slot_{slot}"] for slot in METHODS}, METHODS)
        put_in_compare_slot(tensor, entries["slot_tp_richcompare"], COMPARISONS)
    if "slot_tp_getattro" in entries:
        put_in_getattr_slot(tensor, entries["slot_tp_getattro"])
    for maker in makers:
        type_runner(maker.cls).value = entries[f"maker_{maker.cls.__name__}"]
    for name, rows in all_fronts():
        put_fronts(entries[f"front_{name}"], rows)
    late_fronts.append(partial(_put_late_front, entries))
    native_cell.is_installed = True
    switch_handler(state.handler)
    log("record", "native hits installed")
    return True


def _put_late_front(entries: dict[str, int], *marked: Any) -> None:
    name, row = front_of(*marked)
    put_fronts(entries[f"front_{name}"], [row])


def _number_stubs() -> list[NumberStub]:
    stubs = [NumberStub(slot, hits.through_door, (OPS[op],), name, arity=1) for slot, (op, name) in SIGNS.items()]
    for slot, (op, swapped, method, reflected) in NUMBERS.items():
        constants = (OPS[op], OPS[swapped] if swapped else None)
        stubs.append(NumberStub(slot, _hit_of(op), constants, method, reflected, 3 if slot == "nb_power" else 2))
    return stubs


def _hit_of(op: str) -> Any:
    return hits.multiply if op == "mm" else hits.operate


def _compare() -> tuple[Any, list[Any]]:
    return hits.operate, [OPS[name.strip("_")] for name in COMPARISONS]


def _check_hits(tensor: Any, functions: dict[str, Any]) -> None:
    """Put ``checked`` around the entries; operators stay methods."""
    door.apply = checked(door.apply, lambda op, *args: (op, args))
    for op, swapped, method, reflected in NUMBERS.values():
        for name in filter(None, (method, reflected)):
            hit = functions[_hit_of(op).__name__]
            setattr(tensor, name, _checked_operator(tensor, name, hit, (OPS[op], OPS.get(swapped))))
    for name in COMPARISONS:
        hit = functions["operate"]
        setattr(tensor, name, _checked_operator(tensor, name, hit, (OPS[name.strip("_")], None)))


def _checked_operator(tensor: Any, name: str, operate: Any, ops: tuple[Any, Any]) -> Any:
    """A special method that does what its number slot does."""
    slow, (op, swapped) = getattr(tensor, name), ops

    def operands(x: Any, other: Any) -> tuple[Any, ...]:
        return (x, other) if not name.startswith("__r") else (other, x)

    def arguments(x: Any, other: Any) -> tuple[Any, tuple[Any, ...]]:
        a, b = operands(x, other)
        return (swapped, (b, a)) if swapped is not None and not isinstance(a, tensor) else (op, (a, b))

    hit = checked(lambda x, other: operate(op, swapped, *operands(x, other)), arguments)

    def method(x: Any, other: Any) -> Any:
        out = hit(x, other)
        return slow(x, other) if out is hits.MISSED else out

    return method
