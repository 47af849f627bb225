"""Checkpoints against PyTorch: the same programs on both libraries, refusals included."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from modes import Mode

import jitgrad
from jitgrad.utils import checkpoint as own

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
theirs = pytest.importorskip("torch.utils.checkpoint")

TORCH = SimpleNamespace(lib=torch, ck=theirs)
JITGRAD = SimpleNamespace(lib=jitgrad, ck=own)
Program = Callable[[Any], Any]


def _leaf(side: Any, *values: float) -> Any:
    return side.lib.tensor(list(values), dtype=side.lib.float64, requires_grad=True)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        return [round(v, 9) for v in value.detach().reshape(-1).tolist()]
    return value


def _outcome(program: Program, side: Any) -> Any:
    """What a program returns; of an exception the type and the first lines, without the library's name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = _plain(program(side))
        except Exception as error:
            text = str(error).split("Tip:")[0].split("Tensors saved by")[0].strip()
            text = re.sub(r"torch\.Size\(\[(\d+)\]\)", r"(\1,)", text.replace("jitgrad.", "torch."))
            result = f"{type(error).__name__}: {text}"
    return result, [w.category.__name__ for w in caught]


class _Runs:
    """A function that notes how far each of its runs gets."""

    def __init__(self, *steps: Callable[[Any], Any]) -> None:
        self.steps = steps
        self.log: list[int] = []

    def __call__(self, x: Any) -> Any:
        for number, step in enumerate(self.steps):
            self.log.append(number)
            x = step(x)
        return x


class _Fickle:
    """A function that is another one at every call."""

    def __init__(self, *functions: Callable[[Any], Any]) -> None:
        self.functions = list(functions)

    def __call__(self, x: Any) -> Any:
        return self.functions.pop(0)(x)


def _steps_of_runs(early_stop: bool, retain_graph: bool) -> Program:
    def program(side: Any) -> Any:
        x = _leaf(side, 0.1, 0.2)
        runs = _Runs(lambda x: x.exp(), lambda x: x.sin(), lambda x: x + 1, lambda x: x.sum())
        y = side.ck.checkpoint(runs, x, use_reentrant=False, early_stop=early_stop)
        y.backward(retain_graph=retain_graph)
        if retain_graph:
            y.backward()
        return runs.log, x.grad

    return program


def _fickle(*functions: Callable[[Any], Any], **options: Any) -> Program:
    def program(side: Any) -> Any:
        x = _leaf(side, 0.1)
        side.ck.checkpoint(_Fickle(*functions), x, use_reentrant=False, **options).sum().backward()
        return x.grad

    return program


