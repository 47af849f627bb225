"""Writes through views of what ``detach()`` returned, while the value that it is an alias of is held, or gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg

X = jg.tensor([1.0, 2.0, 3.0, 4.0])
PARTS = {
    "whole": lambda x: x.detach(),
    "reshaped": lambda x: x.view(2, 2).detach(),
    "transposed": lambda x: x.view(2, 2).t().detach(),
    "a part": lambda x: x[1:].detach(),
}
WRITES = {
    "itself": lambda d: d.add_(10),
    "a view": lambda d: d.unsqueeze(0).add_(10),
    "a part": lambda d: d[:1].add_(10),
}


@pytest.mark.parametrize("is_held", [False, True], ids=["gone", "held"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_write_reaches_every_alias(part: Callable[[Any], Any], write: Callable[[Any], Any], is_held: bool) -> None:
    def step() -> Any:
        x = X * 1
        detached = part(x)
        write(detached)
        return (detached, x) if is_held else (detached,)

    expected = [t.tolist() for t in step()]
    compiled = jg.compile(step)
    for _ in range(4):
        assert [t.tolist() for t in compiled()] == expected
