"""Which elements or bytes an instruction may touch, found again from its address.

Owns: ``reach`` of an affine address, and ``accesses_of``: what a finished loop kernel touches, from its argument words.
Must not know: how kernels are scheduled or printed.
In: loop extents, ``KernelInstr``s and words. Out: intervals, which ``verify`` compares with buffers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jitgrad.codegen.fusion.index_map import Expr
from jitgrad.codegen.llvm.dtype_text import of
from jitgrad.codegen.schedule.kernel_ir import ACCESSES, COMBINING, KernelInstr, NestKey, classes

__all__ = ["Access", "Interval", "accesses_of", "common_position", "nest_accesses", "reach"]

_MAX_ELEMENTS = 1 << 16  # two accesses are compared element by element up to this many

Bounds = Mapping[int, tuple[int, int]]


class Interval(NamedTuple):
    """Positions ``first`` to ``last``, both included."""

    first: int
    last: int


class Access(NamedTuple):
    """What one instruction of a kernel touches.

    Attributes:
        number: of the instruction; -1 for an operand of a matrix product.
        op: of ``ACCESSES``.
        slot: number of the memory.
        bytes: which of it, at the most.
        address, extents: the same as an affine expression in bytes, before any index is added.
    """

    number: int
    op: str
    slot: int
    bytes: Interval
    address: Expr
    extents: tuple[int, ...]


def reach(address: Expr, extents: Sequence[int], bounds: Bounds) -> Interval | None:
    """The smallest interval that holds every value of the address; None if no iteration computes it.

    Args:
        address: see Note [Index maps].
        extents: of the loops.
        bounds: loop -> (first, one past its last index) where masks narrow it.
    """
    first = last = address[0]
    for d, (extent, step) in enumerate(zip(extents, address[1:], strict=True)):
        lo, hi = bounds.get(d, (0, extent))
        lo, hi = max(lo, 0), min(hi, extent)
        if lo >= hi:
            return None
        ends = (step * lo, step * (hi - 1))
        first, last = first + min(ends), last + max(ends)
    return Interval(first, last)


def nest_accesses(key: NestKey, words: Sequence[int]) -> list[Access]:
    """What a loop kernel touches; see Note [Loop nests] for the order of its words."""
    dims = key.vec + 1
    return accesses_of(key.instrs, [*words[:dims], words[dims + 3]], words)


def accesses_of(instrs: Sequence[KernelInstr], extents: Sequence[int], words: Sequence[int]) -> list[Access]:
    """What instructions touch. ``extents``: of the dims, the number of chunks last."""
    found = []
    moved: dict[int, list[int]] = {}
    for number, i in enumerate(instrs):
        if i.op not in ACCESSES:
            continue
        own, size = classes(i), of(i.dtype).itemsize
        slot, offset, *rest = words[i.word :]
        strides = [0 if kind == "0" else size if kind == "1" else rest.pop(0) for kind in own]
        address = (offset, *strides)
        moved[number] = strides
        if moved[i.like] != strides:
            raise ValueError(f"instruction {number} ({i.op}) is not moved as instruction {i.like} is")
        touched = reach(address, extents, _mask_bounds(instrs, i, words))
        if touched is None:
            continue
        if i.op == "gather" or i.op in COMBINING:
            touched = _indexed(instrs, i, words, rest, touched)
        found.append(
            Access(number, i.op, slot, Interval(touched.first, touched.last + size - 1), address, tuple(extents))
        )
    return found


def common_position(a: Access, b: Access) -> int | None:
    """A byte at which elements of both begin; None if there is none, or if both are too large to tell."""
    if a.bytes.last < b.bytes.first or b.bytes.last < a.bytes.first:
        return None
    if max(math.prod(a.extents), math.prod(b.extents)) > _MAX_ELEMENTS:
        return None
    common = np.intersect1d(_positions(a), _positions(b))
    return int(common[0]) if common.size else None


def _positions(access: Access) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    at = np.array([access.address[0]], np.int64)
    for extent, step in zip(access.extents, access.address[1:], strict=True):
        if step:
            at = np.add.outer(at, np.arange(extent) * step).reshape(-1)
    return at


def _mask_bounds(instrs: Sequence[KernelInstr], i: KernelInstr, words: Sequence[int]) -> dict[int, tuple[int, int]]:
    """The loop indices for which the masks among the sources hold; a bound that is not tested does not count."""
    bounds: dict[int, tuple[int, int]] = {}
    for s in i.srcs:
        if instrs[s].op == "mask" and i.op in ("load", "gather"):
            for dim, sides, at in instrs[s].static:
                lo, hi = bounds.get(dim, (0, 1 << 62))
                bounds[dim] = (
                    max(lo, words[at]) if "l" in sides else lo,
                    min(hi, words[at + 1]) if "h" in sides else hi,
                )
    return bounds


def _indexed(
    instrs: Sequence[KernelInstr], i: KernelInstr, words: Sequence[int], strides: Sequence[int], base: Interval
) -> Interval:
    """``base``, moved by every index that the checks among the sources let through."""
    indices = i.srcs[: i.static[1]] if i.op == "gather" else i.srcs[1:]
    first, last = base
    for s, stride in zip(indices, strides, strict=False):
        if instrs[s].op != "check":
            raise ValueError(f"instruction {i.op} uses an index that was not checked (source {s})")
        end = stride * max(0, words[instrs[s].word] - 1)
        first, last = first + min(0, end), last + max(0, end)
    return Interval(first, last)
