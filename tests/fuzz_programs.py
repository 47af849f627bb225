"""Programs of the fuzzer: statements, and calls that differ in what a key of the trie must hold; as data and as Python.

Owns: ``Call``, ``Program`` (its step, its inputs, its script). Must not know: how programs are drawn
(``fuzz_statements``), or run and compared (``fuzz``).

Everything a program does is text over two names, ``lib`` (jitgrad or torch) and ``s`` (the state that lives on between
calls): what the fuzzer runs is what a printed script runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

__all__ = ["CHOICES", "Call", "Program"]


@dataclass(frozen=True)
class Call:
    """How one call differs from another.

    Attributes:
        batch: rows of ``x0``.
        dtype: of ``x0`` and ``x1``.
        layout: strides of ``x0``.
        alias: what ``x1`` is.
        x0_grad, p0_grad, p1_grad: ``requires_grad``; a parameter is frozen for some calls, and thawed again.
        p1: whether the parameter is the one of the call before, or what kind of new leaf.
        outer: what ``y0`` is: a tensor that may come with a graph from outside the step.
        hooks: what happens to hooks on the parameters before the call.
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
    p0_grad: bool = True
    p1_grad: bool = True
    p1: str = "keep"
    outer: str = "none"
    hooks: str = "none"
    grads: str = "keep"
    a0: Any = 0.5
    a1: Any = 2
    n0: int = 2
    keep: tuple[str, ...] = ()
    grad_mode: bool = True
    after: Any = 0


CHOICES: dict[str, tuple[Any, ...]] = {
    "batch": (1, 2, 3, 4, 4, 0),
    "dtype": ("float64", "float64", "float32"),
    "layout": ("plain", "transposed", "offset", "strided", "expanded"),
    "alias": ("none", "x0", "detached", "row", "parameter", "parameter detached"),
    "x0_grad": (False, True),
    "p0_grad": (True, True, True, False),
    "p1_grad": (True, True, False),
    "p1": ("keep", "keep", "new", "float32", "short", "window"),
    "outer": ("none", "leaf", "row of p0", "twice p1", "deep", "hooked", "detached p0"),
    "hooks": ("none", "tensor", "replacing", "post accumulate", "remove", "tensor on p1"),
    "grads": ("keep", "keep", "none", "zeros", "shared"),
    "a0": (0.5, 0.25, -1.5, 0.0, -0.0, 2),
    "a1": (2, 3, -1, 1.0, 1, 0.1),
    "n0": (0, 1, 2, 3),
    "grad_mode": (True, True, True, False),
    "after": (0, 1, 2, "once", "twice", "gradients", "written"),
}

_TENSORS = "[r for r in results if hasattr(r, 'requires_grad') and r.requires_grad]"
_AFTER = {
    0: "",
    1: f"for r in {_TENSORS}: r.sum().backward(retain_graph=True)",
    2: f"for r in {_TENSORS} * 2: r.sum().backward(retain_graph=True)",
    "once": f"for r in {_TENSORS}: r.sum().backward()",
    "twice": f"for r in {_TENSORS}:\n    (r * r).sum().backward()\n    r.sum().backward()",
    "gradients": f"for r in {_TENSORS}:\n"
    "    g = lib.autograd.grad((r * r).sum(), s.p0, create_graph=True, allow_unused=True)[0]\n"
    "    if g is not None and g.requires_grad: g.sum().backward(retain_graph=True)",
    "written": f"for r in {_TENSORS}:\n    t = r * 2\n    t.mul_(r)\n    t.sum().backward(retain_graph=True)",
}  # fmt: skip
_IF_P0 = "if s.p0.requires_grad:"  # it may be frozen
_HOOKS = {
    "none": (),
    "tensor": (f"{_IF_P0} s.handles.append(s.p0.register_hook(lambda g: s.log.append(('call', float(g.sum())))))",),
    "tensor on p1": ("if s.p1.requires_grad: s.handles.append(s.p1.register_hook(lambda g: s.log.append(g * 1)))",),
    "replacing": (f"{_IF_P0} s.handles.append(s.p0.register_hook(lambda g: g * 0.5))",),
    "post accumulate": (
        "if s.p0.requires_grad and s.p0.is_leaf: s.handles.append("  # a call may have written to it
        "s.p0.register_post_accumulate_grad_hook(lambda p: s.log.append(float(p.grad.sum()))))",
    ),
    "remove": ("if s.handles: s.handles.pop().remove()",),
}
_OUTER = {
    "none": "s.y0 = lib.tensor({y}, dtype=lib.float64)",
    "leaf": "s.y0 = lib.tensor({y}, dtype=lib.float64).requires_grad_()",
    "row of p0": "s.y0 = s.p0[1]",
    "twice p1": "s.y0 = s.p1 * 2",
    "deep": "s.y0 = (s.p0 @ s.p0.sin()).tanh()[2]",
    "hooked": "s.y0 = s.p0[0] * 3\n"
    f"{_IF_P0} s.y0.register_hook(lambda g: s.log.append(('outer', float(g.sum()))))",
    "detached p0": "s.y0 = s.p0.detach()[2]",
}
_LAYOUTS = {
    "plain": ((0, 4), ""),
    "transposed": ((4, 0), ".t()"),
    "offset": ((1, 4), "[1:]"),
    "strided": ((0, 8), "[:, ::2]"),
    "expanded": ((1, 4), ".expand({rows}, 4)"),
}
_ALIASES = {
    "x0": "s.x1 = s.x0",
    "detached": "s.x1 = s.x0.detach()",
    "row": "s.x1 = s.x0[0]",
    "parameter": "s.x1 = s.p1",
    "parameter detached": "s.x1 = s.p1.detach()",
}
_WINDOWS = "s.windows = [s.p0.detach().numpy(), s.p1.detach().numpy()]"
_OPTIMIZERS = {
    "s.sgd": "s.sgd = lib.optim.SGD([s.p0, s.p1], lr=0.1)",
    "s.momentum": "s.momentum = lib.optim.SGD([s.p0, s.p1], lr=0.05, momentum=0.9, weight_decay=0.01)",
    "s.adam": "s.adam = lib.optim.Adam([s.p0, s.p1], lr=0.1)",
    "s.rmsprop": "s.rmsprop = lib.optim.RMSprop([s.p0, s.p1], lr=0.01)",
    "s.adagrad": "s.adagrad = lib.optim.Adagrad([s.p0, s.p1], lr=0.1)",
}


