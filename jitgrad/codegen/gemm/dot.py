"""The dot form of the register tile: A's rows and B's columns are both contiguous, and A has few rows.

Owns: ``emit_dot``: one row of A times as many columns of B as a vector has elements, vectors running along k.
Must not know: the loops around it.

Nothing is copied, so it wins where a copy of B's panel would not pay off. Element i of the result is the sum over k in
this fixed order: one chain per k modulo the width, then the chains pairwise.
"""

from __future__ import annotations

from jitgrad.codegen.gemm.spec import GemmSpec, Panel, fma, load_vector, vector_masks
from jitgrad.codegen.llvm.shuffle import sum_each
from jitgrad.codegen.llvm.text import FnBuilder, vector_type

__all__ = ["emit_dot"]


def emit_dot(b: FnBuilder, spec: GemmSpec, panel: Panel, a_row: str, columns: str, stride: str, depth: str) -> str:
    """The finished vector of C. ``columns``: B's element [0, panel.col]; ``stride``: bytes between columns."""
    width, vec = spec.width, vector_type(spec.width, spec.scalar)
    top = b.op(f"sub i64 {panel.left}, 1")
    at = [_column(b, columns, stride, i, top) for i in range(width)]
    before, loop, body, done = b.block, b.label("dot"), b.label("dot"), b.label("dotted")
    k, now = b.label("%k"), [b.label("%s") for _ in at]
    b.do(f"br label %{loop}")
    b.start(loop)
    b.do(f"{k} = phi i64 [ 0, %{before} ], [ {k}n, %{body} ]")
    for name in now:
        b.do(f"{name} = phi {vec} [ zeroinitializer, %{before} ], [ {name}n, %{body} ]")
    b.do(f"br i1 {b.op(f'icmp slt i64 {k}, {depth}')}, label %{body}, label %{done}")
    b.start(body)
    left = b.call("i64", "llvm.smin.i64", f"i64 {b.op(f'sub i64 {depth}, {k}')}", f"i64 {width}")
    mask = vector_masks(b, spec, left, 1)[0]
    row = load_vector(b, spec.scalar, width, _element(b, spec, a_row, k), mask)
    for column, name in zip(at, now, strict=True):
        value = load_vector(b, spec.scalar, width, _element(b, spec, column, k), mask)
        fma(b, spec, width, row, value, name)
    b.do(f"{k}n = add i64 {k}, {width}")
    b.do(f"br label %{loop}")
    b.start(done)
    return sum_each(b, spec.scalar, now, 16 // spec.itemsize)


def _column(b: FnBuilder, columns: str, stride: str, i: int, top: str) -> str:
    """Column i of the panel; those that do not exist are the last one again."""
    index = b.call("i64", "llvm.smin.i64", f"i64 {i}", f"i64 {top}")
    return b.op(f"getelementptr i8, ptr {columns}, i64 {b.op(f'mul i64 {index}, {stride}')}")


def _element(b: FnBuilder, spec: GemmSpec, base: str, k: str) -> str:
    return b.op(f"getelementptr {spec.scalar}, ptr {base}, i64 {k}")
