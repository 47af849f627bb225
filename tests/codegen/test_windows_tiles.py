"""Implicit products at the level of their kernels: neither the register tile nor the length of a pass changes a bit."""

from __future__ import annotations

import ctypes
import mmap
import sys
from dataclasses import replace

import numpy as np
import pytest
from gemm_jit import Guarded, load

from jitgrad.codegen.gemm import Operand, StoreEpilogue, windows
from jitgrad.codegen.gemm.core_model import TILES
from jitgrad.codegen.gemm.emit_windows import emit_windows
from jitgrad.codegen.gemm.windows import Product, windows_launch, windows_spec
from jitgrad.codegen.llvm.target import host_target
from jitgrad.dtypes import DType, float32, float64

IMAGES, CHANNELS, EXTENT, OUTS = 3, 12, 9, 13
_OUT = EXTENT - 2
_PLANE = EXTENT * EXTENT
_PATCH = ((CHANNELS, _PLANE), (3, EXTENT), (3, 1))
_ALL = ((IMAGES, CHANNELS * _PLANE), (_OUT, EXTENT), (_OUT, 1))
FORWARD = Product(
    IMAGES, 1, OUTS, _OUT * _OUT, CHANNELS * 9, 0, CHANNELS * _PLANE, 0,
    ((OUTS, CHANNELS * 9),), ((CHANNELS * 9, 1),), _PATCH, ((_OUT, EXTENT), (_OUT, 1)),
)  # fmt: skip
WEIGHT = Product(
    1, 1, CHANNELS * 9, OUTS, IMAGES * _OUT * _OUT, 0, 0, 0,
    _PATCH, _ALL, ((IMAGES, OUTS * _OUT * _OUT), (_OUT * _OUT, 1)), ((OUTS, _OUT * _OUT),),
)  # fmt: skip

pytestmark = pytest.mark.skipif(
    not host_target().has_masks, reason="targets without masked loads copy windows to memory first"
)


def _run(
    product: Product, tile: tuple[int, int] | None, a: np.ndarray, b: np.ndarray, copy: bool = True,
    dtype: DType = float32,
) -> np.ndarray:  # fmt: skip
    target, epilogue = host_target(), StoreEpilogue(dtype.name)
    spec = windows_spec(dtype, product, "store", target)
    if tile:
        spec = replace(spec, rows=tile[0], vectors=tile[1], copy=copy)
    out = np.zeros((product.images, product.m, product.n), dtype.np)
    own = epilogue.args(3, 0, product.m * product.n, product.n)
    words, units, _, _ = windows_launch(spec, product, Operand(1, 0, (0, 0, 0)), Operand(2, 0, (0, 0, 0)), own)
    args = (ctypes.c_int64 * len(words))(*words)
    bufs = (ctypes.c_int64 * 4)(0, *(x.ctypes.data for x in (a, b, out)))
    kernel = load(emit_windows(spec, "kernel", epilogue), target)
    kernel(ctypes.addressof(bufs), ctypes.addressof(args), 0, units)
    return out


