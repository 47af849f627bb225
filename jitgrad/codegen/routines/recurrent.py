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
import math
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.codegen.primitives.layers import GATES
from jitgrad.codegen.routines.recurrent_tiles import PANEL_NBYTES, PANELS, StepProducts
from jitgrad.codegen.routines.routine import ArrayRoutine, RoutineCall, RoutineParam
from jitgrad.codegen.routines.rows import MAX_UNITS, UNIT_NS, RowBuilder
from jitgrad.codegen.vmath.core import Lanes, select
from jitgrad.codegen.vmath.exp import sigmoid, tanh
from jitgrad.dtypes import DType

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


class _Text:
    """The text of a routine in the making.

    Attributes:
        b: prints it.
        tiles: the products.
        is_back: whether the layer goes from the last step to the first.
        hidden: how many hidden units there are.
        blocks: panels of so many columns.
        sums: where the sums of a product are.
        first, last: the unit's rows.
    """

    def __init__(self, b: RowBuilder, tiles: StepProducts, is_back: bool, gates: int, hidden: str) -> None:
        self.b, self.tiles, self.is_back, self.gates, self.hidden = b, tiles, is_back, gates, hidden
        self.blocks = b.op(f"sdiv i64 {b.op(f'add i64 {hidden}, {tiles.lanes - 1}')}, {tiles.lanes}")
        self.sums = tiles.sums(b)
        self.first, self.last = b.part(b.n)

    # --- places ---

    def step(self, turn: str) -> str:
        """The step of a turn, which are counted in the layer's own order."""
        b = self.b
        return b.op(f"sub i64 {b.op(f'sub i64 {b.outer}, 1')}, {turn}") if self.is_back else turn

    def row(self, array: int, step: str, row: str) -> str:
        """The number of the first element of a row at a step."""
        b = self.b
        place = b.op(f"add i64 {b.op(f'mul i64 {step}, {b.n}')}, {row}")
        return b.op(f"mul i64 {place}, %extent.{array}.2")

    @contextmanager
    def turns(self) -> Iterator[tuple[str, str, str]]:
        """All turns: (the step, 0 at the first turn and else 1, the step before or 0)."""
        with self.b.loop("0", self.b.outer) as turn:
            yield self._with_before(turn)

    @contextmanager
    def turns_reversed(self) -> Iterator[tuple[str, str, str]]:
        """The same from the last turn to the first."""
        b = self.b
        with b.loop("0", b.outer) as done:
            yield self._with_before(b.op(f"sub i64 {b.op(f'sub i64 {b.outer}, 1')}, {done}"))

    def _with_before(self, turn: str) -> tuple[str, str, str]:
        b = self.b
        is_later = b.op(f"icmp sgt i64 {turn}, 0")
        before = self.step(b.op(f"sub i64 {turn}, 1"))
        return self.step(turn), is_later, b.op(f"select i1 {is_later}, i64 {before}, i64 0")

    def of_state(self, is_later: str, steps: int, start: int) -> str:
        """The array of the states before a turn: of all steps, or of the start."""
        b = self.b
        return b.op(f"select i1 {is_later}, ptr {b.places[steps]}, ptr {b.places[start]}")

    # --- products ---

    def products(
        self, source: str, at: Callable[[str], str], depth: str, panels: int, then: Callable[[str, str, str, int], None]
    ) -> None:
        """Multiply the unit's rows.

        Args:
            source: the address of an array.
            at: the number of a row's first element in it.
            depth: how long its rows are, as the panels are.
            panels: the number of the panels' array, which ``gates`` of a hidden unit's lie in, if not all are one's.
            then: is called with (row, the first hidden unit of a block, row among the sums, panel among the sums).
        """
        b, t = self.b, self.tiles
        size = b.op(f"mul i64 {depth}, {t.lanes}")
        if self.gates > 1:  # a hidden unit's gates lie a matrix apart
            apart = b.op(f"mul i64 {size}, {self.blocks}")
            self._blocks("0", self.blocks, 1, self.gates, (source, at, depth, panels, size, apart), then)
            return
        whole = b.op(f"sub i64 {self.blocks}, {b.op(f'srem i64 {self.blocks}, {PANELS}')}")
        self._blocks("0", whole, PANELS, PANELS, (source, at, depth, panels, size, size), then)
        self._blocks(whole, self.blocks, 1, 1, (source, at, depth, panels, size, size), then)

    def _blocks(
        self, begin: str, end: str, step: int, count: int, operands: tuple[Any, ...],
        then: Callable[[str, str, str, int], None],
    ) -> None:  # fmt: skip
        """Blocks of hidden units, for each of them tiles of rows. ``count``: panels that are multiplied at once."""
        b, t = self.b, self.tiles
        source, at, depth, panels, size, apart = operands
        with b.loop(begin, end, step) as block, b.loop(self.first, self.last, t.rows) as row:
            rest = b.op(f"sub i64 {self.last}, {row}")
            rows = b.call("i64", "llvm.smin.i64", f"i64 {rest}", f"i64 {t.rows}")
            a = b.op(f"getelementptr {t.scalar}, ptr {source}, i64 {at(row)}")
            panel = b.element(panels, b.op(f"mul i64 {block}, {size}"))
            given = f"ptr {self.sums}, ptr {a}, i64 {depth}, i64 {depth}, i64 {rows}"
            t.multiply(b, given, panel, apart, count)
            with b.loop("0", rows) as nr:
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
        b, t = self.b, self.tiles
        name = f"llvm.masked.load.v{t.lanes}f{8 * t.itemsize}.p0"
        b.declare(f"declare {t.vector} @{name}(ptr, i32 immarg, <{t.lanes} x i1>, {t.vector})")
        at = self._at(place, row, unit, gate)
        text = f"(ptr {at}, i32 {t.itemsize}, <{t.lanes} x i1> {mask}, {t.vector} zeroinitializer)"
        return self.lanes(b.op(f"call {t.vector} @{name}{text}"))

    def store(self, value: Lanes, array: int, row: str, unit: str, mask: str, gate: int = 0) -> None:
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
    def elements(self) -> Iterator[tuple[str, str, str]]:
        """The unit's rows by blocks of hidden units: (row, the block's first unit, mask)."""
        b = self.b
        with b.loop(self.first, self.last) as row, b.loop("0", self.blocks) as block:
            unit = b.op(f"mul i64 {block}, {self.tiles.lanes}")
            yield row, unit, self.mask(unit)

    def copy_rows(self, source: int, to: int) -> None:
        """The unit's rows of a state."""
        with self.elements() as (row, unit, mask):
            value = self.load(source, self.row(source, "0", row), unit, mask)
            self.store(value, to, self.row(to, "0", row), unit, mask)


