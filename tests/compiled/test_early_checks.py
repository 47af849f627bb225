"""An index out of range raises at its statement in a compiled step too, see Note [Early checks]."""

from __future__ import annotations

from typing import Any

import agreement
import numpy as np
import pytest
from modes import Mode

import jitgrad as jg
from jitgrad import events

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
