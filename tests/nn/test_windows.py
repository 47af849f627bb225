"""Pools and convolutions in one to three dimensions, with every option, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nn.compare import Case, assert_same, assert_same_error, assert_same_face

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

ONE, TWO, THREE = (2, 4, 7), (2, 4, 5, 6), (1, 4, 4, 3, 5)


def _unpool(xp: Any) -> Any:
    pool = xp.nn.MaxPool2d(2, return_indices=True)
    unpool = xp.nn.MaxUnpool2d(2)
    return lambda x: unpool(*pool(x), output_size=x.shape)


def _unpool_1d(xp: Any) -> Any:
    def call(x: Any) -> Any:
        values, at = xp.nn.functional.max_pool1d(x, 2, 2, return_indices=True)
        return xp.nn.functional.max_unpool1d(values, at, 2)

    return call


CASES: dict[str, Case] = {
    "max-1d": (lambda xp: xp.nn.MaxPool1d(2), [ONE]),
    "max-1d-all": (lambda xp: xp.nn.MaxPool1d(3, 2, 1, 2, True, True), [ONE]),
    "max-1d-unbatched": (lambda xp: xp.nn.MaxPool1d(3, 1, 1), [(4, 7)]),
    "max-2d-indices": (lambda xp: xp.nn.MaxPool2d(2, return_indices=True), [TWO]),
    "max-2d-dilation": (lambda xp: xp.nn.MaxPool2d((2, 3), (2, 1), 1, (2, 1), True), [TWO]),
    "max-2d-ceil": (lambda xp: xp.nn.MaxPool2d(3, 2, 1, ceil_mode=True), [(4, 5, 6)]),
    "max-3d": (lambda xp: xp.nn.MaxPool3d(2, 1, return_indices=True), [THREE]),
    "max-3d-all": (lambda xp: xp.nn.MaxPool3d(2, 2, 1, ceil_mode=True), [THREE]),
    "avg-1d": (lambda xp: xp.nn.AvgPool1d(3, 2, 1), [ONE]),
    "avg-1d-all": (lambda xp: xp.nn.AvgPool1d(3, 2, 1, True, False), [ONE]),
    "avg-2d-all": (lambda xp: xp.nn.AvgPool2d((2, 3), 2, 1, True, False), [TWO]),
    "avg-2d-ceil": (lambda xp: xp.nn.AvgPool2d(2, 3, 1, ceil_mode=True), [(4, 5, 6)]),
    "avg-2d-divisor": (lambda xp: xp.nn.AvgPool2d(2, divisor_override=3), [TWO]),
    "avg-3d": (lambda xp: xp.nn.AvgPool3d(2, 1, 1), [THREE]),
    "avg-3d-all": (lambda xp: xp.nn.AvgPool3d((2, 3, 2), 2, 1, True, False), [(4, 4, 3, 5)]),
    "adaptive-avg-1d": (lambda xp: xp.nn.AdaptiveAvgPool1d(3), [ONE]),
    "adaptive-avg-2d": (lambda xp: xp.nn.AdaptiveAvgPool2d((2, None)), [TWO]),
    "adaptive-avg-2d-more": (lambda xp: xp.nn.AdaptiveAvgPool2d(7), [(4, 5, 6)]),
    "adaptive-avg-3d": (lambda xp: xp.nn.AdaptiveAvgPool3d((2, 1, 3)), [THREE]),
    "adaptive-max-1d": (lambda xp: xp.nn.AdaptiveMaxPool1d(3, True), [ONE]),
    "adaptive-max-2d": (lambda xp: xp.nn.AdaptiveMaxPool2d((2, 4), True), [TWO]),
    "adaptive-max-3d": (lambda xp: xp.nn.AdaptiveMaxPool3d(2), [(4, 4, 3, 5)]),
    "lp-1d": (lambda xp: xp.nn.LPPool1d(2, 3), [ONE]),
    "lp-2d": (lambda xp: xp.nn.LPPool2d(4, (2, 3), 1), [TWO]),
    "lp-2d-infinity": (lambda xp: lambda x: xp.nn.functional.lp_pool2d(x, float("inf"), 2), [TWO]),
    "lp-3d": (lambda xp: xp.nn.LPPool3d(2, 2, ceil_mode=True), [THREE]),
    "unpool": (_unpool, [TWO]),
    "unpool-1d": (_unpool_1d, [ONE]),
    "conv-1d": (lambda xp: xp.nn.Conv1d(4, 6, 3), [ONE]),
    "conv-1d-all": (lambda xp: xp.nn.Conv1d(4, 6, 3, 2, 2, 2, 2, False), [ONE]),
    "conv-1d-unbatched": (lambda xp: xp.nn.Conv1d(4, 3, 2), [(4, 7)]),
    "conv-1d-same": (lambda xp: xp.nn.Conv1d(4, 3, 4, padding="same"), [ONE]),
    "conv-1d-circular": (lambda xp: xp.nn.Conv1d(4, 3, 3, padding=1, padding_mode="circular"), [ONE]),
    "conv-2d-reflect": (lambda xp: xp.nn.Conv2d(4, 3, 3, 2, (1, 2), padding_mode="reflect"), [TWO]),
    "conv-2d-same": (lambda xp: xp.nn.Conv2d(4, 3, (2, 4), padding="same"), [TWO]),
    "conv-2d-same-mode": (lambda xp: xp.nn.Conv2d(4, 3, 2, padding="same", padding_mode="replicate"), [TWO]),
    "conv-3d": (lambda xp: xp.nn.Conv3d(4, 2, 2), [THREE]),
    "conv-3d-all": (lambda xp: xp.nn.Conv3d(4, 6, (2, 1, 3), (2, 1, 2), (1, 0, 2), (2, 1, 1), 2), [THREE]),
    "conv-3d-same": (lambda xp: xp.nn.Conv3d(4, 2, (2, 3, 1), padding="same", bias=False), [(4, 4, 3, 5)]),
    "transposed-1d": (lambda xp: xp.nn.ConvTranspose1d(4, 3, 3, 2, 1, 1), [ONE]),
    "transposed-1d-unbatched": (lambda xp: xp.nn.ConvTranspose1d(4, 3, 3), [(4, 7)]),
    "transposed-2d": (lambda xp: xp.nn.ConvTranspose2d(4, 6, (2, 3), 2, 1, groups=2), [TWO]),
    "transposed-2d-dilation": (
        lambda xp: xp.nn.ConvTranspose2d(4, 2, 2, 1, 1, (1, 0), dilation=2, bias=False),
        [(4, 5, 6)],
    ),
    "transposed-2d-size": (
        lambda xp: lambda x: xp.nn.functional.conv_transpose2d(x, x.detach()[0, :, None] * 0.5, stride=3),
        [TWO],
    ),
    "transposed-3d": (
        lambda xp: xp.nn.ConvTranspose3d(4, 4, (2, 1, 3), (2, 1, 2), (1, 0, 1), (1, 0, 1), groups=2),
        [THREE],
    ),
}


@pytest.mark.filterwarnings("ignore:Using padding=")
@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives(case: str, mode: Any, rng: np.random.Generator) -> None:
    assert_same(torch, CASES[case], mode, rng)


FACES: dict[str, Any] = {
    **{name: make for name, (make, _) in CASES.items() if hasattr(make(torch), "extra_repr")},
    "unpool-2d": lambda xp: xp.nn.MaxUnpool2d(2, 1),
    "unpool-3d": lambda xp: xp.nn.MaxUnpool3d((1, 2, 3)),
}


@pytest.mark.parametrize("case", FACES)
def test_face(case: str) -> None:
    assert_same_face(torch, FACES[case])


def test_transposed_of_a_size(rng: np.random.Generator) -> None:
    for xp in (torch, __import__("jitgrad")):
        layer = xp.nn.ConvTranspose2d(2, 3, 3, 2, 1)
        assert tuple(layer(xp.ones(1, 2, 4, 5), output_size=(8, 9)).shape) == (1, 3, 8, 9)
        with pytest.raises(ValueError, match="requested an output size of"):
            layer(xp.ones(1, 2, 4, 5), output_size=(9, 9))


ERRORS: dict[str, Any] = {
    "max-rank": lambda xp: xp.nn.functional.max_pool3d(xp.ones(2, 3, 4), 2),
    "max-padding": lambda xp: xp.nn.functional.max_pool1d(xp.ones(2, 3, 4), 2, 1, 2),
    "max-small": lambda xp: xp.nn.functional.max_pool2d(xp.ones(1, 2, 3, 3), 2, dilation=3),
    "avg-divisor": lambda xp: xp.nn.functional.avg_pool2d(xp.ones(1, 2, 3, 3), 2, divisor_override=0),
    "avg-stride": lambda xp: xp.nn.functional.avg_pool3d(xp.ones(1, 2, 3, 3, 3), 2, 0),
    "adaptive-rank": lambda xp: xp.nn.functional.adaptive_avg_pool2d(xp.ones(2, 3), 2),
    "unpool-shape": lambda xp: xp.nn.functional.max_unpool1d(xp.ones(1, 2, 3), xp.zeros(1, 2, 2, dtype=xp.int64), 2),
    "unpool-size": lambda xp: xp.nn.functional.max_unpool1d(
        xp.ones(1, 2, 3), xp.zeros(1, 2, 3, dtype=xp.int64), 2, output_size=(9,)
    ),
    "conv-rank": lambda xp: xp.nn.functional.conv1d(xp.ones(3), xp.ones(1, 1, 2)),
    "conv-channels": lambda xp: xp.nn.functional.conv1d(xp.ones(1, 3, 4), xp.ones(1, 1, 2)),
    "conv-small": lambda xp: xp.nn.functional.conv3d(xp.ones(1, 1, 2, 2, 2), xp.ones(1, 1, 3, 1, 1)),
    "conv-same": lambda xp: xp.nn.functional.conv1d(xp.ones(1, 1, 4), xp.ones(1, 1, 2), None, 2, "same"),
    "conv-mode": lambda xp: xp.nn.Conv1d(1, 1, 2, padding_mode="other"),
    "conv-padding": lambda xp: xp.nn.Conv1d(1, 1, 2, padding="other"),
    "conv-groups": lambda xp: xp.nn.Conv3d(3, 2, 2, groups=2),
    "transposed-channels": lambda xp: xp.nn.functional.conv_transpose1d(xp.ones(1, 3, 4), xp.ones(1, 1, 2)),
    "transposed-padding": lambda xp: xp.nn.functional.conv_transpose2d(
        xp.ones(1, 1, 4, 4), xp.ones(1, 1, 2, 2), output_padding=1
    ),
    "transposed-mode": lambda xp: xp.nn.ConvTranspose2d(1, 1, 2, padding_mode="reflect"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error(case: str) -> None:
    assert_same_error(torch, ERRORS[case])
