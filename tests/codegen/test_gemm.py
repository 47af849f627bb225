"""Matrix multiplication kernels against NumPy, on every CPU level this machine can run."""

from __future__ import annotations

import dataclasses
import re
import sys

import numpy as np
import pytest
from gemm_jit import Guarded, assembly, call, load, multiply, spec_for, strides_of, targets

import jitgrad
from jitgrad.codegen.gemm import (
    GEMM_ARGS,
    Epilogue,
    GemmSpec,
    Operand,
    StoreEpilogue,
    choose_spec,
    emit_gemm,
    gemm_launch,
    load_arg,
    load_vector,
    plan,
    store_vector,
)
from jitgrad.codegen.gemm.core_model import TILES, Core, Matrix, product_cycles
from jitgrad.codegen.gemm.emit import PACK_NBYTES, PACK_ROWS_NBYTES, SUMS_NBYTES, WIDE_SUMS_NBYTES
from jitgrad.codegen.gemm.plan import StridedProduct, in_way, ways_of
from jitgrad.codegen.gemm.tuning import Way
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.llvm.text import FnBuilder, vector_type
from jitgrad.config import config
from jitgrad.dtypes import float32, float64

_SIZES = [0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 48, 64, 70, 100, 130, 300]
_LAYOUTS = ["rows", "columns", "strided", "broadcast", "window", "upwards"]

each_target = pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


def _matrix(rng: np.random.Generator, shape: tuple[int, int, int], dtype: type, layout: str) -> np.ndarray:
    batch, rows, columns = shape
    if layout == "columns":
        return rng.standard_normal((batch, columns, rows)).astype(dtype).transpose(0, 2, 1)
    if layout == "strided":
        return rng.standard_normal((batch, rows * 2, columns * 3)).astype(dtype)[:, ::-2, ::3]
    if layout == "broadcast":
        return np.broadcast_to(rng.standard_normal((1, rows, 1)).astype(dtype), shape)
    if layout == "upwards":
        return rng.standard_normal(shape).astype(dtype)[:, ::-1]
    if layout == "window":
        return rng.standard_normal((batch + 1, rows + 2, columns + 5)).astype(dtype)[1:, 1:-1, 2 : 2 + columns]
    return rng.standard_normal(shape).astype(dtype)


def _check(got: np.ndarray, a: np.ndarray, b: np.ndarray, start: np.ndarray | float = 0.0) -> None:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    k = a.shape[2]
    bound = np.finfo(a.dtype).eps * (k + 2) * (np.abs(wide_a) @ np.abs(wide_b) + np.abs(start))
    error = np.abs(got - (wide_a @ wide_b + start))
    assert (error <= bound).all(), (a.shape, b.shape, a.strides, b.strides, error.max())


@each_target
@each_dtype
def test_random_shapes_and_layouts(target: Target, dtype: type) -> None:
    rng = np.random.default_rng(0)
    for _ in range(120):
        batch = int(rng.integers(1, 4))
        m, n, k = (int(rng.choice(_SIZES)) for _ in range(3))
        k = max(k, 1)  # a product of no terms is no product, see below
        a = _matrix(rng, (batch, m, k), dtype, str(rng.choice(_LAYOUTS)))
        b = _matrix(rng, (batch, k, n), dtype, str(rng.choice(_LAYOUTS)))
        out = np.full((batch, m + 1, n + 3), 7.0, dtype)
        multiply(a, b, out[:, :m, :n], target, cost=int(rng.choice([1, 100])))
        _check(out[:, :m, :n], a, b)
        assert (out[:, m:] == 7.0).all() and (out[:, :, n:] == 7.0).all()


@each_target
@pytest.mark.parametrize("m,n", [(16, 0), (0, 16), (0, 0)])
def test_an_empty_product_has_no_units_in_any_way(target: Target, m: int, n: int) -> None:
    for turned in (False, True):
        a = np.empty((1, 5, m) if turned else (1, m, 5), np.float32)
        a, b = a.swapaxes(1, 2) if turned else a, np.empty((1, 5, n), np.float32)
        spec = spec_for(a, b, target)
        product = StridedProduct(float32, m, n, 5, strides_of(a)[1:], strides_of(b)[1:])
        for way in ways_of(product, spec.b_unit, spec.width, target):
            out = np.empty((1, m + 1, n + 1), np.float32)[:, :m, :n]
            assert multiply(a, b, out, target, spec=in_way(spec, way)) == 0


