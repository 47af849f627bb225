"""Cholesky and LU factors, triangular systems: the texts of matrix routines.

Owns: the bodies of "cholesky", "lu", "solve", "triangular", "lu_solve" and "permutation", see
``primitives/matrices.py``.
Must not know: which operations ask.

Source: E. Anderson et al., "LAPACK users' guide" (1999): potf2, getf2, trtrs, getrs, column by column. The pivot is the
first of the largest elements.
"""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.codegen.llvm.text import float_literal
from jitgrad.codegen.routines.matrices import StoredMatrix, axpy, call_float, column_blocks, dot, fail, status_of
from jitgrad.codegen.routines.rows import RowBuilder

__all__ = ["FACTORS"]


def _after(b: RowBuilder, index: str) -> str:
    return b.op(f"add i64 {index}, 1")


def _backwards(b: RowBuilder, count: str, step: str) -> str:
    """The index of a walk from the last one to the first."""
    return b.op(f"sub i64 {b.op(f'sub i64 {count}, 1')}, {step}")


def _number(b: RowBuilder, array: int, item: str, value: str) -> None:
    """Write a matrix's number, an i64, as int32."""
    b.store(array, item, b.op(f"trunc i64 {value} to i32"))


def _copy(b: RowBuilder, source: StoredMatrix, target: StoredMatrix) -> None:
    with b.loop("0", target.columns) as j, b.loop("0", target.rows) as i:
        target.store(i, j, source.load(i, j))


# --- cholesky ---


def _cholesky(can_fail: bool, b: RowBuilder) -> str | None:
    status = status_of(b) if can_fail else ""
    with b.shared(b.outer) as item:
        a, factor = StoredMatrix(b, 0, item, False), StoredMatrix(b, 1, item, True)
        with b.loop("0", b.n) as j:
            with b.loop("0", j) as i:
                factor.store(i, j, float_literal(0.0, a.kind))
            with b.loop(j, b.n) as i:
                factor.store(i, j, a.load(i, j))
        with b.fold("0", b.n, 1, [("i64", "0")]) as (j, bad):
            with b.when_fold(b.op(f"icmp eq i64 {bad[0]}, 0"), [("i64", bad[0])]) as found:
                found[0] = _cholesky_column(b, factor, j)
            bad[:] = found
        first = b.op(f"select i1 {b.op(f'icmp ne i64 {bad[0]}, 0')}, i64 {bad[0]}, i64 {b.n}")
        with b.loop(first, b.n) as i, b.loop("0", _after(b, i)) as j:  # rows after the bad one are what they were
            factor.store(i, j, a.load(i, j))
        _number(b, 2, item, bad[0])
        if can_fail:
            fail(b, status, b.op(f"icmp ne i64 {bad[0]}, 0"))
    return b.op(f"load i32, ptr {status}") if can_fail else None


def _cholesky_column(b: RowBuilder, factor: StoredMatrix, j: str) -> str:
    """Column ``j``, of which there are the elements of the matrix. Returns 0, or j + 1: it is not positive definite."""
    kind, top = factor.kind, factor.place(j, j)
    count = b.op(f"sub i64 {factor.rows}, {j}")
    with b.loop("0", j) as k:
        axpy(b, kind, count, factor.load(j, k), factor.place(j, k), top)
    square = b.op(f"load {kind}, ptr {top}")
    is_bad = b.op(f"fcmp ule {kind} {square}, {float_literal(0.0, kind)}")
    root = call_float(b, "sqrt", kind, square)
    b.do(f"store {kind} {b.op(f'select i1 {is_bad}, {kind} {square}, {kind} {root}')}, ptr {top}")
    with b.when(b.op(f"xor i1 {is_bad}, true")), b.loop(_after(b, j), factor.rows) as i:
        factor.store(i, j, b.op(f"fdiv {kind} {factor.load(i, j)}, {root}"))
    return b.op(f"select i1 {is_bad}, i64 {_after(b, j)}, i64 0")


# --- lu ---


