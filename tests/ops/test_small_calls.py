"""What has a short way for small or plain operands: it must be PyTorch's there, and on the other side of the border."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad

torch: Any = pytest.importorskip("torch")

SHAPES = [(), (1,), (7,), (3, 4), (2, 3, 4), (0,), (2, 0), (5, 1)]


def _both(array: Any) -> tuple[Any, Any]:
    return jitgrad.tensor(array), torch.tensor(array)


def _same(own: Any, theirs: Any) -> None:
    assert tuple(own.shape) == tuple(theirs.shape) and own.stride() == theirs.stride()
    np.testing.assert_array_equal(own.numpy(), theirs.numpy())


def _numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Few different values, so that some are equal, and NaN."""
    x = np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)
    if x.dtype.kind == "f" and x.size > 3:
        x.reshape(-1)[[1, -1]] = np.nan
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_nonzero(shape: tuple[int, ...], dtype: str) -> None:
    own, theirs = _both(_numbers(shape, dtype, 1))
    _same(own.nonzero(), theirs.nonzero())
    found = own.nonzero()
    assert (found + 1).tolist() == (theirs.nonzero() + 1).tolist()
    found[...] = 5  # the memory is its own
    assert found.tolist() == [[5] * len(shape)] * found.shape[0]
    for size in (0, 2, 40):
        _same(jitgrad.nonzero_static(own, size=size), torch.nonzero_static(theirs, size=size))
        fill = {"size": size, "fill_value": 9}
        assert jitgrad.nonzero_static(own, **fill).tolist() == torch.nonzero_static(theirs, **fill).tolist()


@pytest.mark.parametrize("name", ["mode", "nanmedian", "median"])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_choices_along_each_dimension(name: str, keepdim: bool, dtype: str) -> None:
    for seed, shape in enumerate([(9,), (3, 8), (4, 5, 6), (1, 7), (6, 1)]):
        numbers = _numbers(shape, dtype, seed)  # where there is NaN, PyTorch's mode depends on how it sorts
        own, theirs = _both(np.nan_to_num(numbers) if name == "mode" else numbers)
        for dim in range(-len(shape), len(shape)):
            ours, wanted = (getattr(x, name)(dim, keepdim) for x in (own, theirs))
            np.testing.assert_array_equal(ours[0].numpy(), wanted[0].numpy())
            assert ours[1].shape == tuple(wanted[1].shape)
            picked = np.take_along_axis(own.numpy(), (ours[1] if keepdim else ours[1].unsqueeze(dim)).numpy(), dim)
            np.testing.assert_array_equal(picked if keepdim else picked.squeeze(dim), ours[0].numpy())
    if dtype == "float32":
        leaf = own.clone().requires_grad_()
        getattr(leaf, name)(-1)[0].nansum().backward()
        assert leaf.grad.sum().item() <= leaf.shape[0]


@pytest.mark.parametrize("sizes", [(5, 3), (1, 1), (0, 4), (4, 0), (80, 90)])
@pytest.mark.parametrize("invert", [False, True])
def test_isin(sizes: tuple[int, int], invert: bool) -> None:
    for dtype in ("int64", "float32"):
        (x, tx), (y, ty) = (_both(_numbers((n,), dtype, n)) for n in sizes)
        assert jitgrad.isin(x, y, invert=invert).tolist() == torch.isin(tx, ty, invert=invert).tolist()
        assert jitgrad.isin(x, 1, invert=invert).tolist() == torch.isin(tx, 1, invert=invert).tolist()
    wide, theirs = _both(_numbers((4, 5), "int64", 3))
    assert jitgrad.isin(wide, wide[0]).tolist() == torch.isin(theirs, theirs[0]).tolist()
    assert jitgrad.isin(2, wide).item() == torch.isin(2, theirs).item()


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
def test_distinct_elements(name: str) -> None:
    for shape in SHAPES:
        for dtype in ("int64", "float64", "bool"):
            own, theirs = _both(np.nan_to_num(_numbers(shape, dtype, 4)))
            options = {"return_inverse": True, "return_counts": True}
            for a, b in zip(getattr(own, name)(**options), getattr(theirs, name)(**options), strict=True):
                assert a.tolist() == b.tolist() and tuple(a.shape) == tuple(b.shape)
    rows, theirs = _both(np.array([[2, 1], [0, 5], [2, 1], [2, 0]]))
    assert getattr(rows, name)(dim=0).tolist() == getattr(theirs, name)(dim=0).tolist()
    assert getattr(rows, name)(dim=1).tolist() == getattr(theirs, name)(dim=1).tolist()


