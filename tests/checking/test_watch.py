"""``jitgrad.watch_nan``; and what people do in a step to look at it: print, breakpoint, pdb."""

from __future__ import annotations

import pdb
from pathlib import Path
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.door import door
from jitgrad.probe import probe

HERE = Path(__file__).name


def _line_of(error: jg.NonFiniteError) -> str:
    name, _, number = error.where.rpartition(":")
    assert Path(name).name == HERE
    return Path(__file__).read_text().splitlines()[int(number) - 1].strip()


def test_the_first_operation_is_named(mode: Any) -> None:
    w = jg.ones(3, requires_grad=True)
    optimizer = jg.optim.SGD([w], lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        logs = (x * w).log()
        loss = (logs * 2.0).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = mode.wrap(step)
    with jg.watch_nan():
        for _ in range(3):
            run(jg.tensor([1.0, 2.0, 3.0]))
        before = w.tolist()
        with pytest.raises(jg.NonFiniteError, match="1 NaN") as caught:
            run(jg.tensor([1.0, -2.0, 3.0]))
    assert caught.value.operation == "log"
    assert _line_of(caught.value) == "logs = (x * w).log()"
    assert w.tolist() == before


def test_in_a_backward_the_forward_is_named(mode: Any) -> None:
    def step(x: Any) -> Any:
        total = (x.sqrt() * 0.0).sum()
        return jg.autograd.grad(total, [x])[0]

    run = mode.wrap(step)
    with jg.watch_nan():
        for _ in range(2):
            run(jg.tensor([1.0, 4.0], requires_grad=True))
        with pytest.raises(jg.NonFiniteError, match="SqrtBackward0"):
            run(jg.tensor([0.0, 4.0], requires_grad=True))


def test_a_nan_that_came_from_outside_is_no_error(mode: Any) -> None:
    with jg.watch_nan():
        assert mode.run(lambda x: x * 2.0, lambda: (jg.tensor([float("nan"), 1.0]),))[1].item() == 2.0


def test_warnings_and_infinities(mode: Any) -> None:
    run = mode.wrap(lambda x: 1.0 / x)
    zero = jg.zeros(2)
    with jg.watch_nan():
        run(zero)
    with jg.watch_nan("warn", infinity=True), pytest.warns(UserWarning, match="2 infinite"):
        run(zero)
    with pytest.raises(ValueError, match="action must be"), jg.watch_nan("stop"):
        pass


def test_nothing_is_left_behind() -> None:
    before = door.run_one, door.run_two, door.run_many, door.run_inplace, probe.session
    with pytest.raises(jg.NonFiniteError), jg.watch_nan():
        jg.zeros(2) / jg.zeros(2)
    assert (door.run_one, door.run_two, door.run_many, door.run_inplace, probe.session) == before


def test_prints_read_what_is_there(mode: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: Any) -> Any:
        y = x * 2.0
        print("y is", y)
        print(f"its sum is {y.sum().item()}")
        return y + 1.0

    assert mode.run(step, lambda: (jg.tensor([1.0, 2.0]),)).tolist() == [3.0, 5.0]
    assert capsys.readouterr().out.splitlines()[-2:] == ["y is tensor([2., 4.])", "its sum is 6.0"]


def test_breakpoint_stops_in_the_step(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def hook(*args: Any, **kwargs: Any) -> None:
        seen.append("stopped")

    monkeypatch.setattr("sys.breakpointhook", hook)

    def step(x: Any) -> Any:
        y = x.exp()
        breakpoint()
        return y.log()

    assert mode.run(step, lambda: (jg.tensor([0.5]),)).tolist() == pytest.approx([0.5])
    assert seen


class _Scripted(pdb.Pdb):
    """Types commands into the debugger, and keeps what it answers."""

    def __init__(self, commands: list[str]) -> None:
        super().__init__(nosigint=True, readrc=False)
        self.commands_left, self.answers = list(commands), []
        self.use_rawinput = False

    def cmdloop(self, intro: Any = None) -> None:
        while self.commands_left:
            if self.onecmd(self.commands_left.pop(0)):
                return
        self.onecmd("continue")

    def message(self, msg: str) -> None:
        self.answers.append(msg)


def test_pdb_evaluates_changes_and_steps_on(mode: Any) -> None:
    answers: list[str] = []

    def step(x: Any, stops: bool = False) -> Any:
        y = x * 3.0
        if stops:
            debugger = _Scripted(["p y.sum().item()", "!y = y + 1.0", "p y", "next", "continue"])
            debugger.set_trace()
            answers.extend(debugger.answers)
        return y * 2.0

    run = mode.wrap(step)
    for _ in range(2):
        run(jg.tensor([1.0, 2.0]))
    result = run(jg.tensor([1.0, 2.0]), stops=True)
    assert result.tolist() == [8.0, 14.0]
    assert [answer for answer in answers if not answer.startswith("> ")][:2] == ["9.0", "tensor([4., 7.])"]
