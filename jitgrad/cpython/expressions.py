"""Expressions of the subset, as LLVM text, see Note [Native Python].

Owns: ``value``, ``truth``, ``integer`` and what they need: slots, items, comparisons, calls.
Must not know: statements.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

from jitgrad.cpython import calls
from jitgrad.cpython.layout import (
    DICT_USED,
    ITEMS,
    LIST_ITEMS,
    SET_USED,
    SIZE,
    TYPE,
    class_of_slot,
    is_slot,
    slot_offset,
)
from jitgrad.cpython.translate import FunctionText, NativeValue, is_lasting

__all__ = ["as_kind", "integer", "item", "length", "store", "truth", "value"]

_ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or"}
_ORDER = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge"}


def value(f: FunctionText, node: ast.expr) -> NativeValue:
    """Any expression."""
    if isinstance(node, ast.Name):
        return f.read(node.id, node)
    if isinstance(node, ast.Constant):
        if type(node.value) is int:
            return NativeValue("int", str(node.value))
        if type(node.value) is bool:
            return NativeValue("bool", "true" if node.value else "false")
        return f.object(node.value)
    if isinstance(node, ast.Attribute):
        return _attribute(f, node)
    if isinstance(node, ast.Subscript):
        return _subscript(f, node)
    if isinstance(node, ast.Call):
        return calls.call(f, node)
    if isinstance(node, ast.Tuple):
        return _tuple(f, node)
    if isinstance(node, ast.List) and not node.elts:
        return f.own(f.api("PyList_New", "ptr", "i64 0"), list)
    if isinstance(node, ast.Dict) and not node.keys:
        return f.own(f.api("PyDict_New", "ptr"), dict)
    if isinstance(node, ast.BinOp):
        left, right = integer(f, node.left), integer(f, node.right)
        if type(node.op) not in _ARITHMETIC:
            f.fail(node, "an operator outside the subset")
        return NativeValue("int", f.op(f"{_ARITHMETIC[type(node.op)]} i64 {left}, {right}"))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return NativeValue("int", f.op(f"sub i64 0, {integer(f, node.operand)}"))
    if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
        return NativeValue("bool", truth(f, node))
    if isinstance(node, ast.IfExp):
        return _choice(f, node)
    f.fail(node, "an expression outside the subset")


def as_kind(f: FunctionText, found: NativeValue, kind: str, node: ast.AST) -> NativeValue:
    """A value converted to an object, a machine word or a truth value."""
    if found.kind == kind:
        return found
    if kind == "obj":
        if found.kind == "int":
            return f.own(f.op(f"call ptr @box_word(i64 {found.reg})"), int)
        if found.kind == "bool":
            yes, no = f.object(True), f.object(False)
            return NativeValue("obj", f.op(f"select i1 {found.reg}, ptr {yes.reg}, ptr {no.reg}"), bool)
        return f.own(f.op(f"call ptr @pack(ptr {found.reg}, i64 {found.reg}.n)"), tuple)
    if kind == "int" and found.kind == "obj":
        return NativeValue("int", f.op(f"call i64 @as_word(ptr {found.reg})"))
    if kind == "int" and found.kind == "bool":
        return NativeValue("int", f.op(f"zext i1 {found.reg} to i64"))
    if kind == "bool":
        return NativeValue("bool", _truth_of(f, found, node))
    f.fail(node, f"{found.kind} where {kind} is needed")


def integer(f: FunctionText, node: ast.expr) -> str:
    """An expression as a machine word."""
    return as_kind(f, value(f, node), "int", node).reg


def obj(f: FunctionText, node: ast.expr) -> NativeValue:
    """An expression as an object."""
    return as_kind(f, value(f, node), "obj", node)


def _choice(f: FunctionText, node: ast.IfExp) -> NativeValue:
    """``a if test else b``, of objects. It lasts if both do."""
    done, labels = f.label("chosen"), (f.label("yes"), f.label("no"))
    test = f.condition(node.test)
    f.branch(test, *labels)
    parts: list[tuple[int, NativeValue]] = []  # with the line behind each
    for label, part in zip(labels, (node.body, node.orelse), strict=True):
        f.start(label)
        keep = len(f.temps)
        found = obj(f, part)
        parts.append((len(f.lines), found))
        f.release_temps(keep)
        f.jump(done)
    lasts = all(found.lasts or found.is_constant for _, found in parts)
    place = f.alloca("ptr") if lasts else f.owned_place()
    for line, found in reversed(parts):
        owns = f"store ptr null, ptr {found.temp}" if found.temp else f"call void @incref(ptr {found.reg})"
        f.lines[line:line] = [*([] if lasts else [f"  {owns}"]), f"  store ptr {found.reg}, ptr {place}"]
    f.start(done)
    if not lasts:
        f.temps.append(place)
    return NativeValue("obj", f.op(f"load ptr, ptr {place}"), None, "" if lasts else place, lasts)


# --- truth ---


def truth(f: FunctionText, node: ast.expr) -> str:
    """An expression's truth, as i1."""
    if isinstance(node, ast.BoolOp):
        return _bool_op(f, node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f.op(f"xor i1 {truth(f, node.operand)}, true")
    if isinstance(node, ast.Compare):
        if len(node.ops) != 1:
            f.fail(node, "a chain of comparisons")
        return _compare(f, node.left, node.ops[0], node.comparators[0], node)
    return _truth_of(f, value(f, node), node)


def _truth_of(f: FunctionText, found: NativeValue, node: ast.AST) -> str:
    if found.kind == "bool":
        return found.reg
    if found.kind == "int":
        return f.op(f"icmp ne i64 {found.reg}, 0")
    if found.kind == "args":
        return f.op(f"icmp ne i64 {found.reg}.n, 0")
    if found.cls is bool:
        return f.op(f"icmp eq ptr {found.reg}, {f.object(True).reg}")
    if found.cls in (list, tuple, dict, set):
        return f.op(f"icmp ne i64 {length(f, found, node)}, 0")
    is_true = f.api("PyObject_IsTrue", "i32", f"ptr {found.reg}")
    f.check(f.op(f"icmp slt i32 {is_true}, 0"))
    return f.op(f"icmp ne i32 {is_true}, 0")


def _bool_op(f: FunctionText, node: ast.BoolOp) -> str:
    """``and``, ``or``: the right operand is computed only where the left one leaves it open."""
    place, done = f.alloca("i1"), f.label("known")
    stops = isinstance(node.op, ast.Or)
    for nr, part in enumerate(node.values):
        found = truth(f, part)
        f.do(f"store i1 {found}, ptr {place}")
        if nr < len(node.values) - 1:
            following = f.label("open")
            f.branch(found, done if stops else following, following if stops else done)
            f.start(following)
    f.jump(done)
    f.start(done)
    return f.op(f"load i1, ptr {place}")


def _compare(f: FunctionText, left: ast.expr, op: ast.cmpop, right: ast.expr, node: ast.AST) -> str:
    if isinstance(op, ast.Is | ast.IsNot):
        a, b = obj(f, left), obj(f, right)
        return f.op(f"icmp {'eq' if isinstance(op, ast.Is) else 'ne'} ptr {a.reg}, {b.reg}")
    if isinstance(op, ast.In | ast.NotIn):
        return _contains(f, obj(f, left), obj(f, right), isinstance(op, ast.NotIn), node)
    a, b = value(f, left), value(f, right)
    for side in (a, b):
        if side.kind == "obj" and side.cls is not int:
            f.fail(node, "only ints are compared by value; use ``is`` or ``same``")
    x, y = (as_kind(f, side, "int", node).reg for side in (a, b))
    return f.op(f"icmp {_ORDER[type(op)]} i64 {x}, {y}")


def _contains(f: FunctionText, member: NativeValue, where: NativeValue, is_negated: bool, node: ast.AST) -> str:
    name = {set: "PySet_Contains", dict: "PyDict_Contains"}.get(where.cls)
    if name is None:
        f.fail(node, "``in`` for something that is no set or dict")
    found = f.api(name, "i32", f"ptr {where.reg}", f"ptr {member.reg}")
    f.check(f.op(f"icmp slt i32 {found}, 0"))
    return f.op(f"icmp {'eq' if is_negated else 'ne'} i32 {found}, 0")


# --- attributes and items ---


def _attribute(f: FunctionText, node: ast.Attribute) -> NativeValue:
    if isinstance(node.value, ast.Name) and node.value.id not in f.locals:
        owner = f.global_value(node.value.id, node)
        if inspect.ismodule(owner) or isinstance(owner, type):
            return f.object(getattr(owner, node.attr))
    base = value(f, node.value)
    if base.kind != "obj":
        f.fail(node, "an attribute of no object")
    cls = base.cls
    if cls is None or not is_slot(cls, node.attr):
        return f.own(f.api("PyObject_GetAttr", "ptr", f"ptr {base.reg}", f"ptr {f.object(node.attr).reg}"))
    at = f.op(f"getelementptr i8, ptr {base.reg}, i64 {slot_offset(cls, node.attr)}")
    reg = f.op(f"load ptr, ptr {at}")
    known = class_of_slot(cls, node.attr)
    defaults = getattr(cls, "NATIVE_DEFAULTS", None)
    if defaults is None:  # its ``__init__`` sets every slot
        lasts = is_lasting(known) or (base.lasts and node.attr in getattr(cls, "NATIVE_FIXED", ()))
        return NativeValue("obj", reg, known, lasts=lasts)
    if node.attr in defaults:
        default = f.object(defaults[node.attr])
        unset = f.op(f"icmp eq ptr {reg}, null")
        return NativeValue("obj", f.op(f"select i1 {unset}, ptr {default.reg}, ptr {reg}"), known)
    return _if_set(f, base, node.attr, reg, known)


def _if_set(f: FunctionText, base: NativeValue, name: str, reg: str, cls: Any) -> NativeValue:
    """A slot's object; where it was never set, what ``__getattr__`` says."""
    temp, place = f.owned_place(), f.alloca("ptr")
    f.temps.append(temp)
    f.do(f"store ptr {reg}, ptr {place}")
    unset, done = f.label("unset"), f.label("set")
    f.branch(f.op(f"icmp eq ptr {reg}, null"), unset, done)
    f.start(unset)
    if name in getattr(base.cls, "NATIVE_COUNTERS", ()):
        slot = f.op(f"getelementptr i8, ptr {base.reg}, i64 {slot_offset(base.cls, name)}")
        made = f.op(f"call ptr @new_counter(ptr {f.object(0).reg}, ptr {f.op(f.module.api_word('PyList_New'))})")
        f.check(f.op(f"icmp eq ptr {made}, null"))
        f.do(f"store ptr {made}, ptr {slot}")  # the slot owns it
        f.do(f"store ptr {made}, ptr {place}")
        f.jump(done)
        f.start(done)
        return NativeValue("obj", f.op(f"load ptr, ptr {place}"), cls)
    guards = getattr(base.cls, "NATIVE_GUARDS", {}).get(name, ())
    if guards:  # None, unless another slot says that there is more to it
        none, ask = f.object(None), f.label("ask")
        f.do(f"store ptr {none.reg}, ptr {place}")
        for guard in guards:
            other = f.op(
                f"load ptr, ptr {f.op(f'getelementptr i8, ptr {base.reg}, i64 {slot_offset(base.cls, guard)}')}"
            )
            is_none = f.op(f"icmp eq ptr {other}, {none.reg}")
            following = f.label("guard")
            f.branch(f.op(f"or i1 {f.op(f'icmp eq ptr {other}, null')}, {is_none}"), following, ask)
            f.start(following)
        f.jump(done)
        f.start(ask)
    found = f.api("PyObject_GetAttr", "ptr", f"ptr {base.reg}", f"ptr {f.object(name).reg}")
    f.check(f.op(f"icmp eq ptr {found}, null"))
    f.do(f"store ptr {found}, ptr {temp}")
    f.do(f"store ptr {found}, ptr {place}")
    f.jump(done)
    f.start(done)
    # the temporary owns the object in one of the two cases only: keeping it needs a reference of its own
    return NativeValue("obj", f.op(f"load ptr, ptr {place}"), cls)


def store(f: FunctionText, target: ast.expr, found: NativeValue) -> None:
    """``x.slot = value`` or ``x[i] = value``."""
    found = as_kind(f, found, "obj", target)
    if isinstance(target, ast.Attribute):
        base = obj(f, target.value)
        if base.cls is not None and is_slot(base.cls, target.attr):
            at = f.op(f"getelementptr i8, ptr {base.reg}, i64 {slot_offset(base.cls, target.attr)}")
            _exchange(f, at, found)
            return
        name = f.object(target.attr)
        failed = f.api("PyObject_SetAttr", "i32", f"ptr {base.reg}", f"ptr {name.reg}", f"ptr {found.reg}")
        f.check(f.op(f"icmp slt i32 {failed}, 0"))
        return
    if not isinstance(target, ast.Subscript):
        f.fail(target, "cannot be assigned to")
    base = obj(f, target.value)
    if base.cls is list:
        items = f.op(f"load ptr, ptr {f.op(f'getelementptr i8, ptr {base.reg}, i64 {LIST_ITEMS}')}")
        _exchange(f, f.op(f"getelementptr ptr, ptr {items}, i64 {integer(f, target.slice)}"), found)
        return
    if base.cls is not dict:
        f.fail(target, "items of something that is no list or dict")
    key = obj(f, target.slice)
    failed = f.api("PyDict_SetItem", "i32", f"ptr {base.reg}", f"ptr {key.reg}", f"ptr {found.reg}")
    f.check(f.op(f"icmp slt i32 {failed}, 0"))


def _exchange(f: FunctionText, at: str, found: NativeValue) -> None:
    new = f.take(found)
    old = f.op(f"load ptr, ptr {at}")
    f.do(f"store ptr {new}, ptr {at}")
    f.do(f"call void @xdecref(ptr {old})")


def length(f: FunctionText, found: NativeValue, node: ast.AST) -> str:
    """``len`` of a list, tuple, dict, set or of arguments."""
    if found.kind == "args":
        return f"{found.reg}.n"
    if found.cls in (list, tuple):
        return f.op(f"load i64, ptr {f.op(f'getelementptr i8, ptr {found.reg}, i64 {SIZE}')}")
    if found.cls in (dict, set):
        used = DICT_USED if found.cls is dict else SET_USED
        return f.op(f"load i64, ptr {f.op(f'getelementptr i8, ptr {found.reg}, i64 {used}')}")
    return f.api("PyObject_Size", "i64", f"ptr {found.reg}")


def item(f: FunctionText, found: NativeValue, index: str, node: ast.AST) -> NativeValue:
    """Item ``index`` (an i64, in range) of a list, a tuple or of arguments; borrowed."""
    if found.kind == "args":
        at = f.op(f"getelementptr ptr, ptr {found.reg}, i64 {index}")
    elif found.cls is list:
        items = f.op(f"load ptr, ptr {f.op(f'getelementptr i8, ptr {found.reg}, i64 {LIST_ITEMS}')}")
        at = f.op(f"getelementptr ptr, ptr {items}, i64 {index}")
    elif found.cls is tuple:
        at = f.op(f"getelementptr ptr, ptr {f.op(f'getelementptr i8, ptr {found.reg}, i64 {ITEMS}')}, i64 {index}")
    else:
        f.fail(node, "items of something that is no list or tuple")
    lasts = found.kind == "args" or (found.lasts and found.cls is tuple)
    return NativeValue("obj", f.op(f"load ptr, ptr {at}"), lasts=lasts)


def _subscript(f: FunctionText, node: ast.Subscript) -> NativeValue:
    base = value(f, node.value)
    if base.cls is not dict:
        return item(f, base, integer(f, node.slice), node)
    key = obj(f, node.slice)
    return f.own(f.api("PyObject_GetItem", "ptr", f"ptr {base.reg}", f"ptr {key.reg}"))


def _tuple(f: FunctionText, node: ast.Tuple) -> NativeValue:
    if not node.elts:
        return f.object(())
    parts = [obj(f, part) for part in node.elts]
    made = f.own(f.api("PyTuple_New", "ptr", f"i64 {len(parts)}"), tuple)
    for nr, part in enumerate(parts):
        f.do(f"call void @incref(ptr {part.reg})")
        f.do(f"store ptr {part.reg}, ptr {f.op(f'getelementptr i8, ptr {made.reg}, i64 {ITEMS + 8 * nr}')}")
    return made


def type_of(f: FunctionText, found: NativeValue) -> str:
    """The type of an object; borrowed."""
    return f.op(f"load ptr, ptr {f.op(f'getelementptr i8, ptr {found.reg}, i64 {TYPE}')}")


calls.install_expressions(value, obj, integer, as_kind, length, type_of)