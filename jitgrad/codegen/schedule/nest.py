"""Scheduling: a group's instructions to a loop nest.

Owns: which loops are merged, which one is vectorised, what a unit of work is, the order of argument words.
Must not know: how nodes were grouped, LLVM text, where buffers lie.
In: ``LoopBody``. Out: ``kernel_ir.LoopKernel``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgrad.codegen.fusion.lower import LoopInstr
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.primitives.cost import op_cost
from jitgrad.codegen.schedule.arg_words import laid_out, shuffle_of
from jitgrad.codegen.schedule.kernel_ir import ACCESSES, COMBINING, KernelInstr, LoopKernel, NestKey
from jitgrad.codegen.schedule.loop_body import (
    LoopBody,
    contracted,
    dims_of,
    joined,
    live,
    merged,
    renumbered,
    sided,
    visits,
    with_stores,
)
from jitgrad.dtypes import FLOATING
from jitgrad.symbols.advice import advice, within
from jitgrad.symbols.number import greatest, similar

__all__ = ["epilogue_instrs", "make_kernel"]

_BLOCK = 4096  # elements per unit of a plain loop
_SHORT_ROW = 64  # elements; to begin a unit costs as much as some vectors,
_LEAST_UNITS = 16  # but all cores should have some
_TILE_BLOCK = 64  # lanes per unit of a tiled loop: whole cache lines of what it writes
_TILED_FROM = 8  # lanes; with fewer a transpose saves nothing
_LANES = 16  # the vector that ``_vector_dim`` has in mind: the choice should not depend on the target
_ROW_BUFFER = 8192  # elements of a row that are kept between phases, see Note [Phases]
_SCATTER_LANES = 64
_MASKED_FROM = 50  # from this cost on, masking every vector is cheaper than compiling the loop's body twice
_STRIDED = 12.0  # cost of loading or storing the lanes of a vector one by one,
_SHUFFLED = 2.5  # and of loading it in other order, Note [Lanes in other order]
_ENDLESS = 30e6  # a loop that may not end must be in reach of Ctrl-C: Note [Interrupting a native step]
_ACROSS = 12.0  # cost of reducing the lanes of a vector to one
_BEGIN = 5.0  # cost of beginning a loop of less than a vector
_LONG = 2 * _LANES  # from here on neither that nor lanes past the end count, lest the choice vary with extents


def make_kernel(body: LoopBody, target: Target) -> LoopKernel:
    """Choose the loops and lay out the argument words."""
    extents = body.extents
    instrs = joined(sided(live(contracted(with_stores(body), target.has_fma)), extents))
    reduced = body.reduced | body.sequential
    if not extents:
        extents = (1,)
        instrs = [i._replace(address=(i.address[0], 0)) if i.address is not None else i for i in instrs]
        reduced = frozenset({0}) if any(i.op.startswith("reduce_") for i in instrs) else frozenset()
    groups = merged(extents, reduced, instrs)
    instrs = [renumbered(i, groups) for i in instrs]
    extents, reduced = (
        tuple(math.prod(extents[d] for d in g) for g in groups),
        frozenset(n for n, g in enumerate(groups) if g[0] in reduced),
    )
    extents = _emptied(extents, reduced)
    vec = _vector_dim(extents, reduced, instrs, bool(body.sequential))
    return _assemble(extents, reduced, instrs, vec, body, target)


def _emptied(extents: tuple[int, ...], reduced: frozenset[int]) -> tuple[int, ...]:
    """Extents of 0 for all dims if a kept one is 0; for all reduced dims if one of them is 0.

    Without it the loops of a tensor of shape (2**62, 0), which has no element, would count to 2**62.
    """
    empty = {d in reduced for d, n in enumerate(extents) if n == 0}
    if False in empty:
        return (0,) * len(extents)
    return tuple(0 if d in reduced and empty else n for d, n in enumerate(extents))


@advice
def _vector_dim(extents: tuple[int, ...], reduced: frozenset[int], instrs: Sequence[LoopInstr], scatter: bool) -> int:
    """The loop along which a vector of elements costs least; the innermost among equals.

    Costs are in vector additions per full vector: strided lanes are loaded one by one, lanes past the end of a short
    loop are wasted, and a reduction across lanes ends with a tree of shuffles.
    """
    if scatter:  # lanes must not meet: the last dim, one lane wide where it is sequential
        return len(extents) - 1
    total = math.prod(extents)
    if not total:
        return len(extents) - 1
    reduces = sum(i.op.startswith("reduce_") for i in instrs)

    def cost(d: int) -> tuple[float, int]:
        shares = [count / total for count in visits(extents, reduced, instrs, d)]
        work = sum(op_cost(i.op) * count for i, count in zip(instrs, shares, strict=True))
        access = 0.0
        for i, count in zip(instrs, shares, strict=True):
            if i.op in ACCESSES:
                stride = i.address[d + 1]  # type: ignore[index]
                access += count * (1 if stride == 1 else 0.5 if stride == 0 else _strided_cost(i, d))
        vectors = -(-extents[d] // _LANES)
        across = _ACROSS * reduces / vectors if d in reduced else 0.0
        begin = _BEGIN if extents[d] < _LANES else 0.0
        if extents[d] >= _LONG:
            return work + access + across, -d
        return ((work + access) * vectors + begin) * _LANES / extents[d] + across, -d

    return min(range(len(extents)), key=cost)


def _strided_cost(i: LoopInstr, d: int) -> float:
    return _SHUFFLED if i.op == "load" and shuffle_of(i, d) else _STRIDED


def _assemble(
    extents: tuple[int, ...],
    reduced: frozenset[int],
    instrs: Sequence[LoopInstr],
    vec: int,
    body: LoopBody,
    target: Target,
) -> LoopKernel:
    units = [d for d in range(len(extents)) if d not in reduced and d != vec]
    seqs = [d for d in range(len(extents)) if d in reduced and d != vec]
    reduces = any(i.op.startswith("reduce_") for i in instrs) or bool(body.sequential)
    form = "row" if vec in reduced else "col" if reduces else "map"
    width = _width(form, extents[vec], instrs, target)
    if body.sequential and form == "col":
        width = _sequential_width(width, extents, vec, instrs, target)
    across = _dim_across(extents, units, vec, instrs) if form == "map" and width >= _TILED_FROM else None
    if across is not None:
        form, units, seqs = "tile", [d for d in units if d != across], [across]
    if form == "map" and not body.sequential and _loops_over_rows(extents, units, vec):
        units, seqs = units[:-1], units[-1:]
    if body.sequential and form == "row":
        width = 1
    chunked = "" if body.chunks == 1 else "seq" if seqs else "vec"
    block, blocks = _blocks(form, extents[vec], width)
    chunk_extent = extents[seqs[0]] if chunked == "seq" else extents[vec]
    chunk = _chunk_length(chunk_extent, body.chunks, width if chunked == "vec" else 1)
    dims = [*units, *seqs, vec]
    words: list[Any] = [extents[d] for d in dims] + [block, blocks, chunk, body.chunks]
    key_instrs, own, count = laid_out(instrs, dims, body, len(words))
    row = 0 if chunked else _row_length(form, extents, seqs, vec, width)
    buffer = _ROW_BUFFER if row and within(row, _ROW_BUFFER) else 0
    dear = sum(op_cost(i.op) for i in instrs) >= _MASKED_FROM
    is_rest = form == "map" and bool(seqs) and similar(extents[vec]) < 2 * width and similar(extents[vec]) != width
    masked = target.has_masks and form != "col" and width > 1 and (dear or is_rest)
    key = NestKey(form, len(units), len(seqs), width, chunked, key_instrs, count, buffer, masked)
    words += own
    is_empty = any(not extents[d] for d in range(len(extents)) if d not in reduced)
    number = 0 if is_empty else math.prod(extents[d] for d in units) * body.chunks * blocks
    return LoopKernel(key, words, number, _cost(instrs, visits(extents, reduced, instrs, vec), width, number), "")


def _loops_over_rows(extents: tuple[int, ...], units: Sequence[int], vec: int) -> bool:
    """Whether a unit of a map should be several short rows."""
    if len(units) < 2 or similar(extents[vec]) > _SHORT_ROW:
        return False
    return math.prod([similar(extents[d]) for d in units[:-1]]) >= _LEAST_UNITS


def _dim_across(extents: tuple[int, ...], units: Sequence[int], vec: int, instrs: Sequence[LoopInstr]) -> int | None:
    """The dim along which loads are contiguous that are strided along the lanes, see Note [Tiles]."""
    for d in units:
        if _are_wide(extents[d], extents[vec]) and any(
            i.op == "load" and not i.srcs and i.address[d + 1] == 1 and i.address[vec + 1] not in (0, 1)  # type: ignore[index]
            for i in instrs
        ):
            return d
    return None


@advice
def _are_wide(*extents: int) -> bool:
    """Whether a tile of these extents saves anything."""
    return min(extents) >= _TILED_FROM


def epilogue_instrs(
    body: LoopBody, shape: tuple[int, ...], target: Target
) -> tuple[tuple[KernelInstr, ...], list[Any], int]:
    """The instructions of a matrix product's epilogue over (batch, row, column), their words, and how many words."""
    instrs = joined(sided(live(contracted(with_stores(body), target.has_fma)), body.extents))
    position = [d for d, n in enumerate(shape) if n != 1]
    out = []
    for i in instrs:
        if i.op == "mask":
            i = i._replace(extra=tuple(r._replace(dim=position[r.dim]) for r in i.extra))
        elif i.address is not None:
            full = [i.address[0], 0, 0, 0]
            for d, c in zip(position, i.address[1:], strict=True):
                full[d + 1] = c
            i = i._replace(address=tuple(full))
        out.append(i)
    return laid_out(out, (0, 1, 2), body, 0)


