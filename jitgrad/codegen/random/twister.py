"""The Mersenne Twister as LLVM IR: its words, and the fractions made of them.

Owns: ``twist``, ``words``, ``fractions32``, ``fractions64``, ``integers``, ``permute``, ``permute_wide``, ``seed``:
functions of a random state, Note [Random kernel].
Must not know: distributions.

Source: Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform pseudo-random number
generator", 1998 (MT19937, with the initialization of 2002).

A word of the next block depends on words 227 places and more behind it, so a block is made with vectors: its two runs,
of 227 and of 396 words, each end with a vector that overlaps the one before, which is why the new block has memory of
its own until it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.abi import RANDOM_FRESH, RANDOM_POSITION
from jitgrad.codegen.llvm.text import FnBuilder, Isa
from jitgrad.codegen.vmath.core import Lanes, select

__all__ = [
    "fractions32",
    "fractions64",
    "integers",
    "load",
    "permute",
    "permute_wide",
    "pointer",
    "seed",
    "store",
    "twist",
    "words",
]

_BLOCK, _MIDDLE = 624, 397
_MATRIX = -0x66F74F21  # 0x9908B0DF as a signed word
_LANES = 16
_DRAWS = 512


def pointer(b: FnBuilder, kind: str, base: str, index: str | int) -> str:
    """The address of element ``index`` of an array of ``kind``."""
    return b.op(f"getelementptr {kind}, ptr {base}, i64 {index}")


def load(b: FnBuilder, kind: str, base: str, index: str | int, width: int = 1) -> Lanes:
    """``width`` elements from ``index`` on; nothing is known of their alignment beyond that of one."""
    lanes = Lanes(b, kind, width, "")
    return lanes.new(f"load {lanes.type}, ptr {pointer(b, kind, base, index)}, align 4")


def store(value: Lanes, base: str, index: str | int) -> None:
    """The counterpart of ``load``."""
    value.b.do(f"store {value.typed}, ptr {pointer(value.b, value.scalar, base, index)}, align 4")


def _mixed(upper: Lanes, lower: Lanes) -> Lanes:
    """The top bit of one word and the rest of the next, times the recurrence's matrix."""
    word = (upper & -0x80000000) | (lower & 0x7FFFFFFF)
    return word.lshr(1) ^ ((word & 1).const(0) - (word & 1) & _MATRIX)


def twist() -> FnBuilder:
    """``twist(state)``: the next block of 624 words in place of this one; the position is not touched."""
    b = FnBuilder("twist", "ptr %state")
    b.do(f"%new = alloca [{_BLOCK} x i32], align 64")

    def make(index: str | int, source: str, place: str, width: int) -> None:
        at_next = b.op(f"add i64 {index}, 1")
        far = load(b, "i32", source, b.op(f"add i64 {index}, {place}"), width)
        upper, lower = load(b, "i32", "%state", index, width), load(b, "i32", "%state", at_next, width)
        store(far ^ _mixed(upper, lower), "%new", index)

    first, last = _BLOCK - _MIDDLE, _BLOCK - 1
    for begin, end, source, place in ((0, first, "%state", _MIDDLE), (first, last, "%new", -first)):
        with b.loop(str(begin), str(end - _LANES + 1), _LANES) as index:
            make(index, source, str(place), _LANES)
        make(end - _LANES, source, str(place), _LANES)
    upper, lower, far = load(b, "i32", "%state", last), load(b, "i32", "%new", 0), load(b, "i32", "%new", _MIDDLE - 1)
    store(far ^ _mixed(upper, lower), "%new", last)
    with b.loop("0", str(_BLOCK), _LANES) as index:
        store(load(b, "i32", "%new", index, _LANES), "%state", index)
    return b


def _tempered(word: Lanes) -> Lanes:
    word = word ^ word.lshr(11)
    word = word ^ ((word << 7) & -0x62D3A980)  # 0x9D2C5680
    word = word ^ ((word << 15) & -0x103A0000)  # 0xEFC60000
    return word ^ word.lshr(18)


