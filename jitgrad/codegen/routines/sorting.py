"""Rows in order, and their first elements, as row routines.

Owns: the text of one, per kind; ``sort_call``.
Must not know: how rows are shared out (``rows.py``), which operations ask.

Each element becomes a key whose unsigned order is the one wanted: of floats, -0.0 is 0.0, and NaN is larger than all
numbers, as PyTorch has it; for a descending order all bits are inverted. So equal elements keep their own order either
way. What is sorted are pairs of a key and a position; where a key has 32 bits a pair is one word, the key on top.
  a few of many  the smallest pairs so far are kept in order; one that is not below the last of them, as nearly all are,
                 costs one comparison
  up to RANKED   an element's rank is how many pairs are below its own: all with all, a vector at a time, no branches
  more           radix sort, digit by digit of eight bits, from the lowest one (Knuth, "The Art of Computer
                 Programming", 5.2.5); a digit that all keys share is skipped
Values are then fetched by position, so signs of zeros and bits of NaNs are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from jitgrad.codegen.llvm.text import vector_type
from jitgrad.codegen.routines.routine import RoutineCall
from jitgrad.codegen.routines.rows import RowBuilder, row_call
from jitgrad.dtypes import FLOATING, DType, int64

__all__ = ["sort_call"]

_RANKED = 160
"""Up to so many elements are ranked: it takes n * n / 8 comparisons."""
_CHOSEN = 64
"""Up to so many are kept in order where the others are not wanted."""
_DIGIT = 8
_BINS = 1 << _DIGIT
_LANES = 8
_X, _VALUES, _PLACES, _SCRATCH = range(4)

_Pair = tuple[str, ...]
"""Registers: a word; or a key and a position."""


class _Order(NamedTuple):
    """What to do with rows.

    Attributes:
        dtype: of the elements.
        is_descending: the largest first.
        is_choice: only some of the elements are wanted, at most ``_CHOSEN``.
    """

    dtype: DType
    is_descending: bool
    is_choice: bool

    @property
    def bits(self) -> int:
        return 8 * self.dtype.itemsize

    @property
    def is_packed(self) -> bool:
        """Whether a pair is one word."""
        return self.bits == 32


class _Row:
    """A row that is being sorted.

    Attributes:
        first: the number in memory of its first element.
        target: that of its first result.
        lists: where in the scratch array two lists of pairs begin: of words, or of keys and of positions.
    """

    def __init__(self, k: _Order, b: RowBuilder, item: str) -> None:
        block, lane = b.op(f"sdiv i64 {item}, {b.inner}"), b.op(f"srem i64 {item}, {b.inner}")
        whole = b.op(f"mul i64 {block}, {b.inner}")
        self.first = b.op(f"add i64 {b.op(f'mul i64 {whole}, {b.n}')}, {lane}")
        self.target = b.op(f"add i64 {b.op(f'mul i64 {whole}, {_count(b)}')}, {lane}")
        room = f"%extent.{_SCRATCH}.2"
        starts = [b.op(f"mul i64 %unit, {b.op(f'mul i64 {room}, %extent.{_SCRATCH}.1')}")]
        for _ in range(1 if k.is_packed else 3):
            starts.append(b.op(f"add i64 {starts[-1]}, {room}"))
        half = len(starts) // 2
        self.lists = [tuple(starts[:half]), tuple(starts[half:])]


def _count(b: RowBuilder) -> str:
    """How many elements are wanted: the extent of the results."""
    return f"%extent.{_VALUES}.1"


# --- pairs ---


def _entry(b: RowBuilder, start: str, index: str) -> str:
    """The address of an element of a list in the scratch array."""
    return b.element(_SCRATCH, b.op(f"add i64 {start}, {index}"))


def _read(b: RowBuilder, pairs: _Pair, index: str) -> _Pair:
    return tuple([b.op(f"load i64, ptr {_entry(b, start, index)}") for start in pairs])


def _write(b: RowBuilder, pairs: _Pair, index: str, pair: _Pair) -> None:
    for start, value in zip(pairs, pair, strict=True):
        b.do(f"store i64 {value}, ptr {_entry(b, start, index)}")


def _key(k: _Order, b: RowBuilder, index: str) -> str:
    """The key of an element."""
    x, own = b.load(_X, index), f"i{k.bits}"
    lowest = -(1 << (k.bits - 1))
    if k.dtype.category is FLOATING:
        kind = b.types[_X]
        is_nan = b.op(f"fcmp uno {kind} {x}, {x}")
        word = b.op(f"bitcast {kind} {b.op(f'fadd {kind} {x}, 0.0')} to {own}")
        sign = b.op(f"ashr {own} {word}, {k.bits - 1}")  # all ones below zero, where larger words are smaller numbers
        word = b.op(f"xor {own} {word}, {b.op(f'or {own} {sign}, {lowest}')}")
        word = b.op(f"select i1 {is_nan}, {own} -1, {own} {word}")
    else:
        word = b.op(f"xor {own} {x}, {lowest}")
    return b.op(f"xor {own} {word}, -1") if k.is_descending else word


def _pair(k: _Order, b: RowBuilder, row: _Row, position: str) -> _Pair:
    """An element's."""
    key = _key(k, b, _source(b, row, position))
    if not k.is_packed:
        return key, position
    wide = b.op(f"zext i32 {key} to i64")
    return (b.op(f"or i64 {b.op(f'shl i64 {wide}, 32')}, {position}"),)