@pytest.mark.parametrize("extents", [(3, 5), (0, 5), (3, 0)])
def test_a_product_without_terms_has_no_kernel(extents: tuple[int, int]) -> None:
    """It is zeros: a program has none (``decompose``). Where there is nothing to store, there is nothing to run."""
    (m, n), target = extents, targets()[0]
    a, b = np.empty((1, m, 0), np.float32), np.empty((1, 0, n), np.float32)
    out = np.full((1, m + 1, n + 1), 7, np.float32)[:, :m, :n]
    if m and n:
        with pytest.raises(ValueError, match=r"a product \[3, 0\] x \[0, 5\] has no terms"):
            multiply(a, b, out, target, spec=spec_for(np.empty((1, m, 1)), np.empty((1, 1, n)), target))
    else:
        assert multiply(a, b, out, target) == 0
    x, y = jitgrad.ones(3, 0), jitgrad.ones(0, 5)
    product = jitgrad.compile(lambda x, y: x @ y + 1)
    for _ in range(3):
        assert product(x, y).tolist() == [[1.0] * 5] * 3


@pytest.mark.parametrize(
    "turned,copies", [(False, "nothing"), (False, "B"), (True, "nothing"), (True, "B"), (True, "A and B")]
)
@pytest.mark.parametrize("tile", [*TILES[32], (10, 1), (10, 2), (12, 1), (16, 1)])
def test_sums_stay_in_registers(tile: tuple[int, int], turned: bool, copies: str) -> None:
    """LLVM stores sums to the target, and between passes; it keeps none on the stack for want of registers."""
    a_unit, copy, copy_rows = ("m" if turned else "any"), "B" in copies, "A" in copies
    spec = GemmSpec("float32", a_unit, "n", "store", *tile, copy, 16, True, True, copy_rows=copy_rows)
    text = emit_gemm(spec, "kernel", StoreEpilogue("float32"))
    spilled = re.findall(r"vmov\w+\s+%zmm\d+, -?\d*\(%rsp\)", assembly(text))
    masks = 1 + tile[1]  # what the masks of a panel are made of lies there
    assert len(spilled) <= masks, spilled


@each_target
@pytest.mark.parametrize("m,n,k", [(1, 40, 2000), (3, 20, 2500), (70, 50, 2100), (700, 20, 30), (66, 130, 1100)])
@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
def test_long_products(target: Target, m: int, n: int, k: int, layout: str) -> None:
    """Several passes over K, several blocks of rows."""
    rng = np.random.default_rng(1)
    a, b = _matrix(rng, (1, m, k), np.float32, "rows"), _matrix(rng, (1, k, n), np.float32, layout)
    for cost in (1, 100):
        out = np.full((1, m, n), np.nan, np.float32)
        multiply(a, b, out, target, cost=cost)
        _check(out, a, b)


@each_target
@pytest.mark.parametrize("m", [3, 7, 8, 130])
def test_a_unit_with_less_than_a_tile_of_rows_side_by_side(target: Target, m: int) -> None:
    """Its first tile can't copy the panel; nobody else would."""
    rng = np.random.default_rng(11)
    a, b = _matrix(rng, (1, m, 90), np.float32, "columns"), _matrix(rng, (1, 90, 100), np.float32, "rows")
    out = np.full((1, m, 100), np.nan, np.float32)
    multiply(a, b, out, target, spec=dataclasses.replace(spec_for(a, b, target), rows=8, vectors=1, copy=True))
    _check(out, a, b)


@each_target
def test_copied_rows_of_a_large_product(target: Target) -> None:
    rng = np.random.default_rng(2)
    a, b = _matrix(rng, (1, 75, 1300), np.float32, "rows"), _matrix(rng, (1, 1300, 520), np.float32, "window")
    out = np.full((1, 75, 520), np.nan, np.float32)
    multiply(a, b, out, target, spec=dataclasses.replace(spec_for(a, b, target), copy=True))
    _check(out, a, b)


