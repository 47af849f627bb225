"""Printing an implicit product: the loop nest over units, panels and passes, and the copies of panels from the image.

Owns: ``emit_windows``.
Must not know: shapes, digits (``windows``), what the epilogue computes.
In: a ``GemmSpec`` and an ``Epilogue``. Out: the text of one LLVM module. See Note [Windows].

for unit:                  a group, a block of vectors of columns (of one region), a block of rows
  for panel of vectors:    each with its image and its columns
    for pass over K:       as much of the panel as stays in the first cache is copied from the image
      for tile of rows:    as in ``tile``
Or panels are not copied, ``copy`` of the spec: then one pass reads the image in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from jitgrad.codegen.gemm.emit import PACK_NBYTES, open_scratch, passes
from jitgrad.codegen.gemm.pack import transpose_block
from jitgrad.codegen.gemm.spec import GEMM_ARGS, Epilogue, GemmSpec, Panel, load_arg, load_vector, vector_masks
from jitgrad.codegen.gemm.tile import DepthPass, Nest, PanelCopy, emit_tiles, looped
from jitgrad.codegen.llvm.shuffle import shuffle
from jitgrad.codegen.llvm.text import FnBuilder, vector_type

__all__ = ["emit_windows"]

_ARGS = (
    "a_slot", "a_off", "a_sg", "a_sm", "a_sk", "b_slot", "b_off", "b_sg", "b_si", "b_sn", "m", "n", "k",
    "unit_m", "unit_n", "units_m", "units_n", "depth", "sums_stride", "tables",
)  # fmt: skip
assert len(_ARGS) == GEMM_ARGS
_HEADER = ("images", "vectors", "groups", "a_rows", "a_ks", "b_ks", "b_vectors", "blocks")
_REGION = ("vectors", "k", "b_ks", "numbers")


@dataclass(slots=True)
class _Vector:
    """A vector of a panel's columns: registers of its number within its image, and of B's first element for it."""

    number: str
    b: str


def emit_windows(spec: GemmSpec, name: str, epilogue: Epilogue) -> str:
    """The module of one kernel."""
    b = FnBuilder(name)
    arg = {name: load_arg(b, i) for i, name in enumerate(_ARGS)}
    tables = b.op(f"inttoptr i64 {arg['tables']} to ptr")
    for i, word in enumerate(_HEADER):
        arg[word] = _word(b, tables, str(i))
        if i > 2:
            arg[word] = b.op(f"getelementptr i64, ptr {tables}, i64 {arg[word]}")
    copy = b.op(f"alloca [{PACK_NBYTES} x i8], align 64") if spec.copy else ""
    scratch = open_scratch(b, spec, epilogue, arg)
    sums = scratch.at if scratch is not None else ""
    where = b.op(f"alloca [{24 * spec.vectors} x i8], align 8") if looped(epilogue) else ""
    a, b_base = _base(b, arg, "a"), _base(b, arg, "b")
    epilogue.prepare(b)
    with b.loop("%begin", "%end", hint="unit") as unit:
        row_block = b.op(f"urem i64 {unit}, {arg['units_m']}")
        rest = b.op(f"udiv i64 {unit}, {arg['units_m']}")
        column_block = b.op(f"urem i64 {rest}, {arg['units_n']}")
        group = b.op(f"udiv i64 {rest}, {arg['units_n']}")
        block = _enter_block(b, arg, tables, column_block) if spec.regions else None
        nest = Nest(b, spec, epilogue, block.arg if block else arg, a, sums, group, "", "")
        nest.a = nest.at(a, group, arg["a_sg"])
        nest.where = where
        nest.row_start, nest.row_end = _span(nest, row_block, arg["unit_m"], arg["m"])
        if block:
            start, end = block.start, block.end
        else:
            total = b.op(f"mul i64 {arg['images']}, {arg['vectors']}")
            start, end = _span(nest, column_block, arg["unit_n"], total)
        here = nest.at(b_base, group, arg["b_sg"])
        with b.loop(start, end, spec.vectors, hint="panel") as first:
            panel, vectors = _panel(nest, here, group, first, end)
            if spec.copy:
                _emit_passes(nest, panel, vectors, copy)
            else:
                _emit_in_place(nest, panel, vectors)
    if scratch is not None:
        scratch.close()
    return b.finish()


class _Block(NamedTuple):
    """A block of a region's vectors, Note [Regions of a product]: registers of its span, and of the kernel's arguments
    as they are for the region."""

    start: str
    end: str
    arg: dict[str, str]


def _enter_block(b: FnBuilder, arg: dict[str, str], tables: str, number: str) -> _Block:
    """Read a block's words, and those of its region, as ``_with_regions`` lays them out."""
    words = b.op(f"getelementptr [3 x i64], ptr {arg['blocks']}, i64 {number}")
    region = b.op(f"getelementptr i64, ptr {tables}, i64 {_word(b, words, '0')}")
    own = {name: _word(b, region, str(i)) for i, name in enumerate(_REGION)}
    for name in _REGION[2:]:
        own[name] = b.op(f"getelementptr i64, ptr {tables}, i64 {own[name]}")
    own["a_ks"] = b.op(f"getelementptr i64, ptr {own['b_ks']}, i64 1")
    return _Block(_word(b, words, "1"), _word(b, words, "2"), {**arg, **own})


