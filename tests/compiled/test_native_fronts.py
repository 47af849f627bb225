"""Native fronts: functions stay what they are, and say in a compiled step what they say without their fronts."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import inspect
import pickle
import sys
import weakref
from typing import Any

import pytest

import jitgrad
from jitgrad.compiled import check_hits, native_fronts
from jitgrad.compiled.check_hits import checked_front
from jitgrad.config import config
from jitgrad.cpython.fronts import runs_as_python
from jitgrad.cpython.liveness import counts_references
from jitgrad.errors import JitgradError
from jitgrad.functions import _generated
from jitgrad.nn import functional as F
from jitgrad.ops.table import OPS
from jitgrad.state import native_cell, state
from jitgrad.tensor import Tensor
from jitgrad.tracer.hits.front_hits import CallForm, FrontRow
from jitgrad.tracer.hits.hits import MISSED
from jitgrad.tracer.recorder import Recorder
from jitgrad.tracer.recording.hot import HOT

jitgrad.compile(lambda x: x + 1)(jitgrad.ones(2))  # installs them

needs_fronts = pytest.mark.skipif(not native_cell.is_installed, reason="no native hits on this interpreter")


@needs_fronts
def test_every_function_of_the_list_has_its_front() -> None:
    functions = [f for _, rows in native_fronts.all_fronts() for f, _ in rows]
    assert len(functions) > 150
    assert len(set(map(id, functions))) == len(functions)  # one each
    assert not [f for f in functions if runs_as_python(f)]
    assert runs_as_python(jitgrad.multinomial)


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
    "names": lambda x, w: jitgrad.add(x, x, alpha=2) + x.sub(other=x, alpha=0.3) + F.softmax(x, dim=1).tril(diagonal=1),
    "names in another order": lambda x, w: F.softmax(dim=1, input=x) + F.gelu(approximate="tanh", input=x),
    "writes by name": lambda x, w: (x * 1).add_(x, alpha=2).sub_(x, alpha=0.25).sub_(other=x, alpha=1).add_(1, alpha=1),
    "parts": lambda x, w: x[:, 1].sum() + x[..., -1].sum() + x[0, 1:3].sum() + x[None, :, 2:, None].sum() + x[:2, :1],
    "parts of parts": lambda x, w: x[1, 2] + x[:, :] + x[...][0, ...] + x[()][-1, :-1].sum() + x[1:, None][1, 0],
    "parts that are copies": lambda x, w: x[[0, 2], 1].sum() + x[x > 0].sum() + x[:, ::2].sum() + x[True, 1].sum(),
    "vectors": lambda x, w: x @ x[0] + (x[0] @ x[1]) + (x[0] @ w).sum() + (x[None] @ w).sum(),
    "classes": lambda x, w: F.cross_entropy(x, _rows(x)) + F.cross_entropy(x[0], _rows(x)[1]),
    "parts of classes": lambda x, w: F.cross_entropy(x, x.exp()) + F.cross_entropy(x.t()[None], _rows(x)[None]),
    "classes by name": lambda x, w: F.cross_entropy(x, target=_rows(x)) + F.cross_entropy(x, _rows(x), reduction="sum"),
    "log-likelihoods": lambda x, w: F.nll_loss(x, _rows(x)) + F.nll_loss(x, _rows(x), x[0]) + x.detach().sum(),
    "logits": lambda x, w: F.binary_cross_entropy_with_logits(x, x.sigmoid()),
}


def _in_place(y: Any, x: Any) -> Any:
    y += x
    y -= 0.5
    y *= x
    y /= 2
    return y


def _rows(x: Any) -> Any:
    return jitgrad.tensor([0, 3, 1])


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
            return jitgrad.matmul(x, w), x @ w, F.mse_loss(short, short)

    short = jitgrad.ones(2, 2, dtype=jitgrad.bfloat16)
    low, usual = (jitgrad.bfloat16, jitgrad.bfloat16, jitgrad.float32), (jitgrad.float32, jitgrad.float32, short.dtype)
    for _ in range(3):
        assert tuple(y.dtype for y in step(True)) == low
        assert tuple(y.dtype for y in step(False)) == usual

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
    rows = _rows(x)

    @jitgrad.compile
    def step() -> Any:
        y = jitgrad.tanh(x).unsqueeze(0).squeeze(0).view(4, 3).t()[0:2][1].sum()
        y = y + jitgrad.softmax(x, dim=1)[:, 1].sum() + F.cross_entropy(x, rows)
        loss = (x * p).mean() + F.binary_cross_entropy_with_logits(x @ p, x[..., 0])
        loss.backward()
        with jitgrad.no_grad():
            p.sub_(p.grad, alpha=0.1)
        p.grad = None
        return y, loss.detach()

    for _ in range(3):
        step()
    entered: list[str] = []
    monkeypatch.setattr(HOT, "hit_apply", lambda *args: entered.append("apply"))
    codes = {f.__code__: f.__qualname__ for _, rows in native_fronts.all_fronts() for f, _ in rows}
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
    assert rows["add_"] == ("write", (None, None, "add", "add_scaled"))
    assert "dropout" not in rows


@pytest.mark.skipif(not counts_references, reason="ends are found by who is held")
def test_a_step_that_returns_a_detached_loss_ends_by_a_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a view leaves behind when its source is gone must not depend on how often the survivors are asked for."""
    p = jitgrad.ones(3, requires_grad=True)

    @jitgrad.compile
    def step() -> Any:
        loss = (p * p).sum()
        loss.backward()
        p.grad = None
        y = p * 3
        return loss.detach(), y.detach()

    for _ in range(3):
        step()
    ended: list[Any] = []
    monkeypatch.setattr(Recorder, "flush", lambda self, is_last=False: ended.append(is_last))
    loss, y = step()
    assert ended == []
    assert (loss._storage.addr, y._storage.addr) != (0, 0)


