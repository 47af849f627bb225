"""What statements of the fuzzer are made of: names in scope, numbers, views, expressions.

Owns: ``Draws``. Must not know: statements.
"""

from __future__ import annotations

import random

__all__ = ["OPTIMIZERS", "VIEWS", "Draws"]

UNARY = "tanh sin cos sigmoid relu abs neg square erf".split()
REDUCTIONS = ("sum()", "sum(0)", "mean(-1, keepdim=True)", "amax(0)", "logsumexp(-1)", "softmax(-1)", "cumsum(0)",
              "mean()", "sum(-1)", "argmax()", "max()", "norm()", "prod()", "std()", "var(0)")  # fmt: skip
VIEWS = (".transpose(0, -1)", "[1:]", "[..., :2]", "[0]", ".unsqueeze(0)", ".reshape(-1)", "[::2]", ".detach()",
         ".view(-1)", ".flip(0)", ".squeeze()", "[None]", ".t()", ".clone()", ".contiguous()", "[-1]", "[:, 1]",
         ".double()", ".to(lib.float32)", "[s.i0]", ".diagonal()", ".narrow(0, 0, 1)", ".select(0, 1)",
         ".unbind()[0]", ".chunk(2)[0]", ".split(1)[0]", ".expand(2, 4)", ".data", ".movedim(0, -1)", "[1:][:, 1:]",
         ".t()[1:]", ".view(-1)[1:3]")  # fmt: skip
OPTIMIZERS = ("s.sgd", "s.momentum", "s.adam", "s.rmsprop", "s.adagrad")
NUMBERS = ("2", "0.5", "-1.5", "s.a0", "s.a1", "1", "1.0", "-0.0", "3", "s.a0 * 2", "s.n0")
INDICES = ("[0]", "[1:]", "[:, 1]", "[..., 0]", "[::2]", "[None]", "[-1]", "[s.i0]", "[lib.tensor([0, 2])]",
           "[{v} > 0]", "[{v} < 0.1]", "[1:, :2]", "[:, [0, 1]]", "[[0, 1], [1, 1]]", "[lib.tensor(True)]",
           "[0, lib.tensor([1])]", "[...]", "[:0]")  # fmt: skip


class Draws:
    """Draws names and expressions.

    Attributes:
        names: what is in scope, the latest last.
        count: how many values have been named.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.names = ["s.x0", "s.x1", "s.y0", "s.p0", "s.p1"]
        self.count = 0

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