def test_masked_scatter() -> None:
    rng = np.random.default_rng(2)
    for shape, mask_shape in (((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((), ()), ((0,), (0,))):
        (x, tx), (m, tm) = _both(rng.normal(size=shape)), _both(rng.random(mask_shape) < 0.5)
        (s, ts) = _both(rng.normal(size=20))
        np.testing.assert_array_equal(x.masked_scatter(m, s).numpy(), tx.masked_scatter(tm, ts).numpy())
    with pytest.raises(RuntimeError, match="Number of elements of source"):
        jitgrad.zeros(3).masked_scatter(jitgrad.ones(3, dtype=jitgrad.bool), jitgrad.zeros(2))


@pytest.mark.parametrize(
    ("first", "second", "dims"),
    [((3, 4), (4, 5), 1), ((3, 4), (4, 5), ([1], [0])), ((2, 3, 4), (3, 4, 5), 2), ((3,), (4,), 0), ((3,), (3,), 1),
     ((2, 3, 4), (4, 2, 5), ([0, 2], [1, 0])), ((0, 3), (3, 2), 1), ((2, 0), (0, 3), 1), ((2, 1), (3, 2), 1)],
)  # fmt: skip
def test_tensordot(first: Any, second: Any, dims: Any) -> None:
    rng = np.random.default_rng(8)
    (a, ta), (b, tb) = _both(rng.normal(size=first)), _both(rng.normal(size=second))
    for x in (a, b, ta, tb):
        x.requires_grad_()
    own, theirs = jitgrad.tensordot(a, b, dims), torch.tensordot(ta, tb, dims)
    np.testing.assert_allclose(own.detach().numpy(), theirs.detach().numpy(), atol=1e-14)
    own.square().sum().backward()
    theirs.square().sum().backward()
    for x, y in ((a, ta), (b, tb)):
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), atol=1e-12)


TARGETS = [[[0, 3, -1, 1, 2], [2, 2, 1, -1, 4], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0]], [3, 1, -1, 0, 0]]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_margin_losses(reduction: str, is_compiled: bool) -> None:
    rng = np.random.default_rng(9)

    def compare(name: str, shape: tuple[int, ...], target: Any) -> None:
        (x, tx), (y, ty) = _both(rng.normal(size=shape)), _both(np.array(target))
        x.requires_grad_()
        tx.requires_grad_()
        loss: Callable[..., Any] = getattr(jitgrad.nn.functional, name)
        step = jitgrad.compile(loss) if is_compiled else loss
        for _ in range(3):
            x.grad = None
            own = step(x, y, reduction=reduction)
            own.sum().backward()
        theirs = getattr(torch.nn.functional, name)(tx, ty, reduction=reduction)
        theirs.sum().backward()
        np.testing.assert_allclose(own.detach().numpy(), theirs.detach().numpy(), rtol=1e-13)
        np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), atol=1e-15)

    compare("multilabel_margin_loss", (4, 5), TARGETS[0])
    compare("multilabel_margin_loss", (5,), TARGETS[1])
    compare("multi_margin_loss", (4, 5), [0, 4, 2, 2])
    compare("multi_margin_loss", (5,), 3)
    for name, target in (("multi_margin_loss", [0, 5, 1, 1]), ("multilabel_margin_loss", [[5, 0, 0, 0, 0]] * 4)):
        with pytest.raises((IndexError, RuntimeError)):
            print(getattr(jitgrad.nn.functional, name)(jitgrad.zeros(4, 5), jitgrad.tensor(target)))
