"""Tables that all threads share, dicts and sets of a module, are looked through in a copy.

A loop over a dict raises RuntimeError where it grows or shrinks meanwhile, and another thread may do that between any
two bytecodes; within ``tuple(table)`` too, whose memory is asked for once the iterator exists: that may begin a
collection, which runs finalizers, which let other threads run. ``list(table)`` and ``table.copy()`` ask first.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jitgrad.distributions import Normal, kl
from jitgrad.ops import aval
from jitgrad.runtime.devices import device_queue
from jitgrad.serialization import allowed
from jitgrad.tracer.recording import recorder_state

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "jitgrad").rglob("*.py"))

_MAKERS = {"dict", "set", "OrderedDict", "defaultdict", "WeakSet", "WeakKeyDictionary", "WeakValueDictionary"}
_CHANGES = {"add", "update", "setdefault", "pop", "popitem", "clear", "discard", "remove"}
_VIEWS = {"items", "keys", "values"}
_LOOPS = {"tuple", "set", "frozenset", "sorted", "any", "all", "sum", "min", "max", "enumerate", "zip", "map", "filter"}


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _tables(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        made = value.func if isinstance(value, ast.Call) else None
        if isinstance(value, ast.Dict | ast.Set) or getattr(made, "attr", getattr(made, "id", None)) in _MAKERS:
            yield from (target.id for target in targets if isinstance(target, ast.Name))


class _Uses(ast.NodeVisitor):
    """What functions of a file do with tables: ``changed`` names them; ``looked`` says where one is looped over."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names, self._parents = names, [ast.AST()]
        self.changed: set[str] = set()
        self.looked: list[tuple[str, int, str]] = []

    def generic_visit(self, node: ast.AST) -> None:
        self._parents.append(node)
        super().generic_visit(node)
        self._parents.pop()

    def visit_Name(self, node: ast.Name) -> None:
        if node.id not in self._names or not any(isinstance(p, ast.FunctionDef | ast.Lambda) for p in self._parents):
            return
        table, parents = self._names[node.id], self._parents[::-1]
        first = parents[0]
        if isinstance(first, ast.Subscript):
            if first.value is node and not isinstance(first.ctx, ast.Load):
                self.changed.add(table)
            return
        if isinstance(first, ast.Attribute) and first.attr in _CHANGES:
            self.changed.add(table)
        seen: ast.AST = node
        if isinstance(first, ast.Attribute) and first.attr in _VIEWS:
            seen, parents = parents[1], parents[2:]
        if self._loops(seen, parents[0]) and not any(self._holds_a_lock(p) for p in parents):
            self.looked.append((table, node.lineno, ast.unparse(parents[0])))

    def _loops(self, seen: ast.AST, around: ast.AST) -> bool:
        if isinstance(around, ast.For | ast.comprehension):
            return around.iter is seen
        if isinstance(around, ast.Call):
            return seen in around.args and getattr(around.func, "id", None) in _LOOPS
        return False

    def _holds_a_lock(self, node: ast.AST) -> bool:
        return isinstance(node, ast.With) and any("lock" in ast.unparse(item.context_expr) for item in node.items)


def _loops_over_shared_tables(texts: dict[str, str]) -> list[tuple[str, str, int, str]]:
    """(table, module, line, the loop) of each; ``texts`` holds the source of each module."""
    trees = {module: ast.parse(text) for module, text in texts.items()}
    known = {module: set(_tables(tree)) for module, tree in trees.items()}
    changed: set[str] = set()
    looked: list[tuple[str, str, int, str]] = []
    for module, tree in trees.items():
        names = {name: f"{module}.{name}" for name in known[module]}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                wanted = [alias for alias in node.names if alias.name in known.get(str(node.module), ())]
                names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in wanted})
        uses = _Uses(names)
        uses.visit(tree)
        changed |= uses.changed
        looked += [(table, module, line, text) for table, line, text in uses.looked]
    return [found for found in looked if found[0] in changed]


def test_no_function_loops_over_a_table_that_threads_share() -> None:
    assert _loops_over_shared_tables({_module(path): path.read_text() for path in FILES}) == []


@pytest.mark.parametrize(
    "loop",
    ["tuple(T)", "tuple(T.items())", "[x for x in T]", "any(x for x in T.values())", "sorted(T)", "max(T.values())"],
)
def test_the_rule_sees_loops(loop: str) -> None:
    change = "\ndef put(k):\n    T[k] = 1\n"
    one = f"T = {{}}\ndef look():\n    return {loop}\n"
    other = f"from one import T\ndef look():\n    return {loop}\n"
    assert _loops_over_shared_tables({"one": one}) == []  # nothing changes it
    assert len(_loops_over_shared_tables({"one": one + change})) == 1
    assert len(_loops_over_shared_tables({"one": "T = {}" + change, "two": other})) == 1
    assert _loops_over_shared_tables({"one": one.replace(loop, "list(T), T.copy().items(), {**T}") + change}) == []


# --- the same, run: whenever memory is asked for, something is put into the table ---


@contextmanager
def _growing(table: Any, entries: Iterator[tuple[Any, Any]]) -> Iterator[None]:
    """Each collection adds an entry to the table, and collections come with nearly each object that is made."""
    added: dict[Any, Any] = {}  # which holds what the table may hold weakly

    def add(phase: str, _: object) -> None:
        if phase == "stop" and len(added) < 500:
            key, added[key] = next(entries)
            table[key] = added[key]

    before = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(1, 1000, 1000)
    try:
        yield
    finally:
        gc.callbacks.remove(add)
        gc.set_threshold(*before)
        for key in added:
            table.pop(key, None)
    assert added


class _Call:
    def __init__(self, tid: int) -> None:
        self.tid, self.thread = tid, {"of": tid}


class _Kind:
    pass


def _calls() -> Iterator[tuple[int, Any]]:
    return ((-nr, _Call(-nr)) for nr in range(1, 10_000))


def _kinds() -> Iterator[tuple[Any, Any]]:
    return (((type(f"P{nr}", (), {}), _Kind), None) for nr in range(10_000))


def _names() -> Iterator[tuple[str, Any]]:
    return ((f"name{nr}", nr) for nr in range(10_000))


def _avals() -> Iterator[tuple[Any, Any]]:
    return ((("no aval", nr), lambda: 1) for nr in range(10_000))


class _Queue:
    """Stands for a queue that another thread makes."""


def _queues() -> Iterator[tuple[int, Any]]:
    return ((-nr, _Queue()) for nr in range(1, 10_000))


READERS: dict[str, tuple[Any, Callable[[], Iterator[Any]], Callable[[], Any]]] = {
    "running calls": (recorder_state.RUNNING, _calls, lambda: recorder_state.calls_elsewhere({})),
    "divergences": (kl._formulas, _kinds, lambda: kl._most_specific(Normal, Normal)),
    "safe globals": (allowed._safe, _names, lambda: allowed.is_declared(object())),
    "avals": (aval._INTERNED, _avals, aval._sweep),
    "queues": (device_queue._QUEUES, _queues, device_queue._all_queues),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_table_may_grow_while_it_is_read(reader: str) -> None:
    table, entries, read = READERS[reader]
    present = {}
    more = entries()
    for _ in range(40):  # more than a tuple that Python keeps for the next one
        key, present[key] = next(more)
        table[key] = present[key]
    try:
        with _growing(table, more):
            for nr in range(100):
                made = [[] for _ in range(nr % 5)]  # so that collections come at other places
                read()
                del made
    finally:
        for key in present:
            table.pop(key, None)
