"""Updates: values of which a region is replaced, as in-place writes through views leave them.

Owns: the algebra of regions over the primitive ``update``, and the three ways to compute one.
Must not know: kernels, the operations that make updates.

# Note [Updates]
# ~~~~~~~~~~~~~~
# A region is a slice of every dimension. A loop that writes row by row makes a chain of updates:
#   update(update(update(x, v0), v1), v2) ...
# A slice of a chain goes through to what was written there (``READ_THROUGH``), so that the chain itself is only
# computed if all of it is needed. Then there are three cases:
# - an existing storage gets its own value with some regions replaced: only these regions are stored, at their places
#   (``regions_of_write``). Writing a row of a large buffer costs a row;
# - a chain of many narrow regions along one dimension becomes a ``cat`` of what is left of each: every part is stored
#   at its place by the loop that computes it, and no element is visited once per write (``chains_to_cats``);
# - any other update stays: a loop over the whole value takes an element from the region or from what was there.
# Example: ``h[3] = z`` on a leaf buffer h[100, 64] is ``update(h, z, starts (3, 0))``, and stores 64 elements.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from jitgrad.codegen.primitives.builder import POINTWISE, Builder, Value
from jitgrad.codegen.primitives.cost import op_cost
from jitgrad.codegen.primitives.decompose import copy_of
from jitgrad.codegen.primitives.simplify import Rule, topological
from jitgrad.dtypes import bool_
from jitgrad.ops.aval import Aval, contiguous_strides

__all__ = ["READ_THROUGH", "SPREAD", "chains_to_cats", "regions_of_write"]

_MANY = 4  # a chain of this many narrow regions becomes a cat
_NARROW = 4  # a region is narrow if the whole is this many times as large
_CHEAP = 4  # a narrow region gets a kernel of its own if an element costs more vector additions
_BLOCK = 32  # updates of a chain that a read steps over at once
_MAX_STORES = 128  # regions of one storage that are stored one by one
_MOVES = frozenset({"expand", "reshape", "permute", "slice", "copy"})


class _StridedRange(NamedTuple):
    """Elements ``start + i * step`` of one dimension, i below size; step may be negative."""

    start: int
    step: int
    size: int

    @property
    def hull(self) -> tuple[int, int]:
        last = self.start + (self.size - 1) * self.step
        return min(self.start, last), max(self.start, last)


def _runs(params: tuple[tuple[int, ...], tuple[int, ...]], shape: tuple[int, ...]) -> list[_StridedRange]:
    return [_StridedRange(*run) for run in zip(*params, shape, strict=True)]


def _inside(a: _StridedRange, b: _StridedRange) -> bool:
    """Whether all of ``a`` is in ``b``, whose step is positive."""
    if (a.start - b.start) % b.step or (a.size > 1 and a.step % b.step):
        return False
    return b.start <= a.hull[0] and a.hull[1] <= b.hull[1]


def _apart(a: _StridedRange, b: _StridedRange) -> bool:
    """Whether the two surely share no element."""
    if a.hull[1] < b.hull[0] or b.hull[1] < a.hull[0]:
        return True
    return abs(a.step) == abs(b.step) and (a.start - b.start) % a.step != 0


def _slice_of_update(b: Builder, v: Value) -> Value | None:
    """A slice that lies inside the region reads what was written; one that lies outside reads the operand.

    Of a chain of updates, it goes through all that it lies outside of.
    """
    u = v.srcs[0]
    if u.op != "update" or 0 in v.shape:
        return None
    runs = _runs(v.params, v.shape)
    at = u
    while at.op == "update":
        below = _below_block(b, at, runs)
        if below is not None:
            at = below
            continue
        pairs = list(zip(runs, _region(b, at), strict=True))
        if not any([_apart(r, w) for r, w in pairs]):
            if not all([_inside(r, w) for r, w in pairs]):
                break
            starts = [(r.start - w.start) // w.step for r, w in pairs]
            steps = [r.step // w.step if r.size > 1 else 1 for r, w in pairs]
            stops = [s + r.size * t for s, t, (r, _) in zip(starts, steps, pairs, strict=True)]
            return b.slice(at.srcs[1], starts, stops, steps)
        at = at.srcs[0]
    return None if at is u else b.make("slice", (at,), v.params, v.shape, v.dtype)


def _region(b: Builder, u: Value) -> list[_StridedRange]:
    """Where an update writes."""
    found = b.regions.get(u)
    if found is None:
        found = b.regions[u] = _runs(u.params, u.srcs[1].shape)
    return found


def _below_block(b: Builder, u: Value, runs: list[_StridedRange]) -> Value | None:
    """What is below a block of ``_BLOCK`` updates that begins with ``u``, if a slice lies outside of all of them.

    A read far down a chain steps over blocks, so that a chain of n updates with n reads does not cost n * n steps.
    """
    if _depth(b, u) % _BLOCK:
        return None
    block = b.blocks.get(u)
    if block is None:
        regions, at = [], u
        for _ in range(_BLOCK):
            regions.append(_region(b, at))
            at = at.srcs[0]
        hulls = [[run.hull for run in dim] for dim in zip(*regions, strict=True)]
        block = b.blocks[u] = ([(min(h)[0], max([last for _, last in h])) for h in hulls], at)
    for run, (first, last) in zip(runs, block[0], strict=True):
        lo, hi = run.hull
        if hi < first or last < lo:
            return block[1]
    return None


def _depth(b: Builder, u: Value) -> int:
    """How many updates a chain has from ``u`` down."""
    chain = []
    while u.op == "update" and u not in b.depths:
        chain.append(u)
        u = u.srcs[0]
    depth = b.depths.get(u, 0)
    for v in reversed(chain):
        depth += 1
        b.depths[v] = depth
    return depth


def _slice_of_slice(b: Builder, v: Value) -> Value | None:
    """Two slices of an update become one, which ``_slice_of_update`` may then send through."""
    x = v.srcs[0]
    if x.op != "slice" or x.srcs[0].op != "update":
        return None
    (inner, by), (outer, at) = x.params, v.params
    starts = tuple(s + o * t for s, t, o in zip(inner, by, outer, strict=True))
    steps = tuple(s * t for s, t in zip(by, at, strict=True))
    return b.make("slice", (x.srcs[0],), (starts, steps), v.shape, v.dtype)


def _update(b: Builder, v: Value) -> Value | None:
    """An update that writes what is there already, or that covers an earlier one."""
    x, written = v.srcs
    if _leaf(x) is _leaf(written) and _leaf(x).op == "const":
        return x
    if written.op == "slice" and written.srcs[0] is x and written.params == v.params:
        return x
    if x.op != "update":
        return None
    mine, earlier = _runs(v.params, written.shape), _runs(x.params, x.srcs[1].shape)
    if all(_inside(e, m) for e, m in zip(earlier, mine, strict=True)):
        return b.make("update", (x.srcs[0], written), v.params, v.shape, v.dtype)
    return None


def _leaf(v: Value) -> Value:
    while v.op in ("expand", "reshape"):
        v = v.srcs[0]
    return v


READ_THROUGH: dict[str, tuple[Rule, ...]] = {
    "slice": (Rule("slice of an update", _slice_of_update), Rule("slice of a slice of an update", _slice_of_slice)),
    "update": (Rule("nothing new", _update),),
}


def _spread(b: Builder, v: Value) -> Value | None:
    """A region with gaps (a step other than 1): its elements among zeros, and a mask of where they are."""
    x, written = v.srcs
    if all(step == 1 for step in v.params[1]):
        return None
    here = _placed(b, b.const(True, bool_), v, written.shape)
    out: Value = b.where(here, _placed(b, written, v, written.shape), x)
    return out


def _placed(b: Builder, src: Value, v: Value, counts: tuple[int, ...]) -> Value:
    """``src`` at the region's elements, zeros elsewhere: spread by reshape, pad, reshape; then padded to the whole."""
    src = b.expand(src, counts)
    rank = len(counts)
    for d, (start, step) in enumerate(zip(*v.params, strict=True)):
        shape = src.shape
        if step > 1 and shape[d] > 1:
            split = b.reshape(src, (*shape[: d + 1], 1, *shape[d + 1 :]))
            hi = [step - 1 if k == d + 1 else 0 for k in range(rank + 1)]
            src = b.reshape(b.pad(split, [0] * (rank + 1), hi), (*shape[:d], shape[d] * step, *shape[d + 1 :]))
            starts, stops = [0] * rank, list(src.shape)
            stops[d] = (shape[d] - 1) * step + 1
            src = b.slice(src, starts, stops, [1] * rank)
        lo, hi = [0] * rank, [0] * rank
        lo[d], hi[d] = start, v.shape[d] - start - src.shape[d]
        src = b.pad(src, lo, hi)
    return src