@advice
def _width(form: str, extent: int, instrs: Sequence[LoopInstr], target: Target) -> int:
    """Lanes: a vector of the widest float, several of them where the loop is light (they hide each other's latency)."""
    floats = [i.dtype.compute.itemsize for i in instrs if i.dtype.category is FLOATING]
    size = max(floats) if floats else max([i.dtype.compute.itemsize for i in instrs if i.op in ACCESSES], default=4)
    lanes = max(1, target.width * 4 // size)
    if lanes == 1:
        return 1
    weight = sum(op_cost(i.op) for i in instrs)
    several = 1 if weight > 24 or form == "map" else 2 if weight > 12 else 4
    enough = lanes * several if form == "col" else 2 * lanes * several
    return lanes * several if extent >= enough else lanes


@advice
def _sequential_width(
    width: int, extents: tuple[int, ...], vec: int, instrs: Sequence[LoopInstr], target: Target
) -> int:
    """Lanes of a scatter: as many as fit where they share an index, for each unit reads and checks all indices again;
    else one vector, so that there are units for all cores."""
    extent = extents[vec]
    dims = dims_of(extents, frozenset(), instrs)
    if any([i.op == "check" and dims[n] >> vec & 1 for n, i in enumerate(instrs)]):
        width = _width("map", extent, instrs, target)
        return 2 * width if width > 1 and 4 * width <= extent else width
    while 1 < width < _SCATTER_LANES and 2 * width <= extent:
        width *= 2
    return width


def _row_length(form: str, extents: tuple[int, ...], seqs: list[int], vec: int, width: int) -> int:
    """Elements of what a unit passes over, if that is one loop; else 0."""
    if form == "row" and not seqs:
        return extents[vec]
    return extents[seqs[0]] * width if form == "col" and len(seqs) == 1 else 0


def _blocks(form: str, extent: int, width: int) -> tuple[int, int]:
    if form == "row":
        return 0, 1
    block = width if form == "col" else _TILE_BLOCK if form == "tile" else _BLOCK
    return block, greatest(1, -(-extent // block))


def _chunk_length(extent: int, chunks: int, step: int) -> int:
    length = -(-extent // chunks)
    return -(-length // step) * step


def _cost(instrs: Sequence[LoopInstr], counts: Sequence[int], width: int, units: int) -> float:
    """Nanoseconds: what each instruction takes per vector, times its vectors."""
    lanes = min(width, 16)
    total = 20.0 + 8.0 * units
    for i, count in zip(instrs, counts, strict=True):
        if i.op == "gather" or i.op in COMBINING:
            total += 1.0 * count
        elif i.op in ACCESSES or i.op.startswith("reduce_"):
            total += 0.25 * count / lanes + 0.02 * count
        else:
            total += 0.25 * op_cost(i.op) * count / lanes
    return max(total, _ENDLESS) if any(i.op == "call" and i.extra[0].may_not_end for i in instrs) else total
