"""Arguments that are windows on a data set: one path for all, and nobody can tell. Note [Batches of a data set]"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import Tensor, stats
from jitgrad.compiled.batches import Batches
from jitgrad.state import native_cell
from jitgrad.tracer.recording.entry import Entry


def data() -> Tensor:
    return jitgrad.arange(40.0).reshape(10, 4).clone()


def misses_of(step: Any, calls: list[tuple[Any, ...]]) -> list[int]:
    """Misses per call."""
    found = []
    for args in calls:
        before = stats()["misses"]
        step(*args)
        found.append(stats()["misses"] - before)
    return found


def test_slices_are_hits_whatever_their_offset() -> None:
    x, y = jitgrad.randn(200, 3), jitgrad.randn(200)
    w = jitgrad.zeros(3, requires_grad=True)

    @jitgrad.compile
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = ((x @ w + x[:, 0] - y) ** 2).mean()
        loss.backward()
        with jitgrad.no_grad():
            w.sub_(w.grad, alpha=0.1)
        w.grad = None
        return loss

    batches = [(x[i : i + 20], y[i : i + 20]) for i in range(0, 200, 20)]
    assert not any(misses_of(step, batches + batches)[2:])
    assert not any(misses_of(step, list(zip(x.split(20), y.split(20), strict=True))))


def test_losses_are_those_of_copies() -> None:
    x = jitgrad.randn(50, 3)

    def step(x: Tensor) -> Any:
        return (x.t() @ x).sum(), x[1:].exp().mean(0), x.reshape(-1)[3]

    compiled = jitgrad.compile(step)
    for i in range(0, 40, 5):
        for mine, copy in zip(compiled(x[i : i + 5]), step(x[i : i + 5].clone()), strict=True):
            np.testing.assert_allclose(mine.numpy(), copy.numpy(), rtol=1e-5)


def test_the_argument_comes_back_as_itself() -> None:
    x = data()
    one = jitgrad.compile(lambda b: b)
    several = jitgrad.compile(lambda b, c: [b, b + 1, c])
    named = jitgrad.compile(lambda b: {"batch": b})
    pair = jitgrad.compile(lambda rows: (rows[1], rows))
    for i in range(5):
        b, c = x[i : i + 2], x[i + 1 : i + 3]
        assert one(b) is b
        assert several(b, c=c)[0] is b
        assert several(b, c)[2] is c
        assert named(b)["batch"] is b
        assert pair((b, c))[0] is c


def test_a_list_that_the_function_keeps_is_returned_as_itself() -> None:
    x, kept, table = data(), [None, 7], {"a": 1}

    @jitgrad.compile
    def step(b: Tensor) -> Any:
        kept[0], table["b"] = b, b
        return kept, table

    @jitgrad.compile
    def untouched(b: Tensor) -> Any:
        return (b + 1, kept)[1]

    for i in range(4):
        b = x[i + 1 : i + 3]
        found, named = jitgrad.compile(lambda b: kept)(b), step(b)[1]
        assert found is kept
        assert named is table
        step(b)
        assert untouched(b) is kept
    rows = jitgrad.compile(lambda b: (kept.__setitem__(0, b), kept)[1])
    for i in range(4):
        b = x[i + 1 : i + 3]
        assert rows(b) is kept
        assert kept[0] is b


def _writes_the_argument(x: Tensor, b: Tensor, c: Tensor) -> Any:
    return b.mul_(2).sum(), x._version


def _writes_the_base(x: Tensor, b: Tensor, c: Tensor) -> Any:
    first = b.sum()
    x.add_(1)
    return first, b.sum(), b._version


def _writes_one_reads_the_other(x: Tensor, b: Tensor, c: Tensor) -> Any:
    b.add_(1)
    s = c.sum()
    c.mul_(2)
    return s, b.sum(), b.clone()


def _writes_then_reads_all_from_python(x: Tensor, b: Tensor, c: Tensor) -> Any:
    b.mul_(3)
    before = x.tolist()
    c[0] = 7
    return before, x.tolist(), float(b.sum())


def _writes_through_a_view_of_the_argument(x: Tensor, b: Tensor, c: Tensor) -> Any:
    b[1].mul_(5)
    b[:, 0] += x[0, 1]
    return b.sum(), x.sum()


def _reads_a_view_after_its_base_was_written(x: Tensor, b: Tensor, c: Tensor) -> Any:
    view = b.t()
    x.zero_()
    return view + 1, b.sum()


@pytest.mark.parametrize(
    "step",
    [
        _writes_the_argument,
        _writes_the_base,
        _writes_one_reads_the_other,
        _writes_then_reads_all_from_python,
        _writes_through_a_view_of_the_argument,
        _reads_a_view_after_its_base_was_written,
    ],
)
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_memory_that_several_look_at(step: Callable[..., Any], order: tuple[int, ...]) -> None:
    """The same as eagerly, with overlapping slices, in whatever order the call meets them."""

    def meets(x: Tensor, b: Tensor, c: Tensor) -> Any:
        met = [(x, b, c)[n].sum() for n in order]
        return met, step(x, b, c)

    compiled = jitgrad.compile(meets)
    mine, eager = data(), data()
    for i in range(1, 6):
        found = compiled(mine, mine[i : i + 3], mine[i + 1 : i + 4])
        wanted = meets(eager, eager[i : i + 3], eager[i + 1 : i + 4])
        assert _plain(found) == _plain(wanted)
        assert mine.tolist() == eager.tolist()


def _plain(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return [_plain(y) for y in x]
    return x.tolist() if isinstance(x, Tensor) else x


def test_what_outlives_the_call_is_a_window_on_the_data() -> None:
    x = data()
    step = jitgrad.compile(lambda b: b[0])
    add = jitgrad.compile(lambda row, x: (x.add_(1), row.sum())[1])
    for i in range(4):
        row = step(x[i + 1 : i + 3])
        x[i + 1, 2] = 100.0
        assert row.tolist() == x[i + 1].tolist()
        assert float(add(row, x)) == float(x[i + 1].sum())


def test_a_leaf_made_inside_is_the_argument() -> None:
    def step(b: Tensor, is_leaf: bool) -> Tensor:
        if is_leaf:
            b.requires_grad_()
            (b * b).sum().backward()
        return b.detach().sum()

    for flags in ([True] * 4, [False, False, False, True, True]):
        compiled = jitgrad.compile(step)
        for i, is_leaf in enumerate(flags):
            b = data()[i + 1 : i + 3].detach()
            compiled(b, is_leaf)
            assert b.requires_grad is is_leaf
            assert (b.grad is not None) is is_leaf
            if is_leaf:
                assert b.grad.tolist() == (2 * b.detach()).tolist()
    compiled = jitgrad.compile(step)
    compiled(data()[1:3], False)
    for _ in range(4):  # on another path, that is known when a slice takes it
        compiled(data()[1:3].clone(), True)
    b = data()[1:3].detach()
    compiled(b, True)
    assert b.requires_grad
    assert b.grad.tolist() == (2 * b.detach()).tolist()


def test_a_leaf_made_before_an_error_is_the_argument() -> None:
    def step(b: Tensor, fails: bool) -> Tensor:
        if fails:
            b.requires_grad_()
            (b * b).sum().backward()
            raise KeyError("mine")
        return b.sum()

    for calls_before in range(4):
        compiled = jitgrad.compile(step)
        for i in range(calls_before):
            compiled(data()[i + 1 : i + 3], False)
        b = data()[2:4].detach()
        with pytest.raises(KeyError):
            compiled(b, True)
        assert b.requires_grad
        assert b.grad.tolist() == (2 * b.detach()).tolist()


@pytest.mark.parametrize("form", ["positional", "by name", "in a tuple"])
def test_slices_that_come_again_are_entered_and_passed_by_hits(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of such a call is left to the general way, and where hits are native, nothing of it to Python."""
    seen = Counter[str]()

    def counted(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def count(*args: Any, **kwargs: Any) -> Any:
            seen[name] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, count)

    x, y, w = jitgrad.randn(200, 3), jitgrad.randn(200), jitgrad.zeros(3)

    @jitgrad.compile
    def step(pair: Any, labels: Any = None) -> Tensor:
        rows, labels = pair if labels is None else (pair, labels)
        return w.add_((rows * labels[:, None]).mean(0)).sum()

    def call(i: int) -> float:
        rows, labels = x[i : i + 20], y[i : i + 20]
        found = {
            "positional": lambda: step(rows, labels),
            "by name": lambda: step(rows, labels=labels),
            "in a tuple": lambda: step((rows, labels)),
        }[form]()
        return float(found)

    for i in range(1, 4):
        call(i)
    counted(Entry, "enter")
    counted(Batches, "swap")
    w.zero_()
    total = jitgrad.zeros(3)
    for i in range(30, 60):
        total += (x[i : i + 20].clone() * y[i : i + 20, None].clone()).mean(0)
        assert call(i) == pytest.approx(float(total.sum()), abs=1e-5)
    assert seen == ({} if native_cell.is_installed else {"swap": 30})


