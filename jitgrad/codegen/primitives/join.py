"""Products that become one product: those that are added up, and those with one right operand.

Owns: ``join_products``.
Must not know: kernels, LLVM, why a graph has such products.
In: the results of a piece. Out: the same, of fewer products.

# Note [Joined products]
# ~~~~~~~~~~~~~~~~~~~~~~
# An unrolled loop multiplies by one weight at every step. Two rewrites make few large products of the many small ones:
#   long product   A0 @ B0 + A1 @ B1 + ...  is  [A0 A1 ...] @ [B0; B1; ...]: the gradient of a weight that is used
#                  more than once. No partial sum goes to memory and back.
#   tall product   A0 @ B, A1 @ B, ...  are slices of  [A0; A1; ...] @ B, if no A needs one of these products: inputs
#                  of all steps times one weight. B is read, or copied into panels, once.
# The joined operands are a ``cat``: loops that compute a part store it at its place there. Parts that lie one after
# the other in memory, as the steps x[0], x[1], ... of one tensor, are not moved at all.
# A tall product changes no bit. A long product adds in another order: each element is one chain of multiply-adds over
# all k of the first term, then of the second (Note [Order of summation]). The terms' order is that in which their
# operands were recorded. Both rewrites look at the graph only, so bits depend on nothing else.
# Tall products must not wait for themselves: see ``_depths``.
# Example: an LSTM over 35 steps has 35 products x[t] @ W, 35 products h @ U that wait for each other, and
# dU = sum of dG[t].T @ h[t - 1]. After the pass it has one, 35 and one.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.codegen.primitives.simplify import order_of, topological
from jitgrad.dtypes import FLOATING
from jitgrad.symbols.advice import advice

__all__ = ["LONG", "TALL", "is_plain", "join_products"]

LONG, TALL = "sum of products as one", "products by one matrix as one"

Chain = tuple[tuple[str, object, tuple[int, ...]], ...]
"""From a term back to its product: primitive, params and shape of each movement; the product's dtype and shape."""

Make = Callable[[Value, "dict[Value, Value]", "_Cats"], "Value | None"]
"""(value, what values before it have become, joined operands) to what it becomes; None: the same of other operands."""


def join_products(results: Sequence[Value], b: Builder, applied: Counter[str]) -> list[Value]:
    """The results, with products joined. ``applied`` counts joined products under ``LONG`` and ``TALL``."""
    if sum([v.op == "matmul" for v in order_of(results, b)]) < 2:
        return list(results)
    results = _join_sums(results, b, applied)
    for right in _shared_operands(order_of(results, b)):
        results = _join_rows(results, b, right, applied)
    return list(results)


def is_plain(v: Value) -> bool:
    """Whether ``v`` is one product of two matrices, of floats, whose operands are no windows."""
    return v.op == "matmul" and v.shape[0] == 1 and v.dtype.category is FLOATING and 0 not in v.srcs[0].shape + v.shape


def _rebuilt(results: Sequence[Value], order: Sequence[Value], b: Builder, make: Make) -> list[Value]:
    """The results, with what ``make`` gives in place of values. Cats of equal elements become one."""
    new: dict[Value, Value] = {}
    cats = _Cats(b)
    for v in order:
        b.instr = v.instr
        made = make(v, new, cats)
        if made is None:
            srcs = tuple([new[s] for s in v.srcs])
            made = v if srcs == v.srcs else b.make(v.op, srcs, v.params, v.shape, v.dtype)
        new[v] = cats.meet(made) if made.op == "cat" else made
    return [new[r] for r in results]


# joined operands