def _literal(rng: Any, nudge: float, *shape: int) -> str:
    array = (rng.normal(size=shape) * 0.5).round(3) * (1 + nudge)
    text = str(array.tolist())
    return text if array.size else f"np.zeros({shape})"


def _prepare_p1(call: Call, rng: Any, nudge: float) -> list[str]:
    """The parameter of the call before, or a new one."""
    length = {"short": 1, "window": 6}.get(call.p1, 4)
    text = _literal(rng, nudge, length)
    made = {
        "keep": [],
        "new": [f"s.p1 = lib.tensor({text}, dtype=lib.float64)", _WINDOWS],
        "float32": [f"s.p1 = lib.tensor({text}, dtype=lib.float32)", _WINDOWS],
        "short": [f"s.p1 = lib.tensor({text}, dtype=lib.float64)", _WINDOWS],
        "window": [f"s.p1 = lib.tensor({text}, dtype=lib.float64)[1:5].detach()", _WINDOWS],
    }[call.p1]
    return [*made, f"s.p1.requires_grad_({call.p1_grad})"]


def _prepare_grads(call: Call) -> list[str]:
    lines = {
        "keep": [],
        "none": ["s.p0.grad = None", "s.p1.grad = None"],
        "zeros": [f"s.{p}.grad = lib.zeros(*s.{p}.shape, dtype=s.{p}.dtype)" for p in ("p0", "p1")],
        "shared": ["s.p1.grad = lib.ones(4, 4, dtype=s.p1.dtype)[1][:s.p1.shape[0]]"],
    }
    return lines[call.grads]


def _prepare(call: Call, nr: int, seed: int, nudge: float) -> list[str]:
    """What a call needs; its numbers do not depend on what was called before."""
    rng = np.random.default_rng(seed + 100 * nr)
    (more, columns), view = _LAYOUTS[call.layout]
    rows = {"transposed": 4, "expanded": 1}.get(call.layout, call.batch + more)
    columns = call.batch if call.layout == "transposed" else columns
    text = f"lib.tensor({_literal(rng, nudge, rows, columns)}, dtype=lib.{call.dtype})" + view.format(rows=call.batch)
    lines = [
        f"s.a0, s.a1, s.n0, s.keep = {call.a0!r}, {call.a1!r}, {call.n0!r}, {call.keep!r}",
        f"s.x0 = {text}",
    ]
    if call.x0_grad and call.layout == "plain":
        lines.append("s.x0.requires_grad_()")
    if not call.p0_grad or nr:
        lines.append(f"if s.p0.is_leaf: s.p0.requires_grad_({call.p0_grad})")  # frozen, it may join a graph by a write
    lines += _prepare_p1(call, rng, nudge)
    is_plain = call.alias == "none" or (call.alias == "row" and not call.batch)
    lines.append(
        f"s.x1 = lib.tensor({_literal(rng, nudge, 4)}, dtype=lib.{call.dtype})" if is_plain else _ALIASES[call.alias]
    )
    lines.append(f"s.i0 = lib.tensor({rng.integers(0, max(call.batch, 1), size=3).tolist()}, dtype=lib.int64)")
    lines += _prepare_grads(call)
    lines += _HOOKS[call.hooks]
    lines.append(_OUTER[call.outer].format(y=_literal(rng, nudge, 4)))
    return lines


