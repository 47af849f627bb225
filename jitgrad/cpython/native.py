"""A module of native functions, see Note [Native Python].

Owns: ``make_module``, ``load_module``.
Must not know: LLVM, what the functions are for.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitgrad.cpython import expressions
from jitgrad.cpython.arrays import numpy_functions
from jitgrad.cpython.fronts import FRONT_ROWS, front_class
from jitgrad.cpython.getattr_text import getattr_text
from jitgrad.cpython.install import fill_words
from jitgrad.cpython.kept import keep_for_ever
from jitgrad.cpython.layout import ITEMS, SIZE, TYPE_VERSION, dict_offsets, finds_attributes, slot_offset
from jitgrad.cpython.module_text import ModuleText, Unsupported
from jitgrad.cpython.primitives import make_as_usual
from jitgrad.cpython.runtime_text import runtime_text
from jitgrad.cpython.translate import FunctionText, attributes, is_lasting, signature_of

__all__ = ["COMPARISONS", "Front", "Handles", "ModuleParts", "NativeModule", "NumberStub", "Stub", "TypeFront",
           "load_module", "make_module"]  # fmt: skip


class Stub(NamedTuple):
    """An entry that tries a hit, and else calls Python.

    Attributes:
        name: its symbol is ``stub_`` and the name.
        function: the native function; it says ``MISSED`` where it does nothing.
        constants: its first arguments; the others are those of the call.
        slow: what is called then, with the arguments of the call.
    """

    name: str
    function: Callable[..., Any]
    constants: tuple[Any, ...]
    slow: Callable[..., Any]


class NumberStub(NamedTuple):
    """What stands in a number slot of a type, such as ``nb_multiply``: it tries a hit, and else calls a method.

    Where another module's code stood in the slot before, that goes on: its address is the word ``before_`` with the
    slot's name.

    Attributes:
        slot: the slot's name; ``slot_`` and it is the symbol.
        function: the native function; it says ``MISSED`` where it does nothing.
        constants: its first arguments; the others are the operands, in the order in which they stand.
        method: what is called then, of the left operand; ``reflected`` of the right one, if it has that method and the
            left one is no tensor.
        arity: how many operands Python passes: 1, 2, or 3 for ``nb_power``, whose third one is usually None.
    """

    slot: str
    function: Callable[..., Any]
    constants: tuple[Any, ...]
    method: str
    reflected: str = ""
    arity: int = 2


class Front(NamedTuple):
    """Native code that CPython calls in the place of some Python functions, Note [Native fronts].

    Attributes:
        function: the native function: of a row, of the arguments of a call and, if it has a third parameter, of the
            names of the last ones of them, or None. It says ``MISSED`` where it does nothing.
        instead: a callable of Python that is called in its place, with a tuple of the arguments; None: nothing.
    """

    function: Callable[..., Any]
    instead: Callable[..., Any] | None = None


class TypeFront(NamedTuple):
    """Native code that makes the objects of a class, where it is called without arguments.

    Attributes:
        cls: the class. Once somebody changes it, its objects are made as usual.
        function: the native function, of the class.
    """

    cls: type
    function: Callable[..., Any]


class NativeModule(NamedTuple):
    """A module that can be compiled and loaded.

    Attributes:
        key: everything that its object code depends on.
        objects: what its words are.
        symbols: of its entries.
        text: prints it.
    """

    key: str
    objects: list[tuple[str, Any]]
    symbols: list[str]
    text: Callable[[], str]


_MANAGED = ("__dict__", "__weakref__")
"""Slots that the interpreter fills."""


class Handles:
    """What the pool of blank handles must know of the class of handles.

    Args:
        cls: the class.
        kept: slots that every use of a handle sets; all others are empty in a blank one.
    """

    def __init__(self, cls: type, kept: Sequence[str]) -> None:
        self.cls = cls
        slots = [n for base in cls.__mro__ for n in _slots_of(base) if n not in kept and n not in _MANAGED]
        self.wiped = {name: slot_offset(cls, name) for name in slots}
        self.owned = (slot_offset(cls, "__weakref__"), *dict_offsets(cls))


def _slots_of(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


class ModuleParts(NamedTuple):
    """What a module is made of.

    Attributes:
        functions: all native functions.
        entries: those that Python calls.
        stubs, numbers: entries of other forms.
        compare: the function of comparisons, and its operation for each of ``COMPARISONS``; None: there is none.
        fronts: see Note [Native fronts]; the module that has some finds attributes, Note [Attributes of tensors].
        handles: the class of ``new_handle``.
        missed: what a function of a stub or a front returns where it does nothing.
        makers: fronts of classes.
    """

    functions: Sequence[Callable[..., Any]]
    entries: Sequence[Callable[..., Any]]
    stubs: Sequence[Stub]
    numbers: Sequence[NumberStub]
    compare: tuple[Callable[..., Any], Sequence[Any]] | None
    fronts: Sequence[Front]
    handles: Handles
    missed: Any
    makers: Sequence[TypeFront] = ()


def _layout_key(text: str) -> str:
    """Everything that the object code depends on: the text, and the interpreter whose structs its offsets are of."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    digest.update(repr((sys.version_info[:3], sys.implementation.cache_tag)).encode())
    return digest.hexdigest()


