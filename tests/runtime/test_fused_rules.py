"""Derivative rules of large eager Nodes as one native step, Note [Fused rules]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.config import EAGER_KERNELS
from jitgrad.events import count
from jitgrad.runtime.eager import rule_recording
from jitgrad.runtime.eager.plan import plans
from jitgrad.runtime.engine.graph import op_node
from tests.eager_bounds import eager_kernels_from, forget_kernels

F = jg.nn.functional

RULES: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, y: x * y,
    "a row, broadcast": lambda x, y: x / (y[0] ** 2 + 1),
    "gelu": lambda x, y: F.gelu(x, approximate="tanh") * F.gelu(y),
    "activations": lambda x, y: F.silu(x) * F.softplus(y) + F.mish(x),
    "products": lambda x, y: x @ y.t(),
    "linear": lambda x, y: F.linear(x, y, y[:, 0]),
    "softmax": lambda x, y: F.softmax(x, 1) * F.log_softmax(y, 0),
    "norm": lambda x, y: F.layer_norm(x, (96,), y[0], y[1]),
    "transposed": lambda x, y: x.t().tanh() * y.t(),
    "sums": lambda x, y: x.var(0) + y.std(1)[:96],
    "extrema": lambda x, y: x.amax(1, keepdim=True) * y.clamp(-0.5, 0.5),
    "loss": lambda x, y: F.mse_loss(x, y) + F.cross_entropy(x, jg.arange(96)),
}


@pytest.fixture(autouse=True)
def usual_bounds() -> Iterator[None]:
    forget_kernels()
    with eager_kernels_from(EAGER_KERNELS):
        yield


def _gradients(f: Callable[[Any, Any], Any], dtype: Any = jg.float32, **options: Any) -> list[np.ndarray]:
    jg.manual_seed(3)
    x, y = (jg.randn(96, 96, dtype=dtype).requires_grad_() for _ in range(2))
    out = f(x, y)
    weights = jg.linspace(-1.0, 2.0, out.numel(), dtype=dtype).reshape(out.shape)
    return [g.detach().numpy() for g in jg.autograd.grad((out * weights).sum(), [x, y], **options)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", RULES)
def test_a_step_computes_what_the_rules_do_and_each_run_has_the_same_bits(name: str, dtype: str) -> None:
    kind = getattr(jg, dtype)
    with count("fused_rules") as made:
        runs = [_gradients(RULES[name], kind) for _ in range(5)]
    assert made() > 0
    for run in runs[1:]:
        assert [g.tobytes() for g in run] == [g.tobytes() for g in runs[0]]
    by_rules = _gradients(RULES[name], kind, create_graph=True)  # operation by operation
    tolerance = {"float32": 3e-5, "float64": 1e-12, "float16": 3e-2}[dtype]
    for found, expected in zip(runs[0], by_rules, strict=True):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * max(1.0, abs(expected).max()))


def test_the_first_backward_is_a_step_already(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rule_recording.run_rules is op_node.run_rules, "imported before one of them is replaced"
    monkeypatch.setattr(op_node, "run_rules", None)  # a Node that runs its rules raises
    x = jg.randn(64, 64).requires_grad_()
    with count("fused_rules") as made:
        F.gelu(x).backward(jg.ones(64, 64))
    assert made() == 1 and x.grad is not None


def test_a_virtual_device_runs_the_step_of_the_cpu(monkeypatch: pytest.MonkeyPatch, idle_devices: None) -> None:
    start, found = jg.randn(64, 96), []
    for device in ("cpu", "vcpu:0"):
        x = start.clone().to(device).requires_grad_()
        out = F.gelu(x, approximate="tanh")
        with count("fused_rules") as made, monkeypatch.context() as patch:
            patch.setattr(op_node, "run_rules", None)
            out.backward(jg.ones(64, 96, device=device))
        assert made() == (device == "cpu"), "the device takes what the CPU has"
        assert x.grad.device == x.device
        found.append(x.grad.cpu().numpy().tobytes())
    assert found[0] == found[1]


def test_what_is_known_is_not_made_again() -> None:
    """Rows of one matrix begin elsewhere in its storage: their Nodes are of other kinds, the step is one."""
    table = jg.randn(12, 20_000).requires_grad_()

    def loss() -> Any:
        return sum(F.gelu(row, approximate="tanh").sum() for row in table[:6])

    with count("fused_rules") as made:
        loss().backward()
    assert made() == 1
    (by_rules,) = jg.autograd.grad(loss(), table, create_graph=True)
    # a kernel that counted a row's place twice would read another row
    np.testing.assert_allclose(table.grad.numpy(), by_rules.detach().numpy(), rtol=3e-5, atol=3e-5)


def test_rules_with_saved_numbers_stay_lists_of_calls() -> None:
    large = jg.randn(128, 128).requires_grad_()
    with count("fused_rules") as made:
        for exponent in (1.5, 2.5, 3.5):
            (large.abs() ** exponent).backward(jg.ones(128, 128))
    assert made() <= 1  # of abs: sgn and a product


def test_rules_of_few_elements_are_a_native_step() -> None:
    small = jg.randn(2, 2).requires_grad_()
    with count("fused_rules") as made:
        for _ in range(3):
            F.gelu(small).sum().backward()
    assert made() == 1


def test_the_order_in_which_layouts_of_gradients_come_changes_no_bit() -> None:
    """They are more than the list holds: the oldest step makes room, and no Node goes back to its rules."""
    start = jg.randn(24, 1024)

    def gradients(layouts: list[int]) -> dict[int, bytes]:
        plans.clear()
        x = start.clone().requires_grad_()
        y, found = F.gelu(x), {}
        for rows in layouts:
            g = jg.linspace(0.0, 1.0, 24 * 1024 * rows).reshape(24 * rows, 1024)[::rows]
            found[rows] = jg.autograd.grad(y, x, g, retain_graph=True)[0].numpy().tobytes()
        return found

    layouts = [*range(1, 20)]
    assert gradients(layouts) == gradients(layouts[::-1])


def test_bad_data_are_reported_by_the_rules() -> None:
    """An index that has been overwritten through NumPy's memory since the forward."""
    rows = np.array([1, 2, 3] * 400)
    table = jg.randn(50, 32).requires_grad_()
    for last in (3, 70):
        rows[-1] = 3
        out = F.embedding(jg.from_numpy(rows), table).tanh()
        rows[-1] = last
        if last == 3:
            out.sum().backward()
        else:
            with pytest.raises(IndexError):
                out.sum().backward()


def test_a_value_that_was_overwritten_is_refused() -> None:
    x = jg.randn(64, 64).requires_grad_()
    for is_last in (False, False, True):
        y = x * 1.0
        out = F.gelu(y)
        if is_last:
            with jg.no_grad():
                y.add_(1.0)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                out.sum().backward()
        else:
            out.sum().backward()


def test_only_what_is_asked_for_is_computed() -> None:
    x, y = jg.randn(96, 96).requires_grad_(), jg.randn(96, 96).requires_grad_()
    for _ in range(3):
        gx, gy = jg.autograd.grad((x @ y).sum(), (x, y))
        (only,) = jg.autograd.grad((x @ y).sum(), y)
        assert only.numpy().tobytes() == gy.numpy().tobytes()
        expected = np.ones((96, 96), np.float32) @ y.detach().numpy().T
        np.testing.assert_allclose(gx.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_numpy_mode_has_no_steps() -> None:
    with eager_kernels_from(-1), count("fused_rules") as made:
        for _ in range(4):
            _gradients(RULES["gelu"])
    assert made() == 0
