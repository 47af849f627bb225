"""Note [Known modules]: processes that find the words of native functions without translating them."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jitgrad.compiled.native_hits import KEPT_SLOTS
from jitgrad.cpython import known_modules
from jitgrad.cpython.known_modules import module_of
from jitgrad.cpython.layout import why_unknown
from jitgrad.cpython.native import Handles, ModuleParts, NativeModule, Stub, make_module
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import tensor_class

_MISSED = object()
LIMIT = 1 << 40
pytestmark = pytest.mark.skipif(bool(why_unknown()), reason="this interpreter has no native functions")


def is_less(x: int) -> bool:
    return x < LIMIT


def name_of(x: Any) -> Any:
    return x.name


def with_rest(op: Any, x: Any, rest: Args) -> Any:  # type: ignore[name-defined]  # noqa: F821
    return op


class _Kept:
    """Notes in memory."""

    def __init__(self) -> None:
        self.notes: dict[str, bytes] = {}
        self.loads: list[str] = []

    def load(self, key: str) -> bytes | None:
        self.loads.append(key)
        return self.notes.get(key)

    def store(self, key: str, data: bytes) -> None:
        self.notes[key] = data


def _slow(*args: Any) -> Any:
    return args


def _parts(slow: Any = _slow, missed: Any = _MISSED) -> ModuleParts:
    functions = [is_less, name_of, with_rest]
    stubs = [Stub("with_rest", with_rest, (OPS["add"],), slow)]
    return ModuleParts(functions, functions[:2], stubs, [], None, [], Handles(tensor_class(), KEPT_SLOTS), missed)


@pytest.fixture
def makings(monkeypatch: pytest.MonkeyPatch) -> list[NativeModule]:
    """The modules that were translated."""
    found: list[NativeModule] = []

    def make(parts: ModuleParts) -> NativeModule:
        found.append(make_module(parts))
        return found[-1]

    monkeypatch.setattr(known_modules, "make_module", make)
    return found


def _are_same(found: NativeModule, made: NativeModule) -> bool:
    pairs = zip(found.objects, made.objects, strict=True)
    same = all([x[0] == y[0] and (x[1] is y[1] or (type(x[1]), x[1]) == (type(y[1]), y[1])) for x, y in pairs])
    return same and (found.key, found.symbols) == (made.key, made.symbols)


def test_a_noted_module_is_the_one_that_would_have_been_made(makings: list[NativeModule]) -> None:
    notes = _Kept()
    first = module_of(_parts(), notes)
    assert len(makings) == len(notes.notes) == 1
    second = module_of(_parts(), notes)
    assert len(makings) == 1
    assert _are_same(second, first)
    assert second.text() == first.text()
    assert len(makings) == 2


def test_what_the_caller_gives_is_that_of_this_process(makings: list[NativeModule]) -> None:
    notes, missed = _Kept(), object()
    module_of(_parts(), notes)
    found = module_of(_parts(missed=missed), notes)
    assert len(makings) == 1
    words = [value for kind, value in found.objects if kind == "object"]
    assert any(value is missed for value in words)
    assert not any(value is _MISSED for value in words)
    found = module_of(_parts(len, missed), notes)  # under another name: it could be one of the other words
    assert len(makings) == 2
    assert any(value is len for _, value in found.objects)


@pytest.mark.parametrize("what", ["sources", "interpreter", "functions", "missing name", "rubbish", "cut off"])
def test_a_note_of_something_else_is_not_used(
    what: str, makings: list[NativeModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, parts = _Kept(), _parts()
    module_of(parts, notes)
    ((key, note),) = notes.notes.items()
    if what == "sources":
        monkeypatch.setattr(known_modules, "_sources", lambda: "another state")
    elif what == "interpreter":
        monkeypatch.setattr(sys, "version", f"{sys.version} (another)")
    elif what == "functions":
        parts = parts._replace(functions=parts.functions[::-1])
    elif what == "missing name":
        digest, recipes, symbols = marshal.loads(note)
        at = next(n for n, recipe in enumerate(recipes) if recipe[0] != "api")
        recipes[at] = "global", "jitgrad.cpython.native", "Nobody"
        notes.notes[key] = marshal.dumps((digest, recipes, symbols))
    else:
        notes.notes[key] = note[:-9] if what == "cut off" else b"\xff" * 9
    found = module_of(parts, notes)
    assert len(makings) == 2
    assert found is makings[-1]
    module_of(parts, notes)
    assert len(makings) == 2  # the new note took its place


def test_nothing_is_noted_of_objects_without_names(
    makings: list[NativeModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = _Kept()
    monkeypatch.setattr(known_modules, "_named", lambda parts, given: iter(()))
    module_of(_parts(), notes)
    module_of(_parts(), notes)
    assert (len(makings), notes.notes) == (2, {})


def test_sources_that_are_no_files_have_no_notes(makings: list[NativeModule], monkeypatch: pytest.MonkeyPatch) -> None:
    notes = _Kept()
    monkeypatch.setattr(known_modules, "_sources", lambda: "")
    module_of(_parts(), notes)
    assert len(makings) == 1
    assert notes.loads == []


def test_an_edit_of_a_source_changes_the_state(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "b.py"
    file.write_text("x = 1\n")
    before = sorted(known_modules._files(str(tmp_path)))
    assert [row[0] for row in before] == [str(file)]
    os.utime(file, ns=(1, 1))
    assert sorted(known_modules._files(str(tmp_path))) != before
    (tmp_path / "a" / "__pycache__").mkdir()
    (tmp_path / "a" / "__pycache__" / "c.py").write_text("")
    assert len([*known_modules._files(str(tmp_path))]) == 1


# Whole processes: what they note is what each other process would have made, whatever it did before.
_HEAD = """
import os, sys, types
import jitgrad as m
from jitgrad.cpython import known_modules, native
made, found = [], []
def make(parts):
    made.append(parts)
    return native.make_module(parts)
