"""An exception at a statement of jitgrad in a step's first call: what a signal's handler raises arrives there.

It reaches the caller, the thread's grad mode is as it was afterwards, and the next calls are right.
``INTERRUPTED_LINES=all`` tries every statement that the first call runs; otherwise every eleventh of the recorder, and
every hundredth of what it calls.
"""

from __future__ import annotations

import linecache
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.codegen import pipeline
from jitgrad.codegen.llvm import object_cache
from jitgrad.compiled import interpret
from jitgrad.compiled.backward import backward, rule_sweep, rule_templates
from jitgrad.runtime.eager.plan import EagerPlan
from jitgrad.state import state, switch_handler

ROOT = Path(jg.__file__).parent
STRIDES = {"recorder": 11, "the rest": 101}
if os.environ.get("INTERRUPTED_LINES") == "all":
    STRIDES = dict.fromkeys(STRIDES, 1)
UNPROTECTED = ("__del__", "give", "__exit__")
"""Python prints what a finalizer raises, and goes on; and nothing runs for an ``__exit__`` that has not begun."""
Line = tuple[str, int]


class _Interrupt(Exception):
    pass


def _make_step() -> tuple[Callable[[], Any], Callable[[], None]]:
    """A step with a view, writes to it, a backward and momentum; and a function that begins again."""
    w, b = jg.full((4, 3), 0.5).requires_grad_(), jg.zeros(3).requires_grad_()
    x, buffer = jg.arange(8.0).reshape(2, 4) / 8, jg.zeros(6)
    optimizer = jg.optim.SGD([w, b], lr=0.1, momentum=0.9)

    @jg.compile
    def step() -> Any:
        optimizer.zero_grad()
        with jg.no_grad():
            buffer[2:4].add_(1.0)
            view = buffer.view(2, 3)
            view[0] *= 2.0
        loss = ((x @ w + b).tanh() ** 2).sum() + view.sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def reset() -> None:
        with jg.no_grad():
            w.fill_(0.5)
            b.zero_()
            buffer.zero_()
        optimizer.zero_grad()
        optimizer.state.clear()

    return step, reset