@pytest.mark.parametrize("product", [FORWARD, WEIGHT], ids=["forward", "weight"])
def test_neither_tile_nor_pass_changes_a_bit(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    image = rng.standard_normal(IMAGES * CHANNELS * _PLANE).astype(np.float32)
    other = rng.standard_normal(max(OUTS * CHANNELS * 9, IMAGES * OUTS * _OUT * _OUT)).astype(np.float32)
    a, b = (other, image) if product is FORWARD else (image, other)
    first = _run(product, None, a, b)
    patches = np.lib.stride_tricks.sliding_window_view(image.reshape(IMAGES, CHANNELS, EXTENT, EXTENT), (3, 3), (2, 3))
    columns = patches.transpose(0, 1, 4, 5, 2, 3).reshape(IMAGES, CHANNELS * 9, -1).astype(np.float64)
    if product is FORWARD:
        expected = other[: OUTS * CHANNELS * 9].reshape(OUTS, -1) @ columns
    else:
        up = other[: IMAGES * OUTS * _OUT * _OUT].reshape(IMAGES, OUTS, -1)
        expected = np.einsum("nkp,nop->ko", columns, up)[None]
    np.testing.assert_allclose(first, expected, atol=1e-4)
    for tile in ((8, 2), (4, 4), (1, 8)):
        for panel in (1, 20_000):  # passes of 64 steps; of more
            monkeypatch.setattr(windows, "PACK_NBYTES", panel)
            assert _run(product, tile, a, b).tobytes() == first.tobytes()


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("tile", TILES[32])
def test_a_pass_has_room_on_the_stack(tile: tuple[int, int], dtype: DType) -> None:
    chosen = windows_spec(dtype, FORWARD, "store", host_target())
    spec = replace(chosen, rows=tile[0], vectors=tile[1], copy=True)
    operands, own = (Operand(1, 0, (0, 0, 0)), Operand(2, 0, (0, 0, 0))), StoreEpilogue(dtype.name).args(3, 0, 0, 0)
    for k in (1, 63, 64, 65, 300, 1000, 5000):
        words, *_ = windows_launch(spec, FORWARD._replace(k=k), *operands, own)
        depth = words[17]
        assert 0 < depth <= max(k, 4) and depth * spec.columns * spec.itemsize <= windows.PACK_NBYTES
        in_place, *_ = windows_launch(replace(spec, copy=False), FORWARD._replace(k=k), *operands, own)
        assert (in_place[17], in_place[18]) == (k, 0), "one pass"


_ROWS, _WIDTH, _PAD = 5, 32, 2
_WIDE = ((CHANNELS, (_ROWS + _PAD) * (_WIDTH + _PAD)), (3, _WIDTH + _PAD), (3, 1))
WHOLE = Product(
    IMAGES, 1, OUTS, _ROWS * _WIDTH, CHANNELS * 9, 0, CHANNELS * _WIDE[0][1], 0,
    ((OUTS, CHANNELS * 9),), ((CHANNELS * 9, 1),), _WIDE, ((_ROWS, _WIDTH + _PAD), (_WIDTH, 1)),
)  # fmt: skip
"""All vectors are whole, and one segment each; 30 vectors, which is no multiple of every tile's."""


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
@pytest.mark.parametrize("cost", [1, 100])
@pytest.mark.parametrize("rows", [OUTS, 1, 8])
def test_panels_are_read_in_place(rows: int, cost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits as from copies; nothing beside the image is read, which fills memory between unreadable pages."""
    monkeypatch.setattr(StoreEpilogue, "cost", cost)
    product = WHOLE._replace(m=rows, a_m=((rows, CHANNELS * 9),) if rows > 1 else ())
    assert not windows_spec(float32, WHOLE, "store", host_target()).copy
    rng = np.random.default_rng(1)
    nbytes = 4 * IMAGES * WHOLE.b_image
    guarded = Guarded(-(-nbytes // mmap.PAGESIZE))
    a = rng.standard_normal(rows * CHANNELS * 9).astype(np.float32)
    values = rng.standard_normal(IMAGES * WHOLE.b_image).astype(np.float32)
    for place in (guarded.low, guarded.high):
        b = place(nbytes).view(np.float32)
        b[:] = values
        first = _run(product, (8, 2), a, b)
        for tile in TILES[32]:
            assert _run(product, tile, a, b, copy=False).tobytes() == first.tobytes(), tile
    image = values.reshape(IMAGES, CHANNELS, _ROWS + _PAD, _WIDTH + _PAD)
    patches = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3)).transpose(0, 1, 4, 5, 2, 3)
    expected = a.reshape(rows, -1) @ patches.reshape(IMAGES, CHANNELS * 9, -1).astype(np.float64)
    np.testing.assert_allclose(first, expected, atol=1e-4)


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("rows", [1, 3, 4])
@pytest.mark.parametrize("halves", [2, 3, 5])
def test_every_second_column_is_two_loads_and_a_shuffle(halves: int, rows: int, dtype: DType) -> None:
    """Windows of stride 2 over an image that fills memory between unreadable pages: nothing beside it is read."""
    width = windows_spec(dtype, FORWARD, "store", host_target()).width
    columns = halves * (width // 2)
    high, wide = 2 * rows + 1, 2 * columns + 1
    plane = high * wide
    product = Product(
        IMAGES, 1, OUTS, rows * columns, CHANNELS * 9, 0, CHANNELS * plane, 0,
        ((OUTS, CHANNELS * 9),), ((CHANNELS * 9, 1),), ((CHANNELS, plane), (3, wide), (3, 1)),
        ((rows, 2 * wide), (columns, 2)),
    )  # fmt: skip
    assert windows_spec(dtype, product, "store", host_target()).b_unit == "halves"
    rng = np.random.default_rng(halves)
    values = rng.standard_normal(IMAGES * product.b_image).astype(dtype.np)
    a = rng.standard_normal(OUTS * CHANNELS * 9).astype(dtype.np)
    guarded = Guarded(-(-values.nbytes // mmap.PAGESIZE))
    image = values.reshape(IMAGES, CHANNELS, high, wide)
    patches = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))[:, :, ::2, ::2]
    patches = patches.transpose(0, 1, 4, 5, 2, 3)
    expected = a.reshape(OUTS, -1) @ patches.reshape(IMAGES, CHANNELS * 9, -1).astype(np.float64)
    for place in (guarded.low, guarded.high):
        b = place(values.nbytes).view(dtype.np)
        b[:] = values
        first = _run(product, None, a, b, dtype=dtype)
        np.testing.assert_allclose(first, expected, atol=1e-4)
        for tile in TILES[32]:
            assert _run(product, tile, a, b, dtype=dtype).tobytes() == first.tobytes(), tile


def test_columns_that_break_inside_a_half_are_gathered() -> None:
    width = windows_spec(float32, FORWARD, "store", host_target()).width
    for columns in (width // 2 - 1, width // 2 + 2, 3):
        digits = ((5, 200), (columns, 2))
        product = FORWARD._replace(n=5 * columns, b_n=digits)
        assert windows_spec(float32, product, "store", host_target()).b_unit == "runs"


def test_which_panels_stay_where_they_are() -> None:
    """Where a vector lies in two rows of the image, or its columns lie apart, panels are copied."""

    def copies(product: Product) -> bool:
        return windows_spec(float32, product, "store", host_target()).copy

    assert copies(FORWARD) and copies(WEIGHT) and not copies(WHOLE)
    assert copies(WHOLE._replace(n=_ROWS * 8, b_n=((_ROWS, _WIDTH + _PAD), (8, 1))))
    assert copies(WHOLE._replace(n=_ROWS * 16, b_n=((_ROWS, _WIDTH + _PAD), (16, 2))))
    assert copies(WHOLE._replace(n=_ROWS * _WIDTH - 1, b_n=((_ROWS * _WIDTH - 1, 1),)))
    turned = WHOLE._replace(n=64, k=64, a_k=((64, 1),), b_k=((64, 1),), b_n=((64, 80),))
    assert windows_spec(float32, turned, "store", host_target()).b_unit == "krun" and copies(turned)
    crowded = WHOLE._replace(n=64, k=2048, a_k=((2048, 1),), b_k=((2048, 1024),), b_n=((64, 1),))
    assert copies(crowded), "all rows would lie in one set of the cache"
