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
from collections.abc import Callable, Sequence
from itertools import islice

from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.codegen.llvm.text import float_literal
from jitgrad.codegen.primitives.layers import GATES, LayerForm
from jitgrad.codegen.routines.recurrent_text import LayerText, LayerTurn
from jitgrad.codegen.routines.recurrent_tiles import PANEL_NBYTES, PANELS, StepProducts
from jitgrad.codegen.routines.routine import ArrayRoutine, RoutineCall, RoutineParam
from jitgrad.codegen.routines.rows import MAX_UNITS, UNIT_NS, RowBuilder
from jitgrad.codegen.vmath.core import Lanes, select
from jitgrad.codegen.vmath.exp import sigmoid, tanh
from jitgrad.dtypes import DType, int64

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


_Then = Callable[[str, str, str, int], None]


def _all_steps(
    x: LayerText,
    states: Sequence[tuple[int, int, int]],
    before: int,
    make: Callable[[LayerTurn, list[str]], _Then],
) -> None:
    """A layer forward: gates, panels, bias, states; outputs ...

    Args:
        states: per state, the arrays of all steps, of what it begins with, and of the ends of packed rows; h first.
        before: the array of h before each of the packed rows.
        make: gives what is done with the sums of a product, see ``LayerText.products``, for a step and the addresses of
            the states before it.
    """
    with x.turns() as turn:
        with x.rows(turn) as rows:
            known = [x.of_state(rows, later, start) for later, start, _ in states]
            x.products((rows.first, rows.last), known[0], x.hidden, x.form.weight, make(turn, known))
            if x.form.is_packed:
                x.keep_before(rows, known[0], before)
        if x.form.is_packed:
            x.keep_ends(turn, [(later, end) for later, _, end in states])


def _lstm(x: LayerText) -> None:
    """gates, panels, bias, h, c; outputs, cells, activated. Packed: counts; and h, c at the ends, h before."""
    gates, _, bias, h0, c0 = range(5)
    outputs, cells, activated, h_end, c_end, before = islice(x.results(), 6)

    def make(turn: LayerTurn, states: list[str]) -> _Then:
        def then(row: str, unit: str, nr: str, _: int) -> None:
            mask, at, own = x.mask(unit), x.row(gates, turn, row), x.row(outputs, turn, row)
            i, f, g, o = (
                x.sum(nr, k) + x.load(bias, "0", unit, mask, k) + x.load(gates, at, unit, mask, k) for k in range(4)
            )
            i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
            new = f * x.load_at(states[1], x.state(row), unit, mask) + i * g
            x.store(o * tanh(new), outputs, own, unit, mask)
            x.store(new, cells, own, unit, mask)
            for k, gate in enumerate((i, f, g, o)):
                x.store(gate, activated, at, unit, mask, k)

        return then

    _all_steps(x, ((outputs, h0, h_end), (cells, c0, c_end)), before, make)


def _gru(x: LayerText) -> None:
    """gates, panels, bias, h; outputs, activated, new. Packed: counts; and h at the ends, h before."""
    gates, _, bias, h0 = range(4)
    outputs, activated, new, h_end, before = islice(x.results(), 5)

    def make(turn: LayerTurn, states: list[str]) -> _Then:
        def then(row: str, unit: str, nr: str, _: int) -> None:
            mask, at, own = x.mask(unit), x.row(gates, turn, row), x.row(outputs, turn, row)
            hidden = [x.sum(nr, k) + x.load(bias, "0", unit, mask, k) for k in range(3)]
            r, z = (sigmoid(hidden[k] + x.load(gates, at, unit, mask, k)) for k in range(2))
            n = tanh(x.load(gates, at, unit, mask, 2) + r * hidden[2])
            x.store(n + z * (x.load_at(states[0], x.state(row), unit, mask) - n), outputs, own, unit, mask)
            x.store(hidden[2], new, own, unit, mask)
            for k, gate in enumerate((r, z, n)):
                x.store(gate, activated, at, unit, mask, k)

        return then

    _all_steps(x, ((outputs, h0, h_end),), before, make)


