"""Functions of scalars in SSA form: what is read from LLVM IR, differentiated, and printed into kernels.

Owns: ``Term``, ``Block``, ``Routine``, ``NotScalar``, and what the maths functions are called.
Must not know: LLVM's library, Numba, kernels, tensors.

# Note [Scalar functions]
# ~~~~~~~~~~~~~~~~~~~~~~~
# ``@jitgrad.vectorize`` has Numba compile a Python function of scalars. ``clean`` has LLVM inline everything,
# ``reader`` turns the text into a ``Routine``, ``differentiate`` adds a tangent for every instruction that moves with
# an input, ``lanes`` prints it for all lanes of a vector at once, and a kernel calls that. Opcodes, types and
# comparisons have LLVM's names; "call" stands for a maths function only, by its name in C. All memory, Python objects
# and exceptions are gone: what is left of them is refused by the reader. A loop in a formula of ``ops``, an
# ``Iteration``, becomes such a function without Numba: ``iterations`` makes its blocks.
# Example: ``x * x if x > 0 else -x`` is
#   entry: %0 = fcmp ogt double %x, 0   %1 = fmul double %x, %x   %2 = fneg double %x   %3 = select i1 %0, %1, %2
# and its tangent adds  %4 = fadd double %x, %x (of x * x)   %5 = select i1 %0, %4, -1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["CASTS", "FLOATS", "INTRINSICS", "MATHS", "Block", "NotScalar", "Routine", "Term"]

FLOATS = frozenset({"double", "float"})
CASTS = frozenset("sitofp uitofp fptosi fptoui fpext fptrunc sext zext trunc".split())

MATHS: dict[str, int] = {
    **dict.fromkeys(
        "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
        "erf erfc lgamma tgamma digamma trigamma cbrt fabs floor ceil trunc round rint".split(),
        1,
    ),
    **dict.fromkeys("pow atan2 copysign hypot fmod minnum maxnum minimum maximum powi".split(), 2),
    "fma": 3,
}
"""Functions of floats -> number of operands. ``powi`` takes an i32 as its second, ``rint`` rounds half to even."""

INTRINSICS = {"smax": 2, "smin": 2, "umax": 2, "umin": 2, "abs": 1, "ctpop": 1}
"""LLVM's functions of integers."""


class NotScalar(Exception):
    """What a function of scalars may not do.

    Attributes:
        needle: the symbol or instruction of LLVM's text that stands for it, by which its line is found; "" if none.
    """

    def __init__(self, reason: str, needle: str = "") -> None:
        super().__init__(reason)
        self.needle = needle


class Term:
    """A value: a parameter, a constant, or an instruction.

    Attributes:
        op: "param", "const", "phi", "call", or LLVM's opcode.
        type: LLVM's scalar type.
        args: operands; of a phi one per entry of ``extra``.
        extra: param: its number; const: the Python number; phi: the blocks that it comes from; fcmp, icmp: the
            predicate; call: a name of ``MATHS`` or ``INTRINSICS``.
    """

    __slots__ = ("args", "extra", "op", "type")

    def __init__(self, op: str, type: str, args: Iterable[Term] = (), extra: Any = None) -> None:
        self.op, self.type, self.args, self.extra = op, type, list(args), extra

    @property
    def is_float(self) -> bool:
        return self.type in FLOATS

    def __repr__(self) -> str:
        return f"{self.op}:{self.type}({self.extra})"


class Block:
    """A stretch of instructions without a branch.

    Attributes:
        name: its label.
        nodes: phis first.
        condition: of the branch at its end; None = always to the first target, or the end.
        targets: where it goes: one block, two (condition true, false), or none: the function ends.
    """

    __slots__ = ("condition", "name", "nodes", "targets")

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Term] = []
        self.condition: Term | None = None
        self.targets: list[Block] = []

    @property
    def phis(self) -> list[Term]:
        return [node for node in self.nodes if node.op == "phi"]

    def __repr__(self) -> str:
        return f"Block({self.name})"


class Routine:
    """A function of scalars without effects.

    Attributes:
        params: one ``Term`` each; double, i64, or i1.
        blocks: the entry first.
        results: values that the one block without targets ends with; all double.
    """

    __slots__ = ("blocks", "params", "results")

    def __init__(self, params: list[Term], blocks: list[Block], results: list[Term]) -> None:
        self.params, self.blocks, self.results = params, blocks, results

    def predecessors(self) -> dict[Block, list[Block]]:
        found: dict[Block, list[Block]] = {block: [] for block in self.blocks}
        for block in self.blocks:
            for target in dict.fromkeys(block.targets):
                found[target].append(block)
        return found

    def reverse_postorder(self) -> list[Block]:
        """Every block that can be reached, each after those before it, but for the edges back to a loop's head."""
        seen, order = {self.blocks[0]}, []
        stack = [(self.blocks[0], iter(self.blocks[0].targets))]
        while stack:
            block, rest = stack[-1]
            following = next((t for t in rest if t not in seen), None)
            if following is None:
                order.append(block)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(following.targets)))
        return order[::-1]
