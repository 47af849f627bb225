"""Convolutions whose padding is left out, Note [Regions of a convolution]: which products there are, and their values.

Random geometries are in ``test_implicit_convolutions``, which does them with and without padding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen import link
from jitgrad.codegen.families import families
from jitgrad.codegen.gemm import windows
from jitgrad.codegen.llvm.target import host_target
from jitgrad.nn import functional as F
from jitgrad.ops.windows import convolution_products, regions

pytestmark = pytest.mark.skipif(
    not host_target().has_masks, reason="targets without masked loads copy windows to memory first"
)

COSTS = ("_PRODUCT_COST", "_COPY_COST", "_TURN_COST", "_FEW_IMAGES", "_FEW_CHANNELS", "_GAIN")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions pay whatever they cost."""
    for name in COSTS:
        monkeypatch.setattr(regions, name, 0)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The implicit products that are launched from now on, as they are planned."""
    found: list[Any] = []
    launch = link.windows_launch
    monkeypatch.setattr(link, "windows_launch", lambda s, p, *rest: found.append(p) or launch(s, p, *rest))
    families.forget()  # which plan a product for all extents, and for one of them
    return found


def _terms(products: list[Any]) -> int:
    return sum(p.images * p.groups * p.m * p.n * p.k for p in products)


def _forward(images: int, channels: int, size: tuple[int, ...], **arguments: Any) -> tuple[Any, Any, Any]:
    dims = len(size)
    conv: Callable[..., Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[dims]
    x, w = jitgrad.randn(images, channels, *size), jitgrad.randn(channels, channels, *[3] * dims)
    return x, w, jitgrad.compile(lambda x, w: conv(x, w, **arguments))


@pytest.mark.parametrize(
    ("size", "count", "seen"), [((4, 4), 9, 100), ((8, 8), 9, 484), ((2, 2), 4, 16), ((1, 1), 1, 1)]
)
def test_padding_is_not_multiplied(size: tuple[int, int], count: int, seen: int, products: list[Any]) -> None:
    """Each position sees some of the window's taps; together they see so many elements of an image."""
    x, w, conv = _forward(16, 128, size, padding=1)
    conv(x, w)
    assert len(products) == count
    assert _terms(products) == 16 * 128 * 128 * seen


@pytest.mark.parametrize(
    ("images", "channels", "size"), [(16, 64, (32, 32)), (7, 256, (8, 8)), (16, 4, (4, 4)), (16, 16, (600,))]
)
def test_where_it_does_not_pay_images_are_padded(
    images: int, channels: int, size: tuple[int, ...], products: list[Any]
) -> None:
    x, w, conv = _forward(images, channels, size, padding=1)
    conv(x, w)
    assert len(products) == 1
    assert products[0].images == images


def test_seven_rows_of_seven_fill_vectors(products: list[Any]) -> None:
    """Without any padding: 49 columns of one image leave lanes of its vectors empty, 16 images leave none."""
    x, w, conv = _forward(16, 256, (9, 9))
    conv(x, w)
    assert [(p.images, p.n) for p in products] == [(1, 49 * 16)]


