"""Affine index maps: where an element of a value lies, in terms of a kernel's loop indices.

Owns: the algebra of maps through movement primitives.
Must not know: values, kernels, LLVM.

# Note [Index maps]
# ~~~~~~~~~~~~~~~~~
# A loop domain has extents (e0, e1, ...). An ``Expr`` is (constant, c0, c1, ...): constant + sum(ci * index i).
# An ``IndexMap`` holds one Expr per dimension of a value. A movement primitive turns the map of its result into the map
# of its operand, so movement costs nothing at run time; ``pad`` adds a condition, see ``Range``.
# A reshape is affine if every index it must split is already split in the domain. If it is not, but a finer domain
# would make it so, the answer is ``Split``: the caller starts again with that loop split in two.
# Example: over the domain [2, 3], a row-major x[2, 3] has the map (i0, i1) and the address i0 * 3 + i1; its transpose
# x.t() has the map (i1, i0) over the domain [3, 2]. x.reshape(6) over the domain [6] asks for ``Split(0, 3)``.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from jitgrad.ops.aval import contiguous_strides

__all__ = ["Expr", "IndexMap", "Range", "Split", "combined", "linear", "scaled", "through_expand", "through_pad",
           "through_reshape", "through_slice"]  # fmt: skip

Expr = tuple[int, ...]
IndexMap = tuple[Expr, ...]
_Block = tuple[tuple[int, ...], tuple[int, ...]]


class Range(NamedTuple):
    """A condition on one loop index: ``lo <= index < hi``."""

    dim: int
    lo: int
    hi: int


class Split(NamedTuple):
    """Loop ``dim`` must become two, the inner one of extent ``factor``."""

    dim: int
    factor: int


def scaled(x: Expr, factor: int) -> Expr:
    return tuple(c * factor for c in x)


def combined(x: Expr, y: Expr, sign: int) -> Expr:
    """x + sign * y."""
    return tuple(a + sign * b for a, b in zip(x, y, strict=True))


def linear(m: IndexMap, strides: tuple[int, ...], offset: int, rank: int) -> Expr:
    """The element address of ``m`` in a buffer with these strides; ``rank`` is the domain's."""
    out = [offset] + [0] * rank
    for expr, stride in zip(m, strides, strict=True):
        if stride:
            for i, c in enumerate(expr):
                if c:
                    out[i] += c * stride
    return tuple(out)


def through_expand(m: IndexMap, shape: tuple[int, ...], rank: int) -> IndexMap:
    """The operand's map, for an operand of ``shape`` that is broadcast."""
    zero = (0,) * (rank + 1)
    inner = m[len(m) - len(shape) :]
    return tuple(zero if n == 1 else e for e, n in zip(inner, shape, strict=True))


def through_slice(m: IndexMap, starts: tuple[int, ...], steps: tuple[int, ...]) -> IndexMap:
    return tuple(
        e if start == 0 and step == 1 else (e[0] * step + start, *(c * step for c in e[1:]))
        for e, start, step in zip(m, starts, steps, strict=True)
    )


def through_pad(
    m: IndexMap, lo: tuple[int, ...], hi: tuple[int, ...], shape: tuple[int, ...], extents: tuple[int, ...]
) -> tuple[IndexMap, list[Range], bool] | None:
    """The operand's map, where it holds, and whether it holds anywhere.

    None: a condition involves two loop indices at once, which a ``Range`` cannot say.
    """
    ranges: list[Range] = []
    out: list[Expr] = []
    for e, before, after, n in zip(m, lo, hi, shape, strict=True):
        inner = (e[0] - before, *e[1:]) if before else e
        out.append(inner)
        if not before and not after:
            continue
        used = [i for i, c in enumerate(inner[1:]) if c]
        if len(used) > 1:
            return None
        if not used:
            if not 0 <= inner[0] < n:
                return tuple(out), [], False
            continue
        bounds = _solve(inner[0], inner[used[0] + 1], n)
        first, last = max(0, bounds[0]), min(extents[used[0]], bounds[1])
        if first >= last:
            return tuple(out), [], False
        if (first, last) != (0, extents[used[0]]):
            ranges.append(Range(used[0], first, last))
    return tuple(out), ranges, True


def _solve(const: int, step: int, n: int) -> tuple[int, int]:
    """The indices i with 0 <= const + step * i < n, as [first, last)."""
    if step > 0:
        return -(const // step), -((const - n) // step)
    return -((n - 1 - const) // -step), const // -step + 1


@functools.lru_cache(maxsize=4096)
def _blocks(out_shape: tuple[int, ...], in_shape: tuple[int, ...]) -> tuple[_Block, ...]:
    """Cut a reshape into the smallest independent ones: (result dims, operand dims), extents of 1 left out."""
    outs = [d for d, n in enumerate(out_shape) if n != 1]
    ins = [d for d, n in enumerate(in_shape) if n != 1]
    blocks = []
    i = j = 0
    while i < len(outs) or j < len(ins):
        a, b = out_shape[outs[i]], in_shape[ins[j]]
        i0, j0, i, j = i, j, i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * out_shape[outs[i]], i + 1
            else:
                b, j = b * in_shape[ins[j]], j + 1
        blocks.append((tuple(outs[i0:i]), tuple(ins[j0:j])))
    return tuple(blocks)


def through_reshape(
    m: IndexMap, out_shape: tuple[int, ...], in_shape: tuple[int, ...], extents: tuple[int, ...]
) -> IndexMap | Split | None:
    """The operand's map; None where no split of the domain makes it affine. No extent is 0."""
    rank = len(extents)
    result: list[Expr] = [(0,) * (rank + 1)] * len(in_shape)
    for outs, ins in _blocks(out_shape, in_shape):
        if len(outs) == len(ins) == 1:
            result[ins[0]] = m[outs[0]]
            continue
        index = linear(tuple(m[d] for d in outs), contiguous_strides(tuple(out_shape[d] for d in outs)), 0, rank)
        parts = _unravel(index, tuple(in_shape[d] for d in ins), extents)
        if parts is None or isinstance(parts, Split):
            return parts
        for d, expr in zip(ins, parts, strict=True):
            result[d] = expr
    return tuple(result)


def _unravel(index: Expr, shape: tuple[int, ...], extents: tuple[int, ...]) -> list[Expr] | Split | None:
    """Split a flat index into one per extent of ``shape``: each term goes to the largest stride that divides it."""
    rest = list(index)
    out: list[Expr] = []
    strides = contiguous_strides(shape)
    for n, stride in zip(shape, strides, strict=True):
        expr = [0] * len(rest)
        low = high = 0
        for i, c in enumerate(rest):
            if i == 0:
                expr[0], rest[0] = rest[0] // stride, rest[0] % stride
            elif c and c % stride == 0:
                expr[i], rest[i] = c // stride, 0
                reach = expr[i] * (extents[i - 1] - 1)
                low, high = low + min(0, reach), high + max(0, reach)
        if expr[0] + low < 0 or expr[0] + high >= n:
            return _why_not_affine(expr, n, extents)
        out.append(tuple(expr))
    return out


def _why_not_affine(expr: list[int], n: int, extents: tuple[int, ...]) -> Split | None:
    """A term that runs past its extent can be split if a whole number of its steps fills the extent."""
    for i, c in enumerate(expr[1:]):
        if c > 0 and c * (extents[i] - 1) >= n and n % c == 0 and extents[i] % (n // c) == 0 and n // c > 1:
            return Split(i, n // c)
    return None
