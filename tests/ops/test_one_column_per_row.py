"""``x[arange(rows), columns]`` and its like become comparisons in kernels: same bits and dtype as the memory's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad as jg

_SHORT = ("uint8", "int8", "int16", "float16", "bfloat16")
_DTYPES = ("bool", *_SHORT, "int32", "int64", "float32", "float64")
_WHOLE = [[0, 100, 3], [2, 7, 1], [9, 4, 11]]
_FLOATING = [[-0.0, math.inf, math.nan], [1.0, -0.0, -math.inf], [math.nan, 2.0, -0.0]]


def _bits(x: Any) -> tuple[str, bytes]:
    return x.dtype.name, x.clone().view(jg.uint8).numpy().tobytes() if x.dtype is not jg.bool else x.numpy().tobytes()


def _matrix(dtype: str) -> Any:
    return jg.tensor(_FLOATING if "float" in dtype else _WHOLE, dtype=getattr(jg, dtype))


@pytest.mark.parametrize("dtype", _DTYPES)
def test_what_is_picked_keeps_its_bits(dtype: str, mode: Mode) -> None:
    def pick(x: Any) -> tuple[Any, ...]:
        columns = jg.tensor([0, 2, 1])
        return jg.diagonal_copy(x), x.diag(), x[jg.arange(3), columns], x.gather(1, columns.reshape(3, 1))

    x = _matrix(dtype)
    rows = [x.select(0, i) for i in range(3)]
    diagonal, others = (jg.stack([row[c] for row, c in zip(rows, at, strict=True)]) for at in ((0, 1, 2), (0, 2, 1)))
    found = mode.run(pick, lambda: (_matrix(dtype),))
    assert [_bits(y) for y in found] == [_bits(y) for y in (diagonal, diagonal, others, others.reshape(3, 1))]


@pytest.mark.parametrize("dtype", [name for name in _DTYPES if name != "bool"])
def test_what_is_put_keeps_its_dtype(dtype: str, mode: Mode) -> None:
    def put(x: Any) -> tuple[Any, ...]:
        at = jg.arange(3), jg.tensor([2, 0, 1])
        return jg.diag_embed(x[1]), jg.zeros(3, 3, dtype=x.dtype).index_put(at, x[1], accumulate=True)

    embedded, added = mode.run(put, lambda: (_matrix(dtype),))
    row = _matrix(dtype)[1].tolist()
    assert embedded.dtype is added.dtype is getattr(jg, dtype)
    assert embedded.tolist() == np.diag(row).tolist()
    assert added.tolist() == [[0, 0, row[0]], [row[1], 0, 0], [0, row[2], 0]]
