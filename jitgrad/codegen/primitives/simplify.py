"""Algebra on primitives: a table of rewrite rules per primitive, applied from the operands up.

Owns: ``rewrite`` (the engine), ``SIMPLIFY`` (rules that keep every bit of the result).
Must not know: kernels. Rules that choose an algorithm (a matrix-vector product as a reduction) are in ``decompose``.

A rule may not change a rounding, a NaN or a signed zero that eager mode would give: x * 0 and x / 3 stay.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from jitgrad.codegen.primitives.builder import Builder, Value, is_widening
from jitgrad.dtypes import FLOATING, INTEGER, DType, bool_
from jitgrad.symbols.advice import always_equal, identical
from jitgrad.symbols.number import TOKEN, current_env, is_symbolic, lifted

__all__ = ["SIMPLIFY", "Rule", "const_of", "number_of", "order_of", "rewrite", "topological"]


class Rule(NamedTuple):
    """``apply(b, v)`` gives the value that replaces ``v``, or None where the rule does not apply.

    The name is what ``JITGRAD_LOG=pipeline`` counts it under.
    """

    name: str
    apply: Callable[[Builder, Value], Value | None]


def topological(
    results: Iterable[Value], needs: Mapping[Value, tuple[Value, ...]] = MappingProxyType({})
) -> list[Value]:
    """Every value that the results need, operands first. Iterative: chains may be 100,000 long.

    Args:
        results: values.
        needs: value -> what must come before it, if that is not its operands.
    """
    order: list[Value] = []
    done: set[Value] = set()
    met: set[int] = set()  # ids of what several values need
    stack = list(reversed(list(results)))
    push, pop = stack.append, stack.pop
    while stack:
        v = stack[-1]
        if v in done:
            pop()
            continue
        depth = len(stack)
        srcs = needs.get(v, v.srcs) if needs else v.srcs
        if id(srcs) not in met:
            for s in reversed(srcs):
                if s not in done:
                    push(s)
        if len(stack) == depth:
            if srcs is not v.srcs:
                met.add(id(srcs))
            done.add(v)
            order.append(v)
            pop()
    return order


def order_of(results: Sequence[Value], builder: Builder) -> list[Value]:
    """``topological``, remembered for the results asked for last: most passes change nothing. Nobody may change it."""
    known, order = builder.order
    if len(known) != len(results) or any([a is not b for a, b in zip(known, results, strict=True)]):
        order = topological(results)
        builder.order = (tuple(results), order)
    return order


def rewrite(
    results: Sequence[Value], rules: dict[str, tuple[Rule, ...]], builder: Builder, applied: Counter[str] | None = None
) -> list[Value]:
    """The results with ``rules`` applied everywhere.

    Args:
        results: values; everything that they need is rewritten.
        rules: primitive -> the rules to try on it, in order.
        builder: makes the new values.
        applied: counts how often each rule applied, by its name.

    A value that no rule of the table applied to once is left alone the next time: rules look at nothing else.
    """
    applied = Counter() if applied is None else applied
    settled = builder.settled.setdefault(id(rules), set())
    new: dict[Value, Value] = {}  # of those that change
    for v in order_of(results, builder):
        made = v
        if new:
            for s in v.srcs:
                if s in new:
                    made = _rebuilt(builder, v, new)
                    break
        if v.op in rules and made not in settled:
            builder.instr = v.instr
            made = _settle(builder, made, rules, applied)
            settled.add(made)
        if made is not v:
            new[v] = made
    return [new.get(r, r) for r in results]


def _rebuilt(b: Builder, v: Value, new: dict[Value, Value]) -> Value:
    """``v`` with new operands."""
    b.instr = v.instr
    return b.make(v.op, tuple([new.get(s, s) for s in v.srcs]), v.params, v.shape, v.dtype)


def _settle(b: Builder, v: Value, rules: dict[str, tuple[Rule, ...]], applied: Counter[str]) -> Value:
    """Apply rules to ``v`` until none applies. The new operands that a rule makes are left for the next pass.

    The builder computes short dtypes in wider ones (int16 in int32, float16 in float32), and so do rules; the result
    of a rule gets the dtype of ``v`` again, as the memory that it is stored in was allocated for that dtype.
    """
    changed = True
    while changed:
        changed = False
        for name, apply in rules.get(v.op, ()):
            found = apply(b, v)
            if found is not None and found is not v:
                v, changed = found if found.dtype is v.dtype else b.cast(found, v.dtype), True
                applied[name] += 1
                break
    return v


_WORDS = {"True": True, "False": False}


def const_of(v: Value) -> bool | int | float | None:
    """The number that every element of ``v`` is, or None."""
    while v.op != "const":
        if v.op != "expand" and v.op != "reshape":
            return None
        v = v.srcs[0]
    return number_of(v.params[0])


def number_of(text: str) -> bool | int | float:
    """The number of a constant, as its text says it."""
    env = current_env()
    if env is not None and text.startswith(TOKEN):
        return env.number(text)  # type: ignore[return-value]
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text)
    except ValueError:
        return float(text)


def _is(v: Value, number: float) -> bool:
    c = const_of(v)
    return c is not None and c == number and not (number == 0 and math.copysign(1.0, c) < 0)


_FOLD: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "max": np.maximum, "min": np.minimum,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "sqrt": np.sqrt, "abs": np.abs,
}  # fmt: skip


def _fold(b: Builder, v: Value) -> Value | None:
    """Constants only: one NumPy operation in the dtype, which is what eager mode does."""
    numbers = []
    for s in v.srcs:
        number = None if s.dtype is bool_ else const_of(s)
        if number is None:
            return None
        numbers.append(number)
    return b.const(_computed(_FOLD[v.op], [s.dtype for s in v.srcs], numbers), v.dtype, v.shape)


def _computed(function: Callable[..., Any], dtypes: Sequence[DType], numbers: Sequence[Any]) -> Any:
    """A function of constants, each in its dtype."""
    kinds = [dtype.np.type for dtype in dtypes]

    def compute(*numbers: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*[kind(n) for kind, n in zip(kinds, numbers, strict=True)]).item()

    return lifted(compute)(*numbers)


def _fold_div(b: Builder, v: Value) -> Value | None:
    numbers = [const_of(s) for s in v.srcs]
    if v.dtype.category is not FLOATING or any(n is None for n in numbers):
        return None
    return b.const(_computed(operator.truediv, [v.dtype, v.dtype], numbers), v.dtype, v.shape)


def _fold_cast(b: Builder, v: Value) -> Value | None:
    number = const_of(v.srcs[0])
    if number is None or (v.dtype.category is INTEGER and not abs(number) < 2 ** (8 * v.dtype.itemsize - 1)):
        return None  # a kernel knows what becomes of a number that does not fit
    if v.dtype.is_short or v.srcs[0].dtype.is_short:
        return b.const(lifted(v.dtype.number)(number), v.dtype, v.shape)
    return b.const(_computed(v.dtype.np.type, [v.srcs[0].dtype], [number]), v.dtype, v.shape)


def _identity_add(b: Builder, v: Value) -> Value | None:
    """x + (-0.0) is x for every x; x + 0.0 turns -0.0 into 0.0, which == cannot see and only 1/x could. Kept exact."""
    x, y = v.srcs
    if v.dtype.category is INTEGER:
        return x if _is(y, 0) else y if _is(x, 0) else None
    return x if const_of(y) == 0 and math.copysign(1.0, const_of(y) or 0.0) < 0 else None


def _identity_sub(b: Builder, v: Value) -> Value | None:
    return v.srcs[0] if _is(v.srcs[1], 0) else None


def _identity_mul(b: Builder, v: Value) -> Value | None:
    x, y = v.srcs
    if v.dtype is bool_:
        return None
    a, c = const_of(x), const_of(y)
    if c == 1:
        return x
    if a == 1:
        return y
    if v.dtype.category is FLOATING:  # exact: only the sign bit changes
        flipped: Value | None = b.neg(x) if c == -1 else b.neg(y) if a == -1 else None
        return flipped
    return None


def _identity_div(b: Builder, v: Value) -> Value | None:
    """Division by a power of two is a multiplication, exactly; any other division stays."""
    x, y = v.srcs
    number = const_of(y)
    if number is None or v.dtype.category is not FLOATING:
        return None
    if number == 1:
        return x
    if math.prod(v.shape) == 1:  # a mean's count: its kernel should serve every count
        return None
    if identical(lifted(_is_power_of_two)(number), True):
        product: Value = b.mul(x, 1.0 / number)
        return product
    return None


def _is_power_of_two(number: float) -> bool:
    mantissa, exponent = math.frexp(number) if number and math.isfinite(number) else (0.0, 0)
    return abs(mantissa) == 0.5 and -100 < exponent < 100


def _double_neg(b: Builder, v: Value) -> Value | None:
    return v.srcs[0].srcs[0] if v.srcs[0].op == "neg" else None


def _double_not(b: Builder, v: Value) -> Value | None:
    return v.srcs[0].srcs[0] if v.srcs[0].op == "not" and v.dtype is bool_ else None


def _add_neg(b: Builder, v: Value) -> Value | None:
    """x + (-y) is x - y, bit for bit."""
    x, y = v.srcs
    found: Value | None = b.sub(x, y.srcs[0]) if y.op == "neg" else b.sub(y, x.srcs[0]) if x.op == "neg" else None
    return found


def _sub_neg(b: Builder, v: Value) -> Value | None:
    return b.add(v.srcs[0], v.srcs[1].srcs[0]) if v.srcs[1].op == "neg" else None


def _pow(b: Builder, v: Value) -> Value | None:
    """The exponents that PyTorch computes by other means, by the same means."""
    x, n = v.srcs[0], const_of(v.srcs[1])
    if n is None or (v.dtype.category is not FLOATING and n not in (1, 2, 3)):
        return None
    if is_symbolic(n):
        found = next((formula for number, formula in _POWERS.items() if n == number), None)
    else:
        found = _POWERS.get(float(n))
    return found(b, x) if found else None


_POWERS: dict[float, Callable[[Builder, Value], Value]] = {
    0.0: lambda b, x: b.const(1.0, x.dtype, x.shape),
    1.0: lambda b, x: x,
    2.0: lambda b, x: b.mul(x, x),
    3.0: lambda b, x: b.mul(b.mul(x, x), x),
    0.5: lambda b, x: b.sqrt(x),
    -0.5: lambda b, x: b.div(1.0, b.sqrt(x)),
    -1.0: lambda b, x: b.div(1.0, x),
    -2.0: lambda b, x: b.div(1.0, b.mul(x, x)),
}


def _where(b: Builder, v: Value) -> Value | None:
    c, x, y = v.srcs
    known = const_of(c)
    if known is not None:
        return x if known else y
    if x is y:
        return x
    return b.where(c.srcs[0], y, x) if c.op == "not" else None


def _same_shape(b: Builder, v: Value) -> Value | None:
    return v.srcs[0] if always_equal(v.shape, v.srcs[0].shape) else None


def _reshape(b: Builder, v: Value) -> Value | None:
    x = v.srcs[0]
    if x.op == "reshape":
        return b.reshape(x.srcs[0], v.shape)
    if x.op == "expand" and x.srcs[0].shape == ():
        return b.expand(x.srcs[0], v.shape)
    return b.expand(x, v.shape) if x.op in ("const", "scalar") else None


def _expand(b: Builder, v: Value) -> Value | None:
    x = v.srcs[0]
    return b.expand(x.srcs[0], v.shape) if x.op == "expand" else None


def _permute(b: Builder, v: Value) -> Value | None:
    x = v.srcs[0]
    if x.op == "permute":
        return b.permute(x.srcs[0], tuple(x.params[d] for d in v.params))
    return b.expand(x.srcs[0], v.shape) if x.op == "expand" and x.srcs[0].shape == () else None


def _slice_of_const(b: Builder, v: Value) -> Value | None:
    x = v.srcs[0]
    return b.expand(x.srcs[0], v.shape) if x.op == "expand" and x.srcs[0].shape == () else None


def _slice_of_cat(b: Builder, v: Value) -> Value | None:
    """One of several that were put side by side: the real part of a complex value, Note [Complex values]."""
    x, (starts, steps) = v.srcs[0], v.params
    if x.op != "cat":
        return None
    dim = x.params
    extents = [s.shape[dim] for s in x.srcs] + [v.shape[dim]]
    if any([type(n) is not int or n != 1 for n in extents]) or type(starts[dim]) is not int:
        return None
    part = x.srcs[starts[dim]]
    starts = (*starts[:dim], 0, *starts[dim + 1 :])
    stops = tuple([start + n * step for start, n, step in zip(starts, v.shape, steps, strict=True)])
    return b.slice(part, starts, stops, (*steps[:dim], 1, *steps[dim + 1 :]))


def _flips(v: Value, dim: int) -> bool:
    """Whether ``v`` is its operand, backwards along ``dim``."""
    starts = tuple([n - 1 if d == dim else 0 for d, n in enumerate(v.shape)])
    steps = tuple([-1 if d == dim else 1 for d in range(len(v.shape))])
    return v.op == "slice" and v.shape == v.srcs[0].shape and v.params == (starts, steps)


def _flipped_scan(b: Builder, v: Value) -> Value | None:
    """A scan of what was flipped, flipped: the other way round, which is what derivatives of scans are."""
    scan = v.srcs[0]
    if scan.op not in ("scan_sum", "scan_prod"):
        return None
    dim, is_reversed = scan.params
    x = scan.srcs[0]
    return b.scan(scan.op[5:], x.srcs[0], dim, not is_reversed) if _flips(v, dim) and _flips(x, dim) else None


def _cast_of_cast(b: Builder, v: Value) -> Value | None:
    """bool -> anything -> T is bool -> T: nothing is lost on the way; nor where a short dtype is widened and back."""
    x = v.srcs[0]
    if is_widening(x) and x.srcs[0].dtype is v.dtype:
        return x.srcs[0]
    return b.cast(x.srcs[0], v.dtype) if x.op == "cast" and x.srcs[0].dtype is bool_ and v.dtype is not bool_ else None


def _reduce_ones(b: Builder, v: Value) -> Value | None:
    """Dims of extent 1 need no reduction."""
    x = v.srcs[0]
    if 0 in x.shape:
        return None
    dims = tuple(d for d in v.params if x.shape[d] != 1)
    return None if dims == v.params else b.reduce(v.op[7:], x, dims, keepdim=True)


_folds = Rule("fold constants", _fold)
_cast_rules = (Rule("fold constants", _fold_cast), Rule("cast of cast", _cast_of_cast))
_reduce_rules = (Rule("reduce over extent 1", _reduce_ones),)

SIMPLIFY: dict[str, tuple[Rule, ...]] = {
    **{op: (_folds,) for op in _FOLD},
    "add": (_folds, Rule("x + 0", _identity_add), Rule("x + -y", _add_neg)),
    "sub": (_folds, Rule("x - 0", _identity_sub), Rule("x - -y", _sub_neg)),
    "mul": (_folds, Rule("x * 1, x * -1", _identity_mul)),
    "div": (Rule("fold constants", _fold_div), Rule("x / 1, x / 2**n", _identity_div)),
    "neg": (_folds, Rule("--x", _double_neg)),
    "not": (Rule("not not x", _double_not),),
    "pow": (Rule("small exponents", _pow),),
    "where": (Rule("known or inverted condition", _where),),
    "cast": _cast_rules,
    "reshape": (Rule("same shape", _same_shape), Rule("reshape of reshape", _reshape)),
    "expand": (Rule("same shape", _same_shape), Rule("expand of expand", _expand)),
    "permute": (Rule("permute of permute", _permute),),
    "slice": (
        Rule("slice of a constant", _slice_of_const),
        Rule("flipped scan, flipped", _flipped_scan),
        Rule("one of several side by side", _slice_of_cat),
    ),
    "reduce_sum": _reduce_rules,
    "reduce_max": _reduce_rules,
    "reduce_min": _reduce_rules,
    "reduce_prod": _reduce_rules,
}
