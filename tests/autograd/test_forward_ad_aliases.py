"""Tangents of tensors that share memory: views have a part of their base's, detached tensors have none."""

from __future__ import annotations

import random
from typing import Any

import pytest

import jitgrad as jg

torch = pytest.importorskip("torch", reason="compares with torch")

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

VIEWS = {
    "x[1:]": lambda x: x[1:],
    "x.reshape(-1)": lambda x: x.reshape(-1),
    "x.detach()": lambda x: x.detach(),
    "x.detach()[:2]": lambda x: x.detach()[:2],
    "x[1:].detach()": lambda x: x[1:].detach(),
    "x.view(1, -1)[0]": lambda x: x.view(1, -1)[0],
    "x as columns, detached": lambda x: x.reshape(-1)[: 2 * (len(x) // 2)].view(-1, 2).t().detach()[0],
    "x.clone()": lambda x: x.clone(),
    "x * 2": lambda x: x * 2,
}
WRITES = {
    "x.mul_(3)": lambda x, d: x.mul_(3),
    "x.copy_(d)": lambda x, d: x.copy_(d[: len(x)]),
    "x.add_(d)": lambda x, d: x.add_(d[: len(x)]),
    "x.copy_(constant)": lambda x, d: x.copy_(d.detach()[: len(x)]),
    "x[0] = d[1]": lambda x, d: x.__setitem__(0, d[1]),
    "x.zero_()": lambda x, d: x.zero_(),
}


def program(seed: int) -> list[tuple[str, int]]:
    """(what to do, to which of the tensors so far)."""
    rng = random.Random(seed)
    steps, count = [], 2
    for _ in range(rng.randint(3, 8)):
        name = rng.choice([*VIEWS, *WRITES])
        steps.append((name, rng.randrange(1 if name in WRITES else 0, count)))
        count += name in VIEWS
    return steps


def run(lib: Any, steps: list[tuple[str, int]], x: Any, t: Any) -> list[Any]:
    """The tangents of all tensors after each step, and their values at the end."""
    forward_ad = lib.autograd.forward_ad
    seen: list[Any] = []
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        tensors = [dual, lib.ones(3)]
        for name, position in steps:
            at = tensors[position]
            if name in VIEWS:
                tensors.append(VIEWS[name](at))
            elif len(at) > 0:
                try:
                    WRITES[name](at, dual)
                except RuntimeError:
                    seen.append("refused")
            seen += [(name, nr, forward_ad.unpack_dual(y)[1]) for nr, y in enumerate(tensors)]
        seen += [("value", nr, y.detach()) for nr, y in enumerate(tensors)]
        return [x if isinstance(x, str) else (*x[:2], None if x[2] is None else x[2].tolist()) for x in seen]


@pytest.mark.parametrize("seeds", range(0, 120, 12))
def test_tangents_are_pytorchs(seeds: int) -> None:
    for seed in range(seeds, seeds + 12):
        steps = program(seed)
        want = run(torch, steps, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 10.0, 100.0]))
        compiled = jg.compile(run)
        for nr, function in enumerate((run, compiled, compiled)):
            got = function(jg, steps, jg.tensor([1.0, 2.0, 3.0]), jg.tensor([1.0, 10.0, 100.0]))
            assert got == want, f"seed {seed}, run {nr}: {steps}"
