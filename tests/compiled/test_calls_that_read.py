"""Compiled calls that read or write on their way, as parts of a loop in plain Python; gradients between calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import Tensor, nn
from jitgrad.cpython.liveness import counts_references

Function = Callable[..., Any]
Wrap = Callable[[Function], Function]

W = jg.linspace(-1, 1, 9).reshape(3, 3).requires_grad_()


def same(function: Function) -> Function:
    return function


def _forms_with_reads_and_writes() -> dict[str, Function]:
    first, second, norm, count = nn.Linear(3, 4), nn.Linear(4, 2), nn.BatchNorm1d(4), jg.zeros(())
    weights = [first.weight, second.weight]

    def of_a_detached_value(x: Tensor) -> Tensor:
        hidden = first(x).tanh()
        return second(hidden * 2 if hidden.detach().abs().max().item() > 5 else hidden)

    def of_a_value_with_a_graph(x: Tensor) -> Tensor:
        hidden = first(x).tanh()
        return second(hidden * 2 if hidden.mean() > 5 else hidden)

    def of_the_input(x: Tensor) -> Tensor:
        return second(first(x * 2 if x.sum().item() > 1e6 else x).tanh())

    def of_the_result(x: Tensor) -> Tensor:
        made = second(first(x).tanh())
        assert not made.isnan().any() and made.max() < 1e6
        return made

    def counted(x: Tensor) -> Tensor:
        count.add_(1)
        return second(first(x).tanh())

    def normalized(x: Tensor) -> Tensor:
        return second(norm(first(x)).tanh())

    def normalized_and_read(x: Tensor) -> Tensor:
        hidden = norm(first(x))
        assert not hidden.isnan().any()
        return second(hidden.tanh())

    found: dict[str, Any] = {f.__name__: f for f in (
        of_a_detached_value, of_a_value_with_a_graph, of_the_input, of_the_result, counted, normalized,
        normalized_and_read,
    )}  # fmt: skip
    return {name: (weights, function) for name, function in found.items()}


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("name", _forms_with_reads_and_writes())
def test_a_call_that_reads_or_writes_leaves_lightly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``.item()`` on the way, a check of the result, statistics of a batch norm: the backward is one native step."""
    weights, plain = _forms_with_reads_and_writes()[name]  # type: ignore[misc]
    function = jg.compile(plain)
    for turn in range(6):
        if turn == 4 and counts_references:
            monkeypatch.setattr("jitgrad.compiled.nodes.trace_graph.TraceGraph.run_backward", None)
            monkeypatch.setattr("jitgrad.runtime.engine.run.engine.engine.execute", None)
        x, found = jg.linspace(-1, 1, 15).reshape(5, 3) * (turn + 1), []
        for call in (plain, function):
            for weight in weights:
                weight.grad = None
            call(x).square().sum().backward()
            found.append([weight.grad.numpy().copy() for weight in weights])
            monkeypatch.undo() if call is plain and turn < 4 else None
        for want, got in zip(*found, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("asks_whole_numbers", [False, True])
def test_the_gradient_of_a_result_between_two_calls(asks_whole_numbers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """``grad()`` stops at a result of the first call; the second one's program cannot be recorded, or can."""
    if not asks_whole_numbers:
        monkeypatch.setattr("jitgrad.compiled.backward.from_outside.CallBackward._record", lambda *args: None)

    def run(wrap: Wrap) -> list[list[float]]:
        turned, scaled = wrap(lambda x: x.t()), wrap(lambda x, k: (x @ W).tanh() * k)
        found = []
        for turn in range(5):
            a = jg.full((3, 3), 0.1 * turn).requires_grad_()
            middle = turned(a * 2)
            loss = (scaled(middle, 2 + turn % 3).sum() + middle.sum()) * 2
            found += [g.flatten().tolist() for g in jg.autograd.grad(loss, (a, middle))]
        return found

    np.testing.assert_allclose(run(jg.compile), run(same), rtol=1e-5)


_WRITES: dict[str, Callable[[Tensor], Any]] = {
    "none": lambda x: None,
    "the whole": lambda x: x.mul_(2),
    "the part": lambda x: x[0].mul_(2),
    "through data": lambda x: x.data.mul_(2),
    "a part through data": lambda x: x.data[0].mul_(2),
    "through detach": lambda x: x.detach().mul_(2),
}


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("where", ["in the call", "outside"])
@pytest.mark.parametrize("write", _WRITES)
def test_a_write_to_what_a_saved_part_is_of(write: str, where: str, reads: bool) -> None:
    """The part ``x[0]`` is no copy: the backward reads what is there, or says that it was written."""
    def function(x: Tensor) -> Tensor:
        part = x[0]
        made = part * W
        if reads:
            made.sum().item()
        if where == "in the call":
            _WRITES[write](x)
        return made * 2

    def run(function: Function) -> list[Any]:
        found: list[Any] = []
        for turn in range(6):
            W.grad, x = None, jg.full((3, 3), 1.0 + turn)
            made = function(x)
            if where == "outside":
                _WRITES[write](x)
            try:
                made.sum().backward()
                found.append((made.tolist(), W.grad.tolist(), x.tolist()))
            except RuntimeError as error:
                found.append(str(error).split("[")[0])
        return found

    assert run(jg.compile(function)) == run(function)


def test_a_changing_whole_number_in_a_call_is_recorded_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = jg.compile(lambda x, k: (x * k).sum())
    monkeypatch.setattr("jitgrad.compiled.nodes.sweep.sweep", None)
    for k in (2, 3, 4, 5):
        x = jg.ones(3, requires_grad=True)
        scaled(x, k).backward()
        assert x.grad.tolist() == [k] * 3


def test_a_hook_hears_of_no_gradient_that_nobody_wants() -> None:
    """A backward to one of a call's arguments, past what leads to the other one."""
    both = jg.compile(lambda x, y: (x.sin(), y.cos()))
    for _ in range(4):
        x, y, heard = jg.ones(3, requires_grad=True), jg.ones(3, requires_grad=True), []
        first, second = both(x, y)
        other = second * 2
        other.register_hook(heard.append)
        jg.autograd.grad((first * 3).sum() + other.sum(), x)
        assert not heard
