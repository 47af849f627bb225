"""Partial derivatives of every instruction and maths function.

Owns: ``PARTIALS``, ``LINEAR``, and the ``Pen`` that the rules write with.
Must not know: control flow, which inputs move.

A rule gets the node and gives one function per operand: called, it writes the partial derivative, and only then.
Sources: Abramowitz and Stegun, "Handbook of Mathematical Routines", 4.2 to 4.6 (elementary functions), 6.3.1 (the
gamma function's derivative), 7.1 (erf). Where a function has a corner, the derivative is PyTorch's: 0 for |x| at 0, the
whole for the first of two equal operands of max and min.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jitgrad.codegen.scalars.ssa import FLOATS, Term

__all__ = ["CONSTANT", "PARTIALS", "Pen"]


class Pen:
    """Writes nodes to the end of a list; folds what is trivially constant."""

    def __init__(self, nodes: list[Term]) -> None:
        self.nodes = nodes

    def write(self, op: str, kind: str, args: list[Term], extra: object = None) -> Term:
        node = Term(op, kind, args, extra)
        self.nodes.append(node)
        return node

    def number(self, value: float, like: Term) -> Term:
        return Term("const", like.type, (), value)

    def add(self, x: Term, y: Term) -> Term:
        return self.write("fadd", x.type, [x, y])

    def sub(self, x: Term, y: Term) -> Term:
        return self.write("fsub", x.type, [x, y])

    def mul(self, x: Term, y: Term | float) -> Term:
        y = y if isinstance(y, Term) else self.number(y, x)
        for a, b in ((x, y), (y, x)):
            if a.op == "const" and a.extra == 1.0:
                return b
            if a.op == "const" and a.extra == -1.0:
                return self.neg(b)
        return self.write("fmul", x.type, [x, y])

    def div(self, x: Term | float, y: Term) -> Term:
        x = x if isinstance(x, Term) else self.number(x, y)
        return self.write("fdiv", y.type, [x, y])

    def neg(self, x: Term) -> Term:
        return self.write("fneg", x.type, [x])

    def call(self, name: str, *args: Term) -> Term:
        return self.write("call", args[0].type, list(args), name)

    def cmp(self, predicate: str, x: Term, y: Term | float) -> Term:
        y = y if isinstance(y, Term) else self.number(y, x)
        return self.write("fcmp" if x.type in FLOATS else "icmp", "i1", [x, y], predicate)

    def select(self, condition: Term, x: Term | float, y: Term) -> Term:
        x = x if isinstance(x, Term) else self.number(x, y)
        return self.write("select", y.type, [condition, x, y])

    def square(self, x: Term) -> Term:
        return self.mul(x, x)


Partial = Callable[[Pen], Term]
Rule = Callable[[Term], tuple[Partial, ...]]


def _one(node: Term) -> tuple[Partial, ...]:
    return (lambda p: p.number(1.0, node),)


def _fsub(node: Term) -> tuple[Partial, ...]:
    return (lambda p: p.number(1.0, node), lambda p: p.number(-1.0, node))


def _fmul(node: Term) -> tuple[Partial, ...]:
    x, y = node.args
    return (lambda p: y, lambda p: x)


def _fdiv(node: Term) -> tuple[Partial, ...]:
    made: list[Term] = []

    def inverse(p: Pen) -> Term:  # one division for both
        if not made:
            made.append(p.div(1.0, node.args[1]))
        return made[0]

    return (inverse, lambda p: p.neg(p.mul(node, inverse(p))))


def _frem(node: Term) -> tuple[Partial, ...]:
    """x - trunc(x / y) y."""
    x, y = node.args
    return (lambda p: p.number(1.0, node), lambda p: p.neg(p.call("trunc", p.div(x, y))))


def _unary(partial: Callable[[Pen, Term, Term], Term]) -> Rule:
    """From ``partial(pen, x, out)``."""
    return lambda node: (lambda p: partial(p, node.args[0], node),)


def _pow(node: Term) -> tuple[Partial, ...]:
    x, y = node.args

    def by_base(p: Pen) -> Term:
        slope = p.mul(y, p.call("pow", x, p.sub(y, p.number(1.0, y))))
        return p.select(p.cmp("oeq", y, 0.0), 0.0, slope)

    def by_exponent(p: Pen) -> Term:
        slope = p.mul(node, p.call("log", x))
        at_zero = p.write("and", "i1", [p.cmp("oeq", x, 0.0), p.cmp("oge", y, 0.0)])
        return p.select(at_zero, 0.0, slope)

    return by_base, by_exponent


def _powi(node: Term) -> tuple[Partial, ...]:
    x, n = node.args

    def by_base(p: Pen) -> Term:
        less = p.write("add", n.type, [n, Term("const", n.type, (), -1)])
        slope = p.mul(p.call("powi", x, less), p.write("sitofp", x.type, [n]))
        zero = p.write("icmp", "i1", [n, Term("const", n.type, (), 0)], "eq")
        return p.select(zero, 0.0, slope)

    return (by_base, lambda p: p.number(0.0, node))


def _atan2(node: Term) -> tuple[Partial, ...]:
    y, x = node.args

    def over_square(p: Pen, z: Term) -> Term:
        return p.div(z, p.add(p.square(x), p.square(y)))

    return (lambda p: over_square(p, x), lambda p: p.neg(over_square(p, y)))


def _hypot(node: Term) -> tuple[Partial, ...]:
    def by(z: Term) -> Partial:
        return lambda p: p.select(p.cmp("oeq", node, 0.0), 0.0, p.div(z, node))

    return by(node.args[0]), by(node.args[1])


def _copysign(node: Term) -> tuple[Partial, ...]:
    x, sign = node.args

    def by_size(p: Pen) -> Term:
        one = p.number(1.0, x)
        return p.mul(p.call("copysign", one, x), p.call("copysign", one, sign))

    return (by_size, lambda p: p.number(0.0, node))


def _extreme(predicate: str) -> Rule:
    def rule(node: Term) -> tuple[Partial, ...]:
        x, y = node.args

        def chosen(p: Pen) -> Term:  # the first one, also where both are equal
            return p.write("or", "i1", [p.cmp(predicate, x, y), p.cmp("uno", y, y)])

        one, zero = Term("const", node.type, (), 1.0), Term("const", node.type, (), 0.0)
        return (lambda p: p.select(chosen(p), one, zero), lambda p: p.select(chosen(p), zero, one))

    return rule


def _fma(node: Term) -> tuple[Partial, ...]:
    x, y, _ = node.args
    return (lambda p: y, lambda p: x, lambda p: p.number(1.0, node))


def _sign(p: Pen, x: Term, out: Term) -> Term:
    below = p.select(p.cmp("olt", x, 0.0), -1.0, p.number(0.0, x))
    return p.select(p.cmp("ogt", x, 0.0), 1.0, below)


def _unknown_power(p: Pen, x: Term, out: Term) -> Term:
    return p.div(out, p.mul(x, 3.0))


_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)

MATHS_PARTIALS: dict[str, Rule] = {
    "exp": _unary(lambda p, x, out: out),
    "exp2": _unary(lambda p, x, out: p.mul(out, math.log(2.0))),
    "expm1": _unary(lambda p, x, out: p.add(out, p.number(1.0, x))),
    "log": _unary(lambda p, x, out: p.div(1.0, x)),
    "log2": _unary(lambda p, x, out: p.div(1 / math.log(2.0), x)),
    "log10": _unary(lambda p, x, out: p.div(1 / math.log(10.0), x)),
    "log1p": _unary(lambda p, x, out: p.div(1.0, p.add(x, p.number(1.0, x)))),
    "sqrt": _unary(lambda p, x, out: p.div(0.5, out)),
    "cbrt": _unary(_unknown_power),
    "sin": _unary(lambda p, x, out: p.call("cos", x)),
    "cos": _unary(lambda p, x, out: p.neg(p.call("sin", x))),
    "tan": _unary(lambda p, x, out: p.add(p.square(out), p.number(1.0, x))),
    "asin": _unary(lambda p, x, out: p.div(1.0, p.call("sqrt", p.sub(p.number(1.0, x), p.square(x))))),
    "acos": _unary(lambda p, x, out: p.div(-1.0, p.call("sqrt", p.sub(p.number(1.0, x), p.square(x))))),
    "atan": _unary(lambda p, x, out: p.div(1.0, p.add(p.square(x), p.number(1.0, x)))),
    "sinh": _unary(lambda p, x, out: p.call("cosh", x)),
    "cosh": _unary(lambda p, x, out: p.call("sinh", x)),
    "tanh": _unary(lambda p, x, out: p.sub(p.number(1.0, x), p.square(out))),
    "asinh": _unary(lambda p, x, out: p.div(1.0, p.call("sqrt", p.add(p.square(x), p.number(1.0, x))))),
    "acosh": _unary(lambda p, x, out: p.div(1.0, p.call("sqrt", p.sub(p.square(x), p.number(1.0, x))))),
    "atanh": _unary(lambda p, x, out: p.div(1.0, p.sub(p.number(1.0, x), p.square(x)))),
    "erf": _unary(lambda p, x, out: p.mul(p.call("exp", p.neg(p.square(x))), _TWO_OVER_ROOT_PI)),
    "erfc": _unary(lambda p, x, out: p.mul(p.call("exp", p.neg(p.square(x))), -_TWO_OVER_ROOT_PI)),
    "lgamma": _unary(lambda p, x, out: p.call("digamma", x)),
    "tgamma": _unary(lambda p, x, out: p.mul(out, p.call("digamma", x))),
    "digamma": _unary(lambda p, x, out: p.call("trigamma", x)),
    "fabs": _unary(_sign),
    "pow": _pow,
    "powi": _powi,
    "atan2": _atan2,
    "hypot": _hypot,
    "copysign": _copysign,
    "fmod": _frem,
    "maxnum": _extreme("oge"),
    "maximum": _extreme("oge"),
    "minnum": _extreme("ole"),
    "minimum": _extreme("ole"),
    "fma": _fma,
}

PARTIALS: dict[str, Rule] = {
    "fadd": lambda node: _one(node) * 2,
    "fsub": _fsub,
    "fmul": _fmul,
    "fdiv": _fdiv,
    "frem": _frem,
    "fneg": lambda node: (lambda p: p.number(-1.0, node),),
    **{f"call {name}": rule for name, rule in MATHS_PARTIALS.items()},
}
"""Opcode, or "call" and the function's name -> rule. Phis, selects and casts keep their form: see ``differentiate``."""

CONSTANT = frozenset(f"call {name}" for name in ("floor", "ceil", "trunc", "round", "rint"))
"""Piecewise constant: the derivative is zero."""
