"""Softmax without a dimension."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad import nn
from jitgrad.nn import functional as F


@pytest.mark.parametrize("name", ["softmax", "softmin", "log_softmax"])
@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((2, 3, 4, 5), 1)])
def test_a_dimension_that_is_left_out_is_chosen_with_a_warning(name: str, shape: tuple[int, ...], dim: int) -> None:
    x = jitgrad.arange(float(jitgrad.ones(*shape).numel())).reshape(shape).sin()
    with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been deprecated") as given:
        found = getattr(F, name)(x)
    assert given[0].filename == __file__
    assert found.tolist() == getattr(F, name)(x, dim=dim).tolist()


def test_modules_choose_as_the_functions_do() -> None:
    x = jitgrad.arange(6.0).reshape(2, 3)
    with pytest.warns(UserWarning, match="for softmin has been"):
        assert nn.Softmin()(x).tolist() == F.softmin(x, dim=1).tolist()