def make_module(parts: ModuleParts) -> NativeModule:
    """The module of some native functions."""
    functions, entries, stubs, numbers, compare, fronts, handles, missed, makers = parts
    module = ModuleText(list(functions), {base: handles.cls for base in handles.cls.__mro__[1:-1]})
    module.parts = [FunctionText(module, f).translate(expressions) for f in functions]
    module.parts += [_entry(module, function) for function in entries]
    module.parts += [_stub(module, stub, missed) for stub in stubs]
    module.parts += [_number_stub(module, stub, handles.cls, missed) for stub in numbers]
    if compare is not None:
        module.parts.append(_compare_stub(module, *compare, missed))
    module.parts.append(_row_of(module))
    module.parts += [_front(module, front, missed) for front in fronts]
    module.parts += [_type_front(module, maker) for maker in makers]
    stamp: dict[str, Any] = {"cls": module.object_word(handles.cls), "owned": handles.owned}
    module.parts.append(runtime_text(module, module.api_word("driver"), handles.wiped, stamp))
    symbols = [f"entry_{f.__name__}" for f in entries] + [f"stub_{stub.name}" for stub in stubs]
    symbols += [f"slot_{stub.slot}" for stub in numbers] + ["activate"]
    if compare is not None:
        symbols.append("slot_tp_richcompare")
    if fronts and finds_attributes():
        module.parts.append(getattr_text(module, dict_offsets(handles.cls), (front_class(),)))
        symbols.append("slot_tp_getattro")
    symbols += [f"front_{front.function.__name__}" for front in fronts]
    symbols += [f"maker_{maker.cls.__name__}" for maker in makers]
    text = module.text(symbols)
    return NativeModule(_layout_key(text), module.objects, symbols, lambda: text)


def load_module(kernel: Any, module: NativeModule, addresses: dict[str, int]) -> dict[str, int]:
    """Fill the words of a loaded module; symbol -> address of each entry.

    Args:
        kernel: the loaded code, with an ``address``; it must live as long as its entries.
        addresses: of functions that are not in the C API.
    """
    find = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(kernel.address)
    keep_for_ever(kernel, find)  # slots and fronts lead to it
    fill_words(find(-1), module.objects, addresses | numpy_functions())
    return {symbol: find(nr) for nr, symbol in enumerate(module.symbols)}


