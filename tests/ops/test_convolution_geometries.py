"""Convolutions of random geometry: kernels against NumPy's rules, for the product and both derivatives.

Depthwise ones have no columns, strided gradients are put together by phases; so random extents, strides, paddings and
dilations are compared, those with windows that see nothing but padding included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.nn import functional as F


def _geometry(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """(input's shape, weight's shape, arguments) of a convolution that exists."""
    while True:
        groups = int(rng.choice([1, 2, 3, 5]))
        channels = groups * int(rng.choice([1, 1, 2]))
        kernel, stride, padding, dilation = (
            tuple(int(v) for v in rng.integers(low, high, 2)) for low, high in ((1, 5), (1, 4), (0, 4), (1, 3))
        )
        size = tuple(int(v) for v in rng.integers(1, 12, 2))
        room = [s + 2 * p - d * (k - 1) for s, p, d, k in zip(size, padding, dilation, kernel, strict=True)]
        if min(room) > 0:
            weight = (groups * int(rng.integers(1, 3)), channels // groups, *kernel)
            arguments = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
            return (int(rng.integers(1, 3)), channels, *size), weight, arguments


def _results(x0: Any, w0: Any, arguments: dict[str, Any]) -> tuple[Any, ...]:
    x, w = x0.clone().requires_grad_(), w0.clone().requires_grad_()
    y = F.conv2d(x, w, **arguments)
    gx, gw = jitgrad.autograd.grad((y * y).sum(), (x, w), create_graph=True)
    ggx, ggw = jitgrad.autograd.grad((gx * gx).sum() + (gw * gw).sum(), (x, w))
    return y.detach(), gx.detach(), gw.detach(), ggx, ggw


@pytest.mark.parametrize("seed", range(24))
def test_kernels_agree_with_numpy(seed: int) -> None:
    x_shape, w_shape, arguments = _geometry(np.random.default_rng(seed))
    jitgrad.manual_seed(seed)
    x, w = (jitgrad.randn(*shape, dtype=jitgrad.float64) for shape in (x_shape, w_shape))
    expected = _results(x, w, arguments)
    step = jitgrad.compile(_results)
    before = jitgrad.stats()["launches"]
    for _ in range(2):
        for got, want in zip(step(x, w, arguments), expected, strict=True):
            assert got.shape == want.shape
            text = str((x_shape, w_shape, arguments))
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-9, err_msg=text)
    assert jitgrad.stats()["launches"] > before


def test_a_depthwise_convolution_is_one_kernel() -> None:
    """Nothing is unfolded first: the padding, the products and what follows are one launch."""
    x, w = jitgrad.randn(2, 8, 16, 16), jitgrad.randn(8, 1, 3, 3)
    step = jitgrad.compile(lambda: F.conv2d(x, w, padding=1, groups=8).relu() * 2)
    for _ in range(2):
        step()
    before = jitgrad.stats()["launches"]
    step()
    assert jitgrad.stats()["launches"] == before + 1