SPREAD: dict[str, tuple[Rule, ...]] = {"update": (Rule("region with gaps", _spread),)}


# --- writes to existing storages ---


def regions_of_write(v: Value, into: int, aval: Aval) -> list[tuple[Value, tuple[int, ...], int]] | None:
    """(value, strides, offset) of each region to store, if ``v`` is the storage's own value with regions replaced.

    None: ``v`` is something else, or the regions overlap.
    """
    chain: list[Value] = []
    at = v
    while at.op in ("update", "reshape"):
        if at.op == "update":
            chain.append(at)
        at = at.srcs[0]
    if not chain or len(chain) > _MAX_STORES or at.op != "input" or at.params[0] != into or not aval.is_contiguous:
        return None
    if any(u.shape != chain[0].shape for u in chain):
        return None
    regions = [_runs(u.params, u.srcs[1].shape) for u in chain]
    for k, w in enumerate(regions):
        for other in regions[:k]:
            if not any(_apart(p, q) for p, q in zip(w, other, strict=True)):
                return None
    whole = contiguous_strides(chain[0].shape)
    found = []
    for u, w in zip(chain, regions, strict=True):
        offset = aval.offset + sum(run.start * s for run, s in zip(w, whole, strict=True))
        found.append((u.srcs[1], tuple(run.step * s for run, s in zip(w, whole, strict=True)), offset))
    return found


