"""Random programs: statements over tensors, calls that differ in what a key of the trie must hold, and their inputs.

Owns: ``Call``, ``Program``, ``Inputs``, ``generate``. Must not know: how programs are run and compared (``fuzz``).
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

import jitgrad

__all__ = ["Call", "Inputs", "Program", "generate"]


# ---- programs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """How one call differs from another.

    Attributes:
        batch: rows of ``x0``.
        dtype: of ``x0`` and ``x1``.
        layout: strides of ``x0``.
        alias: what ``x1`` is.
        x0_grad, p1_grad: ``requires_grad``.
        grads: what happens to the parameters' ``.grad`` before the call.
        a0, a1, n0: numbers and a loop's length.
        keep: names of the values that are returned.
        grad_mode: the mode around the call.
        after: what is done with the results: nothing, or backward calls outside the step.
    """

    batch: int = 3
    dtype: str = "float64"
    layout: str = "plain"
    alias: str = "none"
    x0_grad: bool = False
    p1_grad: bool = True
    grads: str = "keep"
    a0: Any = 0.5
    a1: Any = 2
    n0: int = 2
    keep: tuple[str, ...] = ()
    grad_mode: bool = True
    after: int = 0


CHOICES: dict[str, tuple[Any, ...]] = {
    "batch": (1, 2, 3, 4, 4, 0),
    "dtype": ("float64", "float64", "float32"),
    "layout": ("plain", "transposed", "offset", "strided", "expanded"),
    "alias": ("none", "x0", "detached", "row", "parameter", "parameter detached"),
    "x0_grad": (False, True),
    "p1_grad": (True, True, False),
    "grads": ("keep", "keep", "none", "zeros", "shared"),
    "a0": (0.5, 0.25, -1.5, 0.0, -0.0, 2),
    "a1": (2, 3, -1, 1.0, 1, 0.1),
    "n0": (0, 1, 2, 3),
    "grad_mode": (True, True, True, False),
    "after": (0, 1, 2),
}


@dataclass(frozen=True)
class Program:
    """Statements and calls; ``seed`` fixes the numbers in the inputs."""

    statements: tuple[str, ...]
    calls: tuple[Call, ...]
    seed: int = 0

    @property
    def source(self) -> str:
        """The step as Python."""
        names = dict.fromkeys(n for s in self.statements for n in re.findall(r"^(v\d+) = ", s, re.M))
        body = [line for s in self.statements for line in s.splitlines()]
        result = "".join(f'("{n}", {n}), ' for n in names)
        body.append(f"return out + [v for k, v in [{result}] if k in s.keep]")
        return "def step(lib, s):\n    out = []\n" + "".join(f"    {line}\n" for line in body)

    def __str__(self) -> str:
        calls = "".join(f"    {_call_text(c)},\n" for c in self.calls)
        comment = "".join(f"# {line}\n" for line in self.source.splitlines())
        statements = "".join(f"    {s!r},\n" for s in self.statements)
        return (
            f"{comment}from tests.fuzz import Call, Program, check\n\n"
            f"check(Program((\n{statements}), (\n{calls}), {self.seed}))\n"
        )


def _call_text(call: Call) -> str:
    changed = [f"{f.name}={getattr(call, f.name)!r}" for f in fields(Call) if getattr(call, f.name) != f.default]
    return f"Call({', '.join(changed)})"


class Inputs:
    """The state of one run: parameters live on between calls, the rest is made for each."""

    def __init__(self, lib: Any, seed: int) -> None:
        self.lib = lib
        self.seed = seed
        rng = np.random.default_rng(seed)
        self.p0 = lib.tensor(rng.normal(size=(4, 4)) * 0.5, dtype=lib.float64).requires_grad_()
        self.p1 = lib.tensor(rng.normal(size=4) * 0.5, dtype=lib.float64).requires_grad_()
        self.windows = [self.p0.detach().numpy(), self.p1.detach().numpy()]

    def prepare(self, call: Call, nr: int) -> None:
        """What the call needs; its numbers do not depend on what was called before."""
        lib, rng = self.lib, np.random.default_rng(self.seed + 100 * nr)
        dtype = getattr(lib, call.dtype)
        self.a0, self.a1, self.n0, self.keep = call.a0, call.a1, call.n0, call.keep
        self.x0 = _laid_out(lib, call, dtype, rng)
        self.p1.requires_grad_(call.p1_grad)
        if call.x0_grad and call.layout == "plain":
            self.x0.requires_grad_()
        self.x1 = self._second(call, lib.tensor(rng.normal(size=4) * 0.5, dtype=dtype))
        self.i0 = lib.tensor(rng.integers(0, max(call.batch, 1), size=3), dtype=lib.int64)
        for p in (self.p0, self.p1):
            if call.grads == "none":
                p.grad = None
            elif call.grads == "zeros":
                p.grad = lib.zeros(*p.shape, dtype=p.dtype)
        if call.grads == "shared":
            self.p1.grad = lib.ones(4, 4, dtype=lib.float64)[1]

    def _second(self, call: Call, plain: Any) -> Any:
        makers: dict[str, Callable[[], Any]] = {
            "none": lambda: plain,
            "x0": lambda: self.x0,
            "detached": lambda: self.x0.detach(),
            "row": lambda: self.x0[0] if call.batch else plain,
            "parameter": lambda: self.p1,
            "parameter detached": lambda: self.p1.detach(),
        }
        return makers[call.alias]()


def _laid_out(lib: Any, call: Call, dtype: Any, rng: Any) -> Any:
    rows = call.batch
    makers: dict[str, Callable[[], Any]] = {
        "plain": lambda: lib.tensor(rng.normal(size=(rows, 4)), dtype=dtype),
        "transposed": lambda: lib.tensor(rng.normal(size=(4, rows)), dtype=dtype).t(),
        "offset": lambda: lib.tensor(rng.normal(size=(rows + 1, 4)), dtype=dtype)[1:],
        "strided": lambda: lib.tensor(rng.normal(size=(rows, 8)), dtype=dtype)[:, ::2],
        "expanded": lambda: lib.tensor(rng.normal(size=(1, 4)), dtype=dtype).expand(rows, 4),
    }
    return makers[call.layout]()


# ---- generating -----------------------------------------------------------------------------------------------

UNARY = "tanh sin cos sigmoid relu abs neg square erf".split()
REDUCTIONS = ("sum()", "sum(0)", "mean(-1, keepdim=True)", "amax(0)", "logsumexp(-1)", "softmax(-1)", "cumsum(0)",
              "mean()", "sum(-1)", "argmax()", "max()", "norm()")  # fmt: skip
VIEWS = (".transpose(0, -1)", "[1:]", "[..., :2]", "[0]", ".unsqueeze(0)", ".reshape(-1)", "[::2]", ".detach()",
         ".view(-1)", ".flip(0)", ".squeeze()", "[None]", ".t()", ".clone()", ".contiguous()", "[-1]", "[:, 1]",
         ".double()", ".to(lib.float32)", "[s.i0]", ".diagonal()")  # fmt: skip
NUMBERS = ("2", "0.5", "-1.5", "s.a0", "s.a1", "1", "1.0", "-0.0", "3", "s.a0 * 2", "s.n0")
GUARD = "if {p}.grad is not None: "


class Generator:
    """Draws statements; a statement that does not run eagerly on the first call's inputs is drawn again."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.names = ["s.x0", "s.x1", "s.p0", "s.p1"]
        self.count = 0

    def program(self) -> Program:
        self.scope: dict[str, Any] = {"lib": jitgrad, "s": Inputs(jitgrad, self.seed), "out": []}
        first = Call()
        self.scope["s"].prepare(first, 0)
        statements: list[str] = []
        wanted = self.rng.randint(3, 14)
        for _ in range(wanted * 4):
            if len(statements) == wanted:
                break
            text = self.statement()
            if self._runs(text) or (len(statements) > 2 and self.rng.random() < 0.01):
                statements.append(text)
                self.names += [n for n in re.findall(r"^(v\d+) = ", text, re.M) if n not in self.names]
        return Program(tuple(statements), self._calls(first), self.seed)

    def _runs(self, text: str) -> bool:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                exec(text, self.scope)
            except Exception:
                return False
        return True

    def _calls(self, first: Call) -> tuple[Call, ...]:
        values = [n for n in self.names if n.startswith("v")]
        call = replace(first, keep=self._kept(values))
        calls = [call]
        for _ in range(self.rng.randint(2, 5)):
            if self.rng.random() < 0.75:
                for name in self.rng.sample([*CHOICES, "keep"], self.rng.randint(1, 2)):
                    value = self._kept(values) if name == "keep" else self.rng.choice(CHOICES[name])
                    call = replace(call, **{name: value})
            elif self.rng.random() < 0.5:
                call = calls[0]
            calls.append(call)
        return tuple(calls)

    def _kept(self, values: list[str]) -> tuple[str, ...]:
        return tuple(v for v in values[-6:] if self.rng.random() < 0.5)

    # -- statements

    def statement(self) -> str:
        kinds, weights = zip(*STATEMENTS, strict=True)
        return str(self.rng.choices(kinds, weights)[0](self))

    def any(self) -> str:
        """A name in scope, more often a late one."""
        return self.rng.choice(self.names[-4:]) if self.rng.random() < 0.6 else self.rng.choice(self.names)

    def temporary(self) -> str:
        return self.rng.choice([n for n in self.names if n.startswith("v")] or ["v0"])

    def parameter(self) -> str:
        return self.rng.choice(("s.p0", "s.p1"))

    def number(self) -> str:
        return self.rng.choice(NUMBERS)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def value(self) -> str:
        """An expression."""
        a, b, k = self.any(), self.any(), self.number()
        return self.pick(
            f"{a}.{self.rng.choice(UNARY)}()", f"{a}.tanh().exp()", f"{a} + {b}", f"{a} * {b}", f"{a} - {b}",
            f"{a} / ({b} * {b} + 1)", f"{a} * {k}", f"{k} - {a}", f"{a} + {k}", f"{a} / 3", f"{a} ** 2",
            f"lib.maximum({a}, {b})", f"lib.where({a} > {b}, {a}, {b})", f"{a}.clamp(-0.5, 0.5)", f"({a} > {k}) * {b}",
            f"{a}.{self.rng.choice(REDUCTIONS)}", f"{a}{self.rng.choice(VIEWS)}", f"{a}{self.rng.choice(VIEWS)}",
            f"{a} @ {b}", f"{a} @ s.p0", f"lib.cat([{a}, {b}])", f"lib.stack([{a}, {b}])",
            f"{a} @ {a}.transpose(-1, -2)",
            f"lib.where({a} > 0, {a}, {k})", f"{a}.expand(2, *{a}.shape)", f"lib.zeros({a}.shape, dtype=lib.float64)",
        )  # fmt: skip

    def assign(self) -> str:
        return f"{self.fresh()} = {self.value()}"

    def reassign(self) -> str:
        return f"{self.temporary()} = {self.value()}"

    def update(self) -> str:
        p = self.parameter()
        return self.pick(
            f"with lib.no_grad(): {p}.mul_(0.9)",
            f"if {p}.grad is not None:\n    with lib.no_grad(): {p} -= s.a0 * {p}.grad",
            f"with lib.no_grad(): {p} += {self.any()}.detach().sum() * 0.01",
            f"{p}.detach().add_(0.1)", f"{p}.detach()[0] = {self.number()}",
            f"with lib.no_grad(): {p}.copy_({p}.flip(0))", f"with lib.no_grad(): {p}[1:] *= {self.number()}",
        )  # fmt: skip

    def write(self) -> str:
        v, b, k = self.temporary(), self.any(), self.number()
        return self.pick(
            f"{v}.add_({b})", f"{v}.mul_({k})", f"{v}[0] = {k}", f"{v}[:1] += {b}", f"{v}.zero_()", f"{v} *= {b}",
            f"{v}.copy_({b})", f"{v}.transpose(0, -1).mul_({k})", f"{v}.view(-1)[0] = 2.0", f"{v}.tanh_()",
            f"with lib.no_grad(): {v}.mul_({k})", f"{v}[0] = {b}[0]", f"{v}.detach().mul_({k})", f"s.x0.mul_({k})",
        )  # fmt: skip

    def differentiate(self) -> str:
        v, p, p2 = self.any(), self.parameter(), self.pick("s.p0", "s.p1", "s.x0", self.temporary())
        g = self.fresh()
        # the gradient of an expanded tensor may be expanded itself: writes to that are not compared
        zero = f"{g} = {g}.contiguous() if {g} is not None else lib.zeros(1)"
        return self.pick(
            f"{v}.sum().backward()", f"({v} * {v}).sum().backward()", f"{v}.sum().backward(retain_graph=True)",
            f"({v} * {v}).mean().backward(create_graph=True)", f"({v}.sin() * {p}.sum()).sum().backward()",
            f"{g} = lib.autograd.grad(({v} * {p}.sum()).sum(), {p}, create_graph=True)[0].contiguous()",
            f"{g} = lib.autograd.grad(({v} * {v}).sum(), {p2}, create_graph=True, allow_unused=True)[0]\n{zero}",
            f"{g} = lib.autograd.grad({v}.sin().sum(), {p2}, retain_graph=True, allow_unused=True)[0]\n{zero}",
            f"if {v}.requires_grad: {v}.sum().backward()", f"{v}.backward(lib.ones_like({v}), retain_graph=True)",
        )  # fmt: skip

    def gradients(self) -> str:
        p = self.parameter()
        return self.pick(
            f"{p}.grad = None",
            f"{self.fresh()} = {p}.grad if {p}.grad is not None else {p}.detach()",
            f"if {p}.grad is not None: {p}.grad.zero_()", f"if {p}.grad is not None: {p}.grad.mul_(0.5)",
            f"{p}.grad = {p}.detach() * 2", f"out.append({p}.grad is None)",
        )  # fmt: skip

    def read(self) -> str:
        v = self.any()
        return self.pick(
            f"out.append({v}.sum().item())", f"out.append(float({v}.detach().mean()))", f"repr({v})",
            f"out.append({v}.detach().numpy().copy())", f"out.append(bool(({v} > 0).any()))",
            f"out.append({v}.tolist())",
            f"out.append({v}.requires_grad)", f"out.append({v}.is_leaf)", f"out.append({v}.grad_fn is None)",
        )  # fmt: skip

    def branch(self) -> str:
        v, name = self.any(), self.fresh()
        test = self.pick(f"float({v}.sum()) > 0", f"bool(({v} > 0.3).all())", "s.n0 > 1", f"{v}.shape[0] > 2",
                         f"{v}.requires_grad")  # fmt: skip
        return f"if {test}:\n    {name} = {self.value()}\nelse:\n    {name} = {self.value()}"

    def loop(self) -> str:
        v, name = self.any(), self.fresh()
        body = self.pick(
            f"{name} = {name}.sin() + {self.any()}", f"{name} = {name} * s.a0", f"{name} = {name} @ s.p0",
            f"{name}.sum().backward(retain_graph=True)", f"{name} = {name} + {name}.detach().sum()",
        )  # fmt: skip
        return f"{name} = {v} * 1.5\nfor _ in range(s.n0):\n    {body}"

    def modes(self) -> str:
        name, a = self.fresh(), self.any()
        return self.pick(
            f"with lib.no_grad():\n    {name} = {self.value()}",
            f"with lib.enable_grad():\n    {name} = {self.value()}",
            f"{name} = {a}.detach().requires_grad_()", f"{name} = lib.ones(4, dtype=lib.float64, requires_grad=True)",
            f"{name} = {a}\n{name} = {name}.detach()",
        )  # fmt: skip

    def forget(self) -> str:
        name = self.temporary()
        return f"{name} = {name}.sum()"


STATEMENTS: tuple[tuple[Callable[[Generator], str], int], ...] = (
    (Generator.assign, 40),
    (Generator.reassign, 4),
    (Generator.update, 8),
    (Generator.write, 9),
    (Generator.differentiate, 14),
    (Generator.gradients, 5),
    (Generator.read, 6),
    (Generator.branch, 5),
    (Generator.loop, 4),
    (Generator.modes, 5),
    (Generator.forget, 2),
)


def generate(seed: int) -> Program:
    """The program of a seed."""
    return Generator(seed).program()
