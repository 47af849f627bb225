"""The register tile of a matrix multiplication kernel, and what happens to it when it is finished.

Owns: ``emit_tiles``; ``Nest``, ``Panel``, ``DepthPass``: the registers that the loops around it have set up.
Must not know: units, how B was copied.
In: the registers. Out: text in the function being written.

# Note [Order of summation]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# Every element of C is one chain of multiply-adds over k = 0, 1, ... K-1, whatever the tile, the unit, the pass over K
# or the lane. So a result depends neither on the number of threads nor on where in the matrix it stands.
# Example: row 7 of C is the same bits in a product of 8 rows, of 800 rows, and on 1 or 16 threads.
# The dot form (``dot.py``) has an order of its own, with the same properties.

# Note [Lines ahead]
# ~~~~~~~~~~~~~~~~~~
# A transposed A is the usual one of a weight's gradient: g.T @ x. Each step of k is in another line of the cache, and
# mostly in another page, which no prefetcher of a CPU follows; while the activations of a training step come from the
# last cache. So each step asks for the line behind its own, which the tile after the next one reads, into the second
# cache: in the first one, lines that are a power of two apart would push each other out. Rows of a whole tile are side
# by side, at constant distances from one address: a register for each of 14 rows would leave none for the loop.
# Example: A.T is [1024, 480] of float32, tiles have 6 rows, 24 bytes of a line: a line is asked for two tiles early.
# 480x128x1024: 121 GFLOP/s without, 146 with it, where the operands come from the last cache of a Golden Cove.
# Where A's rows are copied, all panels of B are, too, pass after pass over K, and B is mostly long: while a pass is
# multiplied, the rows of the next one come to the second cache, at an even pace. A core has 16 lines on their way at a
# time, its own among them: asking for a panel's lines one behind the other, while the panel before it is multiplied,
# made products slower. So each k of each tile asks for the same number of bytes, along memory.
# Example: 12 panels, 8 tiles, rows of 2304 bytes: 24 bytes at each k, a line at every third. 128x1152x4096, B of 19 MB:
# 8.1 ms without, 7.2 with it.

# Note [Copies while multiplying]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A panel of B that is copied is read by the panel's first tile, which stores each row that it has loaded: it needs the
# row anyway, and stores take no turn of the ports that multiply-adds need. So a copy costs nearly nothing, and lines
# that come from far are waited for beside multiply-adds. As rows of B are mostly in other pages each, the first tile
# asks for lines some rows ahead, into the first cache.
# Panels whose columns lie along memory (``b_unit`` "n") are copied so; what must be turned round is copied before. So
# is a panel that lacks columns, as loads under masks would slow all the others' first tiles; its first tile then copies
# the copy onto itself. A transposed A that is read in place has rows side by side, and a tile that lacks rows a loop of
# its own; if that is the first tile, its panel is copied before, too.
# Windows of an image are copied so where a vector is a few segments or two halves: their lines serve several k, and
# nothing is asked for ahead.
# Example: 64x1024x256, 8 tiles to a panel: 213 us with copies before, 213 without asking ahead, 205 so; MKL 197.
# 5x5 windows of 6 channels, 16 results (2 tiles to a panel): 314 us with copies before, 270 so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jitgrad.codegen.gemm.dot import emit_dot
from jitgrad.codegen.gemm.spec import Epilogue, GemmSpec, Panel, fma, load_vector, vector_masks
from jitgrad.codegen.llvm.text import FnBuilder, vector_type

__all__ = ["DepthPass", "Nest", "Panel", "emit_tiles", "looped"]

_LINE = 64
_UNROLL_COST = 4  # epilogues up to this cost are unrolled over the register tile

Cells = list[list[str]]  # registers of the tile, [row][vector]


def looped(epilogue: Epilogue) -> bool:
    """Whether the epilogue is printed once, in a loop over the tile, rather than unrolled over it."""
    return epilogue.cost > _UNROLL_COST


@dataclass(frozen=True, slots=True)
class PanelCopy:
    """How a panel's first tile makes the copy of it, Note [Copies while multiplying].

    Attributes:
        begin: pointer to the pass's first row of B, or to what says where that is.
        step: bytes to the next one.
        load: given the pointer of a row, registers of its vectors, all of which exist.
    """

    begin: str
    step: str
    load: Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class DepthPass:
    """One pass over K: registers. Without ``first`` and ``last``, it is the only one."""

    depth: str  # elements of K
    a: str  # A at the pass's first column, or the copy of its rows
    b: str  # B's panel at the pass's first row; or offsets of its rows, if each of its vectors has a start
    b_stride: str  # bytes between B's rows
    first: str = ""  # i1: sums start at zero
    last: str = ""  # i1: sums are finished
    a_ks: str = ""  # offsets of A's k, if they are a table
    ahead: str = ""  # what the first tile asks for, of the next pass over K: Note [Lines ahead]
    ahead_step: str = ""  # bytes that each k asks for
    copying: PanelCopy | None = None  # makes the copy of B


@dataclass(slots=True)
class Nest:
    """What is being written, and the registers of the unit being done."""

    b: FnBuilder
    spec: GemmSpec
    epilogue: Epilogue
    arg: dict[str, str]
    a: str  # A of this batch
    sums: str  # buffer for unfinished tiles
    batch: str
    row_start: str
    row_end: str
    where: str = ""  # buffer for the places of a panel's vectors: batch, column, columns that exist

    def offset(self, base: str, nbytes: str | int) -> str:
        return self.b.op(f"getelementptr i8, ptr {base}, i64 {nbytes}")

    def at(self, base: str, index: str | int, stride: str | int) -> str:
        return self.offset(base, self.b.op(f"mul i64 {index}, {stride}"))

    def ask_for(self, at: str, cache: int) -> None:
        """A line is on its way to the second cache (2), or to the first (3)."""
        self.b.declare("declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)")
        self.b.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 {cache}, i32 1)")

    def min(self, x: str, y: str) -> str:
        return self.b.call("i64", "llvm.smin.i64", f"i64 {x}", f"i64 {y}")


def emit_tiles(nest: Nest, panel: Panel, at: DepthPass) -> None:
    """All rows of the unit, for one panel and one pass."""
    with nest.b.loop(nest.row_start, nest.row_end, nest.spec.rows, hint="tile") as row:
        _emit_tile(nest, panel, at, row)


def _emit_tile(nest: Nest, panel: Panel, at: DepthPass, row: str) -> None:
    top = nest.b.op(f"sub i64 {nest.row_end}, 1")
    rows = [row]  # the tile's rows; past the end, the last one again
    rows += [nest.min(nest.b.op(f"add i64 {row}, {i}"), top) for i in range(1, nest.spec.rows)]
    if nest.spec.copy_rows:
        tile = nest.at(
            at.a, nest.b.op(f"sub i64 {row}, {nest.row_start}"), nest.b.op(f"mul i64 {at.depth}, {nest.spec.itemsize}")
        )
        a_rows = [nest.offset(tile, i * nest.spec.itemsize) for i in range(nest.spec.rows)]
    elif nest.spec.a_unit == "table":
        a_rows = [nest.offset(at.a, _entry(nest.b, nest.arg["a_rows"], r)) for r in rows]
    else:
        a_rows = [nest.at(at.a, r, nest.arg["a_sm"]) for r in rows]
    if at.ahead:
        before = nest.b.op(f"udiv i64 {nest.b.op(f'sub i64 {row}, {nest.row_start}')}, {nest.spec.rows}")
        before = nest.b.op(f"mul i64 {before}, {at.depth}")
        at = replace(at, ahead=nest.at(at.ahead, before, at.ahead_step))
    sums = nest.sums
    if at.first:
        sums = nest.at(sums, nest.b.op(f"sub i64 {row}, {nest.row_start}"), nest.arg["sums_stride"])
    if nest.spec.a_unit == "k":
        acc = [[emit_dot(nest.b, nest.spec, panel, a_rows[0], at.b, nest.arg["b_sn"], at.depth)]]
    else:
        acc = _accumulate(nest, panel, at, a_rows, row, sums)
    if looped(nest.epilogue):
        _save(nest, panel, acc, sums)
        if not at.last:
            _looped_epilogue(nest, panel, row, sums)
            return
        with nest.b.when(at.last, hint="last"):
            _looped_epilogue(nest, panel, row, sums)
    elif not at.last:
        _unrolled_epilogue(nest, panel, acc, rows)
    else:
        _finish_or_save(nest, panel, at, acc, rows, sums)


def _entry(b: FnBuilder, table: str, index: str) -> str:
    return b.op(f"load i64, ptr {b.op(f'getelementptr i64, ptr {table}, i64 {index}')}")


def _finish_or_save(nest: Nest, panel: Panel, at: DepthPass, acc: Cells, rows: list[str], sums: str) -> None:
    b = nest.b
    done, partial, after = b.label("done"), b.label("partial"), b.label("after")
    b.do(f"br i1 {at.last}, label %{done}, label %{partial}")
    b.start(partial)
    _save(nest, panel, acc, sums)
    b.do(f"br label %{after}")
    b.start(done)
    _unrolled_epilogue(nest, panel, acc, rows)
    b.do(f"br label %{after}")
    b.start(after)


# sums


def _slot(nest: Nest, panel: Panel, sums: str, i: int, v: int) -> str:
    return nest.offset(sums, (i * panel.columns + v * panel.width) * nest.spec.itemsize)


def _save(nest: Nest, panel: Panel, acc: Cells, sums: str) -> None:
    vec = vector_type(panel.width, nest.spec.scalar)
    for i, row in enumerate(acc):
        for v, value in enumerate(row):
            nest.b.do(f"store {vec} {value}, ptr {_slot(nest, panel, sums, i, v)}, align {nest.spec.itemsize}")


def _resume(nest: Nest, panel: Panel, sums: str) -> list[str]:
    vec = vector_type(panel.width, nest.spec.scalar)
    cells = [(i, v) for i in range(nest.spec.rows) for v in range(panel.vectors)]
    return [nest.b.op(f"load {vec}, ptr {_slot(nest, panel, sums, *c)}, align {nest.spec.itemsize}") for c in cells]


def _accumulate(nest: Nest, panel: Panel, at: DepthPass, a_rows: list[str], row: str, sums: str) -> Cells:
    """The register tile after this pass; its first row is ``row``, and ``a_rows`` are inside of A.

    A pass has one k at least, ``gemm_launch``: a way around the loop would want zeros in as many registers again, and
    LLVM then keeps sums in memory.
    """
    b, vectors = nest.b, panel.vectors
    whole, beside = panel.whole, nest.spec.a_unit == "m"
    if nest.spec.walks and nest.spec.rows > 1:
        whole = _whole_rows(nest, row, whole)
    zero, loop, done = b.label("zero"), b.label("k"), b.label("summed")
    rest = b.label("k") if whole else ""
    fill = b.label("k") if at.copying else ""
    begin = f"br i1 {whole}, label %{loop}, label %{rest}" if whole else f"br label %{loop}"
    if at.copying:
        begin = _begin_copying(nest, row, whole, (fill, loop, rest))
    start = {zero: ["zeroinitializer" if panel.width > 1 else "0.0"] * (len(a_rows) * vectors)}
    if at.first:
        resume = b.label("resume")
        b.do(f"br i1 {at.first}, label %{zero}, label %{resume}")
        b.start(resume)
        start[resume] = _resume(nest, panel, sums)
        b.do(begin)
    else:
        b.do(f"br label %{zero}")
    b.start(zero)
    b.do(begin)
    plain, usual_rows = replace(at, copying=None), a_rows[:1] if beside else a_rows
    ways = {loop: _sum_up(nest, panel, plain, usual_rows, start, (loop, done), False)}
    if whole:
        ways[rest] = _sum_up(nest, panel, plain, a_rows, start, (rest, done), bool(panel.whole))
    if at.copying:
        ways[fill] = _sum_up(nest, panel, at, usual_rows, start, (fill, done), False)
    b.start(done)
    final = ways[loop]
    if len(ways) > 1:
        each = zip(*ways.values(), strict=True)
        final = [_joined(nest, panel, dict(zip(ways, cells, strict=True))) for cells in each]
    return [final[i * vectors : (i + 1) * vectors] for i in range(len(a_rows))]


def _begin_copying(nest: Nest, row: str, whole: str, blocks: tuple[str, str, str]) -> str:
    """The jump to one of ``blocks``: that of a panel's first tile, of the usual others, of those that lack rows."""
    b, (fill, loop, rest) = nest.b, blocks
    first = b.op(f"icmp eq i64 {row}, {nest.row_start}")
    if not whole:
        return f"br i1 {first}, label %{fill}, label %{loop}"
    number = b.op(f"select i1 {whole}, i32 {b.op(f'select i1 {first}, i32 0, i32 1')}, i32 2")
    return f"switch i32 {number}, label %{rest} [ i32 0, label %{fill} i32 1, label %{loop} ]"