def _source(b: RowBuilder, row: _Row, position: str) -> str:
    return b.op(f"add i64 {row.first}, {b.op(f'mul i64 {position}, {b.inner}')}")


def _place(k: _Order, b: RowBuilder, pair: _Pair) -> str:
    """A pair's position."""
    return b.op(f"and i64 {pair[0]}, {(1 << 32) - 1}") if k.is_packed else pair[1]


def _finish(b: RowBuilder, row: _Row, rank: str, place: str) -> None:
    """Write a result."""
    index = b.op(f"add i64 {row.target}, {b.op(f'mul i64 {rank}, {b.inner}')}")
    b.store(_VALUES, index, b.load(_X, _source(b, row, place)))
    b.store(_PLACES, index, place)


def _finish_all(k: _Order, b: RowBuilder, row: _Row, pairs: _Pair) -> None:
    with b.loop("0", _count(b)) as rank:
        _finish(b, row, rank, _place(k, b, _read(b, pairs, rank)))


# --- a few of many ---


def _insert(b: RowBuilder, pairs: _Pair, pair: _Pair, length: str) -> None:
    """Put a pair into a list of ``length`` pairs, behind those whose keys are not larger."""

    def is_larger(values: list[str]) -> str:
        before = b.op(f"sub i64 {values[0]}, 1")
        at = b.call("i64", "llvm.smax.i64", f"i64 {before}", "i64 0")
        larger = b.op(f"icmp ugt i64 {_read(b, pairs[:1], at)[0]}, {pair[0]}")
        return b.op(f"and i1 {b.op(f'icmp sge i64 {before}, 0')}, {larger}")

    with b.repeat([("i64", length)], is_larger) as at:
        before = b.op(f"sub i64 {at[0]}, 1")
        _write(b, pairs, at[0], _read(b, pairs, before))
        at[0] = before
    _write(b, pairs, at[0], pair)


def _choose(k: _Order, b: RowBuilder, row: _Row) -> None:
    """Keep the smallest pairs."""
    pairs, last = row.lists[0], b.op(f"sub i64 {_count(b)}, 1")
    with b.loop("0", _count(b)) as position:
        _insert(b, pairs, _pair(k, b, row, position), position)
    worst = _read(b, pairs[:1], last)[0]
    with b.fold(_count(b), b.n, 1, [("i64", worst)]) as (position, bound):
        pair = _pair(k, b, row, position)
        with b.when_fold(b.op(f"icmp ult i64 {pair[0]}, {bound[0]}"), [("i64", bound[0])]) as worse:
            _insert(b, pairs, pair, last)
            worse[0] = _read(b, pairs[:1], last)[0]
        bound[:] = worse
    _finish_all(k, b, row, pairs)