def _stub(module: ModuleText, stub: Stub, missed: Any) -> str:
    """The fast calling convention: the function's own parameters, and the rest of the arguments."""
    signature = signature_of(stub.function)
    lines, args = [], []
    for nr, constant in enumerate(stub.constants):
        lines.append(f"  %c{nr} = {module.object_word(constant)}")
        args.append(f"ptr %c{nr}")
    required = len(signature.params) - len(stub.constants) - 1
    if signature.params[-1][1] != "args":
        raise Unsupported(f"{stub.function.__name__} does not take the rest of the arguments")
    for nr in range(required):
        lines += [f"  %p{nr}.at = getelementptr ptr, ptr %given, i64 {nr}", f"  %p{nr} = load ptr, ptr %p{nr}.at"]
        args.append(f"ptr %p{nr}")
    lines += [f"  %rest = getelementptr ptr, ptr %given, i64 {required}", f"  %rest.n = sub i64 %count, {required}"]
    args += ["ptr %rest", "i64 %rest.n"]
    return "\n".join(
        [
            f"define internal ptr @stub_{stub.name}(ptr %self, ptr %given, i64 %count) nounwind {{",
            f"  %few = icmp slt i64 %count, {required}",
            "  br i1 %few, label %ask, label %try",
            "try:",
            *lines,
            *_try_hit(module, stub.function, args, missed),
            "ask:",
            f"  %slow = {module.object_word(stub.slow)}",
            f"  %call = {module.api_word('PyObject_Vectorcall')}",
            "  %answer = call ptr %call(ptr %slow, ptr %given, i64 %count, ptr null)",
            "  ret ptr %answer",
            "}",
        ]
    )


def _try_hit(module: ModuleText, function: Callable[..., Any], args: list[str], missed: Any) -> list[str]:
    """Call a native function; return what it returns, or go to ``ask`` if that is ``missed``."""
    call = f"  %out = call ptr @{module.functions[function]}({', '.join(args)})"
    return [call, *_hit_or_ask(module, missed)]


def _hit_or_ask(module: ModuleText, missed: Any) -> list[str]:
    return [
        f"  %missed = {module.object_word(missed)}",
        "  %is.miss = icmp eq ptr %out, %missed",
        "  br i1 %is.miss, label %drop, label %hit",
        "hit:",
        "  ret ptr %out",
        "drop:",
        "  call void @decref(ptr %missed)",
        "  br label %ask",
    ]


def _number_stub(module: ModuleText, stub: NumberStub, cls: type, missed: Any) -> str:
    """``ptr (ptr, ...)`` of the operands. What is no hit goes where Python's own slots go: to the methods.

    Python calls the slot of a type with the operands as they stand, so the tensor may be the right one.
    """
    operands = [f"%o{nr}" for nr in range(stub.arity)]
    lines = [f"  %given = alloca [{stub.arity} x ptr]"]
    for nr, operand in enumerate(operands):
        lines += [f"  %at{nr} = getelementptr ptr, ptr %given, i64 {nr}", f"  store ptr {operand}, ptr %at{nr}"]
    constants = [f"%c{nr}" for nr in range(len(stub.constants))]
    lines += [f"  {c} = {module.object_word(value)}" for c, value in zip(constants, stub.constants, strict=True)]
    args = [f"ptr {c}" for c in constants]
    if any(kind == "args" for _, kind, _ in signature_of(stub.function).params):
        args += ["ptr %given", f"i64 {min(stub.arity, 2)}"]
    else:
        args += [f"ptr {operand}" for operand in operands[:2]]
    count = stub.arity
    if stub.arity == 3:
        lines += [f"  %none = {module.object_word(None)}", "  %is.pair = icmp eq ptr %o2, %none",
                  "  %n = select i1 %is.pair, i64 2, i64 3", "  br i1 %is.pair, label %try, label %ask"]  # fmt: skip
    else:
        lines += [f"  %n = add i64 0, {count}", "  br label %try"]
    call = f"  %call = {module.api_word('PyObject_VectorcallMethod')}"
    method = [
        f"  %name = {module.object_word(sys.intern(stub.method))}",
        "  %answer = call ptr %call(ptr %name, ptr %given, i64 %n, ptr null)",
        "  ret ptr %answer",
    ]
    if stub.arity > 1:
        reflect = [
            "  store ptr %o1, ptr %at0",
            "  store ptr %o0, ptr %at1",
            f"  %name.r = {module.object_word(sys.intern(stub.reflected))}",
            "  %answer.r = call ptr %call(ptr %name.r, ptr %given, i64 %n, ptr null)",
        ]
        if not stub.reflected:
            reflect = [f"  %answer.r = {module.object_word(NotImplemented)}", "  call void @incref(ptr %answer.r)"]
        method = [
            "  %kind.at = getelementptr i8, ptr %o0, i64 8",
            "  %kind = load ptr, ptr %kind.at",
            f"  %cls = {module.object_word(cls)}",
            f"  %ask.sub = {module.api_word('PyType_IsSubtype')}",
            "  %is.left = call i1 @is_subtype(ptr %kind, ptr %cls, ptr %cls, ptr %ask.sub)",
            "  br i1 %is.left, label %left, label %right",
            "left:",
            *method,
            "right:",
            *reflect,
            "  ret ptr %answer.r",
        ]
    head = f"define internal ptr @slot_{stub.slot}({', '.join(f'ptr {o}' for o in operands)}) nounwind {{"
    body = _try_hit(module, stub.function, args, missed)
    before = [
        f"  %before = {module.api_word(f'before_{stub.slot}')}",
        "  %is.first = icmp eq ptr %before, null",
        "  br i1 %is.first, label %method, label %go.on",
        "go.on:",
        f"  %answer.before = call ptr %before({', '.join(f'ptr {o}' for o in operands)})",
        "  ret ptr %answer.before",
        "method:",
    ]
    return "\n".join([head, *lines, "try:", *body, "ask:", *before, call, *method, "}"])


