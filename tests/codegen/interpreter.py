"""Primitives by NumPy, and programs by a plain loop over their launches: reference and subject of codegen's tests."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jitgrad.abi import EagerStep, NativeStep, Program
from jitgrad.codegen.pipeline import compile_segment
from jitgrad.codegen.primitives.builder import SCANS, SCATTERS, SORTS, Builder, Value
from jitgrad.codegen.primitives.simplify import const_of, topological
from jitgrad.codegen.scalars import array_loop
from jitgrad.dtypes import INTEGER, bool_, from_numpy_dtype
from jitgrad.ops.aval import make_aval
from jitgrad.ops.table import OPS, Op
from jitgrad.tracer.recording.graph import Instr, RuntimeScalar, Segment
from tests.codegen.matrix_parts import matrix_parts

ERF = np.vectorize(math.erf, otypes=[np.float64])
UNARY: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.round, "isnan": np.isnan, "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": ERF, "not": np.invert,
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide, "mod": np.mod,
    "fmod": np.fmod, "pow": np.power, "max": np.maximum, "min": np.minimum, "atan2": np.arctan2,
    "copysign": np.copysign, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
REDUCE = {"reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min, "reduce_prod": np.prod}


def evaluate(roots: Sequence[Value], inputs: dict[int, np.ndarray], scalars: Sequence[float] = ()) -> list[np.ndarray]:
    """The primitives' meaning, Note [Primitives], by NumPy; float32 is computed in float64 and rounded each time."""
    env: dict[int, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for v in topological(roots):
            args = [env[id(s)] for s in v.srcs]
            env[id(v)] = np.asarray(_one(v, args, inputs, scalars)).astype(v.dtype.np).reshape(v.shape)
    return [env[id(r)] for r in roots]


def _one(v: Value, args: list[np.ndarray], inputs: dict[int, np.ndarray], scalars: Sequence[float]) -> Any:
    op, p = v.op, v.params
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in args]
    if op in UNARY:
        return UNARY[op](*wide)
    if op in BINARY:
        return BINARY[op](*wide)
    if op in REDUCE:
        return REDUCE[op](wide[0], axis=p, keepdims=True)
    simple = {
        "input": lambda: inputs[p[0]],
        "const": lambda: np.full((), const_of(v)),
        "scalar": lambda: scalars[p[0].slot],
        "iota": lambda: (
            np.arange(v.shape[p[0]]).reshape([-1 if d == p[0] else 1 for d in range(len(v.shape))])
            + np.zeros(v.shape, int)
        ),
        "cast": lambda: (
            args[0] != 0 if v.dtype is bool_ else np.trunc(wide[0]) if v.dtype.category is INTEGER else wide[0]
        ),
        "where": lambda: np.where(*args),
        "call": lambda: _called(v, args),
        "expand": lambda: np.broadcast_to(args[0], v.shape),
        "reshape": lambda: args[0].reshape(v.shape),
        "permute": lambda: args[0].transpose(p),
        "slice": lambda: args[0][tuple(_indices(s, t, n) for s, t, n in zip(p[0], p[1], v.shape, strict=True))],
        "pad": lambda: np.pad(args[0], list(zip(p[0], p[1], strict=True)), constant_values=p[2]),
        "windows": lambda: args[0].reshape(-1)[_window_indices(*p[:2])],
        "copy": lambda: args[0],
        "panels": lambda: args[0].transpose(1, 0, 2).reshape(v.shape),
        "update": lambda: _updated(args[0], args[1], p),
        "argmax": lambda: np.argmax(args[0], axis=p),
        "argmin": lambda: np.argmin(args[0], axis=p),
        "matmul": lambda: wide[0] @ wide[1],
        "gather": lambda: args[0][tuple(args[1:])],
        "check": lambda: np.clip(np.where(args[0] < 0, args[0] + p[0], args[0]), 0, p[0] - 1),
        **{op: partial(_scatter, v, wide) for op in SCATTERS},
        **{op: partial(_scanned, v, args) for op in SCANS},
        **{op: partial(_sorted, v, args) for op in SORTS},
        "matrix": lambda: matrix_parts(p[0], p[1], args)[p[2]],
        "recurrent": lambda: _recurrent(p[0], wide)[p[1]],
        "cat": lambda: np.concatenate(args, axis=p),
    }
    return simple[op]()


