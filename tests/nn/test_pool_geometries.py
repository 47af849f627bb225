"""Pools of one to three dimensions with drawn kernels, strides, paddings, dilations and sizes, against PyTorch's."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

_POOLS = list(itertools.product(("max", "avg"), (1, 2, 3)))
_DTYPES = ("float64", "float32", "bfloat16")
_CLOSE = {"float64": 1e-12, "float32": 2e-6, "bfloat16": 8e-2}  # PyTorch adds gradients up in bfloat16


def _drawn(rng: np.random.Generator, dims: int, is_max: bool) -> dict[str, Any]:
    """Arguments of a pool: mostly a number per dimension, now and then one for all."""
    kernel = tuple(int(n) for n in rng.integers(1, 5, dims))
    if rng.random() < 0.3:  # of many elements: these are pooled dimension by dimension
        kernel = (int(rng.integers(18, 22)), *kernel[1:])
    options: dict[str, Any] = {"kernel_size": kernel, "ceil_mode": bool(rng.integers(2))}
    options["stride"] = tuple(int(n) for n in rng.integers(1, 4, dims))
    options["padding"] = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
    if is_max:
        options["dilation"] = tuple(int(n) for n in rng.integers(1, 3, dims))
    else:
        options["count_include_pad"] = bool(rng.integers(2))
        if dims > 1 and rng.random() < 0.3:
            options["divisor_override"] = int(rng.integers(1, 7))
    return options


def _image(rng: np.random.Generator, dims: int, reach: int, has_specials: bool) -> Any:
    """Few different numbers, so that there are ties; of three dimensions without a batch, too."""
    lead = (2, 3) if rng.random() < 0.7 else (3,)
    x = rng.integers(-6, 7, (*lead, reach + int(rng.integers(0, 9)), *rng.integers(4, 10, dims - 1))) / 4
    if has_specials:
        for value in (math.nan, math.inf, -math.inf):
            x[rng.random(x.shape) < 0.1] = value
    return x


def _laid_out(xp: Any, array: Any, dtype: str, layout: int, dims: int) -> Any:
    x = xp.from_numpy(array.copy()).to(getattr(xp, dtype))
    is_plane = dims == 2 and x.ndim == 4
    if layout == 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    return x.contiguous(memory_format=xp.channels_last) if layout == 2 and is_plane else x


def _results(xp: Any, name: str, x: Any, options: dict[str, Any]) -> list[Any]:
    """What a pool returns, and the gradient of a weighted sum of it."""
    x = x.detach().requires_grad_()
    found = getattr(xp.nn.functional, name)(x, **options)
    values, *places = found if isinstance(found, tuple) else (found,)
    weights = xp.arange(values.numel(), dtype=xp.float64).reshape(values.shape).sin().to(values.dtype)
    (values * weights).sum().backward()
    return [values.detach().double(), *places, x.grad.double()]


def _arrays(found: list[Any]) -> list[Any]:
    return [x.numpy() for x in found]


def _fitting(rng: np.random.Generator, name: str, dims: int, has_specials: bool) -> tuple[Any, dict[str, Any]]:
    """An image, and arguments that PyTorch does not refuse."""
    while True:
        options = _drawn(rng, dims, name.startswith("max"))
        x = _image(rng, dims, options["kernel_size"][0] * 2, has_specials)
        if name.startswith("max"):
            options["return_indices"] = True
        try:
            getattr(torch.nn.functional, name)(torch.from_numpy(x), **options)
        except RuntimeError:
            continue
        return x, options


@pytest.mark.parametrize("has_specials", [False, True], ids=["finite", "specials"])
@pytest.mark.parametrize(("kind", "dims"), _POOLS)
def test_pools_of_drawn_windows(kind: str, dims: int, has_specials: bool, mode: Any) -> None:
    rng = np.random.default_rng(dims + 10 * has_specials)
    name = f"{kind}_pool{dims}d"
    for turn in range(6):
        array, options = _fitting(rng, name, dims, has_specials)
        dtype = _DTYPES[turn % (2 if name == "avg_pool3d" else 3)]
        expected = _arrays(_results(torch, name, _laid_out(torch, array, dtype, turn % 3, dims), options))
        x = _laid_out(jitgrad, array, dtype, turn % 3, dims)
        found = mode.run(lambda x, name=name, options=options: _results(jitgrad, name, x, options), lambda x=x: (x,))
        for ours, theirs in zip(_arrays(found), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, _CLOSE[dtype], _CLOSE[dtype], err_msg=f"{name} {options} {dtype}")


@pytest.mark.parametrize("has_specials", [False, True], ids=["finite", "specials"])
@pytest.mark.parametrize(("kind", "dims"), _POOLS)
def test_adaptive_pools_of_drawn_sizes(kind: str, dims: int, has_specials: bool, mode: Any) -> None:
    rng = np.random.default_rng(dims + 10 * has_specials)
    name = f"adaptive_{kind}_pool{dims}d"
    for turn in range(6):
        array = _image(rng, dims, 40 if turn == 4 else 3, has_specials)
        options: dict[str, Any] = {"output_size": tuple(int(n) for n in rng.integers(1, 13, dims))}
        if kind == "max":
            options["return_indices"] = True
        expected = _arrays(_results(torch, name, _laid_out(torch, array, _DTYPES[turn % 3], turn % 3, dims), options))
        x = _laid_out(jitgrad, array, _DTYPES[turn % 3], turn % 3, dims)
        found = mode.run(lambda x, name=name, options=options: _results(jitgrad, name, x, options), lambda x=x: (x,))
        close = _CLOSE[_DTYPES[turn % 3]]
        for ours, theirs in zip(_arrays(found), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, close, close, err_msg=f"{name} {array.shape} {options}")


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "max_pool3d", "avg_pool3d"])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "complex64", "bool"])
def test_pools_of_other_dtypes(name: str, dtype: str) -> None:
    found = []
    for xp in (jitgrad, torch):
        x = xp.arange(-4, 508).reshape((8, 8, 8) if "2" in name else (1, 8, 8, 8)).to(getattr(xp, dtype))
        try:
            found.append(getattr(xp.nn.functional, name)(x, 3, 2, 1, ceil_mode=True).tolist())
        except NotImplementedError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.parametrize(("kind", "dims"), _POOLS)
def test_tensors_without_elements(kind: str, dims: int) -> None:
    shapes = [(0, 2, *[4] * dims), (2, 0, *[4] * dims), (0, *[4] * dims), (2, 2, 0, *[4] * (dims - 1))]
    for shape in shapes:
        found = []
        for xp in (jitgrad, torch):
            try:
                found.append(tuple(getattr(xp.nn.functional, f"{kind}_pool{dims}d")(xp.ones(shape), 2).shape))
            except RuntimeError:
                found.append("RuntimeError")
        assert found[0] == found[1], shape


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("max_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
        ("max_pool3d", {"kernel_size": 2, "dilation": 2}),
        ("avg_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
        ("avg_pool3d", {"kernel_size": 2, "stride": 1}),
        ("adaptive_avg_pool2d", {"output_size": (3, 4)}),
        ("adaptive_max_pool2d", {"output_size": (3, 4)}),
    ],
)
def test_under_transforms(name: str, options: dict[str, Any], rng: np.random.Generator) -> None:
    shape = (2, 3, *[5] * int(name[-2]))
    array, tangent = rng.standard_normal((2, 4, *shape))
    found = []
    for xp in (jitgrad, torch):
        x, t = xp.from_numpy(array), xp.from_numpy(tangent)

        def pool(x: Any, xp: Any = xp) -> Any:
            return getattr(xp.nn.functional, name)(x, **options)

        found.append(
            _arrays(
                [
                    xp.func.vmap(pool)(x),
                    *xp.func.jvp(pool, (x[0],), (t[0],)),
                    xp.func.vmap(xp.func.grad(lambda x, pool=pool: pool(x).pow(2).sum()))(x),
                    xp.func.grad(lambda x, pool=pool, xp=xp: xp.func.grad(lambda x: pool(x).pow(3).sum())(x).sum())(
                        x[1]
                    ),
                ]
            )
        )
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)

