"""An index out of range raises at its statement in a compiled step too, see Note [Early checks]."""

from __future__ import annotations

import sys
from typing import Any

import agreement
import numpy as np
import pytest
from modes import Mode

import jitgrad as jg
from jitgrad import events
from jitgrad.config import config
from jitgrad.state import native_cell

GOOD, BAD = [2, 0], [1, 3]


def leaf() -> Any:
    return jg.ones(3, 3, requires_grad=True)


def warm_up(mode: Mode, step: Any, *good: Any) -> Any:
    """The step as the mode calls it, after the calls that warm it up."""
    function = mode.wrap(step)
    for _ in range(3 if mode.name == "warm" else 0):
        function(leaf(), *good)
    return function


def test_nothing_after_the_operation_happens(mode: Mode) -> None:
    reached: list[str] = []

    def step(x: Any, i: Any) -> Any:
        x.sum().backward()
        reached.append("before")
        y = (x * 2)[i]
        reached.append("after")
        x.grad = None
        y.sum().backward()
        return x.grad

    function = warm_up(mode, step, jg.tensor(GOOD))
    reached.clear()
    x = leaf()
    with pytest.raises(IndexError):
        function(x, jg.tensor(BAD))
    assert reached == ["before"]
    np.testing.assert_array_equal(x.grad.numpy(), np.ones((3, 3)))


def test_a_gradient_accumulated_twice_is_the_last_that_was_computed(mode: Mode) -> None:
    def step(x: Any, i: Any) -> None:
        x.sum().backward()
        (2 * x).sum().backward()
        y = x[i]
        (y * y).sum().backward()

    function = warm_up(mode, step, jg.tensor(GOOD))
    x = leaf()
    with pytest.raises(IndexError):
        function(x, jg.tensor(BAD))
    np.testing.assert_array_equal(x.grad.numpy(), np.full((3, 3), 3.0))


def test_an_index_that_the_step_computes(mode: Mode) -> None:
    reached = []

    def step(x: Any, i: Any) -> Any:
        y = (x * 2)[i + i]
        reached.append(1)
        return y

    function = warm_up(mode, step, jg.tensor([1, 0]))
    reached.clear()
    with pytest.raises(IndexError):
        function(leaf(), jg.tensor([1, 2]))
    assert not reached


def test_the_target_of_a_refused_write_keeps_its_value(mode: Mode) -> None:
    def step(x: Any, i: Any) -> Any:
        y = x.detach() * 2
        caught = False
        for index in (i, i + i - i):
            try:
                y[index] = 7.0
            except IndexError:
                caught = True
        y.add_(1)
        return y, caught

    function = warm_up(mode, step, jg.tensor(GOOD))
    y, caught = function(leaf(), jg.tensor(BAD))
    assert caught
    np.testing.assert_array_equal(y.numpy(), np.full((3, 3), 3.0))


def test_positions_that_are_in_range_by_construction_end_no_segment() -> None:
    def step(x: Any) -> Any:
        best = (x * 2).argmax(1)
        return x.gather(1, best.unsqueeze(1)).sum() + x[jg.arange(3), best].sum()

    function = jg.compile(step)
    for _ in range(3):
        with events.count("segments") as segments:
            function(leaf())
        assert segments() == 1


def test_an_index_that_was_written_is_looked_at_again() -> None:
    after = []

    def step(x: Any, i: Any) -> Any:
        y = x[i]
        after.append(1)
        return y

    function, i = jg.compile(step), jg.tensor(GOOD)
    for _ in range(3):
        function(leaf(), i)
    i[0] = 3
    with pytest.raises(IndexError):
        function(leaf(), i)
    assert len(after) == 3  # it was raised by the operation, not where its result was needed


def test_an_index_that_changes_unseen() -> None:
    """Its version tells nothing, so the kernel finds it, at the end of the segment."""
    array = np.array(GOOD)
    function, i = jg.compile(lambda x, i: x[i]), jg.from_numpy(array)
    for _ in range(3):
        function(leaf(), i)
    array[0] = 3
    with pytest.raises(IndexError):
        function(leaf(), i)
    array[0] = 1
    np.testing.assert_array_equal(function(leaf(), i).detach().numpy(), np.ones((2, 3)))


def test_integer_division() -> None:
    def step(x: Any, k: Any, d: Any) -> Any:
        return x % k + x // d

    def change(args: Any, nr: int) -> Any:
        x = args[0]
        return x, (2, 3, 0, 5, 0)[nr], jg.tensor([1, 0 if nr == 3 else 2, 3])

    agreement.agree(step, lambda: (jg.tensor([4, 5, 6]), 2, jg.tensor([1, 2, 3])), 5, change)


