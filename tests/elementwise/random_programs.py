"""Random functions of scalars, and their derivatives by complex steps.

Owns: ``Program``: source text with loops, branches and maths; ``complex_step``: an independent derivative.

Complex steps: f(x + ih) = f(x) + ih f'(x) + O(h^2), so with h = 1e-30 the imaginary part is the derivative to the last
bit (Squire and Trapp, SIAM Review 40, 1998). Comparisons look at the real part.
"""

from __future__ import annotations

import cmath
import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

STEP = 1e-30


class Number:
    """A complex number that compares by its real part, as the program's floats do."""

    def __init__(self, value: complex) -> None:
        self.value = complex(value)

    def __lt__(self, other: Any) -> bool:
        return self.value.real < _plain(other).real

    def __gt__(self, other: Any) -> bool:
        return self.value.real > _plain(other).real

    def __abs__(self) -> Number:
        return Number(self.value if self.value.real > 0 else -self.value if self.value.real < 0 else 0j)

    def __neg__(self) -> Number:
        return Number(-self.value)


def _plain(x: Any) -> complex:
    return x.value if isinstance(x, Number) else complex(x)


def _operator(name: str) -> Callable[[Number, Any], Number]:
    return lambda x, y: Number(getattr(x.value, name)(_plain(y)))


for _name in "add radd sub rsub mul rmul truediv rtruediv pow".split():
    setattr(Number, f"__{_name}__", _operator(f"__{_name}__"))


def _maths(name: str) -> Callable[[Any], Number]:
    return lambda x: Number(getattr(cmath, name)(_plain(x)))


_UNARY = ("sin", "cos", "exp", "tanh", "atan", "sinh", "cosh", "asinh", "sqrt", "log", "tan")
COMPLEX_MATHS = SimpleNamespace(**{name: _maths(name) for name in _UNARY})


class Program:
    """A random function of ``count`` floats, as source text.

    What it computes stays moderate: arguments of exp, sinh and cosh are bounded, of log and sqrt positive, divisors
    away from zero, and what a loop may repeat is bounded.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.count = self.draw.randint(1, 3)
        self.names = [f"x{n}" for n in range(self.count)]
        self.locals = list(self.names)
        self.lines: list[str] = []
        self.loops = 0
        for _ in range(self.draw.randint(2, 5)):
            self.statement("    ", 2)
        result = " + ".join(self.draw.sample(self.locals, min(3, len(self.locals))))
        head = f"def program({', '.join(self.names)}):"
        self.source = "\n".join([head, *self.lines, f"    return {result} + 0.5 * x0"]) + "\n"

    def statement(self, indent: str, depth: int) -> None:
        kind = self.draw.choice(["assign", "assign", "if", "for", "while"] if depth else ["assign"])
        getattr(self, f"_{kind}")(indent, depth)

    def _new(self) -> str:
        return f"v{len(self.lines)}"

    def _assign(self, indent: str, depth: int) -> None:
        is_new = indent == "    " and self.draw.random() < 0.6
        name = self._new() if is_new else self.draw.choice(self.locals)
        value = self.expression(2)
        if indent != "    ":
            value = f"1.5 * math.tanh({value})"
        self.lines.append(f"{indent}{name} = {value}")
        if name not in self.locals:
            self.locals.append(name)

    def _if(self, indent: str, depth: int) -> None:
        sign = self.draw.choice("<>")
        self.lines.append(f"{indent}if {self.expression(1)} {sign} {self.draw.uniform(-0.7, 0.7):.4f}:")
        self.statement(indent + "    ", depth - 1)
        if self.draw.random() < 0.7:
            self.lines.append(f"{indent}else:")
            self.statement(indent + "    ", depth - 1)

    def _for(self, indent: str, depth: int) -> None:
        self.lines.append(f"{indent}for i{depth} in range({self.draw.randint(1, 5)}):")
        target = self.draw.choice(self.locals)
        self.lines.append(f"{indent}    {target} = 0.6 * {target} + 0.3 * {self.expression(2)}")
        self.statement(indent + "    ", depth - 1)
        if self.draw.random() < 0.4:
            self.lines.append(f"{indent}    if {target} > {self.draw.uniform(0.0, 1.5):.4f}:")
            self.lines.append(f"{indent}        break")

    def _while(self, indent: str, depth: int) -> None:
        self.loops += 1
        count = f"k{self.loops}"
        target = self.draw.choice(self.locals)
        self.lines.append(f"{indent}{count} = 0")
        self.lines.append(f"{indent}while abs({target}) > {self.draw.uniform(0.1, 0.6):.4f} and {count} < 12:")
        self.lines.append(f"{indent}    {target} = 0.7 * {target} - 0.05 * {self.expression(1)}")
        self.lines.append(f"{indent}    {count} = {count} + 1")
        if depth > 1 and self.draw.random() < 0.5:
            self.statement(indent + "    ", depth - 1)

    def expression(self, depth: int) -> str:
        draw = self.draw
        if not depth or draw.random() < 0.15:
            return draw.choice(self.locals) if draw.random() < 0.75 else f"{draw.uniform(-2, 2):.3f}"
        inner = self.expression(depth - 1)
        kind = draw.randrange(10)
        if kind < 4:
            return f"({inner} {draw.choice(['+', '-', '*'])} {self.expression(depth - 1)})"
        if kind == 4:
            return f"({inner} / (1.5 + math.cos({self.expression(depth - 1)})))"
        if kind == 5:
            return f"math.{draw.choice(['exp', 'sinh', 'cosh'])}(math.tanh({inner}))"
        if kind == 6:
            return f"math.{draw.choice(['log', 'sqrt'])}(1.2 + math.sin({inner}))"
        if kind == 7:
            return f"(1.1 + math.tanh({inner})) ** {draw.choice(['2', '3', '1.7', '-1.3'])}"
        if kind == 8:
            return f"abs({inner})"
        return f"math.{draw.choice(['sin', 'cos', 'tanh', 'atan', 'asinh'])}({inner})"

    def compiled(self, maths: Any) -> Callable[..., Any]:
        """The function, with ``maths`` as its ``math``."""
        space: dict[str, Any] = {"math": maths}
        exec(compile(self.source, "<random program>", "exec"), space)
        return space["program"]


def complex_step(program: Program, point: Sequence[float]) -> tuple[float, list[float]]:
    """The value and the gradient at a point."""
    function = program.compiled(COMPLEX_MATHS)
    value, gradient = 0.0, []
    for n in range(program.count):
        result = function(*(Number(x + (STEP * 1j if k == n else 0)) for k, x in enumerate(point)))
        value = _plain(result).real
        gradient.append(_plain(result).imag / STEP)
    return value, gradient
