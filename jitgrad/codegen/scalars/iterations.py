"""Loops of formulas as functions of scalars.

Owns: ``iteration_function``.
Must not know: kernels, any formula.
In: an ``Iteration``. Out: the ``ScalarFunction`` whose results are its last state.

The loop's functions run once, over a builder that makes a ``Term`` of each primitive: blocks are the entry, the header
with the counter and the state as phis, the turn, and the end.
"""

from __future__ import annotations

import functools
from typing import Any

from jitgrad.codegen.scalars.family import ScalarFunction, scalar_function
from jitgrad.codegen.scalars.printer import print_scalar
from jitgrad.codegen.scalars.ssa import Block, Routine, Term
from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.iterations import Iteration

__all__ = ["iteration_function"]

_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_LOGIC = {"and_": "and", "or_": "or"}
_CALLS = {"abs": "fabs", "exp": "exp", "log": "log", "sqrt": "sqrt", "pow": "pow", "floor": "floor"}


@functools.lru_cache(maxsize=256)
def iteration_function(iteration: Iteration, count: int) -> ScalarFunction:
    """The function of so many arguments; one object per iteration."""
    params = [Term("param", "double", (), n) for n in range(count)]
    blocks = [Block(name) for name in ("entry", "header", "turn", "end")]
    entry, header, turn, end = blocks
    b = _Terms(entry)
    arguments = tuple([Expression(b, p) for p in params])
    begin = [b.term(x) for x in iteration.start(arguments)]
    counter = Term("phi", "i64", [_integer(0)], [entry, turn])
    phis = [Term("phi", "double", [x], [entry, turn]) for x in begin]
    state = tuple([Expression(b, p) for p in phis])
    header.nodes += [counter, *phis]
    b.block = header
    is_left = b.make("icmp", "i1", counter, _integer(iteration.most), extra="slt")
    k = Expression(b, b.make("sitofp", "double", counter))
    header.condition = b.make("and", "i1", is_left, b.term(iteration.goes_on(k, arguments, state)))
    b.block = turn
    after = [b.term(x) for x in iteration.step(k, arguments, state)]
    counter.args.append(b.make("add", "i64", counter, _integer(1)))
    for phi, x in zip(phis, after, strict=True):
        phi.args.append(x)
    entry.targets, header.targets, turn.targets = [header], [turn, end], [header]
    return scalar_function(iteration.name, print_scalar(Routine(params, blocks, list(phis))))


def _integer(value: int) -> Term:
    return Term("const", "i64", (), value)


class _Terms:
    """The primitives of an iteration, as terms at the end of a block.

    Attributes:
        block: where terms are put.
    """

    def __init__(self, block: Block) -> None:
        self.block = block

    def make(self, op: str, kind: str, *args: Term, extra: Any = None) -> Term:
        made = Term(op, kind, args, extra)
        self.block.nodes.append(made)
        return made

    def term(self, x: Any) -> Term:
        """Of an expression, a term or a Python number."""
        value = x.value if type(x) is Expression else x
        return value if type(value) is Term else Term("const", "double", (), float(value))

    def __getattr__(self, name: str) -> Any:
        """``b.add(x, 1.0)``: the primitive of that name."""
        kind, table = next(((k, t) for k, t in _TABLES if name in t), ("", {}))
        if not kind:
            raise AttributeError(name)

        def primitive(*operands: Any) -> Term:
            args = [self.term(x) for x in operands]
            if table is _COMPARISONS:
                return self.make("fcmp", kind, *args, extra=table[name])
            if table is _CALLS:
                return self.make("call", kind, *args, extra=table[name])
            return self.make(table[name], kind, *args)

        return primitive

    def neg(self, x: Any) -> Term:
        return self.make("fneg", "double", self.term(x))

    def where(self, condition: Any, yes: Any, no: Any) -> Term:
        chosen = self.term(yes)
        return self.make("select", chosen.type, self.term(condition), chosen, self.term(no))


_TABLES = (("double", _ARITHMETIC), ("i1", _COMPARISONS), ("i1", _LOGIC), ("double", _CALLS))
"""(Type of the result, names of primitives -> LLVM's, or C's)."""
