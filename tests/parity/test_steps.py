"""Realistic steps agree with torch: losses, parameters and gradients, after every one of four iterations.

``warm`` runs a step on fresh state with what an earlier run of the same function compiled, and may compile nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode
from step_cases import CASES, Case, Maker, outside

import jitgrad
from jitgrad import events

torch = pytest.importorskip("torch", reason="compares with torch")

ITERATIONS = 4
TOLERANCE = {"float32": {"rtol": 2e-4, "atol": 2e-5}, "float64": {"rtol": 1e-9, "atol": 1e-11}}


def observe(value: Any) -> Any:
    """Tensors as arrays with their gradients, containers element by element."""
    if isinstance(value, jitgrad.Tensor | torch.Tensor):
        grad = None if value.requires_grad and not value.is_leaf else value.grad
        return np.array(value.detach().numpy()), None if grad is None else np.array(grad.detach().numpy())
    if isinstance(value, list | tuple):
        return [observe(v) for v in value]
    if isinstance(value, dict):
        return {k: observe(v) for k, v in value.items() if k != "optimizer"}
    return value


def iterate(lib: Any, case: Case, dtype: str, step: Callable[..., Any]) -> list[Any]:
    """What can be seen after every iteration."""
    state = case.state(Maker(lib, dtype, 1))
    seen = []
    for i in range(ITERATIONS):
        result = step(lib, state, *case.batch(Maker(lib, dtype, 10 + i)))
        seen.append(observe([result, state]))
    return seen


def assert_close(got: Any, want: Any, path: str, **tolerance: float) -> None:
    if isinstance(want, list | tuple):
        assert len(got) == len(want), path
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            assert_close(g, w, f"{path}[{i}]", **tolerance)
    elif isinstance(want, dict):
        assert got.keys() == want.keys(), path
        for key in want:
            assert_close(got[key], want[key], f"{path}.{key}", **tolerance)
    elif isinstance(want, np.ndarray):
        assert got is not None, f"{path}: nothing, expected {want}"
        assert got.dtype == want.dtype, f"{path}: {got.dtype}, expected {want.dtype}"
        np.testing.assert_allclose(got, want, err_msg=path, **tolerance)
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=tolerance["rtol"], abs=tolerance["atol"]), path
    else:
        assert got == want, f"{path}: {got!r}, expected {want!r}"


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_step_agrees_with_torch(case: Case, dtype: str, mode: Mode) -> None:
    want = iterate(torch, case, dtype, case.step)
    step = mode.wrap(case.step)
    if mode.name == "warm":
        iterate(jitgrad, case, dtype, step)
    with events.count("compiles") as compiles:
        got = iterate(jitgrad, case, dtype, step)
    if mode.name == "warm":
        assert compiles() == 0
    assert_close(got, want, case.name, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_step_with_its_backward_outside_agrees_with_torch(case: Case, dtype: str) -> None:
    """Only the loss is compiled: ``backward()`` and the update are plain Python."""
    want = iterate(torch, case, dtype, case.step)
    step = outside(case.step, jitgrad.compile)
    for _ in range(2):
        got = iterate(jitgrad, case, dtype, step)
        assert_close(got, want, case.name, **TOLERANCE[dtype])
    if "descend" in case.step.__code__.co_names:
        before = jitgrad.stats()["outside_backwards"]
        iterate(jitgrad, case, dtype, step)
        assert jitgrad.stats()["outside_backwards"] - before == ITERATIONS