def _nested(side: Any) -> Any:
    """Three levels, and what runs how often."""
    log: list[str] = []

    def level(name: str, below: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            log.append(name)
            x = x.sin() * 2
            x = side.ck.checkpoint(below, x, use_reentrant=False) if below is not None else x.exp()
            log.append(f"{name} ends")
            return x.cos()

        return run

    x = _leaf(side, 0.1, 0.2)
    top = level("a", level("b", level("c", None)))
    side.ck.checkpoint(top, x, use_reentrant=False).sum().backward()
    return log, x.grad


def _backward_in_forward(retain_graph: bool) -> Program:
    def program(side: Any) -> Any:
        runs: list[int] = []

        def function(x: Any) -> Any:
            runs.append(len(runs))
            y = x.sin()
            z = y.cos()
            (gx,) = side.lib.autograd.grad(z.sum(), x, retain_graph=retain_graph)
            return x.cos() * gx

        x = _leaf(side, 0.1, 0.2)
        side.ck.checkpoint(function, x, use_reentrant=False).sum().backward()
        return len(runs), x.grad

    return program


def _part_of_a_graph(side: Any) -> Any:
    """Only one of two outputs is differentiated, then the other one."""
    x, w = _leaf(side, 0.1, 0.2), _leaf(side, 1.0, 2.0)
    a, b = side.ck.checkpoint(lambda x, w: ((x * w).exp(), (x + w).sin()), x, w, use_reentrant=False)
    (first,) = side.lib.autograd.grad(a.sum(), x)
    (second,) = side.lib.autograd.grad(b.sum(), w)
    return first, second


def _several_in_a_row(use_reentrant: bool) -> Program:
    def program(side: Any) -> Any:
        x, w = _leaf(side, 0.1, 0.2), _leaf(side, 1.0, 2.0)
        y = x
        for _ in range(3):
            y = side.ck.checkpoint(lambda y, w: (y * w).sin(), y, w, use_reentrant=use_reentrant)
        (y * x).sum().backward()
        return x.grad, w.grad

    return program


def _keywords(side: Any) -> Any:
    x, w = _leaf(side, 0.1, 0.2), _leaf(side, 1.0, 2.0)
    y = side.ck.checkpoint(lambda x, *, w, k: (x * w * k).sin(), x, use_reentrant=False, w=w, k=3)
    y.sum().backward()
    return x.grad, w.grad


def _reentrant(*args: Any, ask: Callable[[Any, Any, Any], Any] | None = None, **options: Any) -> Program:
    def program(side: Any) -> Any:
        x = _leaf(side, 0.1, 0.2)
        y = side.ck.checkpoint(lambda x, *args: (x * x, x.sin()), x, *args, use_reentrant=True, **options)
        if ask is not None:
            return ask(side, x, y[0].sum())
        (y[0] * y[1]).sum().backward()
        return x.grad, type(y[0].grad_fn).__name__

    return program


def _sequential(use_reentrant: bool, segments: int) -> Program:
    def program(side: Any) -> Any:
        x = _leaf(side, 0.1, 0.2)
        runs = [_Runs(step) for step in (lambda x: x.sin(), lambda x: x * 2, lambda x: x.exp(), lambda x: x.cos())]
        side.ck.checkpoint_sequential(runs, segments, x, use_reentrant=use_reentrant).sum().backward()
        return [len(r.log) for r in runs], x.grad

    return program


def _detach_variable(side: Any) -> Any:
    x = _leaf(side, 1.0)
    a, b, c = side.ck.detach_variable((x * 2, x.detach(), 3))
    return [a.requires_grad, a.is_leaf, b.requires_grad, c], side.ck.detach_variable([x])


PROGRAMS: dict[str, Program] = {
    "runs": _steps_of_runs(True, False),
    "runs to the end": _steps_of_runs(False, False),
    "runs, backward twice": _steps_of_runs(True, True),
    "fewer saved": _fickle(lambda x: x.exp().sin(), lambda x: x.exp() + 1),
    "more saved": _fickle(lambda x: x.exp(), lambda x: x.exp().sin(), early_stop=False),
    "more saved, stopped": _fickle(lambda x: x.exp(), lambda x: x.exp().sin()),
    "other shape": _fickle(lambda x: x.exp(), lambda x: x.expand(3).exp()),
    "other shape, unchecked": _fickle(lambda x: x.exp() * 1, lambda x: x.exp() * 2, determinism_check="none"),
    "unknown check": _fickle(lambda x: x, determinism_check="all"),
    "nested": _nested,
    "backward in forward": _backward_in_forward(False),
    "backward in forward, retained": _backward_in_forward(True),
    "part of a graph": _part_of_a_graph,
    "in a row": _several_in_a_row(False),
    "in a row, reentrant": _several_in_a_row(True),
    "keywords": _keywords,
    "reentrant": _reentrant("text", 3),
    "reentrant keywords": _reentrant(a=1),
    "reentrant debug": _reentrant(debug=True),
    "reentrant grad": _reentrant(ask=lambda side, x, y: side.lib.autograd.grad(y, x)),
    "reentrant inputs": _reentrant(ask=lambda side, x, y: y.backward(inputs=[x])),
    "reentrant, not said": lambda side: side.ck.checkpoint(lambda x: x * 2, _leaf(side, 1.0)),
    "reentrant, no grad": lambda side: side.ck.checkpoint(
        lambda x: x * 2, _leaf(side, 1.0).detach(), use_reentrant=True
    ),
    "reentrant, detached": lambda side: side.ck.checkpoint(
        lambda x: x.detach(), _leaf(side, 1.0), use_reentrant=True
    ).sum().backward(),
    "sequential 2": _sequential(False, 2),
    "sequential 3, reentrant": _sequential(True, 3),
    "detach_variable": _detach_variable,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_pytorch(name: str, mode: Mode) -> None:
    expected = _outcome(PROGRAMS[name], TORCH)
    assert mode.run(lambda: _outcome(PROGRAMS[name], JITGRAD), is_steady=False) == expected
