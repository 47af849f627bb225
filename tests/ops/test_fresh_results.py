"""Results are views where PyTorch's are, and nowhere else: what is written to a view reaches its base's graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from jitgrad.nn import functional
from tests.conftest import Mode

torch = pytest.importorskip("torch", reason="compares with PyTorch")

Function = Callable[[Any, Any, Any, Any, Any], Any]

# over lib, nn.functional, x [2, 3, 4], m [4, 4], v [4]
RESULTS: dict[str, Function] = {
    "vector @ matrix": lambda t, F, x, m, v: v @ m,
    "vector @ batch": lambda t, F, x, m, v: v[:3] @ x,
    "batch @ vector": lambda t, F, x, m, v: x @ v,
    "batch @ matrix": lambda t, F, x, m, v: x @ m,
    "batch @ batch": lambda t, F, x, m, v: x @ x.mT,
    "matrix @ batch": lambda t, F, x, m, v: m[:2, :3] @ x,
    "linear of a batch": lambda t, F, x, m, v: F.linear(x, m),
    "linear of a batch with a bias": lambda t, F, x, m, v: F.linear(x, m, v),
    "linear of a vector": lambda t, F, x, m, v: F.linear(v, m),
    "linear of a vector with a bias": lambda t, F, x, m, v: F.linear(v, m, v),
    "outer einsum": lambda t, F, x, m, v: t.einsum("i,j->ij", v, v),
    "einsum of products": lambda t, F, x, m, v: t.einsum("ab,ac->cab", m, x[0].mT),
    "einsum of a broadcast product": lambda t, F, x, m, v: t.einsum("ab,b->ab", m, v),
    "einsum of two sums": lambda t, F, x, m, v: t.einsum("ab,c->a", m, v),
    "einsum of a matrix product": lambda t, F, x, m, v: t.einsum("abc,cd->abd", x, m),
    "einsum of three": lambda t, F, x, m, v: t.einsum("a,b,c->cab", v, v, v),
    "nll_loss of a batch": lambda t, F, x, m, v: F.nll_loss(x, t.zeros(2, 4, dtype=t.int64), reduction="none"),
    "cross_entropy of a vector": lambda t, F, x, m, v: F.cross_entropy(v, t.tensor(1), reduction="none"),
    "max_pool2d of one": lambda t, F, x, m, v: F.max_pool2d(x, 2),
    "avg_pool2d of one": lambda t, F, x, m, v: F.avg_pool2d(x, 2),
    "conv2d of one": lambda t, F, x, m, v: F.conv2d(x, x[None, :, :2, :2]),
    "reshape that copies": lambda t, F, x, m, v: x.mT.reshape(6, 4),
    "reshape": lambda t, F, x, m, v: (x * 1).reshape(6, 4),
}


def _facts(t: Any, F: Any, name: str) -> Any:
    x = (t.arange(24, dtype=t.float64) * 0.37 % 1.0).reshape(2, 3, 4).clone().requires_grad_()
    m = (t.arange(16, dtype=t.float64) * 0.29 % 1.0).reshape(4, 4).clone().requires_grad_()
    v = t.tensor([0.5, -1.0, 2.0, 0.25], dtype=t.float64, requires_grad=True)
    result = RESULTS[name](t, F, x, m, v)
    was_view, before = result._is_view(), result.tolist()
    once = t.autograd.grad((result * result).sum(), [x, m, v], create_graph=True, allow_unused=True)
    result = RESULTS[name](t, F, x, m, v)
    result.mul_(2)
    twice = t.autograd.grad((result * result).sum(), [x, m, v], allow_unused=True)
    filled = RESULTS[name](t, F, x, m, v)
    filled.fill_(1.5)
    zero = t.autograd.grad((filled * filled).sum(), [x, m, v], create_graph=True, allow_unused=True)
    alone = RESULTS[name](t, F, x, m, v)
    if not was_view:
        alone.detach_()
    numbers = [g if g is None else g.tolist() for g in (*once, *twice, *zero)]
    # a pool's derivative has a derivative by the pool's input, which is zero, in PyTorch
    flags = [g is not None and g.requires_grad and "pool" not in name for g in zero]
    return was_view, result._is_view(), alone.requires_grad, flags, before, result.tolist(), numbers


NO_VIEWS = ("linear of a vector with a bias",)
"""Views in PyTorch, of a product of one row that nobody else sees; results of their own here, as most products are."""


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_view_where_pytorchs_is(name: str, mode: Mode) -> None:
    *flags, before, after, got = mode.run(lambda: _facts(jitgrad, functional, name))
    *wanted_flags, wanted_before, wanted_after, wanted = _facts(torch, torch.nn.functional, name)
    if name in NO_VIEWS:
        assert wanted_flags[:3] == [True, True, True] and flags[:3] == [False, False, False]
        flags, wanted_flags = flags[3:], wanted_flags[3:]
    assert flags == wanted_flags
    for found, want in zip([before, after, *got], [wanted_before, wanted_after, *wanted], strict=True):
        assert found == want if want is None else found == _about(want)


def _about(numbers: Any) -> Any:
    return [_about(n) for n in numbers] if isinstance(numbers, list) else pytest.approx(numbers, abs=1e-9)


def test_a_reshaped_product_is_stored_once() -> None:
    """Where nobody sees the product in its first shape, its kernel fills the result's memory."""
    step = jitgrad.compile(lambda x, w: x @ w)
    x, w = jitgrad.ones(2, 64, 64), jitgrad.ones(64, 64)
    for _ in range(2):
        step(x, w)
    before = jitgrad.stats()["launches"]
    assert step(x, w).tolist() == [[[64.0] * 64] * 64] * 2
    assert jitgrad.stats()["launches"] - before == 1