def _whole_rows(nest: Nest, row: str, whole: str) -> str:
    """Whether all of a tile's rows exist, and ``whole`` holds."""
    b = nest.b
    inside = b.op(f"icmp sle i64 {b.op(f'add i64 {row}, {nest.spec.rows}')}, {nest.row_end}")
    return b.op(f"and i1 {inside}, {whole}") if whole else inside


def _joined(nest: Nest, panel: Panel, values: dict[str, str]) -> str:
    ways = ", ".join(f"[ {value}, %{block} ]" for block, value in values.items())
    return nest.b.op(f"phi {vector_type(panel.width, nest.spec.scalar)} {ways}")


def _sum_up(
    nest: Nest,
    panel: Panel,
    at: DepthPass,
    a_rows: list[str],
    start: dict[str, list[str]],
    blocks: tuple[str, str],
    masked: bool,
) -> list[str]:
    """The loop over k, in the first of ``blocks``, then to the second: registers of the sums.

    Args:
        a_rows: of A; or the first of them, and the others are side by side with it.
        start: what the sums are before, by the block that comes before.
        masked: not all of the panel's columns exist.
    """
    b, vec = nest.b, vector_type(panel.width, nest.spec.scalar)
    loop, done = blocks
    b.start(loop)
    now = [b.label("%s") for _ in next(iter(start.values()))]
    for cell, values in zip(now, zip(*start.values(), strict=True), strict=True):
        _phi(b, vec, cell, dict(zip(start, values, strict=True)), cell + "n", loop)
    left = _multiply(nest, panel, at, a_rows, now, dict.fromkeys(start), loop, masked)
    b.do(f"br i1 {b.op(f'icmp sgt i64 {left}, 0')}, label %{loop}, label %{done}")
    return [f"{cell}n" for cell in now]