@each_target
@each_dtype
def test_every_tile_serves_every_shape(target: Target, dtype: type) -> None:
    """The spec is a matter of speed: one chosen for another shape is as right."""
    rng = np.random.default_rng(3)
    shapes = [(1, 9, 4), (5, 40, 20), (64, 64, 64), (20, 3, 1100), (512, 512, 512)]
    for m, n, k in shapes:
        for layout in ("rows", "columns", "strided"):
            other = _matrix(rng, (1, 3, 4), dtype, layout)
            shaped = spec_for(np.empty((1, m, k), dtype), np.empty((1, k, n), dtype), target)
            spec = dataclasses.replace(shaped, b_unit=spec_for(np.empty((1, 9, 3), dtype), other, target).b_unit)
            spec = dataclasses.replace(spec, copy=spec.copy or spec.b_unit != "n")
            a, b = _matrix(rng, (2, 37, 29), dtype, "rows"), _matrix(rng, (2, 29, 53), dtype, layout)
            out = np.empty((2, 37, 53), dtype)
            multiply(a, b, out, target, spec=spec)
            _check(out, a, b)


@each_target
@pytest.mark.parametrize("cost", [1, 100])
def test_accumulate_touches_each_element_once(target: Target, cost: int) -> None:
    rng = np.random.default_rng(4)
    for m, n, k in [(1, 1, 1), (9, 17, 5), (13, 70, 40), (70, 33, 1)]:
        for layout in ("rows", "columns"):
            a, b = _matrix(rng, (2, m, k), np.float32, "rows"), _matrix(rng, (2, k, n), np.float32, layout)
            start = rng.standard_normal((2, m, n)).astype(np.float32)
            out = start.copy()
            multiply(a, b, out, target, accumulate=True, cost=cost)
            _check(out, a, b, start.astype(np.float64))


@each_target
@each_dtype
def test_no_partition_of_the_units_changes_a_bit(target: Target, dtype: type) -> None:
    rng = np.random.default_rng(5)
    for m, n, k, layout in [
        (70, 90, 33, "rows"),
        (300, 100, 64, "columns"),
        (3, 400, 200, "columns"),
        (512, 64, 300, "rows"),
    ]:
        a, b = _matrix(rng, (3, m, k), dtype, "rows"), _matrix(rng, (3, k, n), dtype, layout)
        whole, cut = np.empty((3, m, n), dtype), np.empty((3, m, n), dtype)
        units = multiply(a, b, whole, target)
        assert units >= 3
        for pieces in (2, 3, units):
            points = sorted(rng.integers(0, units + 1, pieces - 1).tolist())
            cut[:] = np.nan
            multiply(a, b, cut, target, cuts=lambda units, points=points: [0, *points, units])
            assert (whole.view(np.uint8) == cut.view(np.uint8)).all()


@each_target
def test_rows_do_not_depend_on_their_neighbours(target: Target) -> None:
    """An element's value depends on its own row and column only, not on where they stand in the matrix."""
    rng = np.random.default_rng(6)
    a, b = _matrix(rng, (1, 50, 77), np.float32, "rows"), _matrix(rng, (1, 77, 90), np.float32, "rows")
    whole, part = np.empty((1, 50, 90), np.float32), np.empty((1, 37, 61), np.float32)
    multiply(a, b, whole, target)
    multiply(a[:, 13:], b[:, :, 29:], part, target)
    assert (whole[:, 13:, 29:] == part).all()


def test_special_values_stay_where_they_are() -> None:
    a, b = np.ones((1, 20, 30), np.float32), np.ones((1, 30, 40), np.float32)
    a[0, 7, 3], b[0, 5, 11] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = a @ b
    for target in targets():
        for right in (b, np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)):
            out = np.empty((1, 20, 40), np.float32)
            multiply(a, right, out, target)
            np.testing.assert_array_equal(out, expected)


class _BiasRelu(Epilogue):
    """relu(C + bias[column]), with a block of its own for the column tails. Arguments: slots of C and bias, N."""

    def __init__(self, cost: int) -> None:
        self.cost = cost
        self.repeatable = cost == 1

    def prepare(self, b: FnBuilder) -> None:
        words = [load_arg(b, GEMM_ARGS + i) for i in range(3)]
        self.out, self.bias = (
            b.op(f"load ptr, ptr {b.op(f'getelementptr i64, ptr %bufs, i64 {w}')}") for w in words[:2]
        )
        self.row_stride = words[2]

    def __call__(self, b: FnBuilder, acc: str, width: int, batch: str, row: str, col: str, mask: str | None) -> None:
        vec = vector_type(width, "float")
        bias = load_vector(b, "float", width, b.op(f"getelementptr float, ptr {self.bias}, i64 {col}"), mask)
        moved = b.op(f"fadd {vec} {acc}, {bias}")
        zero = b.const(0.0, "float", width)
        positive = b.op(f"fcmp ogt {vec} {moved}, {zero}")
        chosen = b.op(f"select {vector_type(width, 'i1')} {positive}, {vec} {moved}, {vec} {zero}")
        at = b.op(f"add i64 {b.op(f'mul i64 {row}, {self.row_stride}')}, {col}")
        store_vector(b, "float", width, chosen, b.op(f"getelementptr float, ptr {self.out}, i64 {at}"), mask)