@needs_fronts
def test_a_thousand_hits_leave_no_reference_behind() -> None:
    """One reference too many or too few per hit is a thousand after as many calls."""
    x, y, p = jitgrad.ones(3, 4), jitgrad.ones(4), jitgrad.ones(4, requires_grad=True)
    rows, where, block = jitgrad.tensor([0, 3, 1]), (slice(None), 1), jitgrad.no_grad()
    target = jitgrad.zeros(4)

    @jitgrad.compile
    def step() -> Any:
        part = jitgrad.add(x, y, alpha=0.5)[where].sum()
        part = part + jitgrad.softmax(x, dim=1)[None, :, 0].unsqueeze(0).view(3).sum()
        loss = F.cross_entropy(x * p, rows) + F.mse_loss(x @ p, x[:, 0]) + F.linear(x, x).sum() + part
        loss.backward()
        with block:
            p.sub_(p.grad, alpha=1e-3)
        target.mul_(0.5).add_(y)
        p.grad = None
        return loss.detach()

    watched: list[Any] = [x, y, p, rows, where, target, block, where[0], jitgrad.add, None, True, False, 0, 1, 0.5]
    watched += [row for _, found in native_fronts.all_fronts() for _, row in found if row is not None]
    watched += [MISSED, NotImplemented, p._vc, step, step.fn, step.trie, "alpha", "dim", Ellipsis, Tensor]
    for _ in range(20):
        step()
    watched += step.last_path()
    gc.collect()  # what other tests have left
    before = [sys.getrefcount(one) for one in watched]
    for _ in range(1000):
        step()
    after = [sys.getrefcount(one) for one in watched]
    drift = [(one, n - m) for one, m, n in zip(watched, before, after, strict=True) if abs(n - m) > 100]
    assert drift == []


@pytest.mark.skipif(not counts_references, reason="references are not counted")
def test_a_front_that_keeps_a_reference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """``JITGRAD_CHECK=1``: a front that holds an argument once too often, or lets go of it, raises."""
    monkeypatch.setattr(check_hits, "_is_alone", lambda: True)  # a thread that a library has left behind does not count
    kept: list[Any] = []
    x = jitgrad.ones(2)
    row = FrontRow((None, CallForm(OPS["tanh"], 1)), (None, CallForm(OPS["tanh"], 1)), ("input",))

    def keeps(row: Any, args: Any, names: Any) -> Any:
        kept.append(args[0])

    def lets_go(row: Any, args: Any, names: Any) -> Any:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(args[0]))

    @jitgrad.compile
    def step(front: Any) -> Any:
        x * 2
        return checked_front("write", {"write": front})(row, (x,), None)

    with pytest.raises(JitgradError, match="argument 0 has 1 more references"):
        step(keeps)
    kept.append(x)  # so that it is there when ``lets_go`` has been noticed
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))
    with pytest.raises(JitgradError, match="argument 0 has -1 more references"):
        step(lets_go)
    assert step(lambda row, args, names: MISSED) is MISSED


class _OwnError(Exception):
    pass


def test_a_compiled_call_is_what_its_function_says() -> None:
    """Arguments by name, errors, results of every kind: by the front, and before there is one."""
    x = jitgrad.ones(3)

    @jitgrad.compile
    def step(a: Any, *rest: Any, scale: Any = 2.0, fails: bool = False) -> Any:
        y = a * scale
        a.add_(1)
        if fails:
            raise _OwnError(y.detach())
        return (y, *rest)

    for nr in range(5):
        assert step(x, scale=3.0)[0].tolist() == [3.0 * (1 + 4 * nr)] * 3
        assert step(x, "last", 7)[1:] == ("last", 7)
        with pytest.raises(_OwnError) as caught:
            step(x, fails=True)
        assert caught.value.args[0].tolist() == [2.0 * (3 + 4 * nr)] * 3
        assert caught.traceback[-1].name == "step"
        with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
            step(x, other=1)
        x += 1
    assert jitgrad.is_grad_enabled()
    assert state.handler is None