# --- ranks ---


def _rank(k: _Order, b: RowBuilder, row: _Row) -> None:
    """Count, for as many elements at once as a vector has keys, how many others come before them."""
    own, count = f"i{k.bits}", 512 // k.bits
    lanes = vector_type(count, own)
    keys, ranks = (b.element(_SCRATCH, start[0]) for start in row.lists)

    def at(start: str, index: str) -> str:
        return b.op(f"getelementptr {own}, ptr {start}, i64 {index}")

    def counted(below: str, is_below: Callable[[str], str], index: str) -> str:
        other = b.splat(b.op(f"load {own}, ptr {at(keys, index)}"), own, count)
        one = b.op(f"zext {vector_type(count, 'i1')} {is_below(other)} to {lanes}")
        return b.op(f"add {lanes} {below}, {one}")

    whole = b.op(f"and i64 {b.op(f'add i64 {b.n}, {count - 1}')}, -{count}")
    with b.loop("0", b.n) as position:
        b.do(f"store {own} {_key(k, b, _source(b, row, position))}, ptr {at(keys, position)}")
    with b.loop(b.n, whole) as position:  # the last vector's rest is behind all
        b.do(f"store {own} -1, ptr {at(keys, position)}")
    with b.loop("0", b.n, count) as first:
        mine = b.op(f"load {lanes}, ptr {at(keys, first)}, align {k.dtype.itemsize}")
        ends = b.op(f"add i64 {first}, {count}")
        with b.fold("0", first, 1, [(lanes, "zeroinitializer")]) as (index, below):
            below[0] = counted(below[0], lambda x: b.op(f"icmp ule {lanes} {x}, {mine}"), index)
        for lane in range(count):
            index = b.op(f"add i64 {first}, {lane}")
            below[0] = counted(below[0], functools.partial(_is_before, b, lanes, mine, lane, count), index)
        with b.fold(ends, whole, 1, [(lanes, below[0])]) as (index, below):
            below[0] = counted(below[0], lambda x: b.op(f"icmp ult {lanes} {x}, {mine}"), index)
        b.do(f"store {lanes} {below[0]}, ptr {at(ranks, first)}, align {k.dtype.itemsize}")
    with b.loop("0", b.n) as position:
        rank = b.op(f"load {own}, ptr {at(ranks, position)}")
        rank = rank if k.bits == 64 else b.op(f"zext {own} {rank} to i64")
        with b.when(b.op(f"icmp slt i64 {rank}, {_count(b)}")):
            _finish(b, row, rank, position)


def _is_before(b: RowBuilder, lanes: str, mine: str, lane: int, count: int, other: str) -> str:
    """Whether the key of a vector's ``lane`` comes before those of its lanes: of equal ones, before the later ones."""
    flags = vector_type(count, "i1")
    later = "<" + ", ".join(f"i1 {'true' if nr > lane else 'false'}" for nr in range(count)) + ">"
    is_equal = b.op(f"and {flags} {b.op(f'icmp eq {lanes} {other}, {mine}')}, {later}")
    return b.op(f"or {flags} {b.op(f'icmp ult {lanes} {other}, {mine}')}, {is_equal}")


# --- digits ---


def _digit(k: _Order, b: RowBuilder, pair: _Pair, digit: int) -> str:
    shift = digit * _DIGIT + (32 if k.is_packed else 0)
    return b.op(f"and i64 {b.op(f'lshr i64 {pair[0]}, {shift}')}, {_BINS - 1}")


