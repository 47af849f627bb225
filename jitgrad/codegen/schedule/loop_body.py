"""A kernel's body, prepared for scheduling: what is live, what contracts to multiply-adds, which loops merge.

Owns: ``LoopBody``, ``Store`` and the passes over ``LoopInstr``s.
Must not know: loop order, vectors, argument words.
In: ``LoopBody``. Out: a list of ``LoopInstr``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jitgrad.codegen.fusion.index_map import Expr
from jitgrad.codegen.fusion.lower import LoopInstr
from jitgrad.codegen.schedule.kernel_ir import COMBINING, EFFECTS
from jitgrad.dtypes import FLOATING, DType

__all__ = ["LoopBody", "Store", "contracted", "dims_of", "joined", "live", "merged", "needed", "renumbered", "sided",
           "visits", "with_stores"]  # fmt: skip


class Store(NamedTuple):
    """Store instruction ``reg`` to ``buffer`` at ``address`` (elements; one more coefficient for the chunk number)."""

    reg: int
    buffer: Any
    dtype: DType
    address: Expr
    chunk_stride: int = 0


@dataclass(slots=True)
class LoopBody:
    """What a kernel does, before its loops have an order.

    Attributes:
        extents: of the domain's loops.
        reduced: loops that reductions reduce.
        instrs: see Note [Instructions].
        stores: what must reach memory.
        buffer_of: a value -> where it is read from.
        chunks: partial results of its reductions.
        sequential: loops that must run in order (of a scatter).
        read: ids of the buffers that it reads, once somebody has asked.
    """

    extents: tuple[int, ...]
    reduced: frozenset[int]
    instrs: list[LoopInstr]
    stores: list[Store]
    buffer_of: Any
    chunks: int = 1
    sequential: frozenset[int] = frozenset()
    read: set[int] | None = None


def with_stores(body: LoopBody) -> list[LoopInstr]:
    """The body's instructions, its stores last."""
    stores = [LoopInstr("store", s.dtype, (s.reg,), (s.buffer,), s.address, s.chunk_stride) for s in body.stores]
    return [*body.instrs, *stores]


def _uses(instrs: Sequence[LoopInstr]) -> list[int]:
    uses = [0] * len(instrs)
    for n in range(len(instrs) - 1, -1, -1):
        if uses[n] or instrs[n].op in EFFECTS:
            for s in instrs[n].srcs:
                uses[s] += 1
    return uses


def needed(instrs: Sequence[LoopInstr]) -> list[bool]:
    """Which instructions the stores and other effects need, and these themselves."""
    return [bool(count) or i.op in EFFECTS for count, i in zip(_uses(instrs), instrs, strict=True)]


def contracted(instrs: list[LoopInstr], has_fma: bool) -> list[LoopInstr]:
    """a * b + c in one instruction, where nobody else needs a * b."""
    if not has_fma:
        return instrs
    uses = _uses(instrs)
    out = list(instrs)
    for n, i in enumerate(instrs):
        is_dot = i.op == "reduce_sum" and instrs[i.srcs[0]].op == "mul" and uses[i.srcs[0]] == 1
        if is_dot and i.dtype.category is FLOATING:
            out[n] = i._replace(srcs=out[i.srcs[0]].srcs)
        if i.op not in ("add", "sub") or i.dtype.category is not FLOATING or not uses[n]:
            continue
        x, y = i.srcs
        if instrs[y].op == "mul" and uses[y] == 1:
            out[n] = i._replace(op="fma", srcs=(*out[y].srcs, x), extra=(i.op == "sub", False))
        elif instrs[x].op == "mul" and uses[x] == 1:
            out[n] = i._replace(op="fma", srcs=(*out[x].srcs, y), extra=(False, i.op == "sub"))
    return out


def sided(instrs: list[LoopInstr], extents: tuple[int, ...]) -> list[LoopInstr]:
    """Masks with the bounds that the loop itself does not guarantee."""
    out = []
    for i in instrs:
        if i.op == "mask":
            sides = [("l" if r.lo > 0 else "") + ("h" if r.hi < extents[r.dim] else "") for r in i.extra]
            ranges = zip(i.extra, sides, strict=True)
            i = i._replace(extra=tuple(_Bound(r.dim, r.lo, r.hi, s or "l") for r, s in ranges))
        out.append(i)
    return out