def _traced(call: Callable[[], Any], at_line: Callable[[Line], None]) -> BaseException | None:
    """What ``call`` raises; ``at_line`` sees each statement of jitgrad before it runs."""

    def local(frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            at_line((frame.f_code.co_filename, frame.f_lineno))
        return local

    before = sys.gettrace()
    inside = str(ROOT)

    def enter(frame: Any, event: str, arg: Any) -> Any:
        code = frame.f_code
        return local if code.co_filename.startswith(inside) and code.co_name not in UNPROTECTED else None

    sys.settrace(enter)
    try:
        call()
    except BaseException as error:
        return error
    finally:
        sys.settrace(before)
    return None


def _losses(step: Callable[[], Any]) -> list[float]:
    return [step().item() for _ in range(3)]


def _interrupted_at(line: Line, want: list[float]) -> str:
    """What is wrong after an interrupt before this statement; empty if nothing is."""
    step, reset = _make_step()
    met: list[Line] = []

    def at_line(here: Line) -> None:
        if here == line and not met:
            met.append(here)
            raise _Interrupt

    raised = _traced(step, at_line)
    if not met:  # a plan that a former step of this test left is used instead
        return ""
    if type(raised) is not _Interrupt:
        return f"the call raised {raised!r}"
    if not jg.is_grad_enabled():
        jg.set_grad_enabled(True)
        return "grad mode was left off"
    if state.handler is not None or state.eager_depth:
        switch_handler(None)
        state.eager_depth = 0
        return "the thread records, or runs eagerly, for ever"
    reset()
    try:
        got = _losses(step)
    except Exception as error:
        return f"the next call raised {error!r}"
    return "" if got == want else f"the next losses were {got}, not {want}"


@pytest.fixture
def no_kernels() -> None:
    """For ``conftest.py``: an exception while a segment is planned leaves it without kernels."""


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("part", STRIDES)
def test_the_next_call_is_right(part: str) -> None:
    want = _losses(_make_step()[0])
    lines: dict[Line, None] = {}
    assert _traced(_make_step()[0], lambda line: lines.setdefault(line)) is None
    # no instruction stands for ``try:`` at which Python would run a signal handler
    lines = {line: None for line in lines if linecache.getline(*line).strip() != "try:"}
    chosen = [line for line in lines if line[0].startswith(str(ROOT / "tracer")) == (part == "recorder")]
    assert len(chosen) > 500
    found = {line: _interrupted_at(line, want) for line in chosen[:: STRIDES[part]]}
    wrong = {f"{Path(name).relative_to(ROOT)}:{nr}": text for (name, nr), text in found.items() if text}
    assert not wrong, "\n".join(f"{where}: {text}" for where, text in wrong.items())


class _Timeout:
    """Has a signal come at the first call of a function; its handler raises TimeoutError, which is an OSError."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.count = 0
        function = getattr(owner, name)

        def interrupted(*args: Any, **names: Any) -> Any:
            self.count += 1
            if self.count == 1:
                signal.raise_signal(signal.SIGUSR1)
            return function(*args, **names)

        monkeypatch.setattr(owner, name, interrupted)

    @staticmethod
    def raise_it(signum: int, frame: Any) -> None:
        raise TimeoutError("too late")


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, _Timeout.raise_it)
    yield
    signal.signal(signal.SIGUSR1, before)


WHERE = {
    "a segment is planned": (pipeline, "plan_segment"),
    "its kernels are linked": (pipeline, "link"),
    "a backward is recorded": (rule_sweep, "fill_grads"),
    "its rules are recorded": (rule_templates.Templates, "record"),
    "the next backward's event is made": (backward, "_event"),
}


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="the system has no such signal")
@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("where", WHERE)
def test_what_a_signal_handler_raises_reaches_the_caller(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, scale = jg.arange(6.0), 2.5
    leaf = jg.full((6,), 2.0).requires_grad_()

    @jg.compile
    def step() -> Any:
        loss = ((leaf * numbers - scale).cos() + (numbers * numbers - scale).cos()).sum()
        loss.backward()
        return loss

    timeout = _Timeout(monkeypatch, *WHERE[where])
    with pytest.raises(TimeoutError, match="too late"):
        step()
    assert timeout.count >= 1
    leaf.grad = None
    n = np.arange(6.0)
    for _ in range(3):
        loss = step().item()
        assert loss == pytest.approx((np.cos(2 * n - scale) + np.cos(n * n - scale)).sum(), rel=1e-4)
        np.testing.assert_allclose(leaf.grad.numpy(), -n * np.sin(2 * n - scale), rtol=1e-4, atol=1e-5)
        leaf.grad = None


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="the system has no such signal")
@pytest.mark.usefixtures("handler")
def test_a_timeout_in_an_operation_without_a_kernel_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran again, to its end, before the error came out: for ever, if that was the trouble."""
    step = jg.compile(lambda x: (jg.linalg.matrix_exp((x * 0.5).diag()) + 1).sum())
    wanted = [step(jg.ones(3)).item() for _ in range(3)][-1]
    with monkeypatch.context() as patch:
        patch.setattr(interpret, "_interpret", lambda *_: pytest.fail("it ran again"))
        _Timeout(patch, EagerPlan, "run_anyhow")
        with pytest.raises(TimeoutError, match="too late"):
            step(jg.ones(3))
    assert step(jg.ones(3)).item() == wanted


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="the system has no such signal")
@pytest.mark.usefixtures("handler")
def test_the_cache_takes_no_timeout_for_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache, digest = object_cache.ObjectCache(tmp_path, 1 << 20), bytes(32)
    for name in ("open", "replace"):
        with monkeypatch.context() as patch:
            _Timeout(patch, object_cache.os, name)
            with pytest.raises(TimeoutError, match="too late"):
                cache.store(digest, b"code")
        assert cache.writable
    assert cache.store(digest, b"code")
    with monkeypatch.context() as patch:
        _Timeout(patch, object_cache, "payload_of")
        with pytest.raises(TimeoutError, match="too late"):
            cache.load(digest)
    assert cache.load(digest) == b"code"
