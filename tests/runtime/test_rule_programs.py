"""Derivative rules of eager Nodes as programs, Note [Rule programs]: the same bits, fewer calls, the same errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.config import EAGER_KERNELS
from jitgrad.events import count
from jitgrad.ops.table import OPS
from jitgrad.runtime.engine.graph import op_node
from tests.eager_bounds import eager_kernels_from
from tests.modes import Mode

F = jg.nn.functional


@pytest.fixture
def usual_bounds() -> Iterator[None]:
    """As without ``JITGRAD_EAGER``: few elements, so lists of calls."""
    with eager_kernels_from(EAGER_KERNELS):
        yield


RULES: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, y: x * y,
    "mul by itself": lambda x, y: x * x,
    "a row, broadcast": lambda x, y: x * y[0],
    "a column, broadcast": lambda x, y: x / (y[:, :1] ** 2 + 1),
    "a number": lambda x, y: x * 2.5 - y,
    "a power": lambda x, y: x**3 + y**2.5,
    "sigmoid": lambda x, y: jg.sigmoid(x) * jg.tanh(y),
    "products": lambda x, y: x @ y.t(),
    "linear": lambda x, y: F.linear(x, y, y[:, 0]),
    "cat": lambda x, y: jg.cat([x, y * 2], 1),
    "split": lambda x, y: sum(part * nr for nr, part in enumerate(x.chunk(3, 1), 1)) * y[:, :2],
    "views": lambda x, y: x.t().reshape(3, -1)[1:] * y[0, 0],
    "softmax": lambda x, y: F.softmax(x, 1) * F.log_softmax(y, 0),
    "extrema": lambda x, y: x.amax(1, keepdim=True) * y.clamp(-0.5, 0.5),
    "norm": lambda x, y: F.layer_norm(x, (6,), y[0], y[1]),
    "sums": lambda x, y: x.sum(0) + y.mean(1)[:6],
}


def _gradients(f: Callable[[Any, Any], Any], dtype: Any) -> list[bytes]:
    jg.manual_seed(3)
    x, y = (jg.randn(8, 6, dtype=dtype).requires_grad_() for _ in range(2))
    out = f(x, y)
    weights = jg.linspace(-1.0, 2.0, out.numel(), dtype=dtype).reshape(out.shape)
    (out * weights).sum().backward()
    return [x.grad.numpy().tobytes(), y.grad.numpy().tobytes() if y.grad is not None else b""]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", RULES)
def test_programs_give_the_bits_of_the_rules(name: str, dtype: str) -> None:
    if name == "a row, broadcast":
        before = jg.stats()["rule_programs"]
    runs = [_gradients(RULES[name], getattr(jg, dtype)) for _ in range(6)]
    assert all(run == runs[0] for run in runs)
    if name == "a row, broadcast":
        assert jg.stats()["rule_programs"] > before


def test_every_kind_of_node_of_a_cell_gets_one_program() -> None:
    weight = jg.randn(7, 5).requires_grad_()

    def step() -> None:
        h = jg.ones(3, 5)
        for _ in range(4):
            i, o = (h @ weight.t())[:, :6].chunk(2, 1)
            h = h * (jg.sigmoid(i) * jg.tanh(o)).sum(1, keepdim=True)
        h.sum().backward()

    for _ in range(4):
        step()
    with count("rule_programs") as made:
        step()
    assert made() == 0
    assert _calls(step, "run_rules") == 0


_OF_RULES = ("/runtime/eager/", "/graph/op_node.py", "/graph/validate.py", "/jitgrad/ops/", "/tensor_base.py")
"""Where the functions are that a Node's rules run; the engine's own depend on whether there were devices before."""


def _calls(function: Callable[[], Any], name: str = "") -> int:
    """How many Python functions of rules a call runs; or how often the one of a name."""
    count = 0

    def look(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        code = frame.f_code
        if event == "call" and (code.co_name == name if name else any(part in code.co_filename for part in _OF_RULES)):
            count += 1

    sys.setprofile(look)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(("f", "limit"), [(jg.sigmoid, 9), (jg.tanh, 8), (lambda x: x * 1.5, 5), (lambda x: x + 1, 4)])
@pytest.mark.usefixtures("usual_bounds")
def test_a_node_costs_few_python_functions(f: Callable[[Any], Any], limit: int) -> None:
    def backward(length: int) -> Callable[[], Any]:
        y = jg.ones(4, requires_grad=True)
        for _ in range(length):
            y = f(y)
        total = y.sum()
        return lambda: total.backward(retain_graph=True)

    short, long = backward(10), backward(60)
    for run in (short, long, short, long):
        run()
    assert _calls(long) - _calls(short) <= 50 * limit


@pytest.mark.usefixtures("usual_bounds")
def test_new_layouts_of_gradients_get_programs_of_their_own_and_then_none() -> None:
    x = jg.randn(4, 4).requires_grad_()
    y = jg.exp(x * 1.0)
    grads = [jg.ones(4, 4), jg.ones(1, 1).expand(4, 4), jg.ones(4, 4).t(), jg.ones(4).expand(4, 4), jg.ones(8, 4)[::2]]
    for g in grads * 3:
        x.grad = None
        y.backward(g, retain_graph=True)
        np.testing.assert_array_equal(x.grad.numpy(), np.exp(x.detach().numpy()) * g.numpy())


def _picked(picks: list[int], as_view: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Elements picked one by one, then stacked: each one's gradient lies behind that of the one before."""
    x = jg.linspace(-1.0, 1.0, 12).requires_grad_()
    rows = [as_view(x * (1.0 + nr))[pick] for nr, pick in enumerate(picks)]
    stacked = jg.stack(rows)
    (stacked * jg.arange(1.0, stacked.numel() + 1).reshape(stacked.shape)).sum().backward()
    return x.grad.numpy().copy(), rows


