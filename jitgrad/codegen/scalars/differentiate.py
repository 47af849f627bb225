"""Derivatives of functions of scalars: a tangent beside every instruction that moves with an input.

Owns: ``differentiated``.
Must not know: the partial derivatives of single instructions (``tangents``), how functions are printed.
In: a ``Routine`` and the inputs to differentiate by. Out: a ``Routine`` with more results.

Control flow stays as it is: the derivative follows the branch that was taken, and a loop's tangent is carried by a phi
beside each phi. So the derivative of Newton's iteration is the derivative of what it computes, one iteration behind the
value; of a bisection it is zero, since what it compares does not move its result.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.codegen.scalars.ssa import CASTS, Block, NotScalar, Routine, Term
from jitgrad.codegen.scalars.tangents import CONSTANT, PARTIALS, Pen

__all__ = ["differentiated"]

_TO_INTEGER = frozenset({"fptosi", "fptoui", "fcmp"})
_ROUNDS = frozenset({"fpext", "fptrunc"})


def differentiated(function: Routine, inputs: Sequence[int]) -> Routine:
    """``function`` with its results followed, result by result, by their derivatives by each of ``inputs``.

    Raises:
        NotScalar: some instruction on the way has no derivative.
    """
    return _Differentiator(function, tuple(inputs)).run()


class _Differentiator:
    def __init__(self, function: Routine, inputs: tuple[int, ...]) -> None:
        self.function, self.inputs = function, inputs
        self.copies: dict[Term, Term] = {}
        self.blocks = {block: Block(block.name) for block in function.blocks}
        self.tangents: dict[tuple[Term, int], Term] = {}
        self.moves = self._activity()

    def _activity(self) -> dict[Term, int]:
        """Per value, the inputs that it moves with, as bits; the least solution over all loops."""
        moves = {p: 1 << self.inputs.index(n) for n, p in enumerate(self.function.params) if n in self.inputs}
        changed = True
        while changed:
            changed = False
            for block in self.function.blocks:
                for node in block.nodes:
                    bits = _own_activity(node, moves)
                    if bits != moves.get(node, 0):
                        moves[node] = bits
                        changed = True
        return moves

    def run(self) -> Routine:
        function = self.function
        params = [Term("param", p.type, (), p.extra) for p in function.params]
        self.copies.update(zip(function.params, params, strict=True))
        for number, i in enumerate(self.inputs):
            self.tangents[params[i], number] = Term("const", "double", (), 1.0)
        for block in function.blocks:
            self._block(block)
        for block in function.blocks:
            self._fill_phis(block)
        results = [self._copy(r) for r in function.results]
        for r in function.results:
            for number in range(len(self.inputs)):
                results.append(self.tangents.get((self._copy(r), number)) or Term("const", "double", (), 0.0))
        return Routine(params, list(self.blocks.values()), results)

    def _copy(self, node: Term) -> Term:
        return node if node.op == "const" else self.copies[node]

    def _block(self, block: Block) -> None:
        new = self.blocks[block]
        new.targets = [self.blocks[t] for t in block.targets]
        for phi in block.phis:
            self.copies[phi] = copy = Term("phi", phi.type, (), [self.blocks[b] for b in phi.extra])
            new.nodes.append(copy)
            for number in self._numbers(phi):
                self.tangents[copy, number] = tangent = Term("phi", phi.type, (), copy.extra)
                new.nodes.append(tangent)
        pen = Pen(new.nodes)
        for node in block.nodes:
            if node.op != "phi":
                copy = pen.write(node.op, node.type, [self._copy(a) for a in node.args], node.extra)
                self.copies[node] = copy
                if self.moves.get(node, 0):
                    self._tangents(pen, node, copy)
        new.condition = None if block.condition is None else self._copy(block.condition)

    def _fill_phis(self, block: Block) -> None:
        for phi in block.phis:
            copy = self.copies[phi]
            copy.args = [self._copy(a) for a in phi.args]
            for number in self._numbers(phi):
                self.tangents[copy, number].args = [self._tangent(a, number) for a in copy.args]

    def _numbers(self, node: Term) -> list[int]:
        bits = self.moves.get(node, 0)
        return [n for n in range(len(self.inputs)) if bits >> n & 1]

    def _tangent(self, copy: Term, number: int) -> Term:
        return self.tangents.get((copy, number)) or Term("const", copy.type, (), 0.0)

    def _tangents(self, pen: Pen, node: Term, copy: Term) -> None:
        if node.op == "select":
            for number in self._numbers(node):
                parts = [self._tangent(a, number) for a in copy.args[1:]]
                self.tangents[copy, number] = pen.write("select", copy.type, [copy.args[0], *parts])
            return
        if node.op in _ROUNDS or node.op == "freeze":
            for number in self._numbers(node):
                self.tangents[copy, number] = pen.write(node.op, copy.type, [self._tangent(copy.args[0], number)])
            return
        partials = PARTIALS[_key(node)](copy)
        written: dict[int, Term] = {}
        for number in self._numbers(node):
            total: Term | None = None
            for k, arg in enumerate(copy.args):
                tangent = self.tangents.get((arg, number))
                if tangent is None:
                    continue
                if k not in written:
                    written[k] = partials[k](pen)
                term = pen.mul(tangent, written[k])
                total = term if total is None else pen.add(total, term)
            assert total is not None
            self.tangents[copy, number] = total


def _key(node: Term) -> str:
    return f"call {node.extra}" if node.op == "call" else node.op


def _own_activity(node: Term, moves: dict[Term, int]) -> int:
    bits = 0
    for arg in node.args:
        bits |= moves.get(arg, 0)
    if not bits or node.op in _TO_INTEGER:
        return 0
    key = _key(node)
    if key in CONSTANT:
        return 0
    if node.op == "select" and not node.is_float:
        raise NotScalar("chooses among the bits of floats", "bitcast")
    if node.op in ("phi", "select", "freeze") or node.op in _ROUNDS or key in PARTIALS:
        return bits
    if node.op == "bitcast" or node.op in CASTS or not node.is_float:
        raise NotScalar("computes with the bits of a float, of which no derivative is known", "bitcast")
    raise NotScalar(f"calls {node.extra}, whose derivative is not known", str(node.extra))