def _lstm(x: _Text) -> None:
    """gates, panels, bias, h, c; outputs, cells, activated."""
    gates, panels, bias, h0, c0, outputs, cells, activated = range(8)
    with x.turns() as (step, is_later, before):
        h, c = x.of_state(is_later, outputs, h0), x.of_state(is_later, cells, c0)

        def then(row: str, unit: str, nr: str, _: int) -> None:
            mask, at, own = x.mask(unit), x.row(gates, step, row), x.row(outputs, step, row)
            i, f, g, o = (
                x.sum(nr, k) + x.load(bias, "0", unit, mask, k) + x.load(gates, at, unit, mask, k) for k in range(4)
            )
            i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
            new = f * x.load_at(c, x.row(cells, before, row), unit, mask) + i * g
            x.store(o * tanh(new), outputs, own, unit, mask)
            x.store(new, cells, own, unit, mask)
            for k, gate in enumerate((i, f, g, o)):
                x.store(gate, activated, at, unit, mask, k)

        x.products(h, lambda row: x.row(outputs, before, row), x.hidden, panels, then)


def _gru(x: _Text) -> None:
    """gates, panels, bias, h; outputs, activated, new."""
    gates, panels, bias, h0, outputs, activated, new = range(7)
    with x.turns() as (step, is_later, before):
        h = x.of_state(is_later, outputs, h0)

        def then(row: str, unit: str, nr: str, _: int) -> None:
            mask, at, own = x.mask(unit), x.row(gates, step, row), x.row(outputs, step, row)
            hidden = [x.sum(nr, k) + x.load(bias, "0", unit, mask, k) for k in range(3)]
            r, z = (sigmoid(hidden[k] + x.load(gates, at, unit, mask, k)) for k in range(2))
            n = tanh(x.load(gates, at, unit, mask, 2) + r * hidden[2])
            old = x.load_at(h, x.row(outputs, before, row), unit, mask)
            x.store(n + z * (old - n), outputs, own, unit, mask)
            x.store(hidden[2], new, own, unit, mask)
            for k, gate in enumerate((r, z, n)):
                x.store(gate, activated, at, unit, mask, k)

        x.products(h, lambda row: x.row(outputs, before, row), x.hidden, panels, then)


