"""Python functions of the subset to LLVM text, see Note [Native Python].

Owns: ``FunctionText``: registers, locals, temporaries, statements.
Must not know: expressions (``expressions.py``), what a function is for.

# Note [Lasting references]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# A local variable owns a reference: what it was read from may be overwritten, or Python may run and let go of it. Of
# most that a hit looks at, neither can happen, and counting up and down was a quarter of its time. So a class may say
# ``NATIVE_LASTS``: each of its objects that native code can reach is held by something that outlives the function. Then
# locals, parameters and results that are annotated with the class own nothing. ``NATIVE_FIXED`` names slots of it that
# are never assigned again; what was read from such a slot, and the items of such a tuple, last as well. Example:
#
#     child: TrieNode = node.last    # one load
#     ids: tuple = child.ids         # one load
#     return takes(ids[0], x)        # one load, and a call
#
# Trie nodes last because their trie keeps them, and what leaves the trie while calls are recorded is kept until these
# are over (``Trie.outlived``); events and plans of ends last because their nodes do; the recorder that ``active``
# finds, because its call has not ended. Arguments last, too: the caller holds them. A local that one statement assigns
# owns nothing if that lasts; one that several do owns what it has, unless its class lasts.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from jitgrad.cpython.layout import class_of_hint
from jitgrad.cpython.module_text import ModuleText, Unsupported
from jitgrad.cpython.primitives import INLINED, ONCE_PER_CALL, OPTIMIZED

__all__ = ["FunctionText", "Local", "NativeValue", "attributes", "is_lasting", "signature_of"]


@dataclass(slots=True)
class NativeValue:
    """The result of an expression.

    Attributes:
        kind: ``"obj"`` (a ``ptr``), ``"int"`` (``i64``) or ``"bool"`` (``i1``), ``"args"`` (a C array and its length).
        reg: the register or literal.
        cls: the class that an object is known to have.
        temp: the temporary that owns the object; empty for borrowed ones.
        lasts: the object outlives the function, see Note [Lasting references].
        is_constant: it is there for good.
    """

    kind: str
    reg: str
    cls: Any = None
    temp: str = ""
    lasts: bool = False
    is_constant: bool = False


@dataclass(slots=True)
class Local:
    """A local variable.

    Attributes:
        kind: as of ``NativeValue``.
        place: where it lives: a register for parameters that are never assigned.
        cls: its class.
        lasts: what it holds outlives the function, so it owns no reference.
    """

    kind: str
    place: str
    cls: Any
    is_register: bool = False
    lasts: bool = False


LLVM = {"obj": "ptr", "int": "i64", "bool": "i1"}


def is_lasting(cls: Any) -> bool:
    """Whether objects of a class outlive the functions that look at them, see Note [Lasting references]."""
    return bool(getattr(cls, "NATIVE_LASTS", False))


def _kind(hint: Any) -> str:
    text = str(hint)
    return text if text in ("int", "bool") else "args" if text == "Args" else "none" if text == "None" else "obj"


@dataclass(slots=True)
class _Signature:
    params: list[tuple[str, str, Any]]
    result: str
    cls: Any

    @property
    def llvm_params(self) -> str:
        parts = []
        for name, kind, _ in self.params:
            parts += [f"ptr %p.{name}", f"i64 %p.{name}.n"] if kind == "args" else [f"{LLVM[kind]} %p.{name}"]
        return ", ".join(parts)

    @property
    def llvm_result(self) -> str:
        """``ptr`` (null: an error), or ``i8``: 0, 1, or 2 for an error; ``i64`` of functions that cannot fail."""
        return {"obj": "ptr", "int": "i64"}.get(self.result, "i8")


def attributes(function: Callable[..., Any]) -> str:
    """The attributes of a native function's text: LLVM compiles fast what does not run once per operation."""
    if function in INLINED:
        return "nounwind alwaysinline"
    if function in OPTIMIZED:
        return "nounwind"
    return "nounwind noinline" if function in ONCE_PER_CALL else "nounwind noinline optnone"


