"""Random graphs of primitives against the NumPy interpreter. ``make_graph(seed)`` rebuilds the one that failed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from interpreter import Case

from jitgrad.codegen.primitives.builder import Value
from jitgrad.dtypes import FLOATING, bool_, float32, int64

SEEDS = int(os.environ.get("JITGRAD_FUZZ", "60"))
FIRST = int(os.environ.get("JITGRAD_FUZZ_FIRST", "0"))
EXTENTS = (1, 1, 2, 3, 4, 6, 8, 17, 33)


class Graph:
    """Grows a pool of values by random primitives; every choice comes from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.arrays = [self._array() for _ in range(self.rng.integers(1, 4))]
        self.choices_seed = int(self.rng.integers(1 << 30))
        self.steps = int(self.rng.integers(2, 14))

    def _array(self) -> np.ndarray:
        shape = tuple(int(n) for n in self.rng.choice(EXTENTS, self.rng.integers(0, 4)))
        if self.rng.random() < 0.05:
            shape = (0, *shape)
        dtype = [np.float32, np.float64, np.int64, np.int32][int(self.rng.choice(4, p=[0.7, 0.1, 0.1, 0.1]))]
        x = np.asarray(np.round(self.rng.standard_normal(shape) * 2, 1), dtype)
        if self.rng.random() < 0.3 and x.ndim >= 2:
            x = np.ascontiguousarray(x.T).T
        return x

    def lower(self, b: Any, *inputs: Any) -> list[Value]:
        rng = np.random.default_rng(self.choices_seed)
        pool = list(inputs)
        for _ in range(self.steps):
            made = self._step(b, rng, pool)
            if made is not None and np.prod(made.shape, dtype=np.int64) <= 40_000:
                pool.append(made)
        count = min(len(pool), int(rng.integers(1, 4)))
        roots = [pool[int(i)] for i in rng.choice(len(pool), count, replace=False)]
        return [*roots, pool[-1]]

    def _step(self, b: Any, rng: Any, pool: list[Value]) -> Value | None:
        x = pool[int(rng.integers(len(pool)))]
        names = ("unary", "binary", "reduce", "permute", "reshape", "slice", "pad", "expand", "matmul", "compare",
                 "softmax", "cat", "gather", "argmax", "scatter", "rowwise", "scan", "sort")  # fmt: skip
        return getattr(self, "_" + names[int(rng.integers(len(names)))])(b, rng, pool, x)

    def _unary(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value:
        if not _is_float(x):
            return b.cast(x, float32)
        op = rng.choice(["neg", "abs", "tanh", "sigmoid", "square", "scaled", "sin"])
        if op == "square":
            return b.mul(b.mul(x, 0.25), x)
        return b.sub(b.mul(x, 0.5), 1.25) if op == "scaled" else b.pointwise(str(op), x)

    def _binary(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        for _ in range(4):
            y = pool[int(rng.integers(len(pool)))]
            if y.dtype is x.dtype and x.dtype is not bool_ and _broadcastable(x.shape, y.shape):
                return b.pointwise(str(rng.choice(["add", "sub", "max", "min"])), x, y)
        return None

    def _compare(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value:
        if x.dtype is bool_:
            return b.where(x, 1.5, -0.5)
        c = b.gt(x, 0.0371 if _is_float(x) else 0)  # a number that no sum hits
        return b.where(c, x, b.neg(x)) if rng.random() < 0.5 else c

    def _reduce(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        dims = tuple(d for d in range(len(x.shape)) if rng.random() < 0.5)
        kind = "sum" if x.dtype is not bool_ and rng.random() < 0.6 else str(rng.choice(["max", "min"]))
        if kind != "sum" and 0 in x.shape:
            return None
        out = b.reduce(kind, x, dims, bool(rng.random() < 0.5))
        return b.mul(out, 0.125) if _is_float(x) and kind == "sum" else out

    def _permute(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value:
        return b.permute(x, tuple(int(d) for d in rng.permutation(len(x.shape))))

    def _reshape(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if 0 in x.shape:
            return None
        rest, shape = int(np.prod(x.shape)), []
        for f in (2, 3, 4, 17, 33, 8):
            if rest % f == 0 and rng.random() < 0.5:
                shape.append(f)
                rest //= f
        shape.insert(int(rng.integers(len(shape) + 1)), rest)
        return b.reshape(x, tuple(shape))

    def _slice(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value:
        starts, stops, steps = [], [], []
        for n in x.shape:
            lo = int(rng.integers(0, n)) if n else 0
            hi = int(rng.integers(lo, n)) + 1 if n else 0
            backwards = rng.random() < 0.2 and n > 0
            steps.append(int(rng.integers(1, 3)) * (-1 if backwards else 1))
            starts.append(hi - 1 if backwards else lo)
            stops.append(lo - 1 if backwards else hi)
        return b.slice(x, starts, stops, steps)

    def _pad(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value:
        lo = [int(rng.integers(0, 3)) for _ in x.shape]
        hi = [int(rng.integers(0, 3)) for _ in x.shape]
        return b.pad(x, lo, hi, 0)

    def _expand(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        shape = tuple(int(rng.choice([2, 5, 17])) if n == 1 else n for n in x.shape)
        return b.expand(x, (3, *shape) if len(shape) < 3 and rng.random() < 0.5 else shape)

    def _matmul(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if len(x.shape) < 2 or not _is_float(x):
            return None
        y = b.permute(x, (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2))
        return b.mul(b.matmul(x, y) if rng.random() < 0.5 else b.matmul(y, x), 0.0625)

    def _softmax(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if not x.shape or 0 in x.shape or not _is_float(x):
            return None
        d = (int(rng.integers(len(x.shape))),)
        e = b.exp(b.sub(x, b.reduce("max", x, d, True)))
        return b.div(e, b.sum(e, d, True))

    def _rowwise(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if not x.shape or 0 in x.shape or not _is_float(x):
            return None
        d = (len(x.shape) - 1,)
        c = b.sub(x, b.mul(b.sum(x, d, True), 1.0 / x.shape[-1]))
        var = b.mul(b.sum(b.mul(c, c), d, True), 1.0 / x.shape[-1])
        return b.div(c, b.sqrt(b.add(var, 1e-1)))

    def _cat(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if not x.shape:
            return None
        return b.cat([x, x if x.dtype is bool_ else b.neg(x), x], int(rng.integers(len(x.shape))))

    def _gather(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if not x.shape or x.shape[0] == 0:
            return None
        at = b.sub(b.iota((4, 3), int(rng.integers(2))), 1)
        return b.gather(x, [b.max(b.min(at, x.shape[0] - 1), -x.shape[0])])

    def _scatter(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if not x.shape or not _is_float(x):
            return None
        at = b.max(b.sub(b.iota((x.shape[0],), 0), 2), -2)
        return b.scatter_add((max(4, x.shape[0]), *x.shape[1:]), [at], x)

    def _argmax(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if not x.shape or 0 in x.shape or x.dtype is bool_:
            return None
        out = b.argreduce("argmax", x, int(rng.integers(len(x.shape))), True)
        return out if rng.random() < 0.5 else b.cast(b.min(out, 5), int64)

    def _scan(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if not x.shape or x.dtype is bool_:
            return None
        dim = int(rng.integers(len(x.shape)))
        kind = str(rng.choice(["sum", "max", "min"]))
        if kind != "sum":  # positions of what was computed may differ by a rounding
            return b.scan(kind if _is_float(x) or rng.random() < 0.5 else "arg" + kind, x, dim)
        out = b.scan("sum", x, dim, bool(rng.random() < 0.5))
        return b.mul(out, 0.25) if _is_float(x) else b.max(b.min(out, 100), -100)

    def _sort(self, b: Any, rng: Any, pool: list[Value], x: Value) -> Value | None:
        if not x.shape or x.dtype is bool_:
            return None
        dim = int(rng.integers(len(x.shape)))
        count = int(rng.integers(0, x.shape[dim] + 1)) if rng.random() < 0.5 else x.shape[dim]
        values, places = b.sort(x, dim, bool(rng.random() < 0.5), count)
        return values if _is_float(x) or rng.random() < 0.5 else places


def _is_float(x: Value) -> bool:
    return x.dtype.category is FLOATING


def _broadcastable(a: tuple[int, ...], c: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], c[::-1], strict=False))


def make_graph(seed: int) -> Case:
    graph = Graph(seed)
    writes: list[tuple[int, int]] = []
    if seed % 2:  # store results of the right shape into the inputs' own storages
        values = Case(graph.lower, graph.arrays).values()
        for into, x in enumerate(graph.arrays):
            fits = [n for n, v in enumerate(values) if v.shape == x.shape and v.dtype.np == x.dtype and v.op != "input"]
            if fits:
                writes.append((int(graph.rng.choice(fits)), into))
    return Case(graph.lower, graph.arrays, writes=writes)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_graph(seed: int) -> None:
    make_graph(seed).check(2e-4, 2e-4)