def _word(b: FnBuilder, table: str, index: str) -> str:
    return b.op(f"load i64, ptr {b.op(f'getelementptr i64, ptr {table}, i64 {index}')}")


def _base(b: FnBuilder, arg: dict[str, str], name: str) -> str:
    """The address of an operand's first element."""
    at = b.op(f"getelementptr i64, ptr %bufs, i64 {arg[name + '_slot']}")
    return b.op(f"getelementptr i8, ptr {b.op(f'load ptr, ptr {at}')}, i64 {arg[name + '_off']}")


def _span(nest: Nest, index: str, step: str, limit: str) -> tuple[str, str]:
    """[index * step, min(that + step, limit))."""
    start = nest.b.op(f"mul i64 {index}, {step}")
    return start, nest.min(nest.b.op(f"add i64 {start}, {step}"), limit)


def _panel(nest: Nest, b_base: str, group: str, first: str, end: str) -> tuple[Panel, list[_Vector]]:
    """The vectors from ``first`` on. Those past the end are the last one again, with no columns to store."""
    b, spec, arg = nest.b, nest.spec, nest.arg
    vectors, places, masks = [], [], []
    top = b.op(f"sub i64 {end}, 1")
    for v in range(spec.vectors):
        wanted = b.op(f"add i64 {first}, {v}")
        q = nest.min(wanted, top)
        image = b.op(f"udiv i64 {q}, {arg['vectors']}")
        number = b.op(f"urem i64 {q}, {arg['vectors']}")
        if spec.regions:
            number = _word(b, arg["numbers"], number)
        col = b.op(f"mul i64 {number}, {spec.width}")
        exists = b.op(f"icmp slt i64 {wanted}, {end}")
        columns = b.op(f"sub i64 {arg['n']}, {col}")
        left = b.op(f"select i1 {exists}, i64 {columns}, i64 0")
        before = b.op(f"mul i64 {image}, {arg['groups']}")
        batch = b.op(f"add i64 {before}, {group}")
        at = nest.at(b_base, image, arg["b_si"])
        vectors.append(_Vector(number, at))
        places.append((batch, col))
        masks += vector_masks(b, spec, left, 1)
        if nest.where:
            for i, value in enumerate((batch, col, left)):
                b.do(f"store i64 {value}, ptr {nest.offset(nest.where, 24 * v + 8 * i)}")
    return Panel(spec.vectors, spec.width, "0", "0", masks, tuple(places)), vectors


def _emit_passes(nest: Nest, panel: Panel, vectors: list[_Vector], copy: str) -> None:
    arg, spec = nest.arg, nest.spec
    with passes(nest) as (k, depth, first, last):
        ks = nest.at(arg["b_ks"], k, spec.k_nbytes)
        copying = None
        if spec.b_unit == "halves" or (spec.b_unit == "runs" and spec.segments):
            copying = _copy_while_multiplying(nest, vectors, ks)
        else:
            _copy_before(nest, panel, vectors, copy, ks, depth)
        a, a_ks = nest.a, ""
        if spec.a_unit == "table":
            a_ks = nest.at(arg["a_ks"], k, spec.k_nbytes)
        else:
            a = nest.at(a, k, arg["a_sk"])
        row_nbytes = str(panel.columns * spec.itemsize)
        emit_tiles(nest, panel, DepthPass(depth, a, copy, row_nbytes, first, last, a_ks, copying=copying))