def test_slices_of_one_memory_are_never_taken_for_each_other() -> None:
    """The second of two slices is entered in the general way: it is known then what they share."""
    x, y = data(), data()

    def step(b: Tensor, c: Tensor, d: Tensor) -> Any:
        first = b.sum() + c.sum()
        c.mul_(2)
        d.mul_(3)
        return first, b.sum(), b + c

    compiled = jitgrad.compile(step)
    for i in range(1, 7):
        for j in (1, 3, 5):
            found = compiled(x[i : i + 3], x[j : j + 3], x)
            wanted = step(y[i : i + 3], y[j : j + 3], y)
            assert _plain(found) == _plain(wanted)
            assert x.tolist() == y.tolist()
            x.copy_(data())
            y.copy_(data())


def test_one_slice_that_is_passed_twice_is_one_tensor() -> None:
    x, same = data(), []

    @jitgrad.compile
    def step(b: Tensor, rows: Any, c: Tensor) -> Tensor:
        same.append(b is rows[0] and b is c)
        return (b * rows[0] + c).sum()

    for i in range(5):
        b = x[i + 1 : i + 3]
        assert float(step(b, (b, 1), c=b)) == float((b * b + b).sum())
    assert all(same)


def test_a_remembered_call_does_not_enter_slices_of_one_memory() -> None:
    """``einsum`` enters both of its operands; that they share memory, the call must know before it writes one."""

    def step(b: Tensor, c: Tensor) -> Any:
        total = jitgrad.einsum("ij,ij->", b, c)
        b.mul_(2)
        return total, c.sum(), b + c

    compiled, apart = jitgrad.compile(step), data()
    for _ in range(4):
        compiled(data()[1:4], apart[1:4])
    for i in range(1, 7):
        for j in (1, 3, 5):
            x, y = data(), data()
            assert _plain(compiled(x[i : i + 3], x[j : j + 3])) == _plain(step(y[i : i + 3], y[j : j + 3]))
            assert x.tolist() == y.tolist()


def test_an_error_leaves_the_argument_as_it_was() -> None:
    x = data()

    @jitgrad.compile
    def step(b: Tensor, fails: bool) -> Tensor:
        b.add_(1)
        if fails:
            raise KeyError("mine")
        return b.sum()

    for i in range(4):
        b = x[i + 1 : i + 3]
        before = b.tolist()
        with pytest.raises(KeyError):
            step(b, True)
        assert b.tolist() == [[v + 1 for v in row] for row in before]
        step(b, False)
        assert b.storage_offset() == 4 * (i + 1)


def test_an_input_is_not_taken_for_a_view_that_the_step_made() -> None:
    """``b @ a`` looks at ``b`` through a window that is ``a``, and is refused; the window is gone, ``a`` is used."""
    a = data()[:1]
    b = a[0]

    @jitgrad.compile
    def step(a: Tensor, b: Tensor, y: Tensor) -> Any:
        with pytest.raises(RuntimeError):
            b @ a
        return float(y.sum()), a.exp().sum()

    for _ in range(3):
        found, total = step(a, b, data())
        assert found == 780.0
        assert float(total) == pytest.approx(float(a.exp().sum()))
