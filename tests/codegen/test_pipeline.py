"""Segments through the whole pipeline, against the primitives' meaning by NumPy."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import numpy as np
import pytest
from interpreter import Case

import jitgrad as jg
from jitgrad.codegen import pipeline
from jitgrad.codegen.llvm.target import host_target
from jitgrad.dtypes import bool_, float32, float64, int32, int64

RNG = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("n", [0, 1, 3, 16, 17, 100, 5000])
def test_pointwise_lengths(n: int) -> None:
    Case(lambda b, x, y: b.add(b.mul(x, y), b.exp(x)), [f32(n), f32(n)]).check()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3, 4), (5, 1, 7), (2, 3, 4, 5)])
def test_shapes(shape: tuple[int, ...]) -> None:
    Case(lambda b, x: (b.sub(x, 1.5), b.sum(x, range(len(shape)))), [f32(*shape)]).check()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_dtypes(dtype: type) -> None:
    x = (RNG.standard_normal((7, 33)) * 10).astype(dtype)
    Case(lambda b, x: (b.add(b.mul(x, x), 3), b.sum(x, (1,)), b.reduce("max", x, (0,)), b.lt(x, 2)), [x]).check()


def test_broadcast() -> None:
    Case(lambda b, x, y, z: b.add(b.mul(x, y), z), [f32(9, 33), f32(33), f32(9, 1)]).check()


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_reduce(dims: tuple[int, ...], kind: str) -> None:
    Case(lambda b, x: b.reduce(kind, b.mul(x, 2.0), dims), [f32(5, 37, 19)]).check()


@pytest.mark.parametrize(
    "shape,dims",
    [((100_003,), (0,)), ((700, 130), (0, 1)), ((5000, 20), (0,)), ((3, 60_000), (1,)), ((90, 4, 900), (0, 2))],
)
def test_long_reduce(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    Case(lambda b, x, y: (b.sum(b.mul(x, y), dims), b.add(x, y)), [f32(*shape), f32(*shape)]).check(1e-4, 2e-3)


@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_softmax(dims: tuple[int, ...]) -> None:
    def softmax(b, x):
        e = b.exp(b.sub(x, b.reduce("max", x, dims, True)))
        return b.div(e, b.sum(e, dims, True))

    assert Case(softmax, [f32(37, 19)]).check().launches == 1


def test_transpose_and_slices() -> None:
    def lower(b, x):
        t = b.permute(x, (1, 0))
        s = b.slice(t, (1, 0), (20, 10), (2, 3))
        r = b.slice(x, (12, 22), (-1, -1), (-1, -1))
        return b.add(t, 1.0), b.neg(s), b.exp(r)

    Case(lower, [f32(13, 23)]).check()


def test_strided_inputs() -> None:
    base = f32(40, 50)
    Case(lambda b, x, y: b.add(x, y), [base[1:31:2, ::-1], f32(50, 15).T]).check()


def test_pad_shift() -> None:
    def lower(b, x):
        a = b.slice(x, (1,), (1000,), (1,))
        c = b.slice(x, (0,), (999,), (1,))
        d = b.sub(a, b.mul(c, c))
        return b.sum(d, (0,)), b.add(b.pad(d, (1,), (0,)), b.pad(b.mul(d, c), (0,), (1,)))

    Case(lower, [f32(1000)]).check(1e-4, 1e-3)


def test_reshape_inside() -> None:
    def lower(b, x, y):
        z = b.exp(b.mul(x, 0.5))
        return b.add(b.reshape(z, (24, 5)), y), b.permute(b.reshape(z, (2, 3, 20)), (1, 0, 2))

    Case(lower, [f32(6, 20), f32(24, 5)]).check()


@pytest.mark.parametrize("m,k,n", [(1, 5, 7), (4, 1, 3), (33, 17, 20), (64, 32, 1), (16, 16, 16), (2, 0, 3)])
def test_matmul(m: int, k: int, n: int) -> None:
    def lower(b, x, w, c):
        h = b.add(b.matmul(x, w), c)
        return b.max(h, 0.0), b.gt(h, 0.0)

    Case(lower, [f32(m, k), f32(k, n), f32(n)]).check(1e-4, 1e-4)


def test_matmul_transposed_batched() -> None:
    def lower(b, x, y):
        return b.matmul(b.permute(x, (0, 2, 1)), b.exp(y)), b.matmul(x, b.permute(y, (0, 2, 1)))

    Case(lower, [f32(3, 8, 8), f32(3, 8, 8)]).check(1e-4, 1e-4)


def test_writes_in_place() -> None:
    def lower(b, p, g, m):
        m2 = b.add(b.mul(m, 0.9), g)
        return b.sub(p, b.mul(m2, 0.1)), m2

    case = Case(lower, [f32(30, 40), f32(30, 40), f32(30, 40)], writes=[(0, 0), (1, 2)]).check()
    assert case.launches == 1


def test_write_after_neighbours() -> None:
    def lower(b, p):
        return b.add(b.permute(p, (1, 0)), p), b.sum(p, (0,))

    Case(lower, [f32(20, 20)], writes=[(0, 0)]).check()


def test_write_swaps() -> None:
    Case(lambda b, x, y: (b.mul(y, 1.0), b.add(x, 2.0)), [f32(50), f32(50)], writes=[(0, 0), (1, 1)]).check()


def test_runtime_scalars() -> None:
    Case(lambda b, x, lr, n: (b.mul(x, lr), b.add(b.cast(x, int64), n)), [f32(37)], scalars=[0.25, 7]).check()


def test_bool() -> None:
    def lower(b, x, m):
        c = b.and_(b.gt(x, 0.0), b.not_(m))
        return c, b.where(c, x, 0.0), b.reduce("max", c, (1,)), b.sum(b.cast(c, int64), (0, 1))

    Case(lower, [f32(11, 21), RNG.random((11, 21)) > 0.5]).check()


def test_argmax_and_iota() -> None:
    x = np.round(f32(13, 29) * 2)
    x[3, 5] = np.nan
    Case(lambda b, x: (b.argreduce("argmax", x, 1), b.argreduce("argmin", x, 0), b.iota((4, 5), 1)), [x]).check()


def test_gather_scatter() -> None:
    table, at, src = f32(50, 12), RNG.integers(-50, 50, (7, 3)), f32(7, 3, 12)

    def lower(b, t, i, s):
        return b.gather(t, [i]), b.scatter_add((50, 12), [i], s), b.scatter_add((50,), [i], b.sum(s, (2,)))

    Case(lower, [table, at, src]).check()


def test_gather_out_of_range_reports() -> None:
    case = Case(lambda b, t, i: b.gather(t, [i]), [f32(5, 3), np.array([1, 5, 2])])
    case.run()
    assert case.status == 1


def test_one_hot_gather_fuses() -> None:
    def lower(b, x, t):
        return b.gather(x, [b.iota((20,), 0), t]), b.scatter_add((20, 10), [b.iota((20,), 0), t], b.sum(x, (1,)))

    assert Case(lower, [f32(20, 10), RNG.integers(0, 10, 20)]).check().launches == 1


def test_cat() -> None:
    def lower(b, x, y):
        c = b.cat([b.exp(x), y, b.mul(x, 2.0)], 1)
        return c, b.sum(c, (0,))

    Case(lower, [f32(6, 5), f32(6, 3)]).check()


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_empty_reduce(dims: tuple[int, ...]) -> None:
    Case(lambda b, x: b.sum(x, dims), [np.zeros((0, 5), np.float32)]).check()


def test_casts() -> None:
    def lower(b, x, i):
        return b.cast(x, int32), b.cast(i, float64), b.cast(x, bool_), b.cast(b.cast(i, float32), int64)

    Case(lower, [f32(33) * 5, RNG.integers(-9, 9, 33)]).check()


def test_same_value_twice_and_input_out() -> None:
    def lower(b, x):
        y = b.add(x, 1.0)
        return y, y, x, b.permute(x, (1, 0))

    Case(lower, [f32(4, 6)]).check()


def test_failed_check_writes_nothing() -> None:
    def lower(b, p, t, i):
        return b.mul(p, 2.0), b.gather(t, [i])

    case = Case(lower, [f32(3), f32(5, 3), np.array([0, 7])], writes=[(0, 0)])
    _, after = case.run()
    assert case.status == 1
    np.testing.assert_array_equal(after[0], case.arrays[0])


def test_second_shape_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # a product takes a tile that exists and is nearly as fast: those of other tests are not asked
    monkeypatch.setattr("jitgrad.codegen.gemm.plan._known_ways", {})

    def lower(b, x, w, c):
        h = b.max(b.add(b.matmul(x, w), c), 0.0)
        z = b.sub(h, b.reduce("max", h, (1,), True))
        return b.div(b.exp(z), b.sum(b.exp(z), (1,), True)), b.sum(h, (0,))

    def names(rows: int) -> set[str]:
        made = Case(lower, [f32(rows, 50), f32(50, 80), f32(80)]).check(1e-4, 1e-4).program.kernel_names
        return {name for name in made if not name.startswith("gemm") or host_target().width == 16}

    assert names(64) == names(37)


def test_equal_kernels_are_shared() -> None:
    def lower(b, *xs):
        return [b.sub(x, b.mul(b.exp(x), 0.5)) for x in xs]

    case = Case(lower, [f32(30, 40), f32(77), f32(5, 6, 7)], writes=[(0, 0), (1, 1), (2, 2)]).check()
    assert case.launches == 3
    assert len(set(case.program.kernel_names)) == 1


def test_long_chain_is_cut_into_few_kernels() -> None:
    def lower(b, x):
        y = x
        for _ in range(3000):
            y = b.add(b.mul(y, 0.5), x)
        return y

    case = Case(lower, [f32(40)]).check()
    assert case.launches < 50
    assert len(set(case.program.kernel_names)) < 5


def test_transcendental_epilogue() -> None:
    def lower(b, x, w, c):
        h = b.matmul(x, w)
        return b.tanh(b.add(h, c)), b.sigmoid(h), b.sin(h)

    Case(lower, [f32(33, 20), f32(20, 37), f32(37)]).check(1e-4, 1e-4)


@pytest.mark.parametrize("was_enabled", [True, False])
@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_no_cycles_are_collected_while_a_segment_is_planned(
    was_enabled: bool, error: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = pipeline.plan_segment
    seen: list[bool] = []

    def watched(segment: Any) -> Any:
        seen.append(gc.isenabled())
        if error is not None:
            raise error
        return plan(segment)

    monkeypatch.setattr(pipeline, "plan_segment", watched)
    before = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    try:
        step = jg.compile(lambda x: (x * 2).sin())
        with pytest.raises(KeyboardInterrupt) if error is KeyboardInterrupt else contextlib.nullcontext():
            step(jg.ones(3))
        assert set(seen) == {False}
        assert gc.isenabled() is was_enabled
    finally:
        (gc.enable if before else gc.disable)()
