"""Operands that begin elsewhere in their storage, as batches of a data set do: the plans of those that begin at 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.events import count
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager import plan as plan_module
from jitgrad.runtime.eager.plan import plans

F = jg.nn.functional
ROWS, WIDTH = 8, 6

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "a number": lambda x, w: x * 2.5 + 1,
    "two batches": lambda x, w: x * x - x.abs(),
    "a product": lambda x, w: x @ w,
    "a layer": lambda x, w: F.linear(x, w, w[0]),
    "a transposed batch": lambda x, w: w @ x.t(),
    "columns": lambda x, w: x[:, 1:4] * w[0, 1:4],
    "sums": lambda x, w: x.sum(0) + x.mean(1)[:WIDTH].max(),
    "softmax": lambda x, w: F.log_softmax(x, 1).exp(),
    "norm": lambda x, w: F.layer_norm(x, (WIDTH,), w[0], w[1]),
    "lists": lambda x, w: jg.cat([x, w]).sum() + jg.stack([x, x]).amax(0),
    "several results": lambda x, w: x.sort(1).values + x.max(1, keepdim=True).values,
    "comparisons": lambda x, w: (x > 0).float() * x + jg.where(x < 0.5, x, w[0]),
    "a write into a new tensor": lambda x, w: jg.zeros(ROWS, WIDTH).copy_(x).mul_(x).add_(w[0]),
    "indices": lambda x, w: x[jg.tensor([3, 0, 0])].sum(0) + x.gather(1, jg.tensor([[0], [2]])).sum(),
    "another dtype": lambda x, w: x.double() @ w.double(),
}


def _batches(count: int = 6, seed: int = 0) -> tuple[Any, list[Any]]:
    data = jg.from_numpy(np.random.default_rng(seed).standard_normal((count * ROWS, WIDTH)).astype(np.float32))
    return data, [data[nr * ROWS : (nr + 1) * ROWS] for nr in range(count)]


def _weight() -> Any:
    return jg.from_numpy(np.random.default_rng(9).standard_normal((WIDTH, WIDTH)).astype(np.float32)).requires_grad_()


@pytest.mark.parametrize("f", OPERATIONS.values(), ids=OPERATIONS)
def test_a_batch_gives_the_bits_of_its_copy(f: Callable[[Any, Any], Any]) -> None:
    _, batches = _batches()
    for batch in batches * 2:
        found = []
        for x in (batch, batch.clone()):
            w = _weight()
            out = f(x, w)
            if out.requires_grad:
                out.float().square().sum().backward()
            found.append((out.detach().numpy().tobytes(), None if w.grad is None else w.grad.numpy().tobytes()))
        assert found[0] == found[1]


@pytest.mark.parametrize("f", OPERATIONS.values(), ids=OPERATIONS)
def test_gradients_of_the_data_set(f: Callable[[Any, Any], Any]) -> None:
    data, _ = _batches()
    whole, parts = data.clone().requires_grad_(), [part.clone().requires_grad_() for part in data.split(ROWS)]
    for nr, part in enumerate(parts):
        for x in (whole[nr * ROWS : (nr + 1) * ROWS], part):
            out = f(x, _weight().detach())
            if out.requires_grad:
                (out.float() * (nr + 1)).sum().backward()
    if parts[0].grad is not None:
        want = np.concatenate([part.grad.numpy() for part in parts])
        np.testing.assert_allclose(whole.grad.numpy(), want, rtol=1e-5, atol=1e-6)


def test_an_epoch_makes_nothing_that_the_first_steps_have_made() -> None:
    net = jg.nn.Sequential(jg.nn.Linear(WIDTH, 40), jg.nn.Tanh(), jg.nn.Linear(40, 1))
    optimizer = jg.optim.SGD(net.parameters(), lr=0.01)
    data, target = jg.randn(60 * ROWS, WIDTH), jg.randn(60 * ROWS, 1)

    def step(nr: int) -> None:
        rows = slice(nr * ROWS, (nr + 1) * ROWS)
        optimizer.zero_grad()
        (net(data[rows]) - target[rows]).square().mean().backward()
        optimizer.step()

    for nr in range(8):
        step(nr)
    made = {id(plan) for plan in plans.values() if not plan.op.is_view}
    with count("eager_kernels") as kernels, count("rule_programs") as programs:
        for nr in range(8, 60):
            step(nr)
    assert (kernels(), programs()) == (0, 0)
    assert {id(plan) for plan in plans.values() if not plan.op.is_view} == made


def test_what_passes_does_not_push_out_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    plans.clear()
    plan_module._passing.clear()
    monkeypatch.setattr(plan_module, "_MAX_PASSING", 20)
    data = jg.arange(200.0)
    kept = plan_module.find_plan(OPS["exp"], [jg.ones(2)._aval], ())
    for nr in range(99):
        assert data[nr : nr + 2].exp2().tolist() == [2.0**nr, 2.0 ** (nr + 1)]
    assert len(plan_module._passing) == 20 and len(plans) <= 30
    assert any(plan is kept for plan in plans.values())


def test_ever_new_shapes_push_out_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    plans.clear()
    monkeypatch.setattr(plan_module, "_MAX_PLANS", 40)
    for length in range(1, 90):
        x = jg.ones(length)
        assert (x + x).sum().item() == 2 * length
        assert len(plans) <= 40
    assert any(key[0] is OPS["add"] and key[2].shape == (89,) for key in plans)
    assert not any(key[0] is OPS["add"] and key[2].shape == (1,) for key in plans)


def test_a_batch_that_was_written_is_refused() -> None:
    data, _ = _batches()
    w = _weight()
    for nr in range(5):
        x = data[nr * ROWS : (nr + 1) * ROWS]
        out = (x @ w).sum()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            x.add_(1)
            out.backward()


def test_writes_into_batches_go_where_they_lie() -> None:
    data = jg.zeros(5 * ROWS, WIDTH)
    for nr in range(5):
        part = data[nr * ROWS : (nr + 1) * ROWS]
        part.add_(nr)
        part.mul_(part)
        part[1:3].sub_(0.5, alpha=2)
    want = np.repeat(np.arange(5.0) ** 2, ROWS)[:, None] * np.ones(WIDTH)
    for nr in range(5):
        want[nr * ROWS + 1 : nr * ROWS + 3] -= 1
    np.testing.assert_array_equal(data.numpy(), want)
