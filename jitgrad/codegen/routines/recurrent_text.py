"""What the routines of recurrent layers are written over: steps, rows, products, elements.

Owns: ``LayerText``.
Must not know: what a layer computes (``recurrent.py``).

Packed rows of two sequences of 3 and 2 steps lie in memory as steps of 2, 2 and 1 rows: the first row of step 2 is the
5th of all. Going from the last step to the first, the second sequence begins at step 1, with its state to begin with.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from jitgrad.codegen.primitives.layers import GATES, LayerForm
from jitgrad.codegen.routines.recurrent_tiles import PANELS, StepProducts
from jitgrad.codegen.routines.rows import RowBuilder
from jitgrad.codegen.vmath.core import Lanes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LayerText", "LayerTurn", "TurnRows"]


class LayerTurn(NamedTuple):
    """What is done at a step.

    Attributes:
        start: the place of the step's first row among all rows.
        before: that of the step before.
        size: how many rows the step has.
        known: how many of them were there at the step before; the others begin here.
        following: how many of them go on at the next step, in the layer's order.
    """

    start: str
    before: str
    size: str
    known: str
    following: str


class TurnRows(NamedTuple):
    """The unit's rows at a step that come from one place.

    Attributes:
        turn: the step.
        first, last: the rows.
        at: where the states before begin among the rows of their array.
        is_later: whether that is a result's; else the states to begin with.
    """

    turn: LayerTurn
    first: str
    last: str
    at: str
    is_later: str


class LayerText:
    """The text of a routine in the making.

    Attributes:
        b: prints it.
        tiles: the products.
        form: which layer.
        gates: of a hidden unit, that a product's panels are of.
        hidden: how many hidden units there are.
        blocks: panels of so many columns.
        sums: where the sums of a product are.
        steps: how many there are.
        first, last: the unit's rows.
        total: rows of a state.
        counts: of a packed form, the array of the rows of each step.
    """

    def __init__(self, b: RowBuilder, tiles: StepProducts, form: LayerForm) -> None:
        self.b, self.tiles, self.form, self.counts = b, tiles, form, form.operands - 1
        self.gates = 1 if form.is_backward else GATES[form.layer]
        self.hidden, self.total = f"%extent.{form.state}.2", f"%extent.{form.state}.1"
        self.blocks = b.op(f"sdiv i64 {b.op(f'add i64 {self.hidden}, {tiles.lanes - 1}')}, {tiles.lanes}")
        self.sums = tiles.sums(b)
        self.steps = f"%extent.{self.counts}.2" if form.is_packed else b.outer
        self.first, self.last = b.part(self.total)

    def results(self) -> Iterator[int]:
        """The numbers of the arrays behind the operands."""
        return itertools.count(self.form.operands)

    # --- steps ---

    @contextmanager
    def turns(self, is_reversed: bool = False) -> Iterator[LayerTurn]:
        """All steps in the layer's order, or from its end. Rows' places are added up on the way."""
        b = self.b
        goes_down = self.form.is_back is not is_reversed
        end = "%extent.0.1" if self.form.is_packed else b.op(f"mul i64 {self.steps}, {self.total}")
        with b.fold("0", self.steps, 1, [("i64", end if goes_down else "0")]) as (nr, place):
            step = b.op(f"sub i64 {b.op(f'sub i64 {self.steps}, 1')}, {nr}") if goes_down else nr
            size = self._size(step)
            start = b.op(f"sub i64 {place[0]}, {size}") if goes_down else place[0]
            yield self._turn(step, start, size)
            place[0] = start if goes_down else b.op(f"add i64 {start}, {size}")

    def _size(self, step: str) -> str:
        """How many rows a step has; none behind the last one and before the first one."""
        b = self.b
        exists = b.op(f"icmp ult i64 {step}, {self.steps}")
        size = self.total
        if self.form.is_packed:
            size = b.load(self.counts, b.op(f"select i1 {exists}, i64 {step}, i64 0"))
        return b.op(f"select i1 {exists}, i64 {size}, i64 0")

    def _turn(self, step: str, start: str, size: str) -> LayerTurn:
        b = self.b
        earlier, later = (self._size(b.op(f"{which} i64 {step}, 1")) for which in ("sub", "add"))
        if self.form.is_back:  # rows that are longer than the ones of the step before begin here
            return LayerTurn(start, b.op(f"add i64 {start}, {size}"), size, later, earlier)
        known = b.call("i64", "llvm.smin.i64", f"i64 {earlier}", f"i64 {size}")
        return LayerTurn(start, b.op(f"sub i64 {start}, {earlier}"), size, known, later)

    @contextmanager
    def rows(self, turn: LayerTurn) -> Iterator[TurnRows]:
        """The unit's rows at a step, by where the states before them are."""
        b = self.b
        last = b.call("i64", "llvm.smin.i64", f"i64 {self.last}", f"i64 {turn.size}")
        if not (self.form.is_packed and self.form.is_back):  # the rows of a step were there before, or none was
            is_later = b.op(f"icmp sgt i64 {turn.known}, 0")
            yield TurnRows(turn, self.first, last, b.op(f"select i1 {is_later}, i64 {turn.before}, i64 0"), is_later)
            return
        with b.loop("0", "2") as part:
            is_later = b.op(f"icmp eq i64 {part}, 0")
            border = b.call("i64", "llvm.smax.i64", f"i64 {turn.known}", f"i64 {self.first}")
            border = b.call("i64", "llvm.smin.i64", f"i64 {border}", f"i64 {last}")
            first = b.op(f"select i1 {is_later}, i64 {self.first}, i64 {border}")
            end = b.op(f"select i1 {is_later}, i64 {border}, i64 {last}")
            yield TurnRows(turn, first, end, b.op(f"select i1 {is_later}, i64 {turn.before}, i64 0"), is_later)

    def of_state(self, rows: TurnRows, later: int, start: int) -> str:
        """The address of row 0 of the states before: results, or those to begin with."""
        b = self.b
        place = b.op(f"select i1 {rows.is_later}, ptr {b.places[later]}, ptr {b.places[start]}")
        at = b.op(f"mul i64 {rows.at}, {self.hidden}")
        return b.op(f"getelementptr {self.tiles.scalar}, ptr {place}, i64 {at}")

    # --- places ---

    def row(self, array: int, turn: LayerTurn, row: str) -> str:
        """The number of the first element of a step's row."""
        b = self.b
        return b.op(f"mul i64 {b.op(f'add i64 {turn.start}, {row}')}, %extent.{array}.2")

    def state(self, row: str) -> str:
        """The number of the first element of a row of a state."""
        return self.b.op(f"mul i64 {row}, {self.hidden}")

    # --- products ---

    def products(
        self, rows: tuple[str, str], source: str, depth: str, panels: int, then: Callable[[str, str, str, int], None]
    ) -> None:
        """Multiply rows.

        Args:
            rows: the first, and one past the last.
            source: the address of row 0, in memory row after row.
            depth: how long rows are, and panels.
            panels: the number of the panels' array.
            then: is called with (row, the first hidden unit of a block, row among the sums, panel among the sums).
        """
        b, t = self.b, self.tiles
        size = b.op(f"mul i64 {depth}, {t.lanes}")
        if self.gates > 1:  # a hidden unit's gates lie a matrix apart
            apart = b.op(f"mul i64 {size}, {self.blocks}")
            self._blocks(rows, ("0", self.blocks), 1, self.gates, (source, depth, panels, size, apart), then)
            return
        whole = b.op(f"sub i64 {self.blocks}, {b.op(f'srem i64 {self.blocks}, {PANELS}')}")
        self._blocks(rows, ("0", whole), PANELS, PANELS, (source, depth, panels, size, size), then)
        self._blocks(rows, (whole, self.blocks), 1, 1, (source, depth, panels, size, size), then)

    def _blocks(
        self, rows: tuple[str, str], blocks: tuple[str, str], step: int, count: int, operands: tuple[Any, ...],
        then: Callable[[str, str, str, int], None],
    ) -> None:  # fmt: skip
        """Blocks of hidden units, for each of them tiles of rows. ``count``: panels that are multiplied at once."""
        b, t = self.b, self.tiles
        source, depth, panels, size, apart = operands
        with b.loop(*blocks, step) as block, b.loop(*rows, t.rows) as row:
            rest = b.op(f"sub i64 {rows[1]}, {row}")
            at_once = b.call("i64", "llvm.smin.i64", f"i64 {rest}", f"i64 {t.rows}")
            a = b.op(f"getelementptr {t.scalar}, ptr {source}, i64 {b.op(f'mul i64 {row}, {depth}')}")
            panel = b.element(panels, b.op(f"mul i64 {block}, {size}"))
            given = f"ptr {self.sums}, ptr {a}, i64 {depth}, i64 {depth}, i64 {at_once}"
            t.multiply(b, given, panel, apart, count)
            with b.loop("0", at_once) as nr:
                here = b.op(f"add i64 {row}, {nr}")
                for beside in range(step):
                    unit = b.op(f"mul i64 {b.op(f'add i64 {block}, {beside}')}, {t.lanes}")
                    then(here, unit, nr, beside)

    def widths(self) -> set[int]:
        """Numbers of panels that the products take at once."""
        counts = (self.gates,) if self.gates > 1 else (PANELS, 1)
        return {width for count in counts for width in self.tiles.widths(count)}

    def sum(self, row: str, panel: int) -> Lanes:
        """The product of a row with a panel."""
        return self.lanes(self.tiles.sum_at(self.b, self.sums, row, panel))

    # --- elements ---

    def lanes(self, reg: str) -> Lanes:
        return Lanes(self.b, self.tiles.scalar, self.tiles.lanes, reg)

    def mask(self, unit: str) -> str:
        """Which hidden units of a block exist."""
        b, lanes = self.b, self.tiles.lanes
        left = b.splat(b.op(f"trunc i64 {b.op(f'sub i64 {self.hidden}, {unit}')} to i32"), "i32", lanes)
        numbers = ", ".join(f"i32 {n}" for n in range(lanes))
        return b.op(f"icmp slt <{lanes} x i32> <{numbers}>, {left}")

    def load(self, array: int, row: str, unit: str, mask: str, gate: int = 0) -> Lanes:
        """The elements of a block of hidden units in a row, ``row``: the number of its first element."""
        return self.load_at(self.b.places[array], row, unit, mask, gate)

    def load_at(self, place: str, row: str, unit: str, mask: str, gate: int = 0) -> Lanes:
        """The same at an address."""
        b, t = self.b, self.tiles
        name = f"llvm.masked.load.v{t.lanes}f{8 * t.itemsize}.p0"
        b.declare(f"declare {t.vector} @{name}(ptr, i32 immarg, <{t.lanes} x i1>, {t.vector})")
        at = self._at(place, row, unit, gate)
        text = f"(ptr {at}, i32 {t.itemsize}, <{t.lanes} x i1> {mask}, {t.vector} zeroinitializer)"
        return self.lanes(b.op(f"call {t.vector} @{name}{text}"))

    def store(self, value: Lanes, array: int, row: str, unit: str, mask: str, gate: int = 0) -> None:
        """Write the elements of a block of hidden units in a row."""
        b, t = self.b, self.tiles
        name = f"llvm.masked.store.v{t.lanes}f{8 * t.itemsize}.p0"
        b.declare(f"declare void @{name}({t.vector}, ptr, i32 immarg, <{t.lanes} x i1>)")
        at = self._at(b.places[array], row, unit, gate)
        b.do(f"call void @{name}({value.typed}, ptr {at}, i32 {t.itemsize}, <{t.lanes} x i1> {mask})")

    def _at(self, place: str, row: str, unit: str, gate: int) -> str:
        b = self.b
        index = b.op(f"add i64 {row}, {unit}")
        if gate:
            index = b.op(f"add i64 {index}, {b.op(f'mul i64 {self.hidden}, {gate}')}")
        return b.op(f"getelementptr {self.tiles.scalar}, ptr {place}, i64 {index}")

    @contextmanager
    def elements(self, first: str, last: str) -> Iterator[tuple[str, str, str]]:
        """Rows by blocks of hidden units: (row, the block's first unit, mask)."""
        b = self.b
        with b.loop(first, last) as row, b.loop("0", self.blocks) as block:
            unit = b.op(f"mul i64 {block}, {self.tiles.lanes}")
            yield row, unit, self.mask(unit)

    def copy_state(self, source: int, to: int) -> None:
        """The unit's rows of a state."""
        with self.elements(self.first, self.last) as (row, unit, mask):
            self.store(self.load(source, self.state(row), unit, mask), to, self.state(row), unit, mask)

    def keep_before(self, rows: TurnRows, source: str, to: int) -> None:
        """Of packed rows: the states before the step, in the places of the step's rows."""
        with self.elements(rows.first, rows.last) as (row, unit, mask):
            value = self.load_at(source, self.state(row), unit, mask)
            self.store(value, to, self.row(to, rows.turn, row), unit, mask)

    def keep_ends(self, turn: LayerTurn, arrays: Sequence[tuple[int, int]]) -> None:
        """Of packed rows: the states of those that end at the step. ``arrays``: of all steps, of the ends."""
        b = self.b
        first = b.call("i64", "llvm.smax.i64", f"i64 {self.first}", f"i64 {turn.following}")
        last = b.call("i64", "llvm.smin.i64", f"i64 {self.last}", f"i64 {turn.size}")
        with self.elements(first, last) as (row, unit, mask):
            for source, to in arrays:
                value = self.load(source, self.row(source, turn, row), unit, mask)
                self.store(value, to, self.state(row), unit, mask)
