"""Primitives that walk rows or steps, and those of matrices, become routines: rewrite rules.

Owns: ``WALKS``.
Must not know: the routines' texts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from jitgrad.codegen.primitives.builder import SCANS, SORTS, Builder, Value
from jitgrad.codegen.primitives.layers import GATES
from jitgrad.codegen.primitives.matrices import matrix_results
from jitgrad.codegen.primitives.simplify import Rule
from jitgrad.codegen.routines.factors import FACTORS
from jitgrad.codegen.routines.indefinite import INDEFINITE
from jitgrad.codegen.routines.matrices import LAYOUTS, matrix_call
from jitgrad.codegen.routines.recurrent import panel_lanes, recurrent_call
from jitgrad.codegen.routines.reflections import REFLECTIONS
from jitgrad.codegen.routines.rows import RowBuilder
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


_BODIES = {**FACTORS, **REFLECTIONS, **INDEFINITE}


@functools.cache
def _body(kind: str, flags: tuple[Any, ...]) -> Callable[[RowBuilder], str | None]:
    return functools.partial(_BODIES[kind], *flags)


def _in_memory(shape: tuple[int, ...], layout: str) -> tuple[int, int, int]:
    """How the array of an operand or a result lies, Note [Matrix routines]."""
    if layout == "s":
        return math.prod(shape), 1, 1
    if layout == "v":
        return math.prod(shape[:-1]), 1, shape[-1]
    m, n = shape[-2:]
    return math.prod(shape[:-2]), *((n, m) if layout == "c" else (m, n))


def _turned(b: Builder, x: Value) -> Value:
    rank = len(x.shape)
    return b.permute(x, (*range(rank - 2), rank - 1, rank - 2))


def _matrix(b: Builder, v: Value) -> Value | None:
    kind, flags, part = v.params
    reads, writes = LAYOUTS[kind]
    operands = [
        b.reshape(_turned(b, x) if layout == "c" else x, _in_memory(x.shape, layout))
        for x, layout in zip(v.srcs, reads, strict=True)
    ]
    results = matrix_results(kind, [x.shape for x in v.srcs], v.srcs[0].dtype, flags)
    arrays = tuple([(_in_memory(shape, how), dtype) for (shape, dtype), how in zip(results, writes, strict=True)])
    given = tuple([((x.shape[0], x.shape[1], x.shape[2]), x.dtype) for x in operands])
    order = v.srcs[0].shape[-1]
    name = "_".join(map(str, (kind, *flags, v.srcs[0].dtype.name))).lower()
    call = matrix_call(name, _body(kind, () if kind == "permutation" else flags), given, arrays,
                       (order, order) if kind == "solve" else None)
    made = b.routine(call, operands)[part]
    if writes[part] != "c":
        return b.reshape(made, v.shape)
    m, n = v.shape[-2:]
    return _turned(b, b.reshape(made, (*v.shape[:-2], n, m)))


def _panels(b: Builder, weight: Value, gates: int) -> Value:
    """A layer's weight [gates * H, H] as panels, Note [Layers as routines]; ``gates`` 0: as its backward reads it."""
    lanes, (width, hidden) = panel_lanes(weight.dtype), weight.shape
    blocks = -(-hidden // lanes)
    if not gates:
        padded = b.pad(weight, (0, 0), (0, blocks * lanes - hidden))
        return b.permute(b.reshape(padded, (width, blocks, lanes)), (1, 0, 2))
    padded = b.pad(b.reshape(weight, (gates, hidden, hidden)), (0, 0, 0), (0, blocks * lanes - hidden, 0))
    turned = b.permute(b.reshape(padded, (gates, blocks, lanes, hidden)), (0, 1, 3, 2))
    return b.reshape(turned, (gates * blocks, hidden, lanes))


def _in_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """[steps, rows, width]; of a state, a bias and packed rows one step."""
    return (*[1] * (3 - len(shape)), *shape)


def _recurrent(b: Builder, v: Value) -> Value | None:
    form, part = v.params
    operands = [
        _panels(b, x, 0 if form.is_backward else GATES[form.layer])
        if nr == form.weight
        else b.reshape(x, _in_steps(x.shape))
        for nr, x in enumerate(v.srcs)
    ]
    results = form.results([x.shape for x in v.srcs], v.dtype)
    shapes = tuple([_in_steps(shape) for shape, _ in results])
    call = recurrent_call(form, v.dtype, tuple([x.shape for x in operands]), shapes)
    return b.reshape(b.routine(call, operands)[part], v.shape)


WALKS: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(SCANS, (Rule("walk of rows", _scan),)),
    **dict.fromkeys(SORTS, (Rule("rows in order", _sort),)),
    "matrix": (Rule("matrices one by one", _matrix),),
    "recurrent": (Rule("a layer's steps", _recurrent),),
}
