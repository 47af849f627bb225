"""``jitgrad.linalg`` against ``torch.linalg``: shapes, derivatives, refusals; inside a compiled step too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad

torch = pytest.importorskip("torch", reason="compares with torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning"),
]

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
    "2": lambda t, x: t.linalg.matrix_norm(x, 2, (0, 2), True),
    "-2": lambda t, x: t.linalg.norm(x[0], -2),
    "nuc": lambda t, x: t.linalg.matrix_norm(x, "nuc"),
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


SYMMETRIC = BATCH @ BATCH.swapaxes(-1, -2)
TALL, WIDE, SINGULAR = _RNG.normal(size=(2, 4, 3)), _RNG.normal(size=(3, 4)), np.array([[1.0, 2.0], [2.0, 4.0]])

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "det": (lambda t, a: t.linalg.det(a), (BATCH,)),
    "det, function": (lambda t, a: t.det(a) + a.det(), (MATRIX,)),
    "slogdet": (lambda t, a: t.linalg.slogdet(a).logabsdet, (-BATCH,)),
    "logdet": (lambda t, a: t.logdet(a), (BATCH,)),
    "svd": (lambda t, a: _invariant_svd(*t.linalg.svd(a, full_matrices=False)), (TALL,)),
    "svd of wide": (lambda t, a: _invariant_svd(*t.linalg.svd(a, False)), (WIDE,)),
    "svd, older": (
        lambda t, a: _invariant_svd(*(x.transpose(-2, -1) if i == 2 else x for i, x in enumerate(t.svd(a)))),
        (TALL,),
    ),
    "svdvals": (lambda t, a: t.linalg.svdvals(a), (WIDE,)),
    "eigh": (lambda t, a: _squares(*t.linalg.eigh(a)), (SYMMETRIC,)),
    "eigh, upper": (lambda t, a: _squares(*t.linalg.eigh(a, "U")), (SYMMETRIC,)),
    "eigvalsh": (lambda t, a: t.linalg.eigvalsh(a), (SYMMETRIC,)),
    "qr": (lambda t, a: t.cat([x.reshape(-1) for x in t.linalg.qr(a)]), (TALL,)),
    "qr of wide": (lambda t, a: t.cat([x.reshape(-1) for x in t.linalg.qr(a, "complete")]), (WIDE,)),
    "cholesky_ex": (lambda t, a: t.linalg.cholesky_ex(a, upper=True).L, (SYMMETRIC,)),
    "cholesky_solve": (lambda t, a, b: t.cholesky_solve(b, t.cholesky(a)), (SYMMETRIC, RIGHTS)),
    "cholesky_solve, upper": (
        lambda t, a, b: b.cholesky_solve(t.linalg.cholesky(a, upper=True), True),
        (SYMMETRIC, RIGHTS),
    ),
    "cholesky_inverse": (lambda t, a: t.cholesky_inverse(t.linalg.cholesky(a)), (SYMMETRIC,)),
    "lu": (lambda t, a: t.cat([x.reshape(-1) for x in t.linalg.lu(a)]), (TALL,)),
    "lu of wide": (lambda t, a: t.cat([x.reshape(-1) for x in t.linalg.lu(a)]), (WIDE,)),
    "lu_solve": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), (BATCH[..., ::-1, :].copy(), RIGHTS)),
    "lu_solve, others": (
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b.mT, left=False, adjoint=True),
        (BATCH, RIGHTS),
    ),
    "lu_solve, older": (lambda t, a, b: t.lu_solve(b, *t.linalg.lu_factor(a)), (MATRIX, RIGHT)),
    "lu_unpack": (lambda t, a: t.lu_unpack(*t.linalg.lu_factor(a))[1], (BATCH,)),
    "solve_triangular": (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False), (BATCH, RIGHT)),
    "solve_triangular, others": (
        lambda t, a, b: t.linalg.solve_triangular(a, b.mT, upper=True, left=False, unitriangular=True),
        (BATCH, RIGHTS),
    ),
    "triangular_solve": (lambda t, a, b: t.triangular_solve(b, a, transpose=True).solution, (MATRIX, RIGHT)),
    "lstsq": (lambda t, a, b: t.linalg.lstsq(a, b).solution, (TALL, _RNG.normal(size=(2, 4, 2)))),
    "lstsq of wide": (lambda t, a, b: t.linalg.lstsq(a, b).solution, (WIDE, RIGHT)),
    "pinv": (lambda t, a: t.linalg.pinv(a), (TALL,)),
    "pinv of symmetric": (lambda t, a: t.linalg.pinv(a, hermitian=True), (SYMMETRIC,)),
    "pinverse": (lambda t, a: t.pinverse(a), (WIDE,)),
    "matrix_power": (lambda t, a: t.linalg.matrix_power(a, 5) + t.matrix_power(a, -2) + a.matrix_power(0), (MATRIX,)),
    "matrix_exp": (lambda t, a: t.linalg.matrix_exp(a / 4), (BATCH,)),
    "multi_dot": (lambda t, a, b, c: t.linalg.multi_dot([a, b, c]), (VECTOR, MATRIX, RIGHT)),
    "chain_matmul": (lambda t, a, b: t.chain_matmul(a, a, b), (MATRIX, RIGHT)),
    "cross": (lambda t, a, b: t.linalg.cross(a, b) + t.cross(b, a, 0), (MATRIX, MATRIX**2)),
    "vecdot": (lambda t, a, b: t.linalg.vecdot(a, b, dim=-2), (RIGHTS, RIGHT)),
    "diagonal": (lambda t, a: t.linalg.diagonal(a, offset=1), (BATCH,)),
    "tensorsolve": (lambda t, a, b: t.linalg.tensorsolve(a, b), (_RNG.normal(size=(2, 3, 6)), RIGHT.T.copy())),
    "tensorsolve, dims": (
        lambda t, a, b: t.linalg.tensorsolve(a, b, dims=(1,)),
        (_RNG.normal(size=(2, 6, 3)), RIGHT.T.copy()),
    ),
    "tensorinv": (lambda t, a: t.linalg.tensorinv(a, 1), (_RNG.normal(size=(4, 2, 2)),)),
    **{
        f"cond, {p}": (lambda t, a, p=p: _condition(t, a, p), (BATCH,))
        for p in (None, 1, -1, 2, -2, "fro", "nuc", float("inf"))
    },
    "inverse": (lambda t, a: t.inverse(a), (BATCH,)),
}


def _condition(t: Any, a: Any, p: Any) -> Any:
    """PyTorch 2.13 cannot differentiate ``cond`` twice where it takes an inverse."""
    if t is jitgrad or p in (None, 2, -2, "nuc"):
        return t.linalg.cond(a, p)
    return t.linalg.matrix_norm(a, p) * t.linalg.matrix_norm(t.linalg.inv(a), p)


def _invariant_svd(u: Any, s: Any, vh: Any) -> Any:
    """Of what does not depend on the vectors' signs."""
    return (u * s.sin().unsqueeze(-2)) @ vh + (u**2).sum() + ((vh**2) * s.unsqueeze(-1)).sum()


