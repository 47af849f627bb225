"""Programs as PyTorch users write them give what torch gives, eagerly and compiled; and stay compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import programs_engine  # noqa: F401
import programs_learning  # noqa: F401
import programs_more  # noqa: F401
import programs_physics  # noqa: F401
import programs_training  # noqa: F401
import pytest
from program import PROGRAMS, Program, compiled_models

import jitgrad

torch = pytest.importorskip("torch", reason="compares with torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Anomaly Detection:UserWarning"),
    pytest.mark.filterwarnings("ignore:Error detected in:UserWarning"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning"),
]
_WANTED: dict[str, list[Any]] = {}


def observe(value: Any) -> Any:
    """Tensors as arrays and whether they require grad, containers element by element. Taken at once: memory changes."""
    if isinstance(value, jitgrad.Tensor | torch.Tensor):
        dense = value.to_dense() if value.is_sparse else value
        return str(value.dtype).split(".")[-1], value.requires_grad, np.array(dense.detach().cpu().numpy())
    if isinstance(value, list | tuple):
        return [observe(v) for v in value]
    if isinstance(value, dict):
        return {k: observe(v) for k, v in value.items()}
    return value


def assert_agree(got: Any, want: Any, path: str, tolerance: float) -> None:
    if isinstance(want, list | tuple):
        assert len(got) == len(want), f"{path}: {got}, expected {want}"
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            assert_agree(g, w, f"{path}[{i}]", tolerance)
    elif isinstance(want, dict):
        assert got.keys() == want.keys(), path
        for key in want:
            assert_agree(got[key], want[key], f"{path}.{key}", tolerance)
    elif isinstance(want, np.ndarray):
        assert got.dtype == want.dtype, f"{path}: {got.dtype}, expected {want.dtype}"
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=path)
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=tolerance, abs=tolerance), path
    else:
        assert got == want, f"{path}: {got!r}, expected {want!r}"


def run(lib: Any, p: Program, step: Callable[..., Any]) -> tuple[list[Any], dict[str, int]]:
    """All that the program shows; and what ``jitgrad.stats()`` counted in its last iteration."""
    seen, before, after = [], jitgrad.stats(), jitgrad.stats()
    for value in p.run(lib, step):
        seen.append(observe(value))
        before, after = after, jitgrad.stats()
    return seen, {name: after[name] - before[name] for name in after}


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("p", PROGRAMS, ids=lambda p: p.name)
def test_program_agrees_with_torch(p: Program, is_compiled: bool) -> None:
    if p.name not in _WANTED:
        _WANTED[p.name], _ = run(torch, p, lambda function: function)
    got, last = run(jitgrad, p, jitgrad.compile if is_compiled else lambda function: function)
    assert_agree(got, _WANTED[p.name], p.name, p.tolerance)
    if is_compiled and p.is_steady:
        new = {k: last[k] for k in ("misses", "compiles", "plans", "eager_calls") if last[k]}
        assert not new, f"the last iteration was not found: {new}"
        assert last["traces"] > 0
        assert last["fallbacks"] <= p.fallbacks


@pytest.mark.parametrize("p", PROGRAMS, ids=lambda p: p.name)
def test_program_whose_models_are_compiled_agrees_with_torch(p: Program) -> None:
    """The usual way to use a compiler: ``compile(model)``, and everything else in plain Python."""
    if p.name not in _WANTED:
        _WANTED[p.name], _ = run(torch, p, lambda function: function)
    with compiled_models(jitgrad.compile):
        got, _ = run(jitgrad, p, lambda function: function)
    assert_agree(got, _WANTED[p.name], p.name, p.tolerance)
