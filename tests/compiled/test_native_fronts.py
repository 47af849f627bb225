"""Native fronts: functions stay what they are, and say in a compiled step what they say without their fronts."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
from typing import Any

import pytest

import jitgrad
from jitgrad.compiled import native_fronts
from jitgrad.config import config
from jitgrad.cpython.fronts import runs_as_python
from jitgrad.functions import _generated
from jitgrad.nn import functional as F
from jitgrad.state import native_cell
from jitgrad.tensor import Tensor
from jitgrad.tracer.hot import HOT

jitgrad.compile(lambda x: x + 1)(jitgrad.ones(2))  # installs them

needs_fronts = pytest.mark.skipif(
    not native_cell.is_installed or config.check_hits, reason="operations have no fronts on this interpreter"
)


@needs_fronts
def test_every_function_of_the_list_has_its_front() -> None:
    functions = [f for _, rows in native_fronts.all_fronts(operations=True) for f, _ in rows]
    assert len(functions) > 150
    assert len(set(map(id, functions))) == len(functions)  # one each
    assert not [f for f in functions if runs_as_python(f)]
    assert runs_as_python(jitgrad.einsum)


def test_a_function_with_a_front_is_the_function_it_was() -> None:
    tanh = jitgrad.tanh
    assert inspect.isfunction(tanh)
    assert list(inspect.signature(tanh).parameters) == ["input"]
    assert (tanh.__name__, tanh.__qualname__, tanh.__module__) == ("tanh", "tanh", "jitgrad.functions")
    assert "tanh" in (tanh.__doc__ or "")
    assert "def tanh(input" in inspect.getsource(tanh.__code__)
    assert pickle.loads(pickle.dumps(tanh)) is copy.copy(tanh) is copy.deepcopy(tanh) is tanh
    assert pickle.loads(pickle.dumps(Tensor.unsqueeze)) is Tensor.unsqueeze
    assert str(tanh).startswith("<function tanh at")
    assert type(tanh).__name__ == "function"
    assert type(tanh).__module__ == "builtins"
    x = jitgrad.zeros(2)
    assert x.tanh().tolist() == tanh(x).tolist() == tanh(input=x).tolist() == [0.0, 0.0]


_CALLS = {
    "tanh": lambda x, w: jitgrad.tanh(x),
    "by name": lambda x, w: jitgrad.tanh(input=x).softmax(dim=1),
    "with out": lambda x, w: jitgrad.exp(x, out=jitgrad.empty(3, 4)),
    "defaults": lambda x, w: jitgrad.tril(x) + x.tril(1) + F.gelu(x) + F.gelu(x, "tanh"),
    "of numbers": lambda x, w: jitgrad.mul(x, 2) + jitgrad.mul(x, 2.5) + jitgrad.mul(2, x) + x.sub(x, alpha=2),
    "of bools": lambda x, w: jitgrad.mul(x, True) + x * True + x.add(False),
    "of numpy's": lambda x, w: x.transpose(*__import__("numpy").array([0, 1])).t() + 1,
    "squeeze": lambda x, w: x[None].squeeze() + x[None].squeeze(0) + x[:, None].squeeze((0, 1)),
    "sums": lambda x, w: x.sum() + x.mean() + jitgrad.sum(x) + x.sum(0).mean() + x.sum(dtype=jitgrad.float64),
    "sizes": lambda x, w: x.view(2, 6).t() @ x.view((2, 6)) @ x.reshape([6, 2]).reshape(-1)[:6],
    "sizes of a size": lambda x, w: x.reshape(x.size()).expand(2, 3, 4).permute(0, 2, 1).permute((2, 0, 1)),
    "reshape that copies": lambda x, w: x.t().reshape(12) * x.reshape(12),
    "items": lambda x, w: x[1] + x[-1] + x[0:1] + x[:1] + x[1:2][0] + x[::2][0] + x[None][0, 0] + x[True][0, 0],
    "products": lambda x, w: jitgrad.matmul(x, w) + x @ w + jitgrad.mm(x, w) + jitgrad.matmul(x, w[:, 0])[:, None],
    "batches": lambda x, w: jitgrad.matmul(x[None], w)[0] + jitgrad.matmul(x[0], w),
    "layers": lambda x, w: F.linear(x, w.t()) + F.linear(x, w.t(), w[0]) + F.linear(x[None], w.t(), w[0])[0],
    "layers of vectors": lambda x, w: F.linear(x[0], w.t(), w[0]) + F.linear(x, w[:, 0])[:2] + F.linear(x, w.t(), None),
    "losses": lambda x, w: F.mse_loss(x, x * 3) + F.mse_loss(x, x * 2) + F.mse_loss(x, x, reduction="sum"),
    "writes": lambda x, w: (x * 1).mul_(2).add_(x).sub_(1.5).add_(x, alpha=2).exp_().relu_(),
    "operators in place": lambda x, w: _in_place(x * 1, x),
    "no_grad": lambda x, w: _modes(x, w),
}


def _in_place(y: Any, x: Any) -> Any:
    y += x
    y -= 0.5
    y *= x
    y /= 2
    return y


def _modes(x: Any, w: Any) -> Any:
    p = w.clone().requires_grad_()
    block = jitgrad.no_grad()
    with block:
        with block, jitgrad.enable_grad():
            assert jitgrad.is_grad_enabled()
            inside = (x @ p).sum()
        assert not jitgrad.is_grad_enabled()
        outside = x @ p
    assert jitgrad.is_grad_enabled()
    assert inside.requires_grad
    assert not outside.requires_grad
    assert p.grad is None
    inside.backward()
    with jitgrad.no_grad():
        p -= 0.1 * p.grad
    before = p.grad
    p.grad = None
    (p * p).sum().backward()
    return p.detach() + p.grad + before + outside.sum()


@pytest.mark.parametrize("name", _CALLS)
def test_what_a_front_says_is_what_the_function_says(name: str) -> None:
    """The first call records, without hits; the second is all hits, and has nothing new."""
    x, w = (jitgrad.arange(12.0) / 7 - 0.6).reshape(3, 4), jitgrad.arange(8.0).reshape(4, 2) / 3
    call = _CALLS[name]
    want, step = call(x, w), jitgrad.compile(call)
    for nr in range(4):
        before = jitgrad.stats()["misses"]
        got = step(x, w)
        assert nr == 0 or jitgrad.stats()["misses"] == before
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        assert jitgrad.allclose(got, want, 1e-5, 1e-6)


def test_a_call_that_fits_an_event_but_not_the_function_raises() -> None:
    """``clamp_min`` takes a number where ``maximum`` does not."""

    def step(x: Any, last: Any) -> Any:
        y = x * 2
        jitgrad.mul(y, 2.0), y.unsqueeze(0), y.view(3), y[1], jitgrad.tanh(y)
        return last(y)

    wrong = [
        lambda y: jitgrad.maximum(y, 2.0),
        lambda y: jitgrad.mul(y, "2"),
        lambda y: y.unsqueeze(0.0),
        lambda y: y.view(3.0),
        lambda y: y[1.0],
        lambda y: y[5],
        lambda y: jitgrad.tanh(y, y),
        lambda y: jitgrad.tanh(),
        lambda y: y.backward(3),
        lambda y: y.backward(),
        lambda y: y.add_(),
        lambda y: y.add_("1"),
    ]
    x, compiled = jitgrad.ones(3), jitgrad.compile(step)
    for last in wrong:
        with pytest.raises(Exception) as eager:
            step(x, last)
        for _ in range(3):
            with pytest.raises(type(eager.value)) as recorded:
                compiled(x, last)
            assert str(recorded.value) == str(eager.value)


def test_autocast_and_overrides_are_asked() -> None:
    x, w = jitgrad.ones(2, 2), jitgrad.ones(2, 2)

    @jitgrad.compile
    def step(is_cast: bool) -> Any:
        with jitgrad.autocast("cpu", enabled=is_cast):
            return jitgrad.matmul(x, w)

    for _ in range(3):
        assert step(True).dtype is jitgrad.bfloat16
        assert step(False).dtype is jitgrad.float32

    class Loud(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func.__name__

    loud = jitgrad.ones(2).as_subclass(Loud)
    loudly = jitgrad.compile(lambda: (jitgrad.tanh(loud), loud.unsqueeze(0), (x * 1).sum()))
    for _ in range(3):
        assert loudly()[:2] == ("tanh", "unsqueeze")


@needs_fronts
def test_a_hit_is_no_frame_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done by a front does not come to the functions that others go through."""
    x = jitgrad.ones(3, 4)
    p = jitgrad.ones(4, requires_grad=True)

    @jitgrad.compile
    def step() -> Any:
        y = jitgrad.tanh(x).unsqueeze(0).squeeze(0).view(4, 3).t()[0:2][1].sum()
        loss = (x * p).mean()
        loss.backward()
        with jitgrad.no_grad():
            p.sub_(p.grad)
        p.grad = None
        return y

    for _ in range(3):
        step()
    entered: list[str] = []
    monkeypatch.setattr(HOT, "hit_apply", lambda *args: entered.append("apply"))
    codes = {f.__code__: f.__qualname__ for _, rows in native_fronts.all_fronts(True) for f, _ in rows}
    sys.setprofile(lambda frame, event, _: entered.append(codes.get(frame.f_code, "")) if event == "call" else None)
    try:
        step()
    finally:
        sys.setprofile(None)
    assert [name for name in entered if name] == []


def test_rows_come_from_the_functions() -> None:
    rows = {function.__name__: (kind, row) for function, kind, row in _generated.FRONTS}
    assert rows["softmax"] == ("call", (None, None, ("_softmax", 1, ())))
    assert rows["gelu"] == ("call", (None, ("gelu", 1, ("none",)), ("gelu", 1, ())))
    assert rows["maximum"] == ("call", (None, None, ("maximum", 2, ())))
    assert rows["add_"] == ("write", (None, None, "add"))
    assert "dropout" not in rows