def _squares(values: Any, vectors: Any) -> Any:
    return values.unsqueeze(-2) * vectors**2


def _to_second_order(lib: Any, function: Callable[..., Any], arrays: tuple[Any, ...]) -> list[Any]:
    leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
    out = function(lib, *leaves)
    first = lib.autograd.grad((out.sin() * out).sum(), leaves, create_graph=True)
    second = lib.autograd.grad(sum((g * g).sum() for g in first), leaves)
    return [out, *first, *second]


@pytest.mark.parametrize("case", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_are_torchs_to_second_order(case: Any, mode: Mode) -> None:
    got = mode.run(lambda: _to_second_order(jitgrad, *case), is_steady=False)
    for g, w in zip(got, _to_second_order(torch, *case), strict=True):
        want = w.detach().numpy()
        np.testing.assert_allclose(g.detach().numpy(), want, rtol=1e-7, atol=1e-8 * max(1.0, np.abs(want).max()))


COFACTORS = [
    (SINGULAR, [[4.0, -2.0], [-2.0, 1.0]]),
    (np.diag([2.0, 0.0, 3.0]), np.diag([0.0, 6.0, 0.0])),
    (np.zeros((2, 2)), np.zeros((2, 2))),
    (np.zeros((1, 1)), [[1.0]]),
]


@pytest.mark.parametrize(("matrix", "cofactors"), COFACTORS, ids=["rank 1", "rank 2", "zeros", "a number"])
def test_the_determinant_has_a_gradient_where_it_is_zero(matrix: Any, cofactors: Any, mode: Mode) -> None:
    """PyTorch has zeros for the first two."""

    def gradient() -> Any:
        a = jitgrad.tensor(matrix, requires_grad=True)
        return jitgrad.autograd.grad(jitgrad.linalg.det(a), a)[0]

    np.testing.assert_allclose(mode.run(gradient).numpy(), cofactors, atol=1e-12)


INF = float("inf")
RESULTS: dict[str, Callable[[Any], Any]] = {
    "rank": lambda t: t.linalg.matrix_rank(t.tensor(np.stack([SINGULAR, np.eye(2), np.zeros((2, 2))]))),
    "rank, tolerance": lambda t: t.linalg.matrix_rank(t.tensor(np.diag([3.0, 0.1, 0.01])), atol=0.05),
    "rank, tol": lambda t: t.linalg.matrix_rank(t.tensor(np.diag([3.0, 0.1, -4.0])), 0.2, True),
    "rank, relative": lambda t: t.linalg.matrix_rank(t.tensor(np.diag([3.0, 0.1, 0.01])), rtol=0.01),
    "cond of singular": lambda t: t.linalg.cond(t.tensor(np.zeros((2, 2))), 1),
    "cholesky_ex": lambda t: t.linalg.cholesky_ex(t.tensor([[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.0, 4.0]]])).info,
    "lu_factor_ex": lambda t: t.linalg.lu_factor_ex(t.tensor(SINGULAR)),
    "lstsq": lambda t: t.linalg.lstsq(t.tensor(TALL), t.tensor(TALL[..., 0] ** 2), driver="gelsd"),
    "lstsq, usual": lambda t: t.linalg.lstsq(t.tensor(TALL), t.tensor(TALL**2)),
    "svd without vectors": lambda t: t.svd(t.tensor(WIDE), compute_uv=False),
    "svd, sizes": lambda t: [x.abs() for x in t.linalg.svd(t.tensor(WIDE))][:2],
    "svd of nothing": lambda t: t.linalg.svd(t.zeros(0, 3))[1],
    "qr": lambda t: t.linalg.qr(t.tensor(TALL), "r"),
    "qr, older": lambda t: t.tensor(WIDE).qr(),
    "det of nothing": lambda t: t.linalg.det(t.zeros(2, 0, 0)),
    "triangular, zero": lambda t: t.linalg.solve_triangular(t.zeros(2, 2), t.ones(2, 2), upper=True),
    "pinv, tolerance": lambda t: t.linalg.pinv(t.tensor(np.diag([3.0, 0.1, 0.0])), rtol=0.1),
    "norm, dtype": lambda t: t.linalg.norm(t.ones(2, 2), 2, dtype=t.float64),
    "norms of nothing": lambda t: [t.linalg.norm(t.zeros(*s), p) for s in ((0, 3), (3, 0)) for p in (1, 2, INF, "nuc")],
    "cond of nothing": lambda t: [t.linalg.cond(t.zeros(2, 0, 0), p) for p in (None, -2, 1, "fro")],
    "rank, a tolerance each": lambda t: [
        t.linalg.matrix_rank(t.eye(3).expand(2, 3, 3), **{k: t.tensor([0.1, 2.0])}, hermitian=h)
        for k in ("atol", "rtol", "tol") for h in (True, False)
    ],
    "rank, both tolerances": lambda t: t.linalg.matrix_rank(
        t.eye(2), atol=t.tensor([0.0, 0.5, 2.0]), rtol=t.tensor([0.5, 1.5, 0.0])
    ),
    "rank, tolerance 0": lambda t: t.linalg.matrix_rank(t.tensor(np.diag([1.0, 1e-17])), atol=0.0),
    "one norm": lambda t: t.linalg.norm(t.tensor(RIGHTS), 1, dim=(1,)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_torchs(name: str, mode: Mode) -> None:
    got, want = mode.run(lambda: RESULTS[name](jitgrad), is_steady=False), RESULTS[name](torch)
    for g, w in zip(*(x if isinstance(x, tuple | list) else [x] for x in (got, want)), strict=True):
        assert (tuple(g.shape), g.dtype.name) == (tuple(w.shape), str(w.dtype).removeprefix("torch."))
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-6, atol=1e-12)


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
    "det": lambda t: t.linalg.det(t.ones(2, 3)),
    "det of integers": lambda t: t.linalg.det(t.eye(2).int()),
    "svd of a vector": lambda t: t.linalg.svd(t.ones(2)),
    "eigh": lambda t: t.linalg.eigh(t.ones(2, 3)),
    "eigh, triangle": lambda t: t.linalg.eigh(t.ones(2, 2), "x"),
    "qr, mode": lambda t: t.linalg.qr(t.ones(2, 2), "x"),
    "qr, no gradient": lambda t: t.linalg.qr(t.ones(3, 2, requires_grad=True), "complete")[1].sum().backward(),
    "cholesky_ex": lambda t: t.linalg.cholesky_ex(t.tensor([[1.0, 2.0], [2.0, 1.0]]), check_errors=True),
    "lu_factor": lambda t: t.linalg.lu_factor(t.ones(2, 2)),
    "lu without pivots": lambda t: t.linalg.lu(t.ones(2, 2), pivot=False),
    "triangular vector": lambda t: t.linalg.solve_triangular(t.ones(2, 2), t.ones(2), upper=True),
    "triangular sizes": lambda t: t.linalg.solve_triangular(t.ones(2, 2), t.ones(3, 2), upper=True),
    "power": lambda t: t.linalg.matrix_power(t.ones(2, 3), 2),
    "exponential": lambda t: t.linalg.matrix_exp(t.ones(2, 3)),
    "one factor": lambda t: t.linalg.multi_dot([t.ones(2, 3)]),
    "factors": lambda t: t.linalg.multi_dot([t.ones(2, 3), t.ones(2, 3)]),
    "cross": lambda t: t.linalg.cross(t.ones(2, 2), t.ones(2, 2)),
    "cond": lambda t: t.linalg.cond(t.ones(2, 2), "x"),
    "cond of wide": lambda t: t.linalg.cond(t.ones(2, 3), 1),
    "tensorsolve": lambda t: t.linalg.tensorsolve(t.ones(2, 3), t.ones(2)),
    "tensorinv": lambda t: t.linalg.tensorinv(t.ones(2, 3)),
    "tensorinv, ind": lambda t: t.linalg.tensorinv(t.ones(2, 2), 0),
    "norm": lambda t: t.linalg.matrix_norm(t.ones(2, 2), 3),
    "norm of a vector": lambda t: t.linalg.matrix_norm(t.ones(2)),
    "norm of the same dimension": lambda t: t.linalg.norm(t.ones(2, 2), 1, (0, 0)),
    "norm of three dimensions": lambda t: t.linalg.norm(t.ones(2, 2, 2), 1),
    "norm over three dimensions": lambda t: t.linalg.norm(t.ones(2, 2, 2), None, (0, 1, 2)),
    "nuclear norm of a vector": lambda t: t.linalg.norm(t.ones(2), "nuc"),
    "largest of nothing": lambda t: t.linalg.vector_norm(t.zeros(0), INF),
    "negative order of nothing": lambda t: t.linalg.norm(t.zeros(0), -1),
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
