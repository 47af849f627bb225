"""Kernels of Bessel's and Airy's functions, of zeta and the incomplete gamma functions, and of orthogonal polynomials,
against mpmath and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import jitgrad
from jitgrad import events, special
from jitgrad.ops.pointwise.bessel_functions import BESSEL, POLYNOMIALS
from jitgrad.ops.table import OPS

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

INF, NAN = np.inf, np.nan
ONE: dict[str, Callable[[Any], Any]] = {
    "airy_ai": mpmath.airyai,
    "bessel_j0": mpmath.j0,
    "bessel_j1": mpmath.j1,
    "bessel_y0": lambda x: mpmath.bessely(0, x),
    "bessel_y1": lambda x: mpmath.bessely(1, x),
    "modified_bessel_i0": lambda x: mpmath.besseli(0, x),
    "modified_bessel_i1": lambda x: mpmath.besseli(1, x),
    "modified_bessel_k0": lambda x: mpmath.besselk(0, x),
    "modified_bessel_k1": lambda x: mpmath.besselk(1, x),
    "scaled_modified_bessel_k0": lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
    "scaled_modified_bessel_k1": lambda x: mpmath.besselk(1, x) * mpmath.exp(x),
    "spherical_bessel_j0": mpmath.sinc,
}
WAVES = ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0")
"""Beside their zeros the error is one of the amplitude."""
BOUND = {"float32": 7e-8, "float64": 4e-15}


def _points(name: str, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(5)
    x = np.concatenate([10.0 ** rng.uniform(-12, 1.3, 80), rng.uniform(0, 12, 80), [2.0, 5.0, 8.0, 2.09, 0.5]])
    x = np.concatenate([x, np.nextafter(x[-5:], 0), np.nextafter(x[-5:], 9)])
    if "_y" not in name and "_k" not in name:
        x = np.concatenate([x, -x])
    return x.astype(dtype)


def _error(got: float, want: Any, floor: float) -> float:
    with mpmath.workdps(50):
        return float(abs(mpmath.mpf(float(got)) - want) / max(abs(want), floor))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(ONE))
def test_functions_of_bessel_and_airy_are_right_to_the_last_bits(name: str, dtype: Any) -> None:
    x, function = _points(name, dtype), getattr(special, name)
    step = jitgrad.compile(function)
    operand = jitgrad.tensor(x)
    step(operand)
    with events.count("fallbacks") as fallbacks:
        found = step(operand).numpy()
    assert fallbacks() == 0
    np.testing.assert_array_equal(found, function(operand).numpy())
    with mpmath.workdps(50):
        floor = 0.3 if name in WAVES else float(np.finfo(dtype).tiny)
        errors = [_error(g, ONE[name](mpmath.mpf(float(a))), floor) for a, g in zip(x, found, strict=True)]
    if name == "airy_ai" and dtype == np.float64:  # what is small for positive x is a difference of larger numbers
        assert max(errors) < 1e-14
        positive = [_error(g, ONE[name](mpmath.mpf(float(a))), 1e-300) for a, g in zip(x, found, strict=True) if a > 0]
        assert max(positive) < 2e-13
        return
    worst = int(np.argmax(errors))
    assert errors[worst] < BOUND[np.dtype(dtype).name], f"{name}({x[worst]!r}) = {found[worst]!r}"


def test_every_function_of_one_argument_is_here() -> None:
    assert sorted(ONE) == sorted(BESSEL)


@pytest.mark.parametrize("name", sorted(ONE))
def test_ends_of_functions_of_one_argument(name: str) -> None:
    x = [0.0, -0.0, 1e-300, -1e-300, 1e4, 1e300, INF, NAN]
    x += [-INF, -1.0] if "_y" in name or "_k" in name or "spherical" in name else []
    ours = getattr(special, name)(jitgrad.tensor(x, dtype=jitgrad.float64)).numpy()
    theirs = getattr(torch.special, name)(torch.tensor(x, dtype=torch.float64)).numpy()
    theirs = np.where(np.abs(x) == INF, theirs if "_i" not in name else ours, theirs)  # PyTorch multiplies inf by 0
    big = np.isfinite(x) & (np.abs(x) > 1e3)
    np.testing.assert_allclose(ours[~big], theirs[~big], rtol=1e-7, atol=0)
    np.testing.assert_allclose(ours[big], theirs[big], atol=1e-3 if name in WAVES else 0)


def _p(a: Any, x: Any) -> Any:
    term, total, k = mpmath.mpf(1), mpmath.mpf(1), 0
    while term > total * mpmath.mpf(10) ** -60:
        k += 1
        term = term * x / (a + k)
        total += term
    return total * mpmath.exp(a * mpmath.log(x) - x - mpmath.loggamma(a + 1))


def _q(a: Any, x: Any) -> Any:
    rest = 1 - _p(a, x)
    return rest if rest > mpmath.mpf(10) ** -25 else mpmath.gammainc(a, x, mpmath.inf, regularized=True)


@pytest.mark.parametrize(("name", "reference"), [("igamma", _p), ("igammac", _q)])
def test_incomplete_gamma_functions(name: str, reference: Any) -> None:
    """In every region, and across its borders; the error of a tiny value is that of its exponent."""
    rng = np.random.default_rng(6)
    a = np.concatenate([10.0 ** rng.uniform(-4, 3.3, 150), rng.uniform(11, 13, 50), rng.uniform(0.01, 2, 50)])
    x = np.concatenate([10.0 ** rng.uniform(-4, 3, 75), a[75:200] * rng.uniform(0.3, 2.5, 125), rng.uniform(0, 2, 50)])
    step = jitgrad.compile(getattr(jitgrad, name))
    operands = jitgrad.tensor(a), jitgrad.tensor(x)
    step(*operands)
    with events.count("fallbacks") as fallbacks:
        found = step(*operands).numpy()
    assert fallbacks() == 0
    np.testing.assert_array_equal(found, getattr(jitgrad, name)(*operands).numpy())
    np.testing.assert_allclose(OPS[name].numpy(a, x), found, rtol=1e-11, atol=1e-290)
    with mpmath.workdps(70):
        pairs = zip(a, x, found, strict=True)
        errors = [_error(g, reference(mpmath.mpf(p), mpmath.mpf(q)), 1e-280) for p, q, g in pairs]
    worst = int(np.argmax(errors))
    assert errors[worst] < 2e-12, f"{name}({a[worst]!r}, {x[worst]!r}) = {found[worst]!r}"
    assert np.quantile(errors, 0.8) < 2e-14


def test_the_incomplete_gamma_function_of_a_huge_argument() -> None:
    a = jitgrad.tensor([1e6, 1e10, 1e15], dtype=jitgrad.float64)
    np.testing.assert_allclose(jitgrad.igamma(a, a).numpy(), 0.5, atol=2e-4)
    assert jitgrad.igamma(a, a * 0.9).tolist() == [0, 0, 0]
    assert jitgrad.igammac(a, a * 0.9).tolist() == [1, 1, 1]


EDGES = [0.0, -0.0, 1.0, 2.0, -1.0, -2.0, 0.5, -0.5, -2.5, -3.5, 1e-300, 3.0, 25.0, INF, -INF, NAN]


@pytest.mark.parametrize("name", ["igamma", "igammac", "zeta"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ends_of_functions_of_two_arguments(name: str, dtype: str) -> None:
    first, second = (grid.ravel() for grid in np.meshgrid(EDGES, EDGES))
    if name == "zeta":  # there PyTorch divides a zero by another
        is_there = (np.abs(second) != INF) & ((first != INF) | (second <= 1))
        first, second = first[is_there], second[is_there]
    ours = [jitgrad.tensor(x, dtype=getattr(jitgrad, dtype)) for x in (first, second)]
    theirs = [torch.tensor(x, dtype=getattr(torch, dtype)) for x in (first, second)]
    found = getattr(special, name, None) or getattr(jitgrad, name)
    wanted = getattr(torch.special, {"igamma": "gammainc", "igammac": "gammaincc"}.get(name, name))(*theirs).numpy()
    np.testing.assert_allclose(found(*ours).numpy(), wanted, rtol=1e-5 if dtype == "float32" else 1e-8, atol=1e-8)


def test_zeta_and_polygamma() -> None:
    rng = np.random.default_rng(7)
    s, q = 1 + 10.0 ** rng.uniform(-3, 1.9, 60), 10.0 ** rng.uniform(-2, 3, 60)
    found = special.zeta(jitgrad.tensor(s), jitgrad.tensor(q)).numpy()
    np.testing.assert_allclose(OPS["special_zeta"].numpy(s, q), found, rtol=1e-13)
    for a, b, got in zip(s, q, found, strict=True):
        with mpmath.workdps(320):  # it takes them of 1, not of the value
            want = mpmath.zeta(mpmath.mpf(a), mpmath.mpf(b))
        assert _error(got, want, 1e-290) < 2e-15, (a, b)
    with mpmath.workdps(40):
        x = np.concatenate([rng.uniform(0, 30, 60), -(10.0 ** rng.uniform(-2, 3, 60))])
        for n in (2, 3, 4, 11):
            step = jitgrad.compile(lambda y, n=n: y.polygamma(n))
            got = step(jitgrad.tensor(x)).numpy()
            want = [mpmath.psi(n, mpmath.mpf(y)) for y in x]
            errors = [_error(g, w, 1.0) for g, w in zip(got, want, strict=True)]
            assert max(errors) < 1e-14


def test_polygamma_of_poles_and_high_orders() -> None:
    x = [0.0, -1.0, -7.0, 0.5, 30.0, NAN]
    for n in (2, 3, 50, 170, 171, 300):
        ours = jitgrad.tensor(x, dtype=jitgrad.float64).polygamma(n).numpy()
        theirs = torch.tensor(x, dtype=torch.float64).polygamma(n).numpy()
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


DEGREES = [-1.0, 0.0, 1.0, 2.0, 3.7, 5.0, 8.0, 20.0, 200.0, NAN, INF, -INF, 1e30]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    """Eagerly, compiled, and by the NumPy rule; PyTorch returns what stands in memory where a sum is NaN at once."""
    x, n = (grid.ravel() for grid in np.meshgrid([0.0, 0.3, -0.7, 1.0, -1.0, 2.0, -3.0, 0.999], DEGREES))
    ours = [jitgrad.tensor(x), jitgrad.tensor(n)]
    function = getattr(special, name)
    step = jitgrad.compile(function)
    step(*ours)
    with events.count("fallbacks") as fallbacks:
        found = step(*ours).numpy()
    assert fallbacks() == 0
    np.testing.assert_array_equal(found, function(*ours).numpy())
    np.testing.assert_allclose(OPS["special_" + name].numpy(x, n), found, rtol=1e-12)
    wanted = getattr(torch.special, name)(torch.tensor(x), torch.tensor(n)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)


def test_polynomials_take_numbers_and_empty_tensors() -> None:
    x = jitgrad.tensor([0.5, -0.25])
    assert special.legendre_polynomial_p(x, 2).tolist() == [-0.125, -0.40625]
    degree = jitgrad.tensor([0, 1, 2])
    assert special.chebyshev_polynomial_t(0.5, degree).tolist() == [1.0, 0.5, -0.5]
    assert special.hermite_polynomial_h(jitgrad.zeros(0, 3), degree).shape == (0, 3)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_degree_that_takes_too_long_says_so(is_compiled: bool) -> None:
    function = special.laguerre_polynomial_l
    x, n = jitgrad.tensor([1e-9], dtype=jitgrad.float64), jitgrad.tensor([1e7])
    step = jitgrad.compile(function) if is_compiled else function
    with pytest.raises(RuntimeError, match="takes too long"):
        print(step(x, n))


def test_chebyshev_polynomials_of_a_high_degree() -> None:
    x = jitgrad.tensor([0.3, -0.8], dtype=jitgrad.float64)
    with mpmath.workdps(30):
        wanted = [float(mpmath.cos(10**7 * mpmath.acos(mpmath.mpf(y)))) for y in x.tolist()]
    found = special.chebyshev_polynomial_t(x, jitgrad.tensor(1e7, dtype=jitgrad.float64)).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-8)


def _of_pair(name: str) -> Callable[[Any, Any, Any], Any]:
    if name.startswith("polygamma"):
        return lambda lib, a, x: lib.polygamma(2, x)
    return lambda lib, a, x: (getattr(lib, name, None) or getattr(lib.special, name))(a + 1.5, x)


@pytest.mark.parametrize("name", ["igamma", "igammac", "zeta", "polygamma"])
def test_first_and_second_derivatives(name: str) -> None:
    """By the second operand: eagerly, compiled, and under transforms, of which PyTorch lacks some."""
    rng, function = np.random.default_rng(11), _of_pair(name)
    first, second = rng.uniform(0.5, 4, 6), rng.uniform(0.5, 4, 6)
    a, x = jitgrad.tensor(first), jitgrad.tensor(second)
    ta, tx = torch.tensor(first), torch.tensor(second)

    def total(y: Any) -> Any:
        return function(jitgrad, a, y).sum()

    def theirs(y: Any) -> Any:
        return function(torch, ta, y).sum()

    slope = torch.func.grad(theirs)(tx).numpy()
    curve = torch.func.jacrev(torch.func.grad(theirs))(tx).numpy()
    step = jitgrad.compile(jitgrad.func.grad(total))
    for _ in range(3):
        np.testing.assert_allclose(step(x).numpy(), slope, rtol=1e-8)
    np.testing.assert_allclose(jitgrad.func.grad(total)(x).numpy(), slope, rtol=1e-8)
    np.testing.assert_allclose(jitgrad.func.hessian(total)(x).numpy(), curve, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(jitgrad.func.jvp(total, (x,), (x,))[1].item(), (slope * second).sum(), rtol=1e-8)
    each = jitgrad.func.vmap(lambda p, y: function(jitgrad, p, y))(a, x)
    np.testing.assert_allclose(each.numpy(), function(torch, ta, tx).numpy(), rtol=1e-9)


@pytest.mark.parametrize("name", [*POLYNOMIALS, *BESSEL])
def test_examples_of_vmap(name: str) -> None:
    function, theirs = getattr(special, name), getattr(torch.special, name)
    x = jitgrad.tensor([0.25, 0.5, 3.0], dtype=jitgrad.float64)
    degree = (3,) if name in POLYNOMIALS else ()
    found = jitgrad.func.vmap(lambda p: function(p, *degree))(x)
    np.testing.assert_allclose(found.numpy(), theirs(torch.tensor(x.numpy()), *degree).numpy(), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_dtypes(dtype: str) -> None:
    rng = np.random.default_rng(12)
    first, second = rng.uniform(0.1, 5, 30), rng.uniform(0.1, 5, 30)
    ours = [jitgrad.tensor(x).to(getattr(jitgrad, dtype)) for x in (first, second)]
    theirs = [torch.tensor(x).to(getattr(torch, dtype)) for x in (first, second)]
    for name in ("igamma", "igammac", "polygamma"):
        function = _of_pair(name)
        step = jitgrad.compile(lambda a, x, f=function: f(jitgrad, a, x))
        for found in (function(jitgrad, *ours), step(*ours), step(*ours)):
            wanted = function(torch, *theirs)
            assert found.dtype is getattr(jitgrad, dtype)
            np.testing.assert_allclose(found.float().numpy(), wanted.float().numpy(), rtol=8e-3, atol=1e-6)
