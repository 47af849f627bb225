"""The primitives that every lowering is written over.

Owns: ``Value``, the primitive vocabulary, and ``Builder``, which makes values with their shapes and dtypes and shares
equal ones (common subexpressions never exist twice).
Must not know: kernels, LLVM, buffers.
In: calls from ``ops`` lowerings. Out: a graph of ``Value``.

# Note [Primitives]
# ~~~~~~~~~~~~~~~~~
# kind        op / params                                     shape
# leaf        input (vid, aval) | const (value) | scalar (RuntimeScalar) | iota (dim)
# pointwise   see POINTWISE; all sources already have the result's shape (Builder expands)
# movement    expand (shape) | reshape (shape) | permute (dims) | slice (starts, stops, steps) | pad (lo, hi, value)
# windows     (offset, digits per dim): elements of the operand's row-major memory, see Note [Windows]
# panels      (columns): a matrix that lies as [panels, K, columns], as a product's right operand [1, K, N];
#             Note [Shared panels]
# update      (starts, steps): the first operand with a region replaced by the second, see Note [Updates]
# reduce      sum max min prod (dims), the reduced dims kept with extent 1
# argreduce   argmax argmin (dim), int64, kept with extent 1, first extreme wins, NaN wins over all
# scan_*      of SCANS: (dim, is_reversed): each element becomes the sum, product or extreme of those up to it, or the
#             extreme's position (int64); of equal ones the last, a NaN from the first one on; Note [Row routines]
# sort        (dim, is_descending, count): the first elements in order; argsort: their positions (int64). Equal ones
#             keep their order; a NaN is larger than all numbers
# matrix      (kind, flags, number of the result): factors and systems of small matrices, see ``matrices.py``
# recurrent   (LayerForm, number of the result): a recurrent layer over all steps, see ``layers.py``
# matmul      [B, M, K] x [B, K, N]; Builder.matmul canonicalises rank and batch
# gather      x[idx0, idx1, ...] over the leading dims of x: shape = idx shape + rest of x; negative indices wrap
# check       (extent): an index, clamped; where it was outside, the program reports an error
# scatter_*   of SCATTERS: a copy of the base with the source combined into x[idx0, idx1, ...], in index order
# cat         (dim)
# call        (function of scalars, component): all sources have the result's shape, see Note [Scalar functions]
# routine     (RoutineCall): its first result; routine_part (number of a result): of the routine; Note [Array kernels]
# copy        the same value in memory of its own        partial_*  (dims, chunks): a reduction in chunks
# Example: ``(x * 2).mean(0)`` of x[4, 3] is
#   v0 = input x: float32[4, 3]     v1 = const 2.0: float32[]       v2 = expand v1: float32[4, 3]
#   v3 = mul v0 v2: float32[4, 3]   v4 = reduce_sum v3 0: [1, 3]    v5 = reshape v4: [3], and a product with 0.25
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgrad.codegen.primitives.indexed_rows import without_positions
from jitgrad.codegen.primitives.layers import LayerForm
from jitgrad.codegen.primitives.matrices import matrix_results
from jitgrad.codegen.scalars.iterations import iteration_function
from jitgrad.dtypes import DType, bool_, float32, float64, int64
from jitgrad.ops.aval import Aval
from jitgrad.symbols.advice import always_equal
from jitgrad.symbols.number import current_env, is_symbolic, lifted

__all__ = ["COMPARISONS", "POINTWISE", "SCANS", "SCATTERS", "SORTS", "Builder", "Value", "is_widening", "memory_of"]

# name -> number of operands
POINTWISE = {
    # float unary
    "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log2": 1, "log10": 1, "log1p": 1, "sqrt": 1, "sin": 1, "cos": 1,
    "tan": 1, "asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1, "tanh": 1, "sigmoid": 1, "erf": 1,
    # any unary
    "neg": 1, "abs": 1, "sign": 1, "floor": 1, "ceil": 1, "trunc": 1, "round": 1, "not": 1, "isnan": 1,
    # binary; max and min propagate NaN; mod has the divisor's sign (Python), fmod the dividend's
    "add": 2, "sub": 2, "mul": 2, "div": 2, "floordiv": 2, "mod": 2, "fmod": 2, "pow": 2, "max": 2, "min": 2,
    "atan2": 2, "copysign": 2, "and": 2, "or": 2, "xor": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2, "eq": 2, "ne": 2,
    # others
    "where": 3, "cast": 1,
}  # fmt: skip
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "isnan"})
SCANS = frozenset({f"scan_{kind}" for kind in ("sum", "prod", "max", "min", "argmax", "argmin")})
SORTS = frozenset({"sort", "argsort"})
SCATTERS = frozenset({"scatter_add", "scatter_set", "scatter_mul", "scatter_max", "scatter_min"})


class Value:
    """One primitive. Identity is equality: ``Builder`` interns.

    Attributes:
        op: a name of Note [Primitives].
        srcs: operands.
        params: static parameters, hashable.
        shape, dtype: of the result.
        instr: index of the recorded instruction it came from, for logs (-1 = none).
    """

    __slots__ = ("dtype", "instr", "op", "params", "shape", "srcs")

    def __init__(
        self, op: str, srcs: tuple[Value, ...], params: Any, shape: tuple[int, ...], dtype: DType, instr: int = -1
    ) -> None:
        self.op, self.srcs, self.params, self.shape, self.dtype, self.instr = op, srcs, params, shape, dtype, instr

    def __repr__(self) -> str:
        return f"{self.op}{self.params if self.params != () else ''}:{self.dtype.name}{list(self.shape)}"


def _are_same(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes are equal: of other ranks, no extents are compared, which would be questions about these."""
    return len(shape) == len(other) and shape == other


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcast of shapes that are known to be compatible."""
    first = shapes[0]
    if all([_are_same(shape, first) for shape in shapes]):
        return first
    rank = max(map(len, shapes))
    out = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if extent != 1:
                out[i] = extent
    return tuple(out)


def is_widening(x: Value) -> bool:
    """Whether ``x`` is a value of a short dtype in its compute dtype, which changes nothing."""
    return x.op == "cast" and x.srcs[0].dtype.is_short and x.dtype is x.srcs[0].dtype.compute


def _merged(digits: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The fewest digits that say the same."""
    out: list[tuple[int, int]] = []
    for extent, stride in digits:
        if extent == 1:
            continue
        if out and out[-1][1] == extent * stride:
            out[-1] = (out[-1][0] * extent, stride)
        else:
            out.append((extent, stride))
    return tuple(out)


