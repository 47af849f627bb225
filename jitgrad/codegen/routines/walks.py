"""Primitives that walk rows become routines: rewrite rules.

Owns: ``WALKS``.
Must not know: the routines' texts.
"""

from __future__ import annotations

import math

from jitgrad.codegen.primitives.builder import SCANS, SORTS, Builder, Value
from jitgrad.codegen.primitives.simplify import Rule
from jitgrad.codegen.routines.scans import scan_call
from jitgrad.codegen.routines.sorting import sort_call

__all__ = ["WALKS"]


def _rows_of(b: Builder, x: Value, dim: int) -> Value:
    """[outer, n, inner], where n is the extent of ``dim``."""
    return b.reshape(x, (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])))


def _scan(b: Builder, v: Value) -> Value | None:
    """A scan of one element, or of nothing, is the element."""
    x = v.srcs[0]
    dim, is_reversed = v.params
    kind = v.op.removeprefix("scan_")
    is_place = kind.startswith("arg")
    if 0 in v.shape or v.shape[dim] == 1:
        return b.const(0, v.dtype, v.shape) if is_place else x
    rows = _rows_of(b, x, dim)
    shape = (rows.shape[0], rows.shape[1], rows.shape[2])
    outs = b.routine(scan_call(kind.removeprefix("arg"), shape, x.dtype, is_reversed), (rows,))
    return b.reshape(outs[1 if is_place else 0], v.shape)


def _sort(b: Builder, v: Value) -> Value | None:
    x = v.srcs[0]
    dim, is_descending, count = v.params
    is_place = v.op == "argsort"
    if 0 in v.shape or (is_place and x.shape[dim] == 1):
        return b.const(0, v.dtype, v.shape)
    if x.shape[dim] == 1:
        return x
    rows = _rows_of(b, x, dim)
    shape = (rows.shape[0], rows.shape[1], rows.shape[2])
    outs = b.routine(sort_call(shape, x.dtype, is_descending, count), (rows,))
    return b.reshape(outs[1 if is_place else 0], v.shape)


WALKS: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(SCANS, (Rule("walk of rows", _scan),)),
    **dict.fromkeys(SORTS, (Rule("rows in order", _sort),)),
}
