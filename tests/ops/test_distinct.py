"""What reads values to find its result: distinct elements, histograms, counts; against PyTorch, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.conftest import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

_NAN = float("nan")
ARRAYS = {
    "rows": np.array([[2, 1, 2], [0, 5, 1], [2, 1, 2], [2, 1, 0]]),
    "floats": np.array([[1.5, _NAN, 1.5], [1.5, _NAN, _NAN]], np.float32),
    "bools": np.array([True, True, False]),
    "scalar": np.array(3.0),
    "empty": np.zeros(0),
    "no rows": np.zeros((0, 3)),
}
FORMS = [dict(return_inverse=i, return_counts=c) for i in (False, True) for c in (False, True)]


def _equal(got: Any, want: Any) -> None:
    assert type(got) is type(want) or isinstance(got, tuple) == isinstance(want, tuple)
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    for x, y in pairs:
        assert tuple(x.shape) == tuple(y.shape)
        assert x.dtype.name == str(y.dtype).removeprefix("torch.")
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("array", ARRAYS)
def test_distinct_elements_are_torchs(name: str, array: str, mode: Mode) -> None:
    x = ARRAYS[array]
    for form in FORMS:
        dims = (0, -1) if x.ndim and x.size else (0,) if array == "no rows" and name == "unique" else ()
        if array == "floats" and name == "unique":  # PyTorch's order of slices with a NaN is that of its algorithm
            dims = ()
        for dim in (None, *dims):
            want = getattr(torch, name)(torch.tensor(x), **form, dim=dim)
            # what is computed before in the step is read in its midst
            step = lambda x, form=form, dim=dim: getattr(jitgrad, name)(x.clone(), **form, dim=dim)  # noqa: E731
            _equal(mode.run(step, lambda: (jitgrad.tensor(x),), is_steady=False), want)


_V = np.array([0.1, 0.4, 0.4, 2.0, -3.0, 1.0])
COUNTS: dict[str, Callable[[Any], Any]] = {
    "bincount": lambda t: t.bincount(t.tensor([1, 4, 1])),
    "bincount, long": lambda t: t.tensor([1, 4, 1]).bincount(minlength=7),
    "bincount, weights": lambda t: t.bincount(t.tensor([1, 4, 1]), t.tensor([0.5, 1.0, 2.0])),
    "bincount, integer weights": lambda t: t.bincount(t.tensor([1, 4, 1]), t.tensor([5, 1, 2])),
    "bincount, nothing": lambda t: t.bincount(t.zeros(0, dtype=t.int64), minlength=2),
    "histogram": lambda t: tuple(t.histogram(t.tensor(_V), 4)),
    "histogram, range": lambda t: tuple(t.tensor(_V).histogram(5, range=(-1.0, 1.0))),
    "histogram, edges": lambda t: tuple(t.histogram(t.tensor(_V), t.tensor([-3.0, 0.4, 2.0], dtype=t.float64))),
    "histogram, one value": lambda t: tuple(t.histogram(t.ones(4), 3)),
    "histogram, density": lambda t: tuple(t.histogram(t.tensor(_V), 4, weight=t.tensor(_V + 4), density=True)),
    "histogram, nothing": lambda t: tuple(t.histogram(t.zeros(0), 2)),
    "searchsorted, sorter": lambda t: t.searchsorted(t.tensor([3, 1, 2]), t.tensor([2, 4]), sorter=t.tensor([1, 2, 0])),
    "searchsorted, side": lambda t: t.searchsorted(t.tensor([1, 2, 2, 3]), 2, side="right", out_int32=True),
    "bucketize": lambda t: t.bucketize(t.tensor(_V), t.tensor([0.0, 0.4, 1.0]), right=True),
    "bucketize, number": lambda t: t.bucketize(0.4, t.tensor([0.0, 0.4, 1.0])),
    "isin, number": lambda t: t.isin(3, t.tensor([1, 2, 3])),
    "topk, unsorted": lambda t: t.topk(t.tensor(_V), 3, sorted=False).values.sort().values,
    "named": lambda t: t.tensor(_V).sort(descending=True, stable=True).indices,
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_and_places_are_torchs(name: str, mode: Mode) -> None:
    _equal(mode.run(lambda: COUNTS[name](jitgrad), is_steady=False), COUNTS[name](torch))


def test_operations_that_come_late_are_named_where_they_are() -> None:
    """Asking for one imports its module, which must define it."""
    table = jitgrad.ops.table.OPS
    table.load()
    assert set(table.late) <= set(table)
    with pytest.raises(KeyError, match="no_such_operation"):
        table["no_such_operation"]