def _phi(b: FnBuilder, kind: str, name: str, start: dict[str, str], following: str, loop: str) -> None:
    ways = ", ".join(f"[ {value}, %{block} ]" for block, value in start.items())
    b.do(f"{name} = phi {kind} {ways}, [ {following}, %{loop} ]")


def _multiply(
    nest: Nest,
    panel: Panel,
    at: DepthPass,
    a_rows: list[str],
    now: list[str],
    entries: dict[str, None],
    loop: str,
    masked: bool,
) -> str:
    """One turn of the loop: ``acc[row, vector] += a[row] * b[vector]``, into names with an "n". Returns what is left.

    A load under a mask takes a turn of the ports that multiply-adds need.
    """
    b, spec = nest.b, nest.spec
    vec = vector_type(panel.width, spec.scalar)
    k, b_at = b.label("%k"), b.label("%b")
    is_beside = spec.regions and not spec.copy  # A's offset stands behind B's
    a_firsts = [] if is_beside else [at.a_ks] if at.a_ks else a_rows
    a_at = [b.label("%a") for _ in a_firsts]
    _phi(b, "i64", k, dict.fromkeys(entries, at.depth), k + "n", loop)
    ahead = [b.label("%ahead")] if at.ahead else []
    firsts = [at.b, *a_firsts, *([at.ahead] if ahead else ())]
    step = spec.k_nbytes if at.a_ks else spec.rows * spec.itemsize if spec.copy_rows else nest.arg["a_sk"]
    steps = [(b_at, at.b_stride), *((name, step) for name in a_at), *((name, at.ahead_step) for name in ahead)]
    source = b.label("%source") if at.copying else ""
    if at.copying:
        firsts.append(at.copying.begin)
        steps.append((source, at.copying.step))
    for (name, _), first in zip(steps, firsts, strict=True):
        _phi(b, "ptr", name, dict.fromkeys(entries, first), name + "n", loop)
    for line in ahead:
        nest.ask_for(line, 2)
    columns = at.copying.load(source) if at.copying else []
    for v, column in enumerate(columns):
        b.do(f"store {vec} {column}, ptr {nest.offset(b_at, v * panel.width * spec.itemsize)}, align {spec.itemsize}")
    row = b.op(f"load i64, ptr {b_at}") if panel.starts else ""
    for v in range(len(columns), panel.vectors):
        start = nest.offset(panel.starts[v], row) if row else nest.offset(b_at, v * panel.width * spec.itemsize)
        columns.append(load_vector(b, spec.scalar, panel.width, start, panel.masks[v] if masked else None))
    cells = iter(now)
    if is_beside:
        a_at = [nest.offset(b_at, 8)]
    for element in _elements(nest, at, a_rows, a_at):
        one = b.op(f"load {spec.scalar}, ptr {element}, align {spec.itemsize}")
        wide = b.splat(one, spec.scalar, panel.width)
        for column in columns:
            fma(b, spec, panel.width, wide, column, next(cells))
    for name, stride in steps:
        b.do(f"{name}n = getelementptr i8, ptr {name}, i64 {stride}")
    b.do(f"{k}n = sub i64 {k}, 1")
    return f"{k}n"


