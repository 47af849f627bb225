"""Factors of symmetric matrices that need not be positive definite: the texts of matrix routines.

Owns: the bodies of "ldl" and "ldl_solve", see ``primitives/matrices.py``.
Must not know: which operations ask.

Source: J. R. Bunch and L. Kaufman (1977), "Some stable methods for calculating inertia and solving symmetric linear
systems", as LAPACK's sytf2 and sytrs do it, of the lower triangle.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jitgrad.codegen.llvm.text import float_literal
from jitgrad.codegen.routines.matrices import StoredMatrix, axpy, call_float, dot
from jitgrad.codegen.routines.rows import RowBuilder

__all__ = ["INDEFINITE"]

_ALPHA = (1 + math.sqrt(17)) / 8


class _Numbers:
    """Arithmetic with the elements of a matrix, and with indices."""

    def __init__(self, b: RowBuilder, kind: str) -> None:
        self.b, self.kind = b, kind

    def do(self, op: str, x: str, y: str) -> str:
        return self.b.op(f"{op} {self.kind} {x}, {y}")

    def const(self, value: float) -> str:
        return float_literal(value, self.kind)

    def pick(self, condition: str, x: str, y: str) -> str:
        return self.b.op(f"select i1 {condition}, {self.kind} {x}, {self.kind} {y}")

    def index(self, op: str, x: str, y: str | int) -> str:
        return self.b.op(f"{op} i64 {x}, {y}")

    def size(self, m: StoredMatrix, i: str, j: str) -> str:
        return call_float(self.b, "fabs", self.kind, m.load(i, j))

    def largest(
        self, m: StoredMatrix, first: str, end: str, start: str, place: Callable[[str], tuple[str, str]]
    ) -> str:
        """The largest absolute value among some elements, and ``start``."""
        with self.b.fold(first, end, 1, [(self.kind, start)]) as (index, best):
            size = self.size(m, *place(index))
            best[0] = self.pick(self.do("fcmp ogt", size, best[0]), size, best[0])
        return best[0]


def _swap(b: RowBuilder, m: StoredMatrix, one: tuple[str, str], other: tuple[str, str]) -> None:
    x, y = m.load(*one), m.load(*other)
    m.store(*one, y)
    m.store(*other, x)


def _pivot(s: _Numbers, m: StoredMatrix, k: str) -> tuple[str, str, str]:
    """(The row that comes next, how many rows its block has, whether there is nothing but zeros)."""
    b, kind = s.b, s.kind
    own, below = s.size(m, k, k), s.index("add", k, 1)
    with b.fold(below, m.rows, 1, [(kind, s.const(0.0)), ("i64", k)]) as (i, best):
        size = s.size(m, i, k)
        is_larger = s.do("fcmp ogt", size, best[0])
        best[0] = s.pick(is_larger, size, best[0])
        best[1] = b.op(f"select i1 {is_larger}, i64 {i}, i64 {best[1]}")
    largest, row = best
    widest = s.largest(m, k, row, s.const(0.0), lambda j: (row, j))
    widest = s.largest(m, s.index("add", row, 1), m.rows, widest, lambda i: (i, row))
    bound = s.do("fmul", s.const(_ALPHA), largest)
    is_first = s.do("fcmp oge", own, bound)
    is_second = s.do("fcmp oge", own, s.do("fmul", bound, s.do("fdiv", largest, widest)))
    stays = b.op(f"or i1 {is_first}, {is_second}")
    is_alone = s.do("fcmp oge", s.size(m, row, row), s.do("fmul", s.const(_ALPHA), widest))
    is_nothing = s.do("fcmp ule", s.pick(s.do("fcmp olt", own, largest), largest, own), s.const(0.0))
    stays, is_alone = (b.op(f"or i1 {x}, {is_nothing}") for x in (stays, is_alone))
    at = b.op(f"select i1 {stays}, i64 {k}, i64 {row}")
    return at, b.op(f"select i1 {b.op(f'or i1 {stays}, {is_alone}')}, i64 1, i64 2"), is_nothing


def _exchange(s: _Numbers, m: StoredMatrix, k: str, row: str, is_pair: str) -> None:
    """Exchange a row and its column with those that the block needs."""
    b = s.b
    into = s.index("add", k, b.op(f"zext i1 {is_pair} to i64"))
    with b.when(s.index("icmp ne", into, row)):
        with b.loop(s.index("add", row, 1), m.rows) as i:
            _swap(b, m, (i, into), (i, row))
        with b.loop(s.index("add", into, 1), row) as j:
            _swap(b, m, (j, into), (row, j))
        _swap(b, m, (into, into), (row, row))
        with b.when(is_pair):
            _swap(b, m, (into, k), (row, k))


def _eliminate(s: _Numbers, m: StoredMatrix, k: str) -> None:
    b, below = s.b, s.index("add", k, 1)
    inverse = s.do("fdiv", s.const(1.0), m.load(k, k))
    with b.loop(below, m.columns) as j:
        factor = s.do("fmul", inverse, m.load(j, k))
        axpy(b, s.kind, s.index("sub", m.rows, j), factor, m.place(j, k), m.place(j, j))
    with b.loop(below, m.rows) as i:
        m.store(i, k, s.do("fmul", m.load(i, k), inverse))


def _eliminate_pair(s: _Numbers, m: StoredMatrix, k: str) -> None:
    """The block's inverse is written with its off-diagonal number taken out, against overflow."""
    b, second = s.b, s.index("add", k, 1)
    off = m.load(second, k)
    d11, d22 = s.do("fdiv", m.load(second, second), off), s.do("fdiv", m.load(k, k), off)
    scale = s.do("fdiv", s.const(1.0), s.do("fsub", s.do("fmul", d11, d22), s.const(1.0)))
    scale = s.do("fdiv", scale, off)
    with b.loop(s.index("add", k, 2), m.columns) as j:
        x, y = m.load(j, k), m.load(j, second)
        of_first = s.do("fmul", scale, s.do("fsub", s.do("fmul", d11, x), y))
        of_second = s.do("fmul", scale, s.do("fsub", s.do("fmul", d22, y), x))
        count = s.index("sub", m.rows, j)
        axpy(b, s.kind, count, of_first, m.place(j, k), m.place(j, j))
        axpy(b, s.kind, count, of_second, m.place(j, second), m.place(j, j))
        m.store(j, k, of_first)
        m.store(j, second, of_second)