def _lu_factor(
    b: RowBuilder, m: StoredMatrix, use_pivot: Callable[[str, str], None], is_bad: Callable[[str], str]
) -> str:
    """Factor ``m`` in place.

    Args:
        use_pivot: is told each step and the row that it exchanges.
        is_bad: whether a pivot, its absolute value, counts as zero.

    Returns:
        0, or the first step with such a pivot, from 1 on.
    """
    kind = m.kind
    steps = b.call("i64", "llvm.smin.i64", f"i64 {m.rows}", f"i64 {m.columns}")
    with b.fold("0", steps, 1, [("i64", "0")]) as (j, info):
        following = _after(b, j)
        start = call_float(b, "fabs", kind, m.load(j, j))
        with b.fold(following, m.rows, 1, [(kind, start), ("i64", j)]) as (i, best):
            size = call_float(b, "fabs", kind, m.load(i, j))
            is_larger = b.op(f"fcmp ogt {kind} {size}, {best[0]}")
            best[0] = b.op(f"select i1 {is_larger}, {kind} {size}, {kind} {best[0]}")
            best[1] = b.op(f"select i1 {is_larger}, i64 {i}, i64 {best[1]}")
        size, at = best
        use_pivot(j, at)
        with b.when(b.op(f"icmp ne i64 {at}, {j}")), b.loop("0", m.columns) as c:
            m.swap(j, c, at)
        pivot, is_first = m.load(j, j), b.op(f"icmp eq i64 {info[0]}, 0")
        is_new = b.op(f"and i1 {is_first}, {is_bad(size)}")
        info[0] = b.op(f"select i1 {is_new}, i64 {following}, i64 {info[0]}")
        with b.when(b.op(f"fcmp une {kind} {pivot}, {float_literal(0.0, kind)}")):
            with b.loop(following, m.rows) as i:
                m.store(i, j, b.op(f"fdiv {kind} {m.load(i, j)}, {pivot}"))
            count = b.op(f"sub i64 {m.rows}, {following}")
            with b.loop(following, m.columns) as c:
                axpy(b, kind, count, m.load(j, c), m.place(following, j), m.place(following, c))
    return info[0]


def _is_zero(b: RowBuilder, kind: str) -> Callable[[str], str]:
    return lambda size: b.op(f"fcmp oeq {kind} {size}, {float_literal(0.0, kind)}")


def _lu(b: RowBuilder) -> None:
    with b.shared(b.outer) as item:
        a, factors = StoredMatrix(b, 0, item, False), StoredMatrix(b, 1, item, True)
        pivots = StoredMatrix(b, 2, item, False)
        _copy(b, a, factors)

        def keep(j: str, at: str) -> None:
            pivots.store("0", j, b.op(f"trunc i64 {_after(b, at)} to i32"))

        _number(b, 3, item, _lu_factor(b, factors, keep, _is_zero(b, a.kind)))


# --- solve ---


def _solve(least: float, b: RowBuilder) -> str:
    status = status_of(b)
    with b.shared(b.outer) as item:
        a, right, x = StoredMatrix(b, 0, item, False), StoredMatrix(b, 1, item, False), StoredMatrix(b, 2, item, True)
        factors, kind = StoredMatrix(b, 3, "%unit", True), a.kind
        _copy(b, a, factors)
        _copy(b, right, x)

        def exchange(j: str, at: str) -> None:
            with b.when(b.op(f"icmp ne i64 {at}, {j}")), b.loop("0", x.columns) as c:
                x.swap(j, c, at)

        is_bad = _is_small(b, factors, least) if least else _is_zero(b, kind)
        info = _lu_factor(b, factors, exchange, is_bad)
        fail(b, status, b.op(f"icmp ne i64 {info}, 0"))
        _eliminate(b, factors, x)
    return b.op(f"load i32, ptr {status}")


def _eliminate(b: RowBuilder, factors: StoredMatrix, x: StoredMatrix) -> None:
    """Solve by both factors in place; the rows of ``x`` have been exchanged."""
    kind = factors.kind
    with column_blocks(b, x) as (first, end):
        with b.loop("0", x.rows) as j:
            below = _after(b, j)
            count = b.op(f"sub i64 {x.rows}, {below}")
            with b.loop(first, end) as c:
                axpy(b, kind, count, x.load(j, c), factors.place(below, j), x.place(below, c))
        with b.loop("0", x.rows) as step:
            j = _backwards(b, x.rows, step)
            with b.loop(first, end) as c:
                value = b.op(f"fdiv {kind} {x.load(j, c)}, {factors.load(j, j)}")
                x.store(j, c, value)
                axpy(b, kind, j, value, factors.place("0", j), x.place("0", c))


