"""Signal handlers that use tensors, at every bytecode of the recorder; see Note [Interrupts].

A signal handler is a function that Python calls between two bytecodes. ``sys.settrace`` calls one there as well, and at
a bytecode of our choice: so each place is hit, and none by chance.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.runtime.storage import memory
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import native_cell, state
from jitgrad.tracer.misses.long_calls import stop_recording

_WATCHED = ("jitgrad/tracer/", "jitgrad/compiled/", "jitgrad/compile.py", "jitgrad/dispatch.py", "test_interrupts.py")
"""With the step's own bytecodes: a warm call may run no others."""


def _run_with(handler: Callable[[], None], at: int, call: Callable[[], Any]) -> tuple[Any, int]:
    """(what ``call`` returned, how many bytecodes were watched): ``handler`` runs before bytecode ``at`` of them.

    Where a function begins counts as one: there, too, Python calls handlers.
    """
    seen = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal seen
        if event == "call":
            if not any(part in frame.f_code.co_filename.replace("\\", "/") for part in _WATCHED):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event in ("call", "opcode"):
            seen += 1
            if seen == at:
                handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), seen
    finally:
        sys.settrace(before)


def _make_step() -> tuple[Callable[[], Any], Any]:
    w = jg.tensor([1.0, -2.0, 3.0], requires_grad=True)
    x = jg.tensor([0.5, 0.25, -1.0])

    def step() -> Any:
        y = (w * x).exp() + w[1:].sum()
        loss = (y * y).mean()
        loss.backward()
        seen = loss.item()
        with jg.no_grad():
            w.sub_(w.grad, alpha=0.01)
        w.grad = None
        return seen, (y * 2).detach()

    return step, w


def _eager_results(calls: int) -> list[Any]:
    step, w = _make_step()
    return [(step()[0], w.tolist()) for _ in range(calls)]


X = jg.tensor([1.0, 2.0, 3.0])
TWICE = jg.compile(lambda x: x * 2)


def _reads() -> float:
    return float((X * 3).sum())


def _writes() -> float:
    mine = X * 1
    mine.add_(1)
    mine[1:] *= 2
    return float(mine.sum())


def _differentiates() -> float:
    with jg.enable_grad():  # the step may be in a block without
        leaf = jg.tensor([1.0, 2.0], requires_grad=True)
        (leaf * leaf).sum().backward()
        return float(leaf.grad.sum())


def _calls_compiled() -> float:
    with jg.no_grad():
        return float(TWICE(X).sum())


HANDLERS = {_reads: 18.0, _writes: 16.0, _differentiates: 6.0, _calls_compiled: 12.0}


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda f: f.__name__)
def test_a_handler_anywhere_changes_nothing(handler: Callable[[], float]) -> None:
    """Cold, warm, and on the way between: the step's values, the parameter and the handler's own value are right."""
    calls = 60
    expected = _eager_results(calls)
    step, w = _make_step()
    compiled = jg.compile(step)
    total, found = 4000, []
    for nr in range(calls):
        at = 1 + (nr * 97) % max(total, 1)
        (seen, _), total = _run_with(lambda: found.append(handler()), at, compiled)
        np.testing.assert_allclose(seen, expected[nr][0], rtol=1e-5)
        np.testing.assert_allclose(w.tolist(), expected[nr][1], rtol=1e-5)
    assert len(found) >= calls // 2
    assert set(found) == {HANDLERS[handler]}
    compiled()
    assert jg.stats()["traces"] > 0


def test_a_handler_that_raises_leaves_no_step_behind() -> None:
    step, _ = _make_step()
    compiled = jg.compile(step)

    def raises() -> None:
        raise KeyboardInterrupt

    raised = 0
    for nr in range(120):
        try:
            _run_with(raises, 1 + nr * 13, compiled)
        except KeyboardInterrupt:
            raised += 1
        before = jg.stats()["traces"]
        assert float((X * 2).sum()) == 12.0
        assert jg.stats()["traces"] == before  # that was eager: no recorder is left
    assert raised > 20
    expected, _ = _make_step()
    again, _ = _make_step()
    fresh = jg.compile(again)
    np.testing.assert_allclose([fresh()[0] for _ in range(3)], [expected()[0] for _ in range(3)], rtol=1e-5)


@pytest.mark.parametrize("place", ["settle", "_end", "_flush_after", "stop_recording"])
@pytest.mark.parametrize("is_left", [False, True], ids=["whole", "left"])
def test_ctrl_c_before_the_first_statement_of_a_calls_end(
    place: str, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python calls a signal's handler where a function begins: the function that ends a call may not run at all."""
    monkeypatch.setattr(jg.config, "max_new_values", 8 if is_left else 2048)
    lengths = [1, 1, *(n for i in range(2, 20) for n in (1, 1, 9 * i))]  # known graphs, then a new one, and so on
    limits = iter(lengths)

    @jg.compile
    def step(x: Any) -> Any:
        y = (x * 2).sin()
        for _ in range(next(limits)):
            y = y + 1.0
        if place == "_flush_after":
            raise ValueError("of the user")
        return y

    ends = (jg.CompiledFunction._end.__code__.co_filename, stop_recording.__code__.co_filename)
    interrupts = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal interrupts
        if event == "call" and frame.f_code.co_name == place and frame.f_code.co_filename in ends:
            interrupts += 1
            raise KeyboardInterrupt
        return None

    before = sys.gettrace()
    for _ in lengths:
        sys.settrace(trace)
        try:
            step(X)
        except (KeyboardInterrupt, ValueError):
            pass
        finally:
            sys.settrace(before)
        assert state.handler is None
        assert state.eager_depth == 0
        launches = jg.stats()["launches"]
        assert TWICE(X).tolist() == [2.0, 4.0, 6.0]
        assert jg.stats()["launches"] > launches  # the next call is recorded and compiled
    is_there = {"stop_recording": is_left, "settle": native_cell.is_installed}  # a front calls ``settle``
    assert (interrupts > 0) == is_there.get(place, True)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_real_signals_during_training() -> None:
    assert threading.current_thread() is threading.main_thread()
    expected = _eager_results(400)
    step, w = _make_step()
    compiled = jg.compile(step)
    found: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: found.append(_reads()))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
    try:
        for nr in range(400):
            np.testing.assert_allclose(compiled()[0], expected[nr][0], rtol=1e-5)
        while not found:
            time.sleep(0.001)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert set(found) == {18.0}
    np.testing.assert_allclose(w.tolist(), expected[-1][1], rtol=1e-5)


def test_no_storage_is_dropped_by_python() -> None:
    """Ctrl-C between two bytecodes of a finalizer is printed and lost: once there is native code, no bytecode runs."""
    step, _ = _make_step()
    jg.compile(step)()
    if not native_cell.is_installed:
        pytest.skip("no native hits on this interpreter")
    ran: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            ran.append(frame.f_code.co_qualname)

    memory.release_cached()
    sizes = [*range(3 << 20, (3 << 20) + 100), 4000, 4000, 300 << 20]  # more than is kept, the same again, a large one
    compiled = jg.compile(step)
    sys.setprofile(note)
    try:
        dropped = [Storage(size) for size in sizes]
        del dropped
        for _ in range(3):
            compiled()
    finally:
        sys.setprofile(None)
    assert "Storage.__init__" in ran
    assert not [name for name in ran if name in ("Storage.__del__", "give")]
    assert 0 < memory.cached_nbytes() == memory.free_lists.nbytes <= memory.CACHE_LIMIT_NBYTES
    memory.release_cached()