@each_target
@pytest.mark.parametrize("cost", [1, 50])
def test_fused_epilogue(target: Target, cost: int) -> None:
    rng = np.random.default_rng(7)
    for m, n, k in [(32, 128, 64), (33, 45, 20), (500, 200, 400), (4, 10, 8), (2, 300, 1200)]:
        for layout in ("rows", "columns"):
            a, b = _matrix(rng, (1, m, k), np.float32, "rows"), _matrix(rng, (1, k, n), np.float32, layout)
            bias, out, plain = (
                rng.standard_normal(n).astype(np.float32),
                np.empty((m, n), np.float32),
                np.empty((1, m, n), np.float32),
            )
            spec = spec_for(a, b, target, "bias_relu")
            kernel = load(emit_gemm(spec, "kernel", _BiasRelu(cost)), target)
            call(kernel, spec, a, b, [out, bias], (3, 4, n))
            multiply(a, b, plain, target)
            np.testing.assert_array_equal(out, np.maximum(plain[0] + bias, 0))


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
@each_target
@each_dtype
def test_nothing_outside_the_windows_is_read_or_written(target: Target, dtype: type) -> None:
    """Each operand ends where an unreadable page begins (or starts where one ends): a stray access kills the test."""
    rng = np.random.default_rng(8)
    guards = [Guarded() for _ in range(3)]
    for m, n, k in [(1, 1, 1), (3, 5, 7), (8, 16, 4), (9, 17, 5), (20, 33, 18), (3, 20, 33), (2, 7, 9)]:
        for flip in range(8):
            for low in (False, True):
                size = np.dtype(dtype).itemsize
                place = [g.low if low else g.high for g in guards]
                a = place[0](m * k * size).view(dtype).reshape((k, m) if flip & 1 else (m, k))
                b = place[1](k * n * size).view(dtype).reshape((n, k) if flip & 2 else (k, n))
                a[:], b[:] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
                a3, b3 = (a.T if flip & 1 else a)[None], (b.T if flip & 2 else b)[None]
                if flip & 4:
                    b3 = b3[:, :, ::-1]
                out = place[2](m * n * size).view(dtype).reshape(1, m, n)
                multiply(a3, b3, out, target)
                _check(out, a3, b3)


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
@each_target
@each_dtype
@pytest.mark.parametrize("turned", [False, True])
def test_the_first_tile_copies_its_panel(target: Target, dtype: type, turned: bool) -> None:
    """Less than a tile of rows, a panel that lacks columns, several passes: as without copies, and nothing beyond."""
    rng, size = np.random.default_rng(10), np.dtype(dtype).itemsize
    guards = [Guarded(140) for _ in range(3)]
    for m, n, k in [(1, 1, 1), (3, 5, 7), (9, 48, 5), (8, 70, 18), (21, 33, 400), (7, 96, 700), (130, 65, 9)]:
        for low in (False, True):
            place = [g.low if low else g.high for g in guards]
            a = place[0](m * k * size).view(dtype).reshape((k, m) if turned else (m, k))
            b = place[1](k * n * size).view(dtype).reshape(1, k, n)
            out = place[2](m * n * size).view(dtype).reshape(1, m, n)
            a[:], b[:] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
            a3 = (a.T if turned else a)[None]
            spec = dataclasses.replace(spec_for(a3, b, target), a_unit="m" if turned else "any", b_unit="n")
            multiply(a3, b, out, target, spec=dataclasses.replace(spec, copy=False, copy_rows=False))
            plain = out.copy()
            for rows, vectors in ((8, 2), (4, 1), (1, 4)):
                out[:] = np.nan
                way = {"rows": rows, "vectors": vectors, "copy": True, "copy_rows": turned and rows == 4}
                multiply(a3, b, out, target, spec=dataclasses.replace(spec, **way))
                np.testing.assert_array_equal(out, plain)


