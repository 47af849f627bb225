"""Where a backward starts: the gradients of its roots."""

from __future__ import annotations

from typing import Any

import pytest
from modes import ARGUMENTS, Mode

import jitgrad as jg


@pytest.mark.row("A19", engine=ARGUMENTS)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_root_of_one_element_is_seeded_with_ones(mode: Mode, shape: tuple[int, ...]) -> None:
    def step(x: Any) -> Any:
        y = x * 3.0
        y.register_hook(lambda g: seeds.append((g.tolist(), g.dtype, tuple(g.shape))))
        y.backward()
        return x.grad

    seeds: list[Any] = []
    one = jg.ones(shape)
    grad = mode.run(step, lambda: (jg.full(shape, 2.0, requires_grad=True),))
    assert seeds[-1] == (one.tolist(), jg.float32, shape)
    assert grad.tolist() == (one * 3.0).tolist()


@pytest.mark.row("A19")
@pytest.mark.parametrize("shape", [(2,), (1, 3), (0,)])
def test_any_other_root_needs_its_gradient(mode: Mode, shape: tuple[int, ...]) -> None:
    if 0 in shape:
        mode.states(no_launch="There are no elements to compute.")

    def step(x: Any) -> Any:
        y = x * 3.0
        with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
            y.backward()
        with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
            jg.autograd.grad(y, x)
        y.backward(jg.ones(shape))  # the refusals changed nothing
        return x.grad

    grad = mode.run(step, lambda: (jg.ones(shape, requires_grad=True),))
    assert grad.tolist() == (jg.ones(shape) * 3.0).tolist()