def _radix(k: _Order, b: RowBuilder, row: _Row, bins: str) -> None:
    digits = k.bits // _DIGIT

    def bin_of(digit: int, value: str) -> str:
        return b.op(f"getelementptr i64, ptr {bins}, i64 {b.op(f'add i64 {value}, {digit * _BINS}')}")

    with b.loop("0", str(digits * _BINS), _LANES) as at:
        place = b.op(f"getelementptr i64, ptr {bins}, i64 {at}")
        b.do(f"store <{_LANES} x i64> zeroinitializer, ptr {place}, align 64")
    first, second = row.lists
    with b.loop("0", b.n) as position:
        pair = _pair(k, b, row, position)
        _write(b, first, position, pair)
        for digit in range(digits):
            _add(b, bin_of(digit, _digit(k, b, pair, digit)))
    one = _read(b, first, "0")
    lists = [*first, *second]
    for digit in range(digits):
        size = b.op(f"load i64, ptr {bin_of(digit, _digit(k, b, one, digit))}")
        differs = b.op(f"icmp ne i64 {size}, {b.n}")
        half = len(lists) // 2
        with b.when_fold(differs, [("i64", start) for start in lists]) as after:
            _distribute(k, b, tuple(lists[:half]), tuple(lists[half:]), digit, bin_of)
            after[:] = [*lists[half:], *lists[:half]]
        lists = after
    _finish_all(k, b, row, tuple(lists[: len(lists) // 2]))


def _add(b: RowBuilder, place: str) -> str:
    """Count one more at an address; returns what was there."""
    size = b.op(f"load i64, ptr {place}")
    b.do(f"store i64 {b.op(f'add i64 {size}, 1')}, ptr {place}")
    return size


def _distribute(
    k: _Order, b: RowBuilder, source: _Pair, target: _Pair, digit: int, bin_of: Callable[[int, str], str]
) -> None:
    """One pass: pairs go to where those with their digit begin, in their order."""
    with b.fold("0", str(_BINS), 1, [("i64", "0")]) as (value, begin):
        place = bin_of(digit, value)
        size = b.op(f"load i64, ptr {place}")
        b.do(f"store i64 {begin[0]}, ptr {place}")
        begin[0] = b.op(f"add i64 {begin[0]}, {size}")
    with b.loop("0", b.n) as position:
        pair = _read(b, source, position)
        _write(b, target, _add(b, bin_of(digit, _digit(k, b, pair, digit))), pair)


# --- all of it ---


def _sort(k: _Order, b: RowBuilder) -> None:
    bins = "" if k.is_choice else b.op(f"alloca [{k.bits // _DIGIT * _BINS} x i64], align 64")
    with b.shared(b.op(f"mul i64 {b.outer}, {b.inner}")) as item:
        row = _Row(k, b, item)
        if k.is_choice:
            _choose(k, b, row)
        else:
            is_short = b.op(f"icmp sle i64 {b.n}, {_RANKED}")
            with b.when(is_short):
                _rank(k, b, row)
            with b.when(b.op(f"xor i1 {is_short}, true")):
                _radix(k, b, row, bins)


@functools.cache
def _body(order: _Order) -> Callable[[RowBuilder], None]:
    return functools.partial(_sort, order)


def sort_call(shape: tuple[int, int, int], dtype: DType, is_descending: bool, count: int) -> RoutineCall:
    """The call that finds the first ``count`` elements of each row of [outer, n, inner], in order.

    Its results are values, positions (int64), and a scratch array that nobody reads.

    Args:
        shape: of the operand; no extent is 0.
        dtype: float32, float64, int32 or int64.
        is_descending: whether the largest come first.
        count: from 1 to n.
    """
    outer, n, inner = shape
    order = _Order(dtype, is_descending, count <= _CHOSEN and 4 * count <= n)
    name = f"{'first' if order.is_choice else 'sort'}{'_descending' if is_descending else ''}_{dtype.name}"
    element_ns = 2.0 if order.is_choice else 2.0 + n / 30 if n <= _RANKED else 3.0 * dtype.itemsize
    room = -(-(count if order.is_choice else n) // _LANES) * _LANES
    results = (((outer, count, inner), dtype), ((outer, count, inner), int64))
    lists = 2 if order.is_packed else 4
    return row_call(name, _body(order), ((shape, dtype), *results), element_ns, (lists, room), outer * inner)
