"""Scatters into the storage that they are written to.

Owns: ``scatters_in_place``.
Must not know: kernels, their order.
In: results, with copies where stores need them. Out: results.

# Note [Scatters in place]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# A scatter updates a copy of its base, and a write stores the whole copy: for a few rows of a large table both copies
# are nearly all of the work. Where the base is the very input that the result is written to, and nobody else reads the
# result, the scatter's kernel updates the storage itself. Two rules of writes must still hold (Note [In-place writes]).
# Every index is checked before anything is written: a kernel of its own checks the indices and stores them, and the
# scatter reads that copy, so that it cannot fail itself (``plan.may_fail``). All reads of the old contents come before
# the scatter: its source, which may be computed from them, is stored in a buffer first.
# Example: ``table.index_add_(0, rows, updates)`` with 1,024 rows of 500,000 moves 256 KB, not 256 MB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jitgrad.codegen.primitives.builder import SCATTERS, Builder, Value
from jitgrad.codegen.primitives.decompose import copy_of
from jitgrad.codegen.primitives.simplify import order_of
from jitgrad.symbols.advice import within

__all__ = ["is_in_place", "scatters_in_place"]


def is_in_place(v: Value) -> bool:
    """Whether a value is a scatter into an input's own storage."""
    return v.op in SCATTERS and v.srcs[0].op == "input"


def scatters_in_place(
    results: Sequence[Value], stores: Sequence[tuple[int, tuple[int, ...], int]], b: Builder
) -> list[Value]:
    """The results, of which the last ones belong to ``stores`` (input id, strides, offset)."""
    found = list(results)
    if not any([_is_stored_scatter(r) for r in results]):
        return found
    uses = Counter(results)
    for v in order_of(results, b):
        uses.update(v.srcs)
    stored = Counter([into for into, _, _ in stores])
    first = len(results) - len(stores)
    for number, (into, strides, offset) in enumerate(stores, first):
        result = results[number]
        if not _is_stored_scatter(result) or stored[into] != 1:
            continue
        v = result.srcs[0]
        base = v.srcs[0].srcs[0]
        is_alone = uses[result] == uses[v] == uses[v.srcs[0]] == 1
        if is_alone and base.params[0] == into and (base.params[1].stride, base.params[1].offset) == (strides, offset):
            b.instr = v.instr
            checked = [_checked(b, i, n) for i, n in zip(v.srcs[2:], v.shape, strict=False)]
            found[number] = b.make(v.op, (base, copy_of(b, v.srcs[1]), *checked), v.params, v.shape, v.dtype)
    return found


def _checked(b: Builder, index: Value, extent: int) -> Value:
    """An index that is known to be inside: checked in a kernel of its own, unless it is a position."""
    is_inside = index.op == "iota" and within(index.shape[index.params[0]], extent)
    return index if is_inside else copy_of(b, b.check(index, extent))


def _is_stored_scatter(result: Value) -> bool:
    """Whether a result is a copy of a scatter into a copy of an input."""
    if result.op != "copy" or result.srcs[0].op not in SCATTERS:
        return False
    own = result.srcs[0].srcs[0]
    return own.op == "copy" and own.srcs[0].op == "input" and own.srcs[0].dtype is result.dtype
