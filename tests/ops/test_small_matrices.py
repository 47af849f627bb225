"""Kernels of small matrices (Note [Matrix routines]) against PyTorch: factors with their pivots and signs, solutions,
what is singular or no number, orders on both sides of where LAPACK takes over; derivatives, alone and in a compiled
step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad
from jitgrad.dtypes import float64
from jitgrad.ops.aval import make_aval
from jitgrad.ops.linalg.linear_systems import are_small

torch = pytest.importorskip("torch", reason="compares with torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")

LARGEST = max(n for n in range(1, 100) if are_small([make_aval((n, n), float64)]))
ORDERS = [1, 2, 3, 5, 8, 13, LARGEST, LARGEST + 1, 130]
BATCHES: list[tuple[int, ...]] = [(), (1,), (5,), (2, 3)]
NAN, INF = float("nan"), float("inf")


def _matrix(n: int, batch: tuple[int, ...]) -> Any:
    return np.random.default_rng(n).normal(size=(*batch, n, n))


def _definite(n: int, batch: tuple[int, ...]) -> Any:
    a = _matrix(n, batch)
    return a @ a.swapaxes(-1, -2) + n * np.eye(n)


def _symmetric(n: int, batch: tuple[int, ...]) -> Any:
    a = _matrix(n, batch)
    return a + a.swapaxes(-1, -2)


def _hollow(n: int, batch: tuple[int, ...]) -> Any:
    """Zeros on the diagonal: pivots are blocks of two."""
    return _symmetric(n, batch) * (1 - np.eye(n))


def _even(n: int, batch: tuple[int, ...]) -> Any:
    """As ``_hollow``, and regular for odd orders too."""
    a = _hollow(n, batch)
    a[..., n - 1, n - 1] += 1 + n % 2
    return a


def _right(n: int, batch: tuple[int, ...]) -> Any:
    return np.random.default_rng(n + 1).normal(size=(*batch, n, 3))


def _tall(n: int, batch: tuple[int, ...]) -> Any:
    return np.concatenate([_matrix(n, batch), _right(n, batch).swapaxes(-1, -2)], -2)


WITHOUT_DERIVATIVE = (
    "geqrf", "householder_product", "qr r", "qr complete", "lu_factor_ex", "lu_factor_ex tall", "lu_factor_ex wide",
    "ldl_factor_ex", "ldl_factor_ex in pairs", "ldl_solve", "ldl_solve by pairs",
)  # fmt: skip
Function = Callable[..., Any]
ONE: dict[str, tuple[Callable[[int, tuple[int, ...]], Any], Function]] = {
    "cholesky": (_definite, lambda t, a: t.linalg.cholesky(a)),
    "cholesky upper": (_definite, lambda t, a: t.linalg.cholesky(a, upper=True)),
    "cholesky_ex": (_definite, lambda t, a: t.linalg.cholesky_ex(a)),
    "lu_factor_ex": (_matrix, lambda t, a: t.linalg.lu_factor_ex(a)),
    "lu_factor_ex tall": (_tall, lambda t, a: t.linalg.lu_factor_ex(a)),
    "lu_factor_ex wide": (_tall, lambda t, a: t.linalg.lu_factor_ex(a.mT)),
    "lu": (_matrix, lambda t, a: t.linalg.lu(a)),
    "lu tall": (_tall, lambda t, a: t.linalg.lu(a)),
    "ldl_factor_ex": (_symmetric, lambda t, a: t.linalg.ldl_factor_ex(a)),
    "ldl_factor_ex in pairs": (_hollow, lambda t, a: t.linalg.ldl_factor_ex(a)),
    "inv": (_definite, lambda t, a: t.linalg.inv(a)),
    "det": (_matrix, lambda t, a: t.linalg.det(a)),
    "slogdet": (_matrix, lambda t, a: t.linalg.slogdet(a)),
    "qr": (_matrix, lambda t, a: t.linalg.qr(a)),
    "qr tall": (_tall, lambda t, a: t.linalg.qr(a)),
    "qr wide": (_tall, lambda t, a: t.linalg.qr(a.mT)),
    "qr complete": (_tall, lambda t, a: t.linalg.qr(a, "complete")),
    "qr r": (_tall, lambda t, a: t.linalg.qr(a, "r")),
    "geqrf": (_tall, lambda t, a: t.geqrf(a)),
    "householder_product": (_tall, lambda t, a: t.linalg.householder_product(*t.geqrf(a))),
    "cholesky_inverse": (_definite, lambda t, a: t.cholesky_inverse(t.linalg.cholesky(a))),
}
TWO: dict[str, tuple[Callable[[int, tuple[int, ...]], Any], Function]] = {
    "solve": (_matrix, lambda t, a, b: t.linalg.solve(a, b)),
    "solve from the right": (_matrix, lambda t, a, b: t.linalg.solve(a, b.mT, left=False)),
    "lower": (_definite, lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False)),
    "upper": (_definite, lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True)),
    "transposed": (_definite, lambda t, a, b: t.linalg.solve_triangular(a.mT, b, upper=True)),
    "unit": (
        _definite,
        lambda t, a, b: t.linalg.solve_triangular(a / 1e3, b, upper=True, unitriangular=True),
    ),
    "lu_solve": (_matrix, lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b)),
    "lu_solve adjoint": (_matrix, lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True)),
    "lu_solve right": (_matrix, lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b.mT, left=False)),
    "cholesky_solve": (_definite, lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a))),
    "cholesky_solve upper": (
        _definite,
        lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a, upper=True), True),
    ),
    "ldl_solve": (_symmetric, lambda t, a, b: t.linalg.ldl_solve(*t.linalg.ldl_factor(a.detach()), b)),
    "ldl_solve by pairs": (_even, lambda t, a, b: t.linalg.ldl_solve(*t.linalg.ldl_factor(a.detach()), b)),
    "ormqr": (_matrix, lambda t, a, b: t.ormqr(*t.geqrf(a.detach()), b)),
    "ormqr transposed": (_matrix, lambda t, a, b: t.ormqr(*t.geqrf(a.detach()), b, True, True)),
    "ormqr right": (_matrix, lambda t, a, b: t.ormqr(*t.geqrf(a.detach()), b.mT, False)),
}


def _parts(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def _same(got: Any, want: Any, rtol: float) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        g, w = g.detach().numpy(), w.detach().numpy()
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if w.dtype.kind == "i":
            np.testing.assert_array_equal(g, w)
        else:
            np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol * np.abs(w[np.isfinite(w)]).max(initial=0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_values(name: str, n: int, dtype: Any) -> None:
    """Well-conditioned or not, the same algorithm gives nearly the same; pivots are the same."""
    rtol = 1e-9 if dtype == np.float64 else 1e-3 if n < 9 else 2e-2
    for batch in BATCHES:
        make, function = {**ONE, **TWO}[name]
        arrays = [make(n, batch)] if name in ONE else [make(n, batch), _right(n, batch)]
        got, want = (_parts(function(t, *(t.tensor(x.astype(dtype)) for x in arrays))) for t in (jitgrad, torch))
        _same(got, want, rtol)


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_operands_that_lie_otherwise(name: str) -> None:
    """Columns first, and every second row and column of a larger matrix."""
    make, function = {**ONE, **TWO}[name]
    arrays = [make(4, (3,))] if name in ONE else [make(4, (3,)), _right(4, (3,))]

    def turned(t: Any, x: Any) -> Any:
        return t.tensor(np.ascontiguousarray(x.swapaxes(-1, -2))).mT

    def spread(t: Any, x: Any) -> Any:
        return t.tensor(np.repeat(np.repeat(x, 2, -1), 3, -2))[..., ::3, ::2]

    for lay in (turned, spread):
        got, want = (_parts(function(t, *(lay(t, x) for x in arrays))) for t in (jitgrad, torch))
        _same(got, want, 1e-9)


def _derivatives(t: Any, function: Function, arrays: list[Any]) -> list[Any]:
    leaves = [t.tensor(x, requires_grad=True) for x in arrays]
    outs = [x for x in _parts(function(t, *leaves)) if x.requires_grad]
    first = t.autograd.grad(sum((x.sin() * x).sum() for x in outs), leaves, create_graph=True, allow_unused=True)
    used = [g for g in first if g is not None]
    second = t.autograd.grad(sum((g * g).sum() for g in used), leaves, allow_unused=True)
    return [*used, *(g for g in second if g is not None)]


@pytest.mark.parametrize("n", [1, 3, 6])
@pytest.mark.parametrize("name", [x for x in (*ONE, *TWO) if x not in WITHOUT_DERIVATIVE])
def test_derivatives(name: str, n: int, mode: Mode) -> None:
    make, function = {**ONE, **TWO}[name]
    arrays = [make(n, (2,)) + 2 * np.eye(n) if make is _matrix else make(n, (2,))]
    arrays += [] if name in ONE else [_right(n, (2,))]
    got = mode.run(lambda: _derivatives(jitgrad, function, arrays))
    _same(got, _derivatives(torch, function, arrays), 1e-7)


def _reflected(t: Any, a: Any, tau: Any, x: Any, is_turned: bool) -> Any:
    return t.linalg.householder_product(a, tau).sin() @ x[:, :3].mT + t.ormqr(a, tau, x.mT, True, is_turned)


@pytest.mark.parametrize("is_turned", [False, True])
def test_derivatives_by_reflections(is_turned: bool, mode: Mode) -> None:
    """The factors need not be those of a decomposition."""
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=(5, 3)), rng.normal(size=3), rng.normal(size=(4, 5))]
    got = mode.run(lambda: _derivatives(jitgrad, lambda t, *xs: _reflected(t, *xs, is_turned), arrays))
    _same(got, _derivatives(torch, lambda t, *xs: _reflected(t, *xs, is_turned), arrays), 1e-8)


ODD = {
    "NaN": [[NAN, 0, 0], [0, 1, 0], [0, 0, 1]],
    "NaN below": [[2, 0, 0], [NAN, 1, 0], [0, 0, 1]],
    "NaN last": [[2, 1, 0], [1, 3, 0], [0, 0, NAN]],
    "negative": [[-1, 0, 0], [0, -1, 0], [0, 0, -1]],
    "zero": [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
    "zero row": [[1, 2, 3], [0, 0, 0], [2, 1, 5]],
    "rank one": [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
    "exchanged": [[0, 0, 3], [0, -2, 1], [4, 1, 1]],
    "equal sizes": [[2, 1, 0], [-2, 1, 1], [2, 5, 1]],
    "huge": [[1e300, 1e299, 0], [1e299, 3e300, 0], [0, 0, 1e300]],
    "tiny": [[1e-300, 0, 0], [0, 3e-300, 1e-301], [0, 1e-301, 1e-300]],
}
LOOK: dict[str, Function] = {
    "cholesky": lambda t, a: t.linalg.cholesky(a),
    "cholesky_ex": lambda t, a: t.linalg.cholesky_ex(a)[1],
    "lu_factor_ex": lambda t, a: t.linalg.lu_factor_ex(a),
    "lu_factor": lambda t, a: t.linalg.lu_factor(a)[1],
    "inv": lambda t, a: t.linalg.inv(a),
    "inv_ex": lambda t, a: t.linalg.inv_ex(a)[1],
    "solve": lambda t, a: t.linalg.solve(a, a[..., 0]),
    "solve_ex": lambda t, a: t.linalg.solve_ex(a, a[..., :1])[1],
    "cholesky_ex checked": lambda t, a: t.linalg.cholesky_ex(a, check_errors=True),
    "lu_factor_ex checked": lambda t, a: t.linalg.lu_factor_ex(a, check_errors=True),
    "inv_ex checked": lambda t, a: t.linalg.inv_ex(a, check_errors=True),
    "solve_ex checked": lambda t, a: t.linalg.solve_ex(a, a[..., :1], check_errors=True),
    "det": lambda t, a: t.linalg.det(a),
    "slogdet": lambda t, a: t.linalg.slogdet(a),
    "lower": lambda t, a: t.linalg.solve_triangular(a, a[..., :1], upper=False),
}


def _said(t: Any, function: Function, a: Any) -> Any:
    try:
        return _parts(function(t, t.tensor(a)))
    except RuntimeError as error:
        return type(error).__name__.removeprefix("_"), str(error)


@pytest.mark.parametrize("in_batch", [False, True])
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", LOOK)
def test_odd_matrices(name: str, odd: str, in_batch: bool, mode: Mode) -> None:
    """Values or errors, word for word, cold and warm."""
    a = np.array(ODD[odd], np.float64)
    a = np.stack([_definite(3, ()), a, a]) if in_batch else a
    want = _said(torch, LOOK[name], a)
    got = mode.run(lambda: _said(jitgrad, LOOK[name], a), is_steady=False)
    if isinstance(want, tuple):
        assert got == want
    else:
        _same(got, want, 1e-9)


@pytest.mark.parametrize("odd", [x for x in ODD if "NaN" not in x])
def test_odd_symmetric_matrices(odd: str, mode: Mode) -> None:
    """Where NaNs go depends on LAPACK's blocks; pivots and zeros do not."""
    a = np.array(ODD[odd], np.float64)
    a = a + a.T
    got = mode.run(lambda: list(jitgrad.linalg.ldl_factor_ex(jitgrad.tensor(a))))
    _same(got, torch.linalg.ldl_factor_ex(torch.tensor(a)), 1e-9)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_determinants_that_vanish_have_a_gradient(n: int, mode: Mode) -> None:
    """The kernel cannot divide by it: the rule by singular values takes its place, in a compiled step too."""
    a = _matrix(n, (4,))
    a[1, 0], a[3] = a[1, 1], 0.0

    def gradient() -> Any:
        x = jitgrad.tensor(a, requires_grad=True)
        (jitgrad.linalg.det(x * 1.0) ** 2 + jitgrad.linalg.det(x)).sum().backward()
        return x.grad * 2.0

    # by cofactors: whether PyTorch's gradient of a singular matrix is that or zeros depends on how its LAPACK rounds
    minors = [[np.delete(np.delete(a, i, 1), j, 2) for j in range(n)] for i in range(n)]
    signs = (-1.0) ** np.add.outer(range(n), range(n))
    cofactors = signs * np.linalg.det(np.array(minors)).transpose(2, 0, 1)
    expected = 2 * (2 * np.linalg.det(a) + 1)[:, None, None] * cofactors
    scale = np.abs(expected).max()
    np.testing.assert_allclose(mode.run(gradient).numpy() / scale, expected / scale, atol=1e-8)


