"""Starting values: the distributions are PyTorch's (Kolmogorov-Smirnov), the numbers are our own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import jitgrad
from jitgrad import nn
from jitgrad.nn import init

SHAPE = (120, 80)
FAN_IN, FAN_OUT = 80, 120


def _uniform(bound: float) -> Any:
    return stats.uniform(-bound, 2 * bound)


RELU_GAIN = math.sqrt(2.0)
CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "uniform": (lambda t: init.uniform_(t, -2.0, 3.0), stats.uniform(-2.0, 5.0)),
    "normal": (lambda t: init.normal_(t, 1.0, 2.0), stats.norm(1.0, 2.0)),
    "trunc_normal": (lambda t: init.trunc_normal_(t, a=-1.0, b=1.0), stats.truncnorm(-1.0, 1.0)),
    "xavier_uniform": (init.xavier_uniform_, _uniform(math.sqrt(6 / (FAN_IN + FAN_OUT)))),
    "xavier_normal": (init.xavier_normal_, stats.norm(0, math.sqrt(2 / (FAN_IN + FAN_OUT)))),
    "kaiming_uniform": (lambda t: init.kaiming_uniform_(t, math.sqrt(5)), _uniform(1 / math.sqrt(FAN_IN))),
    "kaiming_normal": (
        lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
        stats.norm(0, RELU_GAIN / math.sqrt(FAN_OUT)),
    ),
    "linear": (lambda t: nn.Linear(FAN_IN, FAN_OUT).weight.detach(), _uniform(1 / math.sqrt(FAN_IN))),
    "embedding": (lambda t: nn.Embedding(*SHAPE).weight.detach(), stats.norm(0, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_distribution(name: str) -> None:
    fill, expected = CASES[name]
    jitgrad.manual_seed(7)
    values = fill(jitgrad.empty(*SHAPE)).numpy().ravel()
    assert stats.kstest(values, expected.cdf).pvalue > 1e-3


def test_the_seed_decides() -> None:
    def draw(seed: int) -> Any:
        jitgrad.manual_seed(seed)
        return nn.Linear(4, 4).weight.detach().numpy()

    np.testing.assert_array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))


def test_filling_a_parameter_leaves_it_a_leaf() -> None:
    weight = nn.Parameter(jitgrad.empty(3, 3))
    assert init.ones_(weight) is weight
    assert weight.is_leaf
    assert weight.requires_grad


def test_orthogonal_rows() -> None:
    weight = init.orthogonal_(jitgrad.empty(4, 2, 3), gain=2.0).numpy().reshape(4, 6)
    np.testing.assert_allclose(weight @ weight.T, 4.0 * np.eye(4), atol=1e-5)


def test_constants_and_eye() -> None:
    assert init.constant_(jitgrad.empty(2), 3.0).tolist() == [3.0, 3.0]
    assert init.zeros_(jitgrad.ones(2)).tolist() == [0.0, 0.0]
    assert init.eye_(jitgrad.empty(2, 2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(jitgrad.empty(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("nothing")
    with pytest.raises(ValueError, match="not supported"):
        init.kaiming_normal_(jitgrad.empty(2, 2), mode="fan")
    with pytest.raises(ValueError, match="2 dimensions"):
        init.eye_(jitgrad.empty(2))
