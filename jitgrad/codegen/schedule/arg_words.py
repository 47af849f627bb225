"""Argument words: the numbers that a kernel gets at run time, and what its text depends on instead.

Owns: ``laid_out``.
Must not know: how the loops were chosen, where buffers lie (``BufferArg`` stands for it).
In: ``LoopInstr``s and the order of dims. Out: ``kernel_ir.KernelInstr``s and words.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from jitgrad.codegen.fusion.lower import LoopInstr
from jitgrad.codegen.llvm.dtype_text import number
from jitgrad.codegen.schedule.kernel_ir import ACCESSES, COMBINING, BufferArg, KernelInstr
from jitgrad.codegen.schedule.loop_body import LoopBody
from jitgrad.dtypes import FLOATING, int32, int64
from jitgrad.symbols.advice import identical
from jitgrad.symbols.number import TOKEN, current_env, is_symbolic, lifted, number_key, whole

__all__ = ["laid_out", "shuffle_of"]

_COMMON_STRIDES = (-1, 2, -2)


def laid_out(
    instrs: Sequence[LoopInstr], dims: Sequence[int], body: LoopBody, first: int
) -> tuple[tuple[KernelInstr, ...], list[Any], int]:
    """The instructions, their argument words from number ``first`` on, and the number of words in all."""
    words: list[Any] = []
    count = first
    out: list[KernelInstr] = []
    in_text = _integers_in_text(instrs)
    conditions: dict[Any, int] = {}
    movers: dict[Any, int] = {}
    for n, i in enumerate(instrs):
        op = "number" if i.op == "const" and n not in in_text and _is_argument(i) else i.op
        if op == "const":
            i = i._replace(extra=(_settled(i.extra[0]),))
        if op == "mask":
            static, own = _mask_words(i, dims, conditions, count)
        else:
            static, own = _WORDS.get(op, _no_words)(i, dims, body)
        like = movers.setdefault(_moved_by(i, own[0].buffer), n) if op in ACCESSES else -1
        out.append(KernelInstr(op, i.dtype.name, i.srcs, static, count, like))
        words += own
        count += len(own) + sum([isinstance(w, BufferArg) for w in own])
    return tuple(out), words, count


# argument words per kind of instruction: (what the text depends on, the words)
def _stride_words(i: LoopInstr, dims: Sequence[int], itemsize: int) -> tuple[str, list[int]]:
    """Stride class per dim (the chunk number last), and the strides that are words."""
    address = i.address or ()
    strides = [address[d + 1] for d in dims] + [i.chunk_stride]
    last = len(dims) - 1
    inner = (last - 1, last)  # the last but one: see Note [Tiles]
    classes = "".join("0" if s == 0 else "1" if s == 1 and n in inner else "x" for n, s in enumerate(strides))
    return classes, [s * itemsize for s, c in zip(strides, classes, strict=True) if c == "x"]


def _access_words(i: LoopInstr, dims: Sequence[int], body: LoopBody) -> tuple[Any, list[Any]]:
    size = i.dtype.itemsize
    classes, strides = _stride_words(i, dims, size)
    buffer = i.extra[0] if i.op == "store" else body.buffer_of(i.extra[0])
    words: list[Any] = [BufferArg(buffer, (i.address or (0,))[0] * size), *strides]
    if i.op == "store" and buffer.kind == "input" and _is_read(buffer, body):
        return (classes, "last"), words  # a later phase may read the old contents again
    if i.op == "gather" or i.op in COMBINING:
        words += [s * size for s in i.extra[1]]
        return (classes, len(i.extra[1])), words
    stride = shuffle_of(i, dims[-1]) if i.op == "load" and classes[len(dims) - 1] == "x" else 0
    return (classes, stride) if stride else classes, words


def shuffle_of(i: LoopInstr, vec: int) -> int:
    """The stride along loop ``vec``, if its lanes are loaded as vectors, Note [Lanes in other order]; else 0."""
    stride = (i.address or ())[vec + 1]
    return next((known for known in _COMMON_STRIDES if identical(stride, known)), 0)


def _is_read(buffer: Any, body: LoopBody) -> bool:
    if body.read is None:
        body.read = {id(body.buffer_of(i.extra[0])) for i in body.instrs if i.op in ("load", "gather")}
    return id(buffer) in body.read


def _moved_by(i: LoopInstr, buffer: Any) -> Any:
    """What tells whether two accesses are moved alike; without a question to symbolic numbers."""
    assert i.address is not None
    return id(buffer), i.dtype.itemsize, *map(number_key, i.address[1:]), number_key(i.chunk_stride)


def _mask_words(i: LoopInstr, dims: Sequence[int], known: dict[Any, int], first: int) -> tuple[Any, list[Any]]:
    """Its conditions, and the bounds of those that are not ``known``, from word ``first`` on."""
    position = {d: n for n, d in enumerate(dims)}
    conditions: list[tuple[int, str, int]] = []
    words: list[Any] = []
    for r in i.extra:
        key = (number_key(r.lo), number_key(r.hi))
        if key not in known:
            known[key] = first + len(words)
            words += [r.lo, r.hi]
        conditions.append((position[r.dim], r.sides, known[key]))
    return tuple(conditions), words


def _iota_words(i: LoopInstr, dims: Sequence[int], body: LoopBody) -> tuple[Any, list[Any]]:
    address = i.address or (0,)
    steps = [address[d + 1] for d in dims]
    return "".join("x" if s else "0" for s in steps), [address[0], *(s for s in steps if s)]


def _scalar_words(i: LoopInstr, dims: Sequence[int], body: LoopBody) -> tuple[Any, list[Any]]:
    return i.extra[0].is_float, [i.extra[0]]


def _integers_in_text(instrs: Sequence[LoopInstr]) -> set[int]:
    """Integer constants of which LLVM makes more than of a word: masks, places."""
    return {s for i in instrs if i.op not in _PLAIN for s in i.srcs if instrs[s].dtype.category is not FLOATING}


def _is_argument(i: LoopInstr) -> bool:
    """Whether a constant is an argument word, if it is a float or none of ``_integers_in_text``.

    So two kernels that differ in one number are one kernel: 1 / n of a mean, a learning rate; the extent that a
    negative index counts from. The constants of ``_IN_TEXT`` are part of the text, because LLVM has better
    instructions for them.
    """
    if i.dtype.category is not FLOATING and i.dtype not in (int32, int64):
        return False
    value = abs(number(i.extra[0], i.dtype.name))
    return all([value != known for known in _IN_TEXT]) if is_symbolic(value) else value not in _IN_TEXT


def _settled(literal: Any) -> Any:
    """A constant of the text; of a symbolic number, its value from now on."""
    env = current_env()
    is_token = env is not None and type(literal) is str and literal.startswith(TOKEN)
    return repr(env.number(literal).settled()) if env is not None and is_token else literal


def _number_words(i: LoopInstr, dims: Sequence[int], body: LoopBody) -> tuple[Any, list[Any]]:
    """An integer, or the bits of a double."""
    value = number(i.extra[0], i.dtype.name)
    if i.dtype.category is not FLOATING:
        return (), [whole(value)]
    return (), [lifted(_bits)(value)]


def _bits(value: float) -> int:
    """Of a double."""
    found: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return found


def _no_words(i: LoopInstr, dims: Sequence[int], body: LoopBody) -> tuple[Any, list[Any]]:
    if i.op.startswith("reduce_"):
        return i.extra[0], []
    return i.extra, []


def _check_words(i: LoopInstr, dims: Sequence[int], body: LoopBody) -> tuple[Any, list[Any]]:
    return i.extra[2:], list(i.extra[:2])


_IN_TEXT = frozenset({0.0, 0.5, 1.0, 2.0, math.inf})
_PLAIN = frozenset({"add", "sub", "mul", "div", "floordiv", "mod", "fmod", "max", "min", "where", "lt", "le", "gt",
                    "ge", "eq", "ne", "store"})  # fmt: skip
"""Operations that take a word as readily as a constant; divisors, too, as lanes divide in float64."""
_WORDS = {
    "number": _number_words,
    "load": _access_words,
    "store": _access_words,
    "gather": _access_words,
    **dict.fromkeys(COMBINING, _access_words),
    "iota": _iota_words,
    "scalar": _scalar_words,
    "check": _check_words,
}
