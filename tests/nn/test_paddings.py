"""Arguments of windows with a wrong number of elements are refused as PyTorch refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.nn.libraries import assert_as_pytorch, raised

LINE, IMAGE, VOLUME = (1, 2, 8), (1, 2, 8, 8), (1, 2, 8, 8, 8)
THREE = (1, 1, 1)

CALLS: dict[str, Callable[[Any], Any]] = {
    "conv1d": lambda xp: xp.nn.functional.conv1d(xp.ones(LINE), xp.ones(2, 2, 3), padding=(1, 1)),
    "conv2d": lambda xp: xp.nn.functional.conv2d(xp.ones(IMAGE), xp.ones(2, 2, 3, 3), padding=THREE),
    "conv2d-stride": lambda xp: xp.nn.functional.conv2d(xp.ones(IMAGE), xp.ones(2, 2, 3, 3), stride=THREE),
    "conv2d-dilation": lambda xp: xp.nn.functional.conv2d(xp.ones(IMAGE), xp.ones(2, 2, 3, 3), dilation=THREE),
    "conv2d-one": lambda xp: xp.nn.functional.conv2d(xp.ones(IMAGE), xp.ones(2, 2, 3, 3), padding=(1,)),
    "conv3d": lambda xp: xp.nn.functional.conv3d(xp.ones(VOLUME), xp.ones(2, 2, 3, 3, 3), padding=(1, 1)),
    "transposed": lambda xp: xp.nn.ConvTranspose2d(2, 2, 3, padding=THREE)(xp.ones(IMAGE)),
    "Conv1d": lambda xp: xp.nn.Conv1d(2, 2, 3, padding=THREE)(xp.ones(LINE)),
    "Conv2d": lambda xp: xp.nn.Conv2d(2, 2, 3, padding=THREE)(xp.ones(IMAGE)),
    "pad": lambda xp: xp.nn.functional.pad(xp.ones(IMAGE), THREE),
    "ConstantPad1d": lambda xp: xp.nn.ConstantPad1d(THREE, 0.0)(xp.ones(LINE)),
    "ZeroPad2d": lambda xp: xp.nn.ZeroPad2d(THREE)(xp.ones(IMAGE)),
    "ReflectionPad2d": lambda xp: xp.nn.ReflectionPad2d(THREE)(xp.ones(IMAGE)),
    "max_pool2d": lambda xp: xp.nn.functional.max_pool2d(xp.ones(IMAGE), 2, padding=THREE),
    "avg_pool2d": lambda xp: xp.nn.functional.avg_pool2d(xp.ones(IMAGE), 2, padding=THREE),
}

KINDS_ONLY: dict[str, Callable[[Any], Any]] = {
    "circular": lambda xp: xp.nn.Conv2d(2, 2, 3, padding=THREE, padding_mode="circular")(xp.ones(IMAGE)),
    "MaxPool1d": lambda xp: xp.nn.MaxPool1d(2, padding=THREE)(xp.ones(LINE)),
    "unfold": lambda xp: xp.nn.functional.unfold(xp.ones(IMAGE), 2, padding=THREE),
    "kernel": lambda xp: xp.nn.Conv2d(2, 2, (3, 3, 3))(xp.ones(IMAGE)),
}


@pytest.mark.parametrize("name", CALLS)
def test_texts(name: str) -> None:
    def case(xp: Any) -> Any:
        return raised(lambda: CALLS[name](xp).shape[-1])

    assert_as_pytorch(case)


@pytest.mark.parametrize("name", KINDS_ONLY)
def test_kinds(name: str) -> None:
    def case(xp: Any) -> Any:
        return raised(lambda: KINDS_ONLY[name](xp))[0]

    assert_as_pytorch(case)