class _Cats:
    """Operands side by side; parts that stand side by side somewhere already are found there."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.known: dict[tuple[Value, ...], Value] = {}

    def meet(self, v: Value) -> Value:
        """A ``cat``: itself, or an earlier one with the same elements in the same order."""
        if any([n != 1 for n in v.shape[: v.params]]):
            return v
        return self.b.reshape(self.known.setdefault(tuple(map(_bare, v.srcs)), v), v.shape)

    def joined(self, parts: Sequence[Value], dim: int) -> Value:
        """Matrices [1, rows, columns] along ``dim``; transposed ones are joined as what they are a transpose of."""
        turned = [_turned(self.b, x) for x in parts]
        straight = [x for x in turned if x is not None]
        if len(straight) == len(parts):
            return self.b.permute(self._side_by_side(straight, 3 - dim), (0, 2, 1))
        return self._side_by_side(parts, dim)

    def _side_by_side(self, parts: Sequence[Value], dim: int) -> Value:
        return self._rows(parts) if dim == 1 else self.b.cat(parts, 2)

    def _rows(self, parts: Sequence[Value]) -> Value:
        """Matrices with equal columns below each other."""
        b, columns = self.b, parts[0].shape[2]
        rows = sum([x.shape[1] for x in parts])
        found = _stretch_of_all(parts)
        if found is not None:
            source, start = found
            flat = b.reshape(source, (math.prod(source.shape),))
            return b.reshape(b.slice(flat, (start,), (start + rows * columns,), (1,)), (1, rows, columns))
        flat = self.meet(b.cat([b.reshape(_bare(x), x.shape[1:]) for x in parts], 0))
        return b.reshape(flat, (1, rows, columns))


def _bare(v: Value) -> Value:
    while v.op == "reshape":
        v = v.srcs[0]
    return v


def _turned(b: Builder, x: Value) -> Value | None:
    """The transpose of ``x``, [1, rows, columns], if ``x`` is a transposed view."""
    _, rows, columns = x.shape
    if x.op == "permute" and x.params == (0, 2, 1):
        return x.srcs[0]
    if x.op == "reshape" and x.srcs[0].op == "permute" and x.srcs[0].shape == (rows, columns):
        return b.reshape(x.srcs[0].srcs[0], (1, columns, rows))
    return None


def _stretch(v: Value) -> tuple[Value, int]:
    """(source, start): the elements of ``v`` are those of ``source`` from ``start`` on, both in row-major order."""
    start = 0
    while v.op == "reshape" or (v.op == "slice" and _is_stretch(v)):
        if v.op == "slice":
            at = 0
            for first, extent in zip(v.params[0], v.srcs[0].shape, strict=True):
                at = at * extent + first
            start += at
        v = v.srcs[0]
    return v, start


def _is_stretch(v: Value) -> bool:
    """Whether a slice leaves out nothing between its first and its last element."""
    whole, steps = v.srcs[0].shape, v.params[1]
    cut = next((d for d, n in enumerate(v.shape) if n != 1), len(whole))
    return all([step == 1 for step in steps]) and v.shape[cut + 1 :] == whole[cut + 1 :]


def _stretch_of_all(parts: Sequence[Value]) -> tuple[Value, int] | None:
    """(source, start), if the parts lie one after the other."""
    source, first = _stretch(parts[0])
    at = first
    for x in parts:
        if _stretch(x) != (source, at):
            return None
        at += math.prod(x.shape)
    return source, first


def _position(v: Value) -> tuple[int, int]:
    """When ``v`` was recorded, transposed or not; for parts of one value, where they are in it."""
    source, start = _stretch(v)
    while source.op == "permute":
        source, start = _stretch(source.srcs[0])
    return source.instr, start


# long products


class _Sum(NamedTuple):
    """What an addition adds up, through additions that nobody else reads.

    Attributes:
        terms: in the order of the additions.
        families: products that can be joined, by their places among the terms, and how each becomes its term.
    """

    terms: list[Value]
    families: dict[Chain, dict[int, Value]]


def _join_sums(results: Sequence[Value], b: Builder, applied: Counter[str]) -> list[Value]:
    """Sums of products as long products, where that moves less memory than the partial sums."""
    order = order_of(results, b)
    sums = _sums(order, results)
    if not sums:
        return list(results)

    def make(v: Value, new: dict[Value, Value], cats: _Cats) -> Value | None:
        if v not in sums:
            return None
        terms = {i: new[term] for i, term in enumerate(sums[v].terms)}
        for chain, products in sums[v].families.items():
            first, *rest = products
            terms[first] = _long_product(b, cats, list(products.values()), chain, new)
            for i in rest:
                del terms[i]
            applied[LONG] += len(products)
        return functools.reduce(b.add, terms.values())

    return _rebuilt(results, order, b, make)


def _sums(order: Sequence[Value], results: Sequence[Value]) -> dict[Value, _Sum]:
    """The additions that have products to join."""
    readers = Counter([s for v in order for s in v.srcs])
    readers.update(results)
    shared = _shared_operands(order)
    found: dict[Value, _Sum] = {}
    inside: set[Value] = set()
    for v in reversed(order):
        if v.op == "add" and v not in inside and v.dtype.category is FLOATING:
            terms = _terms(v, readers, inside)
            families = _families(terms, readers, shared)
            if families:
                found[v] = _Sum(terms, families)
    return found


def _terms(total: Value, readers: Counter[Value], inside: set[Value]) -> list[Value]:
    """What ``total`` adds up; ``inside`` gets the additions on the way."""
    terms: list[Value] = []
    waiting = list(reversed(total.srcs))
    while waiting:
        v = waiting.pop()
        if v.op == "add" and readers[v] == 1:
            inside.add(v)
            waiting += reversed(v.srcs)
        else:
            terms.append(v)
    return terms


def _families(
    terms: Sequence[Value], readers: Counter[Value], shared: Container[Value]
) -> dict[Chain, dict[int, Value]]:
    """Products of one shape that nobody else reads and that become their terms by the same movements.

    Not those by one of the ``shared`` operands, which may become tall products.
    """
    found: dict[Chain, dict[int, Value]] = {}
    for i, v in enumerate(terms):
        chain: list[tuple[str, object, tuple[int, ...]]] = []
        while v.op in ("reshape", "permute") and readers[v] == 1:
            chain.append((v.op, v.params, v.shape))
            v = v.srcs[0]
        if readers[v] == 1 and is_plain(v) and _is_short(v) and v.srcs[1] not in shared:
            found.setdefault((*chain, ("matmul", v.dtype, v.shape)), {})[i] = v
    return {chain: products for chain, products in found.items() if len(products) > 1}


@advice
def _is_short(product: Value) -> bool:
    """Whether its operands have no more elements than its result, a partial sum that is written and read."""
    (_, m, k), n = product.srcs[0].shape, product.shape[2]
    return k * (m + n) <= m * n


def _long_product(b: Builder, cats: _Cats, products: list[Value], chain: Chain, new: dict[Value, Value]) -> Value:
    """The sum of the products, after the movements of ``chain``."""
    products.sort(key=lambda p: min(map(_position, p.srcs)))
    *moves, (_, _, shape) = chain
    left, right = (cats.joined([new[p.srcs[i]] for p in products], 2 - i) for i in range(2))
    out = b.make("matmul", (left, right), (), shape, products[0].dtype)
    for op, params, moved in reversed(moves):
        out = b.make(op, (out,), params, moved, out.dtype)
    return out


# tall products


@advice
def _has_few_rows(product: Value) -> bool:
    """Whether to move its rows costs less than to read its right operand once more."""
    (_, m, k), n = product.srcs[0].shape, product.shape[2]
    return m * (k + n) <= k * n


def _shared_operands(order: Sequence[Value]) -> dict[Value, None]:
    """Right operands of several products of few rows."""
    counts = Counter([v.srcs[1] for v in order if is_plain(v) and _has_few_rows(v)])
    return {right: None for right, count in counts.items() if count > 1}


def _depths(order: Sequence[Value], right: Value) -> dict[int, list[Value]]:
    """The products by ``right`` with few rows, by how many of them are on the longest way to each.

    On every way the number grows, and by one at each of them. So products of one depth do not need each other; and if
    those of each depth become one, nothing waits for itself.
    """
    depth: dict[Value, int] = {}
    found: dict[int, list[Value]] = {}
    for v in order:
        here = max([depth[s] for s in v.srcs], default=0)
        if v.op == "matmul" and v.srcs[1] is right and is_plain(v) and _has_few_rows(v):
            found.setdefault(here, []).append(v)
            here += 1
        depth[v] = here
    return found


def _sorted(group: Sequence[Value], known: dict[frozenset[Value], tuple[Value, ...]]) -> list[Value]:
    """Products in the order of their left operands in a ``cat`` that there is, or else as they were recorded."""
    by_left = {_bare(p.srcs[0]): p for p in group}
    order = known.get(frozenset(by_left), ())
    if len(order) == len(group) == len(by_left):
        return [by_left[x] for x in order]
    return sorted(group, key=lambda p: _position(p.srcs[0]))


def _join_rows(results: Sequence[Value], b: Builder, right: Value, applied: Counter[str]) -> list[Value]:
    """Products by ``right`` as tall products and their slices."""
    order = order_of(results, b)
    cats = [tuple(map(_bare, v.srcs)) for v in order if v.op == "cat"]
    known = {frozenset(parts): parts for parts in cats}
    groups = [_sorted(group, known) for group in _depths(order, right).values() if len(group) > 1]
    if not groups:
        return list(results)
    applied[TALL] += sum(map(len, groups))
    group_of = {p: group for group in groups for p in group}
    needs: dict[Value, tuple[Value, ...]] = {}
    for group in groups:
        needs.update(dict.fromkeys(group, (right, *[p.srcs[0] for p in group])))
    slices: dict[Value, Value] = {}

    def make(v: Value, new: dict[Value, Value], cats: _Cats) -> Value | None:
        if v in group_of and v not in slices:
            slices.update(_tall_product(b, cats, group_of[v], new))
        return slices.get(v)

    return _rebuilt(results, topological(results, needs), b, make)


def _tall_product(b: Builder, cats: _Cats, group: Sequence[Value], new: dict[Value, Value]) -> dict[Value, Value]:
    """Each product of the group as a slice of one."""
    left, right = cats.joined([new[p.srcs[0]] for p in group], 1), new[group[0].srcs[1]]
    rows, columns = left.shape[1], right.shape[2]
    tall = b.make("matmul", (left, right), (), (1, rows, columns), left.dtype)
    found: dict[Value, Value] = {}
    start = 0
    for p in group:
        stop = start + p.shape[1]
        found[p] = b.slice(tall, (0, start, 0), (1, stop, columns), (1, 1, 1))
        start = stop
    return found
