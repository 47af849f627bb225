"""``jitgrad.linalg`` against ``torch.linalg``: shapes, derivatives, refusals; inside a compiled step too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad

torch = pytest.importorskip("torch", reason="compares with torch")
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

_RNG = np.random.default_rng(5)
MATRIX, BATCH = _RNG.normal(size=(3, 3)) + 4 * np.eye(3), _RNG.normal(size=(2, 3, 3)) + 4 * np.eye(3)
VECTOR, RIGHT, RIGHTS = _RNG.normal(size=3), _RNG.normal(size=(3, 2)), _RNG.normal(size=(2, 3, 2))

SOLVES: dict[str, tuple[Any, Any, Callable[..., Any]]] = {
    "vector": (MATRIX, VECTOR, lambda t, a, b: t.linalg.solve(a, b)),
    "matrix": (MATRIX, RIGHT, lambda t, a, b: t.linalg.solve(a, b)),
    "batch": (BATCH, RIGHTS, lambda t, a, b: t.linalg.solve(a, b)),
    "vectors": (BATCH, RIGHTS[..., 0], lambda t, a, b: t.linalg.solve(a, b)),
    "one matrix for all": (MATRIX, RIGHTS, lambda t, a, b: t.linalg.solve(a, b)),
    "one right side for all": (BATCH, RIGHT, lambda t, a, b: t.linalg.solve(a, b)),
    "from the right": (MATRIX, RIGHT.T.copy(), lambda t, a, b: t.linalg.solve(a, b, left=False)),
    "inverse": (BATCH, RIGHTS, lambda t, a, b: t.linalg.inv(a) @ b),
    "vmap": (BATCH, RIGHTS, lambda t, a, b: t.func.vmap(t.linalg.solve)(a, b)),
}


def _derivatives(lib: Any, a: Any, b: Any, solve: Callable[..., Any]) -> list[Any]:
    """The solution, its gradients, and gradients of those."""
    a, b = lib.tensor(a, requires_grad=True), lib.tensor(b, requires_grad=True)
    x = solve(lib, a, b)
    first = lib.autograd.grad((x.sin() * x).sum(), (a, b), create_graph=True)
    second = lib.autograd.grad(sum((g * g).sum() for g in first), (a, b))
    return [x, *first, *second]


@pytest.mark.parametrize("case", SOLVES.values(), ids=SOLVES)
def test_solutions_and_derivatives(case: Any, mode: Mode) -> None:
    got = mode.run(lambda: _derivatives(jitgrad, *case))
    for g, w in zip(got, _derivatives(torch, *case), strict=True):
        np.testing.assert_allclose(g.detach().numpy(), w.detach().numpy(), rtol=1e-9, atol=1e-12)


NORMS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda t, x: t.linalg.norm(x),
    "of rows": lambda t, x: t.linalg.norm(x, dim=1),
    "order 1 of rows": lambda t, x: t.linalg.norm(x, 1, 2, True),
    "of two dimensions": lambda t, x: t.linalg.norm(x, dim=(0, 2)),
    "1 of a matrix": lambda t, x: t.linalg.norm(x[0], 1),
    "fro": lambda t, x: t.linalg.matrix_norm(x),
    "-1": lambda t, x: t.linalg.matrix_norm(x, -1),
    "inf": lambda t, x: t.linalg.matrix_norm(x, float("inf"), (0, 1)),
    "-inf": lambda t, x: t.linalg.matrix_norm(x, -float("inf"), (2, 0), keepdim=True),
    "of a vector": lambda t, x: t.linalg.norm(x[0, 0], float("inf")),
}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_norms(norm: Callable[[Any, Any], Any]) -> None:
    def both(lib: Any) -> list[Any]:
        x = lib.tensor(RIGHTS, requires_grad=True)
        out = norm(lib, x)
        return [out.detach().numpy(), lib.autograd.grad(out.sum(), x)[0].numpy()]

    for got, want in zip(both(jitgrad), both(torch), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-12)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "one dimension": lambda t: t.linalg.solve(t.ones(2), t.ones(2)),
    "not square": lambda t: t.linalg.solve(t.ones(2, 3), t.ones(2)),
    "sizes": lambda t: t.linalg.solve(t.eye(2), t.ones(3, 3)),
    "vector's size": lambda t: t.linalg.solve(t.eye(2), t.ones(3)),
    "dtypes": lambda t: t.linalg.solve(t.eye(2), t.ones(2, dtype=t.float64)),
    "integers": lambda t: t.linalg.solve(t.eye(2).int(), t.ones(2).int()),
    "vector from the right": lambda t: t.linalg.solve(t.eye(2), t.ones(2), left=False),
    "sizes from the right": lambda t: t.linalg.solve(t.eye(2), t.ones(2, 3), left=False),
    "inverse": lambda t: t.linalg.inv(t.ones(2, 3)),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_refusals(call: Callable[[Any], Any], mode: Mode) -> None:
    with pytest.raises(RuntimeError) as want:
        call(torch)
    with pytest.raises(RuntimeError) as got:
        mode.run(lambda: call(jitgrad))
    assert str(got.value).split("\n")[0] == str(want.value).split("\n")[0]


@pytest.mark.parametrize("name", ["solve", "inv"])
def test_singular_matrices(name: str, mode: Mode) -> None:
    def step() -> Any:
        a = jitgrad.ones(2, 2)
        return jitgrad.linalg.solve(a, jitgrad.ones(2)) if name == "solve" else jitgrad.linalg.inv(a)

    for _ in range(2):  # an error leaves everything usable
        with pytest.raises(jitgrad.linalg.LinAlgError, match=rf"linalg.{name}: .* singular"):
            mode.run(step)
    assert issubclass(jitgrad.linalg.LinAlgError, RuntimeError)
    with pytest.raises(ValueError, match="Order 2 not supported"):
        jitgrad.linalg.matrix_norm(jitgrad.ones(2, 2), 2)