def memory_of(windows: Value) -> Value:
    """The value whose memory ``windows`` reads: reshapes do not change where elements are."""
    x = windows.srcs[0]
    while x.op == "reshape":
        x = x.srcs[0]
    return x


class Builder:
    """Makes primitives. Operands may be Values or Python numbers; shapes broadcast; dtypes must already agree.

    A Python number takes the dtype of the other operands. Comparisons give bool. ``b.cast`` is the only conversion, so
    lowerings state every promotion themselves. A value of a short dtype is only moved: what computes widens it first
    (Note [Compute dtypes]), and a movement of what was widened widens what it moved.

    Attributes:
        instr: the number of the recorded instruction that is being lowered.
        settled: ``id`` of a table of rewrite rules -> the values that none of them applies to, see ``rewrite``.
        order: (results, all that they need, operands first), see ``simplify.order_of``.
        regions, depths, blocks: what ``updates.py`` has found out about chains of updates.
    """

    __slots__ = ("_interned", "blocks", "depths", "instr", "order", "regions", "settled")

    def __init__(self) -> None:
        self._interned: dict[tuple[Any, ...], Value] = {}
        self.instr = -1
        self.order: tuple[tuple[Value, ...], list[Value]] = ((), [])
        self.settled: dict[int, set[Value]] = {}
        self.regions: dict[Value, list[Any]] = {}
        self.depths: dict[Value, int] = {}
        self.blocks: dict[Value, tuple[list[tuple[int, int]], Value]] = {}

    def make(self, op: str, srcs: tuple[Value, ...], params: Any, shape: tuple[int, ...], dtype: DType) -> Value:
        """Intern one primitive."""
        key = (op, srcs, params, shape, dtype)
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = Value(op, srcs, params, shape, dtype, self.instr)
        return found

    # leaves
    def input(self, vid: int, aval: Aval) -> Value:
        return self.make("input", (), (vid, aval), aval.shape, aval.dtype)

    def const(self, value: bool | int | float, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
        # repr tells -0.0 from 0.0 and makes NaN equal to itself; the value itself rides along
        if dtype.is_short:
            value = lifted(dtype.number)(value)
        env = current_env()
        if env is not None and isinstance(value, (int, float)):
            value = env.constant(value)
        leaf = self.make("const", (), (repr(value),), (), dtype)
        return self.expand(leaf, shape)

    def scalar(self, runtime_scalar: Any, dtype: DType) -> Value:
        if dtype.is_short:
            return self.cast(self.make("scalar", (), (runtime_scalar,), (), dtype.compute), dtype, True)
        return self.make("scalar", (), (runtime_scalar,), (), dtype)

    def iota(self, shape: tuple[int, ...], dim: int, dtype: DType = int64) -> Value:
        """The index along ``dim``."""
        return self.make("iota", (), (dim,), shape, dtype)

    # pointwise
    def pointwise(self, op: str, *operands: Any) -> Value:
        """Any pointwise primitive but cast; ``where`` takes its condition first."""
        if len(operands) == 2:
            x, y = operands
            is_plain = type(x) is type(y) is Value and x.op != "scalar" != y.op and op != "where"
            if is_plain and _are_same(x.shape, y.shape):
                dtype = x.dtype
                if dtype is y.dtype is dtype.compute:  # no more to do than to make it
                    return self.make(op, operands, (), x.shape, bool_ if op in COMPARISONS else dtype)
        values = [o for o in operands if isinstance(o, Value)]
        typed = values[1:] if op == "where" and isinstance(operands[0], Value) else values
        tensors = [v for v in typed if v.op != "scalar"] or typed
        dtype = tensors[0].dtype.compute if tensors else float32
        srcs = [self.widened(self._operand(o, dtype)) for o in operands]
        shape = broadcast_shape(*[s.shape for s in srcs])
        out = bool_ if op in COMPARISONS else dtype
        return self.make(op, tuple([self.expand(s, shape) for s in srcs]), (), shape, out)

    def __getattr__(self, name: str) -> Any:
        """``b.exp(x)``, ``b.add(x, 1.0)``, ``b.where(c, x, y)``; ``b.and_``, ``b.or_``, ``b.not_`` for keywords."""
        op = name.rstrip("_")
        if op not in POINTWISE:
            raise AttributeError(name)
        return lambda *operands: self.pointwise(op, *operands)

    def _operand(self, x: Any, dtype: DType) -> Value:
        """A number or a run-time scalar in the dtype of the tensors it meets."""
        if not isinstance(x, Value):
            return self.const(x, dtype)
        return self.scalar(x.params[0], dtype) if x.op == "scalar" else x

    def cast(self, x: Any, dtype: DType, is_typed: bool = False) -> Value:
        """``x`` as ``dtype``; a Python number or a run-time scalar (unless ``is_typed``) becomes one of that dtype."""
        if not isinstance(x, Value) or (x.op == "scalar" and not is_typed):
            return self._operand(x, dtype)
        return x if x.dtype is dtype else self.make("cast", (x,), (), x.shape, dtype)

    def widened(self, x: Value) -> Value:
        """``x`` in what is computed in, see Note [Compute dtypes]."""
        return self.cast(x, x.dtype.compute)

    def call(self, function: Any, component: Any, args: Sequence[Value]) -> Value:
        """One component of a function of scalars (Note [Scalar functions]), float64, for each element."""
        shape = broadcast_shape(*[a.shape for a in args])
        srcs = tuple([self.expand(a, shape) for a in args])
        return self.make("call", srcs, (function, component), shape, float64)

    def iterate(self, iteration: Any, *args: Any) -> tuple[Value, ...]:
        """The last state of an ``Iteration`` of the formulas for each element: a function of scalars."""
        values = [self._operand(x, float64) for x in args]
        function = iteration_function(iteration, len(values))
        return tuple([self.call(function, (n, ()), values) for n in range(function.results)])

    # movement
    def expand(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Broadcast ``x`` to ``shape`` (new dims on the left)."""
        return x if always_equal(x.shape, shape) else self._moved("expand", x, shape, shape)

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        return x if always_equal(x.shape, shape) else self._moved("reshape", x, shape, shape)

    def _moved(self, op: str, x: Value, params: Any, shape: tuple[int, ...]) -> Value:
        """A movement; of a value that was widened: widened afterwards, so that less is, or nothing."""
        if is_widening(x):
            return self.cast(self.make(op, x.srcs, params, shape, x.srcs[0].dtype), x.dtype)
        return self.make(op, (x,), params, shape, x.dtype)

    def permute(self, x: Value, dims: tuple[int, ...]) -> Value:
        if dims == tuple(range(len(dims))):
            return x
        return self._moved("permute", x, dims, tuple(x.shape[d] for d in dims))

    def slice(self, x: Value, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]) -> Value:
        """Element ``starts[d] + i * steps[d]`` for i below ceil((stops - starts) / steps); steps may be negative."""
        shape = tuple(
            max(0, -(-(stop - start) // step)) for start, stop, step in zip(starts, stops, steps, strict=True)
        )
        if all(step == 1 for step in steps) and always_equal(shape, x.shape):
            return x
        return self._moved("slice", x, (tuple(starts), tuple(steps)), shape)

    def pad(self, x: Value, lo: Sequence[int], hi: Sequence[int], value: float = 0) -> Value:
        """Constants around ``x``: lo before and hi after, per dimension."""
        if not any(lo) and not any(hi):
            return x
        shape = tuple(n + a + z for n, a, z in zip(x.shape, lo, hi, strict=True))
        return self.make("pad", (x,), (tuple(lo), tuple(hi), value), shape, x.dtype)

    def update(self, x: Value, v: Value, starts: Sequence[int], steps: Sequence[int]) -> Value:
        """``x`` with ``v`` at elements ``starts[d] + i * steps[d]``."""
        if v.shape == x.shape:
            return v
        if is_widening(x):  # what is written is rounded as it would be at the operation's end
            short = x.srcs[0]
            return self.cast(self.update(short, self.cast(v, short.dtype), starts, steps), x.dtype)
        return self.make("update", (x, v), (tuple(starts), tuple(steps)), x.shape, x.dtype)

    def windows(
        self, x: Value, dims: Sequence[Sequence[tuple[int, int]]], offset: int = 0, seen: Sequence[Sequence[int]] = ()
    ) -> Value:
        """Overlapping parts of ``x``: the element at an index is ``x``'s row-major element ``offset`` + what its digits
        add up to. ``dims`` has the digits of each dimension, (extent, stride), see Note [Windows]. ``seen`` says which
        elements of a padded image are padding, which sums may leave out, Note [Regions of a product]."""
        x = self.widened(x)
        digits = tuple(map(_merged, dims))
        shape = tuple(math.prod(n for n, _ in each) for each in digits)
        return self.make("windows", (x,), (offset, digits, tuple(map(tuple, seen))), shape, x.dtype)

    # reductions; dims are non-negative
    def reduce(self, op: str, x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
        """op: sum, max, min or prod, in ``x``'s own dtype (bool: max = any, min = all)."""
        x, dims = self.widened(x), tuple(sorted(dims))
        kept = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
        out = self.make("reduce_" + op, (x,), dims, kept, x.dtype) if dims else x
        return out if keepdim else self.reshape(out, tuple(n for d, n in enumerate(x.shape) if d not in dims))

    def sum(self, x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
        return self.reduce("sum", x, dims, keepdim)

    def argreduce(self, op: str, x: Value, dim: int, keepdim: bool = False) -> Value:
        """op: argmax or argmin."""
        kept = tuple(1 if d == dim else n for d, n in enumerate(x.shape))
        out = self.make(op, (x,), dim, kept, int64)
        return out if keepdim else self.reshape(out, tuple(n for d, n in enumerate(x.shape) if d != dim))

    def scan(self, kind: str, x: Value, dim: int, is_reversed: bool = False) -> Value:
        """kind: "sum" or "prod", which may be reversed; "max", "min", "argmax" or "argmin"."""
        dtype = int64 if kind.startswith("arg") else x.dtype
        return self.make("scan_" + kind, (x,), (dim, is_reversed), x.shape, dtype)

    def sort(self, x: Value, dim: int, is_descending: bool, count: int) -> tuple[Value, Value]:
        """(The first ``count`` elements along a dimension in order, their positions)."""
        shape, params = (*x.shape[:dim], count, *x.shape[dim + 1 :]), (dim, is_descending, count)
        return self.make("sort", (x,), params, shape, x.dtype), self.make("argsort", (x,), params, shape, int64)

    def matrix(self, kind: str, operands: Sequence[Value], *flags: Any) -> tuple[Value, ...]:
        """All results for small matrices, see ``matrices.py``. Flags are part of the routine's text."""
        flags = tuple([x.settled() if is_symbolic(x) else x for x in flags])
        results = matrix_results(kind, [x.shape for x in operands], operands[0].dtype, flags)
        srcs = tuple(operands)
        return tuple([self.make("matrix", srcs, (kind, flags, nr), *of) for nr, of in enumerate(results)])

    def recurrent(
        self, layer: str, operands: Sequence[Value], is_back: bool, is_backward: bool = False, is_packed: bool = False
    ) -> tuple[Value, ...]:
        """All results of a recurrent layer, or of its backward, see ``layers.py``."""
        form = LayerForm(layer, is_backward, is_packed, is_back)
        results = form.results([x.shape for x in operands], operands[0].dtype)
        return tuple([self.make("recurrent", tuple(operands), (form, nr), *of) for nr, of in enumerate(results)])

    # the rest
    def copy(self, x: Value) -> Value:
        """``x`` in memory of its own: who reads it does not compute it again."""
        return self.make("copy", (x,), (), x.shape, x.dtype)

    def matmul(self, x: Value, y: Value) -> Value:
        """[..., M, K] @ [..., K, N] with broadcast batches; both at least rank 2."""
        batch = broadcast_shape(x.shape[:-2], y.shape[:-2])
        (m, k), n = x.shape[-2:], y.shape[-1]
        if batch and len(y.shape) == 2:  # one big product instead of a batch of small ones
            rows = 1
            for extent in batch:
                rows *= extent
            flat = self.reshape(self.expand(x, (*batch, m, k)), (rows * m, k))
            return self.reshape(self.matmul(flat, y), (*batch, m, n))
        count = 1
        for extent in batch:
            count *= extent
        x3 = self.reshape(self.expand(x, (*batch, m, k)), (count, m, k))
        y3 = self.reshape(self.expand(y, (*batch, k, n)), (count, k, n))
        return self.reshape(self.make("matmul", (x3, y3), (), (count, m, n), x.dtype), (*batch, m, n))

    def gather(self, x: Value, indices: Sequence[Value]) -> Value:
        """``x[i0, i1, ...]`` with integer values that broadcast together, over the leading dims of ``x``."""
        if is_widening(x):
            return self.cast(self.gather(x.srcs[0], indices), x.dtype)
        at = broadcast_shape(*(i.shape for i in indices))
        rows = without_positions(self, x.shape, [self.expand(i, at) for i in indices], POINTWISE)
        return self.make("gather", (x, *rows), (), rows[0].shape + x.shape[len(rows) :], x.dtype)

    def check(self, index: Value, extent: int) -> Value:
        """``index``, made non-negative and clamped below ``extent``; outside, the program reports an error.

        The step is then run again eagerly, whose rule raises what PyTorch raises.
        """
        return self.make("check", (index,), (extent,), index.shape, int64)

    def scatter_add(self, shape: tuple[int, ...], indices: Sequence[Value], src: Value) -> Value:
        """Zeros of ``shape``, then ``out[i0, i1, ...] += src``."""
        return self.scatter("add", self.const(0, src.dtype, shape), indices, src)

    def scatter(self, kind: str, base: Value, indices: Sequence[Value], src: Value) -> Value:
        """A copy of ``base``, then ``out[i0, i1, ...] = kind(out[i0, i1, ...], src)``, one index after the other.

        kind: "add", "mul", "max", "min", or "set": the last one stays. ``src`` has the shape of a gather's result.
        """
        at = broadcast_shape(*(i.shape for i in indices))
        if 0 in base.shape or 0 in at:  # a bad index writes element 0, and there is none
            return base
        if base.dtype is bool_:
            kind = {"add": "max", "mul": "min"}.get(kind, kind)
        srcs = (base, src, *without_positions(self, base.shape, [self.expand(i, at) for i in indices], POINTWISE))
        return self.make("scatter_" + kind, srcs, (), base.shape, base.dtype)

    def as_stored(self, value: Value, like: Value) -> Value:
        """``value`` as it comes back from memory of the dtype that ``like`` was stored in: rounded, or wrapped."""
        return self.cast(self.cast(value, like.srcs[0].dtype), like.dtype) if is_widening(like) else value

    def routine(self, call: Any, operands: Sequence[Value]) -> tuple[Value, ...]:
        """All results of a function of whole arrays, see Note [Array kernels]. Operands keep their own dtypes."""
        (shape, dtype), *rest = call.results
        first = self.make("routine", tuple(operands), (call,), shape, dtype)
        return first, *(self.make("routine_part", (first,), (n,), *of) for n, of in enumerate(rest, 1))

    def cat(self, xs: Sequence[Value], dim: int) -> Value:
        if all(map(is_widening, xs)) and len({x.srcs[0].dtype for x in xs}) == 1:
            return self.cast(self.cat([x.srcs[0] for x in xs], dim), xs[0].dtype)
        first = xs[0].shape
        total = sum(x.shape[dim] for x in xs)
        return self.make("cat", tuple(xs), dim, (*first[:dim], total, *first[dim + 1 :]), xs[0].dtype)


def _pointwise_method(op: str) -> Any:
    def method(self: Builder, *operands: Any) -> Value:
        return self.pointwise(op, *operands)

    return method


for _op in POINTWISE:  # to find them by ``__getattr__`` costs more than what most of them do
    if _op not in vars(Builder):
        setattr(Builder, _op, _pointwise_method(_op))
