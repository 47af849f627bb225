"""Reshapes of implicit products sink below the arithmetic that follows them, so that it becomes the product's epilogue.

Owns: ``SINK``, a table of rewrite rules.
Must not know: kernels, LLVM.

A convolution is a product [N, O, H * W] and a reshape to [N, O, H, W]; bias and activation come after the reshape. No
loop over the product's elements visits H and W apart. So the arithmetic is done in the product's shape, where all its
operands can be had in that shape without a copy, and the reshape follows.
"""

from __future__ import annotations

import math

from jitgrad.codegen.primitives.builder import POINTWISE, Builder, Value
from jitgrad.codegen.primitives.simplify import Rule

__all__ = ["SINK"]

_DEPTH = 12


def _sink(b: Builder, v: Value) -> Value | None:
    for s in v.srcs:
        if s.op == "reshape" and _follows_product(s.srcs[0], _DEPTH):
            shape = s.srcs[0].shape
            moved = [_in_shape(b, operand, shape) for operand in v.srcs]
            operands = tuple(x for x in moved if x is not None)
            if len(operands) == len(moved):
                return b.reshape(b.make(v.op, operands, v.params, shape, v.dtype), v.shape)
    return None


def _follows_product(x: Value, depth: int) -> bool:
    """Whether ``x`` is an implicit product, or arithmetic on one in its own shape."""
    if x.op == "matmul":
        return any(s.op == "windows" for s in x.srcs)
    return depth > 0 and x.op in POINTWISE and any(_follows_product(s, depth - 1) for s in x.srcs)


def _in_shape(b: Builder, x: Value, shape: tuple[int, ...]) -> Value | None:
    """``x`` reshaped to ``shape``; None if that might need a copy."""
    if x.op == "reshape":
        return x.srcs[0] if x.srcs[0].shape == shape else None
    if x.op != "expand":
        return None
    small = x.srcs[0]
    own = (1,) * (len(x.shape) - len(small.shape)) + small.shape
    folded: list[int] = []
    at = 0
    for n in shape:  # the dimensions that became this one: broadcast all, or none
        start = at
        while math.prod(x.shape[start:at]) < n and at < len(x.shape):
            at += 1
        whole, part = x.shape[start:at], own[start:at]
        if math.prod(whole) != n or (part != whole and any(m != 1 for m in part)):
            return None
        folded.append(n if part == whole else 1)
    if math.prod(x.shape[at:]) != 1:
        return None
    return b.expand(b.reshape(small, tuple(folded)), shape)


SINK: dict[str, tuple[Rule, ...]] = dict.fromkeys(POINTWISE, (Rule("arithmetic joins its product", _sink),))