class _Bound(NamedTuple):
    """A ``Range`` with the sides that must be tested."""

    dim: int
    lo: int
    hi: int
    sides: str


def live(instrs: list[LoopInstr]) -> list[LoopInstr]:
    """Without instructions that nothing needs, renumbered."""
    is_needed = needed(instrs)
    new: dict[int, int] = {}
    out: list[LoopInstr] = []
    for n, i in enumerate(instrs):
        if is_needed[n]:
            new[n] = len(out)
            srcs = tuple([new[s] for s in i.srcs])
            out.append(i if srcs == i.srcs else i._replace(srcs=srcs))
    return out


def joined(instrs: list[LoopInstr]) -> list[LoopInstr]:
    """Calls of one function on the same operands as parts of one evaluation: extra (function, all components, own)."""
    together: dict[tuple[Any, ...], dict[Any, None]] = {}
    for i in instrs:
        if i.op == "call":
            together.setdefault((i.extra[0], i.srcs), {})[i.extra[1]] = None
    if not together:
        return instrs
    out = []
    for i in instrs:
        if i.op == "call":
            components = tuple(sorted(together[i.extra[0], i.srcs]))
            i = i._replace(extra=(i.extra[0], components, components.index(i.extra[1])))
        out.append(i)
    return out


def merged(extents: tuple[int, ...], reduced: frozenset[int], instrs: Sequence[LoopInstr]) -> list[tuple[int, ...]]:
    """Runs of neighbouring loops that every access walks through as one."""
    apart = {r.dim for i in instrs if i.op == "mask" for r in i.extra}
    exprs = {i.address for i in instrs if i.address is not None}
    groups = [[0]]
    for d in range(1, len(extents)):
        joint = (
            d not in apart
            and d - 1 not in apart
            and (d in reduced) == (d - 1 in reduced)
            and all(e[d] == e[d + 1] * extents[d] for e in exprs)
        )
        if joint:
            groups[-1].append(d)
        else:
            groups.append([d])
    return [tuple(g) for g in groups]


def renumbered(i: LoopInstr, groups: list[tuple[int, ...]]) -> LoopInstr:
    if i.op == "mask":
        number = {g[0]: n for n, g in enumerate(groups)}
        return i._replace(extra=tuple(r._replace(dim=number[r.dim]) for r in i.extra))
    if i.address is None or len(groups) == len(i.address) - 1:
        return i
    return i._replace(address=(i.address[0], *[i.address[g[-1] + 1] for g in groups]))


def visits(extents: tuple[int, ...], reduced: frozenset[int], instrs: Sequence[LoopInstr], vec: int) -> list[int]:
    """How often each instruction is done when lanes run along ``vec``.

    What depends on a loop inside a unit is done in every iteration, what depends on other dims once per unit, and what
    depends on no dim once.
    """
    reduces = bool(reduced) or any(i.op.startswith("reduce_") for i in instrs)
    every = math.prod(extents)
    inner = reduced if reduces else {vec}
    unit = math.prod(n for d, n in enumerate(extents) if d not in inner)
    inside = _bits(inner)
    counts = []
    for i, own in zip(instrs, dims_of(extents, reduced, instrs), strict=True):
        is_inside = i.op.startswith("reduce_") or own & inside
        counts.append(every if is_inside else unit if own else 1)
    return counts


def dims_of(extents: tuple[int, ...], reduced: frozenset[int], instrs: Sequence[LoopInstr]) -> list[int]:
    """The dims that each instruction depends on, as bits."""
    kept = ~_bits(reduced)
    of_address: dict[Any, int] = {None: 0}
    deps: list[int] = []
    for i in instrs:
        own = of_address.get(i.address)
        if own is None:
            own = of_address[i.address] = _bits(d for d, c in enumerate((i.address or ())[1:]) if c)
        if i.op == "mask":
            own = _bits(r.dim for r in i.extra)
        elif i.op == "acc" or i.op in COMBINING:
            own = _bits(range(len(extents)))
        for s in i.srcs:
            own |= deps[s]
        deps.append(own & kept if i.op.startswith("reduce_") else own)
    return deps


def _bits(dims: Iterable[int]) -> int:
    return sum({1 << d for d in dims})
