"""Recurrent layers over all steps, and their backwards, as routines.

Owns: the texts, ``recurrent_call``.
Must not know: layers of a network, directions of more than one, derivatives' formulas beyond a step's.

# Note [Layers as routines]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# The steps of a layer follow one another, but its rows are independent: each row goes through all steps alone. So a
# layer is one launch whose units of work are some rows each, with a loop over the steps inside. At a step a unit
# multiplies its rows of the state by the weight, whose panels (``recurrent_tiles.py``) stay in the cache, and makes of
# the sums, while they are in the first cache, the gates and the next state. The backward goes through the steps from
# the last one: the gradients of a step's gates, then their product with the weight, which is the state's gradient.
# The text depends on the kind of layer, the dtype and the CPU; extents and the number of steps are arguments. So one
# kernel serves sequences of every length, and a step's recording does not grow with it.
#   forward: panel (gate, nr) is the columns nr * LANES .. of that gate's [H, H], transposed
#   backward: panel nr is the columns nr * LANES .. of the weight [G * H, H]
# A weight's gradient is no part of it: one product over the rows of all steps, which the caller makes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.codegen.primitives.layers import GATES, LayerForm
from jitgrad.codegen.routines.recurrent_tiles import PANEL_NBYTES, PANELS, StepProducts
from jitgrad.codegen.routines.routine import ArrayRoutine, RoutineCall, RoutineParam
from jitgrad.codegen.routines.rows import MAX_UNITS, UNIT_NS, RowBuilder
from jitgrad.codegen.vmath.core import Lanes, select
from jitgrad.codegen.vmath.exp import sigmoid, tanh
from jitgrad.dtypes import DType, int64

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["panel_lanes", "recurrent_call"]

_PRODUCT_NS, _ELEMENT_NS = 0.02, 1.0
"""A multiplication of the product, and what else is done per element of the gates; of float32."""
_TILES_AT_ONCE = 2
"""A unit's tiles of rows: a panel that was read for one is in the cache for the next."""
_FEW_ROWS = 4
"""Fewer rows are one unit."""


def panel_lanes(dtype: DType) -> int:
    """How many columns a panel has."""
    return PANEL_NBYTES // dtype.itemsize