@pytest.mark.usefixtures("usual_bounds")
def test_a_gradient_may_lie_elsewhere() -> None:
    picks = [3, 1, 3, 1, 1, 3, 0, 3] * 4
    want = np.zeros(12)
    for nr, pick in enumerate(picks):
        want[pick] += (1.0 + nr) * (nr + 1)
    with count("rule_programs") as made:
        for _ in range(6):
            np.testing.assert_allclose(_picked(picks, lambda y: y)[0], want, rtol=1e-6)
    assert made() <= 12, "one per kind of Node, wherever the gradient lies"


@pytest.mark.usefixtures("usual_bounds")
@pytest.mark.parametrize(
    "view", [lambda y: y.reshape(3, 4), lambda y: y.reshape(4, 3).t(), lambda y: y.view(3, 2, 2).permute(0, 2, 1)]
)
def test_a_result_that_is_a_view_of_the_gradient_lies_where_that_lies(view: Callable[[Any], Any]) -> None:
    """The rule of ``reshape`` returns a view of the gradient; a program that put it elsewhere would be wrong."""
    for _ in range(5):
        x = jg.linspace(-1.0, 1.0, 48).requires_grad_()
        parts = [view(part.clone()) for part in (x * 1.0).chunk(4)]
        weights = jg.arange(1.0, 1.0 + 4 * parts[0].numel()).reshape(-1, *parts[0].shape)
        (jg.stack(parts) * weights).sum().backward()
        y = x.detach().clone().requires_grad_()
        want = [view(part) for part in y.chunk(4)]
        (sum((part * weight).sum() for part, weight in zip(want, weights, strict=True))).backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-6)


def test_what_was_overwritten_is_refused_by_a_program_too() -> None:
    x = jg.ones(3, requires_grad=True)
    for nr in range(6):
        y = x * 1.0
        z = y * y
        if nr == 5:
            with jg.no_grad():
                y.add_(1.0)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                z.sum().backward()
        else:
            z.sum().backward()
            with pytest.raises(RuntimeError, match="second time"):
                z.sum().backward()


def test_saved_numbers_are_part_of_what_a_program_is_for() -> None:
    for exponent in (2.0, 2.0, 2.0, 2.0, 3.0, 0.0, -0.0, 1.0, 2.0, 4.0, 5.0, 6.0):
        x = jg.full((3,), 2.0).requires_grad_()
        (x**exponent).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), exponent * 2.0 ** (exponent - 1), rtol=1e-6)