def test_a_masked_write_without_enough_values(mode: Mode) -> None:
    def step(x: Any, mask: Any) -> Any:
        return x.masked_scatter(mask, jg.ones(2))

    none, column = jg.zeros(3) > 1, jg.tensor([True, False, False])
    function = warm_up(mode, step, none)
    with pytest.raises(RuntimeError):
        function(leaf(), column)
    assert function(leaf(), none).shape == (3, 3)


def test_an_index_that_is_only_moved_ends_no_segment() -> None:
    def step(x: Any, tokens: Any) -> Any:
        targets = tokens[:, 1:].reshape(-1)
        return jg.nn.functional.cross_entropy(x[targets], targets)

    function = jg.compile(step)

    def run(first: int, last: int) -> int:
        tokens = jg.tensor([[first, 1, 2], [0, 0, last]])
        with events.count("segments") as segments:
            got = function(leaf(), tokens).item()
        assert got == pytest.approx(step(leaf(), tokens).item())
        assert events.stats()["hits"] >= 0
        return segments()

    # with a 9 that no target is, the targets themselves are looked at: they have values in a second segment
    assert [run(2, 1), run(2, 1), run(9, 1), run(9, 1), run(2, 2)] == [1, 1, 2, 2, 1]
    with pytest.raises(IndexError):
        run(2, 3)
    assert run(2, 0) == 1


def test_positions_in_a_tensor_without_dimensions(mode: Mode) -> None:
    def step(x: Any, i: Any) -> Any:
        total, refused = x.sum(), 0
        for index in (i, i + i - i):
            for use in (lambda t, j: t.gather(0, j), lambda t, j: t.scatter(0, j, 2.0)):
                try:
                    use(total, index)
                except (IndexError, RuntimeError):
                    refused += 1
        return refused, total * 2

    function = warm_up(mode, step, jg.tensor([0]))
    refused, double = function(leaf(), jg.tensor([1]))
    assert refused == 4 and double.item() == 18.0


@pytest.mark.parametrize("kind", ["value", "leaf", "window of a leaf", "alias", "held view", "saved"])
def test_what_came_before_an_operation_that_raised_is_there_for_the_step_that_goes_on(mode: Mode, kind: str) -> None:
    """The segment that raises ends like any other: what it has computed and written is found by what follows."""

    def refuse(x: Any) -> None:
        with pytest.raises(RuntimeError):
            jg.nn.functional.binary_cross_entropy(x.sigmoid() + 2, x.detach().sigmoid())

    def step(p: Any, x: Any) -> Any:
        y = x * 1.5
        target, view = {
            "value": (y, None),
            "leaf": (p.detach(), None),
            "window of a leaf": (p.detach()[1:], None),
            "alias": (y.detach(), y),
            "held view": (y, y.t()[1:]),
            "saved": (y, y * p),
        }[kind]
        target.mul_(2)
        refuse(x * p)
        target.mul_(0.5)
        target.add_(1)
        refuse(y + p)
        if kind == "saved":
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                view.sum().backward()
        else:
            (y * p).sum().backward()
        return [t for t in (y, target, view, p, p.grad) if t is not None]

    def inputs() -> tuple[Any, Any]:
        return jg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), jg.tensor([[0.5, -1.0], [2.0, 1.0]])

    want = step(*inputs())
    function = mode.wrap(step)
    for _ in range(3 if mode.name == "warm" else 1):
        for got, expected in zip(function(*inputs()), want, strict=True):
            np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-6)


IN_RANGE: dict[str, Any] = {
    "a remainder": lambda x, i: (i * 7 + 5) % 3,
    "a clamp": lambda x, i: (i * i).clamp(0, 2),
    "a clamp on one side": lambda x, i: (i - 1).clamp(min=0),
    "a clamp on each side": lambda x, i: (i + i).clamp_max(2).clamp_min(0),
    "a shift": lambda x, i: i + 1 - 1,
    "a difference from a number": lambda x, i: 2 - i,
    "a product": lambda x, i: i * 2 - 2,
    "a quotient": lambda x, i: (i + 5) // 3,
    "a choice": lambda x, i: jg.where(i > 1, i, 0),
    "the least of two": lambda x, i: jg.minimum(i, i % 2),
    "parts": lambda x, i: jg.cat([i, i % 2, jg.zeros_like(i)]),
    "bits": lambda x, i: (i * 5) & 1,
    "a comparison": lambda x, i: (x.sum(1)[:2] > i).long(),
    "where each row stands": lambda x, i: x.sum(1).argsort(),
    "a table of positions": lambda x, i: jg.zeros(3, dtype=jg.int64).index_put((i,), jg.arange(2))[i],
}
"""Positions from a matrix of three rows and the positions [2, 0]: no call can put one out of range unseen."""