COMPARISONS = ("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__")
"""The special methods of ``tp_richcompare``, in the order of C's numbers for them."""


def _compare_stub(module: ModuleText, operate: Callable[..., Any], operations: Sequence[Any], missed: Any) -> str:
    """``tp_richcompare``; what is no hit goes to Python's own function, which calls the special methods."""
    lines = [f"  %op0 = {module.object_word(operations[0])}"]
    for nr, operation in enumerate(operations[1:], 1):
        lines += [f"  %w{nr} = {module.object_word(operation)}", f"  %is{nr} = icmp eq i32 %which, {nr}",
                  f"  %op{nr} = select i1 %is{nr}, ptr %w{nr}, ptr %op{nr - 1}"]  # fmt: skip
    lines.append(f"  %none = {module.object_word(None)}")
    args = [f"ptr %op{len(operations) - 1}", "ptr %none", "ptr %a", "ptr %b"]
    return "\n".join(
        [
            "define internal ptr @slot_tp_richcompare(ptr %a, ptr %b, i32 %which) nounwind {",
            *lines,
            *_try_hit(module, operate, args, missed),
            "ask:",
            f"  %call = {module.api_word('tp_richcompare')}",
            "  %answer = call ptr %call(ptr %a, ptr %b, i32 %which)",
            "  ret ptr %answer",
            "}",
        ]
    )


def _row_of(module: ModuleText) -> str:
    """``row_of(function)``: the row of its front; null if there is none."""
    return f"""
define internal ptr @row_of(ptr %function) nounwind {{
entry:
  %rows = {module.api_word("front_rows")}
  %key = ptrtoint ptr %function to i64
  %hash = lshr i64 %key, 4
  br label %next
next:
  %nr = phi i64 [ %hash, %entry ], [ %more, %other ]
  %place = and i64 %nr, {FRONT_ROWS - 1}
  %word = shl i64 %place, 1
  %at = getelementptr i64, ptr %rows, i64 %word
  %found = load i64, ptr %at
  %same = icmp eq i64 %found, %key
  br i1 %same, label %here, label %look
look:
  %empty = icmp eq i64 %found, 0
  br i1 %empty, label %none, label %other
other:
  %more = add i64 %nr, 1
  br label %next
here:
  %at.row = getelementptr i64, ptr %at, i64 1
  %row = load ptr, ptr %at.row
  ret ptr %row
none:
  ret ptr null
}}"""


