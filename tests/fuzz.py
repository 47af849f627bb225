"""Random programs, run on torch eagerly, on jitgrad eagerly and on jitgrad compiled; all must agree.

A program is a list of statements over tensors, and a list of calls. Between two calls the fuzzer changes what a key of
the trie must hold: shapes, dtype, strides, ``requires_grad``, whether ``.grad`` exists, aliases between inputs, numbers,
which results are kept alive, grad mode. The whole list of calls is made twice with the same compiled function, so the
second round finds everything in the trie.

    python -m tests.fuzz --programs 100 --seed 0      # a failure is shrunk and printed as a program to run
    python -m tests.fuzz --interpret                  # the tracer alone: segments run by NumPy, no LLVM
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import jitgrad
from jitgrad.compiled import run as run_module
from jitgrad.dtypes import from_numpy_dtype
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.buffer import Storage
from jitgrad.tracer.graph import Const

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

__all__ = ["Call", "Failure", "Program", "check", "find_failure", "generate", "interpreted", "shrink"]


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


# ---- running --------------------------------------------------------------------------------------------------


@contextmanager
def interpreted() -> Iterator[None]:
    """Inside, segments of compiled functions are run by the NumPy rules instead of native code."""
    names = ("_run", "LoadedProgram")
    saved = {name: getattr(run_module, name) for name in names}
    backend = jitgrad.compiled.backend.backend
    kind = type(backend)
    compile_end = kind.compile_end
    run_module._run = _interpret
    kind.compile_end = lambda self, segment: SimpleNamespace(segment=segment, launches=0)  # type: ignore[method-assign]
    try:
        yield
    finally:
        kind.compile_end = compile_end  # type: ignore[method-assign]
        for name, value in saved.items():
            setattr(run_module, name, value)


def _interpret(loaded: Any, buffers: dict[int, Any], scalars: list[Any]) -> None:
    segment = loaded.segment
    values: dict[int, Any] = {v: buffers[v].array(a).copy() for v, a in segment.inputs.items()}
    for instr in segment.instrs:
        arrays = [
            x.value if isinstance(x, Const) else values[x] if isinstance(x, int) else scalars[x.slot]
            for x in instr.inputs
        ]
        try:
            results = run_module.compute(instr, arrays)
        except Exception:
            run_module._write_back(segment, values, buffers)
            raise
        values.update(zip(instr.outputs, results, strict=True))
    for vid in segment.outputs:
        value = values[vid]
        storage = buffers.get(vid)
        if storage is None:
            storage = buffers[vid] = Storage(max(value.nbytes, 1))
        np.copyto(storage.array(make_aval(value.shape, from_numpy_dtype(value.dtype))), value)
    for vid, owner in segment.writes:
        np.copyto(buffers[owner].array(segment.inputs[owner]), values[vid])


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
        self.x1 = self._second(call, lib.tensor(rng.normal(size=4) * 0.5, dtype=dtype))
        if call.x0_grad:
            self.x0.requires_grad_()
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


def _seen(value: Any) -> Any:
    """A value as it must be in every subject; frozen, so that a later overwrite of a result shows."""
    try:
        return _frozen(value)
    except Exception as error:
        return f"cannot be looked at: {type(error).__name__}: {error}"


def _frozen(value: Any) -> Any:
    if hasattr(value, "detach"):
        grad = value.grad if value.is_leaf else None
        flags = (bool(value.requires_grad), bool(value.is_leaf))
        return np.array(value.detach().numpy()), flags, None if grad is None else np.array(grad.detach().numpy())
    return value


def _call(step: Callable[..., Any], inputs: Inputs, call: Call) -> tuple[Any, list[Any]]:
    """(what can be seen, results that live on)."""
    lib = inputs.lib
    try:
        with lib.set_grad_enabled(call.grad_mode):
            results = step(lib, inputs)
        for _ in range(call.after):
            for r in results:
                if hasattr(r, "requires_grad") and r.requires_grad:
                    r.sum().backward(retain_graph=True)
    except Exception as error:
        results = [type(error).__name__]
        message: Any = error
    else:
        message = None
    seen = [_seen(r) for r in results], _seen(inputs.p0), _seen(inputs.p1), _seen(inputs.x0), _seen(inputs.x1)
    return (*seen, [w.copy() for w in inputs.windows], Message(message)), results


class Message(str):
    """The text of an exception, shown but not compared."""

    def __new__(cls, error: Any) -> Message:
        return str.__new__(cls, "" if error is None else f"{type(error).__name__}: {error}"[:600])


def _run(lib: Any, program: Program, step: Callable[..., Any]) -> list[Any]:
    inputs = Inputs(lib, program.seed)
    seen, held = [], []
    for nr, call in enumerate(program.calls):
        inputs.prepare(call, nr)
        what, results = _call(step, inputs, call)
        seen.append(what)
        held.append(results)
    return [*seen, [[_seen(r) for r in results] for results in held]]


def _load(program: Program) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(compile(program.source, "<fuzz>", "exec"), namespace)
    return namespace["step"]  # type: ignore[no-any-return]


# ---- comparing ------------------------------------------------------------------------------------------------


class Failure(AssertionError):
    """Two subjects disagree. ``kind`` is what a shrunk program must keep."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def _difference(got: Any, want: Any, rtol: float, path: str = "") -> str:
    """Where they differ; empty if they agree."""
    if isinstance(want, Message):
        return ""
    if isinstance(want, np.ndarray):
        if not isinstance(got, np.ndarray) or got.shape != want.shape or got.dtype != want.dtype:
            return f"{path}: {got!r} instead of {want!r}"
        loose = 2e-3 if np.float32 in (got.dtype, want.dtype) else rtol
        with np.errstate(all="ignore"):
            same = np.allclose(got, want, rtol=loose, atol=loose / 10, equal_nan=True)
        return "" if same else f"{path}: {got!r} instead of {want!r}"
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return f"{path}: {got!r} instead of {want!r}"
        found = (_difference(g, w, rtol, f"{path}[{i}]") for i, (g, w) in enumerate(zip(got, want, strict=True)))
        return next(filter(None, found), "")
    if isinstance(want, float) and isinstance(got, float):
        return _difference(np.array(got), np.array(want), rtol, path)
    return "" if type(got) is type(want) and got == want else f"{path}: {got!r} instead of {want!r}"


