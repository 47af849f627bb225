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


# a use of an operation -> which of PyTorch's ``_saved_`` names its node has no value for
SAVED: dict[str, tuple[Any, str]] = {
    "product": (lambda t, x: x * x, ""),
    "quotient": (lambda t, x: x / x, ""),
    "exp": (lambda t, x: x.exp(), ""),
    "pow": (lambda t, x: x**3, ""),
    "sum": (lambda t, x: x.sum(0), ""),
    "mean": (lambda t, x: x.mean(), "_saved_self_sym_numel"),
    "max": (lambda t, x: x.max(0)[0], ""),
    "softmax": (lambda t, x: x.softmax(0), ""),
    "view": (lambda t, x: x.reshape(2, 6), ""),
    "expand": (lambda t, x: x.expand(2, 3, 4), ""),
    "squeeze": (lambda t, x: x.squeeze(), ""),
    "diagonal": (lambda t, x: x.diagonal(), "_saved_offset"),
    "split": (lambda t, x: x.split(1)[0], ""),
    "repeat": (lambda t, x: x.repeat(2, 1), ""),
    "flip": (lambda t, x: x.flip(0), ""),
    "masked_fill": (lambda t, x: x.masked_fill(x > 0, 1.0), ""),
    "sort": (lambda t, x: x.sort(1)[0], ""),
    "topk": (lambda t, x: x.topk(2, 1)[0], ""),
    "sqrt": (lambda t, x: x.sqrt(), ""),
    "triu": (lambda t, x: x.triu(), ""),
}


def _saved(t: Any, name: str) -> dict[str, Any]:
    use, missing = SAVED[name]
    node = use(t, (t.arange(1.0, 13.0, dtype=t.float64) / 10).reshape(3, 4).requires_grad_()).grad_fn
    names = [x for x in dir(node) if x.startswith("_saved_") and x not in missing]
    values = {x: getattr(node, x) for x in names}
    return {x: v.tolist() if hasattr(v, "tolist") else v for x, v in values.items()}


@pytest.mark.parametrize("name", SAVED)
def test_what_a_node_saves_has_pytorchs_names(name: str, mode: Mode) -> None:
    got, expected = mode.run(lambda: _saved(jitgrad, name)), _saved(torch, name)
    assert got.keys() >= expected.keys()
    assert {x: _about(got[x]) for x in expected} == {x: _about(v) for x, v in expected.items()}


def _about(value: Any) -> Any:
    return [_about(x) for x in value] if isinstance(value, list) else round(value, 5) if type(value) is float else value
