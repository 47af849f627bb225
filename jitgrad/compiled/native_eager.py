"""Eager mode's hot path in native code: a module of its own, put in place once, see Note [Eager in native code].

Owns: ``install``: what is compiled, and what gets it: the door, the number slots of Tensor's type, the plain loop.
Must not know: the rules (``runtime/eager/direct.py``, ``runtime/engine/run/plain_graph.py``), an interpreter's objects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.compiled.native_code import NativeCode, source_of
from jitgrad.compiled.native_hits import KEPT_SLOTS, METHODS, NUMBERS, SIGNS
from jitgrad.compiled.native_parts import install_loops
from jitgrad.config import config
from jitgrad.cpython.fronts import ROWS_ADDRESS
from jitgrad.cpython.install import callables, native_slots, put_in_compare_slot, put_in_slots
from jitgrad.cpython.kept import keep_for_ever
from jitgrad.cpython.known_modules import module_of
from jitgrad.cpython.layout import compare_slot, function_runner, why_unknown
from jitgrad.cpython.native import COMPARISONS, Handles, ModuleParts, NumberStub, Stub, load_module
from jitgrad.cpython.primitives import EAGER
from jitgrad.door import door
from jitgrad.events import log
from jitgrad.locks import process_lock
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager import direct, direct_writes
from jitgrad.runtime.eager.instr_runs import INSTR_RUNS, PYTHONS_INSTR_RUNS
from jitgrad.runtime.eager.kernel_runs import PYTHONS_RUNS, RUNS, run_kernel, run_step
from jitgrad.runtime.eager.makings import MAKINGS, PYTHONS_MAKINGS, draw_again, make_again
from jitgrad.runtime.eager.quiet import has_context
from jitgrad.runtime.eager.results import MAKERS, PYTHONS_MAKERS
from jitgrad.runtime.engine.graph.call_node import join_call
from jitgrad.runtime.engine.run import plain_graph
from jitgrad.tensor_base import tensor_class
from jitgrad.tracer.hits.hits import MISSED
from jitgrad.user_line import let_through

__all__ = ["install", "is_installed", "pythons_form"]

_installing = process_lock()
_installed: list[dict[str, Any]] = []
"""The functions, once they are in place."""


def is_installed() -> bool:
    """Whether eager operations of the main thread run as native code."""
    return bool(_installed)


def install() -> None:
    """Compile the functions marked ``eager_native`` and put them in place; does nothing where that cannot be.

    Only the main thread can: the native code answers for the thread that is here.
    """
    with _installing:
        if _installed or not config.native_hits or threading.current_thread() is not threading.main_thread():
            return
        reason = why_unknown() or ("" if has_context() else "NumPy's error state is none of a context")
        if reason:
            log("record", "no native code for eager mode: %s", reason)
            return
        try:
            _install()
        except Exception as error:  # it is an accelerator: without it Python's form runs
            _code.give_up()
            let_through(error)
            log("record", "native code for eager mode is off: %r", error)


@contextmanager
def pythons_form() -> Iterator[None]:
    """In the block the main thread runs Python's form, for whoever counts what Python does."""
    for functions in _installed:
        functions["activate"](None)
        plain_graph.PLAIN.use(plain_graph.PYTHONS_FORM)
        door.join_call = join_call
        MAKERS.use(PYTHONS_MAKERS)
        RUNS.use(PYTHONS_RUNS)
        INSTR_RUNS.use(PYTHONS_INSTR_RUNS)
        MAKINGS.use(PYTHONS_MAKINGS)
    try:
        yield
    finally:
        for functions in _installed:
            _activate(functions)


def _activate(functions: dict[str, Any]) -> None:
    functions["activate"](direct.here.here)
    plain_graph.PLAIN.use(functions)
    door.join_call = functions["join_call"]
    MAKERS.use(functions)
    RUNS.use(functions)
    INSTR_RUNS.use(functions)
    MAKINGS.use(functions)


_code = NativeCode(install)


def _install() -> None:
    if _code.is_on_the_way():
        direct.ask_again()
        return
    tensor = tensor_class()
    handles = Handles(tensor, KEPT_SLOTS)
    stubs = [
        Stub("door_apply", direct.apply_now, (), door.apply),
        Stub("door_apply_inplace", direct_writes.write_now, (), door.apply_inplace),
        Stub("door_apply_update", direct_writes.update_now, (), door.apply_update),
    ]
    numbers = [_number_stub(slot, *row) for slot, row in NUMBERS.items()]
    numbers += [NumberStub(slot, direct.apply_now, (OPS[op],), name, arity=1) for slot, (op, name) in SIGNS.items()]
    compare = direct.operate_now, [OPS[name.strip("_")] for name in COMPARISONS]
    called: list[Callable[..., Any]] = [join_call, *plain_graph.PYTHONS_FORM.values(), *PYTHONS_MAKERS.values()]
    called += [run_kernel, run_step, *PYTHONS_INSTR_RUNS.values(), draw_again, make_again]
    module = module_of(ModuleParts(EAGER, called, stubs, numbers, compare, (), handles, MISSED), _code)
    kernel = _code.compiled(source_of(module))
    if kernel is None:
        direct.ask_again()
        return
    outside = {f"before_{stub.slot}": native_slots.get(stub.slot, 0) for stub in numbers}
    outside |= {"tp_richcompare": compare_slot(tensor).value, "driver": install_loops().driver}
    outside |= {"front_rows": ROWS_ADDRESS, "function_runner": function_runner()}
    entries = load_module(kernel, module, outside)
    functions = callables(called, [entries[f"entry_{f.__name__}"] for f in called], entries)
    keep_for_ever(direct.here.here)
    _activate(functions)
    door.apply, door.apply_inplace = functions["door_apply"], functions["door_apply_inplace"]
    door.apply_update = functions["door_apply_update"]
    put_in_slots(tensor, {slot: entries[f"slot_{slot}"] for slot in METHODS}, METHODS)
    put_in_compare_slot(tensor, entries["slot_tp_richcompare"], COMPARISONS)
    _installed.append(functions)
    log("record", "native code for eager mode installed")


def _number_stub(slot: str, op: str, swapped: str, method: str, reflected: str) -> NumberStub:
    function: Any = direct.multiply_now if op == "mm" else direct.operate_now
    constants = (OPS[op], OPS[swapped] if swapped and op != "mm" else None)
    return NumberStub(slot, function, constants, method, reflected, 3 if slot == "nb_power" else 2)