def test_a_likelihood_is_two_kinds_of_native_steps(mode: Mode) -> None:
    """A Gaussian's, of many small covariances; no operation is left to NumPy."""
    cov, x = _definite(4, (50,)), np.random.default_rng(0).normal(size=(50, 4, 1))

    def loss(t: Any) -> Any:
        a, b = t.tensor(cov, requires_grad=True), t.tensor(x, requires_grad=True)
        factor = t.linalg.cholesky(a)
        white = t.linalg.solve_triangular(factor, b, upper=False)
        total = (white * white).sum() + 2 * factor.diagonal(0, -2, -1).log().sum()
        total.backward()
        return [total, a.grad, b.grad]

    before = jitgrad.stats()["fallbacks"]
    got = mode.run(lambda: loss(jitgrad))
    assert jitgrad.stats()["fallbacks"] == before
    _same(got, loss(torch), 1e-10)


def test_examples_are_one_batch() -> None:
    a, b = _definite(4, (6,)), _right(4, (6,))
    for function in (
        lambda t, a, b: t.linalg.solve(a, b),
        lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a)),
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor_ex(a)[:2], b),
        lambda t, a, b: t.linalg.ldl_solve(*t.linalg.ldl_factor_ex(a)[:2], b),
        lambda t, a, b: t.ormqr(*t.geqrf(a), b),
        lambda t, a, b: t.linalg.cross(a[:3], a[1:], dim=0),
        lambda t, a, b: t.func.jvp(t.linalg.solve, (a, b), (a @ a, b.sin()))[1],
    ):
        got = jitgrad.func.vmap(lambda x, y, f=function: f(jitgrad, x, y))(jitgrad.tensor(a), jitgrad.tensor(b))
        each = [function(torch, torch.tensor(x), torch.tensor(y)) for x, y in zip(a, b, strict=True)]
        _same([got], [torch.stack(each)], 1e-10)