def _relu(value: Lanes) -> Lanes:
    return select(value.cmp("ole", 0.0), 0.0, value)  # a NaN stays


def _plain(activation: Callable[[Lanes], Lanes], x: _Text) -> None:
    """gates, panels, bias, h; outputs."""
    gates, panels, bias, h0, outputs = range(5)
    with x.turns() as (step, is_later, before):

        def then(row: str, unit: str, nr: str, panel: int) -> None:
            mask, at = x.mask(unit), x.row(gates, step, row)
            value = x.sum(nr, panel) + x.load(bias, "0", unit, mask) + x.load(gates, at, unit, mask)
            x.store(activation(value), outputs, at, unit, mask)

        h = x.of_state(is_later, outputs, h0)
        x.products(h, lambda row: x.row(outputs, before, row), x.hidden, panels, then)


def _through_sigmoid(g: Lanes, y: Lanes) -> Lanes:
    return g * (1.0 - y) * y


def _through_tanh(g: Lanes, y: Lanes) -> Lanes:
    return g * (1.0 - y * y)


def _through_products(x: _Text, of_gates: int, step: str, panels: int, of_h: int, adds: bool) -> None:
    """The state's gradient: the gates' times the weight; ``adds``: to what is there."""

    def then(row: str, unit: str, nr: str, panel: int) -> None:
        mask, at = x.mask(unit), x.row(of_h, "0", row)
        value = x.sum(nr, panel)
        x.store(x.load(of_h, at, unit, mask) + value if adds else value, of_h, at, unit, mask)

    place = x.b.places[of_gates]
    x.products(place, lambda row: x.row(of_gates, step, row), f"%extent.{of_gates}.2", panels, then)


def _lstm_backward(x: _Text) -> None:
    """of outputs, of h, of c, c, cells, activated, panels; of gates, of h, of c."""
    grad, grad_h, grad_c, c0, cells, activated, panels, of_gates, of_h, of_c = range(10)
    x.copy_rows(grad_h, of_h)
    x.copy_rows(grad_c, of_c)
    with x.turns_reversed() as (step, is_later, before):
        place = x.of_state(is_later, cells, c0)
        with x.elements() as (row, unit, mask):
            own, at, state = x.row(cells, step, row), x.row(activated, step, row), x.row(of_h, "0", row)
            i, f, g, o = (x.load(activated, at, unit, mask, k) for k in range(4))
            tanh_c = tanh(x.load(cells, own, unit, mask))
            to_h = x.load(grad, own, unit, mask) + x.load(of_h, state, unit, mask)
            to_c = x.load(of_c, state, unit, mask) + _through_tanh(to_h * o, tanh_c)
            old = x.load_at(place, x.row(cells, before, row), unit, mask)
            of_each = (
                _through_sigmoid(to_c * g, i), _through_sigmoid(to_c * old, f), _through_tanh(to_c * i, g),
                _through_sigmoid(to_h * tanh_c, o),
            )  # fmt: skip
            for k, value in enumerate(of_each):
                x.store(value, of_gates, at, unit, mask, k)
            x.store(to_c * f, of_c, state, unit, mask)
        _through_products(x, of_gates, step, panels, of_h, adds=False)