def _tiles(dtype: DType, target: Target) -> StepProducts:
    scalar = "float" if dtype.itemsize == 4 else "double"
    registers = max(1, PANEL_NBYTES // (4 * target.width))  # of a panel's row
    at_once = max(1, 6 * PANELS * target.registers // (32 * registers))  # rows times panels; the rest is for operands
    rows, panels = (6, PANELS) if registers == 1 else (min(6, at_once), 1)
    return StepProducts(scalar, panel_lanes(dtype), rows, panels)


class _Turn(NamedTuple):
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


class _TurnRows(NamedTuple):
    """The unit's rows at a step that come from one place.

    Attributes:
        turn: the step.
        first, last: the rows.
        at: where the states before begin among the rows of their array.
        is_later: whether that is a result's; else the states to begin with.
    """

    turn: _Turn
    first: str
    last: str
    at: str
    is_later: str


class _Text:
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
    def turns(self, is_reversed: bool = False) -> Iterator[_Turn]:
        """All steps in the layer's order, or from its end."""
        b = self.b
        goes_down = self.form.is_back is not is_reversed
        if not self.form.is_packed:
            with b.loop("0", self.steps) as nr:
                step = b.op(f"sub i64 {b.op(f'sub i64 {self.steps}, 1')}, {nr}") if goes_down else nr
                yield self._turn_of_equal_rows(step)
            return
        # the places of packed rows are added up on the way
        with b.fold("0", self.steps, 1, [("i64", "%extent.0.1" if goes_down else "0")]) as (nr, place):
            step = b.op(f"sub i64 {b.op(f'sub i64 {self.steps}, 1')}, {nr}") if goes_down else nr
            count = self._count(step)
            start = b.op(f"sub i64 {place[0]}, {count}") if goes_down else place[0]
            yield self._turn_of_packed_rows(step, start, count)
            place[0] = start if goes_down else b.op(f"add i64 {start}, {count}")

    def _count(self, step: str) -> str:
        """How many rows a step has; none behind the last one and before the first one."""
        b = self.b
        exists = b.op(f"icmp ult i64 {step}, {self.steps}")
        at = b.op(f"select i1 {exists}, i64 {step}, i64 0")
        return b.op(f"select i1 {exists}, i64 {b.load(self.counts, at)}, i64 0")

    def _turn_of_equal_rows(self, step: str) -> _Turn:
        b = self.b
        first, other = ("sub", "add") if self.form.is_back else ("add", "sub")
        start = b.op(f"mul i64 {step}, {self.total}")
        there = []
        for which in (other, first):
            nr = b.op(f"{which} i64 {step}, 1")
            exists = b.op(f"icmp ult i64 {nr}, {self.steps}")
            there.append(b.op(f"select i1 {exists}, i64 {self.total}, i64 0"))
        return _Turn(start, b.op(f"{other} i64 {start}, {self.total}"), self.total, *there)

    def _turn_of_packed_rows(self, step: str, start: str, count: str) -> _Turn:
        b = self.b
        earlier, later = (self._count(b.op(f"{which} i64 {step}, 1")) for which in ("sub", "add"))
        if self.form.is_back:
            return _Turn(start, b.op(f"add i64 {start}, {count}"), count, later, earlier)
        known = b.call("i64", "llvm.smin.i64", f"i64 {earlier}", f"i64 {count}")
        return _Turn(start, b.op(f"sub i64 {start}, {earlier}"), count, known, later)

    @contextmanager
    def rows(self, turn: _Turn) -> Iterator[_TurnRows]:
        """The unit's rows at a step, by where the states before them are."""
        b = self.b
        last = b.call("i64", "llvm.smin.i64", f"i64 {self.last}", f"i64 {turn.size}")
        if not (self.form.is_packed and self.form.is_back):  # all rows were there before, or none
            is_later = b.op(f"icmp sgt i64 {turn.known}, 0")
            yield _TurnRows(turn, self.first, last, b.op(f"select i1 {is_later}, i64 {turn.before}, i64 0"), is_later)
            return
        with b.loop("0", "2") as part:
            is_later = b.op(f"icmp eq i64 {part}, 0")
            border = b.call("i64", "llvm.smax.i64", f"i64 {turn.known}", f"i64 {self.first}")
            border = b.call("i64", "llvm.smin.i64", f"i64 {border}", f"i64 {last}")
            first = b.op(f"select i1 {is_later}, i64 {self.first}, i64 {border}")
            end = b.op(f"select i1 {is_later}, i64 {border}, i64 {last}")
            yield _TurnRows(turn, first, end, b.op(f"select i1 {is_later}, i64 {turn.before}, i64 0"), is_later)

    def of_state(self, rows: _TurnRows, later: int, start: int) -> str:
        """The address of row 0 of the states before: results, or those to begin with."""
        b = self.b
        place = b.op(f"select i1 {rows.is_later}, ptr {b.places[later]}, ptr {b.places[start]}")
        at = b.op(f"mul i64 {rows.at}, {self.hidden}")
        return b.op(f"getelementptr {self.tiles.scalar}, ptr {place}, i64 {at}")

    # --- places ---

    def row(self, array: int, turn: _Turn, row: str) -> str:
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

    def keep_before(self, rows: _TurnRows, source: str, to: int) -> None:
        """Of packed rows: the states before the step, in the places of the step's rows."""
        with self.elements(rows.first, rows.last) as (row, unit, mask):
            value = self.load_at(source, self.state(row), unit, mask)
            self.store(value, to, self.row(to, rows.turn, row), unit, mask)

    def keep_ends(self, turn: _Turn, arrays: Sequence[tuple[int, int]]) -> None:
        """Of packed rows: the states of those that end at the step. ``arrays``: of all steps, of the ends."""
        b = self.b
        first = b.call("i64", "llvm.smax.i64", f"i64 {self.first}", f"i64 {turn.following}")
        last = b.call("i64", "llvm.smin.i64", f"i64 {self.last}", f"i64 {turn.size}")
        with self.elements(first, last) as (row, unit, mask):
            for source, to in arrays:
                value = self.load(source, self.row(source, turn, row), unit, mask)
                self.store(value, to, self.state(row), unit, mask)


def _lstm(x: _Text) -> None:
    """gates, panels, bias, h, c; outputs, cells, activated. Packed: counts; and h, c at the ends, h before."""
    gates, panels, bias, h0, c0 = range(5)
    outputs, cells, activated, h_end, c_end, before = islice(x.results(), 6)
    with x.turns() as turn:
        with x.rows(turn) as rows:
            h, c = x.of_state(rows, outputs, h0), x.of_state(rows, cells, c0)

            def then(row: str, unit: str, nr: str, _: int) -> None:
                mask, at, own = x.mask(unit), x.row(gates, turn, row), x.row(outputs, turn, row)
                i, f, g, o = (
                    x.sum(nr, k) + x.load(bias, "0", unit, mask, k) + x.load(gates, at, unit, mask, k) for k in range(4)
                )
                i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
                new = f * x.load_at(c, x.state(row), unit, mask) + i * g
                x.store(o * tanh(new), outputs, own, unit, mask)
                x.store(new, cells, own, unit, mask)
                for k, gate in enumerate((i, f, g, o)):
                    x.store(gate, activated, at, unit, mask, k)

            x.products((rows.first, rows.last), h, x.hidden, panels, then)
            if x.form.is_packed:
                x.keep_before(rows, h, before)
        if x.form.is_packed:
            x.keep_ends(turn, ((outputs, h_end), (cells, c_end)))


def _gru(x: _Text) -> None:
    """gates, panels, bias, h; outputs, activated, new. Packed: counts; and h at the ends, h before."""
    gates, panels, bias, h0 = range(4)
    outputs, activated, new, h_end, before = islice(x.results(), 5)
    with x.turns() as turn:
        with x.rows(turn) as rows:
            h = x.of_state(rows, outputs, h0)

            def then(row: str, unit: str, nr: str, _: int) -> None:
                mask, at, own = x.mask(unit), x.row(gates, turn, row), x.row(outputs, turn, row)
                hidden = [x.sum(nr, k) + x.load(bias, "0", unit, mask, k) for k in range(3)]
                r, z = (sigmoid(hidden[k] + x.load(gates, at, unit, mask, k)) for k in range(2))
                n = tanh(x.load(gates, at, unit, mask, 2) + r * hidden[2])
                x.store(n + z * (x.load_at(h, x.state(row), unit, mask) - n), outputs, own, unit, mask)
                x.store(hidden[2], new, own, unit, mask)
                for k, gate in enumerate((r, z, n)):
                    x.store(gate, activated, at, unit, mask, k)

            x.products((rows.first, rows.last), h, x.hidden, panels, then)
            if x.form.is_packed:
                x.keep_before(rows, h, before)
        if x.form.is_packed:
            x.keep_ends(turn, ((outputs, h_end),))


def _relu(value: Lanes) -> Lanes:
    return select(value.cmp("ole", 0.0), 0.0, value)  # a NaN stays


def _plain(activation: Callable[[Lanes], Lanes], x: _Text) -> None:
    """gates, panels, bias, h; outputs. Packed: counts; and h at the ends, h before."""
    gates, panels, bias, h0 = range(4)
    outputs, h_end, before = islice(x.results(), 3)
    with x.turns() as turn:
        with x.rows(turn) as rows:

            def then(row: str, unit: str, nr: str, panel: int) -> None:
                mask, at = x.mask(unit), x.row(gates, turn, row)
                value = x.sum(nr, panel) + x.load(bias, "0", unit, mask) + x.load(gates, at, unit, mask)
                x.store(activation(value), outputs, at, unit, mask)

            h = x.of_state(rows, outputs, h0)
            x.products((rows.first, rows.last), h, x.hidden, panels, then)
            if x.form.is_packed:
                x.keep_before(rows, h, before)
        if x.form.is_packed:
            x.keep_ends(turn, ((outputs, h_end),))


def _through_sigmoid(g: Lanes, y: Lanes) -> Lanes:
    return g * (1.0 - y) * y


def _through_tanh(g: Lanes, y: Lanes) -> Lanes:
    return g * (1.0 - y * y)


def _through_products(x: _Text, turn: _Turn, of_gates: int, panels: int, of_h: int, adds: bool) -> None:
    """The state's gradient: the gates' times the weight; ``adds``: to what is there."""
    b = x.b

    def then(row: str, unit: str, nr: str, panel: int) -> None:
        mask, at, value = x.mask(unit), x.state(row), x.sum(nr, panel)
        x.store(x.load(of_h, at, unit, mask) + value if adds else value, of_h, at, unit, mask)

    width = f"%extent.{of_gates}.2"
    source = b.element(of_gates, b.op(f"mul i64 {turn.start}, {width}"))
    last = b.call("i64", "llvm.smin.i64", f"i64 {x.last}", f"i64 {turn.size}")
    x.products((x.first, last), source, width, panels, then)


def _lstm_backward(x: _Text) -> None:
    """of outputs, of h, of c, c, cells, activated, panels (, counts); of gates, of h, of c."""
    grad, grad_h, grad_c, c0, cells, activated, panels = range(7)
    of_gates, of_h, of_c = islice(x.results(), 3)
    x.copy_state(grad_h, of_h)
    x.copy_state(grad_c, of_c)
    with x.turns(is_reversed=True) as turn:
        with x.rows(turn) as rows:
            c = x.of_state(rows, cells, c0)
            with x.elements(rows.first, rows.last) as (row, unit, mask):
                own, at, state = x.row(cells, turn, row), x.row(activated, turn, row), x.state(row)
                i, f, g, o = (x.load(activated, at, unit, mask, k) for k in range(4))
                tanh_c = tanh(x.load(cells, own, unit, mask))
                to_h = x.load(grad, own, unit, mask) + x.load(of_h, state, unit, mask)
                to_c = x.load(of_c, state, unit, mask) + _through_tanh(to_h * o, tanh_c)
                of_each = (
                    _through_sigmoid(to_c * g, i), _through_sigmoid(to_c * x.load_at(c, state, unit, mask), f),
                    _through_tanh(to_c * i, g), _through_sigmoid(to_h * tanh_c, o),
                )  # fmt: skip
                for k, value in enumerate(of_each):
                    x.store(value, of_gates, at, unit, mask, k)
                x.store(to_c * f, of_c, state, unit, mask)
        _through_products(x, turn, of_gates, panels, of_h, adds=False)


def _gru_backward(x: _Text) -> None:
    """of outputs, of h, h, outputs, activated, new, panels (, counts); of gates, of the states' gates, of h."""
    grad, grad_h, h0, outputs, activated, new, panels = range(7)
    of_gates, of_hidden, of_h = islice(x.results(), 3)
    x.copy_state(grad_h, of_h)
    with x.turns(is_reversed=True) as turn:
        with x.rows(turn) as rows:
            h = x.of_state(rows, outputs, h0)
            with x.elements(rows.first, rows.last) as (row, unit, mask):
                own, at, state = x.row(outputs, turn, row), x.row(activated, turn, row), x.state(row)
                r, z, n = (x.load(activated, at, unit, mask, k) for k in range(3))
                to_h = x.load(grad, own, unit, mask) + x.load(of_h, state, unit, mask)
                to_n = _through_tanh(to_h * (1.0 - z), n)
                shared = (
                    _through_sigmoid(to_n * x.load(new, own, unit, mask), r),
                    _through_sigmoid(to_h * (x.load_at(h, state, unit, mask) - n), z),
                )
                for array, last in ((of_gates, to_n), (of_hidden, to_n * r)):
                    for k, value in enumerate((*shared, last)):
                        x.store(value, array, at, unit, mask, k)
                x.store(to_h * z, of_h, state, unit, mask)
        _through_products(x, turn, of_hidden, panels, of_h, adds=True)


def _plain_backward(through: Callable[[Lanes, Lanes], Lanes], x: _Text) -> None:
    """of outputs, of h, outputs, panels (, counts); of gates, of h."""
    grad, grad_h, outputs, panels = range(4)
    of_gates, of_h = islice(x.results(), 2)
    x.copy_state(grad_h, of_h)
    with x.turns(is_reversed=True) as turn:
        last = x.b.call("i64", "llvm.smin.i64", f"i64 {x.last}", f"i64 {turn.size}")
        with x.elements(x.first, last) as (row, unit, mask):
            own, state = x.row(outputs, turn, row), x.state(row)
            to_h = x.load(grad, own, unit, mask) + x.load(of_h, state, unit, mask)
            x.store(through(to_h, x.load(outputs, own, unit, mask)), of_gates, own, unit, mask)
        _through_products(x, turn, of_gates, panels, of_h, adds=False)


def _through_relu(g: Lanes, y: Lanes) -> Lanes:
    return select(y.cmp("ole", 0.0), 0.0, g)


_FORWARD: dict[str, Callable[[_Text], None]] = {
    "lstm": _lstm,
    "gru": _gru,
    "tanh": functools.partial(_plain, tanh),
    "relu": functools.partial(_plain, _relu),
}
_BACKWARD: dict[str, Callable[[_Text], None]] = {
    "lstm": _lstm_backward,
    "gru": _gru_backward,
    "tanh": functools.partial(_plain_backward, _through_tanh),
    "relu": functools.partial(_plain_backward, _through_relu),
}


@functools.lru_cache(maxsize=64)
def _routine(form: LayerForm, dtype: DType, count: int, target: Target) -> ArrayRoutine:
    """``count``: arrays."""
    dtypes = [dtype] * count
    if form.is_packed:
        dtypes[form.operands - 1] = int64
    b = RowBuilder(dtypes)
    b.isa = target.isa
    tiles = _tiles(dtype, target)
    print_layer = (_BACKWARD if form.is_backward else _FORWARD)[form.layer]
    result = "0"
    if form.is_packed:
        are_right = _are_right(b, form)
        with b.when(are_right):
            text = _Text(b, tiles, form)
            print_layer(text)
        result = b.op(f"select i1 {are_right}, i32 0, i32 1")
    else:
        text = _Text(b, tiles, form)
        print_layer(text)
    products = [tiles.function(target, width) for width in sorted(text.widths())]
    for function in products:
        b.declarations.update(function.declarations)
        function.declarations.clear()
    parts = [b.finish(f"ret i32 {result}", "internal i32"), *(f.finish(result_type="internal void") for f in products)]
    arrays = [RoutineParam("array", each.name, 3) for each in dtypes]
    params = [RoutineParam("unit", "i64"), *arrays, RoutineParam("int", "i64")]
    words = [form.layer, *(word for word in ("packed", "backward") if getattr(form, f"is_{word}"))]
    name = "_".join([*words, "layer", *(["from_the_end"] if form.is_back else []), dtype.name])
    return ArrayRoutine(name, "\n".join(parts), b.name, params, can_fail=form.is_packed)


def _are_right(b: RowBuilder, form: LayerForm) -> str:
    """Whether packed rows are what the kernel goes by: all at first, then no more than before, at least one."""
    counts = form.operands - 1
    inits = [("i64", f"%extent.{form.state}.1"), ("i64", "0"), ("i1", "true")]
    with b.fold("0", f"%extent.{counts}.2", 1, inits) as (step, carried):
        before, total, are_right = carried
        count = b.load(counts, step)
        is_first, is_same = b.op(f"icmp eq i64 {step}, 0"), b.op(f"icmp eq i64 {count}, {before}")
        fits = b.op(f"select i1 {is_first}, i1 {is_same}, i1 {b.op(f'icmp sle i64 {count}, {before}')}")
        fits = b.op(f"and i1 {fits}, {b.op(f'icmp sgt i64 {count}, 0')}")
        carried[:] = [count, b.op(f"add i64 {total}, {count}"), b.op(f"and i1 {are_right}, {fits}")]
    return b.op(f"and i1 {carried[2]}, {b.op(f'icmp eq i64 {carried[1]}, %extent.0.1')}")


@functools.lru_cache(maxsize=4096)
def recurrent_call(
    form: LayerForm, dtype: DType, operands: tuple[tuple[int, ...], ...], results: tuple[tuple[int, ...], ...]
) -> RoutineCall:
    """The call of a layer's routine, or of its backward's. Equal arguments give one object.

    Args:
        form: see ``primitives/layers.py``.
        dtype: float32 or float64.
        operands, results: shapes of three dimensions; the weight is its panels.
    """
    _, rows, hidden = operands[form.state]
    elements = operands[0][0] * operands[0][1] * hidden * GATES[form.layer]
    cost = (_PRODUCT_NS * hidden + _ELEMENT_NS) * elements * (dtype.itemsize // 4)
    target = host_target()
    at_once = min(_TILES_AT_ONCE * _tiles(dtype, target).rows, rows if rows < _FEW_ROWS else (rows + 1) // 2)
    units = max(1, min(-(-rows // at_once), MAX_UNITS, math.ceil(cost / UNIT_NS)))
    shapes = (*operands, *results)
    routine = _routine(form, dtype, len(shapes), target)
    dtypes = [int64 if p.type == "int64" else dtype for p in routine.params if p.kind == "array"]
    return RoutineCall(routine, shapes, dtypes, (units,), len(operands), units, cost)
