"""Roots: the values that are stored to memory or end a loop. All other values are computed where they are read.

Owns: ``Root``, ``make_roots``: which values are computed once and which are recomputed by each reader.
Must not know: how roots are grouped, index maps, LLVM.
In: values in topological order. Out: roots in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.codegen.primitives.builder import POINTWISE, SCATTERS, Value, memory_of
from jitgrad.codegen.primitives.cost import op_cost

__all__ = ["Destination", "Root", "make_roots", "squeezed"]

_STORE_SHARED = 8  # a value with several readers is stored once from this cost on
_STORE_EXPANDED = 4  # a value that is broadcast is stored once from this cost on
_STORE_CHAIN = 200  # no kernel's expression grows beyond this
_MOVEMENT = frozenset({"expand", "reshape", "permute", "slice", "panels"})
_ALWAYS = frozenset({"matmul", "cat", "copy", "routine", "routine_part"}) | SCATTERS

_REDUCTIONS = ("reduce_", "partial_")
_OWN_KINDS = frozenset({"matmul", "cat", "routine", "routine_part"})


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without the extents of 1."""
    return tuple(n for n in shape if n != 1)


@dataclass(slots=True, eq=False)
class Destination:
    """A place where a root's value is stored: strides and offset in elements, over the value's own shape."""

    buffer: Any
    strides: tuple[int, ...]
    offset: int


@dataclass(slots=True, eq=False)
class Root:
    """One root of a kernel.

    Attributes:
        value: what it computes.
        kind: "map", "reduce", "matmul", "scatter", "routine", "routine_part" (the routine's kernel computes it) or
            "cat" (no kernel: its parts are stored into it).
        source: the value whose elements the loop visits (``value`` itself, or the operand of its reduction).
        reduce: the reduced dims of ``source``; None for the other kinds.
        deps: the stored values and inputs it reads.
        domain: the extents of the loop over ``source``, without those of 1.
        reduced: the reduced dims of ``domain``; None for the other kinds.
        destinations: where it must be stored, besides its readers within the group.
        group: the kernel it ended up in.
        views: of a matrix product or a routine: where its operands are in memory, once somebody has asked.
    """

    value: Value
    kind: str
    source: Value
    reduce: tuple[int, ...] | None
    deps: tuple[Value, ...]
    domain: tuple[int, ...] = ()
    reduced: frozenset[int] | None = None
    destinations: list[Destination] = field(default_factory=list)
    group: Any = None
    views: Any = None

    def __post_init__(self) -> None:
        shape = self.source.shape
        self.domain = squeezed(shape) if 1 in shape else shape
        if self.reduce is not None:
            real = [d for d, n in enumerate(shape) if n != 1]
            self.reduced = frozenset([i for i, d in enumerate(real) if d in self.reduce])


def _base(v: Value) -> Value:
    """The value under its movements."""
    while v.op in _MOVEMENT:
        v = v.srcs[0]
    return v


def _forced(order: Sequence[Value]) -> set[Value]:
    """Values whose readers need an address: operands of products and of routines, and tables of gathers."""
    forced: set[Value] = set()
    for v in order:
        if v.op == "matmul":
            forced.update(_base(s) for s in v.srcs if s.op != "windows")
        elif v.op == "routine":
            forced.update(map(_base, v.srcs))
        elif v.op == "windows":
            forced.add(memory_of(v))
        elif v.op == "gather":
            forced.add(v.srcs[0])
    return {v for v in forced if v.op != "input"}


def stored_values(order: Sequence[Value], results: Iterable[Value]) -> dict[Value, None]:
    """Which values become roots, in topological order. See the constants above for the trade-off."""
    forced = _forced(order)
    results = set(results)
    readers: dict[Value, int] = {}
    expanded: set[Value] = set()
    for v in order:
        if v.op == "reshape":
            continue
        for s in set(v.srcs) if len(v.srcs) > 1 else v.srcs:
            source = s
            while source.op == "reshape":  # its readers read what it reshapes
                source = source.srcs[0]
            readers[source] = readers.get(source, 0) + 1
        if v.op == "expand" and len(squeezed(v.srcs[0].shape)):
            expanded.add(_base(v))
    cost: dict[Value, int] = {}
    stored: dict[Value, None] = {}
    for v in order:
        op = v.op
        c = op_cost(op)
        for s in v.srcs:
            c += cost[s]
        if op in POINTWISE or op == "update" or op == "call":
            own = c >= (_STORE_SHARED if readers.get(v, 0) > 1 else _STORE_EXPANDED if v in expanded else _STORE_CHAIN)
        else:
            own = op in _ALWAYS or op.startswith(_REDUCTIONS)
        if op != "input" and (own or v in forced or v in results):
            stored[v] = None
            c = 0
        cost[v] = c
    return stored


def _dependencies(order: Sequence[Value], stored: dict[Value, None]) -> dict[Value, tuple[Value, ...]]:
    """Per value, the stored values and inputs that computing it reads."""
    deps: dict[Value, tuple[Value, ...]] = {}
    for v in order:
        found: dict[Value, None] = {}
        for s in v.srcs:
            if s in stored or s.op == "input":
                found[s] = None
            else:
                found.update(dict.fromkeys(deps[s]))
        deps[v] = tuple(found) if v.op != "input" else ()
    return deps


def make_roots(order: Sequence[Value], results: Iterable[Value]) -> dict[Value, Root]:
    """One root per stored value, in topological order. ``results`` must not be inputs (copy them)."""
    stored = stored_values(order, results)
    deps = _dependencies(order, stored)
    return {v: _root(v, deps[v]) for v in stored}


def _root(v: Value, deps: tuple[Value, ...]) -> Root:
    if v.op.startswith("reduce_"):
        return Root(v, "reduce", v.srcs[0], v.params, deps)
    if v.op.startswith("partial_"):
        return Root(v, "reduce", v.srcs[0], v.params[0], deps)
    if v.op in SCATTERS:
        return Root(v, "scatter", v.srcs[1], None, deps)
    return Root(v, v.op if v.op in _OWN_KINDS else "map", v, None, deps)