def test_only_what_is_asked_for_is_computed() -> None:
    x, y = jg.ones(3, requires_grad=True), jg.full((3,), 2.0).requires_grad_()
    for _ in range(5):
        (gx,) = jg.autograd.grad((x * y).sum(), x)
        gx2, gy = jg.autograd.grad((x * y).sum(), (x, y))
        (gy2,) = jg.autograd.grad((x * y).sum(), y)
        assert gx.tolist() == gx2.tolist() == [2.0] * 3 and gy.tolist() == gy2.tolist() == [1.0] * 3


def test_second_derivatives_hooks_and_saved_tensor_hooks_see_tensors() -> None:
    seen: list[Any] = []
    for _ in range(5):
        x = jg.full((3,), 0.5).requires_grad_()
        y = jg.sigmoid(x * 1.0)
        y.register_hook(seen.append)
        (g,) = jg.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = jg.autograd.grad(g.sum(), x)
        s = 1 / (1 + np.exp(-0.5))
        np.testing.assert_allclose(second.numpy(), s * (1 - s) * (1 - 2 * s), rtol=1e-5)
        with jg.autograd.graph.saved_tensors_hooks(lambda t: t * 1.0, lambda t: t):
            z = (x * x).exp()
        z.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp(0.25), rtol=1e-6)
    assert len(seen) == 10 and all(isinstance(g, jg.Tensor) for g in seen)


@pytest.mark.parametrize("rows", [3, 3000])
def test_hooks_of_a_node_see_what_its_rule_returns(rows: int) -> None:
    """The bias's gradient is a matrix until the engine sums it, as in PyTorch: also once the rules are a program."""
    x, weight, bias = jg.ones(rows, 4), jg.ones(5, 4, requires_grad=True), jg.ones(5, requires_grad=True)
    seen: list[Any] = []

    def look(grad_inputs: Any, grad_outputs: Any) -> None:
        seen.extend(g.shape for g in grad_inputs if g is not None)

    for has_hook in (False, True, True, False, True, True, True, True):
        seen.clear()
        out = F.linear(x, weight, bias)
        if has_hook:
            out.grad_fn.register_hook(look)
        bias.grad = None
        out.sum().backward()
        assert seen == ([(rows, 5), (5, 4)] if has_hook else [])
        assert bias.grad.tolist() == [rows] * 5


def test_gradients_keep_their_memory_to_themselves() -> None:
    for _ in range(5):
        x = jg.ones(2, 3, requires_grad=True)
        y = jg.ones(2, 3, requires_grad=True)
        (x + y).backward(jg.ones(2, 3))
        with jg.no_grad():
            x.grad.mul_(2.0)
        assert y.grad.tolist() == [[1.0] * 3] * 2


def test_rules_that_read_values_keep_running(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[float] = []
    op = OPS["exp2"]

    def rule(c: Any, g: Any, out: Any) -> Any:
        ran.append(float(out.sum()))
        return g * out * float(np.log(2.0))

    monkeypatch.setattr(op.vjps[0], "rule", rule)
    x = jg.randn(11).requires_grad_()
    monkeypatch.setattr(op_node, "_PLANS", {})
    for _ in range(6):
        jg.exp2(x).sum().backward()
    assert len(ran) >= 6


def test_a_step_has_the_same_gradients_in_every_mode(mode: Mode) -> None:
    start = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)

    def step(x: Any) -> Any:
        h = jg.tanh(x * x) / (1 + x[0] ** 2)
        jg.cat([h, h.sigmoid()], 1).sum().backward()
        return x.grad

    def leaf() -> Any:
        return jg.tensor(start, requires_grad=True)

    expected = step(leaf())
    for _ in range(4):
        assert step(leaf()).numpy().tobytes() == expected.numpy().tobytes()
    np.testing.assert_allclose(mode.run(step, lambda: (leaf(),)).numpy(), expected.numpy(), rtol=1e-5, atol=1e-7)
