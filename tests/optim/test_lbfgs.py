"""L-BFGS takes PyTorch's steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"lr": 0.2},
    "wolfe": {"line_search_fn": "strong_wolfe"},
    "wolfe-long-step": {"lr": 50.0, "line_search_fn": "strong_wolfe", "max_iter": 5},
    "wolfe-short-step": {"lr": 1e-3, "line_search_fn": "strong_wolfe", "max_iter": 5},
    "few-evaluations": {"line_search_fn": "strong_wolfe", "max_eval": 4},
    "short-memory": {"line_search_fn": "strong_wolfe", "history_size": 2},
    "stops-early": {"lr": 0.3, "tolerance_grad": 0.5},
    "stops-when-flat": {"lr": 0.3, "tolerance_change": 0.05},
}


def _minimize(lib: Any, options: dict[str, Any], wrap: Any = lambda f: f, steps: int = 3) -> list[Any]:
    """Losses, parameters and counts after each call of ``step`` on Rosenbrock's function."""
    x = lib.tensor([-1.2, 1.0, 0.5], dtype=lib.float64, requires_grad=True)
    y = lib.tensor(0.7, dtype=lib.float64, requires_grad=True)
    unused = lib.zeros(2, dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.LBFGS([x, y, unused], **options)

    @wrap
    def closure() -> Any:
        optimizer.zero_grad()
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() * 0.01 + (y - x[0]) ** 2
        loss.backward()
        return loss

    seen = []
    for _ in range(steps):
        loss = optimizer.step(closure)
        state = optimizer.state[x]
        seen += [loss.item(), *x.tolist(), y.item(), state["func_evals"], state["n_iter"]]
    return seen


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_steps_are_torchs(options: dict[str, Any], mode: Mode) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch")
    got, want = _minimize(jitgrad, options, mode.wrap), _minimize(torch, options)
    np.testing.assert_allclose(got, want, rtol=1e-7)


def test_finds_the_minimum(mode: Mode) -> None:
    *_, x0, x1, x2, y, _, _ = _minimize(jitgrad, {"line_search_fn": "strong_wolfe"}, mode.wrap, steps=4)
    np.testing.assert_allclose([x0, x1, x2, y], 1, atol=1e-3)


def test_a_step_inside_a_compiled_function(mode: Mode) -> None:
    def step(w: Any) -> Any:
        optimizer = jitgrad.optim.LBFGS([w], max_iter=4)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = ((w - 3.0) ** 2).sum()
            loss.backward()
            return loss

        return optimizer.step(closure), w

    first, w = mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0], requires_grad=True),))
    assert first.item() == 5.0
    np.testing.assert_allclose(w.tolist(), 3.0, rtol=1e-5)


def test_goes_on_from_a_saved_state() -> None:
    def make(value: Any) -> Any:
        w = jitgrad.tensor(value, dtype=jitgrad.float64, requires_grad=True)
        optimizer = jitgrad.optim.LBFGS([w], lr=0.1, max_iter=3)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (w**4).sum() + (w[0] - w[1]) ** 2
            loss.backward()
            return loss

        return w, optimizer, closure

    w, optimizer, closure = make([1.0, 2.0])
    optimizer.step(closure)
    v, other, other_closure = make(w.tolist())
    other.load_state_dict(optimizer.state_dict())
    assert other.state[v]["old_dirs"][0] is not optimizer.state[w]["old_dirs"][0]
    optimizer.step(closure)
    other.step(other_closure)
    assert v.tolist() == w.tolist()


def test_refusals() -> None:
    w = jitgrad.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        jitgrad.optim.LBFGS([w], lr=-1)
    with pytest.raises(ValueError, match="doesn't support per-parameter options"):
        jitgrad.optim.LBFGS([{"params": [w]}, {"params": [w.detach().requires_grad_()]}])
    with pytest.raises(TypeError, match="closure"):
        jitgrad.optim.LBFGS([w]).step()
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        jitgrad.optim.LBFGS([w], line_search_fn="armijo").step(_closure_of(w))


def _closure_of(w: Any) -> Any:
    def closure() -> Any:
        w.grad = None
        loss = w.sum()
        loss.backward()
        return loss

    return closure