def _copied_rows(spec: GemmSpec) -> GemmSpec:
    """The same kernel, made to copy A's rows."""
    return dataclasses.replace(spec, a_unit="m", copy=True, copy_rows=True)


@each_target
@each_dtype
def test_rows_of_a_transposed_operand_are_copied(target: Target, dtype: type) -> None:
    """One pass and several, rows and columns past the last tile, several units, long and short epilogues."""
    rng = np.random.default_rng(9)
    for m, n, k in [(5, 9, 1), (7, 200, 13), (300, 70, 40), (64, 300, 1100), (513, 130, 520)]:
        for layout in ("rows", "columns", "strided", "window", "upwards"):
            a, b = _matrix(rng, (2, m, k), dtype, "columns"), _matrix(rng, (2, k, n), dtype, layout)
            spec = dataclasses.replace(spec_for(a, b, target), copy_rows=False, copy=True)
            got, plain = np.full((2, m, n), np.nan, dtype), np.full((2, m, n), np.nan, dtype)
            for cost in (1, 100):
                multiply(a, b, plain, target, cost=cost, spec=spec)
                multiply(a, b, got, target, cost=cost, spec=_copied_rows(spec))
                np.testing.assert_array_equal(got, plain)  # the order of each sum is the same
            _check(got, a, b)


