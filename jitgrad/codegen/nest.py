"""Scheduling: a group's instructions to a loop nest.

Owns: which loops are merged, which one is vectorised, what a unit of work is, the order of argument words.
Must not know: how nodes were grouped, LLVM text, where buffers lie.
In: ``Body``. Out: ``kernel_ir.Kernel``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jitgrad.codegen.index_map import Expr
from jitgrad.codegen.kernel_ir import Kernel, NestKey, Op, Place
from jitgrad.codegen.lower import Instruction
from jitgrad.codegen.nodes import op_cost
from jitgrad.codegen.target import Target
from jitgrad.dtypes import DType

__all__ = ["Body", "Store", "epilogue_ops", "make_kernel"]

_BLOCK = 4096  # elements per unit of a plain loop
_LANES = 16  # the vector that ``_vector_dim`` has in mind: the choice should not depend on the target
_ROW_BUFFER = 8192  # elements of a row that are kept between phases, see Note [Phases]
_MASKED_FROM = 50  # from this cost on, masking every vector is cheaper than compiling the loop's body twice
_STRIDED = 12.0  # cost of loading or storing the lanes of a vector one by one
_ACROSS = 12.0  # cost of reducing the lanes of a vector to one
_ACCESSES = frozenset({"load", "gather", "store", "store_add"})
_EFFECTS = frozenset({"store", "store_add", "check"})


class Store(NamedTuple):
    """Store instruction ``reg`` to ``buffer`` at ``address`` (elements; one more coefficient for the chunk number)."""

    reg: int
    buffer: Any
    dtype: DType
    address: Expr
    chunk_stride: int = 0


@dataclass(slots=True)
class Body:
    """What a kernel does, before its loops have an order.

    Attributes:
        extents: of the domain's loops.
        reduced: loops that reductions reduce.
        instrs: see Note [Instructions].
        stores: what must reach memory.
        buffer_of: a value -> where it is read from.
        chunks: partial results of its reductions.
        sequential: loops that must run in order (of a scatter).
    """

    extents: tuple[int, ...]
    reduced: frozenset[int]
    instrs: list[Instruction]
    stores: list[Store]
    buffer_of: Any
    chunks: int = 1
    sequential: frozenset[int] = frozenset()


class _Item(NamedTuple):
    """An instruction with its address (if it has one) apart."""

    op: str
    dtype: DType
    srcs: tuple[int, ...]
    extra: Any
    expr: Expr | None
    chunk_stride: int = 0


def make_kernel(body: Body, target: Target) -> Kernel:
    """Choose the loops and lay out the argument words."""
    extents = body.extents
    items = _sided(_live(_contracted(_items(body), target.has_fma)), extents)
    reduced = body.reduced | body.sequential
    if not extents:
        extents = (1,)
        items = [_with_expr(i, (i.expr[0], 0) if i.expr is not None else None) for i in items]
        reduced = frozenset({0}) if any(i.op.startswith("reduce_") for i in items) else frozenset()
    groups = _merged(extents, reduced, items)
    items = [_renumbered(i, groups) for i in items]
    extents, reduced = (
        tuple(math.prod(extents[d] for d in g) for g in groups),
        frozenset(n for n, g in enumerate(groups) if g[0] in reduced),
    )
    vec = _vector_dim(extents, reduced, items, bool(body.sequential))
    return _assemble(extents, reduced, items, vec, body, target)


def _items(body: Body) -> list[_Item]:
    items = []
    for op, dtype, srcs, extra in body.instrs:
        expr = extra if op == "iota" else extra[1] if op in ("load", "gather", "store_add") else None
        items.append(_Item(op, dtype, srcs, extra, expr))
    for s in body.stores:
        items.append(_Item("store", s.dtype, (s.reg,), (s.buffer,), s.address, s.chunk_stride))
    return items


def _with_expr(i: _Item, expr: Expr | None) -> _Item:
    return i._replace(expr=expr)


def _uses(items: Sequence[_Item]) -> list[int]:
    uses = [0] * len(items)
    for n in range(len(items) - 1, -1, -1):
        if uses[n] or items[n].op in _EFFECTS:
            for s in items[n].srcs:
                uses[s] += 1
    return uses


def _contracted(items: list[_Item], has_fma: bool) -> list[_Item]:
    """a * b + c in one instruction, where nobody else needs a * b."""
    if not has_fma:
        return items
    uses = _uses(items)
    out = list(items)
    for n, i in enumerate(items):
        if i.op == "reduce_sum" and i.dtype.category == 2 and items[i.srcs[0]].op == "mul" and uses[i.srcs[0]] == 1:
            out[n] = i._replace(srcs=out[i.srcs[0]].srcs)
        if i.op not in ("add", "sub") or i.dtype.category != 2 or not uses[n]:
            continue
        x, y = i.srcs
        if items[y].op == "mul" and uses[y] == 1:
            out[n] = i._replace(op="fma", srcs=(*out[y].srcs, x), extra=(i.op == "sub", False))
        elif items[x].op == "mul" and uses[x] == 1:
            out[n] = i._replace(op="fma", srcs=(*out[x].srcs, y), extra=(False, i.op == "sub"))
    return out


def _sided(items: list[_Item], extents: tuple[int, ...]) -> list[_Item]:
    """Masks with the bounds that the loop itself does not guarantee."""
    out = []
    for i in items:
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


def _live(items: list[_Item]) -> list[_Item]:
    """Without instructions that nothing needs, renumbered."""
    uses = _uses(items)
    new: dict[int, int] = {}
    out: list[_Item] = []
    for n, i in enumerate(items):
        if uses[n] or i.op in _EFFECTS:
            new[n] = len(out)
            out.append(i._replace(srcs=tuple([new[s] for s in i.srcs])))
    return out


def _merged(extents: tuple[int, ...], reduced: frozenset[int], items: Sequence[_Item]) -> list[tuple[int, ...]]:
    """Runs of neighbouring loops that every access walks through as one."""
    apart = {r.dim for i in items if i.op == "mask" for r in i.extra}
    exprs = {i.expr for i in items if i.expr is not None}
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


def _renumbered(i: _Item, groups: list[tuple[int, ...]]) -> _Item:
    if i.op == "mask":
        number = {g[0]: n for n, g in enumerate(groups)}
        return i._replace(extra=tuple(r._replace(dim=number[r.dim]) for r in i.extra))
    if i.expr is None:
        return i
    return i._replace(expr=(i.expr[0], *(i.expr[g[-1] + 1] for g in groups)))


def _vector_dim(extents: tuple[int, ...], reduced: frozenset[int], items: Sequence[_Item], scatter: bool) -> int:
    """The loop along which a vector of elements costs least; the innermost among equals.

    Costs are in vector additions per full vector: strided lanes are loaded one by one, lanes past the end of a short
    loop are wasted, and a reduction across lanes ends with a tree of shuffles.
    """
    if scatter:  # lanes must not meet: only a kept dim, else the last one, one lane wide
        kept = [d for d in range(len(extents)) if d not in reduced]
        return kept[-1] if kept else len(extents) - 1
    total = math.prod(extents)
    if not total:
        return len(extents) - 1
    visits = [count / total for count in _visits(extents, reduced, items)]
    reduces = sum(i.op.startswith("reduce_") for i in items)
    work = sum(op_cost(i.op) * count for i, count in zip(items, visits, strict=True))

    def cost(d: int) -> tuple[float, int]:
        access = 0.0
        for i, count in zip(items, visits, strict=True):
            if i.op in _ACCESSES:
                stride = i.expr[d + 1]  # type: ignore[index]
                access += count * (1 if stride == 1 else 0.5 if stride == 0 else _STRIDED)
        vectors = -(-extents[d] // _LANES)
        across = _ACROSS * reduces / vectors if d in reduced else 0.0
        return (work + access) * vectors * _LANES / extents[d] + across, -d

    return min(range(len(extents)), key=cost)


def _visits(extents: tuple[int, ...], reduced: frozenset[int], items: Sequence[_Item]) -> list[int]:
    """How often each instruction is done: once per index of the loops that it depends on."""
    deps: list[frozenset[int]] = []
    for i in items:
        own = {d for d, c in enumerate((i.expr or ())[1:]) if c}
        if i.op == "mask":
            own = {r.dim for r in i.extra}
        elif i.op == "acc":
            own = set(range(len(extents)))
        own.update(d for s in i.srcs for d in deps[s])
        if i.op.startswith("reduce_"):
            deps.append(frozenset(own - reduced))
        else:
            deps.append(frozenset(own))
    return [
        math.prod(extents) if i.op.startswith("reduce_") else math.prod(extents[d] for d in own)
        for i, own in zip(items, deps, strict=True)
    ]


def _assemble(
    extents: tuple[int, ...],
    reduced: frozenset[int],
    items: Sequence[_Item],
    vec: int,
    body: Body,
    target: Target,
) -> Kernel:
    units = [d for d in range(len(extents)) if d not in reduced and d != vec]
    seqs = [d for d in range(len(extents)) if d in reduced and d != vec]
    reduces = any(i.op.startswith("reduce_") for i in items) or bool(body.sequential)
    form = "row" if vec in reduced else "col" if reduces else "map"
    width = _width(form, extents[vec], items, target)
    if body.sequential and form == "row":
        width = 1
    chunked = "" if body.chunks == 1 else "seq" if seqs else "vec"
    block, blocks = _blocks(form, extents[vec], width)
    chunk_extent = extents[seqs[0]] if chunked == "seq" else extents[vec]
    chunk = _chunk_length(chunk_extent, body.chunks, width if chunked == "vec" else 1)
    dims = [*units, *seqs, vec]
    words: list[Any] = [extents[d] for d in dims] + [block, blocks, chunk, body.chunks]
    ops, own, count = _laid_out(items, dims, body, len(words))
    row = _row_length(form, extents, seqs, vec, width) if body.chunks == 1 else 0
    buffer = _ROW_BUFFER if 0 < row <= _ROW_BUFFER else 0
    masked = target.has_masks and form != "col" and width > 1 and sum(op_cost(i.op) for i in items) >= _MASKED_FROM
    key = NestKey(form, len(units), len(seqs), width, chunked, ops, count, buffer, masked)
    words += own
    number = math.prod(extents[d] for d in units) * body.chunks * blocks
    return Kernel(key, words, number, _cost(extents, reduced, items, width, number), "")


def _laid_out(
    items: Sequence[_Item], dims: Sequence[int], body: Body, first: int
) -> tuple[tuple[Op, ...], list[Any], int]:
    """The ops, their argument words from number ``first`` on, and the number of words in all."""
    words: list[Any] = []
    count = first
    ops: list[Op] = []
    for i in items:
        static, own = _WORDS.get(i.op, _no_words)(i, dims, body)
        ops.append(Op(i.op, i.dtype.name, i.srcs, static, count))
        words += own
        count += sum(2 if isinstance(w, Place) else 1 for w in own)
    return tuple(ops), words, count


def epilogue_ops(
    body: Body, shape: tuple[int, ...], target: Target
) -> tuple[tuple[Op, ...], list[Any], int]:
    """The ops of a matrix product's epilogue over (batch, row, column), their words, and how many words."""
    items = _sided(_live(_contracted(_items(body), target.has_fma)), body.extents)
    position = [d for d, n in enumerate(shape) if n != 1]
    out = []
    for i in items:
        if i.op == "mask":
            i = i._replace(extra=tuple(r._replace(dim=position[r.dim]) for r in i.extra))
        elif i.expr is not None:
            full = [i.expr[0], 0, 0, 0]
            for d, c in zip(position, i.expr[1:], strict=True):
                full[d + 1] = c
            i = i._replace(expr=tuple(full))
        out.append(i)
    return _laid_out(out, (0, 1, 2), body, 0)


