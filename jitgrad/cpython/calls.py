"""Calls in the subset, as LLVM text, see Note [Native Python].

Owns: calls of native functions, primitives, methods of lists, dictionaries and sets, and of any Python callable.
Must not know: statements.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable
from typing import Any

from jitgrad.cpython import primitives
from jitgrad.cpython.layout import is_slot, slot_offset
from jitgrad.cpython.translate import LLVM, FunctionText, NativeValue, is_lasting, signature_of

__all__ = ["PRIMITIVES", "call", "install_expressions"]

PRIMITIVES: dict[Any, tuple[str, str, tuple[str, ...]]] = {
    primitives.activate: ("activate_now", "none", ("obj",)),
    primitives.active: ("active", "lasting", ()),
    primitives.advance: ("advance", "int", ("obj", "int")),
    primitives.array_over: ("array_over", "new", ("obj", "obj", "obj", "int", "int", "obj")),
    primitives.attempt: ("attempt", "new", ("obj", "args", "obj")),
    primitives.attempt_pair: ("attempt_pair", "new", ("obj", "obj", "obj")),
    primitives.attempt_row: ("attempt_row", "new", ("obj", "obj", "obj")),
    primitives.blank: ("blank", "new", ("obj",)),
    primitives.call_as_given: ("call_as_given", "new", ("obj", "args", "obj")),
    primitives.call_rest: ("call_rest", "new", ("obj", "args", "obj")),
    primitives.call_inside: ("call_inside", "new", ("obj", "obj", "obj")),
    primitives.counter: ("fresh_counter", "new", ()),
    primitives.draw_to: ("draw_to", "none", ("int", "int", "obj", "int", "int")),
    primitives.fresh_array: ("fresh_array", "new", ("obj", "obj")),
    primitives.is_hashable: ("is_hashable", "bool", ("obj",)),
    primitives.joined: ("joined", "new", ("obj", "obj")),
    primitives.packed_rest: ("pack_rest", "new", ("args", "int")),
    primitives.is_atomic: ("is_atomic", "bool", ()),
    primitives.new_handle: ("new_handle", "new", ()),
    primitives.is_word: ("is_word", "bool", ("obj",)),
    primitives.number_at: ("number_at", "new", ("int", "int")),
    primitives.packed: ("pack", "new", ("args",)),
    primitives.poke: ("poke", "none", ("int", "int", "int")),
    primitives.poke_float: ("poke_float", "none", ("int", "int", "obj")),
    primitives.refcount: ("refcount", "int", ("obj",)),
    primitives.retire_all: ("retire_all", "none", ("obj",)),
    primitives.run_driver: ("run_driver", "int", ("int",)),
    primitives.run_driver_released: ("run_driver_released", "int", ("int",)),
    primitives.same: ("same", "bool", ("obj", "obj")),
    primitives.take_last: ("take_last", "new", ("obj",)),
    primitives.take_out: ("take_out", "none", ("obj", "obj")),
    primitives.this_frame: ("this_frame", "new", ()),
    primitives.thread_dict: ("thread_dict", "lasting or an error", ("obj",)),
    primitives.untrack: ("untrack", "none", ("obj",)),
    primitives.within: ("within", "bool", ("int", "int", "int", "int", "int")),
    primitives.word_at: ("word_at", "int", ("int",)),
}
"""Python function -> (symbol, kind of the result, or ``"none"``, ``"new"``, ``"lasting"`` and the like, kinds of the
arguments)."""

_e: dict[str, Callable[..., Any]] = {}


def install_expressions(*functions: Callable[..., Any]) -> None:
    """The functions that print expressions; they and calls contain each other."""
    _e.update({function.__name__: function for function in functions})


def call(f: FunctionText, node: ast.Call) -> NativeValue:
    """Any call."""
    if node.keywords:
        f.fail(node, "keyword arguments")
    func = node.func
    if isinstance(func, ast.Name) and func.id not in f.locals:
        return _call_global(f, f.global_value(func.id, node), node)
    if isinstance(func, ast.Attribute):
        return _call_method(f, func, node)
    return call_object(f, _e["obj"](f, func), [_e["obj"](f, a) for a in node.args])


def _call_global(f: FunctionText, target: Any, node: ast.Call) -> NativeValue:
    args = node.args
    if target in f.module.functions:
        return _call_native(f, target, node)
    if target is primitives.was_set:
        return _was_set(f, node)
    if target in PRIMITIVES:
        return _call_primitive(f, target, node)
    if target is len:
        return NativeValue("int", _e["length"](f, _e["value"](f, args[0]), node))
    if target is id:
        return NativeValue("int", f.op(f"ptrtoint ptr {_e['obj'](f, args[0]).reg} to i64"))
    if target is int:
        return NativeValue("int", _e["integer"](f, args[0]))
    if target is type and len(args) == 1:
        return NativeValue("obj", _e["type_of"](f, _e["obj"](f, args[0])), type)
    if target is isinstance:
        return _isinstance(f, node)
    if target is set and not args:
        return f.own(f.api("PySet_New", "ptr", "ptr null"), set)
    if target is next and len(args) == 1:  # of something that never ends
        return f.own(f.api("PyIter_Next", "ptr", f"ptr {_e['obj'](f, args[0]).reg}"))
    if target is tuple:
        return f.own(f.api("PyList_AsTuple", "ptr", f"ptr {_e['obj'](f, args[0]).reg}"), tuple)
    if target is weakref.ref:
        found = _e["obj"](f, args[0])
        return f.own(f.api("PyWeakref_NewRef", "ptr", f"ptr {found.reg}", "ptr null"))
    result = call_object(f, f.object(target), [_e["obj"](f, a) for a in args])
    if isinstance(target, type):
        result.cls = target
    return result


def _was_set(f: FunctionText, node: ast.Call) -> NativeValue:
    """``was_set(x, "name")`` of an object whose class is known."""
    base, name = _e["obj"](f, node.args[0]), ast.literal_eval(node.args[1])
    if base.cls is None or not is_slot(base.cls, name):
        f.fail(node, "was_set of no known slot")
    at = f.op(f"getelementptr i8, ptr {base.reg}, i64 {slot_offset(base.cls, name)}")
    return NativeValue("bool", f.op(f"icmp ne ptr {f.op(f'load ptr, ptr {at}')}, null"))


def _isinstance(f: FunctionText, node: ast.Call) -> NativeValue:
    found, cls = _e["obj"](f, node.args[0]), _e["obj"](f, node.args[1])
    kind = _e["type_of"](f, found)
    usual = f.module.usual.get(f.global_value(node.args[1].id, node)) if isinstance(node.args[1], ast.Name) else None
    first = f.object(usual) if usual is not None else cls
    is_sub = f.op(
        f"call i1 @is_subtype(ptr {kind}, ptr {cls.reg}, ptr {first.reg}, "
        f"ptr {f.op(f.module.api_word('PyType_IsSubtype'))})"
    )
    if isinstance(node.args[0], ast.Name) and node.args[0].id in f.locals:
        target = f.global_value(node.args[1].id, node) if isinstance(node.args[1], ast.Name) else None
        local = f.locals[node.args[0].id]
        if local.cls is None:  # from here on it is read as that class: the test comes first, as anywhere in Python
            local.cls = target
    return NativeValue("bool", is_sub)


def _arguments(f: FunctionText, kinds: list[str], node: ast.Call, is_counted: bool = False) -> list[str]:
    if len(kinds) != len(node.args):
        f.fail(node, "wrong number of arguments")
    texts = []
    for kind, arg in zip(kinds, node.args, strict=True):
        found = _e["value"](f, arg)
        if is_counted and found.lasts:
            f.fail(node, "a local that owns no reference, so its count would be one too small")
        if kind == "args":
            if found.kind != "args":
                f.fail(node, "arguments are handed on as they came")
            texts += [f"ptr {found.reg}", f"i64 {found.reg}.n"]
        else:
            found = _e["as_kind"](f, found, kind, node)
            is_held = found.temp or found.lasts or found.is_constant or isinstance(arg, ast.Name)
            if kind == "obj" and not is_held:  # the callee may overwrite the place that the argument was read from
                f.do(f"call void @incref(ptr {found.reg})")
                found = f.own(found.reg, checked=False)
            texts.append(f"{LLVM[kind]} {found.reg}")
    return texts


def _call_native(f: FunctionText, target: Any, node: ast.Call) -> NativeValue:
    signature = signature_of(target)
    args = _arguments(f, [kind for _, kind, _ in signature.params], node)
    reg = f.op(f"call {signature.llvm_result} @{f.module.functions[target]}({', '.join(args)})")
    if signature.result == "obj":
        if is_lasting(signature.cls):
            f.check(f.op(f"icmp eq ptr {reg}, null"))
            return NativeValue("obj", reg, signature.cls, lasts=True)
        return f.own(reg)
    if signature.result == "int":
        return NativeValue("int", reg)
    f.check(f.op(f"icmp eq i8 {reg}, 2"))
    return f.object(None) if signature.result == "none" else NativeValue("bool", f.op(f"icmp eq i8 {reg}, 1"))


def _call_primitive(f: FunctionText, target: Any, node: ast.Call) -> NativeValue:
    symbol, result, kinds = PRIMITIVES[target]
    args = ", ".join(_arguments(f, list(kinds), node, target is primitives.refcount))
    if result == "none":
        f.do(f"call void @{symbol}({args})")
        return f.object(None)
    if result == "new":
        return f.own(f.op(f"call ptr @{symbol}({args})"))
    if result.startswith("lasting"):
        reg = f.op(f"call ptr @{symbol}({args})")
        if result != "lasting":
            f.check(f.op(f"icmp eq ptr {reg}, null"))
        return NativeValue("obj", reg, lasts=True)
    return NativeValue(result, f.op(f"call {LLVM[result]} @{symbol}({args})"))


def _call_method(f: FunctionText, func: ast.Attribute, node: ast.Call) -> NativeValue:
    if isinstance(func.value, ast.Name) and func.value.id not in f.locals:
        owner = f.global_value(func.value.id, node)
        known = _METHODS.get((type(owner), func.attr))
        if known is not None:
            return known(f, f.object(owner), *[_e["obj"](f, a) for a in node.args])
        return call_object(f, f.object(getattr(owner, func.attr)), [_e["obj"](f, a) for a in node.args])
    base = _e["obj"](f, func.value)
    args = [_e["obj"](f, a) for a in node.args]
    known = _METHODS.get((base.cls, func.attr))
    if known is not None:
        return known(f, base, *args)
    return _vectorcall(f, "PyObject_VectorcallMethod", f.object(func.attr), [base, *args])


def call_object(f: FunctionText, target: NativeValue, args: list[NativeValue]) -> NativeValue:
    """Call any Python callable."""
    return _vectorcall(f, "PyObject_Vectorcall", target, args)


def _vectorcall(f: FunctionText, api: str, target: NativeValue, args: list[NativeValue]) -> NativeValue:
    place = f.alloca(f"[{max(1, len(args))} x ptr]")
    # the holder of a borrowed argument may let go of it during the call
    for nr, arg in enumerate(args):
        f.do(f"call void @incref(ptr {arg.reg})")
        f.do(f"store ptr {arg.reg}, ptr {f.op(f'getelementptr ptr, ptr {place}, i64 {nr}')}")
    result = f.api(api, "ptr", f"ptr {target.reg}", f"ptr {place}", f"i64 {len(args)}", "ptr null")
    for arg in args:
        f.do(f"call void @decref(ptr {arg.reg})")
    return f.own(result)


def _append(f: FunctionText, base: NativeValue, what: NativeValue) -> NativeValue:
    grow = f.op(f.module.api_word("PyList_Append"))
    failed = f.op(f"call i32 @append(ptr {base.reg}, ptr {what.reg}, ptr {grow})")
    f.check(f.op(f"icmp slt i32 {failed}, 0"))
    return f.object(None)


def _add(f: FunctionText, base: NativeValue, what: NativeValue) -> NativeValue:
    failed = f.api("PySet_Add", "i32", f"ptr {base.reg}", f"ptr {what.reg}")
    f.check(f.op(f"icmp slt i32 {failed}, 0"))
    return f.object(None)


def _discard(f: FunctionText, base: NativeValue, what: NativeValue) -> NativeValue:
    failed = f.api("PySet_Discard", "i32", f"ptr {base.reg}", f"ptr {what.reg}")
    f.check(f.op(f"icmp slt i32 {failed}, 0"))
    return f.object(None)


def _clear_set(f: FunctionText, base: NativeValue) -> NativeValue:
    f.api("PySet_Clear", "i32", f"ptr {base.reg}")
    return f.object(None)


def _clear_list(f: FunctionText, base: NativeValue) -> NativeValue:
    """The list keeps its room: it will be as long at the next call."""
    f.do(f"call void @drain(ptr {base.reg})")
    return f.object(None)


def _clear_dict(f: FunctionText, base: NativeValue) -> NativeValue:
    f.api("PyDict_Clear", "void", f"ptr {base.reg}")
    return f.object(None)


def _get(f: FunctionText, base: NativeValue, key: NativeValue) -> NativeValue:
    """``d.get(key)``: borrowed, None if there is none. A key that cannot be hashed is an error."""
    reg = f.api("PyDict_GetItemWithError", "ptr", f"ptr {base.reg}", f"ptr {key.reg}")
    failed = f.op(f"call i1 @failed(ptr {reg}, ptr {f.op(f.module.api_word('PyErr_Occurred'))})")
    f.check(failed)
    none = f.object(None)
    return NativeValue("obj", f.op(f"select i1 {f.op(f'icmp eq ptr {reg}, null')}, ptr {none.reg}, ptr {reg}"))


_METHODS: dict[tuple[Any, str], Callable[..., NativeValue]] = {
    (list, "append"): _append,
    (list, "clear"): _clear_list,
    (dict, "clear"): _clear_dict,
    (dict, "get"): _get,
    (set, "add"): _add,
    (set, "clear"): _clear_set,
    (set, "discard"): _discard,
}
