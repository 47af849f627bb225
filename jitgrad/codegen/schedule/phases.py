"""Phases: which instructions each pass over a row must do.

Owns: ``Phase``, ``split_phases``: dependencies between reductions and their readers, what is kept from pass to pass.
Must not know: LLVM text.
In: instructions with the dims that they depend on. Out: one ``Phase`` per pass.

# Note [Phases]
# ~~~~~~~~~~~~~
# A unit passes over its row once per reduction that depends on another one, and once more for what depends on the last.
# A value that several passes need is computed again in each, which is cheaper than memory traffic; but what is
# expensive (exp, strided lanes) is kept in a buffer on the stack, one row long, if the row is short enough.
# Example: softmax has three passes: the maximum, the sum of exp(x - maximum), the quotients. exp is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jitgrad.codegen.primitives.cost import EXPENSIVE
from jitgrad.codegen.schedule.kernel_ir import EFFECTS, KernelInstr, NestKey

__all__ = ["Phase", "Phases", "is_reduce", "split_phases"]

_KEEP_FROM = 10  # an instruction of this cost is kept rather than done again
_MOST_KEPT = 3


@dataclass(slots=True)
class Phase:
    """One pass over a row.

    Attributes:
        reduces: the reductions it accumulates.
        elems: the elementwise instructions it does, in order.
        keep: those of ``elems`` whose values are put into the row buffers.
        recall: those of ``elems`` that come from there.
    """

    reduces: list[int]
    elems: list[int]
    keep: set[int] = field(default_factory=set)
    recall: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Phases:
    """All passes.

    Attributes:
        of: per instruction, the first pass before (or in) which it can be done.
        is_elem: per instruction, whether it is done inside the loops.
        passes: one per phase number.
        kept: instructions that have a row buffer.
    """

    of: list[int]
    is_elem: list[bool]
    passes: list[Phase]
    kept: list[int]


def is_reduce(instr: KernelInstr) -> bool:
    return instr.op.startswith("reduce_")


def split_phases(key: NestKey, deps: Sequence[int], inner: int) -> Phases:
    """Sort a kernel's instructions into passes.

    Args:
        key: the kernel.
        deps: per instruction, the dims it depends on, as bits.
        inner: the bits of the dims that a unit loops over.
    """
    instrs = key.instrs
    of = _numbers(instrs)
    is_elem = [not is_reduce(instr) and bool(deps[n] & inner) for n, instr in enumerate(instrs)]
    count = max(of, default=0) + 1
    ends = [_ends(instrs, of, is_elem, number) for number in range(count)]
    plain = [_closure(instrs, is_elem, r, frozenset()) for r in ends]
    kept = _worth_keeping(key, plain) if key.row_buffer else []
    passes: list[Phase] = []
    filled: set[int] = set()
    for number in range(count):
        elems = _closure(instrs, is_elem, ends[number], filled)
        reduces = [n for n, instr in enumerate(instrs) if is_reduce(instr) and of[n] == number + 1]
        keep = {n for n in elems if n in kept and n not in filled}
        passes.append(Phase(reduces, sorted(elems), keep, elems & filled))
        filled |= keep
    return Phases(of, is_elem, passes, kept)


def _numbers(instrs: Sequence[KernelInstr]) -> list[int]:
    of: list[int] = []
    for instr in instrs:
        own = max((of[s] for s in instr.srcs), default=0)
        of.append(own + 1 if is_reduce(instr) else own)
    last = max(of, default=0)
    # a store to a buffer that the kernel also reads is done in the last pass
    is_last = [instr.op == "store" and isinstance(instr.static, tuple) for instr in instrs]
    return [last if waits else n for waits, n in zip(is_last, of, strict=True)]


def _ends(instrs: Sequence[KernelInstr], of: list[int], is_elem: list[bool], number: int) -> list[int]:
    """What a pass is done for: its effects, and the sources of its reductions."""
    effects = [n for n, instr in enumerate(instrs) if instr.op in EFFECTS and is_elem[n] and of[n] == number]
    reductions = [instr for n, instr in enumerate(instrs) if is_reduce(instr) and of[n] == number + 1]
    return effects + [s for instr in reductions for s in instr.srcs]


def _closure(
    instrs: Sequence[KernelInstr], is_elem: list[bool], ends: list[int], filled: set[int] | frozenset[int]
) -> set[int]:
    """The elementwise instructions that ``ends`` need, stopping at those whose values are kept."""
    needed: set[int] = set()
    stack = list(ends)
    while stack:
        n = stack.pop()
        if n not in needed and is_elem[n]:
            needed.add(n)
            if n not in filled:
                stack.extend(instrs[n].srcs)
    return needed


def _worth_keeping(key: NestKey, passes: list[set[int]]) -> list[int]:
    """The expensive instructions of several passes; of two in one chain the later one."""
    found = []
    for n, instr in enumerate(key.instrs):
        strided = instr.op == "load" and isinstance(instr.static, str) and instr.static[key.vec] == "x"
        dear = strided or EXPENSIVE.get(instr.op, 0) >= _KEEP_FROM or instr.op == "gather"
        if dear and instr.dtype != "bool" and sum(n in p for p in passes) > 1:
            found.append(n)
    return found[-_MOST_KEPT:]
