"""Strides of results and of gradients are PyTorch's, over its sample inputs in other layouts.

``tests/opinfo/stride_rows.py`` says which operations differ, and why.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.modes import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's table imports it")

from opinfo.checks import operations  # noqa: E402
from opinfo.differences import LEFT_OUT  # noqa: E402
from opinfo.stride_rows import STRIDE_ROWS  # noqa: E402
from opinfo.strides import QUESTIONS, stride_checks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_OPS = {name: op for name, op in operations().items() if op.name not in LEFT_OUT}
_SPARSE = 24
"""Of so many operations, one is compiled."""


def _different(name: str, what: str, **options: Any) -> list[Any]:
    if name in STRIDE_ROWS[what]:
        return []
    return [check for check in stride_checks(_OPS[name], what, limit=1, **options) if not check.is_equal]


@pytest.mark.parametrize("what", ["results", "gradients"])
@pytest.mark.parametrize("name", _OPS)
def test_strides_are_pytorchs(name: str, what: str) -> None:
    assert not _different(name, what)


@pytest.mark.parametrize("name", list(_OPS)[::4])
def test_strides_of_gradients_that_are_asked_for_are_pytorchs(name: str) -> None:
    assert not _different(name, "asked")


@pytest.mark.parametrize("what", ["results", "asked"])
@pytest.mark.parametrize("name", list(_OPS)[::_SPARSE])
def test_strides_in_compiled_steps_are_pytorchs(name: str, what: str) -> None:
    assert not _different(name, what, compiled=True)


def test_rows_name_operations() -> None:
    assert STRIDE_ROWS.keys() <= QUESTIONS.keys()
    for rows in STRIDE_ROWS.values():
        assert rows.keys() <= _OPS.keys()
        assert all(rows.values())


POINTWISE = {
    "one operand": lambda t, x, y: x.exp(),
    "a number": lambda t, x, y: x * 2 + 1,
    "two": lambda t, x, y: x * y,
    "three": lambda t, x, y: t.where(x > y, x, y),
    "compared": lambda t, x, y: x <= y,
    "cast": lambda t, x, y: (x * y).to(t.float64),
    "broadcast": lambda t, x, y: x[:, :1] + y,
    "a chain": lambda t, x, y: (x * y).relu().sqrt() - y,
    "zeros": lambda t, x, y: t.zeros_like(x) + t.ones_like(y),
    "written": lambda t, x, y: (x * 1).add_(y).mul_(3),
    "filled in part": lambda t, x, y: _filled(x * y),
    "copied": lambda t, x, y: x.clone(),
    "flipped": lambda t, x, y: x.flip(1),
    "reduced": lambda t, x, y: (x * y).sum(1, keepdim=True),
    "a view of a result": lambda t, x, y: (x + y).permute(3, 0, 2, 1),
    "read in between": lambda t, x, y: x * y if float((x + y).sum()) > 0 else x,
}


def _filled(z: Any) -> Any:
    z[1, :, 2] = 7.0
    return z


ORDERS = [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 3, 2)]


def _relaid(x: Any, order: tuple[int, ...]) -> Any:
    return x.permute(order).contiguous().permute([order.index(d) for d in range(4)])


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_results_keep_the_order_of_their_operands(name: str, mode: Mode) -> None:
    """Every pair of orders, both in strides and in values."""
    for first in ORDERS:
        for second in ORDERS:

            def step(t: Any) -> Any:
                values = (t.arange(120.0) / 60).reshape(2, 3, 4, 5)
                x, y = _relaid(values, first), _relaid(values.flip(0) * 0.5, second)  # noqa: B023
                return POINTWISE[name](t, x, y)

            got, expected = mode.run(lambda: step(jitgrad)), step(torch)
            assert got.stride() == expected.stride(), (first, second)
            np.testing.assert_allclose(got.numpy(), expected.numpy(), 1e-5)
