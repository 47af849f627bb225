"""An exception at a statement of the recorder in a step's first call: what a signal's handler raises arrives there.

Afterwards the thread's grad mode is as it was, and the next calls are right. ``INTERRUPTED_LINES=all`` tries every
statement that the first call runs; otherwise every eleventh.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jitgrad as jg

ROOT = Path(jg.__file__).parent
STRIDE = 1 if os.environ.get("INTERRUPTED_LINES") == "all" else 11
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
    """What ``call`` raises; ``at_line`` sees each statement of the recorder before it runs."""

    def local(frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            at_line((frame.f_code.co_filename, frame.f_lineno))
        return local

    before = sys.gettrace()
    inside = str(ROOT / "tracer")
    sys.settrace(lambda frame, event, arg: local if frame.f_code.co_filename.startswith(inside) else None)
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

    _traced(step, at_line)
    if not met:  # a plan that a former step of this test left is used instead
        return ""
    if not jg.is_grad_enabled():
        jg.set_grad_enabled(True)
        return "grad mode was left off"
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
def test_the_next_call_is_right() -> None:
    want = _losses(_make_step()[0])
    lines: dict[Line, None] = {}
    assert _traced(_make_step()[0], lambda line: lines.setdefault(line)) is None
    assert len(lines) > 500
    found = {line: _interrupted_at(line, want) for line in list(lines)[::STRIDE]}
    wrong = {f"{Path(name).relative_to(ROOT)}:{nr}": text for (name, nr), text in found.items() if text}
    assert not wrong
