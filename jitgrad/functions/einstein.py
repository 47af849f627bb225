"""Einstein summation, as one product per pair of operands: a batched matrix product if anything is summed.

Owns: reading the subscripts, and the order of permutes, reshapes and products; what was found is kept per equation and
shapes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from jitgrad.door import door
from jitgrad.functions.devices import lowered
from jitgrad.functions.views import expand, permute, reshape, unsqueeze
from jitgrad.ops.table import OPS, Op
from jitgrad.state import autocasts
from jitgrad.tensor_base import TensorBase

__all__ = ["einsum"]

_BMM, _MM, _DIAGONAL = OPS["bmm"], OPS["mm"], OPS["diagonal"]
_DOTS = "".join(chr(0x2160 + i) for i in range(16))  # letters that stand for the dimensions of "..."


def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products over named dimensions, as ``torch.einsum``: ``einsum("bij,bjk->bik", x, y)``.

    Args:
        equation: a letter per dimension, ``...`` for any others; without ``->`` the output has the letters that occur
            once, sorted.
        operands: tensors, or one list of them.

    Raises:
        TypeError: without an equation.
        RuntimeError: if subscripts and operands do not fit.
    """
    if not isinstance(equation, str):
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type(equation).__name__}")
    tensors = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else list(operands)
    if autocasts and len(tensors) > 1:
        tensors = list(lowered(*tensors))
    for i, x in enumerate(tensors):
        if not isinstance(x, TensorBase):
            raise TypeError(f"expected Tensor as element {i} in argument 1, but got {type(x).__name__}")
    shapes = tuple([x.shape for x in tensors])
    is_known = all([type(n) is int for shape in shapes for n in shape])  # others are numbers of a trace
    values: list[Any] = tensors[:]
    for function, places, arguments in (_known_steps if is_known else _steps)(equation, shapes):
        values.append(function(*[values[i] for i in places], *arguments))
    found = values[-1]
    return permute(found, tuple(range(found.ndim))) if found is tensors[0] else found


Step = tuple[Callable[..., Any], tuple[int, ...], tuple[Any, ...]]
"""A function, where its tensors are - the operands first, then the steps' results - and its other arguments."""


class _Factor(NamedTuple):
    """A tensor while the steps are found.

    Attributes:
        place: where it will be.
        names: a letter per dimension.
        shape: an extent of 1 may stand for a larger one.
    """

    place: int
    names: str
    shape: tuple[int, ...]


