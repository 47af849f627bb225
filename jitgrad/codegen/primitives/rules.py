"""The shape and dtype rule of every primitive, computed again from its operands.

Owns: ``check_values``: what ``verify`` asks of the primitives after each pass.
Must not know: how primitives are made (``builder``) or rewritten.
In: values, operands first. Out: nothing, or a ``ValueError`` that names the value and the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jitgrad.codegen.primitives.builder import COMPARISONS, POINTWISE, SCANS, SCATTERS, SORTS, Value
from jitgrad.codegen.primitives.matrices import matrix_results
from jitgrad.dtypes import INTEGER, bool_, float32, float64, int64
from jitgrad.ops.aval import Aval

__all__ = ["check_values"]


def check_values(order: Iterable[Value], inputs: Mapping[int, Aval]) -> None:
    """Every operand comes before its reader, and every shape and dtype follows from the operands'.

    Raises:
        ValueError: with the value as it prints, and what is wrong with it.
    """
    seen: set[Value] = set()
    for v in order:
        for s in v.srcs:
            if s not in seen:
                raise ValueError(f"{v}: its operand {s} is not defined before it")
        seen.add(v)
        rule = _RULES.get(v.op)
        if rule is None:
            raise ValueError(f"{v}: no such primitive")
        try:
            if v.op == "input":
                _require(inputs.get(v.params[0]) is v.params[1], f"%{v.params[0]} is no input of this layout")
            rule(v)
        except ValueError as error:
            raise ValueError(f"{v} of {', '.join(map(repr, v.srcs)) or 'nothing'}: {error}") from None


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _is(v: Value, shape: tuple[int, ...], dtype: Any) -> None:
    _require(v.shape == shape, f"the shape should be {list(shape)}")
    _require(v.dtype is dtype, f"the dtype should be {dtype.name}")


def _input(v: Value) -> None:
    _is(v, v.params[1].shape, v.params[1].dtype)


def _leaf(v: Value) -> None:
    _is(v, (), v.dtype)


def _iota(v: Value) -> None:
    _require(0 <= v.params[0] < len(v.shape), "counts along a dimension that it does not have")


def _pointwise(v: Value) -> None:
    _require(len(v.srcs) == POINTWISE[v.op], f"takes {POINTWISE[v.op]} operands")
    _require(all(s.shape == v.shape for s in v.srcs), "operands have the result's shape")
    operands = v.srcs
    if v.op == "where":
        _require(v.srcs[0].dtype is bool_, "the condition is not bool")
        operands = v.srcs[1:]
    _require(all(s.dtype is operands[0].dtype for s in operands), "operands of two dtypes")
    if v.op not in ("cast", "where"):
        _require(not any(s.dtype.is_short for s in operands), "computes in a short dtype")
    if v.op != "cast":
        _is(v, v.shape, bool_ if v.op in COMPARISONS else operands[0].dtype)


def _call(v: Value) -> None:
    function, _ = v.params
    _require(len(v.srcs) == len(function.kinds), "takes one operand per parameter")
    _require(all(s.shape == v.shape for s in v.srcs), "operands have the result's shape")
    kinds = {"double": float64, "i64": int64, "i1": bool_}
    _require(all(s.dtype is kinds[k] for s, k in zip(v.srcs, function.kinds, strict=True)), "operands of other dtypes")
    _is(v, v.shape, float64)


def _copy(v: Value) -> None:
    _is(v, v.srcs[0].shape, v.srcs[0].dtype)


def _expand(v: Value) -> None:
    x = v.srcs[0]
    _is(v, v.params, x.dtype)
    pairs = zip(x.shape[::-1], v.shape[::-1], strict=False)
    _require(len(x.shape) <= len(v.shape) and all(n in (1, m) for n, m in pairs), "does not broadcast")


def _reshape(v: Value) -> None:
    _is(v, v.params, v.srcs[0].dtype)
    _require(math.prod(v.shape) == math.prod(v.srcs[0].shape), "changes the number of elements")


def _permute(v: Value) -> None:
    x = v.srcs[0]
    _require(sorted(v.params) == list(range(len(x.shape))), "is no permutation")
    _is(v, tuple(x.shape[d] for d in v.params), x.dtype)


def _region(params: tuple[tuple[int, ...], tuple[int, ...]], part: tuple[int, ...], whole: tuple[int, ...]) -> None:
    """Elements ``starts[d] + i * steps[d]``, i below ``part[d]``, all lie inside ``whole``."""
    starts, steps = params
    _require(len(starts) == len(steps) == len(part) == len(whole), "one start and one step per dimension")
    if 0 in part:
        return
    for start, step, n, extent in zip(starts, steps, part, whole, strict=True):
        last = start + (n - 1) * step
        _require(min(start, last) >= 0 and max(start, last) < extent, f"leaves the extent {extent}")


def _slice(v: Value) -> None:
    _is(v, v.shape, v.srcs[0].dtype)
    _region(v.params, v.shape, v.srcs[0].shape)


def _pad(v: Value) -> None:
    x, (lo, hi, _) = v.srcs[0], v.params
    _require(min((*lo, *hi), default=0) >= 0, "removes elements")
    _is(v, tuple(n + a + z for n, a, z in zip(x.shape, lo, hi, strict=True)), x.dtype)


def _windows(v: Value) -> None:
    offset, dims, seen = v.params
    _is(v, tuple(math.prod(n for n, _ in digits) for digits in dims), v.srcs[0].dtype)
    if seen:
        _require(math.prod(axis[0] for axis in seen) == v.shape[2], "sees with other columns than it has")
        _require(v.shape[1] % math.prod(axis[3] for axis in seen) == 0, "sees with other taps than it has")
    if 0 in v.shape:
        return
    steps = [(n - 1) * s for digits in dims for n, s in digits]
    first, last = offset + sum(min(0, s) for s in steps), offset + sum(max(0, s) for s in steps)
    _require(first >= 0 and last < math.prod(v.srcs[0].shape), "leaves its operand")


def _panels(v: Value) -> None:
    (columns,), (count, depth, width) = v.params, v.srcs[0].shape
    _require(width == columns and v.srcs[0].op == "copy", "is made of other panels")
    _is(v, (1, depth, count * columns), v.srcs[0].dtype)


def _update(v: Value) -> None:
    x, written = v.srcs
    _is(v, x.shape, x.dtype)
    _require(written.dtype is x.dtype, "writes another dtype")
    _region(v.params, written.shape, x.shape)


def _kept(x: Value, dims: tuple[int, ...]) -> tuple[int, ...]:
    _require(all(0 <= d < len(x.shape) for d in dims) and len(set(dims)) == len(dims), "reduces dims it does not have")
    return tuple(1 if d in dims else n for d, n in enumerate(x.shape))


def _reduce(v: Value) -> None:
    _is(v, _kept(v.srcs[0], v.params), v.srcs[0].dtype)


def _partial(v: Value) -> None:
    dims, chunks = v.params
    _is(v, (chunks, *_kept(v.srcs[0], dims)), v.srcs[0].dtype)


def _argreduce(v: Value) -> None:
    _is(v, _kept(v.srcs[0], (v.params,)), int64)


def _scan(v: Value) -> None:
    (x,), (dim, is_reversed) = v.srcs, v.params
    _require(0 <= dim < len(x.shape), "walks along a dimension that it does not have")
    _require(not x.dtype.is_short and x.dtype is not bool_, "computes in a short dtype, or in bools")
    _require(not is_reversed or v.op in ("scan_sum", "scan_prod"), "extremes are not reversed")
    _is(v, x.shape, int64 if v.op.startswith("scan_arg") else x.dtype)


def _sort(v: Value) -> None:
    (x,), (dim, _, count) = v.srcs, v.params
    _require(0 <= dim < len(x.shape) and 0 <= count <= x.shape[dim], "takes more elements than there are")
    _require(not x.dtype.is_short and x.dtype is not bool_, "computes in a short dtype, or in bools")
    _is(v, (*x.shape[:dim], count, *x.shape[dim + 1 :]), int64 if v.op == "argsort" else x.dtype)


def _matrix(v: Value) -> None:
    kind, flags, part = v.params
    _require(all(not x.dtype.is_short and 0 not in x.shape for x in v.srcs), "takes no short dtype, and nothing empty")
    _is(v, *matrix_results(kind, [x.shape for x in v.srcs], v.srcs[0].dtype, flags)[part])


def _recurrent(v: Value) -> None:
    form, part = v.params
    *floats, last = v.srcs if form.is_packed else (*v.srcs, v.srcs[0])
    first = floats[0]
    _require(len(v.srcs) == form.operands, "another number of operands")
    _require(all(x.dtype is first.dtype for x in floats) and first.dtype in (float32, float64), "takes floats")
    _require(not form.is_packed or last.dtype is int64, "numbers of rows are int64")
    _require(all(0 not in x.shape for x in v.srcs), "takes nothing empty")
    _is(v, *form.results([x.shape for x in v.srcs], first.dtype)[part])


def _matmul(v: Value) -> None:
    x, y = v.srcs
    _require(len(x.shape) == len(y.shape) == 3 and x.dtype is y.dtype, "takes two batches of matrices of one dtype")
    _require(x.shape[0] == y.shape[0] and x.shape[2] == y.shape[1], "batches or inner extents differ")
    _is(v, (x.shape[0], x.shape[1], y.shape[2]), x.dtype)


def _indices(v: Value, indices: tuple[Value, ...]) -> tuple[int, ...]:
    _require(bool(indices), "has no index")
    _require(all(i.dtype.category is INTEGER for i in indices), "an index is no integer")
    _require(all(i.shape == indices[0].shape for i in indices), "indices of two shapes")
    return indices[0].shape


def _gather(v: Value) -> None:
    x, *indices = v.srcs
    _is(v, _indices(v, tuple(indices)) + x.shape[len(indices) :], x.dtype)


def _check(v: Value) -> None:
    _require(v.srcs[0].dtype.category is INTEGER and v.params[0] >= 0, "checks an integer against an extent")
    _is(v, v.srcs[0].shape, int64)


def _scatter(v: Value) -> None:
    base, src, *indices = v.srcs
    _is(v, base.shape, src.dtype)
    _require(base.dtype is v.dtype, "combines with another dtype")
    _require(src.shape == _indices(v, tuple(indices)) + v.shape[len(indices) :], "the source does not fit the indices")


def _cat(v: Value) -> None:
    d, parts = v.params, v.srcs
    _require(bool(parts) and all(p.dtype is v.dtype for p in parts), "parts of one dtype")
    first = parts[0].shape
    rest = (first[:d], first[d + 1 :])
    _require(all((p.shape[:d], p.shape[d + 1 :]) == rest for p in parts), "parts differ in another dimension")
    _is(v, (*rest[0], sum(p.shape[d] for p in parts), *rest[1]), v.dtype)


def _routine(v: Value) -> None:
    (call,) = v.params
    given = tuple(zip(call.shapes, call.dtypes, strict=True))[: call.count]
    _require(given == tuple((s.shape, s.dtype) for s in v.srcs), "operands of other shapes or dtypes")
    _is(v, *call.results[0])


def _routine_part(v: Value) -> None:
    _require(v.srcs[0].op == "routine" and v.params[0] > 0, "is no part of a routine")
    _is(v, *v.srcs[0].params[0].results[v.params[0]])


_KINDS = ("sum", "max", "min", "prod")
_RULES: dict[str, Callable[[Value], None]] = {
    **dict.fromkeys(POINTWISE, _pointwise),
    **{f"reduce_{kind}": _reduce for kind in _KINDS},
    **{f"partial_{kind}": _partial for kind in _KINDS},
    "call": _call,
    "input": _input,
    "const": _leaf,
    "scalar": _leaf,
    "iota": _iota,
    "copy": _copy,
    "expand": _expand,
    "reshape": _reshape,
    "permute": _permute,
    "slice": _slice,
    "pad": _pad,
    "windows": _windows,
    "panels": _panels,
    "update": _update,
    "argmax": _argreduce,
    "argmin": _argreduce,
    **dict.fromkeys(SCANS, _scan),
    **dict.fromkeys(SORTS, _sort),
    "matrix": _matrix,
    "recurrent": _recurrent,
    "matmul": _matmul,
    "gather": _gather,
    "check": _check,
    **dict.fromkeys(SCATTERS, _scatter),
    "cat": _cat,
    "routine": _routine,
    "routine_part": _routine_part,
}