known_modules.make_module = make
of = known_modules.module_of
def module_of(parts, notes):
    module = of(parts, notes)
    found.append((parts, module))
    return module
from jitgrad.compiled import native_eager, native_hits
native_eager.module_of = native_hits.module_of = module_of
def compiled():
    w = m.ones(3, requires_grad=True)
    step = m.compile(lambda x: (x * w).sum().backward())
    for _ in range(3):
        step(m.ones(3))
def eager():
    x = m.ones(3, requires_grad=True)
    (x * 2 + x).exp().sum().backward()
    native_eager.install()
    (x * 2 + x).exp().sum().backward()
"""
_TAIL = """
used = len(made)
for parts, module in found:
    fresh = native.make_module(parts)
    assert (module.key, module.symbols) == (fresh.key, fresh.symbols)
    for (kind, x), (other, y) in zip(module.objects, fresh.objects, strict=True):
        alike = type(x) is type(y) in (str, int, float, types.BuiltinMethodType) and x == y
        assert kind == other and (x is y or alike), (x, y)
w = m.ones(3)
step = m.compile(lambda x: (x * w)[:2].exp().sum())
calls = []
for _ in range(9):
    calls.clear()
    sys.setprofile(lambda frame, event, arg: event == "call" and calls.append(frame.f_code.co_name))
    step(w)
    sys.setprofile(None)
print(used, len(found), len(calls))
"""
_USES = {
    "compiled": "compiled()",
    "eager": "eager()",
    "eager, compiled": "eager(); compiled()",
    "compiled, eager": "compiled(); eager()",
    "settings": "m.set_default_dtype(m.float64); m.set_num_threads(1); m.set_grad_enabled(False)\n"
                "m.set_grad_enabled(True); compiled(); eager()",
    "a subclass": "class Other(m.Tensor):\n    pass\nm.ones(3).as_subclass(Other) * 2\ncompiled(); eager()",
    "modes": "with m.inference_mode():\n    m.ones(3) * 2\n"
             "with m.profiler.profile():\n    eager()\ncompiled()",
    "modules": "import jitgrad.distributions, jitgrad.func, jitgrad.sparse, jitgrad.special, jitgrad.optim\n"
               "m.nn.Linear(3, 3)(m.ones(1, 3)).sum().backward(); compiled(); eager()",
}  # fmt: skip


def _run(body: str, cache: Path) -> list[int]:
    """How many modules were made, and used; how many functions of Python a warm call runs."""
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(cache), "JITGRAD_BUILDERS": "0"}
    done = subprocess.run([sys.executable, "-c", _HEAD + body + _TAIL], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [int(n) for n in done.stdout.split()]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Where there are notes; how many functions of Python a warm call runs in a process that had none."""
    path = tmp_path_factory.mktemp("notes")
    for body in ("eager(); compiled()", "compiled(); eager()"):  # what is second leads on to what is first
        made, found, calls = _run(body, path)
        assert made == found > 0 or os.environ.get("JITGRAD_NATIVE_HITS") == "0"
    return path, calls


@pytest.mark.parametrize("use", _USES)
def test_other_processes_find_what_they_would_have_made(use: str, cache: tuple[Path, int]) -> None:
    path, calls_before = cache
    made, found, calls = _run(_USES[use], path)
    assert made == 0
    assert found > 0 or os.environ.get("JITGRAD_NATIVE_HITS") == "0"
    assert calls == calls_before or os.environ.get("JITGRAD_NATIVE_HITS") == "0"
