"""The loops of a function of scalars, nested, in the order in which lanes go through them.

Owns: ``Loop``, ``nested``.
Must not know: how anything is printed.
In: a ``Routine``. Out: blocks and loops in an order in which each stands behind all that leads to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jitgrad.codegen.scalars.ssa import Block, NotScalar, Routine, Term

__all__ = ["Loop", "is_counted", "nested"]


@dataclass(slots=True, eq=False)
class Loop:
    """A loop with one way in.

    Attributes:
        header: its first block.
        blocks: all of its blocks, also those of loops inside.
        items: the header, then blocks and inner loops, in order.
        exits: the edges that leave it, as (from, to).
    """

    header: Block
    blocks: set[Block]
    items: list[Block | Loop] = field(default_factory=list)
    exits: list[tuple[Block, Block]] = field(default_factory=list)


def nested(function: Routine) -> list[Block | Loop]:
    """The function's blocks and outermost loops.

    Raises:
        NotScalar: a loop has two ways in.
    """
    order = function.reverse_postorder()
    loops = _find(function, order)
    for loop in loops:
        loop.exits = [
            (b, t) for b in order if b in loop.blocks for t in dict.fromkeys(b.targets) if t not in loop.blocks
        ]
    top: list[Block | Loop] = []
    placed: set[Loop] = set()
    for block in order:
        _place(block, loops, top, placed)
    return top


def _place(block: Block, loops: list[Loop], top: list[Block | Loop], placed: set[Loop]) -> None:
    around = sorted((loop for loop in loops if block in loop.blocks), key=lambda loop: -len(loop.blocks))
    items = top
    for loop in around:
        if loop not in placed:
            placed.add(loop)
            items.append(loop)
        items = loop.items
    items.append(block)


def _dominators(function: Routine, order: list[Block]) -> dict[Block, set[Block]]:
    before = function.predecessors()
    every = set(order)
    found = {block: every for block in order}
    found[order[0]] = {order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new = set.intersection(*(found[p] for p in before[block] if p in every)) | {block}
            if new != found[block]:
                found[block] = new
                changed = True
    return found


def _find(function: Routine, order: list[Block]) -> list[Loop]:
    dominators, place = _dominators(function, order), {block: n for n, block in enumerate(order)}
    before = function.predecessors()
    loops: dict[Block, Loop] = {}
    for block in order:
        for header in block.targets:
            if place[header] > place[block]:
                continue
            if header not in dominators[block]:
                raise NotScalar("has a loop with two ways in")
            loop = loops.setdefault(header, Loop(header, {header}))
            waiting = [block]
            while waiting:
                at = waiting.pop()
                if at not in loop.blocks:
                    loop.blocks.add(at)
                    waiting += before[at]
    return list(loops.values())


def is_counted(loop: Loop) -> bool:
    """Whether a counter that moves by a constant ends it, as in ``for i in range(n)``."""
    counters = {
        phi for phi in loop.header.phis if not phi.is_float and any(_moves_by_constant(phi, a) for a in phi.args)
    }
    steps = {a for phi in counters for a in phi.args if _moves_by_constant(phi, a)}
    conditions = [block.condition for block, _ in loop.exits if block.condition is not None]
    return any(_compares(condition, counters | steps) for condition in conditions)


def _moves_by_constant(phi: Term, after: Term) -> bool:
    if after.op == "phi" and after is not phi:  # a phi of one edge, which carries it out of an inner loop
        return len(after.args) == 1 and _moves_by_constant(phi, after.args[0])
    constant = after.op in ("add", "sub") and after.args[1].op == "const" and after.args[1].extra != 0
    return constant and after.args[0] is phi


def _compares(condition: Term, counters: set[Term]) -> bool:
    """Whether the condition is a comparison of a counter, or begins with one: ``and``, ``or``, ``select`` of i1."""
    if condition.op == "icmp":
        return not counters.isdisjoint(condition.args)
    return condition.op in ("and", "or", "select") and any(_compares(a, counters) for a in condition.args)