def test_a_batch_is_shared_out_and_the_bits_stay() -> None:
    a = _definite(6, (3000,))
    whole = jitgrad.linalg.cholesky(jitgrad.tensor(a)).numpy()
    for at in (0, 1499, 2999):
        np.testing.assert_array_equal(whole[at], jitgrad.linalg.cholesky(jitgrad.tensor(a[at])).numpy())


@pytest.mark.parametrize("is_unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(("shape", "columns"), [((128,), 8), ((129,), 8), ((150,), 7), ((2, 200), 9), ((1100,), 8)])
def test_large_triangular_systems_are_solved_block_by_block(
    shape: tuple[int, ...], columns: int, upper: bool, is_unit: bool
) -> None:
    *batch, n = shape
    rng = np.random.default_rng(n)
    a = rng.standard_normal((*batch, n, n)) / n + 3 * np.eye(n)
    right = rng.standard_normal((*batch, n, columns))
    meant = np.triu(a) if upper else np.tril(a)
    if is_unit:
        meant[..., range(n), range(n)] = 1.0
    x = jitgrad.linalg.solve_triangular(
        jitgrad.from_numpy(a), jitgrad.from_numpy(right), upper=upper, unitriangular=is_unit
    )
    np.testing.assert_allclose(meant @ x.numpy(), right, rtol=1e-9, atol=1e-9)