class _Steps:
    """The steps of an einsum while they are found."""

    def __init__(self, equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
        self.found: list[Step] = []
        self._count = len(shapes)
        terms, output = _parse(equation.replace(" ", ""), [len(shape) for shape in shapes])
        self.extents = _extents(terms, shapes)
        rows = enumerate(zip(terms, shapes, strict=True))
        parts = [self._without_repeats(_Factor(i, term, shape)) for i, (term, shape) in rows]
        total = parts[0]
        for i, part in enumerate(parts[1:], 1):
            later = set(output).union(*(p.names for p in parts[i + 1 :]))
            keeps_all = later.issuperset(total.names + part.names)
            total = self._multiply(total, part, output) if keeps_all else self._contract(total, part, later)
        self._finish(total, output)

    def _add(
        self, function: Callable[..., Any], parts: tuple[_Factor, ...], names: str, shape: Any, *args: Any
    ) -> _Factor:
        """The result of a step."""
        self.found.append((function, tuple([part.place for part in parts]), args))
        return _Factor(self._count + len(self.found) - 1, names, tuple(shape))

    def _permute(self, x: _Factor, names: str) -> _Factor:
        dims = tuple([x.names.index(name) for name in names])
        return self._add(permute, (x,), names, [x.shape[d] for d in dims], dims) if names != x.names else x

    def _reshape(self, x: _Factor, names: str, shape: tuple[int, ...]) -> _Factor:
        return self._add(reshape, (x,), names, shape, shape)

    def _without_repeats(self, x: _Factor) -> _Factor:
        """A letter that occurs twice in a term means the diagonal."""
        for name in sorted(set(x.names)):
            while x.names.count(name) > 1:
                first = x.names.index(name)
                second = x.names.index(name, first + 1)
                kept = [i for i in range(len(x.names)) if i not in (first, second)]
                names = "".join([x.names[i] for i in kept]) + name
                extent = min(x.shape[first], x.shape[second])
                x = self._add(_diagonal, (x,), names, [*[x.shape[i] for i in kept], extent], first, second)
        return x

    def _sum_unused(self, x: _Factor, used: set[str]) -> _Factor:
        """Sum the dimensions that nobody needs any more."""
        gone = tuple([i for i, name in enumerate(x.names) if name not in used])
        kept = [i for i in range(len(x.names)) if i not in gone]
        names = "".join([x.names[i] for i in kept])
        return self._add(_sum, (x,), names, [x.shape[i] for i in kept], gone) if gone else x

    def _arrange(self, x: _Factor, groups: tuple[str, ...]) -> _Factor:
        """Each group of letters merged into one dimension."""
        x = self._permute(x, "".join(groups))
        shape = tuple([self.extents[name] for name in x.names])
        if x.shape != shape:
            x = self._add(expand, (x,), x.names, shape, shape)
        if all([len(group) == 1 for group in groups]):
            return x
        return self._reshape(x, "", tuple([math.prod([self.extents[name] for name in group]) for group in groups]))

    def _contract(self, x: _Factor, y: _Factor, later: set[str]) -> _Factor:
        """The product of two operands, summed over the letters that only they have: of matrices, or a batch of them."""
        x = self._sum_unused(x, later | set(y.names))
        y = self._sum_unused(y, later | set(x.names))
        shared = [c for c in x.names if c in y.names]
        batch, inner = "".join(c for c in shared if c in later), "".join(c for c in shared if c not in later)
        rows, columns = "".join(c for c in x.names if c not in shared), "".join(c for c in y.names if c not in shared)
        first = (batch,) if batch else ()
        x, y = self._arrange(x, (*first, rows, inner)), self._arrange(y, (*first, inner, columns))
        product = self._add(_product, (x, y), "", (*x.shape[:-1], y.shape[-1]), _BMM if batch else _MM)
        names = batch + rows + columns
        return self._reshape(product, names, tuple([self.extents[name] for name in names]))  # a view, as PyTorch's is

    def _multiply(self, x: _Factor, y: _Factor, output: str) -> _Factor:
        """The product of two operands of which nothing is summed, with the dimensions in the output's order."""
        names = [name for name in output if name in x.names + y.names]
        names += [name for name in dict.fromkeys(x.names + y.names) if name not in output]
        x, y = self._spread(x, names), self._spread(y, names)
        shape = [n if m == 1 else m for m, n in zip(x.shape, y.shape, strict=True)]
        return self._add(operator.mul, (x, y), "".join(names), shape)

    def _spread(self, x: _Factor, names: list[str]) -> _Factor:
        """With a dimension for each of the names, of extent 1 where it has none."""
        own = x.names
        x = self._permute(x, "".join([name for name in names if name in own]))
        for dim, name in enumerate(names):
            if name not in own:
                x = self._add(unsqueeze, (x,), "", (*x.shape[:dim], 1, *x.shape[dim:]), dim)
        return x

    def _finish(self, x: _Factor, output: str) -> None:
        x = self._sum_unused(x, set(output))
        missing = sorted(set(output) - set(x.names))
        if missing:
            raise RuntimeError(f"einsum(): output subscript {missing[0]} does not appear in the equation")
        self._permute(x, output)


def _diagonal(x: Any, first: int, second: int) -> Any:
    return door.apply(_DIAGONAL, x, 0, first, second)


def _sum(x: Any, dims: tuple[int, ...]) -> Any:
    return x.sum(dims, dtype=x.dtype)


def _product(x: Any, y: Any, op: Op) -> Any:
    return door.apply(op, x, y)


def _steps(equation: str, shapes: tuple[tuple[int, ...], ...]) -> list[Step]:
    """What an einsum of operands of such shapes does; the last result is its own."""
    return _Steps(equation, shapes).found


_known_steps = lru_cache(maxsize=1024)(_steps)


def _parse(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """The letters of each operand, and those of the result."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise RuntimeError(
            f"einsum(): the number of operands ({len(ranks)}) does not match the subscripts ({len(terms)}): {equation}"
        )
    widest = 0
    for i, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        named = term.replace("...", "")
        hidden = rank - len(named)
        if hidden < 0 or (hidden and "..." not in term):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(named)}) does not match the number of "
                f"dimensions ({rank}) for operand {i}"
            )
        widest = max(widest, hidden)
        terms[i] = term.replace("...", _DOTS[len(_DOTS) - hidden :])
    dots = _DOTS[len(_DOTS) - widest :]
    if arrow:
        return terms, right.replace("...", dots)
    once = sorted(c for c in set("".join(terms)) - set(dots) if "".join(terms).count(c) == 1)
    return terms, dots + "".join(once)


def _extents(terms: list[str], shapes: tuple[tuple[int, ...], ...]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for name, n in zip(term, shape, strict=True):
            known = extents.get(name, 1)
            if known != 1 and n not in (1, known):
                raise RuntimeError(f"einsum(): subscript {name} has size {n} for an operand, but {known} for another")
            extents[name] = n if known == 1 else known  # which may be 0
    return extents
