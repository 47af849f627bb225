"""The compiler's derivatives: random programs, and every maths function, against independent references."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
from random_programs import Program, complex_step

import jitgrad

pytest.importorskip("numba", reason="jitgrad.vectorize compiles by Numba")
mpmath = pytest.importorskip("mpmath")

PER_TEST, POINTS = 10, 13
SEEDS = int(os.environ.get("RANDOM_PROGRAMS", 200))
"""Of a second each. CI runs fewer, on two interpreters."""


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        _check(seed)


def _check(seed: int) -> None:
    program = Program(seed)
    plain = program.compiled(math)
    function = jitgrad.vectorize(plain)
    points = np.random.default_rng(seed).uniform(-1.5, 1.5, (program.count, POINTS))
    leaves = [jitgrad.tensor(x, requires_grad=True) for x in points]

    def step(*xs: Any) -> Any:
        y = function(*xs)
        return y.detach(), jitgrad.autograd.grad(y.sum(), xs, allow_unused=True)

    runs = [step(*leaves)] if seed % 5 else [step(*leaves), jitgrad.compile(step)(*leaves)]
    for k in range(POINTS):
        value, gradient = complex_step(program, points[:, k])
        assert math.isclose(plain(*points[:, k].tolist()), value, rel_tol=1e-9, abs_tol=1e-9), program.source
        for values, grads in runs:
            got = [values[k].item(), *(0.0 if g is None else g[k].item() for g in grads)]
            error = max(abs(x - y) / max(1.0, abs(y)) for x, y in zip(got, [value, *gradient], strict=True))
            assert error < 1e-9, f"seed {seed}, point {points[:, k].tolist()}: {error}\n{program.source}"


POINTS_OF = {
    "acosh": [1.2, 3.5], "asin": [-0.7, 0.2], "acos": [-0.7, 0.2], "atanh": [-0.7, 0.2], "gamma": [0.4, 3.3, -1.7],
    "lgamma": [0.4, 3.3, 40.0, -1.7], "log1p": [-0.5, 0.7, 4.0],
    **{name: [0.3, 4.0] for name in ("log", "log2", "log10", "sqrt")},
}  # fmt: skip
OF_MPMATH = {
    "asin": "asin", "fabs": "fabs", "gamma": "gamma", "lgamma": "loggamma",
    "log2": lambda x: mpmath.log(x, 2), "log10": lambda x: mpmath.log(x, 10),
    "exp2": lambda x: mpmath.mpf(2) ** x, "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
}  # fmt: skip
UNARY = (
    "acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1 fabs gamma lgamma log log10 log1p log2 sin sinh "
    "sqrt tan tanh"
).split()


def _unary(name: str) -> Any:
    space: dict[str, Any] = {"math": math}
    exec(f"def function(x):\n    return math.{name}(x)\n", space)
    return space["function"]


def _reference(name: str, x: float, order: int) -> float:
    function = OF_MPMATH.get(name, name)
    function = getattr(mpmath, function) if isinstance(function, str) else function
    with mpmath.workdps(50):
        real = (lambda t: mpmath.re(function(t))) if name == "lgamma" else function
        return float(mpmath.diff(real, mpmath.mpf(x), order) if order else real(mpmath.mpf(x)))


@pytest.mark.parametrize("name", UNARY)
def test_maths_functions_to_second_order(name: str) -> None:
    try:
        function = jitgrad.vectorize(_unary(name))
    except TypeError:
        pytest.skip("this Numba does not know it")
    points = POINTS_OF.get(name, [-1.3, 0.4, 2.1])
    x = jitgrad.tensor(points, dtype=jitgrad.float64, requires_grad=True)
    y = function(x)
    (first,) = jitgrad.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = jitgrad.autograd.grad(first.sum(), x)
    for order, found in enumerate((y, first, second)):
        wanted = [_reference(name, p, order) for p in points]
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-11, atol=1e-14)


BINARY = {
    "math.atan2(x, y)": lambda x, y: mpmath.atan2(x, y),
    "math.hypot(x, y)": lambda x, y: mpmath.hypot(x, y),
    "abs(x) ** y": lambda x, y: abs(x) ** y,
    "math.pow(abs(x), y)": lambda x, y: abs(x) ** y,
    "x / y": lambda x, y: x / y,
    "x % y": lambda x, y: x - y * mpmath.floor(x / y),
    "max(x, y) * min(x, 2 * y)": lambda x, y: max(x, y) * min(x, 2 * y),
    "math.copysign(x, y)": lambda x, y: abs(x) * mpmath.sign(y),
    "math.floor(x) * y + math.ceil(y) * x": lambda x, y: mpmath.floor(x) * y + mpmath.ceil(y) * x,
    "x ** 3 + y ** -2": lambda x, y: x**3 + y**-2,
}


@pytest.mark.parametrize("text", BINARY)
def test_functions_of_two(text: str) -> None:
    space: dict[str, Any] = {"math": math}
    exec(f"def function(x, y):\n    return {text}\n", space)
    function = jitgrad.vectorize(space["function"])
    points = [(1.3, 0.4), (-0.7, 2.3), (2.2, -1.7), (-1.1, -0.6)]
    x, y = (jitgrad.tensor(column, dtype=jitgrad.float64, requires_grad=True) for column in zip(*points, strict=True))
    grads = jitgrad.autograd.grad(function(x, y).sum(), (x, y))
    for k, (a, b) in enumerate(points):
        with mpmath.workdps(40):
            a, b = mpmath.mpf(a), mpmath.mpf(b)
            wanted = [mpmath.diff(BINARY[text], (a, b), order) for order in ((1, 0), (0, 1))]
        for grad, slope in zip(grads, wanted, strict=True):
            assert math.isclose(grad[k].item(), float(slope), rel_tol=1e-12, abs_tol=1e-14), (text, k)


def test_corners_have_the_derivatives_of_pytorch() -> None:
    def corners(x: float) -> tuple[float, float, float, float]:
        return abs(x), x**2.5, max(x, 0.0), math.hypot(x, 0.0)

    x = jitgrad.tensor([0.0], dtype=jitgrad.float64, requires_grad=True)
    slopes = [jitgrad.autograd.grad(y.sum(), x, retain_graph=True)[0].item() for y in jitgrad.vectorize(corners)(x)]
    assert slopes[0] == slopes[1] == slopes[3] == 0.0 and slopes[2] in (0.0, 1.0)
