"""Running sums, products and extremes along a dimension, as row routines.

Owns: the text of one, per kind; ``scan_call``.
Must not know: how rows are shared out (``rows.py``), which operations ask.

A floating sum or product is carried in float64, as PyTorch does, and rounded at each element; integers wrap. Where rows
lie side by side in memory, each is one chain from its first element on. A row of neighbouring elements is taken in
blocks of eight: within a block each element becomes the total of those up to it in three steps (Hillis and Steele,
"Data parallel algorithms", 1986), then the total of all before is combined with all eight. So the chain that no core
can shorten is one addition per block. The order of additions depends on n alone.

An extreme is the last of equal ones, and a NaN from the first one on, as PyTorch's: x is taken where x >= the extreme
so far, or x is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from jitgrad.codegen.llvm.text import vector_type
from jitgrad.codegen.routines.routine import RoutineCall
from jitgrad.codegen.routines.rows import LANES, RowBuilder, row_call
from jitgrad.dtypes import FLOATING, DType, int64

__all__ = ["scan_call"]

_BLOCK = 8
_TOTAL_NS, _EXTREME_NS = 0.5, 1.5


class _Total(NamedTuple):
    """A running sum or product.

    Attributes:
        kind: "sum" or "prod".
        dtype: of the elements.
        is_reversed: whether it runs from the last element to the first.
    """

    kind: str
    dtype: DType
    is_reversed: bool

    @property
    def carried(self) -> str:
        """The type of what is carried."""
        return "double" if self.is_float else f"i{8 * self.dtype.itemsize}"

    @property
    def is_float(self) -> bool:
        return self.dtype.category is FLOATING

    @property
    def start(self) -> str:
        """The total of nothing."""
        return {"sum": "0", "prod": "1"}[self.kind] + (".0" if self.is_float else "")

    @property
    def nothing(self) -> str:
        """What changes no element; 0.0 would turn -0.0 into itself, and is shifted in by slower instructions."""
        return "-0.0" if self.kind == "sum" and self.is_float else self.start

    def combine(self, b: RowBuilder, x: str, y: str, lanes: int = 1) -> str:
        name = {"sum": "add", "prod": "mul"}[self.kind]
        return b.op(f"{'f' if self.is_float else ''}{name} {vector_type(lanes, self.carried)} {x}, {y}")

    def load(self, b: RowBuilder, index: str, lanes: int = 1) -> str:
        """Elements as they are carried."""
        own = vector_type(lanes, b.types[0])
        value = b.op(f"load {own}, ptr {b.element(0, index)}, align {self.dtype.itemsize}")
        return b.op(f"fpext {own} {value} to {vector_type(lanes, 'double')}") if b.types[0] == "float" else value

    def store(self, b: RowBuilder, index: str, value: str, lanes: int = 1) -> None:
        own = vector_type(lanes, b.types[1])
        if b.types[1] == "float":
            value = b.op(f"fptrunc {vector_type(lanes, 'double')} {value} to {own}")
        b.do(f"store {own} {value}, ptr {b.element(1, index)}, align {self.dtype.itemsize}")


def _at(b: RowBuilder, begin: str, position: str, is_reversed: bool, count: int = 1) -> str:
    """The number of the first of ``count`` elements in memory, that of the walk's ``position`` among them."""
    if is_reversed:
        position = b.op(f"sub i64 {b.op(f'sub i64 {b.n}, {count}')}, {position}")
    return b.op(f"add i64 {begin}, {position}")


def _shuffled(b: RowBuilder, value: str, other: str, scalar: str, places: list[int]) -> str:
    """Lanes of two vectors of ``_BLOCK``."""
    vector = vector_type(_BLOCK, scalar)
    mask = ", ".join(f"i32 {place}" for place in places)
    return b.op(f"shufflevector {vector} {value}, {vector} {other}, <{len(places)} x i32> <{mask}>")


def _totals(k: _Total, b: RowBuilder) -> None:
    with b.rows() as begin:
        whole = b.op(f"and i64 {b.n}, -{_BLOCK}")
        with b.fold("0", whole, _BLOCK, [(k.carried, k.start)]) as (position, carried):
            carried[0] = _block(k, b, _at(b, begin, position, k.is_reversed, _BLOCK), carried[0])
        with b.fold(whole, b.n, 1, [(k.carried, carried[0])]) as (position, rest):
            _step(k, b, _at(b, begin, position, k.is_reversed), rest)
    with b.strips() as (begin, width):
        full = b.op(f"icmp eq i64 {width}, {LANES}")
        with b.when(full):
            vector = vector_type(LANES, k.carried)
            with b.fold("0", b.n, 1, [(vector, b.splat(k.start, k.carried, LANES))]) as (position, carried):
                index = _across(b, begin, position, k.is_reversed)
                carried[0] = k.combine(b, carried[0], k.load(b, index, LANES), LANES)
                k.store(b, index, carried[0], LANES)
        with b.when(b.op(f"xor i1 {full}, true")), b.loop("0", width) as lane:
            first = b.op(f"add i64 {begin}, {lane}")
            with b.fold("0", b.n, 1, [(k.carried, k.start)]) as (position, carried):
                _step(k, b, _across(b, first, position, k.is_reversed), carried)


def _across(b: RowBuilder, begin: str, position: str, is_reversed: bool) -> str:
    """The number of an element in memory where the next one of its row is ``inner`` away."""
    if is_reversed:
        position = b.op(f"sub i64 {b.op(f'sub i64 {b.n}, 1')}, {position}")
    return b.op(f"add i64 {begin}, {b.op(f'mul i64 {position}, {b.inner}')}")


