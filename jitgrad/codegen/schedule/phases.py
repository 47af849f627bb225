"""Phases: which instructions each pass over a row must do.

Owns: ``Phase``, ``split_phases``: dependencies between reductions and their readers, what is kept from pass to pass.
Must not know: LLVM text.
In: ops with the dims that they depend on. Out: one ``Phase`` per pass.

# Note [Phases]
# ~~~~~~~~~~~~~
# A unit passes over its row once per dependent reduction: softmax for the maximum, for the sum, for the result. A value
# that several passes need is computed again in each, which is cheaper than memory traffic; but what is expensive
# (exp, strided lanes) is kept in a buffer on the stack, one row long, if the row is short enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jitgrad.codegen.primitives.cost import EXPENSIVE
from jitgrad.codegen.schedule.kernel_ir import NestKey, Op

__all__ = ["EFFECTS", "Phase", "Phases", "is_reduce", "split_phases"]

EFFECTS = frozenset({"store", "store_add", "check"})
_KEEP_FROM = 10  # an op of this cost is kept rather than done again
_MOST_KEPT = 3


@dataclass(slots=True)
class Phase:
    """One pass over a row.

    Attributes:
        reduces: the reductions it accumulates.
        elems: the elementwise ops it does, in order.
        keep: those of ``elems`` whose values are put into the row buffers.
        recall: those of ``elems`` that come from there.
    """

    reduces: list[int]
    elems: list[int]
    keep: set[int] = field(default_factory=set)
    recall: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Phases:
    """All passes.

    Attributes:
        of: per op, the first pass before (or in) which it can be done.
        is_elem: per op, whether it is done inside the loops.
        passes: one per phase number.
        kept: ops that have a row buffer.
    """

    of: list[int]
    is_elem: list[bool]
    passes: list[Phase]
    kept: list[int]


def is_reduce(op: Op) -> bool:
    return op.op.startswith("reduce_")


def split_phases(key: NestKey, deps: Sequence[int], inner: int) -> Phases:
    """Sort a kernel's ops into passes.

    Args:
        key: the kernel.
        deps: per op, the dims it depends on, as bits.
        inner: the bits of the dims that a unit loops over.
    """
    ops = key.ops
    of = _numbers(ops)
    is_elem = [not is_reduce(op) and bool(deps[n] & inner) for n, op in enumerate(ops)]
    count = max(of, default=0) + 1
    roots = [_roots(ops, of, is_elem, number) for number in range(count)]
    plain = [_closure(ops, is_elem, r, frozenset()) for r in roots]
    kept = _worth_keeping(key, plain) if key.row_buffer else []
    passes: list[Phase] = []
    filled: set[int] = set()
    for number in range(count):
        elems = _closure(ops, is_elem, roots[number], filled)
        reduces = [n for n, op in enumerate(ops) if is_reduce(op) and of[n] == number + 1]
        keep = {n for n in elems if n in kept and n not in filled}
        passes.append(Phase(reduces, sorted(elems), keep, elems & filled))
        filled |= keep
    return Phases(of, is_elem, passes, kept)


def _numbers(ops: Sequence[Op]) -> list[int]:
    of: list[int] = []
    for op in ops:
        own = max((of[s] for s in op.srcs), default=0)
        of.append(own + 1 if is_reduce(op) else own)
    last = max(of, default=0)
    # a store to what the kernel also reads comes when nobody can read it again
    return [last if op.op == "store" and isinstance(op.static, tuple) else n for op, n in zip(ops, of, strict=True)]


def _roots(ops: Sequence[Op], of: list[int], is_elem: list[bool], number: int) -> list[int]:
    effects = [n for n, op in enumerate(ops) if op.op in EFFECTS and is_elem[n] and of[n] == number]
    return effects + [s for n, op in enumerate(ops) if is_reduce(op) and of[n] == number + 1 for s in op.srcs]


def _closure(ops: Sequence[Op], is_elem: list[bool], roots: list[int], filled: set[int] | frozenset[int]) -> set[int]:
    """The elementwise ops that the roots need, stopping at those whose values are kept."""
    needed: set[int] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n not in needed and is_elem[n]:
            needed.add(n)
            if n not in filled:
                stack.extend(ops[n].srcs)
    return needed


def _worth_keeping(key: NestKey, passes: list[set[int]]) -> list[int]:
    """Expensive ops of several passes; of two in one chain the later one (closer to the root) first."""
    found = []
    for n, op in enumerate(key.ops):
        strided = op.op == "load" and op.static[key.vec] == "x"
        dear = strided or EXPENSIVE.get(op.op, 0) >= _KEEP_FROM or op.op == "gather"
        if dear and op.dtype != "bool" and sum(n in p for p in passes) > 1:
            found.append(n)
    return found[-_MOST_KEPT:]
