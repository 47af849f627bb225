"""``add_at`` against ``numpy.add.at``, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad.ops.indexing import indexing
from jitgrad.ops.indexing.indexing import add_at

_DTYPES = (np.float32, np.float64, np.float16, np.int64, np.int8, np.complex64)


def _case(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """(What is added to, the index, the values): mostly rows, sometimes another index, layout or number of values."""
    shape = tuple(rng.integers(0 if rng.random() < 0.05 else 1, 6, int(rng.integers(1, 4))).tolist())
    dtype = _DTYPES[rng.integers(len(_DTYPES))]
    out = (rng.standard_normal(shape) * 9).astype(dtype)
    if rng.random() < 0.2:
        out = np.asfortranarray(out)
    many = tuple(rng.integers(0, 5, int(rng.integers(1, 3))).tolist())
    extent = max(shape[0], 1)
    rows = rng.integers(-extent, extent, many) if shape[0] else np.zeros((0,), np.int64)
    if rng.random() < 0.2:
        rows = rows.astype(np.int32)
    spec: Any = (rows, *[slice(None)] * (len(shape) - 1))
    kind = rng.integers(8)
    if kind == 0:
        spec = rows
    elif kind == 1 and len(shape) > 1:
        spec = (rows, slice(0, 1))
    elif kind == 2 and len(shape) > 1 and shape[1]:
        spec = (rows, rng.integers(0, shape[1], rows.shape))
    elif kind == 3:
        spec = (np.arange(shape[0]) % 2 == 0,)
    wanted = out[spec].shape
    if rng.random() < 0.3:
        wanted = tuple([1 if rng.random() < 0.5 else n for n in wanted])[int(rng.integers(0, len(wanted) + 1)) :]
    return out, spec, (rng.standard_normal(wanted) * 9).astype(dtype)


@pytest.mark.parametrize("seed", range(20))
def test_the_same_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(100):
        out, spec, values = _case(rng)
        expected = out.copy(order="K")
        np.add.at(expected, spec, values)
        add_at(out, spec, values)
        assert out.tobytes() == expected.tobytes()


def test_rows_are_added_by_the_places_of_their_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Watched:
        def at(self, out: Any, spec: Any, values: Any) -> None:
            seen.append(out.ndim)
            np.add.at(out, spec, values)

    class Numpy:
        add = Watched()

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

    monkeypatch.setattr(indexing, "np", Numpy())
    out = np.zeros((3, 2), np.float32)
    add_at(out, (np.array([0, 2, -1]), slice(None)), np.ones((3, 2), np.float32))
    assert seen == [1] and out.tolist() == [[1, 1], [0, 0], [2, 2]]


@pytest.mark.parametrize("rows", [[3], [0, -4], [[0, 1], [2, 7]]])
def test_positions_outside_are_refused_before_anything_is_written(rows: Any) -> None:
    out = np.zeros((3, 2), np.float32)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
        add_at(out, (np.array(rows), slice(None)), np.float32(1))
    assert not out.any()
