"""``unfold`` and ``fold`` with drawn windows, against PyTorch's: values, gradients, layouts, transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")


def _drawn(rng: np.random.Generator) -> tuple[tuple[int, int], dict[str, Any]]:
    """(Extents of an image, arguments); now and then with windows of many elements."""
    while True:
        many = rng.random() < 0.3
        options = {
            "kernel_size": tuple(int(n) for n in (rng.integers(7, 10, 2) if many else rng.integers(1, 4, 2))),
            "dilation": tuple(int(n) for n in rng.integers(1, 3, 2)),
            "padding": tuple(int(n) for n in rng.integers(0, 3, 2)),
            "stride": tuple(int(n) for n in rng.integers(1, 4, 2)),
        }
        size = tuple(int(n) for n in rng.integers(3, 14, 2))
        rows = zip(size, *options.values(), strict=True)
        if all(n + 2 * p >= d * (k - 1) + 1 for n, k, d, p, _ in rows):
            return (size[0], size[1]), options


def _results(xp: Any, x: Any, size: Any, options: dict[str, Any]) -> list[Any]:
    x = x.detach().requires_grad_()
    columns = xp.nn.functional.unfold(x, **options)
    folded = xp.nn.functional.fold(columns * columns, size, **options)
    weights = xp.arange(folded.numel(), dtype=x.dtype).reshape(folded.shape).sin()
    (grad,) = xp.autograd.grad((folded * weights).sum(), x, create_graph=True)
    (second,) = xp.autograd.grad((grad * grad).sum(), x)
    return [columns.detach(), folded.detach(), grad.detach(), second]


@pytest.mark.parametrize("turn", range(12))
def test_values_and_derivatives(turn: int, mode: Any) -> None:
    rng = np.random.default_rng(turn)
    size, options = _drawn(rng)
    array = rng.standard_normal((*[(), (2,)][turn % 2], 3, *size))

    def image(xp: Any) -> Any:
        x = xp.from_numpy(array.copy())
        return x.mT.contiguous().mT if turn % 3 == 0 else x

    expected = _results(torch, image(torch), size, options)
    found = mode.run(lambda x: _results(jitgrad, x, size, options), lambda: (image(jitgrad),))
    for ours, theirs in zip(found, expected, strict=True):
        assert tuple(ours.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-11, 1e-11, err_msg=f"{size} {options}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "bool", "int64"])
def test_dtypes(dtype: str) -> None:
    found = []
    for xp in (jitgrad, torch):
        x = xp.arange(-20, 70).reshape(2, 3, 5, 3).to(getattr(xp, dtype))
        try:
            y = xp.nn.functional.unfold(x, 2, padding=1)
            z = xp.nn.functional.fold(y, (5, 3), 2, padding=1)
            found.append([y.to(xp.complex64).tolist(), z.to(xp.complex64).tolist()])
        except NotImplementedError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_under_transforms(rng: np.random.Generator) -> None:
    array, tangent = rng.standard_normal((2, 4, 2, 3, 5, 6))
    found = []
    for xp in (jitgrad, torch):
        x, t = xp.from_numpy(array), xp.from_numpy(tangent)

        def both(x: Any, xp: Any = xp) -> Any:
            columns = xp.nn.functional.unfold(x, (2, 3), stride=2)
            return xp.nn.functional.fold(columns.sin(), (5, 6), (2, 3), stride=2)

        found.append([xp.func.vmap(both)(x).numpy(), *(y.numpy() for y in xp.func.jvp(both, (x[0],), (t[0],)))])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_no_examples() -> None:
    for xp in (jitgrad, torch):
        columns = xp.nn.functional.unfold(xp.ones(0, 3, 5, 6), 2)
        assert tuple(columns.shape) == (0, 12, 20)
        assert tuple(xp.nn.functional.fold(columns, (5, 6), 2).shape) == (0, 3, 5, 6)