def _copy_before(nest: Nest, panel: Panel, vectors: list[_Vector], copy: str, ks: str, depth: str) -> None:
    """Copies of vectors that must be turned round or gathered."""
    for v, vector in enumerate(vectors):
        to = nest.offset(copy, v * nest.spec.width * nest.spec.itemsize)
        if nest.spec.b_unit == "krun":
            _copy_transposed(nest, panel, vector, to, ks, depth, panel.places[v][1])
        else:
            _copy_gathered(nest, panel, vector, to, ks, depth, panel.masks[v])


def _copy_while_multiplying(nest: Nest, vectors: list[_Vector], ks: str) -> PanelCopy:
    """What the panel's first tile does, Note [Copies while multiplying]. ``ks``: where the pass's offsets are."""
    reader = _segments if nest.spec.b_unit == "runs" else _halves
    readers = [reader(nest, vector) for vector in vectors]

    def load(k: str) -> list[str]:
        offset = nest.b.op(f"load i64, ptr {k}")
        return [read(offset) for read in readers]

    return PanelCopy(ks, str(nest.spec.k_nbytes), load)


def _segments(nest: Nest, vector: _Vector) -> Callable[[str], str]:
    """Reads a vector of a k at its offset: its segments, each loaded under its mask on top of those before."""
    b, spec = nest.b, nest.spec
    entry = nest.at(nest.arg["b_vectors"], vector.number, 16 * spec.segments)
    parts = []
    for s in range(spec.segments):
        at = nest.offset(vector.b, _word(b, entry, str(2 * s)))
        bits = b.op(f"trunc i64 {_word(b, entry, str(2 * s + 1))} to i{spec.width}")
        parts.append((at, b.op(f"bitcast i{spec.width} {bits} to <{spec.width} x i1>")))

    def read(offset: str) -> str:
        value = "zeroinitializer"
        for at, mask in parts:
            value = _masked_load(b, spec, nest.offset(at, offset), mask, value)
        return value

    return read


def _halves(nest: Nest, vector: _Vector) -> Callable[[str], str]:
    """The same, each half of it every second element of a load, of which the last one may not be there."""
    b, spec = nest.b, nest.spec
    entry = nest.at(nest.arg["b_vectors"], vector.number, 16)
    starts = [nest.offset(vector.b, _word(b, entry, str(i))) for i in range(2)]
    mask = "<" + ", ".join(["i1 true"] * (spec.width - 1) + ["i1 false"]) + ">"

    def read(offset: str) -> str:
        x, y = (_masked_load(b, spec, nest.offset(at, offset), mask, "zeroinitializer") for at in starts)
        return shuffle(b, spec.scalar, x, y, spec.width, range(0, 2 * spec.width, 2))

    return read


def _emit_in_place(nest: Nest, panel: Panel, vectors: list[_Vector]) -> None:
    """All of K at once: a vector of each k begins at the vector's start, and the offset of k from there."""
    b, arg, spec = nest.b, nest.arg, nest.spec
    entries = [nest.at(arg["b_vectors"], vector.number, 16) for vector in vectors]
    starts = tuple(nest.offset(v.b, _word(b, entry, "0")) for v, entry in zip(vectors, entries, strict=True))
    a_ks = arg["a_ks"] if spec.a_unit == "table" else ""
    step = str(spec.k_nbytes)
    emit_tiles(nest, replace(panel, starts=starts), DepthPass(arg["k"], nest.a, arg["b_ks"], step, a_ks=a_ks))


def _store_row(nest: Nest, panel: Panel, to: str, k: str, value: str) -> None:
    spec = nest.spec
    at = nest.at(to, k, panel.columns * spec.itemsize)
    nest.b.do(f"store {vector_type(spec.width, spec.scalar)} {value}, ptr {at}, align {spec.itemsize}")