@pytest.mark.parametrize("name", IN_RANGE)
def test_positions_that_the_step_computes_end_no_segment(name: str, mode: Mode) -> None:
    def step(x: Any, i: Any) -> Any:
        return x[IN_RANGE[name](x.detach(), i)].sum(0) * 2

    function, wanted = mode.wrap(step), step(leaf() * jg.arange(3), jg.tensor(GOOD))
    for _ in range(3):
        with events.count("segments") as segments:
            got = function(leaf() * jg.arange(3), jg.tensor(GOOD))
        assert not mode.is_compiled or segments() == 1
        np.testing.assert_array_equal(got.detach().numpy(), wanted.detach().numpy())


@pytest.mark.parametrize("name", ["a shift", "a difference from a number", "a product", "a quotient", "a choice"])
def test_positions_that_the_step_computes_out_of_range(name: str, mode: Mode) -> None:
    """They raise at the operation that uses them, in every mode, whatever they are computed from."""
    after = []

    def step(x: Any, i: Any) -> Any:
        y = x[IN_RANGE[name](x.detach(), i)]
        after.append(1)
        return y

    function = warm_up(mode, step, jg.tensor(GOOD))
    for number in (*range(-9, 10), 2**62, -(2**62)):
        given = jg.tensor([1, number])
        after.clear()
        values = IN_RANGE[name](leaf().detach(), given)
        if bool(((values >= -3) & (values < 3)).all()):
            assert function(leaf(), given).shape == (2, 3)
            continue
        with pytest.raises(IndexError):
            function(leaf(), given)
        assert not after
    assert function(leaf(), jg.tensor(GOOD)).shape == (2, 3)


WRITES: dict[str, Any] = {
    "index_put_": lambda x, i, v: x.index_put_((i,), v),
    "accumulated": lambda x, i, v: x.index_put_((i,), v, accumulate=True),
    "set item": lambda x, i, v: x.__setitem__(i, v),
    "index_add_": lambda x, i, v: x.index_add_(0, i, v),
    "index_copy_": lambda x, i, v: x.index_copy_(0, i, v),
    "index_fill_": lambda x, i, v: x.index_fill_(0, i, 2.5),
    "scatter_": lambda x, i, v: x.scatter_(0, i.unsqueeze(1).expand(2, 3), v),
    "scatter_add_": lambda x, i, v: x.scatter_add_(0, i.unsqueeze(1).expand(2, 3), v),
    "of a view": lambda x, i, v: x[:].index_add_(0, i, v),
    "read": lambda x, i, v: x.add_(x[i].sum()),
}
PLACES: dict[str, Any] = {
    "given": lambda i: i[0],
    "a view": lambda i: i.select(0, 0),
    "reshaped": lambda i: i.reshape(-1)[:2],
    "reshaped twice": lambda i: i.reshape(-1, 1)[:2].flatten(),
    "moved": lambda i: i[0].flip(0),
    "copied": lambda i: i.clone()[0],
    "computed": lambda i: i[0] * 1,
}


@pytest.mark.parametrize("unused", [0, 5])
@pytest.mark.parametrize("how", list(PLACES))
@pytest.mark.parametrize("name", list(WRITES))
def test_a_write_looks_at_its_indices_at_every_call(mode: Mode, name: str, how: str, unused: int) -> None:
    rest = [unused, unused]

    def step(x: Any, i: Any, v: Any) -> Any:
        i = i if how != "given" else [i.clone()[0]]
        y = x * 2
        WRITES[name](y, PLACES[how](i), v)
        reached.append(True)
        return y + 1

    reached: list[bool] = []
    function, v = mode.wrap(step), jg.ones(2, 3)
    if mode.name == "warm":
        for _ in range(3):
            function(jg.ones(3, 3), jg.tensor([GOOD, rest]), v)
    for good in (GOOD, [0, 1], GOOD):
        x = jg.arange(9.0).reshape(3, 3)
        want = x.numpy() * 2
        wanted = jg.tensor(want)
        WRITES[name](wanted, jg.tensor(good), v)
        np.testing.assert_array_equal(function(x, jg.tensor([good, rest]), v).numpy(), wanted.numpy() + 1)
    reached.clear()
    with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
        function(jg.ones(3, 3), jg.tensor([BAD, rest]), v)
    assert not reached
    again = function(jg.ones(3, 3), jg.tensor([GOOD, rest]), v)
    assert again.shape == (3, 3)


def test_a_write_to_what_is_given_happens_whole_or_not_at_all(mode: Mode) -> None:
    def step(x: Any, i: Any, v: Any) -> Any:
        x.index_add_(0, i.select(0, 0), v)
        return x.sum()

    function, v = mode.wrap(step), jg.ones(2, 3)
    for _ in range(3 if mode.name == "warm" else 0):
        function(jg.ones(3, 3), jg.tensor([GOOD]), v)
    x = jg.ones(3, 3)
    with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
        function(x, jg.tensor([BAD]), v)
    np.testing.assert_array_equal(x.numpy(), np.ones((3, 3)))
    function(x, jg.tensor([GOOD]), v)
    np.testing.assert_array_equal(x.numpy(), [[2, 2, 2], [1, 1, 1], [2, 2, 2]])