def words() -> FnBuilder:
    """``words(state, out, count)``: the next words of the stream."""
    b = FnBuilder("words", "ptr %state, ptr %out, i64 %count")
    place = pointer(b, "i64", "%state", RANDOM_POSITION)
    begin = b.op(f"load i64, ptr {place}")
    b.do("%taken = alloca i64")
    b.do("store i64 0, ptr %taken")
    again, more, run, done = b.label("again"), b.label("more"), b.label("run"), b.label("done")
    b.do(f"store i64 {begin}, ptr {place}")
    b.do(f"br label %{again}")
    b.start(again)
    taken = b.op("load i64, ptr %taken")
    b.do(f"br i1 {b.op(f'icmp slt i64 {taken}, %count')}, label %{more}, label %{done}")
    b.start(more)
    with b.when(b.op(f"icmp sge i64 {b.op(f'load i64, ptr {place}')}, {_BLOCK}")):
        b.do("call void @twist(ptr %state)")
        b.do(f"store i64 0, ptr {place}")
    b.do(f"br label %{run}")
    b.start(run)
    position = b.op(f"load i64, ptr {place}")
    room, wanted = b.op(f"sub i64 {_BLOCK}, {position}"), b.op(f"sub i64 %count, {taken}")
    length = b.call("i64", "llvm.smin.i64", f"i64 {room}", f"i64 {wanted}")
    source, target = pointer(b, "i32", "%state", position), pointer(b, "i32", "%out", taken)
    whole = b.op(f"and i64 {length}, -{_LANES}")
    for first, end, width in (("0", whole, _LANES), (whole, length, 1)):
        with b.loop(first, end, width) as index:
            store(_tempered(load(b, "i32", source, index, width)), target, index)
    b.do(f"store i64 {b.op(f'add i64 {position}, {length}')}, ptr {place}")
    b.do(f"store i64 {b.op(f'add i64 {taken}, {length}')}, ptr %taken")
    b.do(f"br label %{again}")
    b.start(done)
    return b


def _in_vectors(b: FnBuilder, count: str, width: int, body: object) -> None:
    """Run ``body(index, width)`` over [0, count): vectors, then what is left one by one."""
    assert callable(body)
    whole = b.op(f"and i64 {count}, -{width}")
    for first, end, lanes in (("0", whole, width), (whole, count, 1)):
        with b.loop(first, end, lanes) as index:
            body(index, lanes)


def fractions32(isa: Isa) -> FnBuilder:
    """``fractions32(out, count, a, b)``: words become floats, their low 24 bits as a fraction times b plus a."""
    b = FnBuilder("fractions32", "ptr %out, i64 %count, float %a, float %b", isa)

    def body(index: str, width: int) -> None:
        fraction = (load(b, "i32", "%out", index, width) & 0xFFFFFF).convert("float") * 2.0**-24
        a, times = (Lanes(b, "float", width, b.splat(x, "float", width)) for x in ("%a", "%b"))
        store(fraction.fma(times, a), "%out", index)

    _in_vectors(b, "%count", _LANES, body)
    return b


