"""Random programs over complex and real tensors: what they compute, and their gradients, must be PyTorch's.

Owns: ``program``: source text of a function of the module ``t`` (torch or jitgrad), complex ``z``, ``w`` and real
``x``, ``y``, all [3, 4] or [4], which returns a real scalar. Values stay moderate, and away from zeros and branch cuts.
"""

from __future__ import annotations

import random

__all__ = ["program"]

_COMPLEX = [
    "{a} * {b}", "{a} + {b}", "{a} - {b}", "{a} * {r}", "{r} - {a}", "{a} + {r}", "{a} / ({b}.abs() + 1.5)",
    "{a} / (1.5 + 0.5j + {r}.abs())", "{a}.conj().resolve_conj()", "({a} * 0.1).exp()", "t.complex({r}, {s})",
    "t.polar({r}.abs() + 0.5, {s})", "{a} * (0.5 - 1j)", "2j * {a}", "({a} * 0.3) ** 2", "t.sgn({a} + 3)",
    "t.where({r} > 0, {a}, {b})", "t.where({r} > 0, {a}, 0.5)", "t.view_as_complex(t.view_as_real({a}) * 1.25)",
    "{r}.to({a}.dtype)", "{a}.flip(-1)", "t.roll({a}, 1, -1)", "t.cat([{a}, {b}], -1)[..., 2:6]",
    "t.stack([{a}, {b}]).sum(0)", "({a} + 4).log()", "-{a}", "{a} - {a}.mean(-1, keepdim=True)",
    "{a}.clone()", "{a}[..., [1, 0, 3, 2]]", "t.fft.fft({a}) * 0.5", "t.fft.ifft({a})", "t.fft.rfft({r}, n=6) * 0.5",
    "{a}.cumsum(-1) * 0.3", "{a}.detach() * {b}", "1 / ({a} + 3)", "{a}.tril()", "t.ones_like({a}) + {a}",
    "({m} @ {n}.mH) @ {m} * 0.1", "t.nn.functional.linear({a}, {n}.new_ones(4, 4) * 0.2 + 0.1j)",
    "({a}.unsqueeze(-1) * {n}.sum(0)).sum(-2)", "{a}.gather(-1, t.tensor({index}))",
]  # fmt: skip
_REAL = [
    "{a}.abs()", "({a} + 2).angle()", "{a}.real", "{a}.imag", "t.view_as_real({a}).sum(-1)", "({a} * {a}.conj()).real",
    "{r} * {s}", "{r} + {a}.imag", "t.fft.irfft({a}, n=4)", "{r}.sin()", "t.view_as_real({a})[..., 0] * 2",
]  # fmt: skip
_WRITES = [
    "{a}.mul_({b})", "{a}.add_({r})", "{a}.real.mul_(0.5)", "{a}.imag.add_({r})", "{a}[..., 1:3] = {b}[..., :2] * 1",
    "t.view_as_real({a}).mul_(1.5)", "{a}.copy_({b})", "{a}[..., 0].zero_()", "{a}.real[..., 1] = 0.25",
    "{r}.mul_(0.5)", "{a}.sub_({b}).mul_(0.5j)",
]  # fmt: skip


class _Names:
    """What there is to draw from: complex names and real ones, of [3, 4] (``both``) or [4]."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.complex, self.real = ["z", "w"], ["x", "y"]
        self.fresh: dict[str, list[str]] = {"c": [], "r": []}

    def fill(self, text: str) -> str:
        draw = self.draw
        pairs = {name: draw.choice(self.complex) for name in "abmn"}
        pairs |= {name: draw.choice(self.real) for name in "rs"}
        index = [[draw.randrange(4) for _ in range(4)] for _ in range(3)]
        return text.format(**pairs, index=index)


def program(seed: int) -> str:
    """The source of a function ``program(t, z, w, x, y)``, all of them [3, 4]."""
    draw = random.Random(seed)
    names = _Names(draw)
    lines = []
    for nr in range(draw.randint(3, 9)):
        kind = draw.random()
        if kind < 0.55:
            lines.append(f"c{nr} = {names.fill(draw.choice(_COMPLEX))}")
            names.complex.append(f"c{nr}")
            names.fresh["c"].append(f"c{nr}")
        elif kind < 0.8:
            lines.append(f"r{nr} = {names.fill(draw.choice(_REAL))}")
            names.real.append(f"r{nr}")
        elif names.fresh["c"]:
            target = draw.choice(names.fresh["c"])
            text = draw.choice(_WRITES)
            text = text.replace("{r}.mul_", "{a}.abs().mul_")
            lines.append(names.fill(text.replace("{a}", target, 1)))
        if draw.random() < 0.1:
            lines.append(f"if {draw.choice(names.real)}.sum() > 0: z = z * 1j")
    ends = [f"{draw.choice(names.complex)}.abs().pow(2).sum()", f"{draw.choice(names.real)}.sum()"]
    ends += [f"({draw.choice(names.complex)} * {draw.choice(names.complex)}.conj()).real.mean()"]
    return "def program(t, z, w, x, y):\n" + "".join(f"    {x}\n" for x in lines) + f"    return {' + '.join(ends)}\n"
