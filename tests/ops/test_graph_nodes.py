"""Graphs have PyTorch's nodes and edges, over its samples: ``name()``, the class's name, ``next_functions``.

``tests/opinfo/nodes.py`` says which operations differ, and why.
"""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad
from tests.modes import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's table imports it")

from opinfo.checks import operations  # noqa: E402
from opinfo.differences import LEFT_OUT  # noqa: E402
from opinfo.nodes import OTHER_NODES, node_failures  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_SAME = {name: op for name, op in operations().items() if op.name not in LEFT_OUT and name not in OTHER_NODES}


def _different(name: str, compiled: bool = False) -> list[Any]:
    return [found for found in node_failures(_SAME[name], compiled=compiled) if found is not None]


@pytest.mark.parametrize("name", list(_SAME)[::4])
def test_graphs_are_pytorchs(name: str) -> None:
    assert not _different(name)


@pytest.mark.parametrize("name", list(_SAME)[1::24])
def test_graphs_of_compiled_steps_are_pytorchs(name: str) -> None:
    assert not _different(name, compiled=True)


def test_rows_name_operations() -> None:
    assert OTHER_NODES.keys() <= operations().keys()


def _edges(t: Any, F: Any, x: Any) -> Any:
    """Of overloads with a number, and of operands that were not given."""
    image = x.reshape(1, 1, 4, 4)
    results = {
        "masked_fill": x.masked_fill(x > 0, 0.5),
        "copysign": t.copysign(x, 2.0),
        "pow": x**2,
        "power of a number": 2**x,
        "1 - x": 1 - x,
        "x + 1": x + 1,
        "remainder": x % 2,
        "clamp_min": t.clamp_min(x, 0.0),
        "reciprocal": 2 / x,
        "conv2d": F.conv2d(image, image[..., :2, :2]),
        "layer_norm": F.layer_norm(x, (4,)),
        "truncated": t.div(x, 2, rounding_mode="trunc"),
        "written": (x * 1).add_(1),
        "written in part": _written(t, x),
    }
    return {k: (y.grad_fn.name(), [n and n.name() for n, _ in y.grad_fn.next_functions]) for k, y in results.items()}


def _written(t: Any, x: Any) -> Any:
    y = x * 1
    y[0] = x[1]
    return y


def test_edges_of_numbers_and_of_what_is_not_given(mode: Mode) -> None:
    def step(t: Any, F: Any) -> Any:
        return _edges(t, F, t.arange(1.0, 17.0).reshape(4, 4).requires_grad_())

    assert mode.run(lambda: step(jitgrad, jitgrad.nn.functional)) == step(torch, torch.nn.functional)
