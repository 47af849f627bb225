"""Random programs of views, writes, reuse, hooks and second derivatives, on torch and on jitgrad, eager and compiled.

A failure names its seed; ``python tests/autograd/test_fuzz_graph.py 20000`` runs that many programs by hand, with
``compiled`` behind it as compiled steps.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[k]) for k in range(3)]

from modes import MODES, Mode
from parity import J, assert_same, plain, torch

UNARY = ("sin", "tanh", "exp", "sigmoid", "neg", "square", "clone", "relu", "abs")
STEPS = (
    "unary", "binary", "view", "view", "several", "write", "write", "write_places", "hook", "retain", "detach", "quiet",
    "quiet_view", "write_through",
)  # fmt: skip
UNARY_INPLACE = ("sin_", "tanh_", "sigmoid_", "neg_", "relu_")


class Program:
    """One random program: every choice depends on the seed and on shapes only, so both libraries take the same."""

    def __init__(self, lib: Any, seed: int, is_eager: bool = True) -> None:
        self.lib, self.rng, self.is_eager = lib, random.Random(seed), is_eager
        self.values = np.random.default_rng(seed)
        self.log: list[Any] = []
        self.leaves = [self.tensor((3, 4)), self.tensor((4,)), self.tensor((3, 1))]
        for x in self.leaves[: self.rng.randint(1, 3)]:
            x.requires_grad_()
        self.pool = list(self.leaves)

    def tensor(self, shape: tuple[int, ...]) -> Any:
        return self.lib.tensor(self.values.uniform(0.2, 1.0, shape), dtype=self.lib.float64)

    def pick(self) -> Any:
        return self.rng.choice(self.pool[-6:] + self.leaves)

    def partner(self, x: Any) -> Any:
        """A tensor that broadcasts to the shape of ``x``."""
        fitting = [y for y in self.pool if tuple(y.shape) in (tuple(x.shape), ()) or y.shape == x.shape]
        return self.rng.choice(fitting) if self.rng.random() < 0.7 else self.rng.uniform(0.5, 1.5)

    def step(self) -> None:
        name = self.rng.choice(STEPS)
        try:
            result = getattr(self, name)()
        except Exception as error:
            self.log.append((name, type(error).__name__))
            return
        if result is not None:
            self.pool.append(result)

    def unary(self) -> Any:
        return getattr(self.pick(), self.rng.choice(UNARY))()

    def binary(self) -> Any:
        x = self.pick()
        y = self.partner(x)
        return x * y if self.rng.random() < 0.5 else x + y

    def view(self) -> Any:
        x, kind = self.pick(), self.rng.randrange(7)
        if kind == 5 and x.ndim:
            return x[..., :: self.rng.randint(1, 2)]
        if kind == 6 and x.ndim < 3:
            return x.unsqueeze(0).expand(2, *x.shape)
        if kind == 0 and x.ndim:
            size = x.shape[0]
            start = self.rng.randrange(size) if size else 0
            return x.narrow(0, start, self.rng.randint(1, size - start))
        if kind == 1 and x.ndim == 2:
            return x.t()
        if kind == 2 and x.ndim:
            return x.select(-1, self.rng.randrange(x.shape[-1]))
        if kind == 3:
            return x.unsqueeze(0) if x.ndim < 3 else x.select(0, 0)
        return x.reshape(-1)

    def write(self) -> None:
        x, kind = self.pick(), self.rng.randrange(6)
        if kind == 0:
            getattr(x, self.rng.choice(UNARY_INPLACE))()
        elif kind == 1:
            x.mul_(self.partner(x))
        elif kind == 4:
            x[..., -1:] = self.rng.uniform(0.5, 1.5)
        elif kind == 5:
            y = self.pick()
            x[...] = y * 2
        elif kind == 2:
            x.add_(self.partner(x))
        else:
            other = self.partner(x)
            if not isinstance(other, float):
                x.copy_(other)

    def several(self) -> Any:
        """One of several views: it must not be written."""
        x = self.pick()
        if not x.ndim:
            return None
        parts = x.unbind(0) if self.rng.random() < 0.5 else x.chunk(2, -1)
        return self.rng.choice(parts)

    def write_places(self) -> None:
        x, kind = self.pick(), self.rng.randrange(4)
        if not x.ndim or 0 in x.stride():
            return  # some of these PyTorch does to expanded tensors, some not
        at = self.lib.tensor([self.rng.randrange(x.shape[0])])
        if kind == 0:
            x.index_fill_(0, at, 0.5)
        elif kind == 1:
            x[at] = 0.7
        elif kind == 2:
            x.masked_fill_(self.lib.tensor(self.rng.random() < 0.5), 0.3)
        else:
            x.index_add_(0, at, self.lib.ones(1, *x.shape[1:], dtype=self.lib.float64))

    def quiet_view(self) -> Any:
        """A view made in no_grad mode, which is ambiguous once anything is written."""
        if not self.is_eager:
            return None  # what is computed from it requires grad, to no effect; in a trace it does not
        x = self.pick()
        with self.lib.no_grad():
            return x.view(-1) if x.is_contiguous() else x.unsqueeze(0)

    def write_through(self) -> None:
        """A write that the graph does not see."""
        if self.rng.random() < 0.3:
            self.pick().detach().mul_(0.9)

    def hook(self) -> None:
        x, place = self.pick(), len(self.log)
        if not x.requires_grad or x.grad_fn is None:
            return  # torch crashes on some stale views that have no node yet
        if self.rng.random() < 0.5:
            x.register_hook(lambda g: self.log.append((place, plain(g))))
        else:
            x.register_hook(lambda g: None if g is None else g * 0.5)

    def retain(self) -> None:
        self.pick().retain_grad()

    def detach(self) -> Any:
        return self.pick().detach() if self.rng.random() < 0.3 else None

    def quiet(self) -> None:
        x = self.pick()
        if self.rng.random() < 0.3 and x.is_leaf:
            with self.lib.no_grad():
                x.mul_(0.9)

    @staticmethod
    def fact(look: Callable[[], Any]) -> Any:
        """What it returns; of an exception, the name."""
        try:
            return look()
        except RuntimeError as error:
            return type(error).__name__

    def run(self) -> list[Any]:
        for _ in range(self.rng.randint(3, 14)):
            self.step()
        chosen = [x for x in self.pool if self.rng.random() < 0.5] or [self.pool[-1]]
        second = self.rng.random() < 0.3
        try:
            loss = sum((x * x).sum() for x in chosen)
            if second:
                wanted = [x for x in self.leaves if x.requires_grad]
                grads = self.lib.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
                loss = sum((g * g).sum() for g in grads if g is not None)
            loss.backward()
        except Exception as error:
            self.log.append(("backward", type(error).__name__))
        facts = [(x.requires_grad, self.fact(lambda x=x: x.is_leaf), x._version) for x in self.pool]
        keep = [self.fact(lambda x=x: x.is_leaf or x.retains_grad) is True for x in self.pool]
        grads = [x.grad if kept else None for x, kept in zip(self.pool, keep, strict=True)]
        return [list(self.log), facts, plain(grads), plain(self.pool)]


def normal(value: Any) -> Any:
    """Tuples as lists, for comparison."""
    return [normal(v) for v in value] if isinstance(value, list | tuple) else value


def check(seed: int, mode: Mode = MODES["eager"]) -> None:
    expected = Program(torch, seed, not mode.is_compiled).run()
    run = mode.wrap(lambda: Program(J, seed, not mode.is_compiled).run())
    for call in range(2 if mode.is_compiled else 1):
        try:
            assert_same(normal(run()), normal(expected))
        except Exception as error:
            raise AssertionError(f"seed {seed}, {mode.name}, call {call}: {error}") from None


@pytest.mark.parametrize("block", range(4))
def test_random_programs(block: int) -> None:
    torch.set_grad_enabled(True)
    for seed in range(block * 100, block * 100 + 100):
        check(seed)


@pytest.mark.parametrize("block", range(2))
def test_random_programs_compiled(block: int) -> None:
    """The whole program is one compiled step, the second call of which finds everything."""
    torch.set_grad_enabled(True)
    for seed in range(block * 60, block * 60 + 60):
        check(seed, MODES["warm"])


if __name__ == "__main__":
    count, failures = int(sys.argv[1]), 0
    for number in range(count):
        try:
            check(number, MODES["warm" if "compiled" in sys.argv else "eager"])
        except AssertionError as failure:
            failures += 1
            if failures <= 5:
                print(failure)
    print(f"{count - failures} of {count} programs agree")