def _relu(value: Lanes) -> Lanes:
    return select(value.cmp("ole", 0.0), 0.0, value)  # a NaN stays


def _plain(activation: Callable[[Lanes], Lanes], x: LayerText) -> None:
    """gates, panels, bias, h; outputs. Packed: counts; and h at the ends, h before."""
    gates, _, bias, h0 = range(4)
    outputs, h_end, before = islice(x.results(), 3)

    def make(turn: LayerTurn, states: list[str]) -> _Then:
        def then(row: str, unit: str, nr: str, panel: int) -> None:
            mask, at = x.mask(unit), x.row(gates, turn, row)
            value = x.sum(nr, panel) + x.load(bias, "0", unit, mask) + x.load(gates, at, unit, mask)
            x.store(activation(value), outputs, at, unit, mask)

        return then

    _all_steps(x, ((outputs, h0, h_end),), before, make)


def _through_sigmoid(g: Lanes, y: Lanes) -> Lanes:
    return g * (1.0 - y) * y


def _through_tanh(g: Lanes, y: Lanes) -> Lanes:
    return g * (1.0 - y * y)


def _through_products(x: LayerText, turn: LayerTurn, of_gates: int, panels: int, of_h: int, adds: bool) -> None:
    """The state's gradient: the gates' times the weight; ``adds``: to what is there."""
    b = x.b

    def then(row: str, unit: str, nr: str, panel: int) -> None:
        mask, at, value = x.mask(unit), x.state(row), x.sum(nr, panel)
        x.store(x.load(of_h, at, unit, mask) + value if adds else value, of_h, at, unit, mask)

    width = f"%extent.{of_gates}.2"
    source = b.element(of_gates, b.op(f"mul i64 {turn.start}, {width}"))
    last = b.call("i64", "llvm.smin.i64", f"i64 {x.last}", f"i64 {turn.size}")
    x.products((x.first, last), source, width, panels, then)


def _lstm_backward(x: LayerText) -> None:
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


def _gru_backward(x: LayerText) -> None:
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


def _plain_backward(through: Callable[[Lanes, Lanes], Lanes], x: LayerText) -> None:
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


_FORWARD: dict[str, Callable[[LayerText], None]] = {
    "lstm": _lstm,
    "gru": _gru,
    "tanh": functools.partial(_plain, tanh),
    "relu": functools.partial(_plain, _relu),
}
_BACKWARD: dict[str, Callable[[LayerText], None]] = {
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
    if form.is_packed:
        are_right = _are_right(b, form)
        with b.when(are_right):
            text = LayerText(b, tiles, form)
            print_layer(text)
        with b.when(b.op(f"xor i1 {are_right}, true")):
            for array in range(form.operands, count):
                with b.shared(f"%count.{array}") as place:
                    b.store(array, place, float_literal(math.nan, tiles.scalar))
    else:
        text = LayerText(b, tiles, form)
        print_layer(text)
    products = [tiles.function(target, width) for width in sorted(text.widths())]
    for function in products:
        b.declarations.update(function.declarations)
        function.declarations.clear()
    parts = [b.finish("ret i32 0", "internal i32"), *(f.finish(result_type="internal void") for f in products)]
    arrays = [RoutineParam("array", each.name, 3) for each in dtypes]
    params = [RoutineParam("unit", "i64"), *arrays, RoutineParam("int", "i64")]
    words = [form.layer, *(word for word in ("packed", "backward") if getattr(form, f"is_{word}"))]
    name = "_".join([*words, "layer", *(["from_the_end"] if form.is_back else []), dtype.name])
    return ArrayRoutine(name, "\n".join(parts), b.name, params, can_fail=False)


def _are_right(b: RowBuilder, form: LayerForm) -> str:
    """Whether packed rows are what the kernel goes by: all at first, then no more than before, at least one.

    Layers see to that. Whoever calls the operation with other numbers gets NaN, and nothing beside its arrays is read.
    """
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
