"""Convolutions as implicit products: no columns in memory, the same values as PyTorch's definition, any thread count.

Random extents, windows, strides, paddings, dilations and groups, empty and one-element extents among them, are compared
with a sum over the window's positions in float64.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen import link
from jitgrad.codegen.gemm import windows
from jitgrad.codegen.llvm.target import host_target
from jitgrad.nn import functional as F
from jitgrad.ops.windows import convolution_products, regions

windows_only = pytest.mark.skipif(
    not host_target().has_masks, reason="targets without masked loads copy windows to memory first"
)


def _draw(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """(input's shape, weight's shape, arguments) of a convolution that exists."""
    while True:
        groups = int(rng.choice([1, 1, 2, 3]))
        per_group, outs = int(rng.choice([1, 2, 3, 9])), int(rng.choice([1, 2, 7, 20]))
        kernel, stride, padding, dilation = (
            tuple(int(v) for v in rng.integers(low, high, 2)) for low, high in ((1, 5), (1, 4), (0, 4), (1, 4))
        )
        size = int(rng.choice([1, 2, 5, 16, 33])), int(rng.choice([1, 3, 4, 8, 14, 17, 40]))
        room = [s + 2 * p - d * (k - 1) for s, p, d, k in zip(size, padding, dilation, kernel, strict=True)]
        if min(room) > 0:
            arguments = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
            batch = int(rng.choice([0, 1, 2, 5]))
            return (batch, groups * per_group, *size), (groups * outs, per_group, *kernel), arguments


def _expected(x: np.ndarray, w: np.ndarray, g: np.ndarray, arguments: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """The convolution, and its gradients where ``g`` is the result's: one position of the window after the other."""
    (s, p, d), groups = (arguments[name] for name in ("stride", "padding", "dilation")), arguments["groups"]
    n, c, *_ = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (p[0], p[0]), (p[1], p[1]))).reshape(
        n, groups, c // groups, x.shape[2] + 2 * p[0], x.shape[3] + 2 * p[1]
    )
    weight = w.reshape(groups, len(w) // groups, *w.shape[1:])
    up = g.reshape(n, groups, len(w) // groups, *g.shape[2:])
    y, gx, gw = np.zeros(up.shape), np.zeros(padded.shape), np.zeros(weight.shape)
    for i, j in itertools.product(range(w.shape[2]), range(w.shape[3])):
        at = tuple(
            slice(k * e, k * e + (m - 1) * t + 1, t) for k, e, m, t in zip((i, j), d, g.shape[2:], s, strict=True)
        )
        seen = padded[..., at[0], at[1]]
        y += np.einsum("ngchw,goc->ngohw", seen, weight[..., i, j])
        gx[..., at[0], at[1]] += np.einsum("ngohw,goc->ngchw", up, weight[..., i, j])
        gw[..., i, j] = np.einsum("ngohw,ngchw->goc", up, seen)
    gx = gx[..., p[0] : p[0] + x.shape[2], p[1] : p[1] + x.shape[3]]
    return y.reshape(g.shape), gx.reshape(x.shape), gw.reshape(w.shape)


def _step(x: Any, w: Any, g: Any, arguments: dict[str, Any]) -> tuple[Any, ...]:
    y = F.conv2d(x, w, **arguments)
    return (y, *jitgrad.autograd.grad(y, (x, w), g))


@pytest.mark.parametrize("way", ["patches on top", "outputs on top", "regions", "regions of vectors"])
@pytest.mark.parametrize("seed", range(20))
def test_random_geometries(seed: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``way``: what the rows of the weight's gradient are; or padding is left out, Note [Regions of a convolution],
    Note [Regions of a product]."""
    monkeypatch.setattr(convolution_products, "_MANY_OUTS", 1 if way == "outputs on top" else 256)
    if way == "regions":
        for cost in ("_PRODUCT_COST", "_COPY_COST", "_TURN_COST", "_FEW_IMAGES", "_FEW_CHANNELS", "_GAIN"):
            monkeypatch.setattr(regions, cost, 0)
    monkeypatch.setattr(windows, "_LEAST_GAIN", -1000 if way == "regions of vectors" else 15)
    rng = np.random.default_rng(seed)
    x_shape, w_shape, arguments = _draw(rng)
    dtype = [np.float32, np.float64][seed % 3 == 0]
    x, w = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    y_shape = F.conv2d(jitgrad.zeros(x_shape), jitgrad.zeros(w_shape), **arguments).shape
    g = rng.standard_normal(y_shape)
    expected = _expected(*(v.astype(dtype).astype(np.float64) for v in (x, w, g)), arguments)
    leaves = [jitgrad.tensor(v.astype(dtype)).requires_grad_() for v in (x, w)]
    up, step = jitgrad.tensor(g.astype(dtype)), jitgrad.compile(_step)
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    for _ in range(2):
        for got, want in zip(step(*leaves, up, arguments), expected, strict=True):
            assert got.shape == want.shape
            scale = max(1.0, np.abs(want).max(initial=0.0))
            np.testing.assert_allclose(got.detach().numpy() / scale, want / scale, atol=tolerance, rtol=tolerance)


@windows_only
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_nothing_is_unfolded(dims: int) -> None:
    """Three products, each implicit; what lies in memory besides is smaller than the columns would be."""
    conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[dims]
    x = jitgrad.randn(2, 4, *[8] * dims, requires_grad=True)
    w, g = jitgrad.randn(5, 4, *[3] * dims, requires_grad=True), jitgrad.randn(2, 5, *[8] * dims)

    @jitgrad.compile
    def step() -> Any:
        y = conv(x, w, padding=1)
        return y, jitgrad.autograd.grad(y, (x, w), g)

    before = jitgrad.stats()
    step()
    after = jitgrad.stats()
    assert after["implicit_products"] - before["implicit_products"] == 3
    assert after["fallbacks"] == before["fallbacks"]


@windows_only
def test_a_window_of_one_copies_nothing() -> None:
    """1x1: the product reads the input where it is, and the convolution is one launch."""
    x, w = jitgrad.randn(3, 8, 6, 6), jitgrad.randn(16, 8, 1, 1)
    conv = jitgrad.compile(lambda: F.conv2d(x, w))
    for _ in range(2):
        conv()
    before = jitgrad.stats()["launches"]
    conv()
    assert jitgrad.stats()["launches"] - before == 1


@windows_only
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 2), (3, 3)])
def test_factors_of_a_stride_s_phases_run_along_k(kernel: int, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase that sees some of the taps reads a copy of them: its rows are contiguous."""
    products, launch = [], link.windows_launch
    monkeypatch.setattr(link, "windows_launch", lambda s, p, *rest: products.append(p) or launch(s, p, *rest))
    x, w = jitgrad.randn(2, 3, 25, 25, requires_grad=True), jitgrad.randn(5, 3, kernel, kernel)
    step = jitgrad.compile(lambda: jitgrad.autograd.grad(F.conv2d(x, w, stride=stride).sum(), x))
    step()
    phases = [p for p in products if p.m == 3]
    assert len(phases) == stride**2
    assert all(p.a_k in ((), ((p.k, 1),)) and p.a_m == ((3, p.k),) for p in phases)


def test_bits_do_not_depend_on_threads() -> None:
    """Each element is one chain over k, whatever the units are."""
    jitgrad.manual_seed(0)
    x, w = jitgrad.randn(5, 24, 18, 18, requires_grad=True), jitgrad.randn(40, 24, 3, 3, requires_grad=True)
    g = jitgrad.randn(5, 40, 18, 18)
    arguments = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    found, step = [], jitgrad.compile(_step)
    step(x, w, g, arguments)
    threads = jitgrad.get_num_threads()
    try:
        for count in (1, 2, 3):
            jitgrad.set_num_threads(count)
            found.append([v.detach().numpy().tobytes() for v in step(x, w, g, arguments)])
    finally:
        jitgrad.set_num_threads(threads)
    assert found[0] == found[1] == found[2]


def test_an_image_alone_has_the_bits_that_it_has_in_a_batch() -> None:
    """A panel may hold columns of several images; an element's sum does not notice."""
    x, w = jitgrad.randn(7, 12, 5, 5), jitgrad.randn(9, 12, 3, 3)
    conv = jitgrad.compile(lambda x: F.conv2d(x, w, padding=1))
    whole = conv(x).numpy()
    for i in range(7):
        assert conv(x[i : i + 1].clone()).numpy().tobytes() == whole[i : i + 1].tobytes()
