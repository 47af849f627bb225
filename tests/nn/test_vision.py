"""Padding, resampling and rearranging against PyTorch's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from nn.compare import Case, assert_same, assert_same_error, assert_same_face

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")


def _pad(mode: str, widths: tuple[int, ...]) -> Any:
    return lambda xp: lambda x: xp.nn.functional.pad(x, widths, mode)


def _interpolate(*args: Any, **options: Any) -> Any:
    return lambda xp: lambda x: xp.nn.functional.interpolate(x, *args, **options)


def _sample(*args: Any) -> Any:
    return lambda xp: lambda x, grid: xp.nn.functional.grid_sample(x, grid, *args)


SIZES = {1: (2, 3, 5), 2: (2, 2, 4, 5), 3: (1, 2, 3, 4, 3)}
PADS = {1: (2, 1), 2: (2, 1, 0, 3), 3: (1, 2, 0, 1, 2, 1)}

CASES: dict[str, Case] = {
    **{
        f"{mode}-{dims}d": (_pad(mode, PADS[dims]), [SIZES[dims]])
        for mode in ("reflect", "replicate", "circular")
        for dims in (1, 2, 3)
    },
    "pad-crop": (_pad("replicate", (-1, 2)), [(3, 5)]),
    "pad-unbatched": (_pad("reflect", (1, 2, 1, 0)), [(2, 4, 5)]),
    "constant-pad": (lambda xp: xp.nn.ConstantPad2d((1, 2, 0, 1), 1.5), [SIZES[2]]),
    "zero-pad": (lambda xp: xp.nn.ZeroPad1d(2), [SIZES[1]]),
    "pixel-shuffle": (lambda xp: xp.nn.PixelShuffle(2), [(2, 8, 3, 2)]),
    "pixel-shuffle-unbatched": (lambda xp: xp.nn.PixelShuffle(3), [(9, 3, 2)]),
    "pixel-unshuffle": (lambda xp: xp.nn.PixelUnshuffle(2), [(2, 3, 4, 6)]),
    "channel-shuffle": (lambda xp: xp.nn.ChannelShuffle(2), [(2, 6, 3, 2)]),
    "unfold": (lambda xp: xp.nn.Unfold(2), [SIZES[2]]),
    "unfold-all": (lambda xp: xp.nn.Unfold((2, 3), (1, 2), (1, 2), (2, 1)), [(2, 4, 5)]),
    "fold": (lambda xp: xp.nn.Fold((4, 5), 2), [(2, 12, 12)]),
    "fold-all": (lambda xp: xp.nn.Fold((4, 5), (2, 3), (1, 2), (1, 2), (2, 1)), [(2, 12, 15)]),
    "nearest": (_interpolate((3, 8)), [SIZES[2]]),
    "nearest-scale": (_interpolate(scale_factor=1.7), [SIZES[1]]),
    "nearest-3d": (_interpolate((5, 3, 4)), [SIZES[3]]),
    "nearest-exact": (_interpolate(scale_factor=(1.3, 2.0), mode="nearest-exact"), [SIZES[2]]),
    "linear": (_interpolate(8, mode="linear"), [SIZES[1]]),
    "bilinear": (_interpolate(scale_factor=1.6, mode="bilinear"), [SIZES[2]]),
    "bilinear-recomputed": (
        _interpolate(scale_factor=1.6, mode="bilinear", recompute_scale_factor=True),
        [SIZES[2]],
    ),
    "bilinear-corners": (_interpolate((2, 9), mode="bilinear", align_corners=True), [SIZES[2]]),
    "bilinear-one": (_interpolate((1, 3), mode="bilinear", align_corners=True), [SIZES[2]]),
    "trilinear": (_interpolate((4, 3, 5), mode="trilinear"), [SIZES[3]]),
    "bicubic": (_interpolate((7, 3), mode="bicubic"), [SIZES[2]]),
    "bicubic-corners": (_interpolate((7, 3), mode="bicubic", align_corners=True), [SIZES[2]]),
    "area": (_interpolate((3, 2), mode="area"), [SIZES[2]]),
    "upsample": (lambda xp: xp.nn.Upsample(scale_factor=2), [SIZES[1]]),
    "upsample-nearest": (lambda xp: xp.nn.UpsamplingNearest2d(scale_factor=2), [SIZES[2]]),
    "upsample-bilinear": (lambda xp: xp.nn.UpsamplingBilinear2d((6, 3)), [SIZES[2]]),
    **{
        f"sample-{mode}-{padding}-{aligned}": (_sample(mode, padding, aligned), [(2, 2, 4, 3), (2, 3, 2, 2)])
        for mode, padding, aligned in itertools.product(
            ("bilinear", "nearest"), ("zeros", "border", "reflection"), (False, True)
        )
    },
    "sample-3d": (_sample("bilinear", "zeros", False), [(1, 2, 3, 4, 3), (1, 2, 2, 2, 3)]),
    "affine-grid": (lambda xp: lambda t: xp.nn.functional.affine_grid(t, (2, 3, 4, 5), False), [(2, 2, 3)]),
    "affine-grid-corners": (lambda xp: lambda t: xp.nn.functional.affine_grid(t, (2, 3, 2, 4, 1), True), [(2, 3, 4)]),
}


@pytest.mark.filterwarnings("ignore:Since version")
@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives(case: str, mode: Any, rng: np.random.Generator) -> None:
    assert_same(torch, CASES[case], mode, rng)


FACES: dict[str, Any] = {
    **{
        f"{kind}-{dims}d": lambda xp, kind=kind, dims=dims: getattr(xp.nn, f"{kind}Pad{dims}d")(2)
        for kind in ("Zero", "Reflection", "Replication", "Circular")
        for dims in (1, 2, 3)
    },
    "constant": lambda xp: xp.nn.ConstantPad3d((1, 2, 3, 4, 5, 6), 2.0),
    "pixel": lambda xp: xp.nn.PixelShuffle(2),
    "unpixel": lambda xp: xp.nn.PixelUnshuffle(2),
    "channel": lambda xp: xp.nn.ChannelShuffle(2),
    "unfold": lambda xp: xp.nn.Unfold((2, 3)),
    "fold": lambda xp: xp.nn.Fold((4, 4), 2, stride=2),
    "upsample": lambda xp: xp.nn.Upsample(scale_factor=(2, 3), mode="bilinear"),
    "upsample-size": lambda xp: xp.nn.UpsamplingNearest2d(3),
}


@pytest.mark.parametrize("case", FACES)
def test_face(case: str) -> None:
    assert_same_face(torch, FACES[case])


ERRORS: dict[str, Any] = {
    "pad-mode": lambda xp: xp.nn.functional.pad(xp.ones(2, 3, 4), (1, 1), "other"),
    "pad-rank": lambda xp: xp.nn.functional.pad(xp.ones(2, 3, 4, 5), (1, 1), "reflect"),
    "pad-reflect": lambda xp: xp.nn.functional.pad(xp.ones(2, 3, 4), (4, 1), "reflect"),
    "pad-circular": lambda xp: xp.nn.functional.pad(xp.ones(2, 3, 4), (5, 1), "circular"),
    "pad-value": lambda xp: xp.nn.functional.pad(xp.ones(2, 3, 4), (1, 1), "reflect", 2.0),
    "circular-rank": lambda xp: xp.nn.CircularPad1d(1)(xp.ones(2, 3, 4, 5)),
    "pixel-rank": lambda xp: xp.nn.functional.pixel_shuffle(xp.ones(4, 3), 2),
    "pixel-channels": lambda xp: xp.nn.functional.pixel_shuffle(xp.ones(3, 3, 3), 2),
    "pixel-factor": lambda xp: xp.nn.functional.pixel_shuffle(xp.ones(4, 3, 3), 0),
    "unpixel": lambda xp: xp.nn.functional.pixel_unshuffle(xp.ones(4, 3, 4), 2),
    "channels": lambda xp: xp.nn.functional.channel_shuffle(xp.ones(1, 4, 3, 4), 3),
    "unfold": lambda xp: xp.nn.functional.unfold(xp.ones(1, 1, 3, 4), 5),
    "fold": lambda xp: xp.nn.functional.fold(xp.ones(1, 4, 5), (3, 3), 2),
    "fold-channels": lambda xp: xp.nn.functional.fold(xp.ones(1, 5, 4), (3, 3), 2),
    "size-and-scale": lambda xp: xp.nn.functional.interpolate(xp.ones(1, 1, 4), 2, 2.0),
    "neither": lambda xp: xp.nn.functional.interpolate(xp.ones(1, 1, 4)),
    "mode-and-rank": lambda xp: xp.nn.functional.interpolate(xp.ones(1, 1, 4), 2, mode="bilinear"),
    "corners": lambda xp: xp.nn.functional.interpolate(xp.ones(1, 1, 4), 2, align_corners=True),
    "sizes": lambda xp: xp.nn.functional.interpolate(xp.ones(1, 1, 4), (2, 3)),
    "sample-mode": lambda xp: xp.nn.functional.grid_sample(xp.ones(1, 1, 4, 4), xp.ones(1, 2, 2, 2), "other"),
    "sample-shape": lambda xp: xp.nn.functional.grid_sample(
        xp.ones(1, 1, 4, 4), xp.ones(1, 2, 2, 3), align_corners=False
    ),
    "affine": lambda xp: xp.nn.functional.affine_grid(xp.ones(1, 2, 2), (1, 1, 2, 2), False),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error(case: str) -> None:
    assert_same_error(torch, ERRORS[case])
