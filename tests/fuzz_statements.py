"""Random programs: which statements there are, and drawing them.

Owns: ``generate``, the tables of statements. Must not know: how programs are run and compared (``fuzz``).

A statement that does not run eagerly on the first call's inputs is drawn again, so most programs get far; a few keep
one that raises.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import jitgrad

if __package__:
    from tests.fuzz_draws import OPTIMIZERS, VIEWS
    from tests.fuzz_graph_statements import GraphStatements
    from tests.fuzz_programs import CHOICES, Call, Program
else:
    from fuzz_draws import OPTIMIZERS, VIEWS
    from fuzz_graph_statements import GraphStatements
    from fuzz_programs import CHOICES, Call, Program

__all__ = ["generate"]

class Generator(GraphStatements):
    """Draws statements."""

    def program(self) -> Program:
        first = Call()
        # every optimizer is there to be tried; the program makes those that it uses
        trial = Program((", ".join(OPTIMIZERS),), (first,), self.seed)
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

    def assign(self) -> str:
        return f"{self.fresh()} = {self.value()}"

    def reassign(self) -> str:
        return f"{self.temporary()} = {self.value()}"

    def update(self) -> str:
        p = self.parameter()
        optimizer = self.pick(*OPTIMIZERS)
        return self.pick(
            f"with lib.no_grad(): {p}.mul_(0.9)",
            f"if {p}.grad is not None:\n    with lib.no_grad(): {p} -= s.a0 * {p}.grad",
            f"with lib.no_grad(): {p} += {self.any()}.detach().sum() * 0.01",
            f"{p}.detach().add_(0.1)", f"{p}.detach()[0] = {self.number()}",
            f"with lib.no_grad(): {p}.copy_({p}.flip(0))", f"with lib.no_grad(): {p}[1:] *= {self.number()}",
            f"{optimizer}.step()", f"{optimizer}.step()\n{optimizer}.zero_grad()",
            f"{optimizer}.zero_grad(set_to_none=False)", f"{p}.data.mul_(0.5)", f"{p}.data = {p}.data * 2",
            f"with lib.no_grad(): {p}.t().mul_({self.number()})",
            f"for group in {optimizer}.param_groups: group['lr'] = abs(s.a0) / 4\n{optimizer}.step()",
            f"for group in {optimizer}.param_groups: group['weight_decay'] = s.n0 * 0.01\n{optimizer}.step()",
            f"{self.pick('s.sgd', 's.momentum')}.param_groups[0]['momentum'] = {self.pick('0.5', 's.n0 * 0.2')}\n"
            "s.momentum.step()",
            f"s.adam.param_groups[0]['betas'] = ({self.pick('0.5', 'abs(s.a0) / 3')}, 0.99)\ns.adam.step()",
            f"{optimizer}.step()\n{optimizer}.zero_grad(set_to_none=s.n0 > 1)",
            f"def closure():\n    {optimizer}.zero_grad()\n    loss = ({p}.sin() * {p}).sum()\n    loss.backward()\n"
            f"    return loss\nout.append(float({optimizer}.step(closure)))",
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
            f"{v}.unbind()[0].mul_({k})", f"{v}.chunk(2)[0].add_({k})", f"{v}.data.mul_({k})",
            # a leaf whose older graph lives has a gradient of the older shape, which PyTorch spreads over the new one
            f"if {v}.shape == {b}.shape or not ({v}.is_leaf and {v}.requires_grad): {v}.data = {b}.data",
            f"{v}.detach_()", f"{v}.sub_({b}, alpha=2)", f"{v}.clamp_(-0.5, 0.5)", f"{v}.sigmoid_()", f"{v}.relu_()",
            f"{v}.unsqueeze(0).add_({b})", f"{v}.fill_({k})", f"{v}.exp_()", f"{v}.addcmul_({b}, {b})",
            f"s.y0.mul_({k})", f"{v}.t()[0] = {b}[0]", f"{v}.scatter_(0, s.i0, {k})", f"{v}.unsqueeze_(0)",
            f"{v}.requires_grad_(False)", f"{v}.requires_grad_()", f"{v}.t_()",
        )  # fmt: skip

    def views(self) -> str:
        """Views that are kept, written and looked at: the interplay is what can be wrong."""
        a, b, k, p = self.any(), self.any(), self.number(), self.parameter()
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
            f"{x} = {a} * 1\n{y} = {x}{view}\n{x}.mul_({y})\n{x}.add_({y})",
            f"{y} = {p}{view}\nwith lib.no_grad():\n    {p}.mul_({y})\n    {p}.add_({y}, alpha=0.1)",
        )  # fmt: skip

    def layer(self) -> str:
        v, name = self.any(), self.fresh()
        return self.pick(
            f"{name} = lib.nn.functional.linear({v}, s.p0, s.p1)", f"{name} = lib.nn.functional.gelu({v})",
            f"{name} = lib.nn.functional.layer_norm({v}, ({v}.shape[-1],))",
            f"{name} = lib.nn.functional.mse_loss({v}, {self.any()})",
            f"{name} = lib.nn.functional.embedding(s.i0, s.p0)",
            f"{name} = lib.nn.functional.cross_entropy({v}[:3], s.i0)", f"{name} = {v}.log_softmax(-1)",
            f"{name} = lib.nn.functional.silu({v})", f"{name} = lib.nn.functional.softplus({v})",
            f"{name} = lib.nn.functional.smooth_l1_loss({v}, {self.any()})", f"{name} = lib.nn.functional.elu({v})",
            f"{name} = lib.nn.functional.binary_cross_entropy_with_logits({v}, {v}.detach().sigmoid())",
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
            f"{name} = {a}\n{name} = {name}.detach()",
            f"lib.set_grad_enabled({self.pick('s.n0 != 1', 'True', 's.a0 > 0')})",
            f"with lib.no_grad():\n    {name} = {a} * 1\n    {name}.requires_grad_()",
        )  # fmt: skip

    def numpy_memory(self) -> str:
        """NumPy sees, and writes, the memory of a value between two statements."""
        v, name, other, k = self.any(), self.fresh(), self.fresh(), self.pick("7", "s.a0", "-1.5")
        array = f"a{self.count}"
        where = self.pick("...", "0", "0", "..., 0")
        return self.pick(
            f"{name} = {v} * 1\n{array} = {name}.detach().numpy()\n{other} = {name} * 2\n{array}[{where}] = {k}",
            f"{name} = {v}.detach() * 1\n{other} = {name}.sin()\n{array} = {name}.numpy()\n{array}[{where}] = {k}\n"
            f"{other} = {other} + {name}",
            f"{array} = {self.parameter()}.detach().numpy()\n{name} = {v} * 2\n{array} *= 0.5\n{other} = {name} + s.p0",
            f"{name} = {v}.detach() * 1\n{array} = {name}.numpy()\n{name}.add_({k})\nout.append({array}.copy())",
            f"{array} = np.full({v}.shape, 0.25)\n{name} = lib.from_numpy({array})\n{other} = {name} + {v}\n"
            f"{array}[{where}] = {k}",
        )

    def unused(self) -> str:
        """Values that nobody uses, and which raise at some calls."""
        v, k = self.any(), self.pick("s.n0", "s.n0 - 2", "s.n0 * 2")
        statement = self.pick(
            f"lib.nn.functional.embedding(s.i0 + {k}, s.p0)", f"{v}.index_select(0, s.i0 + {k})",
            f"{v}[s.i0 + {k}]", f"s.p0.gather(0, (s.i0 + {k})[None])", f"s.p0.index_add(0, s.i0 + {k}, s.p0[:3])",
            f"lib.nn.functional.cross_entropy(s.p0[:3], s.i0 + {k})",
            f"lib.nn.functional.binary_cross_entropy({v}.sigmoid() * s.n0 * 0.6, {v}.detach().sigmoid())",
            f"lib.nn.functional.one_hot(s.i0 + {k}, 5)",
        )  # fmt: skip
        errors = "(IndexError, RuntimeError)"
        return self.pick(statement, f"try: {statement}\nexcept {errors}: out.append('raised')")

    def interrupted(self) -> str:
        """An exception in the middle of a step, which the step catches."""
        v, w, name, k = self.any(), self.any(), self.fresh(), self.number()
        raising = f"h{self.count} = {name}.register_hook(lambda g: g / (1 // 0))"
        return self.pick(
            f"try:\n    {name} = {self.value()}\n    if s.n0 > 1: raise KeyError('x')\n    {name} = {name} * {k}\n"
            "except KeyError: out.append('caught')",
            f"{name} = {v} * 1\ntry:\n    {name}.mul_({k})\n    {name}.add_(lib.ones(7, 7))\n"
            "except RuntimeError: out.append('shapes')",
            f"{name} = {v} * 1\ntry:\n    {name}.add_({w})\n    {name}.view(7, 7)\n"
            f"except RuntimeError: {name} = {name} * 2",
            f"{name} = {v} * {w}\nif {name}.requires_grad:\n    {raising}\n    try: {name}.sum().backward()\n"
            "    except ZeroDivisionError: out.append('hook')",
            f"{name} = {v}.sin() * {w}\ntry: {name}.backward()\nexcept RuntimeError: {name}.sum()",
            f"try:\n    with lib.no_grad():\n        {self.parameter()}.mul_(0.9)\n        raise KeyError\n"
            "except KeyError: out.append(lib.is_grad_enabled())",
            f"{name} = {v} * 1\ntry: out.append(float({name} * {w}))\n"
            f"except (RuntimeError, ValueError): {name} = {name} + 1",
        )

    def long_loop(self) -> str:
        """Many operations; some write, some differentiate."""
        v, name = self.any(), self.fresh()
        times = self.pick("40", "60 + s.n0", "25 * s.n0")
        body = self.pick(
            f"{name} = {name}.sin() + 0.1", f"{name} = ({name} * 0.9).tanh()", f"{name}.mul_(0.95).add_(0.01)",
            f"{name} = {name} - 0.01 * lib.autograd.grad(({name} * {name}).sum(), {name})[0]\n"
            f"    {name} = {name}.detach().requires_grad_()",
            f"{name}[:1] = {name}[:1] * 0.5",
            f"{name} = {name} * 0.99\n    if i == 20: out.append({name}.sum().item())",
        )
        return f"{name} = ({v} * 0.5).detach().requires_grad_() * 1\nfor i in range({times}):\n    {body}"

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
    (Generator.numpy_memory, 2),
    (Generator.unused, 3),
    (Generator.interrupted, 4),
    (Generator.long_loop, 1),
    (Generator.forget, 2),
)


def generate(seed: int) -> Program:
    """The program of a seed."""
    return Generator(seed).program()
