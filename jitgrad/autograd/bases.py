"""Standard bases of the space of several tensors, and taking Jacobians of all of them apart.

Owns: ``standard_basis``, ``split_rows``, ``split_columns``; for ``func`` and ``autograd.functional``.
Must not know: derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import int64
from jitgrad.ops.dispatch_hook import beside, call

__all__ = ["split_columns", "split_rows", "standard_basis"]


def standard_basis(like: Sequence[Any]) -> list[Any]:
    """The unit vectors of the space of all tensors together: one batch [total, *shape] per tensor."""
    total = sum(x._aval.numel for x in like)
    parts, start = [], 0
    for x in like:
        place = beside(x._aval)
        rows = call("unsqueeze", call("arange", 0, total, 1, int64, *place), 1)
        own = call("arange", start, start + x._aval.numel, 1, int64, *place)
        parts.append(call("eq", rows, own).to(x._aval.dtype).reshape((total, *x._aval.shape)))
        start += x._aval.numel
    return parts


def split_rows(rows: Any, outputs: Sequence[Any], x: Any) -> list[Any]:
    """[all output elements, *x] as one [*output, *x] per output."""
    parts, at = [], 0
    for y in outputs:
        count = y._aval.numel
        parts.append(rows.narrow(0, at, count).reshape((*y._aval.shape, *x._aval.shape)))
        at += count
    return parts


def split_columns(columns: Any, inputs: Sequence[Any]) -> list[Any]:
    """[all input elements, *y] as one [*y, *input] per input."""
    rank, shape = columns._aval.ndim, columns._aval.shape[1:]
    last = columns.permute((*range(1, rank), 0))
    parts, at = [], 0
    for x in inputs:
        count = x._aval.numel
        parts.append(last.narrow(rank - 1, at, count).reshape((*shape, *x._aval.shape)))
        at += count
    return parts