@pytest.mark.parametrize("dtype", [jitgrad.float32, jitgrad.float64])
@pytest.mark.parametrize("geometry", [
    {"padding": 1}, {"padding": 2, "dilation": 2}, {"padding": 1, "stride": 2}, {"padding": 1, "groups": 4},
])  # fmt: skip
def test_bits_are_those_of_padded_images(
    geometry: dict[str, int], dtype: Any, monkeypatch: pytest.MonkeyPatch, products: list[Any]
) -> None:
    """Terms that are left out are zeros, and the others are added in the same order."""
    jitgrad.manual_seed(0)
    x, w = jitgrad.randn(17, 8, 6, 5, dtype=dtype), jitgrad.randn(12, 8 // geometry.get("groups", 1), 3, 3, dtype=dtype)
    g = jitgrad.randn(*F.conv2d(x, w, **geometry).shape, dtype=dtype)

    def step() -> list[bytes]:
        def both(x: Any, w: Any) -> tuple[Any, Any]:
            y = F.conv2d(x, w, **geometry)
            return y, jitgrad.autograd.grad(y, x, g)[0]

        return [v.detach().numpy().tobytes() for v in jitgrad.compile(both)(x.clone().requires_grad_(), w)]

    padded, count = step(), len(products)
    for name in COSTS:
        monkeypatch.setattr(regions, name, 0)
    families.forget()
    assert step() == padded
    assert len(products) - count > count, "regions are products of their own"


def test_a_tap_has_a_product_of_its_own_for_the_weight(products: list[Any]) -> None:
    """Where a batch is large, the gradient of a weight is turned round once for all of it."""
    x, w = jitgrad.randn(128, 64, 6, 6), jitgrad.randn(64, 64, 3, 3, requires_grad=True)
    g = jitgrad.randn(128, 64, 6, 6)
    step = jitgrad.compile(lambda: jitgrad.autograd.grad(F.conv2d(x, w, padding=1), w, g)[0])
    got = step()
    seen = np.lib.stride_tricks.sliding_window_view(np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
    taps = [p.k for p in products if (p.m, p.n) == (64, 64)]
    assert sorted(taps) == [128 * 25] * 4 + [128 * 30] * 4 + [128 * 36]
    expected = np.tensordot(g.numpy(), seen, ((0, 2, 3), (0, 2, 3)))
    np.testing.assert_allclose(got.numpy(), expected, atol=2e-3)


def test_few_images_pad_for_the_weight(products: list[Any]) -> None:
    """There is less to save than what turning the gradient round costs."""
    x, w, g = jitgrad.randn(16, 64, 6, 6), jitgrad.randn(64, 64, 3, 3, requires_grad=True), jitgrad.randn(16, 64, 6, 6)
    jitgrad.compile(lambda: jitgrad.autograd.grad(F.conv2d(x, w, padding=1), w, g)[0])()
    assert [(p.m, p.n, p.k) for p in products] == [(64 * 9, 64, 16 * 36)]


@pytest.mark.parametrize("batch", [True, False], ids=["batches", "sizes"])
@pytest.mark.parametrize("mode", ["compiled", "eager"])
def test_ever_new_extents(batch: bool, mode: str, always: None) -> None:
    """Regions of symbolic extents: the same ones, the longest of them as long as the others leave it."""
    rng = np.random.default_rng(0)

    def step(x: Any, w: Any, g: Any) -> tuple[Any, ...]:
        y = F.conv2d(x, w, padding=1)
        return (y, *jitgrad.autograd.grad(y, (x, w), g))

    call, before = (jitgrad.compile(step) if mode == "compiled" else step), jitgrad.stats()
    weight = rng.standard_normal((4, 3, 3, 3))
    for turn in range(12):
        n, size = (8 + turn, (5, 6)) if batch else (16, (3 + turn, 15 - turn))
        x, g = rng.standard_normal((n, 3, *size)), rng.standard_normal((n, 4, *size))
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        leaves = [jitgrad.tensor(v, dtype=jitgrad.float32).requires_grad_() for v in (x, weight)]
        y, gx, gw = call(*leaves, jitgrad.tensor(g, dtype=jitgrad.float32))
        np.testing.assert_allclose(y.detach().numpy(), np.einsum("nchwij,ocij->nohw", seen, weight), atol=1e-4)
        np.testing.assert_allclose(gw.numpy(), np.einsum("nchwij,nohw->ocij", seen, g), atol=1e-3)
        turned = np.lib.stride_tricks.sliding_window_view(
            np.pad(g, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)
        )  # fmt: skip
        np.testing.assert_allclose(
            gx.numpy(), np.einsum("nohwij,ocij->nchw", turned, weight[..., ::-1, ::-1]), atol=1e-4
        )
    after = jitgrad.stats()
    made = after["family_programs" if mode == "compiled" else "families"]
    assert made > before["family_programs" if mode == "compiled" else "families"]


def test_channels_in_few_sets_of_the_cache_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 16 images of 8x8 inside, each channel is 4096 bytes: lines of all of them would share nine sets."""
    specs, launch = [], link.windows_launch
    monkeypatch.setattr(link, "windows_launch", lambda s, p, *rest: specs.append((s, p)) or launch(s, p, *rest))
    families.forget()
    x, w, conv = _forward(16, 128, (8, 8), padding=1)
    conv(x, w)
    assert {spec.copy for spec, _ in specs} == {True}
    specs.clear()
    x, w, conv = _forward(1, 64, (32, 32), padding=1)
    conv(x, w)
    [(spec, product)] = specs
    assert windows._may_stay(product, spec), "rows of 34 elements lie in all sets"


def test_eager_and_compiled_and_any_number_of_threads_agree() -> None:
    jitgrad.manual_seed(0)
    x, w = jitgrad.randn(16, 96, 8, 8), jitgrad.randn(80, 96, 3, 3)
    found, threads = [], jitgrad.get_num_threads()
    try:
        for count in (1, 2, 3):
            jitgrad.set_num_threads(count)
            conv = jitgrad.compile(lambda: F.conv2d(x, w, padding=1))
            found += [v.numpy().tobytes() for v in (F.conv2d(x, w, padding=1), *(conv() for _ in range(3)))]
    finally:
        jitgrad.set_num_threads(threads)
    assert len(set(found)) == 1


def test_products_of_one_convolution_are_bounded(always: None, products: list[Any]) -> None:
    """A wide window over a small image has a region for each position."""
    x, w = jitgrad.randn(16, 4, 8, 8), jitgrad.randn(4, 4, 7, 7)
    jitgrad.compile(lambda: F.conv2d(x, w, padding=3))()
    assert len(products) == 1
    assert convolution_products.regions_pay is regions.regions_pay
