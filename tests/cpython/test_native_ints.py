"""Ints of native code: read where they lie, found among the small ones, and the same by the C API."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from jitgrad.codegen.llvm.jit import KernelSource, compile_kernels
from jitgrad.compiled.native_hits import KEPT_SLOTS
from jitgrad.cpython import ints_text, layout, thread_text
from jitgrad.cpython.build import is_known_interpreter
from jitgrad.cpython.install import callables
from jitgrad.cpython.native import Handles, ModuleParts, load_module, make_module
from jitgrad.cpython.primitives import active, is_word
from jitgrad.tensor_base import tensor_class
from jitgrad.tracer.hits.hits import MISSED

pytestmark = pytest.mark.skipif(not is_known_interpreter(), reason="native code is for known interpreters only")

EDGES = [n + d for n in (0, 256, 1 << 30, 1 << 60, 1 << 63) for d in range(-7, 8)]
INTS = [n for n in {*EDGES, *(-n for n in EDGES)} if -(1 << 63) <= n < 1 << 63]


def through_a_word(x: Any) -> Any:
    word: int = x
    return word


def fits(x: Any) -> bool:
    return is_word(x)


def whose() -> Any:
    return active()


class Other(int):
    """Not laid out as the native code expects, for all that it knows."""


def _compiled() -> dict[str, Callable[..., Any]]:
    functions = [through_a_word, fits, whose]
    handles = Handles(tensor_class(), KEPT_SLOTS)
    module = make_module(ModuleParts(functions, functions, [], [], None, [], handles, MISSED))
    kernel = compile_kernels([KernelSource("native_hits", module.key, module.text, needs_passes=True)])[0]
    entries = load_module(kernel, module, {"driver": 0, "front_rows": 0})
    return callables(functions, [entries[f"entry_{f.__name__}"] for f in functions], entries)


@pytest.fixture(params=["inline", "by the C API"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[..., Any]]:
    if request.param != "inline":
        monkeypatch.setattr(ints_text, "int_layout", lambda: "")
        monkeypatch.setattr(ints_text, "small_int_size", lambda: 0)
        monkeypatch.setattr(thread_text, "thread_is_own_address", lambda: False)
    return _compiled()


def test_every_word_is_itself(made: dict[str, Callable[..., Any]]) -> None:
    assert [made["through_a_word"](n) for n in INTS] == INTS
    assert [made["through_a_word"](x) for x in (True, False, Other(7), Other(-(1 << 40)))] == [1, 0, 7, -(1 << 40)]


def test_a_number_that_is_no_word(made: dict[str, Callable[..., Any]]) -> None:
    assert all(made["fits"](n) is True for n in INTS)
    assert not any(made["fits"](n) for n in (1 << 63, -(1 << 63) - 1, 1 << 100))


def test_a_thread_finds_its_own_recorder(made: dict[str, Callable[..., Any]]) -> None:
    recorder = object()
    seen: list[Any] = []
    made["activate"](recorder)
    thread = threading.Thread(target=lambda: seen.append(made["whose"]()))
    thread.start()
    thread.join()
    assert made["whose"]() is recorder and seen == [None]
    made["activate"](None)
    assert made["whose"]() is None


def test_ints_of_this_interpreter_are_read_inline() -> None:
    """A probe that fails makes every hit slower, and nothing else would notice."""
    assert layout.int_layout() in ("sign and size", "tag")
    assert layout.small_int_size() > 0