def _ldl(b: RowBuilder) -> None:
    with b.shared(b.outer) as item:
        a, m = StoredMatrix(b, 0, item, False), StoredMatrix(b, 1, item, True)
        pivots, s = StoredMatrix(b, 2, item, False), _Numbers(b, a.kind)
        with b.loop("0", m.columns) as j:
            with b.loop("0", j) as i:
                m.store(i, j, s.const(0.0))
            with b.loop(j, m.rows) as i:
                m.store(i, j, a.load(i, j))
        with b.repeat([("i64", "0"), ("i64", "0")], lambda at: s.index("icmp slt", at[0], m.rows)) as at:
            k, info = at
            row, step, is_nothing = _pivot(s, m, k)
            is_pair, following = s.index("icmp eq", step, 2), s.index("add", k, 1)
            with b.when(b.op(f"xor i1 {is_nothing}, true")):
                _exchange(s, m, k, row, is_pair)
                with b.when(is_pair):
                    _eliminate_pair(s, m, k)
                with b.when(b.op(f"xor i1 {is_pair}, true")):
                    _eliminate(s, m, k)
            number = s.index("add", row, 1)
            number = b.op(f"select i1 {is_pair}, i64 {s.index('sub', '0', number)}, i64 {number}")
            short = b.op(f"trunc i64 {number} to i32")
            pivots.store("0", k, short)
            with b.when(is_pair):
                pivots.store("0", following, short)
            is_new = b.op(f"and i1 {is_nothing}, {s.index('icmp eq', info, 0)}")
            at[:] = [s.index("add", k, step), b.op(f"select i1 {is_new}, i64 {following}, i64 {info}")]
        b.store(3, item, b.op(f"trunc i64 {at[1]} to i32"))


