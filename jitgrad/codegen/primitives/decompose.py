"""Primitives that become other primitives: the choice of an algorithm, as rewrite rules.

Owns: ``DECOMPOSE``: argmax by two reductions, small products as loops, one-hot gathers and scatters, long reductions
cut into chunks.
Must not know: kernels, LLVM.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jitgrad.codegen.primitives.builder import POINTWISE, SCATTERS, Builder, Value
from jitgrad.codegen.primitives.simplify import Rule, const_of
from jitgrad.dtypes import FLOATING, bool_, int64
from jitgrad.symbols.advice import advice, identical
from jitgrad.symbols.number import greatest, smallest

__all__ = ["CHUNK", "DECOMPOSE", "chunk_count", "copy_of"]

CHUNK = 8192  # elements per partial sum of a full reduction: long against a fork-join, short against 16 KiB of L1 lines
_MAX_CHUNKS = 256
_ONE_HOT_LIMIT = 128
_IDENTITY: dict[str, float] = {"reduce_sum": 0, "reduce_prod": 1, "reduce_max": -math.inf, "reduce_min": math.inf}
_INT_IDENTITY: dict[str, float] = {"reduce_max": -(2**31), "reduce_min": 2**31 - 1}
_BOOL_IDENTITY: dict[str, float] = {"reduce_sum": 0, "reduce_prod": 1, "reduce_max": 0, "reduce_min": 1}


def _empty_reduce(b: Builder, v: Value) -> Value | None:
    if 0 not in v.srcs[0].shape or 0 in v.shape:
        return None
    tables = [_IDENTITY] if v.dtype.category is FLOATING else [_INT_IDENTITY, _IDENTITY]
    tables = [_BOOL_IDENTITY] if v.dtype is bool_ else tables
    identity = next(table[v.op] for table in tables if v.op in table)
    return b.const(identity, v.dtype, v.shape)


def copy_of(b: Builder, x: Value) -> Value:
    """A value of its own buffer, row-major."""
    return b.make("copy", (x,), (), x.shape, x.dtype)


def chunk_count(shape: tuple[int, ...], dims: tuple[int, ...]) -> int:
    """Into how many partial results a reduction is cut; a function of shapes alone, so results are too.

    1 where the kept dimensions already make enough independent work. A reduction that is cut for some extents is for
    all that its program serves (Note [Advice]), into two parts at least: each part has a loop, however short.
    """
    count = _best_count(shape, dims)
    return 1 if identical(count, 1) else greatest(2, count)


@advice
def _best_count(shape: tuple[int, ...], dims: tuple[int, ...]) -> int:
    total = math.prod(shape)
    kept = math.prod(n for d, n in enumerate(shape) if d not in dims)
    if total <= 4 * CHUNK:
        return 1
    if kept == 1:
        return smallest(_MAX_CHUNKS, -(-total // CHUNK))
    real = [d for d, n in enumerate(shape) if n != 1]
    if real[-1] in dims or real[0] not in dims:  # rows: one unit per kept index
        return greatest(1, smallest(32, total // (kept * CHUNK))) if kept < 16 and total >= 2 * kept * CHUNK else 1
    blocks = -(-kept // 64)
    longest = shape[real[0]] // 32
    return greatest(1, smallest(16 // blocks, longest, total // (2 * CHUNK))) if blocks < 8 else 1


def _chunked(b: Builder, v: Value) -> Value | None:
    """A long reduction to few results: one partial result per chunk of the outermost reduced loop, then their sum."""
    x = v.srcs[0]
    if 0 in x.shape:
        return None
    chunks = chunk_count(x.shape, v.params)
    if chunks == 1:
        return None
    partial = b.make("partial_" + v.op[7:], (x,), (v.params, chunks), (chunks, *v.shape), v.dtype)
    return b.reshape(b.reduce(v.op[7:], partial, (0,)), v.shape)


def _argreduce(b: Builder, v: Value) -> Value | None:
    """The first index whose element is the extreme; a NaN is extreme."""
    x, dim = v.srcs[0], v.params
    best = b.reduce("max" if v.op == "argmax" else "min", x, (dim,), keepdim=True)
    here = b.eq(x, best)
    if x.dtype.category is FLOATING:
        here = b.or_(here, b.ne(x, x))
    index = b.where(here, b.iota(x.shape, dim), b.const(x.shape[dim], int64, x.shape))
    return b.reduce("min", index, (dim,), keepdim=True)


def _matmul(b: Builder, v: Value) -> Value | None:
    """Products too thin for a register tile become loops: matrix-vector, outer, integer."""
    x, y = v.srcs
    (count, m, k), n = x.shape, y.shape[2]
    if 0 in v.shape:
        return None
    if k == 0:
        return b.const(0, v.dtype, v.shape)
    if "windows" in (x.op, y.op) and v.dtype.category is FLOATING:
        return None
    thin = m == 1 or n == 1 or k == 1
    if not thin and v.dtype.category is FLOATING:
        return None
    left = b.reshape(x, (count, m, k, 1))
    if m == 1 and n > 1:
        # [k, n] order: the vector runs along n, the columns of y
        left, right, dim = b.reshape(x, (count, 1, k, 1)), b.reshape(y, (count, 1, k, n)), 2
    elif n == 1:
        left, right, dim = b.reshape(x, (count, m, 1, k)), b.reshape(b.permute(y, (0, 2, 1)), (count, 1, 1, k)), 3
    else:
        right, dim = b.reshape(y, (count, 1, k, n)), 2
    return b.reshape(b.sum(b.mul(left, right), (dim,)), v.shape)


def _is_iota(v: Value, dim: int, extent: int) -> bool:
    """Whether ``v`` counts 0, 1, ... along its dimension ``dim``, through casts and broadcasts."""
    while v.op in ("cast", "expand", "reshape"):
        if v.op != "cast":
            kept = [n for n in v.shape if n != 1]
            if v.op == "reshape" and kept != [n for n in v.srcs[0].shape if n != 1]:
                return False
            if v.op == "expand" and len(v.srcs[0].shape) != len(v.shape):
                dim -= len(v.shape) - len(v.srcs[0].shape)
                if dim < 0:
                    return False
        v = v.srcs[0]
    return v.op == "iota" and v.params[0] == dim and dim < len(v.shape) and v.shape[dim] == extent


def _row_select(shape: tuple[int, ...], indices: tuple[Value, ...]) -> bool:
    """``x[arange(rows), column]``."""
    return (
        len(shape) == 2
        and len(indices) == 2
        and indices[0].shape == (shape[0],)
        and _is_iota(indices[0], 0, shape[0])
    )


def _hot(b: Builder, shape: tuple[int, ...], column: Value) -> Value:
    index = b.cast(column, int64)
    # negative columns count from the end; the check reports what is out of range
    index = b.make("check", (index,), (shape[1],), index.shape, int64)
    hot: Value = b.eq(b.iota(shape, 1), b.reshape(index, (shape[0], 1)))
    return hot


_WIDE = 16
"""A row of so many columns or more takes longer to walk than to look into."""
_DEPTH = 6


def _gather(b: Builder, v: Value) -> Value | None:
    x, *indices = v.srcs
    if 0 in x.shape or not _row_select(x.shape, tuple(indices)):
        return None
    if x.shape[1] >= _WIDE:
        found = _at_one_column(b, x, indices, _DEPTH)
        if found is not None:
            return None if found is v else found
    if x.shape[1] > _ONE_HOT_LIMIT:  # a comparison per element fuses, a gather does not, but only rows are walked
        return None
    hot = _hot(b, x.shape, indices[1])
    if x.dtype.category is FLOATING:  # a sum would lose the sign of -0.0
        return b.reduce("max", b.where(hot, x, -math.inf), (1,))
    return b.reduce("max" if x.dtype is bool_ else "sum", b.where(hot, x, 0), (1,))


def _at_one_column(b: Builder, x: Value, indices: Sequence[Value], depth: int) -> Value | None:
    """``x[arange(rows), column]``, computed from one column of what lies in memory; None if ``x`` needs something else.

    Example: of log_softmax(y) it is y[arange(rows), column] - max - log(sum), without a third walk along the rows.
    """
    rows, number = x.shape[0], const_of(x)
    if number is not None:
        return b.const(number, x.dtype, (rows,))
    table = _in_memory(x)
    if table is not None:
        zero = b.const(0, int64, (rows,))
        at = iter(indices)
        return b.make("gather", (table, *(zero if n == 1 else next(at) for n in table.shape)), (), (rows,), x.dtype)
    if _is_column(x):
        return b.reshape(x.srcs[0], (rows,))
    if x.op not in POINTWISE or not depth:
        return None
    srcs = [_at_one_column(b, s, indices, depth - 1) for s in x.srcs]
    return None if None in srcs else b.make(x.op, tuple(srcs), x.params, (rows,), x.dtype)  # type: ignore[arg-type]


def _in_memory(x: Value) -> Value | None:
    """What ``x``, a matrix, lies in memory as, perhaps with dims of 1: an input, a product, or what is added to it."""
    base = x
    while base.op == "reshape":
        base = base.srcs[0]
    if 1 in x.shape or [n for n in base.shape if n != 1] != [*x.shape]:
        return None
    if base.op in ("input", "matmul"):
        return base
    is_epilogue = base.op in POINTWISE and any(_is_product(s) for s in base.srcs)
    return base if is_epilogue and not any(_is_column(s) for s in base.srcs) else None


def _is_product(x: Value) -> bool:
    while x.op == "reshape":
        x = x.srcs[0]
    return x.op == "matmul"


def _is_column(x: Value) -> bool:
    """Whether ``x`` is one number per row, as its largest element is: a product's loop does not know it."""
    return x.op == "expand" and x.srcs[0].shape == (x.shape[0], 1)