@dataclass(frozen=True)
class Program:
    """Statements and calls; ``seed`` fixes the numbers in the inputs, ``nudge`` changes each by that part of it."""

    statements: tuple[str, ...]
    calls: tuple[Call, ...]
    seed: int = 0
    nudge: float = 0.0

    @property
    def source(self) -> str:
        """The step as Python."""
        names = dict.fromkeys(n for s in self.statements for n in re.findall(r"^(v\d+) = ", s, re.M))
        body = [line for s in self.statements for line in s.splitlines()]
        result = "".join(f'("{n}", {n}), ' for n in names)
        body.append(f"return out + [v for k, v in [{result}] if k in s.keep]")
        return "def step(lib, s):\n    out = []\n" + "".join(f"    {line}\n" for line in body)

    def setup(self) -> str:
        """Python that makes what lives on between calls."""
        rng = np.random.default_rng(self.seed)
        lines = [
            "s.log, s.handles = [], []",
            f"s.p0 = lib.tensor({_literal(rng, self.nudge, 4, 4)}, dtype=lib.float64).requires_grad_()",
            f"s.p1 = lib.tensor({_literal(rng, self.nudge, 4)}, dtype=lib.float64).requires_grad_()",
            _WINDOWS,
        ]
        lines += [line for name, line in _OPTIMIZERS.items() if name in self.source]
        return "\n".join(lines)

    def prepare(self, nr: int) -> str:
        """Python that makes the inputs of a call."""
        return "\n".join(_prepare(self.calls[nr], nr, self.seed, self.nudge))

    def call(self, nr: int) -> str:
        """Python that calls ``step`` and uses the results."""
        call = self.calls[nr]
        mode = "s.log.append(lib.is_grad_enabled())" if "lib.set_grad_enabled(" in self.source else "pass"
        made = f"with lib.set_grad_enabled({call.grad_mode}):\n    results = step(lib, s)\n    {mode}"
        return f"{made}\n{_AFTER[call.after]}"

    @property
    def script(self) -> str:
        """The program on its own, to paste into an issue."""
        used = set(re.findall(r"\bs\.\w+", self.source)) | {"s.p0", "s.p1"}
        lines = ["s = SimpleNamespace()", *self.setup().splitlines()]
        for nr in range(len(self.calls)):
            prepared = self.prepare(nr).splitlines()
            used |= {n for line in prepared if _assigned(line) & used for n in re.findall(r"\bs\.\w+", line)}
            lines += [f"# call {nr}", *(line for line in prepared if _assigned(line) & used)]
            lines += [*self.call(nr).splitlines(), "show(results, s)"]
        body = "".join(f"    {line}\n" for line in lines if line and line != _WINDOWS)
        return _SCRIPT.format(step=self.source, body=body)

    def __str__(self) -> str:
        calls = "".join(f"    {_call_text(c)},\n" for c in self.calls)
        comment = "".join(f"# {line}\n" for line in self.source.splitlines())
        statements = "".join(f"    {s!r},\n" for s in self.statements)
        return (
            f"{comment}from tests.fuzz import Call, Program, check\n\n"
            f"check(Program((\n{statements}), (\n{calls}), {self.seed}))\n"
        )


_SCRIPT = '''import jitgrad as lib  # or: import torch as lib; lib.compile = lambda step: step
from types import SimpleNamespace

import numpy as np


{step}

def show(results, s):
    print(results, "log:", s.log, "gradients:", s.p0.grad, s.p1.grad)


def main(step):
{body}

main(step)
print("compiled")
compiled = lib.compile(step)
main(compiled)
main(compiled)
'''


def _assigned(line: str) -> set[str]:
    """The attributes of ``s`` that a line makes or changes."""
    target = line.split(" = ")[0]
    return set(re.findall(r"\bs\.\w+", target))


def _call_text(call: Call) -> str:
    changed = [f"{f.name}={getattr(call, f.name)!r}" for f in fields(Call) if getattr(call, f.name) != f.default]
    return f"Call({', '.join(changed)})"
