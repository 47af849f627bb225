"""Einstein summation, as one product per pair of operands: a batched matrix product if anything is summed.

Owns: reading the subscripts, and the order of permutes, reshapes and products.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.door import door
from jitgrad.functions.devices import lowered
from jitgrad.functions.views import expand, permute, reshape, unsqueeze
from jitgrad.ops.table import OPS
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
    terms, output = _parse(equation.replace(" ", ""), tensors)
    extents = _extents(terms, tensors)
    parts = [_without_repeats(x, term) for x, term in zip(tensors, terms, strict=True)]
    total, names = parts[0]
    for i, (x, term) in enumerate(parts[1:], 1):
        later = set(output).union(*(t for _, t in parts[i + 1 :]))
        if later.issuperset(names + term):
            total, names = _multiply(total, names, x, term, output)
        else:
            total, names = _contract(total, names, x, term, later, extents)
    found = _finish(total, names, output)
    return permute(found, tuple(range(found.ndim))) if found is tensors[0] else found


def _parse(equation: str, tensors: list[Any]) -> tuple[list[str], str]:
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise RuntimeError(
            f"einsum(): the number of operands ({len(tensors)}) does not match the subscripts ({len(terms)}): "
            f"{equation}"
        )
    for i, x in enumerate(tensors):
        if not isinstance(x, TensorBase):
            raise TypeError(f"expected Tensor as element {i} in argument 1, but got {type(x).__name__}")
    widest = 0
    for i, (term, x) in enumerate(zip(terms, tensors, strict=True)):
        named = term.replace("...", "")
        hidden = x.ndim - len(named)
        if hidden < 0 or (hidden and "..." not in term):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(named)}) does not match the number of "
                f"dimensions ({x.ndim}) for operand {i}"
            )
        widest = max(widest, hidden)
        terms[i] = term.replace("...", _DOTS[len(_DOTS) - hidden :])
    dots = _DOTS[len(_DOTS) - widest :]
    if arrow:
        return terms, right.replace("...", dots)
    once = sorted(c for c in set("".join(terms)) - set(dots) if "".join(terms).count(c) == 1)
    return terms, dots + "".join(once)


def _extents(terms: list[str], tensors: list[Any]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for term, x in zip(terms, tensors, strict=True):
        for name, n in zip(term, x.shape, strict=True):
            known = extents.get(name, 1)
            if known != 1 and n not in (1, known):
                raise RuntimeError(f"einsum(): subscript {name} has size {n} for an operand, but {known} for another")
            extents[name] = n if known == 1 else known  # which may be 0
    return extents


def _without_repeats(x: Any, term: str) -> tuple[Any, str]:
    """A letter that occurs twice in a term means the diagonal."""
    for name in sorted(set(term)):
        while term.count(name) > 1:
            first = term.index(name)
            second = term.index(name, first + 1)
            x = door.apply(_DIAGONAL, x, 0, first, second)
            term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + name
    return x, term


def _sum_unused(x: Any, term: str, used: set[str]) -> tuple[Any, str]:
    """Sum the dimensions that nobody needs any more."""
    gone = tuple(i for i, name in enumerate(term) if name not in used)
    return (x.sum(gone, dtype=x.dtype), "".join(c for c in term if c in used)) if gone else (x, term)


def _arrange(x: Any, term: str, groups: tuple[str, ...], extents: dict[str, int]) -> Any:
    """Each group of letters merged into one dimension."""
    names = "".join(groups)
    if names != term:
        x = permute(x, tuple([term.index(name) for name in names]))
    shape = tuple([extents[name] for name in names])
    x = x if x.shape == shape else expand(x, shape)
    if all([len(group) == 1 for group in groups]):
        return x
    return reshape(x, tuple([math.prod([extents[name] for name in group]) for group in groups]))


def _contract(x: Any, left: str, y: Any, right: str, later: set[str], extents: dict[str, int]) -> tuple[Any, str]:
    """The product of two operands, summed over the letters that only they have: of matrices, or of a batch of them."""
    x, left = _sum_unused(x, left, later | set(right))
    y, right = _sum_unused(y, right, later | set(left))
    shared = [c for c in left if c in right]
    batch, inner = "".join(c for c in shared if c in later), "".join(c for c in shared if c not in later)
    rows, columns = "".join(c for c in left if c not in right), "".join(c for c in right if c not in left)
    first = (batch,) if batch else ()
    x, y = _arrange(x, left, (*first, rows, inner), extents), _arrange(y, right, (*first, inner, columns), extents)
    names = batch + rows + columns
    return reshape(door.apply(_BMM if batch else _MM, x, y), tuple([extents[name] for name in names])), names


def _multiply(x: Any, left: str, y: Any, right: str, output: str) -> tuple[Any, str]:
    """The product of two operands of which nothing is summed, with the dimensions in the output's order."""
    names = [name for name in output if name in left + right]
    names += [name for name in dict.fromkeys(left + right) if name not in output]
    return _spread(x, left, names) * _spread(y, right, names), "".join(names)


def _spread(x: Any, term: str, names: list[str]) -> Any:
    """With a dimension for each of the names, of extent 1 where it has none."""
    x = permute(x, tuple(term.index(name) for name in names if name in term))
    for dim, name in enumerate(names):
        x = x if name in term else unsqueeze(x, dim)
    return x


def _finish(x: Any, names: str, output: str) -> Any:
    x, names = _sum_unused(x, names, set(output))
    missing = set(output) - set(names)
    if missing:
        raise RuntimeError(f"einsum(): output subscript {sorted(missing)[0]} does not appear in the equation")
    return permute(x, tuple(names.index(name) for name in output)) if names != output else x