def _source_of(function: Callable[..., Any]) -> str:
    """The function's text. ``inspect.getsource`` reads a function token by token to find its end, in each process."""
    code = function.__code__
    ends = [end for _, end, _, _ in code.co_positions() if end is not None]
    if not ends:  # an interpreter that was started with ``-X no_debug_ranges``
        return inspect.getsource(function)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    return "".join(lines[code.co_firstlineno - 1 : max(ends)])


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements of the subset assign to. Expressions assign none, so nothing walks through them."""
    for stmt in body:
        for target in getattr(stmt, "targets", None) or (getattr(stmt, "target", None),):
            if target is not None:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        yield from _assigned([*getattr(stmt, "body", ()), *getattr(stmt, "orelse", ())])


@functools.cache
def signature_of(function: Callable[..., Any]) -> _Signature:
    """Kinds and classes of a native function's parameters, and the kind of its result."""
    hints, names = function.__annotations__, function.__globals__
    params = []
    for name in inspect.signature(function).parameters:
        hint = hints.get(name, "Any")
        params.append((name, _kind(hint), class_of_hint(hint, names)))
    result = hints.get("return", "Any")
    return _Signature(params, _kind(result), class_of_hint(result, names))


class FunctionText:
    """One function under translation."""

    def __init__(self, module: ModuleText, function: Callable[..., Any]) -> None:
        self.module = module
        self.function = function
        self.symbol = module.functions[function]
        self.signature = signature_of(function)
        tree = ast.parse(textwrap.dedent(_source_of(function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        self.tree = tree
        self.assigned = Counter(_assigned(tree.body))
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.cleanup: list[str] = []
        self.locals: dict[str, Local] = {}
        self.temps: list[str] = []
        self.loops: list[tuple[str, str]] = []
        self._next = 0
        self._is_ended = False

    # --- text ---

    def fail(self, node: ast.AST, why: str) -> NoReturn:
        code = self.function.__code__
        line = code.co_firstlineno + getattr(node, "lineno", 1) - 1
        raise Unsupported(f"{code.co_filename}:{line}: {why}: {ast.unparse(node)}")

    def op(self, text: str) -> str:
        self._next += 1
        self.lines.append(f"  %v{self._next} = {text}")
        return f"%v{self._next}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, hint: str) -> str:
        self._next += 1
        return f"{hint}{self._next}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self._is_ended = False

    def jump(self, label: str) -> None:
        if not self._is_ended:
            self.do(f"br label %{label}")
        self._is_ended = True

    def branch(self, cond: str, yes: str, no: str) -> None:
        self.do(f"br i1 {cond}, label %{yes}, label %{no}")
        self._is_ended = True

    def alloca(self, kind: str) -> str:
        self._next += 1
        place = f"%a{self._next}"
        self.allocas.append(f"  {place} = alloca {kind}")
        return place

    def owned_place(self) -> str:
        """A place for an owned reference: empty at the start, released when the function is left."""
        place = self.alloca("ptr")
        self.allocas.append(f"  store ptr null, ptr {place}")
        self.cleanup.append(place)
        return place

    def api(self, name: str, result: str, *args: str) -> str:
        """Call a C API function."""
        function = self.op(self.module.api_word(name))
        if result == "void":
            self.do(f"call void {function}({', '.join(args)})")
            return ""
        return self.op(f"call {result} {function}({', '.join(args)})")

    def check(self, failed: str) -> None:
        """Leave by the error exit if the i1 is true."""
        on = self.label("on")
        self.branch(failed, "error", on)
        self.start(on)

    # --- references ---

    def own(self, reg: str, cls: Any = None, checked: bool = True) -> NativeValue:
        """A new reference that a C call has returned; null is an error."""
        if checked:
            self.check(self.op(f"icmp eq ptr {reg}, null"))
        temp = self.owned_place()
        self.temps.append(temp)
        self.do(f"store ptr {reg}, ptr {temp}")
        return NativeValue("obj", reg, cls, temp)

    def take(self, value: NativeValue) -> str:
        """The object as a reference that the caller owns: a temporary gives up its own."""
        if value.temp:
            self.do(f"store ptr null, ptr {value.temp}")
        else:
            self.do(f"call void @incref(ptr {value.reg})")
        return value.reg

    def release_temps(self, keep: int = 0) -> None:
        while len(self.temps) > keep:
            self.do(f"call void @clear(ptr {self.temps.pop()})")

    # --- locals ---

    def assign(self, name: str, value: NativeValue, cls: Any = None, node: ast.AST | None = None) -> None:
        local = self.locals.get(name)
        if local is None:
            kind = value.kind
            lasts = kind == "obj" and (is_lasting(cls) or (value.lasts and self.assigned[name] == 1))
            place = self.owned_place() if kind == "obj" and not lasts else self.alloca(LLVM[kind])
            local = self.locals[name] = Local(kind, place, cls or value.cls, lasts=lasts)
        elif local.kind != value.kind:
            self.fail(node or self.tree, f"{name} changes from {local.kind} to {value.kind}")
        elif cls or (value.cls is not local.cls):
            local.cls = cls or value.cls
        if local.lasts:
            if not (value.lasts or value.is_constant or is_lasting(cls or value.cls)):
                self.fail(node or self.tree, f"{name} holds what outlives the function, and this may not")
            self.do(f"store ptr {value.reg}, ptr {local.place}")
        elif local.kind == "obj":
            new = self.take(value)
            old = self.op(f"load ptr, ptr {local.place}")
            self.do(f"store ptr {new}, ptr {local.place}")
            self.do(f"call void @xdecref(ptr {old})")
        else:
            self.do(f"store {LLVM[local.kind]} {value.reg}, ptr {local.place}")

    def read(self, name: str, node: ast.AST) -> NativeValue:
        local = self.locals.get(name)
        if local is None:
            return self.constant(name, node)
        lasts = local.lasts or is_lasting(local.cls)
        if local.is_register:  # an argument: its caller holds it
            return NativeValue(local.kind, local.place, local.cls, lasts=True)
        reg = self.op(f"load {LLVM[local.kind]}, ptr {local.place}")
        return NativeValue(local.kind, reg, local.cls, lasts=lasts)

    def global_value(self, name: str, node: ast.AST) -> Any:
        names = self.function.__globals__
        if name in names:
            return names[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        self.fail(node, f"unknown name {name}")

    def constant(self, name: str, node: ast.AST) -> NativeValue:
        return self.object(self.global_value(name, node))

    def object(self, value: Any) -> NativeValue:
        """A Python object that is there for good, as a borrowed reference."""
        if type(value) is str:  # names in dictionaries are interned: then the same object is found without a comparison
            value = sys.intern(value)
        return NativeValue("obj", self.op(self.module.object_word(value)), type(value), is_constant=True)

    # --- the function ---

    def translate(self, expressions: Any) -> str:
        """The text of the function; ``expressions`` knows how to print an expression."""
        self._params()
        self._expressions = expressions
        self.lines = []
        self.block(self.tree.body)
        if not self._is_ended:
            self._return(None, self.tree)
        return self._assemble()

    def _params(self) -> None:
        for name, kind, cls in self.signature.params:
            if name not in self.assigned:
                self.locals[name] = Local(kind, f"%p.{name}", cls, is_register=True)
                continue
            place = self.owned_place() if kind == "obj" else self.alloca(LLVM[kind])
            self.locals[name] = Local(kind, place, cls)
            if kind == "obj":
                self.allocas.append(f"  call void @incref(ptr %p.{name})")
            self.allocas.append(f"  store {LLVM[kind]} %p.{name}, ptr {place}")

    def _assemble(self) -> str:
        result = self.signature.llvm_result
        failure = {"ptr": "null", "i8": "2", "i64": "0"}[result]
        release = [f"  call void @clear(ptr {place})" for place in self.cleanup]
        return "\n".join(
            [
                f"define internal {result} @{self.symbol}({self.signature.llvm_params}) {attributes(self.function)} {{",
                "entry:",
                f"  %ret = alloca {result}",
                *self.allocas,
                "  br label %body",
                "body:",
                *self.lines,
                "error:",
                f"  store {result} {failure}, ptr %ret",
                "  br label %leave",
                "leave:",
                *release,
                f"  %r = load {result}, ptr %ret",
                f"  ret {result} %r",
                "}",
            ]
        )

    # --- statements ---

    def block(self, body: list[ast.stmt]) -> None:
        for stmt in body:
            if self._is_ended:
                break
            getattr(self, f"_do_{type(stmt).__name__}", self._do_unknown)(stmt)

    def value(self, node: ast.expr) -> NativeValue:
        return self._expressions.value(self, node)

    def condition(self, node: ast.expr) -> str:
        """An expression's truth as i1; temporaries are released."""
        keep = len(self.temps)
        found = self._expressions.truth(self, node)
        self.release_temps(keep)
        return found

    def _do_unknown(self, stmt: ast.stmt) -> None:
        self.fail(stmt, "not in the subset")

    def _do_Pass(self, stmt: ast.Pass) -> None:
        pass

    def _do_Expr(self, stmt: ast.Expr) -> None:
        if not isinstance(stmt.value, ast.Constant):
            self.value(stmt.value)
            self.release_temps()

    def _do_Assign(self, stmt: ast.Assign) -> None:
        value = self.value(stmt.value)
        for target in stmt.targets:
            self._store(target, value)
            if len(stmt.targets) > 1:
                value = NativeValue(value.kind, value.reg, value.cls)  # the first target took the reference
        self.release_temps()

    def _do_AnnAssign(self, stmt: ast.AnnAssign) -> None:
        assert isinstance(stmt.target, ast.Name)
        if stmt.value is None:
            self.fail(stmt, "a declaration without a value")
        value = self.value(stmt.value)
        hint = ast.unparse(stmt.annotation)
        if _kind(hint) in ("int", "bool"):
            value = self._expressions.as_kind(self, value, _kind(hint), stmt)
        self.assign(stmt.target.id, value, class_of_hint(hint, self.function.__globals__), stmt)
        self.release_temps()

    def _do_AugAssign(self, stmt: ast.AugAssign) -> None:
        loaded = ast.copy_location(ast.parse(ast.unparse(stmt.target), mode="eval").body, stmt)
        total = ast.copy_location(ast.BinOp(loaded, stmt.op, stmt.value), stmt)
        self._store(stmt.target, self.value(ast.fix_missing_locations(total)))
        self.release_temps()

    def _store(self, target: ast.expr, value: NativeValue) -> None:
        if isinstance(target, ast.Name):
            self.assign(target.id, value, node=target)
        elif isinstance(target, ast.Tuple):
            for nr, part in enumerate(target.elts):
                self._store(part, self._expressions.item(self, value, str(nr), target))
        else:
            self._expressions.store(self, target, value)

    def _do_If(self, stmt: ast.If) -> None:
        yes, no, done = self.label("then"), self.label("else"), self.label("endif")
        self.branch(self.condition(stmt.test), yes, no)
        before = {name: local.cls for name, local in self.locals.items()}
        self.start(yes)
        self.block(stmt.body)
        has_fallen_through = not self._is_ended
        self.jump(done)
        for name, cls in before.items():
            self.locals[name].cls = cls
        self.start(no)
        self.block(stmt.orelse)
        has_fallen_through |= not self._is_ended
        self.jump(done)
        if has_fallen_through:
            self.start(done)

    def _do_While(self, stmt: ast.While) -> None:
        head, body, done = self.label("while"), self.label("do"), self.label("done")
        self.jump(head)
        self.start(head)
        is_endless = isinstance(stmt.test, ast.Constant) and stmt.test.value is True
        if is_endless:
            self.jump(body)
        else:
            self.branch(self.condition(stmt.test), body, done)
        self._loop_body(stmt.body, body, head, done)
        self.start(done)

    def _loop_body(self, stmts: list[ast.stmt], body: str, following: str, done: str) -> None:
        self.start(body)
        self.loops.append((following, done))
        self.block(stmts)
        self.loops.pop()
        self.jump(following)

    def _do_Break(self, stmt: ast.Break) -> None:
        self.jump(self.loops[-1][1])

    def _do_Continue(self, stmt: ast.Continue) -> None:
        self.jump(self.loops[-1][0])

    def _do_For(self, stmt: ast.For) -> None:
        head, body, following, done = (self.label(n) for n in ("for", "do", "next", "done"))
        index = self.alloca("i64")
        call = stmt.iter if isinstance(stmt.iter, ast.Call) and isinstance(stmt.iter.func, ast.Name) else None
        name = call.func.id if call is not None and isinstance(call.func, ast.Name) else ""
        if name == "range":
            bounds = [self._expressions.integer(self, a) for a in call.args] if call is not None else []
            first, end = ("0", bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
            sequences: list[NativeValue] = []
        else:
            parts = call.args if call is not None and name == "zip" else [stmt.iter]
            sequences = [self._held(part) for part in parts]
            first, end = "0", ""
        self.do(f"store i64 {first}, ptr {index}")
        self.release_temps()
        self.jump(head)
        self.start(head)
        at = self.op(f"load i64, ptr {index}")
        size = end or self._expressions.length(self, sequences[0], stmt)
        self.branch(self.op(f"icmp slt i64 {at}, {size}"), body, done)
        self.start(body)
        if name == "range":
            self._store(stmt.target, NativeValue("int", at))
        else:
            items = [self._expressions.item(self, s, at, stmt) for s in sequences]
            targets = stmt.target.elts if len(items) > 1 and isinstance(stmt.target, ast.Tuple) else [stmt.target]
            for target, item in zip(targets, items, strict=True):
                self._store(target, item)
        self.release_temps()
        self.loops.append((following, done))
        self.block(stmt.body)
        self.loops.pop()
        self.jump(following)
        self.start(following)
        again = self.op(f"load i64, ptr {index}")
        self.do(f"store i64 {self.op(f'add i64 {again}, 1')}, ptr {index}")
        self.jump(head)
        self.start(done)

    def _held(self, node: ast.expr) -> NativeValue:
        """A sequence that a loop goes over: owned for as long as the function runs."""
        value = self.value(node)
        if value.kind == "args" or value.lasts or value.is_constant:
            return value
        place = self.owned_place()
        old = self.op(f"load ptr, ptr {place}")
        self.do(f"store ptr {self.take(value)}, ptr {place}")
        self.do(f"call void @xdecref(ptr {old})")
        return NativeValue("obj", value.reg, value.cls)

    def _do_Return(self, stmt: ast.Return) -> None:
        self._return(stmt.value, stmt)

    def _return(self, node: ast.expr | None, where: ast.AST) -> None:
        result = self.signature.result
        if result == "none":
            if node is not None and not (isinstance(node, ast.Constant) and node.value is None):
                self.fail(where, "a function that returns None returns a value")
            self.do("store i8 0, ptr %ret")
        elif node is None:
            self.fail(where, "a function that returns a value ends without one")
        elif result == "obj":
            value = self._expressions.as_kind(self, self.value(node), "obj", where)
            reg = value.reg if is_lasting(self.signature.cls) else self.take(value)
            self.do(f"store ptr {reg}, ptr %ret")
        elif result == "bool":
            truth = self._expressions.truth(self, node)
            self.do(f"store i8 {self.op(f'zext i1 {truth} to i8')}, ptr %ret")
        else:
            self.do(f"store i64 {self._expressions.integer(self, node)}, ptr %ret")
        self.release_temps()
        self.jump("leave")
