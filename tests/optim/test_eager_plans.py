"""What an optimizer's step costs eagerly does not depend on which step it is."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad import optim
from jitgrad.runtime.eager.plan import plans


@pytest.mark.parametrize(
    "make",
    [
        lambda params: optim.Adam(params, lr=0.1),
        lambda params: optim.Adam(params, lr=0.1, amsgrad=True),
        lambda params: optim.SGD(params, lr=0.1, momentum=0.9),
    ],
)
def test_a_step_needs_no_new_plan(make) -> None:
    """Adam's corrections for its bias are other numbers at every step; a plan for each filled the table."""
    p = jitgrad.ones(3, requires_grad=True)
    optimizer = make([p])
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for nr in range(6):
        (p * p).sum().backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if nr == 2:
            before = len(plans)
    assert len(plans) == before