def test_an_error_of_a_compiled_call_holds_nothing() -> None:
    """No frame in the traceback holds the error itself: it goes, and what it holds, as soon as it was caught."""

    @jitgrad.compile
    def step(errors: list[Exception]) -> None:
        if errors:
            raise errors.pop()

    class Noted(Exception):
        pass

    for _ in range(4):
        step([])
        errors = [Noted()]
        gone = weakref.ref(errors[0])
        gc.disable()
        try:
            with contextlib.suppress(Noted):
                step(errors)
            assert gone() is None
        finally:
            gc.enable()


@needs_fronts
def test_a_usual_call_is_no_frame_of_python() -> None:
    x = jitgrad.ones(3)
    step = jitgrad.compile(lambda a, b=1: None)  # operators are methods where hits are checked
    for _ in range(3):
        step(x), step(x, b=2)
    entered: list[str] = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        step(x), step(x, b=2)
    finally:
        sys.setprofile(None)
    assert entered == ["<lambda>"] * 2


@needs_fronts
def test_an_error_at_the_end_of_a_compiled_call_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jitgrad.ones(3)
    step = jitgrad.compile(lambda: x * 2)
    for _ in range(3):
        step()

    def fails(*args: Any) -> Any:
        raise _OwnError

    with monkeypatch.context() as patch:
        patch.setattr(HOT, "end_call", fails)
        with pytest.raises(_OwnError):
            step()
    assert state.handler is None
    assert step().tolist() == [2.0, 2.0, 2.0]


@needs_fronts
def test_modules_are_called_without_a_frame_until_there_are_hooks() -> None:
    model = jitgrad.nn.Sequential(jitgrad.nn.Linear(2, 2), jitgrad.nn.ReLU())
    optimizer = jitgrad.optim.SGD(model.parameters(), lr=0.1)
    x, seen = jitgrad.ones(3, 2), []
    entered: list[str] = []

    def run() -> Any:
        optimizer.zero_grad()
        return model(input=x).sum()

    run().backward()
    assert model[0].weight.grad is not None
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        want = run()
    finally:
        sys.setprofile(None)
    assert model[0].weight.grad is None
    assert entered.count("forward") == 3
    assert not {"__call__", "zero_grad"} & set(entered)
    handle = model[1].register_forward_hook(lambda module, args, out: seen.append(out.shape))
    assert run().item() == want.item()
    assert seen == [(3, 2)]
    handle.remove()
    everywhere = jitgrad.nn.module.register_module_forward_hook(lambda *_: seen.append("all"))
    run()
    everywhere.remove()
    assert seen[1:] == ["all"] * 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        model(other=x)
    with pytest.raises(NotImplementedError):
        jitgrad.nn.Module()(x)
    (model(x).sum() * 2).backward()
    optimizer.zero_grad(set_to_none=False)
    assert model[0].bias.grad.tolist() == [0.0, 0.0]


def _added_to_data(p: Any, q: Any) -> None:
    p.data.add_(p.grad)
    p.data -= q.data
    q.data.mul_(0.5)


def _added_to_gradients(p: Any, q: Any) -> None:
    (p * q).sum().backward()
    (p * p).sum().backward()


def _added_to_zeroed_gradients(p: Any, q: Any) -> None:
    p.grad.mul_(0.0)
    (p * q).sum().backward()


def _written_parts(p: Any, q: Any) -> None:
    x, y = p.data, q.data
    x[0] += 1.0
    x[:1] = y[1:]
    y[:] += x[0]
    y[1] = 0.5


@needs_fronts
@pytest.mark.skipif(config.check_hits, reason="checked hits are called from Python")
@pytest.mark.parametrize("statements", [_added_to_data, _added_to_gradients, _added_to_zeroed_gradients])
def test_usual_updates_run_no_line_of_ours(statements: Any) -> None:
    p, q = (jitgrad.tensor([0.5, 2.0], requires_grad=True) for _ in range(2))
    p.grad, q.grad = jitgrad.ones(2), jitgrad.ones(2)
    step = jitgrad.compile(lambda: statements(p, q))
    entered: list[str] = []
    for _ in range(4):
        step()
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        step()
    finally:
        sys.setprofile(None)
    assert entered in (["<lambda>", statements.__name__], ["<lambda>", statements.__name__, "_set_data"]), entered