def _scatter(b: Builder, v: Value) -> Value | None:
    """A scatter becomes a comparison per element, or an update in place of a copy of its base."""
    if v.params == "in place":
        return None
    base, src, *indices = v.srcs
    if 0 in v.shape or 0 in src.shape:
        return base
    if v.shape[1:] and v.shape[1] <= _ONE_HOT_LIMIT and _row_select(v.shape, tuple(indices)):
        new: Value = b.expand(b.reshape(src, (v.shape[0], 1)), v.shape)
        if v.op != "scatter_set" and not (v.op == "scatter_add" and const_of(base) == 0):
            new = b.pointwise(v.op[8:], base, new)
        return b.pointwise("where", _hot(b, v.shape, indices[1]), new, base)
    # a copy of its own: two scatters must not share the buffer that they update
    own = b.make("copy", (base,), ("base of", v.op, id(src), *map(id, indices)), v.shape, v.dtype)
    return b.make(v.op, (own, src, *indices), "in place", v.shape, v.dtype)


def _pad_of_nothing(b: Builder, v: Value) -> Value | None:
    return b.const(v.params[2], v.dtype, v.shape) if 0 in v.srcs[0].shape else None


def _cat(b: Builder, v: Value) -> Value | None:
    """Each part of a cat becomes a copy: the loop that computes a part stores it at its place in the cat.

    A part that is a cat stays: its own parts are stored in both.
    """
    if 0 in v.shape:
        return b.const(0, v.dtype, v.shape)
    parts = [s for s in v.srcs if s.shape[v.params] != 0]
    if len(parts) == 1:
        return parts[0]
    parts = [s if s.op in ("copy", "cat") else copy_of(b, s) for s in parts]
    return b.cat(parts, v.params) if tuple(parts) != v.srcs else None


def _reduce_of_const(b: Builder, v: Value) -> Value | None:
    """max and min of one number are that number (a sum would have to be rounded like the loop's)."""
    number = const_of(v.srcs[0])
    return None if number is None or 0 in v.srcs[0].shape else b.const(number, v.dtype, v.shape)


_sums = (Rule("reduce nothing", _empty_reduce), Rule("chunks", _chunked))
_extremes = (Rule("reduce nothing", _empty_reduce), Rule("extreme of a constant", _reduce_of_const), *_sums[1:])

DECOMPOSE: dict[str, tuple[Rule, ...]] = {
    "reduce_sum": _sums,
    "reduce_prod": _sums,
    "reduce_max": _extremes,
    "reduce_min": _extremes,
    "argmax": (Rule("argmax by two reductions", _argreduce),),
    "argmin": (Rule("argmin by two reductions", _argreduce),),
    "matmul": (Rule("thin product as a loop", _matmul),),
    "gather": (Rule("one column per row", _gather),),
    **dict.fromkeys(SCATTERS, (Rule("one column per row", _scatter),)),
    "pad": (Rule("pad nothing", _pad_of_nothing),),
    "cat": (Rule("cat of one", _cat),),
}