def _compare(kind: str, got: list[Any], want: list[Any], rtol: float) -> None:
    labels = [*(f"call {i}" for i in range(len(want) - 1)), "all results at the end"]
    for label, g, w in zip(labels, got, want, strict=True):
        found = _difference(g, w, rtol)
        if found:
            errors = [m for side in (g, w) for m in side if isinstance(m, Message) and m]
            category = "exception" if errors else "value"
            raise Failure(f"{kind}, {category}", f"{label} {found}\n" + "\n".join(errors))


def check(program: Program, *, with_torch: bool = True) -> None:
    """Run a program on every subject.

    Raises:
        Failure: two of them disagree.
    """
    step = _load(program)
    rtol = 2e-3 if "float32" in repr(program) else 1e-6
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        eager = _run(jitgrad, program, step)
        if with_torch and torch is not None:
            _compare("eager against torch", eager, _run(torch, program, step), rtol)
        compiled = jitgrad.compile(step)
        _compare("compiled against eager", _run(jitgrad, program, compiled), eager, rtol)
        _compare("second round against eager", _run(jitgrad, program, compiled), eager, rtol)


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
            f"{a} @ {b}", f"{a} @ s.p0", f"lib.cat([{a}, {b}])", f"lib.stack([{a}, {b}])", f"{a} @ {a}.transpose(-1, -2)",
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
            f"{p}.data.mul_(0.9)", f"{p}.detach().add_(0.1)", f"{p}.detach()[0] = {self.number()}",
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
        zero = f"{g} = {g} if {g} is not None else lib.zeros(1)"
        return self.pick(
            f"{v}.sum().backward()", f"({v} * {v}).sum().backward()", f"{v}.sum().backward(retain_graph=True)",
            f"({v} * {v}).mean().backward(create_graph=True)", f"({v}.sin() * {p}.sum()).sum().backward()",
            f"{g} = lib.autograd.grad(({v} * {p}.sum()).sum(), {p}, create_graph=True)[0]",
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
            f"out.append({v}.detach().numpy().copy())", f"out.append(bool(({v} > 0).any()))", f"out.append({v}.tolist())",
            f"out.append({v}.requires_grad)", f"out.append({v}.is_leaf)", f"out.append({v}.grad_fn is None)",
            f"out.append({v}._version)",
        )  # fmt: skip

    def branch(self) -> str:
        v, name = self.any(), self.fresh()
        test = self.pick(f"float({v}.sum()) > 0", f"bool(({v} > 0.3).all())", "s.n0 > 1", f"{v}.shape[0] > 2",
                         f"{v}.requires_grad")  # fmt: skip
        return f"if {test}:\n    {name} = {self.value()}\nelse:\n    {name} = {self.value()}"

    def loop(self) -> str:
        v, name = self.any(), self.fresh()
        body = self.pick(f"{name} = {name}.sin() + {self.any()}", f"{name} = {name} * s.a0", f"{name} = {name} @ s.p0",
                         f"{name}.sum().backward(retain_graph=True)", f"{name} = {name} + {name}.detach().sum()")  # fmt: skip
        return f"{name} = {v} * 1.5\nfor _ in range(s.n0):\n    {body}"

    def modes(self) -> str:
        name, a = self.fresh(), self.any()
        return self.pick(
            f"with lib.no_grad():\n    {name} = {self.value()}", f"with lib.enable_grad():\n    {name} = {self.value()}",
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


# ---- shrinking ------------------------------------------------------------------------------------------------


def find_failure(program: Program, *, with_torch: bool = True) -> Failure | None:
    """The failure of a program, or None. An exception of the fuzzer itself counts as one."""
    try:
        check(program, with_torch=with_torch)
    except Failure as failure:
        return failure
    return None


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with something left out."""
    statements, calls = program.statements, program.calls
    for i in range(len(calls)):
        if len(calls) > 1:
            yield replace(program, calls=calls[:i] + calls[i + 1 :])
    for i in reversed(range(len(statements))):
        yield replace(program, statements=statements[:i] + statements[i + 1 :])
    for i, call in enumerate(calls):
        for f in fields(Call):
            if getattr(call, f.name) != f.default:
                changed = replace(call, **{f.name: f.default})
                yield replace(program, calls=(*calls[:i], changed, *calls[i + 1 :]))
        for name in call.keep:
            changed = replace(call, keep=tuple(k for k in call.keep if k != name))
            yield replace(program, calls=(*calls[:i], changed, *calls[i + 1 :]))


def shrink(program: Program, kind: str, *, with_torch: bool = True, seconds: float = 30.0) -> Program:
    """The smallest program found that fails in the same way."""
    end = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for smaller in _smaller(program):
            if time.monotonic() > end:
                break
            failure = find_failure(smaller, with_torch=with_torch)
            if failure is not None and failure.kind == kind:
                program, progress = smaller, True
                break
    return program


@dataclass
class Report:
    """What a run of the fuzzer found."""

    programs: int = 0
    failures: list[tuple[Program, Failure]] = field(default_factory=list)


def fuzz(seed: int, programs: int, *, with_torch: bool = True, stop_after: int = 5) -> Report:
    """Check the programs of ``seed`` and the seeds after it; print every failure, shrunk."""
    report = Report()
    for nr in range(seed, seed + programs):
        program = generate(nr)
        report.programs += 1
        failure = find_failure(program, with_torch=with_torch)
        if failure is None:
            continue
        small = shrink(program, failure.kind, with_torch=with_torch)
        failure = find_failure(small, with_torch=with_torch) or failure
        report.failures.append((small, failure))
        print(f"# seed {nr}\n# " + str(failure).replace("\n", "\n# ") + f"\n{small}", flush=True)
        if len(report.failures) >= stop_after:
            break
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=5, help="failures")
    parser.add_argument("--no-torch", action="store_true", help="compare compiled with eager only")
    parser.add_argument("--interpret", action="store_true", help="the tracer alone, without LLVM")
    args = parser.parse_args()
    start = time.monotonic()
    options = {"with_torch": not args.no_torch, "stop_after": args.stop_after}
    if args.interpret:
        with interpreted():
            report = fuzz(args.seed, args.programs, **options)
    else:
        report = fuzz(args.seed, args.programs, **options)
    seconds = time.monotonic() - start
    print(f"{report.programs} programs, {len(report.failures)} failures, {seconds:.1f} s")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
