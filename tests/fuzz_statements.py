"""Random programs: which statements there are, and drawing them.

Owns: ``generate``, the tables of statements. Must not know: how programs are run and compared (``fuzz``).

A statement that does not run eagerly on the first call's inputs is drawn again, so most programs get far; a few keep
one that raises.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import jitgrad

if __package__:
    from tests.fuzz_programs import CHOICES, Call, Program
else:
    from fuzz_programs import CHOICES, Call, Program

__all__ = ["generate"]

UNARY = "tanh sin cos sigmoid relu abs neg square erf".split()
REDUCTIONS = ("sum()", "sum(0)", "mean(-1, keepdim=True)", "amax(0)", "logsumexp(-1)", "softmax(-1)", "cumsum(0)",
              "mean()", "sum(-1)", "argmax()", "max()", "norm()", "prod()", "std()", "var(0)")  # fmt: skip
VIEWS = (".transpose(0, -1)", "[1:]", "[..., :2]", "[0]", ".unsqueeze(0)", ".reshape(-1)", "[::2]", ".detach()",
         ".view(-1)", ".flip(0)", ".squeeze()", "[None]", ".t()", ".clone()", ".contiguous()", "[-1]", "[:, 1]",
         ".double()", ".to(lib.float32)", "[s.i0]", ".diagonal()", ".narrow(0, 0, 1)", ".select(0, 1)",
         ".unbind()[0]", ".chunk(2)[0]", ".split(1)[0]", ".expand(2, 4)", ".data", ".movedim(0, -1)", "[1:][:, 1:]",
         ".t()[1:]", ".view(-1)[1:3]")  # fmt: skip
NUMBERS = ("2", "0.5", "-1.5", "s.a0", "s.a1", "1", "1.0", "-0.0", "3", "s.a0 * 2", "s.n0")
INDICES = ("[0]", "[1:]", "[:, 1]", "[..., 0]", "[::2]", "[None]", "[-1]", "[s.i0]", "[lib.tensor([0, 2])]",
           "[{v} > 0]", "[{v} < 0.1]", "[1:, :2]", "[:, [0, 1]]", "[[0, 1], [1, 1]]", "[lib.tensor(True)]",
           "[0, lib.tensor([1])]", "[...]", "[:0]")  # fmt: skip


class Generator:
    """Draws statements."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.names = ["s.x0", "s.x1", "s.y0", "s.p0", "s.p1"]
        self.count = 0

    def program(self) -> Program:
        first = Call()
        # every optimizer is there to be tried; the program makes those that it uses
        trial = Program(("s.sgd, s.momentum, s.adam",), (first,), self.seed)
        self.scope: dict[str, Any] = {"lib": jitgrad, "s": SimpleNamespace(), "out": [], "np": np}
        exec(trial.setup() + "\n" + trial.prepare(0), self.scope)
        statements: list[str] = []
        wanted = self.rng.randint(3, 14)
        for _ in range(wanted * 4):
            if len(statements) == wanted:
                break
            text = self.statement()
            self.is_missing = False
            if self._runs(text) or (len(statements) > 2 and self.rng.random() < 0.01 and not self.is_missing):
                statements.append(text)
                self.names += [n for n in re.findall(r"^(v\d+) = ", text, re.M) if n not in self.names]
        return Program(tuple(statements), self._calls(first), self.seed)

    def _runs(self, text: str) -> bool:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                exec(text, self.scope)
            except AttributeError:
                self.is_missing = True
                return False
            except Exception:
                return False
        return True

    def _calls(self, first: Call) -> tuple[Call, ...]:
        values = [n for n in self.names if n.startswith("v")]
        call = replace(first, keep=self._kept(values))
        calls = [call]
        for _ in range(self.rng.randint(2, 5)):
            if self.rng.random() < 0.75:
                call = replace(call, p1="keep", hooks="none")
                for name in self.rng.sample([*CHOICES, "keep"], self.rng.randint(1, 3)):
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

    def index(self, v: str) -> str:
        return self.rng.choice(INDICES).format(v=v)

    def value(self) -> str:
        """An expression."""
        a, b, k = self.any(), self.any(), self.number()
        return self.pick(
            f"{a}.{self.rng.choice(UNARY)}()", f"{a}.tanh().exp()", f"{a} + {b}", f"{a} * {b}", f"{a} - {b}",
            f"{a} / ({b} * {b} + 1)", f"{a} * {k}", f"{k} - {a}", f"{a} + {k}", f"{a} / 3", f"{a} ** 2",
            f"lib.maximum({a}, {b})", f"lib.where({a} > {b}, {a}, {b})", f"{a}.clamp(-0.5, 0.5)", f"({a} > {k}) * {b}",
            f"{a}.{self.rng.choice(REDUCTIONS)}", f"{a}{self.rng.choice(VIEWS)}", f"{a}{self.rng.choice(VIEWS)}",
            f"{a} @ {b}", f"{a} @ s.p0", f"lib.cat([{a}, {b}])", f"lib.stack([{a}, {b}])",
            f"{a} @ {a}.transpose(-1, -2)", f"{a}{self.index(a)}", f"{a}{self.index(a)}",
            f"lib.where({a} > 0, {a}, {k})", f"{a}.expand(2, *{a}.shape)", f"lib.zeros({a}.shape, dtype=lib.float64)",
            f"{a}.masked_fill({a} > 0, {k})", f"{a}.index_select(0, s.i0)",
        )  # fmt: skip

    def assign(self) -> str:
        return f"{self.fresh()} = {self.value()}"

    def reassign(self) -> str:
        return f"{self.temporary()} = {self.value()}"

    def update(self) -> str:
        p = self.parameter()
        optimizer = self.pick("s.sgd", "s.momentum", "s.adam")
        return self.pick(
            f"with lib.no_grad(): {p}.mul_(0.9)",
            f"if {p}.grad is not None:\n    with lib.no_grad(): {p} -= s.a0 * {p}.grad",
            f"with lib.no_grad(): {p} += {self.any()}.detach().sum() * 0.01",
            f"{p}.detach().add_(0.1)", f"{p}.detach()[0] = {self.number()}",
            f"with lib.no_grad(): {p}.copy_({p}.flip(0))", f"with lib.no_grad(): {p}[1:] *= {self.number()}",
            f"{optimizer}.step()", f"{optimizer}.step()\n{optimizer}.zero_grad()",
            f"{optimizer}.zero_grad(set_to_none=False)", f"{p}.data.mul_(0.5)", f"{p}.data = {p}.data * 2",
            f"with lib.no_grad(): {p}.t().mul_({self.number()})",
        )  # fmt: skip

    def write(self) -> str:
        v, b, k, i = self.temporary(), self.any(), self.number(), self.index("{v}")
        i = i.format(v=v)
        return self.pick(
            f"{v}.add_({b})", f"{v}.mul_({k})", f"{v}[0] = {k}", f"{v}[:1] += {b}", f"{v}.zero_()", f"{v} *= {b}",
            f"{v}.copy_({b})", f"{v}.transpose(0, -1).mul_({k})", f"{v}.view(-1)[0] = 2.0", f"{v}.tanh_()",
            f"with lib.no_grad(): {v}.mul_({k})", f"{v}[0] = {b}[0]", f"{v}.detach().mul_({k})", f"s.x0.mul_({k})",
            f"{v}{i} = {k}", f"{v}{i} = {b}", f"{v}{i} *= {k}", f"{v}{i} += {b}",
            f"out.append({v}.is_leaf)\n{v}.masked_fill_({v} > 0, {k})",
            f"{v}.index_add_(0, s.i0, {b})", f"{v}.diagonal().mul_({k})", f"{v}.narrow(0, 0, 1).fill_({k})",
            f"{v}.unbind()[0].mul_({k})", f"{v}.chunk(2)[0].add_({k})", f"{v}.data.mul_({k})", f"{v}.data = {b}.data",
            f"{v}.detach_()", f"{v}.sub_({b}, alpha=2)", f"{v}.clamp_(-0.5, 0.5)", f"{v}.sigmoid_()", f"{v}.relu_()",
            f"{v}.unsqueeze(0).add_({b})", f"{v}.fill_({k})", f"{v}.exp_()", f"{v}.addcmul_({b}, {b})",
            f"s.y0.mul_({k})", f"{v}.t()[0] = {b}[0]", f"{v}.scatter_(0, s.i0, {k})", f"{v}.unsqueeze_(0)",
            f"{v}.requires_grad_(False)", f"{v}.requires_grad_()", f"{v}.t_()",
        )  # fmt: skip

    def views(self) -> str:
        """Views that are kept, written and looked at: the interplay is what can be wrong."""
        a, b, k = self.any(), self.any(), self.number()
        x, y = self.fresh(), self.fresh()
        view = self.rng.choice(VIEWS)
        return self.pick(
            f"{x} = {a} * 1\n{y} = {x}{view}\n{x}.mul_({k})",
            f"{x} = {a} * 1\n{y} = {x}{view}\n{y}.add_({b})",
            f"{x} = {a}.clone()\n{y} = {x}{view}\n{y}[0] = {b}[0]\n{x} = {x} * 2",
            f"{x}, {y} = ({a} * 1).unbind()[:2]\n{x}.mul_({k})",
            f"{x}, {y} = ({a} + 0).chunk(2)",
            f"{x} = {a} * 1\nwith lib.no_grad(): {y} = {x}{view}\n{y}.mul_({k})",
            f"{x} = lib.zeros(4, 4, dtype=lib.float64)\n{y} = {x}{view}\n{y}.add_({b})",
            f"{x} = lib.zeros(4, dtype=lib.float64)\n{x}[1:3] = {b}[:2]\n{y} = {x} * {x}",
        )  # fmt: skip

    def differentiate(self) -> str:
        v, w, p, p2 = self.any(), self.any(), self.parameter(), self.pick("s.p0", "s.p1", "s.x0", self.temporary())
        g = self.fresh()
        # the gradient of an expanded tensor may be expanded itself: writes to that are not compared. A gradient that is
        # given to backward() is a clone: torch makes what it is given ``.grad``, though it be the leaf's own memory
        zero = f"{g} = {g}.contiguous() if {g} is not None else lib.zeros(1)"
        return self.pick(
            f"{v}.sum().backward()", f"({v} * {v}).sum().backward()", f"{v}.sum().backward(retain_graph=True)",
            f"({v} * {v}).mean().backward(create_graph=True)", f"({v}.sin() * {p}.sum()).sum().backward()",
            f"{g} = lib.autograd.grad(({v} * {p}.sum()).sum(), {p}, create_graph=True)[0].contiguous()",
            f"{g} = lib.autograd.grad(({v} * {v}).sum(), {p2}, create_graph=True, allow_unused=True)[0]\n{zero}",
            f"{g} = lib.autograd.grad({v}.sin().sum(), {p2}, retain_graph=True, allow_unused=True)[0]\n{zero}",
            f"if {v}.requires_grad: {v}.sum().backward()", f"{v}.backward(lib.ones_like({v}), retain_graph=True)",
            f"({v} * {v}).sum().backward(inputs=[{p}])", f"{v}.sum().backward(inputs=[{p}, {w}], retain_graph=True)",
            f"lib.autograd.backward([{v}.sum(), ({w} * {w}).sum()])",
            f"lib.autograd.backward([{v}, {w}], [{v}.detach().clone(), lib.ones_like({w})], retain_graph=True)",
            f"{g} = lib.autograd.grad([{v}.sum(), {w}.cos().sum()], [{p}], allow_unused=True, retain_graph=True)[0]\n"
            f"{zero}",
        )  # fmt: skip

    def second(self) -> str:
        """Gradients of gradients."""
        v, p, k = self.any(), self.pick("s.p0", "s.p1", "s.p0", self.any()), self.number()
        g, h, q = self.fresh(), self.fresh(), self.fresh()
        grad = f"lib.autograd.grad(({v}.sin() * {p}.sum()).sum(), {p}, create_graph=True)[0]"
        return self.pick(
            f"{g} = {grad}\n(({g} * {g}).sum() + {v}.sum()).backward()",
            f"{g} = {grad}\n{h} = lib.autograd.grad(({g} * {g}).sum(), {p}, create_graph=True)[0]\n"
            f"{h} = {h}.contiguous()\n{h}.sum().backward()",
            f"{g} = {grad}\n{h} = lib.autograd.grad({g}.sin().sum(), {p}, create_graph=True)[0]\n"
            f"{q} = lib.autograd.grad({h}.sin().sum(), {p}, create_graph=True)[0].contiguous()",
            f"{q} = {p} - {k} * {grad}\n({q} * {q}).sum().backward()",
            f"{g} = s.p0\nfor _ in range(s.n0):\n    {h} = (s.x0 @ {g}).square().mean()\n"
            f"    {g} = {g} - s.a0 * lib.autograd.grad({h}, {g}, create_graph=True)[0]\n"
            f"(s.x0 @ {g}).sin().mean().backward()",
            f"({v} * {v}).sum().backward(create_graph=True)\n{g} = {p}.grad * 1\n{p}.grad = None\n"
            f"{g}.sum().backward()",
        )  # fmt: skip

    def hook(self) -> str:
        v, p, k, w = self.any(), self.parameter(), self.number(), self.any()
        handle, nr = self.fresh(), self.count
        body = self.pick(
            f"s.log.append(({nr}, float(g.sum())))", f"g * {k}", f"s.log.append({nr})", "s.log.append(g * 1)",
            "g * 2 if g.sum() > 0.01 else None", f"s.log.append(({nr}, g.shape == {v}.shape))", "g.clamp(-0.1, 0.1)",
            f"g * {w}.detach().sum()", f"g + {w}.sum()", f"s.log.append(({nr}, g.requires_grad))", "g.sin()",
        )  # fmt: skip
        register = f"{v}.register_hook(lambda g: {body})"
        # PyTorch crashes where a view is hooked in no_grad mode, or a view whose base has got a graph by a write
        can = f"if lib.is_grad_enabled() and {v}.requires_grad and ({v}.is_leaf or {v}.grad_fn):"
        return self.pick(
            f"{can} {register}", f"{can} {register}", f"{can} {register}",
            f"{can}\n    h{nr} = {register}\n    {v}.sum().backward(retain_graph=True)\n"
            f"    h{nr}.remove()",
            f"{can} s.handles.append({register})", "if len(s.handles) > 1: s.handles.pop(0).remove()",
            f"{can} {v}.retain_grad()", f"{handle} = {v} * 2\nif {handle}.requires_grad: {handle}.retain_grad()",
            f"s.handles.append({p}.register_post_accumulate_grad_hook(lambda p: s.log.append({nr})))",
            f"s.handles.append({p}.register_post_accumulate_grad_hook(lambda p: s.log.append(float(p.grad.sum()))))",
            f"def f{nr}(p): p.grad.mul_({k})\ns.handles.append({p}.register_post_accumulate_grad_hook(f{nr}))",
            f"def f{nr}(p):\n    with lib.no_grad(): p.sub_(0.1 * p.grad)\n    p.grad = None\n"
            f"s.handles.append({p}.register_post_accumulate_grad_hook(f{nr}))",
            f"if {v}.grad_fn is not None: {v}.grad_fn.register_prehook(lambda g: s.log.append(({nr}, len(g))))",
            f"if {v}.grad_fn is not None: {v}.grad_fn.register_prehook(lambda g: tuple(x * {k} for x in g))",
            f"if {v}.grad_fn is not None:\n    {v}.grad_fn.register_hook(lambda i, o: s.log.append({nr}))",
            f"if {v}.grad_fn is not None:\n    {v}.grad_fn.register_hook("
            f"lambda i, o: tuple(None if x is None else x * {k} for x in i))",
            f"if {v}.grad_fn is not None:\n    {v}.grad_fn.register_hook("
            f"lambda i, o: s.log.append([float(x.sum()) for x in o if x is not None]))",
        )  # fmt: skip

    def saved_hooks(self) -> str:
        """Saved-tensor hooks, checkpoints, custom functions."""
        v, w, name, k = self.any(), self.any(), self.fresh(), self.number()
        nr = self.count
        hooks = self.pick(
            "lambda t: t * 1, lambda t: t", f"lambda t: s.log.append({nr}) or t, lambda t: s.log.append(-{nr}) or t",
            "lambda t: t.detach().numpy().copy(), lambda t: lib.tensor(t)", "lambda t: t.detach(), lambda t: t * 1",
        )  # fmt: skip
        function = (
            f"class F{nr}(lib.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, y):\n"
            f"        ctx.save_for_backward(x, y)\n        return {self.pick('x * y', 'x.sin() * y', 'x * 2 + y')}\n"
            f"    @staticmethod\n    def backward(ctx, g):\n        x, y = ctx.saved_tensors\n"
            f"        return {self.pick('g * y, g * x', 'g * x.cos() * y, g * x.sin()', '(g * 2).sin(), g')}\n"
            f"{name} = F{nr}.apply({v}, {v}{self.pick('', ' * 2', '.detach()')})"
        )
        inplace = (
            f"class F{nr}(lib.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
            f"        ctx.mark_dirty(x)\n        return x.mul_(3)\n"
            f"    @staticmethod\n    def backward(ctx, g):\n        return g * 3\n"
            f"{name} = {v} * 1\n{self.pick('', f'v0 = {name}[0]' + chr(10))}F{nr}.apply({name})"
        )
        reading = (
            f"class F{nr}(lib.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, k):\n"
            f"        ctx.k = k\n        return x * k, (x > 0).sum()\n"
            f"    @staticmethod\n    def backward(ctx, g, h):\n        s.log.append(float(g.sum()))\n"
            f"        return g * ctx.k, None\n"
            f"{name} = F{nr}.apply({v}, {k})[0]"
        )
        checkpoint = (
            f"{name} = lib.utils.checkpoint.checkpoint(lambda x: (x.sin() * {w}).tanh(), {v}, use_reentrant=False)"
        )
        return self.pick(
            f"with lib.autograd.graph.saved_tensors_hooks({hooks}):\n    {name} = ({v} * {w}).sin()",
            f"with lib.autograd.graph.saved_tensors_hooks({hooks}):\n    {name} = {self.value()}",
            function, function, inplace, reading, checkpoint, checkpoint.replace("False", "True"),
            f"with lib.autograd.set_detect_anomaly(True): {v}.sum().backward(retain_graph=True)",
            f"with lib.autograd.graph.save_on_cpu():\n    {name} = {v}.sin() * {w}",
            f"with lib.autograd.graph.allow_mutation_on_saved_tensors():\n    {name} = {v} * 1\n"
            f"    u = {name}.sin() * {w}\n    {name}.mul_({k})\n    u.sum().backward()",
            f"{name} = {v} * 1\nu = {w}.sin()\nif {name}.requires_grad and u.requires_grad:\n    lib.autograd.graph."
            f"register_multi_grad_hook([{name}, u], lambda g: s.log.append([x is None for x in g]))\n"
            f"    ({name}.sum() + u.sum()).backward()",
        )  # fmt: skip

    def transform(self) -> str:
        """Functional transforms, forward-mode derivatives, batched gradients."""
        v, w, name = self.any(), self.any(), self.fresh()
        body = self.pick("x.sin() * 2", f"x * {w}", "x * x + 1", "(x @ s.p0).tanh()", "x.exp()[0]", "x.cumsum(0)")
        forward = "lib.autograd.forward_ad"
        return self.pick(
            f"{name} = lib.func.grad(lambda x: ({body}).sum())({v})",
            f"{name} = lib.func.vjp(lambda x: {body}, {v})[1](lib.ones_like({v}))[0]",
            f"{name} = lib.func.jvp(lambda x: {body}, ({v} * 1,), (lib.ones_like({v} * 1),))[1].detach()",
            f"{name} = lib.func.vmap(lambda x: x.sin().sum() * s.a0)({v})",
            f"{name} = lib.func.vmap(lib.func.grad(lambda x: (x * x).sin().sum()))({v})",
            f"{name} = lib.func.grad(lambda x: lib.func.grad(lambda y: (y ** 3).sum())(x).sum())({v}.detach() * 1)",
            f"{name} = lib.autograd.functional.jacobian(lambda x: {body}, {v}.detach())",
            f"{name} = lib.autograd.functional.hvp(lambda x: (x ** 3).sum(), {v}.detach(), lib.ones_like({v}))[1]",
            f"with {forward}.dual_level():\n    d = {forward}.make_dual({v}, lib.ones_like({v}))\n"
            f"    {name} = {forward}.unpack_dual(d.sin() * {w})[1]",
            f"{name} = lib.autograd.grad(s.p1 * s.p1 * {v}.sum(), s.p1, lib.ones(2, *s.p1.shape, dtype=s.p1.dtype), "
            f"is_grads_batched=True, retain_graph=True)[0]",
        )  # fmt: skip

    def layer(self) -> str:
        v, name = self.any(), self.fresh()
        return self.pick(
            f"{name} = lib.nn.functional.linear({v}, s.p0, s.p1)", f"{name} = lib.nn.functional.gelu({v})",
            f"{name} = lib.nn.functional.layer_norm({v}, ({v}.shape[-1],))",
            f"{name} = lib.nn.functional.mse_loss({v}, {self.any()})",
            f"{name} = lib.nn.functional.embedding(s.i0, s.p0)",
            f"{name} = lib.nn.functional.cross_entropy({v}[:3], s.i0)", f"{name} = {v}.log_softmax(-1)",
        )  # fmt: skip

    def gradients(self) -> str:
        p, v = self.parameter(), self.any()
        return self.pick(
            f"{p}.grad = None",
            f"{self.fresh()} = {p}.grad if {p}.grad is not None else {p}.detach()",
            f"if {p}.grad is not None: {p}.grad.zero_()", f"if {p}.grad is not None: {p}.grad.mul_(0.5)",
            f"{p}.grad = {p}.detach() * 2", f"out.append({p}.grad is None)", f"out.append({v}.grad)",
            f"if {p}.grad is not None: {p}.grad.detach_()", f"if {p}.grad is not None: {p}.grad[0] = s.a0",
        )  # fmt: skip

    def read(self) -> str:
        v = self.any()
        return self.pick(
            f"out.append({v}.sum().item())", f"out.append(float({v}.detach().mean()))", f"repr({v})",
            f"out.append({v}.detach().numpy().copy())", f"out.append(bool(({v} > 0).any()))",
            f"out.append({v}.tolist())", f"out.append({self.parameter()}._version)", f"out.append({v}.output_nr)",
            f"out.append({v}.requires_grad)", f"out.append({v}.is_leaf)", f"out.append({v}.grad_fn is None)",
            f"out.append(tuple({v}.shape))",
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
            f"{name}[:1].mul_(s.a0)", f"{name}.add_({self.any()})",
        )  # fmt: skip
        return f"{name} = {v} * 1.5\nfor _ in range(s.n0):\n    {body}"

    def modes(self) -> str:
        name, a = self.fresh(), self.any()
        return self.pick(
            f"with lib.no_grad():\n    {name} = {self.value()}",
            f"with lib.enable_grad():\n    {name} = {self.value()}",
            f"with lib.set_grad_enabled(s.n0 > 1):\n    {name} = {self.value()}",
            f"with lib.inference_mode():\n    {name} = {self.value()}",
            f"{name} = {a}.detach().requires_grad_()", f"{name} = lib.ones(4, dtype=lib.float64, requires_grad=True)",
            f"{name} = {a}\n{name} = {name}.detach()", f"lib.set_grad_enabled({self.pick('s.n0 != 1', 'True')})",
            f"with lib.no_grad():\n    {name} = {a} * 1\n    {name}.requires_grad_()",
        )  # fmt: skip

    def error(self) -> str:
        """Something that raises, now or at other calls."""
        v = self.any()
        return self.pick(
            f"try: {v} @ s.x0 @ s.x0 @ {v}\nexcept RuntimeError: out.append('error')",
            "if s.n0 == 3: raise ValueError", f"if s.n0 == 0: {v}.view(7, 7)",
            f"try: {v}.sum().backward()\nexcept RuntimeError as e: out.append(type(e).__name__)",
            f"try: {v}[s.n0 + 1]\nexcept IndexError: out.append('index')",
            f"try: s.p0.mul_({v})\nexcept RuntimeError: out.append('leaf')",
        )  # fmt: skip

    def forget(self) -> str:
        name = self.temporary()
        return f"{name} = {name}.sum()"


STATEMENTS: tuple[tuple[Callable[[Generator], str], int], ...] = (
    (Generator.assign, 40),
    (Generator.reassign, 4),
    (Generator.update, 8),
    (Generator.write, 11),
    (Generator.views, 6),
    (Generator.differentiate, 13),
    (Generator.second, 4),
    (Generator.hook, 9),
    (Generator.saved_hooks, 5),
    (Generator.transform, 3),
    (Generator.layer, 3),
    (Generator.gradients, 5),
    (Generator.read, 6),
    (Generator.branch, 5),
    (Generator.loop, 4),
    (Generator.modes, 5),
    (Generator.error, 2),
    (Generator.forget, 2),
)


def generate(seed: int) -> Program:
    """The program of a seed."""
    return Generator(seed).program()