def fractions64(isa: Isa) -> FnBuilder:
    """``fractions64(out, count, a, b)``: pairs of words become doubles: the low 53 bits as a fraction, times b plus a.

    The first word of a pair is the upper half.
    """
    b = FnBuilder("fractions64", "ptr %out, i64 %count, double %a, double %b", isa)

    def body(index: str, width: int) -> None:
        pair = load(b, "i64", "%out", index, width)
        word = pair.fshl(pair, pair.const(32)) & (2**53 - 1)
        a, times = (Lanes(b, "double", width, b.splat(x, "double", width)) for x in ("%a", "%b"))
        store((word.convert("double") * 2.0**-53).fma(times, a), "%out", index)

    _in_vectors(b, "%count", _LANES // 2, body)
    return b


def bernoulli(isa: Isa, kind: str) -> FnBuilder:
    """``bernoulli_float(out, drawn, count, p, value)``: the value where a fraction that was drawn is below p, or 0."""
    b = FnBuilder(f"bernoulli_{kind}", f"ptr %out, ptr %drawn, i64 %count, double %p, {kind} %value", isa)

    def body(index: str, width: int) -> None:
        drawn = load(b, "double", "%drawn", index, width)
        p = Lanes(b, "double", width, b.splat("%p", "double", width))
        value = Lanes(b, kind, width, b.splat("%value", kind, width))
        store(select(drawn < p, value, 0.0), "%out", index)

    _in_vectors(b, "%count", _LANES // 2, body)
    return b


def permute() -> FnBuilder:
    """``permute(state, out, count)``: 0, 1, 2, .. in ``out``, shuffled from the front (Fisher and Yates)."""
    b = FnBuilder("permute", "ptr %state, ptr %out, i64 %count")
    b.do(f"%drawn = alloca [{_DRAWS} x i32]")
    with b.loop("0", "%count") as index:
        b.do(f"store i64 {index}, ptr {pointer(b, 'i64', '%out', index)}")
    with _drawn(b, b.op("sub i64 %count, 1"), 1) as (place, number):
        draw = load(b, "i32", "%drawn", number).convert("i64", "zext")
        left = Lanes(b, "i64", 1, b.op(f"sub i64 %count, {place}"))
        other = b.op(f"add i64 {place}, {draw.binary('urem', left).reg}")
        here, there = load(b, "i64", "%out", place), load(b, "i64", "%out", other)
        store(there, "%out", place)
        store(here, "%out", other)
    return b


def permute_wide() -> FnBuilder:
    """``permute_wide(state, out, count)``: the same, each number put in at its turn, by draws of 64 bits."""
    b = FnBuilder("permute_wide", "ptr %state, ptr %out, i64 %count")
    b.do(f"%drawn = alloca [{_DRAWS} x i64]")
    with _drawn(b, "%count", 2) as (place, number):
        pair = load(b, "i64", "%drawn", number)
        so_far = Lanes(b, "i64", 1, b.op(f"add i64 {place}, 1"))
        other = pair.fshl(pair, pair.const(32)).binary("urem", so_far).reg
        own = Lanes(b, "i64", 1, place)
        store(own, "%out", place)  # ``other`` may be this place
        store(load(b, "i64", "%out", other), "%out", place)
        store(own, "%out", other)
    return b


@contextmanager
def _drawn(b: FnBuilder, count: str, width: int) -> Iterator[tuple[str, str]]:
    """For each of ``count`` draws of ``width`` words: (its number, its place in ``%drawn``)."""
    with b.loop("0", count, _DRAWS) as begin:
        length = b.call("i64", "llvm.smin.i64", f"i64 {b.op(f'sub i64 {count}, {begin}')}", f"i64 {_DRAWS}")
        b.do(f"call void @words(ptr %state, ptr %drawn, i64 {b.op(f'mul i64 {length}, {width}')})")
        with b.loop("0", length) as number:
            yield b.op(f"add i64 {begin}, {number}"), number


def integers() -> FnBuilder:
    """``integers(state, out, count, low, extent)``: words modulo the extent, plus low, as 64-bit integers."""
    b = FnBuilder("integers", "ptr %state, ptr %out, i64 %count, i64 %low, i32 %extent")
    b.do(f"%drawn = alloca [{_DRAWS} x i32]")
    low, extent = Lanes(b, "i64", 1, "%low"), Lanes(b, "i32", 1, "%extent")
    with _drawn(b, "%count", 1) as (place, number):
        rest = load(b, "i32", "%drawn", number).binary("urem", extent)
        store(rest.convert("i64", "zext") + low, "%out", place)
    return b


def seed() -> FnBuilder:
    """``seed(state, value)``: the state that a 32-bit seed starts with; no number is kept from before."""
    b = FnBuilder("seed", "ptr %state, i64 %value")
    first = b.op("trunc i64 %value to i32")
    b.do(f"store i32 {first}, ptr %state")
    with b.fold("1", str(_BLOCK), 1, [("i32", first)]) as (index, values):
        before = Lanes(b, "i32", 1, values[0])
        number = Lanes(b, "i32", 1, b.op(f"trunc i64 {index} to i32"))
        word = (before ^ before.lshr(30)) * 1812433253 + number
        store(word, "%state", index)
        values[0] = word.reg
    for word_nr, value in enumerate((RANDOM_FRESH, 0, 0), RANDOM_POSITION):
        b.do(f"store i64 {value}, ptr {pointer(b, 'i64', '%state', word_nr)}")
    return b