def _elements(nest: Nest, at: DepthPass, a_rows: list[str], a_at: list[str]) -> list[str]:
    """Where A's elements of one k are; one ``a_at`` for several rows is k's entry in a table, or that of the first.

    A multiply-add whose operand is at the sum of two registers takes two turns of the front end: each row has a pointer
    of its own.
    """
    spec = nest.spec
    if spec.walks:
        nest.ask_for(nest.offset(a_at[0], _LINE), 2)
    if at.a_ks:
        offset = nest.b.op(f"load i64, ptr {a_at[0]}")
        return [nest.offset(a_row, offset) for a_row in a_rows]
    if len(a_at) < spec.rows:
        return [nest.offset(a_at[0], i * spec.itemsize) for i in range(spec.rows)]
    return a_at


# epilogues


def _unrolled_epilogue(nest: Nest, panel: Panel, acc: Cells, rows: list[str]) -> None:
    """The epilogue's text per vector. Rows past the end: skipped, or harmlessly done twice."""
    for i, (vectors, row) in enumerate(zip(acc, rows, strict=True)):
        if i == 0 or nest.epilogue.repeatable:
            _row_epilogue(nest, panel, vectors, row)
            continue
        inside = nest.b.op(f"icmp slt i64 {nest.b.op(f'add i64 {rows[0]}, {i}')}, {nest.row_end}")
        with nest.b.when(inside, hint="row"):
            _row_epilogue(nest, panel, vectors, row)


