"""Kernels whose bodies differ in buffers, offsets and slots of scalars only: their loops are chosen once.

Owns: ``Alike``, ``outline_of``.
Must not know: how loops are chosen, what a product's kernel is.
In: ``LoopBody``. Out: argument words.

# Note [Kernels alike]
# ~~~~~~~~~~~~~~~~~~~~
# The turns of an unrolled loop, the layers of a network and the parameters of an optimizer give kernels that do the
# same somewhere else. Which loops a kernel gets, its text and all of its argument words but slots and offsets depend
# on the body's *outline*: its instructions and stores, with the buffers replaced by the order in which they are met,
# without the offsets. So a plan makes one kernel per outline, and for bodies with a known outline fills that kernel's
# words with their own places. Nothing is known from one plan to the next.
# Example: ``c = f * c + i * g`` of an LSTM's 512 steps reads and writes other buffers at each: one outline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.codegen.fusion.lower import LoopInstr
from jitgrad.codegen.schedule.kernel_ir import ACCESSES, BufferArg
from jitgrad.codegen.schedule.loop_body import LoopBody, needed, with_stores
from jitgrad.tracer.recording.graph import RuntimeScalar

__all__ = ["Alike", "Outline", "outline_of"]


class Outline(NamedTuple):
    """A body, without what may differ between kernels alike.

    Attributes:
        key: equal for bodies whose kernels are alike.
        places: where each access begins, in the order of the instructions, stores last.
        scalars: the run-time scalars, in the order of the instructions.
    """

    key: tuple[Any, ...]
    places: list[BufferArg]
    scalars: list[RuntimeScalar]


def outline_of(body: LoopBody) -> Outline:
    """What the kernel depends on, and what it is filled with."""
    places: list[BufferArg] = []
    scalars: list[RuntimeScalar] = []
    numbers: dict[int, int] = {}
    rows: list[Any] = []
    for i in body.instrs:
        if i.op in ACCESSES:
            buffer = body.buffer_of(i.extra[0])
            number = numbers.setdefault(id(buffer), len(numbers))
            offset, *strides = i.address or (0,)
            places.append(BufferArg(buffer, offset * i.dtype.itemsize))
            rows.append((i.op, i.dtype, i.srcs, number, i.extra[1:], tuple(strides), i.chunk_stride))
        elif i.op == "scalar":
            scalars.append(i.extra[0])
            rows.append((i.op, i.dtype, scalars.index(i.extra[0]), i.extra[0].is_float))
        else:
            rows.append(i)
    for s in body.stores:
        number = numbers.setdefault(id(s.buffer), len(numbers))
        places.append(BufferArg(s.buffer, s.address[0] * s.dtype.itemsize))
        rows.append((s.reg, number, s.buffer.kind == "input", s.dtype, s.address[1:], s.chunk_stride))
    key = (tuple(rows), len(body.instrs), body.extents, body.reduced, body.chunks, body.sequential)
    return Outline(key, places, scalars)


class _Known(NamedTuple):
    """A kernel that was made. For each word that is a place or a scalar: its number, and which one of the outline."""

    kernel: Any
    places: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, int], ...]


class Alike:
    """The kernels of one plan, by their outlines; see Note [Kernels alike].

    Attributes:
        count: how many kernels were alike an earlier one.
    """

    __slots__ = ("_known", "count")

    def __init__(self) -> None:
        self._known: dict[Any, _Known] = {}
        self.count = 0

    def find(self, key: Any, outline: Outline) -> tuple[Any, list[Any]] | None:
        """(the kernel of an equal outline, its words with this outline's places); None if there is none yet.

        Args:
            key: of all that the kernel depends on, the outline's key included.
            outline: of its body.
        """
        known = self._known.get(key)
        if known is None:
            return None
        words = list(known.kernel.words)
        for at, nr in known.places:
            words[at] = outline.places[nr]
        for at, nr in known.scalars:
            words[at] = outline.scalars[nr]
        self.count += 1
        return known.kernel, words

    def add(self, key: Any, outline: Outline, body: LoopBody, kernel: Any) -> None:
        """A kernel was made, with ``words``."""
        reached = _places_needed(with_stores(body))
        at_places = [n for n, word in enumerate(kernel.words) if type(word) is BufferArg]
        assert [outline.places[nr] for nr in reached] == [kernel.words[n] for n in at_places]
        numbers = {scalar: nr for nr, scalar in enumerate(outline.scalars)}
        at_scalars = [n for n, word in enumerate(kernel.words) if type(word) is RuntimeScalar]
        self._known[key] = _Known(
            kernel,
            tuple(zip(at_places, reached, strict=True)),
            tuple([(n, numbers[kernel.words[n]]) for n in at_scalars]),
        )


def _places_needed(instrs: Sequence[LoopInstr]) -> list[int]:
    """Which accesses a kernel keeps, by their numbers among all of the body's."""
    is_needed = needed(instrs)
    accesses = [n for n, i in enumerate(instrs) if i.op in ACCESSES]
    return [nr for nr, n in enumerate(accesses) if is_needed[n]]