@each_target
def test_rows_of_a_long_operand_stay_in_the_cache(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """An A that is larger than the second cache is read once, some rows at a time, and no bit is another one."""
    rng = np.random.default_rng(11)
    for m, n, k in [(37, 200, 300), (513, 130, 520), (700, 90, 40)]:
        a, b = _matrix(rng, (2, m, k), np.float32, "rows"), _matrix(rng, (2, k, n), np.float32, "rows")
        spec = dataclasses.replace(spec_for(a, b, target), copy=True)
        found = []
        for nbytes in (1 << 40, 1000):
            monkeypatch.setattr(plan, "_A_NBYTES", nbytes)
            found.append(np.full((2, m, n), np.nan, np.float32))
            units = multiply(a, b, found[-1], target, spec=spec)
        assert m < 240 or units % 4 == 0  # there are two products, and each has an even number of blocks of rows
        np.testing.assert_array_equal(*found)
        _check(found[0], a, b)


def _units(m: int, n: int, k: int, turned: bool, way: Way | None = None) -> tuple[int, int]:
    """Units along the rows and the columns of C."""
    a_strides = (0, 1, m) if turned else (0, k, 1)
    spec = choose_spec(float32, m, n, k, 1, a_strides, (0, n, 1), "units", targets()[0])
    spec = spec if way is None else in_way(spec, way)
    words = gemm_launch(spec, m, n, k, 1, Operand(1, 0, a_strides), Operand(2, 0, (0, n, 1)), ())[0]
    return words[15], words[16]


def test_how_products_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores that write short rows of C in turns take each other's lines; a long B is read along its rows."""
    in_place, copied = Way(4, 2, False, False), Way(4, 2, True, True)
    assert _units(1024, 256, 20, True, in_place) == (6, 1)
    assert _units(1024, 1024, 20, True, in_place)[1] > 1
    for threads in (1, 2, 4):
        monkeypatch.setattr(config, "num_threads", threads)
        assert _units(64, 576, 4096, True, copied) == (1, max(2, threads))


def test_buffers_on_the_stack_have_room_for_every_way() -> None:
    rng, target = np.random.default_rng(12), targets()[0]
    for _ in range(300):
        m, n, k = (int(x) for x in 2 ** rng.uniform(0, 13, 3))
        dtype = (float32, float64)[int(rng.integers(2))]
        a_strides, b_strides = ((k, 1), (1, m))[int(rng.integers(2))], ((n, 1), (1, k))[int(rng.integers(2))]
        product = StridedProduct(dtype, m, n, k, a_strides, b_strides)
        spec = choose_spec(dtype, m, n, k, 1, (0, *a_strides), (0, *b_strides), "room", target)
        if spec.a_unit == "k":
            continue
        for way in ways_of(product, spec.b_unit, spec.width, target):
            spec = in_way(spec, way)
            a, b = Operand(1, 0, (0, *a_strides)), Operand(2, 0, (0, *b_strides))
            words = gemm_launch(spec, m, n, k, 1, a, b, ())[0]
            unit_m, unit_n, depth, size = words[13], words[14], words[17], spec.itemsize
            assert unit_m % spec.rows == 0 and unit_n % spec.columns == 0
            if spec.copy:
                assert depth * spec.columns * size <= PACK_NBYTES
            if spec.copy_rows:
                assert unit_m * depth * size <= PACK_ROWS_NBYTES
            if depth < k:
                most = WIDE_SUMS_NBYTES if spec.copy_rows else SUMS_NBYTES
                assert unit_m * size * (unit_n if spec.copy_rows else spec.columns) <= most


def test_which_products_copy_the_rows_of_a() -> None:
    """Weight gradients of wide layers; not what is in the cache anyway, nor a row-major operand."""
    target = targets()[0]

    def copies(m: int, n: int, k: int, a_strides: tuple[int, int, int]) -> bool:
        return choose_spec(float32, m, n, k, 1, a_strides, (0, n, 1), "rows of A", target).copy_rows

    assert copies(1024, 784, 256, (0, 1, 1024))
    assert copies(64, 576, 16384, (0, 1, 64))
    assert not copies(128, 784, 64, (0, 1, 128))
    assert not copies(1024, 784, 256, (0, 256, 1))


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
@each_target
def test_copies_of_rows_read_nothing_outside(target: Target) -> None:
    rng = np.random.default_rng(10)
    guards = [Guarded() for _ in range(2)]
    for m, n, k in [(1, 1, 1), (3, 5, 7), (9, 17, 5), (13, 20, 9)]:
        for low in (False, True):
            place = [g.low if low else g.high for g in guards]
            a = place[0](m * k * 4).view(np.float32).reshape(k, m)
            a[:], b = rng.standard_normal(a.shape), rng.standard_normal((1, k, n)).astype(np.float32)
            out = place[1](m * n * 4).view(np.float32).reshape(1, m, n)
            multiply(a.T[None], b, out, target, spec=_copied_rows(spec_for(a.T[None], b, target)))
            _check(out, a.T[None], b)


def test_few_specs_serve_many_shapes() -> None:
    """A second size in the same place costs no compile: batch sizes from 24 on share one spec."""
    target = targets()[0]
    specs = {
        choose_spec(float32, m, 128, 784, 1, (0, 784, 1), (0, 128, 1), "x", target)
        for m in (24, 32, 48, 64, 96, 128, 256)
    }
    assert len(specs) <= 2


@each_target
def test_text_is_short(target: Target) -> None:
    """Compile time goes with the text: about 25 us per line."""
    for b_strides in ((0, 128, 1), (0, 1, 64)):
        spec = choose_spec(float32, 32, 128, 64, 1, (0, 64, 1), b_strides, "x", target)
        assert emit_gemm(spec, "kernel", _BiasRelu(1)).count("\n") < 1100


def test_a_tile_that_exists_is_used_again_where_it_is_nearly_as_fast() -> None:
    target = targets()[0]

    def tile(m: int) -> tuple[int, int]:
        spec = choose_spec(float32, m, 32, 20, 1, (0, 20, 1), (0, 32, 1), "tiles used again", target)
        return spec.rows, spec.vectors

    first = tile(64)
    assert [tile(m) for m in (56, 40, 33, 64)] == [first] * 4


@pytest.mark.parametrize(("m", "k", "copies"), [(64, 128, True), (192, 192, True), (32, 64, False), (64, 8, False)])
def test_which_panels_are_copied(m: int, k: int, copies: bool) -> None:
    """The model copies a panel that many rows read and that does not lie in a few lines."""
    core, shape, b = Core(2.0, 1.0, 5.4, 1.3, 0.0), (m, 192, k), Matrix("n", 768)
    costs = {c: min(product_cycles(core, tile, c * k, shape, b, 16) for tile in TILES[32]) for c in (False, True)}
    assert (costs[True] < costs[False]) == copies


def test_the_tile_does_not_change_results(rng: np.random.Generator) -> None:
    target = targets()[0]
    a, b = rng.standard_normal((1, 33, 20), np.float32), rng.standard_normal((1, 20, 32), np.float32)
    spec = spec_for(a, b, target)
    results = []
    for rows, vectors in ((8, 1), (4, 2), (1, 1)):
        out = np.zeros((1, 33, 32), np.float32)
        multiply(a, b, out, target, spec=dataclasses.replace(spec, rows=rows, vectors=vectors))
        results.append(out)
    assert all(np.array_equal(results[0], result) for result in results)
