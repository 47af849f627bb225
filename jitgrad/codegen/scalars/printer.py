"""``ssa.Routine`` to LLVM IR text, one scalar at a time: what LLVM's passes clean up, and what the cache keeps.

Owns: ``print_scalar``, the form that ``reader.read`` reads back.
Must not know: vectors, kernels.
"""

from __future__ import annotations

from jitgrad.codegen.llvm.text import float_literal
from jitgrad.codegen.scalars.reader import ENTRY, RESULT
from jitgrad.codegen.scalars.ssa import CASTS, INTRINSICS, Block, Routine, Term

__all__ = ["PURE", "print_scalar"]

PURE = "nounwind willreturn memory(none)"
"""Attributes of a maths function: equal calls are one call."""


def print_scalar(function: Routine) -> str:
    """The module with ``@jitgrad_scalar``; maths functions are declared as ``@jg.sin.f64``."""
    return _Printer(function).print()


def literal(node: Term) -> str:
    """A constant as LLVM writes it."""
    if node.is_float:
        return float_literal(float(node.extra), node.type)
    return {0: "false", 1: "true"}[int(node.extra) & 1] if node.type == "i1" else str(int(node.extra))


class _Printer:
    def __init__(self, function: Routine) -> None:
        self.function = function
        self.names: dict[Term, str] = {p: f"%a{n}" for n, p in enumerate(function.params)}
        self.labels = {block: f"b{n}" for n, block in enumerate(function.blocks)}
        self.declarations: dict[str, None] = {}
        for block in function.blocks:
            for node in block.nodes:
                self.names[node] = f"%v{len(self.names)}"

    def print(self) -> str:
        lines = []
        for block in self.function.blocks:
            lines.append(f"{self.labels[block]}:")
            lines += [f"  {self.names[node]} = {self._text(node)}" for node in block.nodes]
            lines += [f"  {line}" for line in self._end(block)]
        params = ", ".join(f"{p.type} {self.names[p]}" for p in self.function.params)
        kinds = ", ".join(["i32", *(r.type for r in self.function.results)])
        head = [*self.declarations, f"declare void @{RESULT}({kinds})"]
        body = "\n".join(lines)
        return "\n".join(head) + f"\n\ndefine void @{ENTRY}({params}) {{\n{body}\n}}\n"

    def _word(self, node: Term) -> str:
        return literal(node) if node.op == "const" else self.names[node]

    def _typed(self, node: Term) -> str:
        return f"{node.type} {self._word(node)}"

    def _end(self, block: Block) -> list[str]:
        if not block.targets:
            results = ", ".join(["i32 0", *map(self._typed, self.function.results)])
            return [f"call void @{RESULT}({results})", "ret void"]
        labels = [f"label %{self.labels[target]}" for target in block.targets]
        if block.condition is None:
            return [f"br {labels[0]}"]
        return [f"br i1 {self._word(block.condition)}, {labels[0]}, {labels[1]}"]

    def _text(self, node: Term) -> str:
        words = [self._word(arg) for arg in node.args]
        if node.op == "phi":
            pairs = zip(words, node.extra, strict=True)
            return f"phi {node.type} " + ", ".join(f"[ {word}, %{self.labels[block]} ]" for word, block in pairs)
        if node.op in CASTS or node.op == "bitcast":
            return f"{node.op} {self._typed(node.args[0])} to {node.type}"
        if node.op in ("fcmp", "icmp"):
            return f"{node.op} {node.extra} {node.args[0].type} {words[0]}, {words[1]}"
        if node.op in ("fneg", "freeze"):
            return f"{node.op} {self._typed(node.args[0])}"
        if node.op == "select":
            return "select " + ", ".join(map(self._typed, node.args))
        if node.op == "call":
            return self._call(node)
        return f"{node.op} {node.type} {words[0]}, {words[1]}"

    def _call(self, node: Term) -> str:
        kinds = [arg.type for arg in node.args]
        operands = [*map(self._typed, node.args)]
        if node.extra in INTRINSICS:
            name, attributes = f"llvm.{node.extra}.{node.type}", ""
            if node.extra == "abs":
                kinds, operands = [*kinds, "i1"], [*operands, "i1 false"]
        else:
            name, attributes = f"jg.{node.extra}.{'f64' if node.type == 'double' else 'f32'}", f" {PURE}"
        self.declarations[f"declare {node.type} @{name}({', '.join(kinds)}){attributes}"] = None
        return f"call {node.type} @{name}({', '.join(operands)})"