def test_indices_that_the_step_itself_changes(mode: Mode) -> None:
    """Their memory holds what they were: a hit may not look there."""

    def step(x: Any, i: Any, v: Any) -> Any:
        i.add_(1)
        y = x * 2
        y.index_add_(0, i.select(0, 0), v)
        return y

    function, v = mode.wrap(step), jg.ones(2, 3)
    for _ in range(3 if mode.name == "warm" else 0):
        function(jg.ones(3, 3), jg.tensor([[0, 1]]), v)
    i = jg.tensor([[-1, 1]])
    np.testing.assert_array_equal(function(jg.ones(3, 3), i, v).numpy()[[0, 2]], np.full((2, 3), 3))
    with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
        function(jg.ones(3, 3), jg.tensor([[1, 2]]), v)


def test_a_function_that_is_called_often_looks_at_what_views_came_from(mode: Mode) -> None:
    """A call that only makes values is repeated as one, Note [Remembered calls], with the checks of its operations."""

    class Rows(jg.nn.Module):
        def forward(self, x: Any, i: Any) -> Any:
            return x[i.flip(1).view(-1)] * 2

    rows = Rows()

    def step(x: Any, i: Any, k: Any) -> Any:
        first = rows(x, i)
        second = rows(x, k)
        reached.append(True)
        return first.sum() + second.sum()

    reached: list[bool] = []

    function = mode.wrap(step)
    good, bad = jg.tensor([GOOD]), jg.tensor([BAD])
    for _ in range(8 if mode.name == "warm" else 0):
        function(leaf(), good, jg.tensor([GOOD]))
    assert function(leaf(), good, jg.tensor([[1, 0]])).item() == 24
    for first, second in ((good, bad), (bad, good)):
        reached.clear()
        with pytest.raises(IndexError):
            function(leaf(), first, second)
        assert not reached
    assert function(leaf(), good, good).item() == 24


jg.compile(lambda x: x + 1)(jg.ones(2))  # installs native hits


@pytest.mark.skipif(not native_cell.is_installed or config.check_hits, reason="hits are Python's here")
def test_a_sparse_update_is_native() -> None:
    table = jg.zeros(50, 4).requires_grad_()
    optimizer = jg.optim.SGD([table], lr=0.1)

    @jg.compile
    def step(i: Any) -> Any:
        optimizer.zero_grad()
        loss = jg.nn.functional.embedding(i, table, sparse=True).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    i = jg.tensor([1, 3, 3, 7])
    for _ in range(4):
        step(i)
    entered: list[str] = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        step(i)
    finally:
        sys.setprofile(None)
    slow = {"Writes.write", "EarlyChecks.meets", "Operations.apply", "Aliases._link_view"}
    assert slow.isdisjoint(entered), slow.intersection(entered)


def test_indices_counted_from_the_end() -> None:
    """``where(i < 0, i + n, i)`` is in range where i is between -n and n: nothing ends, and what is not raises."""

    def step(x: Any, i: Any) -> Any:
        return x.gather(0, jg.where(i < 0, i + 4, i)).sum(), x.take_along_dim(i, 0).sum()

    compiled, x = jg.compile(step), jg.tensor([1.0, 2.0, 3.0, 4.0])
    for i in ([-1, 0, 3], [-4, 1, 2], [2, 3, -2]):
        before = jg.stats()["segments"]
        assert [v.item() for v in compiled(x, jg.tensor(i))] == [v.item() for v in step(x, jg.tensor(i))]
    assert jg.stats()["segments"] == before + 1
    for bad in ([-5, 0, 1], [0, 1, 4]):
        for run in (step, compiled):
            with pytest.raises((IndexError, RuntimeError), match="out of"):
                run(x, jg.tensor(bad))
    assert compiled(x, jg.tensor([-1, 0, 3]))[0].item() == 9.0


def test_another_number_than_the_extent_is_no_count_from_the_end() -> None:
    """It raises at the operation, as what has to be looked at does."""
    after = []

    @jg.compile
    def step(x: Any, i: Any) -> Any:
        y = x.gather(0, jg.where(i < 0, i + 9, i))
        after.append(1)
        return y.sum()

    x = jg.tensor([1.0, 2.0, 3.0, 4.0])
    for _ in range(3):
        assert step(x, jg.tensor([-9, 0, -6])).item() == 6.0
        after.clear()
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            step(x, jg.tensor([-1, 0, 1]))
        assert not after
