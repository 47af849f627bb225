"""Windows over one image are moved once per unit, their masks share bounds, and zeros around it come with the load."""

from __future__ import annotations

import re

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.nn import functional as F


def padded(x: np.ndarray, value: float) -> np.ndarray:
    return np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=value)


def windows(x: np.ndarray, value: float) -> list[np.ndarray]:
    """The nine neighbours of each pixel."""
    wide, (h, w) = padded(x, value), x.shape[2:]
    return [wide[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)]


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (2, 3, 9, 32), (1, 2, 40, 17), (3, 2, 1, 16), (2, 2, 33, 1)])
def test_sums_over_padded_windows(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal(shape).astype(np.float32), rng.standard_normal((shape[1], 1, 3, 3)).astype("f4")
    got = F.conv2d(jg.from_numpy(x), jg.from_numpy(weight), padding=1, groups=shape[1]).numpy()
    wanted = sum(tap * w[:, None, None] for tap, w in zip(windows(x, 0.0), weight.reshape(-1, 9).T, strict=True))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "shape,value", [((2, 3, 5, 7), 0.0), ((2, 3, 9, 32), 0.0), ((2, 2, 4, 33), 2.5), ((1, 2, 5, 34), -np.inf)]
)  # fmt: skip
def test_what_stands_outside_of_the_image(shape: tuple[int, ...], value: float) -> None:
    """Any number: only zeros are there without being asked for."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    got = F.pad(jg.from_numpy(x), (1, 1, 1, 1), value=value).numpy()
    np.testing.assert_array_equal(got, padded(x, np.float32(value)))
    wanted = np.maximum.reduce(windows(x, -np.inf))
    np.testing.assert_array_equal(F.max_pool2d(jg.from_numpy(x), 3, 1, 1).numpy(), wanted)


def test_conditions_on_other_values_are_not_padding() -> None:
    """A load under one mask, and zeros outside of another one."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4, 40)).astype(np.float32)
    inner = F.pad(jg.from_numpy(x), (1, 1, 1, 1), value=3.0)
    got = F.pad(inner[:, 1:-1], (2, 2, 0, 1)).numpy()
    wide = np.pad(x, 1, constant_values=3.0)[:, 1:-1]
    np.testing.assert_array_equal(got, np.pad(wide, [(0, 1), (2, 2)]))


def test_strided_windows_of_one_image_differ_in_their_strides() -> None:
    x = np.random.default_rng(3).standard_normal((3, 24, 40)).astype(np.float32)
    t = jg.from_numpy(x)

    def step(t: jg.Tensor) -> jg.Tensor:
        return t[:, :12, :20] + t[:, ::2, 1::2] * 2 + t[:, 12:, 20:] * 3 + t[:, 1::2, ::2] * 4

    wanted = x[:, :12, :20] + x[:, ::2, 1::2] * 2 + x[:, 12:, 20:] * 3 + x[:, 1::2, ::2] * 4
    compiled = jg.compile(step)
    for _ in range(3):
        np.testing.assert_allclose(compiled(t).numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_nine_windows_are_moved_as_three(texts: list[str]) -> None:
    """What indices move an image by does not depend on the number of windows over it; zeros come with the loads."""

    def multiplications(window: tuple[int, int], padding: tuple[int, int]) -> int:
        def step(x: jg.Tensor, w: jg.Tensor) -> jg.Tensor:
            return F.conv2d(x, w, padding=padding, groups=6)

        texts.clear()
        jg.compile(step)(jg.randn(4, 6, 11, 33), jg.randn(6, 1, *window)).tolist()
        (text,) = [text for text in texts if "masked.load" in text or "select i1" in text]
        unit = text[text.index("unit") :]
        assert not re.findall(r"select <\d+ x i1>", unit)
        return len(re.findall(r"= mul i64 %[pi]", unit))

    assert multiplications((3, 3), (1, 1)) == multiplications((3, 1), (1, 0)) > 0


@pytest.mark.parametrize("shape,loops", [((4, 8, 6, 10), True), ((4, 8, 6, 65), False), ((2, 3, 6, 10), False)])
def test_a_unit_is_several_short_rows(texts: list[str], shape: tuple[int, ...], loops: bool) -> None:
    """Not where rows are long, and not where there would be too few units for all cores."""
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    compiled = jg.compile(lambda t: F.pad(t, (1, 2, 2, 1), value=float(shape[-1])) * 2)
    got = compiled(jg.from_numpy(x)).numpy()
    wide = np.pad(x, [(0, 0), (0, 0), (2, 1), (1, 2)], constant_values=shape[-1])
    np.testing.assert_array_equal(got, wide * 2)
    (text,) = [text for text in texts if "mask" in text]
    assert ("seq" in text) == loops