def _recurrent(form: Any, args: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """The results of a layer's NumPy rule, in the primitive's order: states at the ends come last, or not at all."""
    name = f"_{form.layer if form.layer in ('lstm', 'gru') else 'rnn_' + form.layer}_layer"
    name += "_packed" * form.is_packed + "_backward" * form.is_backward
    found: tuple[np.ndarray, ...] = OPS[name].numpy(*args, form.is_back)
    if form.is_backward:
        return found
    ends = 1 + (2 if form.layer == "lstm" else 1)
    outputs, states, kept = found[:1], found[1:ends], found[ends:]
    return (*outputs, *kept[:-1], *states, kept[-1]) if form.is_packed else (*outputs, *kept)


def _indices(start: int, step: int, count: int) -> np.ndarray | slice:
    stop = start + step * count
    return slice(start, None if stop < 0 else stop, step) if count else slice(0, 0)


def _window_indices(offset: int, dims: Sequence[Sequence[tuple[int, int]]]) -> np.ndarray:
    """The places of ``Builder.windows``: the offset, plus what the digits of each index add up to."""
    places = np.full((), offset)
    for digits in dims:
        of_index = np.zeros(1, int)
        for extent, stride in digits:
            of_index = (of_index[:, None] + np.arange(extent) * stride).ravel()
        places = places[..., None] + of_index
    return places


_ACCUMULATE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _sorted(v: Value, args: list[np.ndarray]) -> np.ndarray:
    x, (dim, is_descending, count) = args[0], v.params
    rows = np.moveaxis(x, dim, -1)
    keys = np.where(np.isnan(rows), np.inf, rows) if x.dtype.kind == "f" else rows.astype(object)
    order = np.empty(rows.shape, int)
    for at in np.ndindex(*rows.shape[:-1]):
        pairs = [(bool(np.isnan(y)), key) for y, key in zip(rows[at], keys[at], strict=True)]
        order[at] = sorted(range(len(pairs)), key=pairs.__getitem__, reverse=False)
        if is_descending:
            order[at] = sorted(range(len(pairs))[::-1], key=pairs.__getitem__)[::-1]
    first = order[..., :count]
    out = first if v.op == "argsort" else np.take_along_axis(rows, first, -1)
    return np.moveaxis(out, -1, dim)


def _scanned(v: Value, args: list[np.ndarray]) -> np.ndarray:
    dim, is_reversed = v.params
    x = args[0].astype(np.float64) if args[0].dtype == np.float32 else args[0]
    kind = v.op[5:].removeprefix("arg")
    rows = np.moveaxis(x, dim, -1)
    rows = rows[..., ::-1] if is_reversed else rows
    totals = _ACCUMULATE[kind].accumulate(rows, axis=-1)
    if v.op.startswith("scan_arg"):
        totals = np.array(totals, int)
        for at in np.ndindex(*rows.shape[:-1]):
            best = 0
            for i, y in enumerate(rows[at]):
                beyond = y >= rows[at][best] if kind == "max" else y <= rows[at][best]
                best = i if beyond or y != y else best
                totals[at][i] = best
    return np.moveaxis(totals[..., ::-1] if is_reversed else totals, -1, dim)


def _updated(x: np.ndarray, v: np.ndarray, window: Any) -> np.ndarray:
    out = x.copy()
    out[tuple(_indices(s, t, n) for s, t, n in zip(*window, v.shape, strict=True))] = v
    return out


def _called(v: Value, args: list[np.ndarray]) -> np.ndarray:
    function, component = v.params
    return array_loop.run(function, (component,), [np.ascontiguousarray(a).reshape(v.shape) for a in args])[0]


_COMBINING = {"scatter_add": np.add, "scatter_mul": np.multiply, "scatter_max": np.maximum, "scatter_min": np.minimum}


def _scatter(v: Value, args: list[np.ndarray]) -> np.ndarray:
    base, source, *indices = args
    out = np.array(base)
    if v.op == "scatter_set":
        out[tuple(indices)] = source
    else:
        _COMBINING[v.op].at(out, tuple(indices), source)
    return out


class Case:
    """A segment of one test-only operation whose lowering is ``lower(b, *values)``.

    Attributes:
        segment: what codegen gets.
        program: what it made.
    """

    def __init__(
        self,
        lower: Callable[..., Any],
        arrays: Sequence[np.ndarray],
        writes: Sequence[tuple[int, int]] = (),
        keep: Sequence[int] | None = None,
        scalars: Sequence[float] = (),
    ) -> None:
        """``writes``: (output, input) by number; ``keep``: the outputs handed out (default: those not written)."""
        self.arrays, self.scalars = list(arrays), list(scalars)
        avals = {n: _aval(a) for n, a in enumerate(arrays)}
        runtime = [RuntimeScalar(n, isinstance(s, float)) for n, s in enumerate(scalars)]
        self.lower, self.avals = lower, avals
        values = self.values()
        first = len(arrays)
        outs = tuple(make_aval(v.shape, v.dtype) for v in values)
        vids = tuple(range(first, first + len(outs)))
        op = Op("test", aval=lambda *a: outs, numpy=None, lower=lambda b, *xs: _tuple(lower(b, *xs)), num_inputs=first)
        instr = Instr(op, (*range(first), *runtime), (), vids, outs, tuple(avals.values()))
        written = {n for n, _ in writes}
        kept = [n for n in range(len(outs)) if n not in written] if keep is None else keep
        self.writes = [(first + n, into) for n, into in writes]
        self.segment = Segment([instr], avals, tuple(vids[n] for n in kept), tuple(self.writes))
        self.program = compile_segment(self.segment)

    def values(self) -> list[Value]:
        """The graph, over a builder of its own."""
        b = Builder()
        numbers = enumerate(self.scalars)
        runtime = [b.scalar(RuntimeScalar(n, isinstance(s, float)), _scalar_dtype(s)) for n, s in numbers]
        return list(_tuple(self.lower(b, *(b.input(n, a) for n, a in self.avals.items()), *runtime)))

    @property
    def launches(self) -> int:
        """Kernel launches of one run."""
        return sum(len(s) for step in self.program.steps if isinstance(step, NativeStep) for s in step.stages)

    def expected(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Outputs, and the inputs' contents afterwards."""
        results = evaluate(self.values(), dict(enumerate(self.arrays)), self.scalars)
        after = [a.copy() for a in self.arrays]
        for vid, into in self.writes:
            after[into] = results[vid - len(self.arrays)]
        return [results[vid - len(self.arrays)] for vid in self.segment.outputs], after

    def run(self, grain: int | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The program's outputs, and its inputs afterwards (the arrays given stay as they were)."""
        copies = [_clone(a) for a in self.arrays]
        outputs, self.status = run_program(self.program, dict(enumerate(copies)), self.scalars, grain)
        shapes = {vid: aval for i in self.segment.instrs for vid, aval in zip(i.outputs, i.avals, strict=True)}
        shapes.update(self.segment.inputs)
        made = []
        for vid in self.segment.outputs:
            aval = shapes[vid]
            raw = outputs[vid][: aval.numel * aval.dtype.itemsize]
            made.append(raw.view(aval.dtype.np).reshape(aval.shape))
        return made, copies

    def check(self, rtol: float = 2e-5, atol: float = 1e-5) -> Case:
        """Assert that the program does what the primitives mean."""
        for grain in (None, 1, 3):
            got, after = self.run(grain)
            want, wanted_after = self.expected()
            for x, y in zip([*got, *after], [*want, *wanted_after], strict=True):
                assert x.dtype == y.dtype
                own = rtol if x.dtype.itemsize != 8 else 1e-10
                np.testing.assert_allclose(x, y, rtol=own, atol=atol, equal_nan=True)
        return self


def _scalar_dtype(s: float) -> Any:
    return from_numpy_dtype(np.float64 if isinstance(s, float) else np.int64)


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _aval(a: np.ndarray) -> Any:
    dtype = from_numpy_dtype(a.dtype)
    base = a if a.base is None else a.base
    offset = (a.ctypes.data - base.ctypes.data) // a.itemsize if a.size else 0
    return make_aval(a.shape, dtype, tuple(s // a.itemsize for s in a.strides), offset)


def _clone(a: np.ndarray) -> np.ndarray:
    """A copy with the same layout in a storage of its own."""
    base = a if a.base is None else a.base
    if a.base is None:
        return a.copy(order="K")
    flat = base.copy(order="K")
    return np.ndarray(a.shape, a.dtype, flat, (a.ctypes.data - base.ctypes.data) if a.size else 0, a.strides)


def run_program(
    program: Program, arrays: dict[int, np.ndarray], scalars: Sequence[float], grain: int | None = None
) -> tuple[dict[int, np.ndarray], int]:
    """Run each launch of each step, task by task; returns the outputs' bytes and the status."""
    memory = {vid: (a if a.base is None else a.base) for vid, a in arrays.items()}
    for step in program.steps:
        assert not isinstance(step, EagerStep)
        status = _run_step(step, memory, scalars, grain)
        if status:
            return memory, status
    return memory, 0


def _run_step(step: NativeStep, memory: dict[int, np.ndarray], scalars: Sequence[float], grain: int | None) -> int:
    arena = np.full(step.arena_nbytes + 64, 0xAB, np.uint8)
    start = -arena.ctypes.data % 64
    for vid, nbytes in step.outputs:
        memory[vid] = np.full(nbytes, 0xCD, np.uint8)
    words = [0, *(memory[v].ctypes.data for v in step.inputs), *(memory[v].ctypes.data for v, _ in step.outputs)]
    words.append(arena.ctypes.data + start)
    for slot, is_float in step.scalars:
        words.append(struct.unpack("<q", struct.pack("<d" if is_float else "<q", scalars[slot]))[0])
    bufs = (ctypes.c_int64 * len(words))(*words)
    kernel_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    for stage in step.stages:
        if bufs[0]:  # as the driver does
            break
        for launch in reversed(stage):  # the launches of a stage are independent: any order will do
            args = (ctypes.c_int64 * max(1, len(launch.args)))(*launch.args)
            call = kernel_type(launch.kernel)
            size = grain or launch.grain
            for begin in range(0, launch.units, size):
                call(ctypes.addressof(bufs), ctypes.addressof(args), begin, min(begin + size, launch.units))
    return bufs[0]