def _block(s: _Numbers, pivots: StoredMatrix, k: str) -> tuple[str, str]:
    """(The row that was exchanged, whether the block has two rows)."""
    pivot = s.b.op(f"sext i32 {pivots.load('0', k)} to i64")
    size = s.b.op(f"call i64 @llvm.abs.i64(i64 {pivot}, i1 false)")
    s.b.declare("declare i64 @llvm.abs.i64(i64, i1)")
    last = s.index("sub", pivots.columns, 1)
    row = s.b.call("i64", "llvm.smin.i64", f"i64 {s.index('sub', size, 1)}", f"i64 {last}")
    row = s.b.call("i64", "llvm.smax.i64", f"i64 {row}", "i64 0")
    return row, s.index("icmp slt", pivot, 0)


def _by_block(s: _Numbers, m: StoredMatrix, x: StoredMatrix, k: str, c: str) -> None:
    """Divide by a block of two rows."""
    second = s.index("add", k, 1)
    off = m.load(second, k)
    d11, d22 = s.do("fdiv", m.load(k, k), off), s.do("fdiv", m.load(second, second), off)
    scale = s.do("fsub", s.do("fmul", d11, d22), s.const(1.0))
    first, other = s.do("fdiv", x.load(k, c), off), s.do("fdiv", x.load(second, c), off)
    x.store(k, c, s.do("fdiv", s.do("fsub", s.do("fmul", d22, first), other), scale))
    x.store(second, c, s.do("fdiv", s.do("fsub", s.do("fmul", d11, other), first), scale))


def _ldl_solve(b: RowBuilder) -> None:
    with b.shared(b.outer) as item:
        m, pivots = StoredMatrix(b, 0, item, True), StoredMatrix(b, 1, item, False)
        right, x, s = StoredMatrix(b, 2, item, False), StoredMatrix(b, 3, item, True), _Numbers(b, b.types[0])
        with b.loop("0", x.columns) as c:
            with b.loop("0", x.rows) as i:
                x.store(i, c, right.load(i, c))
            _downwards(s, m, pivots, x, c)
            _upwards(s, m, pivots, x, c)


def _downwards(s: _Numbers, m: StoredMatrix, pivots: StoredMatrix, x: StoredMatrix, c: str) -> None:
    """Solve by L, and by D."""
    b = s.b
    with b.repeat([("i64", "0")], lambda at: s.index("icmp slt", at[0], x.rows)) as at:
        k = at[0]
        row, is_pair = _block(s, pivots, k)
        is_pair = b.op(f"and i1 {is_pair}, {s.index('icmp slt', s.index('add', k, 1), x.rows)}")
        step = s.index("add", b.op(f"zext i1 {is_pair} to i64"), 1)
        following = s.index("add", k, step)
        x.swap(s.index("sub", following, 1), c, row)
        count = s.index("sub", x.rows, following)
        with b.loop(k, following) as i:
            axpy(b, s.kind, count, x.load(i, c), m.place(following, i), x.place(following, c))
        with b.when(is_pair):
            _by_block(s, m, x, k, c)
        with b.when(b.op(f"xor i1 {is_pair}, true")):
            x.store(k, c, s.do("fdiv", x.load(k, c), m.load(k, k)))
        at[0] = following


def _upwards(s: _Numbers, m: StoredMatrix, pivots: StoredMatrix, x: StoredMatrix, c: str) -> None:
    """Solve by L transposed."""
    b = s.b
    with b.repeat([("i64", s.index("sub", x.rows, 1))], lambda at: s.index("icmp sge", at[0], 0)) as at:
        k = at[0]
        row, is_pair = _block(s, pivots, k)
        is_pair = b.op(f"and i1 {is_pair}, {s.index('icmp sgt', k, 0)}")
        first, below = s.index("sub", k, b.op(f"zext i1 {is_pair} to i64")), s.index("add", k, 1)
        count = s.index("sub", x.rows, below)
        with b.loop(first, below) as i:
            x.store(i, c, s.do("fsub", x.load(i, c), dot(b, s.kind, count, m.place(below, i), x.place(below, c))))
        x.swap(k, c, row)
        at[0] = s.index("sub", first, 1)


INDEFINITE: dict[str, Callable[..., str | None]] = {"ldl": _ldl, "ldl_solve": _ldl_solve}
"""Kind -> ``body(*flags, b)``."""
