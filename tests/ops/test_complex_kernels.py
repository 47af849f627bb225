"""Kernels of operations on complex numbers, against NumPy's rules: values, gradients, special points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn, optim
from jitgrad.ops.complex import complex_lowerings
from jitgrad.ops.table import OPS

_SHAPES = [((3, 4), (3, 4)), ((3, 1), (1, 4)), ((), (5,)), ((0, 4), (4,)), ((2, 3, 8), (3, 8))]
INF, NAN = float("inf"), float("nan")

POINTWISE: dict[str, Callable[..., Any]] = {
    "add": lambda z, w, x: z + w + x,
    "sub": lambda z, w, x: (z - w) - x,
    "rsub": lambda z, w, x: (x - z) + (1j - w),
    "mul": lambda z, w, x: z * w * x * 2j,
    "div": lambda z, w, x: z / w + x / w + w / (x + 1) + 1j / w,
    "reciprocal": lambda z, w, x: w.reciprocal() + z + x,
    "powers": lambda z, w, x: z**2 + w**3 - w**4 * 0.5 + z.square() + x,
    "conj": lambda z, w, x: z.conj() * w.conj() + x,
    "exp": lambda z, w, x: z.exp() + w + x,
    "log": lambda z, w, x: z.log() + w + x,
    "abs": lambda z, w, x: z.abs() + w + x,
    "angle": lambda z, w, x: z.angle() + w + x,
    "sgn": lambda z, w, x: z.sgn() + w + x,
    "complex": lambda z, w, x: jitgrad.complex(x, x.cos()) * z + w,
    "polar": lambda z, w, x: jitgrad.polar(x, x) * z + w,
    "parts": lambda z, w, x: jitgrad.view_as_complex(jitgrad.view_as_real(z) * 2) + w.real + w.imag * 1j + x,
    "to": lambda z, w, x: x.to(z.dtype) * z + w.to(jitgrad.complex128),
    "where": lambda z, w, x: jitgrad.where(x > 1, z, w) + jitgrad.where(x > 1, w, 2.0),
    "eq": lambda z, w, x: jitgrad.where(z == z.conj(), z, w) + (w != w) * x,
    "fill": lambda z, w, x: (z * 1).fill_(2j) + jitgrad.full_like(w, 1 - 1j) + jitgrad.ones_like(w) + x,
    "copy": lambda z, w, x: (z * 1).copy_(z.real).add_(z) * w + jitgrad.zeros_like(w) + (w * 1).zero_() + x,
}
MOVEMENTS: dict[str, Callable[[Any], Any]] = {
    "views": lambda z: z.reshape(4, 6)[1:3].t().unsqueeze(0).squeeze(0).expand(6, 2) * 2j,
    "sums": lambda z: z.sum(0) + z.mean() + z.mean(1, keepdim=True).sum(0) + z.cumsum(-1).sum((0, 1), keepdim=True),
    "joins": lambda z: jitgrad.cat([z, z.flip(1)], 1) + jitgrad.stack([z, -z], 1).reshape(2, 6, 4),
    "picks": lambda z: z[:, [2, 0], 1:] * z.gather(1, jitgrad.tensor([[[0, 1, 2]], [[2, 1, 0]]])).conj(),
    "pairs": lambda z: _as_pairs(z),
    "triangles": lambda z: (z[0].tril() + z[1].triu()).repeat(2, 1).roll(1, 0).diagonal(),
    "parted": lambda z: z.split(1, 1)[1] * z.unbind(1)[2].unsqueeze(1) + z.chunk(2, 2)[0].sum(),
    "windows": lambda z: z.unfold(2, 2, 1) * 1j + jitgrad.nn.functional.embedding(jitgrad.tensor([1]), z[0]).sum(),
    "scattered": lambda z: jitgrad.zeros(3, 4, dtype=z.dtype).scatter_add(0, jitgrad.tensor([[2, 1, 0, 2]]), z[0]),
    "written": lambda z: _written(z * 1),
    "norm": lambda z: jitgrad.linalg.vector_norm(z, dim=1),
    "trace": lambda z: z[0, :, :3].trace() + z.select(0, 1).permute(1, 0).contiguous().clone().detach(),
}
PRODUCTS: dict[str, Callable[..., Any]] = {
    "mm": lambda z, w: z[0] @ w[0].mH,
    "bmm": lambda z, w: (z @ w.mH).mT,
    "mv": lambda z, w: z[0] @ w[1, 0] + z[1] @ w[0, 1],
    "dot": lambda z, w: z[0, 0] @ w[0, 0],
    "einsum": lambda z, w: jitgrad.einsum("bij,bkj->ik", z, w),
    "linear": lambda z, w: jitgrad.nn.functional.linear(z, w[0], w[1, :, 0]) + jitgrad.nn.functional.linear(z, w[1]),
}


def _as_pairs(z: Any) -> Any:
    """Movements of what lies in memory, by negative dimensions as well: the pairs move as they are."""
    moved = (-z.transpose(-1, 0).permute(-1, 0, 1)[..., 1:].select(-2, -1)).expand(2, -1, -1)
    kept = z.new_zeros(2, 2, 3)
    kept[..., :1] = moved[..., -1:]
    return kept + (z.clone() - z.contiguous().detach()).sum() + (z.flip(-1) + z - z.reshape(2, 3, 4))[:, 1:, 1:]


def _written(z: Any) -> Any:
    z[:, 1:, ::2] = z[:, :2, 1::2] * 2j
    z.real.mul_(0.5)
    return z


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, near_zero: bool = False) -> Any:
    array = rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)
    return jitgrad.from_numpy(np.asarray(array, dtype)).requires_grad_()


def _runs(function: Callable[..., Any], operands: list[Any]) -> Iterator[list[Any]]:
    """Values and gradients: eagerly, then in three calls of a compiled step, the last without misses."""

    def step(*xs: Any) -> Any:
        out = function(*xs)
        loss = (out.abs() * (1 + jitgrad.arange(out.numel()).reshape(out.shape))).sum()
        return out.detach(), *jitgrad.autograd.grad(loss, xs, allow_unused=True)

    compiled = jitgrad.compile(step)
    yield list(step(*operands))
    for _ in range(3):
        before = jitgrad.stats()["misses"]
        found = list(compiled(*operands))
        misses = jitgrad.stats()["misses"] - before
        yield found
    assert misses == 0


def _check(function: Callable[..., Any], operands: list[Any], dtype: str) -> None:
    wanted, *found = _runs(function, operands)
    for values in found:
        for got, want in zip(values, wanted, strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                assert got.dtype is want.dtype and got.shape == want.shape
                scale = max(1.0, float(want.abs().max())) if want.numel() else 1.0
                error = 1e-5 if dtype == "complex64" else 1e-12
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=error, atol=error * scale)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shapes", _SHAPES, ids=str)
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str) -> None:
    rng = np.random.default_rng(3)
    z, w = (_numbers(rng, shape, dtype) for shape in shapes)
    x = jitgrad.from_numpy(np.asarray(rng.uniform(0.5, 2, shapes[1]), w.real.numpy(force=True).dtype)).requires_grad_()
    _check(POINTWISE[name], [z, w, x], dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", MOVEMENTS)
def test_movements_and_sums(name: str, dtype: str) -> None:
    rng = np.random.default_rng(4)
    _check(MOVEMENTS[name], [_numbers(rng, (2, 3, 4), dtype)], dtype)
    turned = _numbers(rng, (4, 3, 2), dtype).detach().permute(2, 1, 0).requires_grad_()
    _check(MOVEMENTS[name], [turned], dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("sizes", [(2, 3, 4), (2, 17, 33), (2, 1, 5), (2, 40, 64)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, sizes: tuple[int, ...], dtype: str) -> None:
    if name == "mv" and sizes[1] < 2:
        sizes = (2, 2, 5)
    rng = np.random.default_rng(5)
    _check(PRODUCTS[name], [_numbers(rng, sizes, dtype), _numbers(rng, sizes, dtype)], dtype)


def test_each_lowering_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases above compile each row of the table."""
    met: set[str] = set()
    known = complex_lowerings.complex_lowering

    def look(name: str, *args: Any) -> Any:
        found = known(name, *args)
        if found is not None:
            met.add(name)
        return found

    monkeypatch.setattr(complex_lowerings, "complex_lowering", look)
    rng = np.random.default_rng(6)
    for function in POINTWISE.values():
        z, w = (_numbers(rng, (3, 5), "complex64") for _ in range(2))
        x = jitgrad.from_numpy(rng.uniform(0.5, 2, (3, 5)).astype(np.float32)).requires_grad_()
        list(_runs(function, [z, w, x]))
    for function in MOVEMENTS.values():
        list(_runs(function, [_numbers(rng, (2, 3, 4), "complex64")]))
    for function in PRODUCTS.values():
        list(_runs(function, [_numbers(rng, (2, 3, 4), "complex64") for _ in range(2)]))
    rows = set(complex_lowerings.table())
    rare = {name for name in rows if name.startswith(("index", "strided")) or name in _UNMET}
    assert rows - met <= rare, rows - met - rare