def _masked_load(b: FnBuilder, spec: GemmSpec, at: str, mask: str, others: str) -> str:
    width, vec = spec.width, vector_type(spec.width, spec.scalar)
    name = f"llvm.masked.load.v{width}f{8 * spec.itemsize}.p0"
    b.declare(f"declare {vec} @{name}(ptr, i32 immarg, <{width} x i1>, {vec})")
    return b.op(f"call {vec} @{name}(ptr {at}, i32 {spec.itemsize}, <{width} x i1> {mask}, {vec} {others})")


def _copy_gathered(
    nest: Nest, panel: Panel, vector: _Vector, to: str, ks: str, depth: str, mask: str | None
) -> None:  # fmt: skip
    """A vector of each k: every lane from an offset of its own."""
    b, spec = nest.b, nest.spec
    width, vec = spec.width, vector_type(spec.width, spec.scalar)
    at = nest.at(nest.arg["b_vectors"], vector.number, 4 * width)
    lanes = b.op(f"load <{width} x i32>, ptr {at}, align 4")
    wide = b.op(f"sext <{width} x i32> {lanes} to <{width} x i64>")
    name = f"llvm.masked.gather.v{width}f{8 * spec.itemsize}.v{width}p0"
    b.declare(f"declare {vec} @{name}(<{width} x ptr>, i32 immarg, <{width} x i1>, {vec})")
    with b.loop("0", depth, hint="krow") as k:
        base = nest.offset(vector.b, _word(b, nest.at(ks, k, spec.k_nbytes), "0"))
        places = b.op(f"getelementptr i8, ptr {base}, <{width} x i64> {wide}")
        value = b.op(
            f"call {vec} @{name}(<{width} x ptr> {places}, i32 {spec.itemsize}, <{width} x i1> {mask}, {vec} "
            "zeroinitializer)"
        )
        _store_row(nest, panel, to, k, value)


def _copy_transposed(nest: Nest, panel: Panel, vector: _Vector, to: str, ks: str, depth: str, col: str) -> None:
    """128 bits of each of the vector's columns at a time, transposed in registers; what is left, one by one."""
    b, spec, arg = nest.b, nest.spec, nest.arg
    lane, row_nbytes = 16 // spec.itemsize, panel.columns * spec.itemsize
    top = b.op(f"sub i64 {arg['n']}, 1")
    columns = []  # columns that do not exist: the last one again
    for i in range(spec.width):
        columns.append(nest.at(vector.b, nest.min(b.op(f"add i64 {col}, {i}"), top), arg["b_sn"]))

    def block(k: str) -> None:
        offset = b.op(f"sdiv exact i64 {_word(b, ks, k)}, {spec.itemsize}")
        transpose_block(b, spec, columns, offset, nest.at(to, k, row_nbytes), row_nbytes)

    def one_by_one(first: str, end: str) -> None:
        with b.loop(first, end, hint="krow") as k:
            offset, line = _word(b, ks, k), nest.at(to, k, row_nbytes)
            for i, column in enumerate(columns):
                value = load_vector(b, spec.scalar, 1, nest.offset(column, offset), None)
                b.do(f"store {spec.scalar} {value}, ptr {nest.offset(line, i * spec.itemsize)}, align {spec.itemsize}")

    whole = b.op(f"sub i64 {depth}, {b.op(f'srem i64 {depth}, {lane}')}")
    with b.loop("0", whole, lane, hint="tk") as k:
        if spec.segments:
            block(k)
        else:
            last = b.op(f"add i64 {k}, {lane - 1}")
            reach = b.op(f"sub i64 {_word(b, ks, last)}, {_word(b, ks, k)}")
            is_run = b.op(f"icmp eq i64 {reach}, {(lane - 1) * spec.itemsize}")
            with b.when(is_run, hint="run"):
                block(k)
            with b.when(b.op(f"xor i1 {is_run}, true"), hint="runs"):
                one_by_one(k, b.op(f"add i64 {k}, {lane}"))
    one_by_one(whole, depth)