def _gru_backward(x: _Text) -> None:
    """of outputs, of h, h, outputs, activated, new, panels; of gates, of the states' gates, of h."""
    grad, grad_h, h0, outputs, activated, new, panels, of_gates, of_hidden, of_h = range(10)
    x.copy_rows(grad_h, of_h)
    with x.turns_reversed() as (step, is_later, before):
        place = x.of_state(is_later, outputs, h0)
        with x.elements() as (row, unit, mask):
            own, at, state = x.row(outputs, step, row), x.row(activated, step, row), x.row(of_h, "0", row)
            r, z, n = (x.load(activated, at, unit, mask, k) for k in range(3))
            to_h = x.load(grad, own, unit, mask) + x.load(of_h, state, unit, mask)
            to_n = _through_tanh(to_h * (1.0 - z), n)
            old = x.load_at(place, x.row(outputs, before, row), unit, mask)
            shared = (
                _through_sigmoid(to_n * x.load(new, own, unit, mask), r), _through_sigmoid(to_h * (old - n), z)
            )  # fmt: skip
            for array, last in ((of_gates, to_n), (of_hidden, to_n * r)):
                for k, value in enumerate((*shared, last)):
                    x.store(value, array, at, unit, mask, k)
            x.store(to_h * z, of_h, state, unit, mask)
        _through_products(x, of_hidden, step, panels, of_h, adds=True)


def _plain_backward(through: Callable[[Lanes, Lanes], Lanes], x: _Text) -> None:
    """of outputs, of h, outputs, panels; of gates, of h."""
    grad, grad_h, outputs, panels, of_gates, of_h = range(6)
    x.copy_rows(grad_h, of_h)
    with x.turns_reversed() as (step, _, _):
        with x.elements() as (row, unit, mask):
            own, state = x.row(outputs, step, row), x.row(of_h, "0", row)
            to_h = x.load(grad, own, unit, mask) + x.load(of_h, state, unit, mask)
            x.store(through(to_h, x.load(outputs, own, unit, mask)), of_gates, own, unit, mask)
        _through_products(x, of_gates, step, panels, of_h, adds=False)


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
def _routine(kind: str, is_back: bool, dtype: DType, count: int, target: Target) -> ArrayRoutine:
    """``count``: arrays."""
    layer, _, is_backward = kind.partition("_")
    b = RowBuilder([dtype] * count)
    b.isa = target.isa
    tiles = _tiles(dtype, target)
    gates = 1 if is_backward else GATES[layer]
    width = "%extent.0.2"
    hidden = width if is_backward else b.op(f"sdiv i64 {width}, {GATES[layer]}")
    text = _Text(b, tiles, is_back, gates, hidden)
    (_BACKWARD if is_backward else _FORWARD)[layer](text)
    products = [tiles.function(target, width) for width in sorted(text.widths())]
    for function in products:
        b.declarations.update(function.declarations)
        function.declarations.clear()
    parts = [b.finish("ret i32 0", "internal i32"), *(f.finish(result_type="internal void") for f in products)]
    params = [RoutineParam("unit", "i64"), *[RoutineParam("array", dtype.name, 3)] * count, RoutineParam("int", "i64")]
    name = f"{kind}_layer{'_back' if is_back else ''}_{dtype.name}"
    return ArrayRoutine(name, "\n".join(parts), b.name, params, can_fail=False)


@functools.lru_cache(maxsize=4096)
def recurrent_call(
    kind: str,
    is_back: bool,
    dtype: DType,
    operands: tuple[tuple[int, ...], ...],
    results: tuple[tuple[int, ...], ...],
) -> RoutineCall:
    """The call of a layer's routine, or of its backward's. Equal arguments give one object.

    Args:
        kind: see ``primitives/layers.py``.
        is_back: the layer goes from the last step to the first.
        dtype: float32 or float64.
        operands, results: shapes of three dimensions; the weight is its panels.
    """
    layer, _, is_backward = kind.partition("_")
    steps, rows, width = operands[0]
    hidden = width if is_backward else width // GATES[layer]
    elements = steps * rows * hidden * GATES[layer]
    cost = (_PRODUCT_NS * hidden + _ELEMENT_NS) * elements * (dtype.itemsize // 4)
    target = host_target()
    at_once = min(_TILES_AT_ONCE * _tiles(dtype, target).rows, rows if rows < _FEW_ROWS else (rows + 1) // 2)
    units = max(1, min(-(-rows // at_once), MAX_UNITS, math.ceil(cost / UNIT_NS)))
    routine = _routine(kind, is_back, dtype, len(operands) + len(results), target)
    shapes = (*operands, *results)
    return RoutineCall(routine, shapes, [dtype] * len(shapes), (units,), len(operands), units, cost)