def _width(form: str, extent: int, items: Sequence[_Item], target: Target) -> int:
    """Lanes: a vector of the widest float, several of them where the loop is light (they hide each other's latency)."""
    floats = [i.dtype.itemsize for i in items if i.dtype.category == 2]
    size = max(floats) if floats else max([i.dtype.itemsize for i in items if i.op in _ACCESSES], default=4)
    lanes = max(1, target.width * 4 // size)
    if lanes == 1:
        return 1
    weight = sum(op_cost(i.op) for i in items)
    several = 1 if weight > 24 or form == "map" else 2 if weight > 12 else 4
    return lanes * several if extent >= 2 * lanes * several else lanes


def _row_length(form: str, extents: tuple[int, ...], seqs: list[int], vec: int, width: int) -> int:
    """Elements of what a unit passes over, if that is one loop; else 0."""
    if form == "row" and not seqs:
        return extents[vec]
    return extents[seqs[0]] * width if form == "col" and len(seqs) == 1 else 0


def _blocks(form: str, extent: int, width: int) -> tuple[int, int]:
    if form == "row":
        return 0, 1
    block = width if form == "col" else _BLOCK
    return block, max(1, -(-extent // block))


def _chunk_length(extent: int, chunks: int, step: int) -> int:
    length = -(-extent // chunks)
    return -(-length // step) * step


def _cost(extents: tuple[int, ...], reduced: frozenset[int], items: Sequence[_Item], width: int, units: int) -> float:
    """Nanoseconds: what each instruction takes per vector, times its vectors."""
    lanes = min(width, 16)
    total = 20.0 + 8.0 * units
    for i, visits in zip(items, _visits(extents, reduced, items), strict=True):
        if i.op in ("gather", "store_add"):
            total += 1.0 * visits
        elif i.op in _ACCESSES or i.op.startswith("reduce_"):
            total += 0.25 * visits / lanes + 0.02 * visits
        else:
            total += 0.25 * op_cost(i.op) * visits / lanes
    return total


# argument words per kind of instruction: (what the text depends on, the words)
def _stride_words(i: _Item, dims: Sequence[int], itemsize: int) -> tuple[str, list[int]]:
    """Stride class per dim (the chunk number last), and the strides that are words."""
    expr = i.expr or ()
    strides = [expr[d + 1] for d in dims] + [i.chunk_stride]
    last = len(dims) - 1
    classes = "".join("0" if s == 0 else "1" if s == 1 and n == last else "x" for n, s in enumerate(strides))
    return classes, [s * itemsize for s, c in zip(strides, classes, strict=True) if c == "x"]


def _access_words(i: _Item, dims: Sequence[int], body: Body) -> tuple[Any, list[Any]]:
    size = i.dtype.itemsize
    classes, strides = _stride_words(i, dims, size)
    buffer = i.extra[0] if i.op == "store" else body.buffer_of(i.extra[0])
    words: list[Any] = [Place(buffer, (i.expr or (0,))[0] * size), *strides]
    if i.op == "store" and buffer in {body.buffer_of(j[3][0]) for j in body.instrs if j[0] in ("load", "gather")}:
        return (classes, "last"), words  # a later phase may read the old contents again
    if i.op in ("gather", "store_add"):
        words += [s * size for s in i.extra[2]]
        return (classes, len(i.extra[2])), words
    return classes, words


def _mask_words(i: _Item, dims: Sequence[int], body: Body) -> tuple[Any, list[Any]]:
    """Per condition its dim and which sides must be tested ("l", "h", "lh"), and the bounds."""
    position = {d: n for n, d in enumerate(dims)}
    return tuple((position[r.dim], r.sides) for r in i.extra), [w for r in i.extra for w in (r.lo, r.hi)]


def _iota_words(i: _Item, dims: Sequence[int], body: Body) -> tuple[Any, list[Any]]:
    expr = i.expr or (0,)
    steps = [expr[d + 1] for d in dims]
    return "".join("x" if s else "0" for s in steps), [expr[0], *(s for s in steps if s)]


def _scalar_words(i: _Item, dims: Sequence[int], body: Body) -> tuple[Any, list[Any]]:
    return i.extra[0].is_float, [i.extra[0]]


def _no_words(i: _Item, dims: Sequence[int], body: Body) -> tuple[Any, list[Any]]:
    if i.op.startswith("reduce_"):
        return i.extra[0], []
    return i.extra, []


def _check_words(i: _Item, dims: Sequence[int], body: Body) -> tuple[Any, list[Any]]:
    return (), list(i.extra)


_WORDS = {
    "load": _access_words,
    "store": _access_words,
    "gather": _access_words,
    "store_add": _access_words,
    "mask": _mask_words,
    "iota": _iota_words,
    "scalar": _scalar_words,
    "check": _check_words,
}
