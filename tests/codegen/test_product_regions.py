"""Terms of padding are left out of implicit products, Note [Regions of a product]: which, and not a bit changes."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from gemm_jit import load

import jitgrad
from jitgrad.codegen import link
from jitgrad.codegen.gemm import Operand, StoreEpilogue, windows
from jitgrad.codegen.gemm.core_model import TILES
from jitgrad.codegen.gemm.emit_windows import emit_windows
from jitgrad.codegen.gemm.regions import Seen, blocks_of, regions_of
from jitgrad.codegen.gemm.windows import Product, windows_launch, windows_spec
from jitgrad.codegen.llvm.target import host_target
from jitgrad.dtypes import DType, float32, float64
from jitgrad.nn import functional as F
from jitgrad.runtime.eager.new_shapes import at_once

needs_windows = pytest.mark.skipif(
    not host_target().has_masks, reason="targets without masked loads copy windows to memory first"
)


def _draw_axis(rng: np.random.Generator, positions: list[int]) -> tuple[int, int, int, int, int, int]:
    return (
        int(rng.choice(positions)), int(rng.integers(-4, 2)), int(rng.integers(1, 3)), int(rng.integers(1, 4)),
        int(rng.choice([-1, 1, 2])), int(rng.integers(1, 20)),
    )  # fmt: skip


def _needed(seen: Seen, vector: range) -> set[int]:
    """The taps with which one of some columns sees an element, one after the other."""
    found = set()
    columns = list(itertools.product(*(range(axis[0]) for axis in seen)))
    for p in vector:
        for number, taps in enumerate(itertools.product(*(range(axis[3]) for axis in seen))):
            places = [
                (at + i * step + t * tap_step, extent)
                for (_, at, step, _, tap_step, extent), i, t in zip(seen, columns[p], taps, strict=True)
            ]
            if all(0 <= place < extent for place, extent in places):
                found.add(number)
    return found or {0}


@pytest.mark.parametrize("seed", range(30))
def test_each_vector_sums_what_it_sees(seed: int) -> None:
    """All vectors are in one region each; blocks hold all vectors of all images, and none is too long."""
    rng = np.random.default_rng(seed)
    seen = tuple(_draw_axis(rng, [1, 3, 8, 16]) for _ in range(int(rng.integers(1, 4))))
    n, taps = (int(np.prod([axis[i] for axis in seen])) for i in (0, 3))
    channels, width, images = int(rng.integers(1, 4)), int(rng.choice([4, 8, 16])), int(rng.integers(1, 4))
    regions = regions_of(seen, n, channels * taps, width)
    vectors = -(-n // width)
    assert sorted(np.concatenate([r.vectors for r in regions]).tolist()) == list(range(vectors))
    for region in regions if len(regions) > 1 else ():
        for v in region.vectors.tolist():
            needed = sorted(_needed(seen, range(v * width, min(n, (v + 1) * width))))
            assert region.ks.tolist() == [c * taps + t for c in range(channels) for t in needed]
    blocks = blocks_of(seen, n, channels * taps, images, width, 6)
    for number, region in enumerate(regions):
        held = [q for r, first, end in blocks.tolist() if r == number for q in range(first, end)]
        assert held == list(range(images * len(region.vectors)))
    assert (blocks[:, 2] - blocks[:, 1] <= 6).all()


class _Case(NamedTuple):
    """A convolution of an image whose padding is in memory, as a product; where its image begins there."""

    product: Product
    image: tuple[slice, ...]
    padded: tuple[int, ...]


CHANNELS, OUTS, IMAGES = 5, 11, 3


def _case(positions: tuple[int, ...], window: int, stride: int, padding: int) -> _Case:
    size = [(p - 1) * stride + window for p in positions]  # of the padded image
    steps = [int(np.prod(size[d + 1 :])) for d in range(len(size))]
    plane, taps = int(np.prod(size)), window ** len(size)
    k = CHANNELS * taps
    seen = tuple((p, -padding, stride, window, 1, s - 2 * padding) for p, s in zip(positions, size, strict=True))
    product = Product(
        IMAGES, 1, OUTS, int(np.prod(positions)), k, 0, CHANNELS * plane, 0, ((OUTS, k),), ((k, 1),),
        ((CHANNELS, plane), *((window, s) for s in steps)),
        tuple((p, s * stride) for p, s in zip(positions, steps, strict=True)), seen,
    )  # fmt: skip
    inside = tuple(slice(padding, s - padding) for s in size)
    return _Case(product, (slice(None), slice(None), *inside), (IMAGES, CHANNELS, *size))


CASES = {
    "rows": _case((6, 32), 3, 1, 1),
    "planes": _case((3, 4, 16), 3, 1, 1),
    "wide windows": _case((5, 16), 5, 1, 2),
    "every second": _case((4, 16), 3, 2, 1),
    "several rows in a vector": _case((9, 10), 3, 1, 1),
    "gathered": _case((6, 7), 3, 3, 2),
    "one dimension": _case((64,), 9, 1, 4),
}


def _run(case: _Case, memory: np.ndarray, a: np.ndarray, **form: Any) -> np.ndarray:
    target, product, dtype = host_target(), form.pop("product", case.product), form.pop("dtype", float32)
    epilogue = StoreEpilogue(dtype.name)
    spec = replace(windows_spec(dtype, product, "store", target), **form)
    out = np.zeros((product.images, product.m, product.n), dtype.np)
    own = epilogue.args(3, 0, product.m * product.n, product.n)
    words, units, _, _ = windows_launch(spec, product, Operand(1, 0, (0, 0, 0)), Operand(2, 0, (0, 0, 0)), own)
    args = (ctypes.c_int64 * len(words))(*words)
    bufs = (ctypes.c_int64 * 4)(0, *(x.ctypes.data for x in (a, memory, out)))
    load(emit_windows(spec, "kernel", epilogue), target)(ctypes.addressof(bufs), ctypes.addressof(args), 0, units)
    return out


@needs_windows
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("name", CASES)
def test_not_a_bit_changes(name: str, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without regions, in every tile, in one pass over K and in several."""
    case, rng = CASES[name], np.random.default_rng(0)
    a = rng.standard_normal(OUTS * case.product.k).astype(dtype.np)
    memory = np.zeros(case.padded, dtype.np)
    memory[case.image] = rng.standard_normal(memory[case.image].shape)
    plain = _run(case, memory, a, dtype=dtype, product=case.product._replace(seen=()))
    assert np.abs(plain).max() > 1
    for room in (windows.PACK_NBYTES, 1):
        monkeypatch.setattr(windows, "PACK_NBYTES", room)
        for rows, vectors in TILES[32]:
            tile = {"rows": rows, "vectors": vectors, "dtype": dtype}
            got = _run(case, memory, a, a_unit="table", regions=True, **tile)
            assert got.tobytes() == plain.tobytes(), (rows, vectors, room)