def _row_epilogue(nest: Nest, panel: Panel, vectors: list[str], row: str) -> None:
    for v, value in enumerate(vectors):
        if panel.places:
            batch, col = panel.places[v]
            nest.epilogue(nest.b, value, panel.width, batch, row, col, panel.masks[v])
            continue
        col = nest.b.op(f"add i64 {panel.col}, {v * panel.width}") if v else panel.col
        nest.epilogue(nest.b, value, panel.width, nest.batch, row, col, panel.masks[v])


def _looped_epilogue(nest: Nest, panel: Panel, row: str, sums: str) -> None:
    """The epilogue's text once, in a loop over the saved tile."""
    b, spec = nest.b, nest.spec
    vec = vector_type(panel.width, spec.scalar)
    count = nest.min(str(spec.rows), b.op(f"sub i64 {nest.row_end}, {row}"))
    with b.loop("0", count, hint="erow") as i:
        line = nest.at(sums, i, panel.columns * spec.itemsize)
        here = b.op(f"add i64 {row}, {i}")
        if panel.places:
            _placed_epilogue(nest, panel, here, line)
            return
        if panel.vectors == 1:
            acc = b.op(f"load {vec}, ptr {line}, align {spec.itemsize}")
            nest.epilogue(b, acc, panel.width, nest.batch, here, panel.col, panel.masks[0])
            return
        with b.loop("0", panel.left, panel.width, hint="ecol") as j:
            acc = b.op(f"load {vec}, ptr {nest.at(line, j, spec.itemsize)}, align {spec.itemsize}")
            mask = vector_masks(nest.b, nest.spec, b.op(f"sub i64 {panel.left}, {j}"), 1)[0]
            nest.epilogue(b, acc, panel.width, nest.batch, here, b.op(f"add i64 {panel.col}, {j}"), mask)


def _placed_epilogue(nest: Nest, panel: Panel, row: str, line: str) -> None:
    """The vectors of one saved row, each at its own place."""
    b, spec = nest.b, nest.spec
    vec = vector_type(panel.width, spec.scalar)
    with b.loop("0", str(panel.vectors), hint="evec") as v:
        acc = b.op(f"load {vec}, ptr {nest.at(line, v, panel.width * spec.itemsize)}, align {spec.itemsize}")
        place = nest.at(nest.where, v, 24)
        batch, col, left = (_entry(b, place, str(i)) for i in range(3))
        mask = vector_masks(b, spec, left, 1)[0]
        nest.epilogue(b, acc, panel.width, batch, row, col, mask)
