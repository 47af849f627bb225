"""Python collects no cycles while a graph is recorded, planned, linked, or run for the first time."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jitgrad as jg
from jitgrad import garbage
from jitgrad.codegen import pipeline
from jitgrad.codegen.fusion.fuse import Group
from jitgrad.codegen.fusion.roots import Root
from jitgrad.codegen.plan import Buffer, Job
from jitgrad.codegen.primitives.builder import Value
from jitgrad.compiled import run
from jitgrad.compiled.backward import backward
from jitgrad.config import config
from jitgrad.garbage import without_collections
from jitgrad.tracer.recording import renumbered


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    before = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if before else gc.disable)()


def watch(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, seen: dict[str, set[bool]]) -> None:
    function = getattr(owner, name)

    def watched(*args: Any) -> Any:
        seen.setdefault(name, set()).add(gc.isenabled())
        return function(*args)

    monkeypatch.setattr(owner, name, watched)


def test_no_cycles_are_collected_while_a_long_step_is_recorded_run_and_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_at_once", 10)
    seen: dict[str, set[bool]] = {}
    watch(monkeypatch, backward, "_recorded_without_nodes", seen)
    watch(monkeypatch, run._one_by_one, "run_without_kernels", seen)
    watch(monkeypatch, renumbered, "Renumbered", seen)
    watch(monkeypatch, pipeline, "link", seen)
    w = jg.ones(3, requires_grad=True)

    @jg.compile
    def step(x: Any) -> Any:
        assert gc.isenabled()
        y = x
        for _ in range(10):
            y = y * w
        y.sum().backward()
        w.grad = None
        return y.detach()

    for _ in range(3):
        step(jg.ones(3))
    names = "_recorded_without_nodes", "run_without_kernels", "Renumbered", "link"
    assert seen == {name: {False} for name in names}
    assert gc.isenabled()


def test_collections_come_back_after_an_error_and_stay_off_where_they_were() -> None:
    def fail() -> None:
        assert not gc.isenabled()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        without_collections(fail)
    assert gc.isenabled()
    gc.disable()
    assert without_collections(gc.isenabled) is False
    assert not gc.isenabled()


def test_works_of_two_threads_overlap() -> None:
    """The one that ends last lets Python collect, whoever began first."""
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        go_on.wait(10)

    thread = threading.Thread(target=without_collections, args=(wait,))

    def begin() -> None:
        thread.start()
        inside.wait(10)

    without_collections(begin)
    assert not gc.isenabled()
    go_on.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_does_not_wait_for_the_works_of_threads_that_it_has_not() -> None:
    inside, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=without_collections, args=(lambda: (inside.set(), go_on.wait(10)),))
    thread.start()
    inside.wait(10)
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_plan_goes_without_a_collection() -> None:
    """Values, groups, jobs and buffers refer to each other in circles while they are needed."""
    gc.collect()
    gc.disable()
    w = jg.ones(8, 8, requires_grad=True)

    @jg.compile
    def step(x: Any) -> Any:
        for _ in range(3):
            x = (x @ w).tanh()
        x.sum().backward()
        with jg.no_grad():
            w.sub_(w.grad)
        w.grad = None
        return x.detach()

    step(jg.ones(8, 8))
    left = {type(x).__name__ for x in gc.get_objects() if type(x) in (Value, Root, Group, Job, Buffer)}
    assert not left


def test_an_interrupt_at_any_line_leaves_collections_on() -> None:
    """A signal's handler may raise before each statement, also of what lets Python collect again."""
    path = garbage.__file__
    lines = Path(path).read_text().splitlines()
    first = next(nr for nr, line in enumerate(lines, 1) if line.startswith("def without_collections"))
    seen = 0
    for nr in [nr for nr, line in enumerate(lines, 1) if nr > first and line.strip() != "try:"]:
        met: list[int] = []

        def local(frame: Any, event: str, arg: Any, nr: int = nr, met: list[int] = met) -> Any:
            if event == "line" and frame.f_lineno == nr and not met:
                met.append(nr)
                raise TimeoutError
            return local

        before = sys.gettrace()
        sys.settrace(lambda frame, event, arg, local=local: local if frame.f_code.co_filename == path else None)
        try:
            without_collections(lambda: 1)
        except TimeoutError:
            seen += 1
        finally:
            sys.settrace(before)
        assert gc.isenabled() and not garbage._pauses, f"line {nr}"
    assert seen >= 8
