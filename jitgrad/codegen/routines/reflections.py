"""Products of Householder reflections: the texts of matrix routines.

Owns: the bodies of "reflections" and "reflect", see ``primitives/matrices.py``.
Must not know: which operations ask.

Source: E. Anderson et al., "LAPACK users' guide" (1999): geqr2, larfg, orm2r. A reflection is ``I - tau v v^T`` where v
has a one, and below it what stands below the diagonal. R's diagonal has the sign that avoids cancellation.
"""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.codegen.llvm.text import float_literal
from jitgrad.codegen.routines.matrices import StoredMatrix, axpy, call_float, column_blocks, dot
from jitgrad.codegen.routines.rows import RowBuilder

__all__ = ["REFLECTIONS"]


def _apply(b: RowBuilder, factors: StoredMatrix, i: str, tau: str, target: StoredMatrix, column: str) -> None:
    """Apply reflection ``i`` to a column. One whose factor is 0 changes nothing, not even where there are NaNs."""
    kind = factors.kind
    with b.when(b.op(f"fcmp une {kind} {tau}, {float_literal(0.0, kind)}")):
        below = b.op(f"add i64 {i}, 1")
        count = b.op(f"sub i64 {factors.rows}, {below}")
        vector, rest = factors.place(below, i), target.place(below, column)
        head = target.load(i, column)
        along = b.op(f"fmul {kind} {tau}, {b.op(f'fadd {kind} {head}, {dot(b, kind, count, vector, rest)}')}")
        target.store(i, column, b.op(f"fsub {kind} {head}, {along}"))
        axpy(b, kind, count, along, vector, rest)


def _length(b: RowBuilder, m: StoredMatrix, j: str, head: str, largest: str) -> str:
    """That of column ``j`` from the diagonal on; its squares are taken of parts of the largest element: they fit."""
    kind = m.kind
    one = b.op(f"fdiv {kind} {head}, {largest}")
    with b.fold(b.op(f"add i64 {j}, 1"), m.rows, 1, [(kind, b.op(f"fmul {kind} {one}, {one}"))]) as (i, total):
        part = b.op(f"fdiv {kind} {m.load(i, j)}, {largest}")
        total[0] = call_float(b, "fmuladd", kind, part, part, total[0])
    return b.op(f"fmul {kind} {largest}, {call_float(b, 'sqrt', kind, total[0])}")


def _reflection(b: RowBuilder, m: StoredMatrix, j: str) -> str:
    """Make column ``j`` zero below the diagonal: the vector takes the zeros' place. Returns tau."""
    kind, zero = m.kind, float_literal(0.0, m.kind)
    head, below = m.load(j, j), b.op(f"add i64 {j}, 1")
    with b.fold(below, m.rows, 1, [(kind, zero)]) as (i, largest):
        largest[0] = call_float(b, "maximum", kind, call_float(b, "fabs", kind, m.load(i, j)), largest[0])
    with b.when_fold(b.op(f"fcmp une {kind} {largest[0]}, {zero}"), [(kind, zero)]) as tau:
        size = call_float(b, "fabs", kind, head)
        most = call_float(b, "maximum", kind, size, largest[0])
        length = _length(b, m, j, head, most)
        beta = b.op(f"fneg {kind} {call_float(b, 'copysign', kind, length, head)}")
        tau[0] = b.op(f"fdiv {kind} {b.op(f'fsub {kind} {beta}, {head}')}, {beta}")
        scale = b.op(f"fsub {kind} {head}, {beta}")
        with b.loop(below, m.rows) as i:
            m.store(i, j, b.op(f"fdiv {kind} {m.load(i, j)}, {scale}"))
        m.store(j, j, beta)
    return tau[0]


def _reflections(b: RowBuilder) -> None:
    with b.shared(b.outer) as item:
        a, factors = StoredMatrix(b, 0, item, False), StoredMatrix(b, 1, item, True)
        taus = StoredMatrix(b, 2, item, False)
        with b.loop("0", factors.columns) as j, b.loop("0", factors.rows) as i:
            factors.store(i, j, a.load(i, j))
        with b.loop("0", taus.columns) as j:
            tau = _reflection(b, factors, j)
            taus.store("0", j, tau)
            with b.loop(b.op(f"add i64 {j}, 1"), factors.columns) as c:
                _apply(b, factors, j, tau, factors, c)


def _reflect(is_transposed: bool, b: RowBuilder) -> None:
    with b.shared(b.outer) as item:
        factors, taus = StoredMatrix(b, 0, item, True), StoredMatrix(b, 1, item, False)
        given, x, count = StoredMatrix(b, 2, item, False), StoredMatrix(b, 3, item, True), taus.columns
        with b.loop("0", x.columns) as c, b.loop("0", x.rows) as i:
            x.store(i, c, given.load(i, c))
        with column_blocks(b, x) as (first, end), b.loop("0", count) as step:
            last = b.op(f"sub i64 {count}, 1")
            i = step if is_transposed else b.op(f"sub i64 {last}, {step}")
            with b.loop(first, end) as c:
                _apply(b, factors, i, taus.load("0", i), x, c)


REFLECTIONS: dict[str, Callable[..., str | None]] = {"reflections": _reflections, "reflect": _reflect}
"""Kind -> ``body(*flags, b)``."""
