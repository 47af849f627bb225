"""Virtual devices compute with the CPU's kernels: Note [Eager kernels]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg

F = jg.nn.functional

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "one call": lambda x, y: x.exp() * y,
    "several calls": lambda x, y: F.softmax(x, 1) + F.gelu(y),
    "a product": lambda x, y: x @ y.t(),
    "sums": lambda x, y: x.sum(0) + y.var(0),
    "several results": lambda x, y: x.sort(1)[0] + y.max(1, keepdim=True)[0],
    "a list": lambda x, y: jg.cat([x, y * 2]),
    "in place": lambda x, y: x.clone().mul_(y).tanh_(),
    "views": lambda x, y: x.t()[1:] * y.t()[:-1],
    "numbers": lambda x, y: (x * 2.5 - 1) ** 3 + y.clamp(-0.5, 0.5),
}


@pytest.mark.parametrize("shape", [(3, 5), (120, 150)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_those_of_the_cpu(name: str, shape: tuple[int, int]) -> None:
    jg.manual_seed(1)
    given = [jg.randn(*shape) for _ in range(2)]
    for _ in range(2):
        results = []
        for device in ("cpu", "vcpu:0"):
            x, y = (t.clone().to(device).requires_grad_() for t in given)
            out = FUNCTIONS[name](x, y)
            out.square().sum().backward()
            results.append([t.cpu().numpy() for t in (out.detach(), x.grad, y.grad)])
        for own, other in zip(*results, strict=True):
            np.testing.assert_array_equal(own, other)


def test_bad_data_raise_what_the_cpu_raises() -> None:
    table, index = jg.randn(200, 100), jg.full((300,), 777)
    for device in ("cpu", "vcpu:0"):
        with pytest.raises(IndexError, match="out of range"):
            F.embedding(index.to(device), table.to(device)).sum().item()
        assert table.to(device).sum().isfinite().item()