def _front(module: ModuleText, front: Front, missed: Any) -> str:
    """What runs Python functions that have it. The interpreter gets what is no hit.

    Where the native function does not take names, the interpreter runs calls that have some.
    """
    function = front.function
    takes_names = len(signature_of(function).params) == 3
    args = ["ptr %row", "ptr %given", "i64 %count", "ptr %named"][: 3 + takes_names]
    return "\n".join(
        [
            f"define internal ptr @front_{function.__name__}(ptr %f, ptr %given, i64 %flagged, ptr %names) nounwind {{",
            "entry:",
            "  %plain = and i64 %flagged, 9223372036854775807",  # without PY_VECTORCALL_ARGUMENTS_OFFSET
            f"  %none = {module.object_word(None)}",
            "  %has.names = icmp ne ptr %names, null",
            f"  br i1 %has.names, label %{'more' if takes_names else 'ask'}, label %look",
            "more:",
            f"  %more.at = getelementptr i8, ptr %names, i64 {SIZE}",
            "  %more.n = load i64, ptr %more.at",
            "  %more.all = add i64 %plain, %more.n",
            "  br label %look",
            "look:",
            "  %count = phi i64 [ %plain, %entry ], [ %more.all, %more ]",
            "  %named = phi ptr [ %none, %entry ], [ %names, %more ]",
            "  %row = call ptr @row_of(ptr %f)",
            "  %unknown = icmp eq ptr %row, null",
            "  br i1 %unknown, label %ask, label %try",
            "try:",
            *(_try_hit(module, function, args, missed) if front.instead is None else
              _try_python(module, front.instead, 2 + takes_names, missed)),
            "ask:",
            f"  %run = {module.api_word('function_runner')}",
            "  %answer = call ptr %run(ptr %f, ptr %given, i64 %flagged, ptr %names)",
            "  ret ptr %answer",
            "}",
        ]
    )  # fmt: skip


def _type_front(module: ModuleText, maker: TypeFront) -> str:
    """What runs the class; the word ``version_`` with its name is the address of the version that is known."""
    name = maker.cls.__name__
    return "\n".join(
        [
            f"define internal ptr @maker_{name}(ptr %cls, ptr %given, i64 %flagged, ptr %names) nounwind {{",
            "  %pass = alloca [3 x ptr]",
            "  %count = and i64 %flagged, 9223372036854775807",
            "  %has.none = icmp eq i64 %count, 0",
            "  %no.names = icmp eq ptr %names, null",
            f"  %at.version = getelementptr i8, ptr %cls, i64 {TYPE_VERSION}",
            "  %version = load i32, ptr %at.version",
            "  %wide = zext i32 %version to i64",
            f"  %known = {module.api_word(f'version_{name}')}",
            "  %known.version = load i64, ptr %known",
            "  %same = icmp eq i64 %wide, %known.version",
            "  %is.known = icmp ne i64 %wide, 0",
            "  %as.was = and i1 %same, %is.known",
            "  %bare = and i1 %has.none, %no.names",
            "  %usual = and i1 %bare, %as.was",
            "  br i1 %usual, label %make, label %ask",
            "make:",
            f"  %made = call ptr @{module.functions[maker.function]}(ptr %cls)",
            "  ret ptr %made",
            "ask:",
            "  br i1 %no.names, label %pack, label %add",
            "add:",
            f"  %at.more = getelementptr i8, ptr %names, i64 {SIZE}",
            "  %more = load i64, ptr %at.more",
            "  %with.names = add i64 %count, %more",
            "  br label %pack",
            "pack:",
            "  %all = phi i64 [ %count, %ask ], [ %with.names, %add ]",
            f"  %none = {module.object_word(None)}",
            "  %named = select i1 %no.names, ptr %none, ptr %names",
            "  %args = call ptr @pack(ptr %given, i64 %all)",
            "  %failed = icmp eq ptr %args, null",
            "  br i1 %failed, label %error, label %slow",
            "error:",
            "  ret ptr null",
            "slow:",
            "  %at.args = getelementptr ptr, ptr %pass, i64 1",
            "  %at.names = getelementptr ptr, ptr %pass, i64 2",
            "  store ptr %cls, ptr %pass",
            "  store ptr %args, ptr %at.args",
            "  store ptr %named, ptr %at.names",
            f"  %as.usual = {module.object_word(make_as_usual)}",
            f"  %call = {module.api_word('PyObject_Vectorcall')}",
            "  %out = call ptr %call(ptr %as.usual, ptr %pass, i64 3, ptr null)",
            "  call void @decref(ptr %args)",
            "  ret ptr %out",
            "}",
        ]
    )