@needs_windows
@pytest.mark.parametrize("name", ["rows", "planes", "wide windows", "every second"])
def test_padding_is_not_read(name: str) -> None:
    """What is not a number in the padding, but in that along the lanes, gets into no sum."""
    case, rng = CASES[name], np.random.default_rng(1)
    plain = case.product._replace(seen=())
    memory = np.full(case.padded, np.nan, np.float32)
    memory[*case.image[:-1]] = 0
    memory[case.image] = rng.standard_normal(memory[case.image].shape)
    a = rng.standard_normal(OUTS * case.product.k).astype(np.float32)
    assert np.isfinite(_run(case, memory, a, a_unit="table", regions=True)).all()
    assert not np.isfinite(_run(case, memory, a, a_unit="table", regions=True, product=plain)).all()


@needs_windows
@pytest.mark.parametrize("seed", range(12))
def test_random_series(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions of one dimension, of which most may be padding, with a stride: whatever way panels are copied."""
    monkeypatch.setattr(windows, "_LEAST_GAIN", -1000)
    rng = np.random.default_rng(seed)
    length, window, stride, padding = (int(rng.integers(*ends)) for ends in ((1, 90), (1, 9), (1, 5), (0, 50)))
    x, w = rng.standard_normal((2, 4, length)), rng.standard_normal((3, 4, window))
    padded = np.pad(x, [(0, 0), (0, 0), (padding, padding + window)])
    patches = np.lib.stride_tricks.sliding_window_view(padded, window, 2)[:, :, ::stride]
    count = (length + 2 * padding - window) // stride + 1
    if count < 1:
        return
    expected = np.einsum("nclk,ock->nol", patches[:, :, :count], w)
    got = jitgrad.compile(lambda x, w: F.conv1d(x, w, stride=stride, padding=padding))(*map(jitgrad.from_numpy, (x, w)))
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


@needs_windows
def test_where_regions_pay() -> None:
    """Where a vector lies in two rows, all taps are needed; where there are many rows, few see padding."""

    def uses(case: _Case, images: int = 16) -> bool:
        return windows_spec(float64, case.product._replace(images=images), "store", host_target()).regions

    assert uses(CASES["rows"]) and uses(CASES["planes"]) and uses(CASES["every second"])
    assert not uses(_case((200, 16), 3, 1, 1)) and not uses(CASES["one dimension"])
    assert not uses(_case((6, 32), 3, 1, 0))
    few = _case((3, 8), 3, 1, 1)
    assert uses(few) and not uses(few, images=1), "panels that are not full"


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The specs of the implicit products that are launched from now on."""
    found: list[Any] = []
    launch = link.windows_launch
    monkeypatch.setattr(link, "windows_launch", lambda s, *rest: found.append(s) or launch(s, *rest))
    return found


@needs_windows
@pytest.mark.usefixtures("nothing_is_known")
def test_a_convolution_and_its_gradient_leave_padding_out(launched: list[Any]) -> None:
    """Forward, the input's gradient; not the weight's, whose sum is over positions. A counter counts them."""
    x, w = jitgrad.randn(2, 4, 8, 32, requires_grad=True), jitgrad.randn(5, 4, 3, 3, requires_grad=True)
    g = jitgrad.randn(2, 5, 8, 32)

    @jitgrad.compile
    def step() -> Any:
        y = F.conv2d(x, w, padding=1)
        return y, jitgrad.autograd.grad(y, (x, w), g)

    before = jitgrad.stats()["products_in_regions"]
    step()
    assert [spec.regions for spec in launched].count(True) == 2
    assert jitgrad.stats()["products_in_regions"] - before == 2


@needs_windows
@pytest.mark.usefixtures("nothing_is_known")
@pytest.mark.parametrize("seed", range(4))
def test_images_of_ever_other_heights(seed: int, launched: list[Any]) -> None:
    """One form serves them; regions are those of each. Each program is compared with what planning makes."""
    rng = np.random.default_rng(seed)
    w = jitgrad.randn(3, 2, 3, 3)
    before = jitgrad.stats()["family_programs"]
    with at_once():
        for height in rng.integers(4, 30, 8).tolist():
            x = jitgrad.randn(4, 2, height, 64)
            y = F.conv2d(x, w, padding=1)
            padded = np.pad(x.numpy().astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
            patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
            np.testing.assert_allclose(y.numpy(), np.einsum("nchwij,ocij->nohw", patches, w.numpy()), atol=1e-4)
    assert any(spec.regions for spec in launched)
    assert jitgrad.stats()["family_programs"] > before
