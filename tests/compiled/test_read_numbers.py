"""Numbers that a step reads in its middle or at its end: ``item()`` is a hit, and the call stays a usual one."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.state import native_cell

jg.compile(lambda x: x + 1)(jg.ones(2))  # installs native hits

_CALLS = 6


def _check(make: Callable[[], Callable[[int], Any]], same: bool = True) -> Callable[[int], Any]:
    """A step made twice says the same eagerly and compiled, at every call; the compiled one."""
    eager, compiled = make(), jg.compile(make())
    before = jg.stats()
    for nr in range(_CALLS):
        expected, found = eager(nr), compiled(nr)
        assert type(found) is type(expected)
        if same:
            assert found == expected
        else:
            assert found == pytest.approx(expected, rel=1e-6)
    assert jg.stats()["traces"] == before["traces"] + _CALLS
    return compiled


DTYPES = (jg.float32, jg.float64, jg.int64, jg.int32, jg.uint8, jg.bool, jg.float16, jg.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("part", [lambda x: x[2], lambda x: x[1:2], lambda x: x.sum(), lambda x: x.max() == x[0]])
def test_every_kind_of_number(dtype: Any, part: Callable[[Any], Any]) -> None:
    x = jg.tensor([1, 0, 3, 5]).to(dtype)
    _check(lambda: lambda nr: part(x * 1).item())
    _check(lambda: lambda nr: part(x).item())  # a view of what came from outside


def test_of_the_wrong_size() -> None:
    x = jg.ones(3)
    step = jg.compile(lambda: (x * 2).item())
    for _ in range(4):
        with pytest.raises(RuntimeError, match="a Tensor with 3 elements cannot be converted to Scalar"):
            step()
    assert jg.compile(lambda: (x * 2).sum().item())() == 6.0


def test_several_reads_and_what_follows_them() -> None:
    def make() -> Callable[[int], Any]:
        x = jg.tensor([1.0, 2.0, 4.0])

        def step(nr: int) -> Any:
            y = x * 2
            a = y.sum().item()
            b = y.mean()
            z = y * a
            return a, b.item(), b.item(), float(z[1]), bool(z.sum() > 3), int(z[0]), (z + b.item()).sum().item()

        return step

    _check(make)


def test_a_read_decides_the_path() -> None:
    def make() -> Callable[[int], Any]:
        x = jg.tensor([1.0, 2.0])

        def step(nr: int) -> Any:
            y, turns = x * (1 + nr % 2), 0
            while (y * y).sum().item() < 1000.0:
                y, turns = y * 2, turns + 1
            return turns, y.sum().item()

        return step

    _check(make)


def test_reads_after_writes() -> None:
    """The segment's end writes what is read, or something else."""

    def make() -> Callable[[int], Any]:
        w, v = jg.tensor(1.0), jg.tensor([1.0, 2.0])

        def step(nr: int) -> Any:
            w.add_(1)
            first = w.item()
            part = v[1]
            part.mul_(2)
            return first, w.item(), v[1].item(), part.item(), (w * v).sum().item(), v.add_(1)[0].item(), v.tolist()

        return step

    _check(make)


@pytest.mark.parametrize("when", ["before backward", "after backward", "after the step"])
@pytest.mark.parametrize("returns", [False, True])
def test_losses_of_a_training(when: str, returns: bool) -> None:
    def make() -> Callable[[int], Any]:
        jg.manual_seed(0)
        model = jg.nn.Sequential(jg.nn.Linear(4, 5), jg.nn.Tanh(), jg.nn.Linear(5, 1))
        optimizer = jg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x = jg.randn(8, 4)

        def step(nr: int) -> Any:
            seen = []
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            if when == "before backward":
                seen.append(loss.item())
            loss.backward()
            if when == "after backward":
                seen.append(loss.item())
            optimizer.step()
            if when == "after the step":
                seen.append(loss.item())
            return float(loss.detach()) if returns else seen[0]

        return step

    _check(make, same=False)


def test_the_graph_of_a_value_that_was_read() -> None:
    """It can be differentiated after the call; a write to what it saved is noticed."""
    w = jg.tensor([1.0, 2.0], requires_grad=True)

    def step() -> Any:
        y = w * w
        seen = y.sum().item()
        return seen, y.exp().sum(), y

    compiled = jg.compile(step)
    for _ in range(_CALLS):
        seen, z, y = compiled()
        assert seen == 5.0
        w.grad = None
        z.backward()
        expected = (2 * w * (w * w).exp()).tolist()
        assert w.grad.tolist() == pytest.approx(expected, rel=1e-6)
        seen, z, y = compiled()
        with jg.no_grad():
            y.add_(1)
        z.backward()  # ``exp`` has saved its result
        seen, z, y = compiled()
        with jg.no_grad():
            w.mul_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()


def test_a_value_that_nobody_holds_is_gone_after_the_call() -> None:
    w = jg.tensor([1.0, 2.0], requires_grad=True)
    kept: list[Any] = []

    def step() -> float:
        y = (w * w).exp()
        kept[:] = [weakref.ref(y)]
        return y.sum().item()

    compiled = jg.compile(step)
    for _ in range(_CALLS):
        compiled()
        gc.collect()
        assert kept[0]() is None


@pytest.mark.skipif(
    not native_cell.is_installed or not counts_references or config.check_hits,
    reason="hits are Python's, or are checked",
)
@pytest.mark.parametrize("trains", [False, True])
def test_a_warm_step_that_reads_runs_no_python_of_ours(trains: bool) -> None:
    """Not a function of the recorder, and not another recorder at every call."""
    w = jg.tensor([1.0, 2.0], requires_grad=True)

    def step() -> float:
        loss = (w * w).exp().sum()
        if trains:
            w.grad = None
            loss.backward()
            with jg.no_grad():
                w.sub_(w.grad, alpha=0.001)
        return loss.item()

    compiled = jg.compile(step)
    for _ in range(_CALLS):
        compiled()
    called: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        compiled()
    finally:
        sys.setprofile(None)
    assert called == ["step"]