_UNMET = frozenset(
    "unsafe_view alias squeeze squeeze_dims unsafe_split split_with_sizes slice_scatter select_scatter "
    "diagonal_scatter unfold_backward index_select copy_slices _conj sum".split()
)
"""What stands for another row, and what only some PyTorch functions record."""

_EDGES = [
    complex(a, b)
    for a in (0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 3e38, 1e-40, 90.0)
    for b in (0.0, -0.0, -1.0, INF, NAN, 2e38, 1e-3)
]
_AT_EDGES: dict[str, Callable[[Any], Any]] = {
    "exp": lambda z: z.exp(),
    "log": lambda z: z.log(),
    "abs": lambda z: z.abs(),
    "angle": lambda z: z.angle(),
    "sgn": lambda z: z.sgn(),
    "conj": lambda z: z.conj() * 1,
    "square": lambda z: z**2,
    "mul": lambda z: z * 2.0,
    "div": lambda z: z / (1 - 2j),
    "parts": lambda z: z.real - z.imag,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", _AT_EDGES)
def test_special_points(name: str, mode: Any) -> None:
    """Zeros, infinities, NaN, and numbers whose squares overflow: finite results are PyTorch's, others not finite.

    Which part of a product is NaN depends on how it is rounded: PyTorch's vectors and its scalars differ in it.
    """
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    want = _AT_EDGES[name](torch.tensor(_EDGES, dtype=torch.complex64)).numpy()
    z = jitgrad.tensor(_EDGES, dtype=jitgrad.complex64)
    got = mode.run(lambda: _AT_EDGES[name](z)).numpy()
    for edge, g, w in zip(_EDGES, got, want, strict=True):
        if name == "sgn" and 0 < abs(edge) < 1e-37:
            continue  # PyTorch's vectors say 1, its scalars infinity
        if np.isfinite(w) or name == "exp":
            np.testing.assert_allclose([g.real, g.imag], [w.real, w.imag], rtol=3e-6, err_msg=f"{name}({edge})")
        else:
            assert not np.isfinite(g), f"{name}({edge})"


def test_a_network_of_complex_numbers_is_one_segment() -> None:
    """Layers, their backward and Adam's update: no operation runs by NumPy, and no Node is made."""
    jitgrad.manual_seed(0)
    first, second = (nn.Linear(m, n, dtype=jitgrad.cfloat) for m, n in ((6, 8), (8, 3)))
    optimizer = optim.Adam([*first.parameters(), *second.parameters()], lr=1e-2)
    x, y = jitgrad.randn(5, 6, dtype=jitgrad.cfloat), jitgrad.randn(5, 3, dtype=jitgrad.cfloat)

    @jitgrad.compile
    def step() -> Any:
        optimizer.zero_grad()
        h = first(x)
        loss = (second(jitgrad.complex(h.real.relu(), h.imag.relu())) - y).abs().square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [float(step()) for _ in range(4)]
    before = jitgrad.stats()
    losses.append(float(step()))
    after = jitgrad.stats()
    risen = {name: after[name] - before[name] for name in ("misses", "segments", "fallbacks", "engine_runs")}
    assert risen == {"misses": 0, "segments": 1, "fallbacks": 0, "engine_runs": 0}
    assert losses == sorted(losses, reverse=True)


def test_operations_that_lower_have_complex_forms() -> None:
    """Each row is an operation of the table, which has a lowering for real numbers."""
    for name in complex_lowerings.table():
        op = OPS.get(name)
        known = ("_conj", "conj_physical", "complex", "polar", "view_as_real", "view_as_complex", "copy_slices")
        assert name in known or (op is not None and op.lower is not None), name


def test_a_dtype_may_take_the_imaginary_part() -> None:
    """What makes real tensors of complex ones is left to the NumPy rule."""
    z = jitgrad.tensor([1 + 2j, 3 - 1j])
    compiled = jitgrad.compile(lambda z: (jitgrad.ones_like(z, dtype=jitgrad.float64), z * 2))
    for _ in range(3):
        ones, twice = compiled(z)
        assert ones.dtype is jitgrad.float64 and ones.tolist() == [1.0, 1.0] and twice.tolist() == [2 + 4j, 6 - 2j]
