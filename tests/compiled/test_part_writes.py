"""Writes to parts of tensors in compiled steps: the same in every call as eagerly, whoever looks at the memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import agreement
import pytest
from modes import Mode

import jitgrad as jg
from jitgrad import autograd
from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.state import native_cell

jg.compile(lambda x: x + 1)(jg.ones(2))  # installs native hits

needs_fronts = pytest.mark.skipif(
    not native_cell.is_installed or not counts_references or config.check_hits,
    reason="hits are Python's, or are checked",
)


def _rows(u: Any, p: Any) -> Any:
    out = jg.zeros(4, 3)
    for i in range(4):
        out[i] = u[i] * (i + 1)
    return out


def _stencil(u: Any, p: Any) -> Any:
    for _ in range(3):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] + u[:-2] - 2 * u[1:-1])
    return u


def _added(u: Any, p: Any) -> Any:
    for k in range(3):
        u[:, k] += k
        u[k] *= 0.5
        u[k, 1:] -= 1
    return u.sum()


def _of_the_graph(u: Any, p: Any) -> Any:
    out = jg.zeros(4, 3)
    for i in range(4):
        out[i] = p * u[i] + (out[i - 1] if i else 0.0)
    return (out * out).sum()


def _written_over(u: Any, p: Any) -> Any:
    h = u * p
    h[0] = h[1] * 2
    h[:, 1:] += 1.5
    return h.square().sum()


def _without_grad(u: Any, p: Any) -> Any:
    h = u * p
    with jg.no_grad():
        h[0] = 3.0
        p[:1] *= 0.5
    return h.sum() * 1.0


def _with_views_held(u: Any, p: Any) -> Any:
    a, b, c = u[0], u[:, 1], u[1:3]
    u[0] = 2.0
    u[:, 1] += a[1]
    b[2] = 5.0
    c[0] -= c[1]
    return a + 1, b * 2, c.sum()


def _with_aliases_held(u: Any, p: Any) -> Any:
    d = u.detach()
    u[0] = 1.0
    d[1] = 2.0
    return d * u


def _views_of_views(u: Any, p: Any) -> Any:
    v = u[1:]
    w = v[:, 1:]
    w[0] = 7.0
    v[1, 1] += 1
    w += v[:, :2]
    return u * 1, v * 1, w * 1


def _after_a_read(u: Any, p: Any) -> Any:
    u[0] = 1.0
    k = int(u[0, 0].item())
    u[k] = 2.0
    u[k, 0] += u[0, 1]
    return u[0]


def _by_numbers_that_change(u: Any, p: Any) -> Any:
    u[0] = float(p.detach()[0])
    u[1] += float(p.detach()[1])
    return u * 1


def _by_what_it_overlaps(u: Any, p: Any) -> Any:
    u[1:] = u[:-1].clone()
    u[0] = u[3] * 1
    u[2] = u[2]
    return u[2]


def _broadcast(u: Any, p: Any) -> Any:
    u[1:3] = p.detach()
    u[:, :2] = jg.ones(1, 1, 1)
    u[3] = jg.tensor(2, dtype=jg.int64)
    return u * 1


def _of_integers(u: Any, p: Any) -> Any:
    n = (u * 10).long()
    n[0] = 2.7
    n[1] = True
    n[2, 1:] = 3
    return n


def _transposed(u: Any, p: Any) -> Any:
    t = u.t()
    t[0] = 1.0
    t[1:, 2] += t[0, 0]
    return t * 1


def _refused(u: Any, p: Any) -> Any:
    seen = []
    for statement in ("u[9] = 1.0", "u[0] = u[:, 0]", "p[0] = 1.0", "u[0, 0, 0] = 1"):
        try:
            exec(statement, {"u": u, "p": p})
        except (RuntimeError, IndexError) as error:
            seen.append(type(error).__name__)
    u[0] = 4.0
    return u * 1, seen


STEPS = [f for name, f in list(globals().items()) if name[0] == "_" != name[1] and callable(f)]


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("step", STEPS, ids=lambda f: f.__name__)
def test_every_call_says_what_eager_execution_says(step: Callable[..., Any], held: bool) -> None:
    """Six calls; ``held``: from the fourth on somebody outside looks at the same memory."""

    def run(function: Any) -> Any:
        jg.manual_seed(0)
        u, p = jg.randn(4, 3), jg.randn(3).requires_grad_()
        seen, outside = [], []
        for nr in range(6):
            if held and nr >= 3:
                outside = [u[1:], u.detach(), p[0]]
            result = function(u, p)
            results = [*result] if isinstance(result, tuple) else [result]
            if isinstance(result, jg.Tensor) and result.requires_grad and not result.ndim:
                result.backward()
            seen.append(agreement.observe([u, p, p.grad, *outside, *results]))
            p.grad = None
            with jg.no_grad():
                u.mul_(0.5)
        return seen

    agreement.assert_same(run(jg.compile(step)), run(step))


@needs_fronts
@pytest.mark.parametrize("step", [_rows, _stencil, _added, _of_the_graph, _written_over], ids=lambda f: f.__name__)
def test_a_warm_call_runs_little_of_our_python(step: Callable[..., Any]) -> None:
    """Of each assignment one function, which copies the value into the view; and ``zeros``."""

    def whole(u: Any, p: Any) -> Any:
        return step(u, p).detach()

    function, entered = jg.compile(whole), []
    u, p = jg.ones(4, 3), jg.ones(3).requires_grad_()
    for _ in range(5):
        function(u, p)
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        function(u, p)
    finally:
        sys.setprofile(None)
    assert not {"write", "apply_inplace", "__setitem__", "__getitem__"} & {*entered}


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_view_of_another_rank_is_written_in_a_graph_that_began_outside(is_compiled: bool) -> None:
    """Derivative rules that run often become programs: what they compute is the view's gradient, not its base's."""

    def step(p: Any, y: Any) -> Any:
        v = p * 1
        v.unsqueeze(0).mul_(y)
        autograd.grad(v.sum(), p, retain_graph=True)
        return v

    function = jg.compile(step) if is_compiled else step
    for _ in range(8):
        p, q = jg.ones(4, 4, requires_grad=True), jg.ones(4, requires_grad=True)
        function(p, q * 2).sum().backward()
        assert p.grad.tolist() == [[2.0] * 4] * 4
        assert q.grad.tolist() == [8.0] * 4


TOO_LARGE = [
    ("float32", 1e40, RuntimeError), ("float32", 2**70, ValueError), ("float64", 2**63, ValueError),
    ("int64", 1e40, RuntimeError), ("int32", 2**40, RuntimeError), ("int64", float("nan"), RuntimeError),
    ("bool", 2**70, ValueError), ("float32", -1e39, RuntimeError),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "number", "kind"), TOO_LARGE)
def test_numbers_that_do_not_fit_are_refused(mode: Mode, dtype: str, number: float, kind: type) -> None:
    """As by PyTorch; and where the first calls had numbers that fit."""

    def step(x: Any, value: float) -> Any:
        x[0] = value
        x[:, 1] = value
        return x * 1

    function = mode.wrap(step)
    for value in (1, 0, 1, 1):
        function(jg.zeros(2, 3, dtype=getattr(jg, dtype)), value)
    x = jg.zeros(2, 3, dtype=getattr(jg, dtype))
    with pytest.raises(kind):
        function(x, number)
    assert x.tolist() == jg.zeros(2, 3, dtype=getattr(jg, dtype)).tolist()
    assert function(x, 1).tolist() == [[1, 1, 1], [0, 1, 0]]


def test_halves_take_what_is_too_large_as_infinity(mode: Mode) -> None:
    def step() -> Any:
        x = jg.zeros(2, dtype=jg.float16)
        x[0] = 1e40
        x[1] = -float("inf")
        return x

    assert mode.run(step).tolist() == [float("inf"), -float("inf")]
