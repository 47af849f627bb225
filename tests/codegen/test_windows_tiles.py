"""Implicit products at the level of their kernels: neither the register tile nor the length of a pass changes a bit."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from gemm_jit import load

from jitgrad.codegen.gemm import Operand, StoreEpilogue, windows
from jitgrad.codegen.gemm.emit_windows import emit_windows
from jitgrad.codegen.gemm.windows import Product, windows_launch, windows_spec
from jitgrad.codegen.llvm.target import host_target
from jitgrad.dtypes import float32

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


def _run(product: Product, tile: tuple[int, int] | None, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    target, epilogue = host_target(), StoreEpilogue("float32")
    spec = windows_spec(float32, product, "store", target)
    if tile:
        spec = replace(spec, rows=tile[0], vectors=tile[1])
    out = np.zeros((product.images, product.m, product.n), np.float32)
    own = epilogue.args(3, 0, product.m * product.n, product.n)
    words, units, _, _, tables = windows_launch(
        spec, product, Operand(1, 0, (0, 0, 0)), Operand(2, 0, (0, 0, 0)), own
    )  # fmt: skip
    args = (ctypes.c_int64 * len(words))(*words)
    bufs = (ctypes.c_int64 * 4)(0, *(x.ctypes.data for x in (a, b, out)))
    kernel = load(emit_windows(spec, "kernel", epilogue), target)
    assert tables.size
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
            monkeypatch.setattr(windows, "_PANEL_NBYTES", {"table": panel, "any": panel})
            assert _run(product, tile, a, b).tobytes() == first.tobytes()
