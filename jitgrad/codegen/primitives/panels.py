"""A right operand of several products is laid out for their kernels once.

Owns: ``share_panels``.
Must not know: kernels; which layout they like is a function that it gets.
In: the results of a piece. Out: the same, with operands in panels.

# Note [Shared panels]
# ~~~~~~~~~~~~~~~~~~~~
# A product of few rows copies B into panels as wide as its register tile, and uses each for a few rows only. Where
# several products have one B and cannot be joined, as those of a recurrent weight, which wait for each other, the copy
# is a value: [K, N] as [N / columns, K, columns], row-major, made by a loop before the first of them. The primitive
# ``panels`` is that matrix again, [1, K, N]; only a product's right operand can be one. Its kernel has tiles of just
# these columns and reads the rows of a panel one after the other. No bit changes, see Note [Order of summation].
# Example: h @ U with [20, 256] and [256, 1024] at 35 steps: U is copied once, into 16 panels of [256, 64].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.codegen.primitives.join import is_plain
from jitgrad.codegen.primitives.simplify import order_of
from jitgrad.dtypes import DType
from jitgrad.symbols.advice import advice

__all__ = ["SHARED", "share_panels"]

SHARED = "operand in panels"

_ROWS = range(5, 65)  # with fewer, a product reads B in place; with more, copying it costs little
_LEAST_PRODUCTS = 4
_LEAST_ELEMENTS = 8192  # of the operand

ColumnsOf = Callable[[DType, int, int, int], int]
"""(dtype, m, n, k) to the columns of a panel; 0: none fit."""


def share_panels(results: Sequence[Value], b: Builder, columns_of: ColumnsOf, applied: Counter[str]) -> list[Value]:
    """The results, with panels as right operands. ``applied`` counts the products under ``SHARED``."""
    products: dict[Value, list[Value]] = {}
    order = order_of(results, b)
    for v in order:
        if is_plain(v) and _has_rows(v):
            products.setdefault(v.srcs[1], []).append(v)
    columns = {right: _columns(right, found, columns_of) for right, found in products.items()}
    if not any(columns.values()):
        return list(results)
    panels: dict[Value, Value] = {}
    new: dict[Value, Value] = {}
    for v in order:
        b.instr = v.instr
        srcs = tuple([new[s] for s in v.srcs])
        if v.op == "matmul" and columns.get(v.srcs[1]) and _has_rows(v):
            right = v.srcs[1]
            if right not in panels:
                panels[right] = _in_panels(b, srcs[1], columns[right])
            srcs = (srcs[0], panels[right])
            applied[SHARED] += 1
        new[v] = v if srcs == v.srcs else b.make(v.op, srcs, v.params, v.shape, v.dtype)
    return [new[r] for r in results]


@advice
def _has_rows(product: Value) -> bool:
    """Whether a product has so many rows that panels are of use to it."""
    return _ROWS.start <= product.shape[1] < _ROWS.stop


@advice
def _is_worth_it(k: int, n: int) -> bool:
    """Whether an operand of so many rows and columns is worth a copy."""
    return k * n >= _LEAST_ELEMENTS


def _columns(right: Value, products: Sequence[Value], columns_of: ColumnsOf) -> int:
    """Columns of the panels that ``right`` should lie in; 0: it stays as it is."""
    _, k, n = right.shape
    if len(products) < _LEAST_PRODUCTS or not _is_worth_it(k, n):
        return 0
    return columns_of(right.dtype, max([p.shape[1] for p in products]), n, k)


def _in_panels(b: Builder, right: Value, columns: int) -> Value:
    """``right``, [1, K, N], in panels."""
    _, k, n = right.shape
    cut = b.permute(b.reshape(right, (k, n // columns, columns)), (1, 0, 2))
    copied = b.make("copy", (cut,), (), cut.shape, cut.dtype)
    return b.make("panels", (copied,), (columns,), right.shape, right.dtype)
