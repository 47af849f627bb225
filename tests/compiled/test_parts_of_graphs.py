"""Arguments that are parts of a tensor with a graph: Note [Parts of a graph's tensors]."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import Tensor, nn, stats
from jitgrad.compiled import native_eager

Step = Callable[..., Any]


def same(step: Step) -> Step:
    return step


def sequence(length: int = 40) -> Tensor:
    return jg.arange(3.0 * length).reshape(length, 3).cos().requires_grad_()


def counted(run: Callable[[], object], *names: str) -> list[int]:
    before = stats()
    run()
    after = stats()
    return [after[name] - before[name] for name in names]


@pytest.mark.parametrize(
    "parts", [lambda x: x.unbind(), lambda x: [x[t] for t in range(len(x))]], ids=["unbind", "index"]
)
def test_a_cell_over_the_steps_of_a_sequence_is_one_path(parts: Any) -> None:
    """Each step begins elsewhere in the storage of what the embedding has made."""
    native_eager.install()
    w = jg.eye(3).requires_grad_()

    def train(wrap: Callable[[Step], Step]) -> Any:
        cell = wrap(lambda x, h: (x @ w + h).tanh())
        x = sequence()

        def run() -> None:
            h = jg.zeros(3)
            for row in parts(x * 2):
                h = cell(row, h)
            h.sum().backward()

        for _ in range(3):
            x.grad = w.grad = None
            counts = counted(run, "traces", "misses", "outside_backwards", "compiles")
        return counts, x.grad.numpy().copy(), w.grad.numpy().copy()

    _, want_x, want_w = train(same)
    counts, x, w_grad = train(jg.compile)
    assert counts == [40, 0, 40, 0]
    np.testing.assert_allclose(x, want_x, rtol=1e-5)
    np.testing.assert_allclose(w_grad, want_w, rtol=1e-5)


def test_a_compiled_lstm_cell() -> None:
    def train(wrap: Callable[[Any], Any]) -> Any:
        jg.manual_seed(0)
        embed, cell, head = nn.Embedding(7, 5), nn.LSTMCell(5, 6), nn.Linear(6, 2)
        optimizer = jg.optim.SGD([*embed.parameters(), *cell.parameters(), *head.parameters()], lr=0.1)
        step = wrap(cell)
        words = jg.tensor([[0, 3, 2, 6], [1, 1, 5, 4]])
        losses = []
        for _ in range(4):
            x, state = embed(words), (jg.zeros(2, 6), jg.zeros(2, 6))
            for t in range(4):
                state = step(x[:, t], state)
            loss = nn.functional.cross_entropy(head(state[0]), jg.tensor([1, 0]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    np.testing.assert_allclose(train(jg.compile), train(same), rtol=1e-6)


WRITES: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "the part": lambda x, base, w: x.mul_(2.0),
    "the part, by what has a graph": lambda x, base, w: x.mul_(w),
    "a view of the part": lambda x, base, w: x[1:].add_(1.0),
    "a view of the part, by what has a graph": lambda x, base, w: x[1:].mul_(w[1:]),
    "the base": lambda x, base, w: base.mul_(0.5),
    "the base, by what has a graph": lambda x, base, w: base.mul_(w),
}


@pytest.mark.parametrize("when", ["first", "later", "after a use", "before the use"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_change_both_histories(write: Any, when: str) -> None:
    def step(x: Tensor, base: Tensor, w: Tensor, nr: int) -> Tensor:
        y = (x * 2 + w).sum() if when != "before the use" else 0.0
        if when == "first" or nr >= 3:
            write(x, base, w)
        return y + (x * w).sum() if when != "first" else y + x.sum()

    def run(step: Step) -> list[Any]:
        w, found = jg.arange(3.0).requires_grad_(), []
        for nr in range(6):
            source = sequence(6)
            base = source + 1
            part = base[nr % 5 + 1]
            out = step(part, base, w, nr)
            (out + (part * 3).sum() + (base * base).sum()).backward()
            found += [out.detach(), part.detach(), base.detach(), source.grad, w.grad]
            source.grad = w.grad = None
        return [x.numpy().copy() for x in found]

    for got, want in zip(run(jg.compile(step)), run(step), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_views_of_the_part_are_views_of_the_base_after_a_write() -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        whole, tail = x[:], x[1:]
        before = whole + w
        x.mul_(w)
        return (tail * tail).sum() + whole.sum() + before.sum()

    def run(step: Step) -> list[Any]:
        w, found = jg.arange(3.0).requires_grad_(), []
        for nr in range(5):
            source = sequence(6)
            base = source + 1
            (step(base[nr], w) + (base * base).sum()).backward()
            found += [source.grad, w.grad]
            w.grad = None
        return [x.numpy().copy() for x in found]

    for got, want in zip(run(jg.compile(step)), run(step), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("write", [lambda v: v.mul_(3.0), lambda v: None], ids=["written", "not written"])
@pytest.mark.parametrize("result", [lambda v: v, lambda v: (v, 1), lambda v: [v], lambda v: {"v": v}])
def test_results_that_are_the_part_or_views_of_it(result: Any, write: Any) -> None:
    """Outside, they are views of the base as ever."""
    def run(wrap: Callable[[Step], Step]) -> list[Any]:
        step, found = wrap(lambda x, part: result(x if part else x[1:])), []
        for nr in range(6):
            source = sequence(6)
            base = source + 1
            x = base[nr % 3 + 1]
            got = step(x, nr % 2)
            v = got if isinstance(got, Tensor) else got["v"] if isinstance(got, dict) else got[0]
            assert v._base is base
            assert (v is x) == bool(nr % 2)
            write(v)
            ((base * base).sum() + (v * 2).sum()).backward()
            found += [v.detach().numpy().copy(), source.grad.numpy().copy()]
        return found

    for got, want in zip(run(jg.compile), run(same), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_the_gradient_of_the_argument_itself() -> None:
    def run(wrap: Callable[[Step], Step]) -> list[Any]:
        step, found = wrap(lambda x: (x * x).sum()), []
        for nr in range(5):
            base = sequence(6) * 2
            x = base[nr]
            x.retain_grad()
            out = step(x)
            (grad,) = jg.autograd.grad(out, x, retain_graph=True)
            out.backward()
            found += [grad.numpy().copy(), x.grad.numpy().copy()]
        return found

    for got, want in zip(run(jg.compile), run(same), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_gradient_that_the_function_retains_is_the_argument_s() -> None:
    def step(x: Tensor, nr: int) -> Tensor:
        if nr > 2:
            x.retain_grad()
        return (x * x).sum()

    def run(step: Step) -> list[Any]:
        found = []
        for nr in range(6):
            base = sequence(6) * 2
            x = base[nr]
            step(x, nr).backward()
            found.append(x.retains_grad and x.grad.tolist())
        return found

    assert run(jg.compile(step)) == run(step)


# --- random programs ---


class Program:
    """Random operations on a part of a tensor, another part of it, the whole, and a leaf; writes among them."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.length = rng.randint(1, 7)
        kinds = [rng.randrange(9) for _ in range(self.length)]
        self.lines = [(kind, rng.randrange(50), rng.randrange(50), rng.random()) for kind in kinds]
        self.branch = rng.randint(0, 4)

    def __call__(self, x: Tensor, y: Tensor, base: Tensor, w: Tensor, nr: int) -> Any:
        values = [x, y, x * w]
        for kind, i, j, share in self.lines:
            a, b = values[i % len(values)], values[j % len(values)]
            if kind == 0:
                values.append(a * b + w)
            elif kind == 1:
                values.append(a[:].sin())
            elif kind == 2:
                values.append(a.view(1, 3).t().reshape(3))
            elif kind == 3:
                values.append(a.detach() * b)
            elif kind == 4:
                values.append(jg.stack((a, b)).sum(0))
            elif kind == 5 and (share < 0.5 or nr > self.branch):
                a.mul_(0.5)
            elif kind == 6 and (share < 0.5 or nr > self.branch):
                a[1:].add_(w[1:])
            elif kind == 7 and (share < 0.5 or nr > self.branch):
                base.mul_(1.5)
            elif kind == 8 and share < 0.3:
                values.append(base.sum() * a)
        return values[-1], values[len(values) // 2]

    def observe(self, step: Step) -> list[Any]:
        """Values and gradients of calls with parts at changing places; the names of exceptions."""
        w, found = (jg.arange(3.0) + 0.5).requires_grad_(), []
        for nr in range(6):
            source = sequence(7)
            base = source * 0.7
            x, y = base[nr], base[(nr * 3 + 1) % 7]
            try:
                last, middle = step(x, y, base, w, nr)
                (last.sum() + middle.sum() * 0.5 + (base * base).sum() + (x * 0.1).sum()).backward()
            except RuntimeError as error:
                found.append(type(error).__name__)
            else:
                found += [last, middle, base, x, source.grad, w.grad]
            w.grad = None
        return [t if isinstance(t, str) or t is None else t.detach().numpy().copy() for t in found]


@pytest.mark.parametrize("seed", range(150))
def test_random_programs(seed: int) -> None:
    program = Program(seed)
    for got, want in zip(program.observe(jg.compile(program)), program.observe(program), strict=True):
        if isinstance(want, str) or want is None:
            assert isinstance(got, type(want))
        else:
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