def _try_python(module: ModuleText, function: Callable[..., Any], count: int, missed: Any) -> list[str]:
    """``_try_hit`` of a front by a callable of Python, which gets the first so many of row, arguments, names."""
    return [
        "  %args = call ptr @pack(ptr %given, i64 %count)",
        "  %no.args = icmp eq ptr %args, null",
        "  br i1 %no.args, label %error, label %python",
        "error:",
        "  ret ptr null",
        "python:",
        "  %pass = alloca [3 x ptr]",
        "  %pass.args = getelementptr ptr, ptr %pass, i64 1",
        "  %pass.names = getelementptr ptr, ptr %pass, i64 2",
        "  store ptr %row, ptr %pass",
        "  store ptr %args, ptr %pass.args",
        "  store ptr %named, ptr %pass.names",
        f"  %python.f = {module.object_word(function)}",
        f"  %python.call = {module.api_word('PyObject_Vectorcall')}",
        f"  %out = call ptr %python.call(ptr %python.f, ptr %pass, i64 {count}, ptr null)",
        "  call void @decref(ptr %args)",
        *_hit_or_ask(module, missed),
    ]


def _entry(module: ModuleText, function: Callable[..., Any]) -> str:
    """Python's fast calling convention: arguments unpacked, the result as an object.

    ``Args`` are one tuple, as they are for the function in Python.
    """
    signature = signature_of(function)
    lines, args = [], []
    for nr, (name, kind, _) in enumerate(signature.params):
        at = f"%p.{name}.at"
        lines += [f"  {at} = getelementptr ptr, ptr %given, i64 {nr}", f"  %p.{name} = load ptr, ptr {at}"]
        if kind == "args":
            lines += [f"  %p.{name}.first = getelementptr i8, ptr %p.{name}, i64 {ITEMS}",
                      f"  %p.{name}.size = getelementptr i8, ptr %p.{name}, i64 {SIZE}",
                      f"  %p.{name}.n = load i64, ptr %p.{name}.size"]  # fmt: skip
            args += [f"ptr %p.{name}.first", f"i64 %p.{name}.n"]
        elif kind == "bool":
            lines += [f"  %p.{name}.true = {module.object_word(True)}",
                      f"  %p.{name}.i = icmp eq ptr %p.{name}, %p.{name}.true"]  # fmt: skip
            args.append(f"i1 %p.{name}.i")
        elif kind == "int":
            lines.append(f"  %p.{name}.i = call i64 @as_word(ptr %p.{name})")
            args.append(f"i64 %p.{name}.i")
        else:
            args.append(f"ptr %p.{name}")
    call = f"call {signature.llvm_result} @{module.functions[function]}({', '.join(args)})"
    required = len(signature.params)
    head = [
        f"define internal ptr @entry_{function.__name__}(ptr %self, ptr %given, i64 %count) {attributes(function)} {{",
        f"  %few = icmp slt i64 %count, {required}",
        "  br i1 %few, label %wrong, label %go",
        "wrong:",
        f"  %te = {module.object_word(TypeError)}",
        f"  %msg = {module.object_word(f'{function.__name__}: missing arguments')}",
        f"  %set = {module.api_word('PyErr_SetObject')}",
        "  call void %set(ptr %te, ptr %msg)",
        "  ret ptr null",
        "go:",
    ]
    return "\n".join([*head, *lines, f"  %result = {call}", *_boxed(module, signature), "}"])


def _boxed(module: ModuleText, signature: Any) -> list[str]:
    result = signature.result
    if result == "obj":
        if not is_lasting(signature.cls):
            return ["  ret ptr %result"]
        return ["  %failed = icmp eq ptr %result, null", "  br i1 %failed, label %error, label %fine", "fine:",
                "  call void @incref(ptr %result)", "  br label %error", "error:", "  ret ptr %result"]  # fmt: skip
    if result == "int":
        return ["  %o = call ptr @box_word(i64 %result)", "  ret ptr %o"]
    yes, no = (None, None) if result == "none" else (True, False)
    return [
        "  %failed = icmp eq i8 %result, 2",
        "  br i1 %failed, label %error, label %fine",
        "error:",
        "  ret ptr null",
        "fine:",
        f"  %yes = {module.object_word(yes)}",
        f"  %no = {module.object_word(no)}",
        "  %one = icmp eq i8 %result, 1",
        "  %answer = select i1 %one, ptr %yes, ptr %no",
        "  call void @incref(ptr %answer)",
        "  ret ptr %answer",
    ]

