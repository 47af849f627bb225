"""``grid_sample`` in every mode, against PyTorch's; second derivatives, which PyTorch does not have, by differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

_KINDS = [
    (dims, mode, padding, is_aligned)
    for dims, modes in ((2, ("bilinear", "nearest", "bicubic")), (3, ("bilinear", "nearest")))
    for mode, padding, is_aligned in itertools.product(modes, ("zeros", "border", "reflection"), (False, True))
]


def _operands(dims: int, seed: int = 0) -> tuple[Any, Any]:
    """An image with an extent of 1 now and then; positions inside, far outside, and exactly at elements and edges."""
    rng = np.random.default_rng(seed)
    extents = [int(n) for n in rng.integers(1, 6, dims)]
    x = rng.standard_normal((2, 3, *extents))
    grid = rng.uniform(-3.2, 3.2, (2, *(5, 6, 2)[:dims], dims))
    grid[0, 0] = rng.choice([-1.0, 0.0, 1.0], grid[0, 0].shape)
    return x, grid


def _results(xp: Any, x: Any, grid: Any, options: tuple[Any, ...]) -> list[Any]:
    x, grid = x.detach().requires_grad_(), grid.detach().requires_grad_()
    y = xp.nn.functional.grid_sample(x, grid, *options)
    weights = xp.arange(y.numel(), dtype=y.dtype).reshape(y.shape).sin()
    return [y.detach(), *xp.autograd.grad((y * weights).sum(), [x, grid])]


@pytest.mark.parametrize(("dims", "mode_", "padding", "is_aligned"), _KINDS)
def test_values_and_gradients(dims: int, mode_: str, padding: str, is_aligned: bool, mode: Any) -> None:
    options = (mode_, padding, is_aligned)
    for seed, dtype in itertools.product(range(3), (np.float64, np.float32)):
        arrays = [a.astype(dtype) for a in _operands(dims, seed)]
        expected = _results(torch, *map(torch.from_numpy, arrays), options)
        found = mode.run(
            lambda x, grid: _results(jitgrad, x, grid, options),
            lambda arrays=arrays: tuple(map(jitgrad.from_numpy, arrays)),
        )
        close = 1e-10 if dtype is np.float64 else 2e-4
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), close, close, err_msg=str((seed, dtype)))


@pytest.mark.parametrize(("dims", "mode_", "padding", "is_aligned"), [kind for kind in _KINDS if kind[0] == 2])
def test_second_derivatives(dims: int, mode_: str, padding: str, is_aligned: bool) -> None:
    rng = np.random.default_rng(5)
    x = jitgrad.tensor(rng.standard_normal((1, 2, 4, 3)), requires_grad=True)
    grid = jitgrad.tensor(rng.uniform(-1.4, 1.4, (1, 2, 3, 2)), requires_grad=True)
    assert jitgrad.autograd.gradgradcheck(
        lambda x, grid: jitgrad.nn.functional.grid_sample(x, grid, mode_, padding, is_aligned), (x, grid)
    )


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("batched", [(0, 0), (0, None), (None, 0)])
def test_under_vmap(batched: Any) -> None:
    rng = np.random.default_rng(1)
    x, grid = rng.standard_normal((3, 2, 4, 5, 6)), rng.uniform(-1.2, 1.2, (3, 2, 3, 4, 2))
    given = [a if dim == 0 else a[0] for a, dim in zip((x, grid), batched, strict=True)]
    found = []
    for xp in (jitgrad, torch):

        def sample(x: Any, grid: Any, xp: Any = xp) -> Any:
            return xp.nn.functional.grid_sample(x, grid, align_corners=False)

        found.append(xp.func.vmap(sample, batched)(*map(xp.from_numpy, given)).numpy())
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)


def test_places_that_are_no_numbers() -> None:
    """Where the nearest element of no place is asked for there is none; a weighted sum has no value."""
    x = np.arange(1.0, 17.0).reshape(1, 1, 4, 4)
    for place in (np.nan, np.inf, -np.inf, 1e30):
        grid = np.asarray([[[[place, 0.0], [0.0, place]]]])
        for mode_ in ("bilinear", "nearest"):
            ours, theirs = (
                xp.nn.functional.grid_sample(xp.from_numpy(x), xp.from_numpy(grid), mode_, align_corners=False)
                for xp in (jitgrad, torch)
            )
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_it_does_not_end_a_segment() -> None:
    step = jitgrad.compile(
        lambda x, grid: (jitgrad.nn.functional.grid_sample(x * 2, grid.tanh(), align_corners=True) + 1).sum()
    )
    x, grid = jitgrad.ones(1, 2, 4, 4), jitgrad.zeros(1, 3, 3, 2)
    for _ in range(3):
        assert step(x, grid).item() == 54.0
    text = str(jitgrad.explain(step, x, grid))
    assert "one segment, no operation without a kernel" in text