def _is_small(b: RowBuilder, m: StoredMatrix, least: float) -> Callable[[str], str]:
    """Whether a pivot is not larger than ``least`` times the largest element; also where one of them is no number."""
    kind = m.kind
    with b.fold("0", m.columns, 1, [(kind, float_literal(0.0, kind))]) as (j, largest):
        with b.fold("0", m.rows, 1, [(kind, largest[0])]) as (i, inner):
            inner[0] = call_float(b, "maximum", kind, call_float(b, "fabs", kind, m.load(i, j)), inner[0])
        largest[:] = inner
    bound = b.op(f"fmul {kind} {largest[0]}, {float_literal(least, kind)}")
    return lambda size: b.op(f"fcmp ule {kind} {size}, {bound}")


# --- triangular systems ---


def _substitute(
    b: RowBuilder, m: StoredMatrix, x: StoredMatrix, is_upper: bool, is_unit: bool, is_turned: bool = False
) -> None:
    """Solve a triangular system in place.

    Args:
        m: whose rows lie in memory; with ``is_turned``, whose columns do and whose transpose is meant.
        is_upper: of the triangle that is meant.
    """
    kind, n = m.kind, x.rows
    with column_blocks(b, x) as (first, end), b.loop("0", n) as step:
        i = _backwards(b, n, step) if is_upper else step
        start = _after(b, i) if is_upper else "0"
        count = step if is_upper else i
        line = m.place(start, i) if is_turned else m.place(i, start)
        with b.loop(first, end) as c:
            value = b.op(f"fsub {kind} {x.load(i, c)}, {dot(b, kind, count, line, x.place(start, c))}")
            x.store(i, c, value if is_unit else b.op(f"fdiv {kind} {value}, {m.load(i, i)}"))


def _triangular(is_upper: bool, is_unit: bool, b: RowBuilder) -> None:
    with b.shared(b.outer) as item:
        a, right, x = StoredMatrix(b, 0, item, False), StoredMatrix(b, 1, item, False), StoredMatrix(b, 2, item, True)
        _copy(b, right, x)
        _substitute(b, a, x, is_upper, is_unit)


def _lu_solve(is_transposed: bool, b: RowBuilder) -> str:
    status = status_of(b)
    with b.shared(b.outer) as item:
        factors, pivots = StoredMatrix(b, 0, item, True), StoredMatrix(b, 1, item, False)
        right, x = StoredMatrix(b, 2, item, False), StoredMatrix(b, 3, item, True)
        _copy(b, right, x)
        if is_transposed:
            _substitute(b, factors, x, False, False, True)
            _substitute(b, factors, x, True, True, True)
        with b.loop("0", x.rows) as step:
            j = _backwards(b, x.rows, step) if is_transposed else step
            pivot = b.op(f"sext i32 {pivots.load('0', j)} to i64")
            row = _inside(b, pivot, x.rows)
            fail(b, status, b.op(f"icmp ne i64 {_after(b, row)}, {pivot}"))
            with b.loop("0", x.columns) as c:
                x.swap(j, c, row)
        if not is_transposed:
            _eliminate(b, factors, x)
    return b.op(f"load i32, ptr {status}")


def _inside(b: RowBuilder, pivot: str, rows: str) -> str:
    """The row of a pivot, from 0 on; of one that is none, a row that there is."""
    row = b.call("i64", "llvm.smax.i64", f"i64 {b.op(f'sub i64 {pivot}, 1')}", "i64 0")
    return b.call("i64", "llvm.smin.i64", f"i64 {row}", f"i64 {b.op(f'sub i64 {rows}, 1')}")


def _permutation(b: RowBuilder) -> str:
    status = status_of(b)
    with b.shared(b.outer) as item:
        pivots, order = StoredMatrix(b, 0, item, False), StoredMatrix(b, 1, item, False)
        with b.loop("0", order.columns) as i:
            order.store("0", i, i)
        with b.loop("0", pivots.columns) as j:
            pivot = b.op(f"sext i32 {pivots.load('0', j)} to i64")
            row = _inside(b, pivot, order.columns)
            fail(b, status, b.op(f"icmp ne i64 {_after(b, row)}, {pivot}"))
            mine, theirs = order.load("0", j), order.load("0", row)
            order.store("0", j, theirs)
            order.store("0", row, mine)
    return b.op(f"load i32, ptr {status}")


FACTORS: dict[str, Callable[..., str | None]] = {
    "cholesky": _cholesky,
    "lu": _lu,
    "solve": _solve,
    "triangular": _triangular,
    "lu_solve": _lu_solve,
    "permutation": _permutation,
}
"""Kind -> ``body(*flags, b)``."""
