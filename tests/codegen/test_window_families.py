"""Convolutions of ever new extents: implicit products whose tables depend on these (Note [Windows]).

Tests run with ``config.verify``: each program that a family gives is compared with what planning makes.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.codegen.gemm import tuning
from jitgrad.config import config
from jitgrad.nn import functional as F
from jitgrad.runtime.eager.new_shapes import at_once

pytestmark = pytest.mark.usefixtures("nothing_is_known")


@pytest.fixture(params=["by the model", "measured"])
def chosen(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """How tiles are chosen. Those that are measured are run while the product is planned, for all extents, too."""
    if request.param == "measured":
        monkeypatch.setattr(config, "cache_dir", str(tmp_path))
        monkeypatch.setattr(config, "tune", 2)
        for name, empty in (("_times", {}), ("_tries", {}), ("_spent_ns", 0.0)):
            monkeypatch.setattr(tuning, name, empty)
    return str(request.param)


def _by_windows(x: Any, w: Any, stride: int, padding: int) -> Any:
    """A convolution in float64, from the windows of the padded image."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64), optimize=True)


@pytest.mark.parametrize("seed", range(6))
def test_random_extents(seed: int, chosen: str) -> None:
    """Forward and both derivatives, of images that differ in number, height, width, or all of these."""
    rng = np.random.default_rng(seed)
    channels, kernels = (4 * rng.integers(1, 5, 2)).tolist()
    size, stride, padding = int(rng.choice([1, 3, 5])), int(rng.choice([1, 1, 2])), int(rng.choice([0, 1, 2]))
    moving = [(True, True, True), (True, False, False), (False, True, True), (False, False, True)][seed % 4]
    weight = rng.standard_normal((kernels, channels, size, size)).astype(np.float32)
    for _ in range(7):
        new = (int(rng.integers(2, 6)), *rng.integers(30, 90, 2).tolist())
        n, h, w = [x if moves else known for x, known, moves in zip(new, (3, 48, 48), moving, strict=True)]
        image = rng.standard_normal((n, channels, h, w)).astype(np.float32)
        x, k = jg.from_numpy(image).requires_grad_(), jg.from_numpy(weight).requires_grad_()
        with at_once():
            y = F.conv2d(x, k, stride=stride, padding=padding)
            direction = rng.standard_normal(y.shape).astype(np.float32)
            y.backward(jg.from_numpy(direction))
        np.testing.assert_allclose(y.detach().numpy(), _by_windows(image, weight, stride, padding), atol=1e-3)
        scale = float(np.abs(direction).sum())
        for leaf, array in ((x, image), (k, weight)):  # the convolution is linear in each
            bump = rng.standard_normal(array.shape)
            images = (bump, weight) if array is image else (image, bump)
            expected = float((_by_windows(*images, stride, padding) * direction).sum())
            assert abs(float((leaf.grad.numpy() * bump).sum()) - expected) < 1e-5 * scale


def test_windows_are_planned_once_for_all_extents() -> None:
    """Their tables are made for each, and last as long as the program that has them."""
    weight, before = jg.ones(4, 3, 3, 3), jg.stats()
    with at_once():
        for n in (70, 66, 81, 75, 90, 68, 77, 85, 93, 71, 91):  # rows of 75 + 5 are whole vectors
            y = F.conv2d(jg.ones(2, 3, n, n + 7), weight)
            gc.collect()
            assert y.shape == (2, 4, n - 2, n + 5) and bool((y == 27).all())
        for n in (22, 26, 24, 28, 12, 21, 13, 11, 27):  # a vector lies in two rows, or in three
            assert bool((F.conv2d(jg.ones(2, 3, 64, n), weight) == 27).all())
    after = jg.stats()
    assert after["implicit_products"] > before["implicit_products"]
    assert after["family_programs"] - before["family_programs"] >= 4


def test_channels_that_share_sets_of_the_cache_do_so_for_some_extents() -> None:
    """Channels of whole pages are copied, others may be read in place: both are planned as a family says."""
    kernel = jg.randn(16, 48, 1, 1)
    with at_once():
        for height in (17, 15, 33, 16, 13, 32, 48, 19, 64):
            x = jg.randn(2, 48, height, 64)
            wanted = np.einsum("nchw,oc->nohw", x.numpy().astype(np.float64), kernel.numpy()[:, :, 0, 0])
            np.testing.assert_allclose(F.conv2d(x, kernel).numpy(), wanted, atol=1e-3)