# --- chains ---


def chains_to_cats(results: Sequence[Value], b: Builder) -> list[Value]:
    """The results, with long chains of narrow updates put together from parts."""
    order = topological(results)
    if not any(v.op == "update" for v in order):
        return list(results)
    readers: dict[Value, int] = {}
    continued: set[Value] = set()
    for v in order:
        for s in v.srcs:
            readers[s] = readers.get(s, 0) + 1
        if v.op == "update":
            continued.add(v.srcs[0])
    for v in results:
        readers[v] = readers.get(v, 0) + 1
    new: dict[int, Value] = {}
    for v in order:
        b.instr = v.instr
        chain: list[Value] = []
        if v.op == "update" and (readers[v] > 1 or v not in continued):
            chain = _chain(v, readers)
        if len(chain) >= _MANY:
            new[id(v)] = _cat(b, chain, new)
        else:
            srcs = [new[id(s)] for s in v.srcs]
            if v.op == "update" and _is_narrow(v) and not _is_cheap(srcs[1]):
                srcs[1] = copy_of(b, srcs[1])
            new[id(v)] = b.make(v.op, tuple(srcs), v.params, v.shape, v.dtype)
    return [new[id(r)] for r in results]


def _chain(top: Value, readers: dict[Value, int]) -> list[Value]:
    """Narrow updates along one dimension from ``top`` down, each read by the next one only."""
    d = _only_dim(top)
    found: list[Value] = []
    at = top
    while at.op == "update" and (at is top or readers[at] == 1) and _only_dim(at) == d is not None and _is_narrow(at):
        found.append(at)
        at = at.srcs[0]
    return found


def _only_dim(v: Value) -> int | None:
    """The one dimension in which the region is smaller than the whole; None if it has gaps, or there are several."""
    part = [d for d, (n, m) in enumerate(zip(v.srcs[1].shape, v.shape, strict=True)) if n != m]
    return part[0] if len(part) == 1 and all(step == 1 for step in v.params[1]) else None


def _is_narrow(v: Value) -> bool:
    return math.prod(v.srcs[1].shape) * _NARROW <= math.prod(v.shape)


def _is_cheap(v: Value) -> bool:
    """Whether a region's values cost so little that a loop over the whole may compute them for every element."""
    cost, waiting = 0, [v]
    while waiting and cost <= _CHEAP:
        at = waiting.pop()
        if at.op not in POINTWISE and at.op not in _MOVES:
            cost += _CHEAP + 1 if at.srcs else 0
        cost += op_cost(at.op)
        waiting.extend(at.srcs)
    return cost <= _CHEAP


def _cat(b: Builder, chain: list[Value], new: dict[int, Value]) -> Value:
    """What is left of each write, and of the value that was written to, side by side."""
    top, bottom = chain[0], chain[-1].srcs[0]
    d = _only_dim(top)
    assert d is not None
    parts: list[tuple[int, int, Value, int]] = []  # (first, end, the value there, the first element of it)
    taken = _Taken()
    for u in chain:  # the last one first: what it writes stays
        lo, source = u.params[0][d], u.srcs[1]
        parts += [(first, end, source, first - lo) for first, end in taken.take(lo, lo + source.shape[d])]
    parts += [(first, end, bottom, first) for first, end in taken.take(0, top.shape[d])]
    parts.sort(key=lambda part: part[0])
    return b.cat([_part(b, new[id(whose)], d, own, end - first) for first, end, whose, own in parts], d)


class _Taken:
    """The places along a dimension that have their value, as ranges that do not touch, in order."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []

    def take(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """Take all places from ``lo`` to ``hi``; returns the ranges of those that were free."""
        firsts, ends = self._firsts, self._ends
        start, stop = bisect_left(ends, lo), bisect_right(firsts, hi)  # the ranges that overlap or touch it
        free, at = [], lo
        for first, end in zip(firsts[start:stop], ends[start:stop], strict=True):
            if at < first:
                free.append((at, first))
            at = max(at, end)
        if at < hi:
            free.append((at, hi))
        firsts[start:stop] = [min([lo, *firsts[start:stop]])]
        ends[start:stop] = [max([hi, *ends[start:stop]])]
        return free


def _part(b: Builder, v: Value, d: int, start: int, count: int) -> Value:
    starts, stops = [0] * len(v.shape), list(v.shape)
    starts[d], stops[d] = start, start + count
    return b.slice(v, starts, stops, [1] * len(v.shape))