def _step(k: _Total, b: RowBuilder, index: str, carried: list[str]) -> None:
    """One element."""
    carried[0] = k.combine(b, carried[0], k.load(b, index))
    k.store(b, index, carried[0])


def _block(k: _Total, b: RowBuilder, index: str, before: str) -> str:
    """Eight elements; ``before`` is the total of all that came before them. Returns that of all."""
    x = k.load(b, index, _BLOCK)
    backwards = list(range(_BLOCK))[::-1]
    if k.is_reversed:
        x = _shuffled(b, x, "poison", k.carried, backwards)
    none = b.splat(k.nothing, k.carried, _BLOCK)
    for distance in (1, 2, 4):  # lanes of ``none``, then those of x
        x = k.combine(b, x, _shuffled(b, none, x, k.carried, list(range(_BLOCK - distance, 2 * _BLOCK - distance))),
                      _BLOCK)  # fmt: skip
    total = b.op(f"extractelement {vector_type(_BLOCK, k.carried)} {x}, i64 {_BLOCK - 1}")
    out = k.combine(b, b.splat(before, k.carried, _BLOCK), x, _BLOCK)
    if k.is_reversed:
        out = _shuffled(b, out, "poison", k.carried, backwards)
    k.store(b, index, out, _BLOCK)
    return k.combine(b, before, total)


class _Extreme(NamedTuple):
    """A running extreme, and its position.

    Attributes:
        kind: "max" or "min".
        dtype: of the elements.
    """

    kind: str
    dtype: DType

    def takes(self, b: RowBuilder, x: str, best: str, lanes: int) -> str:
        """Whether ``x`` is the extreme from here on."""
        kind = vector_type(lanes, b.types[0])
        order = "ge" if self.kind == "max" else "le"
        if self.dtype.category is not FLOATING:
            return b.op(f"icmp s{order} {kind} {x}, {best}")
        is_beyond, is_nan = b.op(f"fcmp o{order} {kind} {x}, {best}"), b.op(f"fcmp uno {kind} {x}, {x}")
        return b.op(f"or {vector_type(lanes, 'i1')} {is_beyond}, {is_nan}")


def _extremes(k: _Extreme, b: RowBuilder) -> None:
    with b.rows() as begin:
        _walk(k, b, lambda position: b.op(f"add i64 {begin}, {position}"))
    with b.strips() as (begin, width):
        full = b.op(f"icmp eq i64 {width}, {LANES}")
        with b.when(full):
            _walk(k, b, lambda position: _across(b, begin, position, False), LANES)
        with b.when(b.op(f"xor i1 {full}, true")), b.loop("0", width) as lane:
            first = b.op(f"add i64 {begin}, {lane}")
            _walk(k, b, lambda position: _across(b, first, position, False))


def _walk(k: _Extreme, b: RowBuilder, at: Callable[[str], str], lanes: int = 1) -> None:
    """A row, or ``lanes`` of them. ``at``: the number in memory of the element at a position."""
    own, place = vector_type(lanes, b.types[0]), vector_type(lanes, "i64")

    def load(index: str) -> str:
        return b.op(f"load {own}, ptr {b.element(0, index)}, align {k.dtype.itemsize}")

    def store(index: str, value: str, position: str) -> None:
        b.do(f"store {own} {value}, ptr {b.element(1, index)}, align {k.dtype.itemsize}")
        b.do(f"store {place} {position}, ptr {b.element(2, index)}, align 8")

    first = at("0")
    inits = [(own, load(first)), (place, "0" if lanes == 1 else "zeroinitializer")]
    store(first, inits[0][1], inits[1][1])
    with b.fold("1", b.n, 1, inits) as (position, best):
        index = at(position)
        x, here = load(index), b.splat(position, "i64", lanes)
        taken = k.takes(b, x, best[0], lanes)
        if lanes == 1:  # mostly the same answer as before: a branch that is foreseen is quicker than two choices
            with b.when_fold(taken, [(own, best[0]), (place, best[1])]) as chosen:
                chosen[:] = [x, here]
            best[:] = chosen
        else:
            choice = f"select {vector_type(lanes, 'i1')} {taken}"
            best[:] = [
                b.op(f"{choice}, {kind} {new}, {kind} {old}")
                for kind, new, old in ((own, x, best[0]), (place, here, best[1]))
            ]
        store(index, best[0], best[1])


@functools.cache
def _body(kind: str, dtype: DType, is_reversed: bool) -> Callable[[RowBuilder], None]:
    if kind in ("sum", "prod"):
        return functools.partial(_totals, _Total(kind, dtype, is_reversed))
    return functools.partial(_extremes, _Extreme(kind, dtype))


def scan_call(kind: str, shape: tuple[int, int, int], dtype: DType, is_reversed: bool = False) -> RoutineCall:
    """The call that scans [outer, n, inner] along n. That of an extreme has two results: values, and positions.

    Args:
        kind: "sum", "prod", "max" or "min".
        shape: of the operand; no extent is 0.
        dtype: float32, float64, int32 or int64.
        is_reversed: of a sum or product: it runs from the last element to the first.
    """
    name = f"scan_{kind}{'_reversed' if is_reversed else ''}_{dtype.name}"
    is_total = kind in ("sum", "prod")
    outs = ((shape, dtype),) if is_total else ((shape, dtype), (shape, int64))
    cost = _TOTAL_NS if is_total else _EXTREME_NS
    return row_call(name, _body(kind, dtype, is_reversed), ((shape, dtype), *outs), cost)
