"""In-place writes, views and aliases in compiled steps: one storage, seen the same through every handle."""

from __future__ import annotations

from typing import Any

import agreement
import numpy as np
import pytest

import jitgrad as jg


def leaf(*shape: int, seed: int = 0) -> jg.Tensor:
    return jg.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).requires_grad_()


def const(*shape: int, seed: int = 1) -> jg.Tensor:
    return leaf(*shape, seed=seed).detach()


def test_a_parameter_is_updated_in_its_own_storage() -> None:
    @jg.compile
    def step(w: Any) -> None:
        (w * w).sum().backward()
        with jg.no_grad():
            w -= 0.5 * w.grad
        w.grad = None

    array = np.ones(4, dtype=np.float32)
    w = jg.from_numpy(array)
    aliases = {"detach": w.detach(), "data": w.data, "view": w.view(2, 2), "slice": w[1:], "numpy": w.numpy()}
    w.requires_grad_()
    address = w.data_ptr()
    for k in (0.0, 0.0):
        step(w)
        assert w.data_ptr() == address
        np.testing.assert_array_equal(array, [k] * 4)
        for alias in aliases.values():
            seen = alias.detach() if isinstance(alias, jg.Tensor) else alias
            np.testing.assert_array_equal(np.asarray(seen).reshape(-1)[-3:], [k] * 3)
        with jg.no_grad():
            w.fill_(0.0)


WRITES: dict[str, Any] = {
    "whole": lambda w: w.mul_(0.5),
    "detached": lambda w: w.detach().mul_(0.5),
    "data": lambda w: w.data.mul_(0.5),
    "slice": lambda w: w[1:].mul_(0.5),
    "row": lambda w: w[0].add_(1),
    "transposed": lambda w: w.t().add_(w.detach().sum(0).unsqueeze(1)),
    "flat view": lambda w: w.view(-1).mul_(2),
    "diagonal": lambda w: w.diagonal().zero_(),
    "setitem": lambda w: w.__setitem__((slice(None), 1), 7.0),
    "setitem mask": lambda w: w.__setitem__(w.detach() > 0, 0.0),
    "setitem rows": lambda w: w.__setitem__(jg.tensor([2, 0]), w.detach()[:2] * 1),
    "copy": lambda w: w.copy_(w.detach() * 2),
    "from itself": lambda w: w.copy_(w.detach().flip(0)),
    "transposed self": lambda w: w.copy_(w.detach().t().contiguous()),
    "twice": lambda w: w.mul_(0.5).add_(1),
    "zero": lambda w: w.zero_(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_are_seen_through_every_alias(write: Any) -> None:
    def step(w: Any, aliases: dict[str, Any]) -> Any:
        before = (w * 2).sum()
        early = aliases["row"] + 1
        with jg.no_grad():
            write(w)
        after = (w * 2).sum()
        return before, after, early, [a * 1 for a in aliases.values()], w.detach()[0]

    def make() -> tuple[Any, ...]:
        w = leaf(3, 3)
        d = w.detach()
        return w, {"detach": d, "data": w.data, "view": d.view(9), "row": d[1], "transposed": d.t()}

    agreement.agree(step, make, 4)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_to_values_of_the_step(write: Any) -> None:
    def step(x: Any) -> Any:
        w = x * 3
        view, row = w.t(), w[1]
        total = w.sum()
        write(w)
        return total, w, view, row, view.sum(0), w.exp()

    agreement.agree(step, lambda: (const(3, 3),), 3)


@pytest.mark.parametrize("write", [w for n, w in WRITES.items() if n not in ("detached", "data")],
                         ids=[n for n in WRITES if n not in ("detached", "data")])  # fmt: skip
def test_writes_to_values_with_a_graph(write: Any) -> None:
    def step(x: Any) -> Any:
        x.grad = None
        w = x * 3
        write(w)
        (w * w).sum().backward()
        return w.detach(), x.grad

    agreement.agree(step, lambda: (leaf(3, 3),), 3)


def test_views_of_written_values_with_a_graph() -> None:
    def step(x: Any) -> Any:
        x.grad = None
        buffer = jg.zeros(4, 3)
        buffer[:2] = x[2:] * 2
        buffer[2:] += x[:2]
        buffer.t()[0].mul_(3.0)
        (buffer**2).sum().backward()
        return buffer.detach(), x.grad

    agreement.agree(step, lambda: (leaf(4, 3),), 3)


def test_a_window_made_before_the_step_is_written() -> None:
    def step(w: Any, row: Any) -> Any:
        y = w.sum()
        row += 1
        z = w.sum()
        row.mul_(2)
        return y, z, w * 1, row * 1

    def make() -> tuple[Any, ...]:
        w = const(3, 3)
        return w, w[1]

    agreement.agree(step, make, 4)


def test_the_same_tensor_twice_among_the_arguments() -> None:
    def step(a: Any, b: Any) -> Any:
        a += 1
        return a * b, (a is b)

    x, y = const(3), const(3, seed=2)

    def change(args: Any, nr: int) -> Any:
        a, b = args
        return (a, a) if nr % 2 else (a, b if b is not a else const(3, seed=2))

    agreement.agree(step, lambda: (x.clone(), y.clone()), 5, change)


ALIASES: dict[str, Any] = {
    "none": lambda a: jg.zeros(4),
    "same": lambda a: a,
    "detached": lambda a: a.detach(),
    "slice": lambda a: a[0:4],
    "reversed rows": lambda a: a.view(2, 2).t().reshape(4),
    "view": lambda a: a.view(4),
}


def test_which_inputs_share_storage_is_part_of_the_path() -> None:
    def step(a: Any, b: Any) -> Any:
        before = b.sum()
        a.mul_(2)
        b.add_(1)
        return before, a * b, b.sum()

    names = list(ALIASES) * 2
    agreement.agree(
        step, lambda: (const(4), jg.zeros(4)), len(names), lambda args, nr: (args[0], ALIASES[names[nr]](args[0]))
    )


def test_tied_parameters() -> None:
    def step(w: Any, tied: Any, x: Any) -> Any:
        w.grad = tied.grad = None
        loss = ((x @ w) @ tied.t()).pow(2).mean()
        loss.backward()
        with jg.no_grad():
            w -= 0.1 * w.grad
        return loss, w.sum(), tied.sum()

    def same() -> tuple[Any, ...]:
        w = leaf(3, 3)
        return w, w, const(4, 3)

    def sharing() -> tuple[Any, ...]:
        w = leaf(3, 3)
        return w, w.detach().requires_grad_(), const(4, 3)

    agreement.agree(step, same)
    agreement.agree(step, sharing)


def test_numpy_memory_changes_between_calls() -> None:
    array = np.zeros(3, dtype=np.float32)
    x = jg.from_numpy(array)
    step = jg.compile(lambda x: x * 2)
    for k in range(4):
        array[:] = k
        assert step(x).tolist() == [2.0 * k] * 3


def test_numpy_memory_handed_out_inside_a_step_is_live() -> None:
    def step(x: Any) -> Any:
        y = x * 2
        x.numpy()[0] = 5.0
        z = x * 2
        y.numpy()[1] = -1.0
        return y, z, y + 1

    agreement.agree(step, lambda: (jg.ones(3),), 3)


def test_an_exported_array_follows_later_writes() -> None:
    def step(x: Any, window: Any) -> Any:
        x += 1
        return float(window[0]) if x.sum().item() > -1e9 else None

    def make() -> tuple[Any, ...]:
        x = jg.zeros(2)
        return x, x.numpy()

    agreement.agree(step, make, 3)


def test_version_counters_are_those_of_eager_mode() -> None:
    def step(x: Any, w: Any) -> Any:
        y = x * 2
        versions = [x._version, y._version]
        y.add_(1)
        y[0] = 2
        x.mul_(0.5).zero_()
        with jg.no_grad():
            w.sub_(1)
        d = w.detach()
        d.add_(1)
        return [*versions, y._version, x._version, w._version, d._version, w.data._version]

    agreement.agree(step, lambda: (const(3), leaf(3)), 4)


def test_a_write_to_a_saved_value_is_an_error() -> None:
    def step(w: Any, how: str) -> Any:
        y = w.exp()
        z = w * y
        HOW[how](w, y)
        z.sum().backward()
        return z

    for how in HOW:
        agreement.agree(step, lambda how=how: (leaf(3), how), 3)


def _under_no_grad(write: Any) -> Any:
    def run(w: Any, y: Any) -> None:
        with jg.no_grad():
            write(w, y)

    return run


HOW: dict[str, Any] = {
    "nothing": lambda w, y: None,
    "value": lambda w, y: y.add_(1),
    "leaf": _under_no_grad(lambda w, y: w.add_(1)),
    "leaf with a view held": _under_no_grad(lambda w, y: (w.detach()[1:], w.add_(1))),
    "view of the leaf": _under_no_grad(lambda w, y: w[1:].add_(1)),
    "detached": lambda w, y: w.detach().add_(1),
    "data": lambda w, y: w.data.mul_(1),
    "value detached": lambda w, y: y.detach().zero_(),
    "row": lambda w, y: y[0].zero_(),
}


def test_a_write_by_eager_code_to_a_saved_value_is_an_error() -> None:
    def step(w: Any) -> Any:
        z = w * w
        with jg.eager(), jg.no_grad():
            w.add_(1)
        z.sum().backward()

    agreement.agree(step, lambda: (leaf(3),), 3)


def test_a_view_held_across_a_write_by_another_window() -> None:
    def step(w: Any) -> Any:
        z = w * w
        held = w.detach().view(-1)
        with jg.no_grad():
            w.t().add_(1)
        z.sum().backward()
        return held

    agreement.agree(step, lambda: (leaf(2, 2),), 3)


def test_data_is_replaced() -> None:
    def step(w: Any, other: Any) -> Any:
        before = w.sum()
        w.data = other * 2
        return before, w.sum(), w * 1

    agreement.agree(step, lambda: (leaf(3), const(3)), 3)


def test_out_of_a_step_values_have_memory_of_their_own() -> None:
    @jg.compile
    def step(x: Any) -> Any:
        y = x * 2
        return y, y[1:], y.view(-1), y.detach()

    for _ in range(3):
        y, part, flat, detached = step(jg.ones(3))
        with jg.no_grad():
            y.add_(1)
        assert part.tolist() == [3.0, 3.0]
        assert flat.tolist() == detached.tolist() == [3.0] * 3


def test_writes_before_and_after_a_read() -> None:
    def step(x: Any) -> Any:
        x += 1
        a = x.sum().item()
        x *= 2
        b = x[0].item()
        x[0] = 0
        return a, b, x.sum(), x.tolist()

    agreement.agree(step, lambda: (const(3),), 4)


def test_buffers_swapped() -> None:
    def step(state: dict[str, Any]) -> Any:
        state["a"], state["b"] = state["b"], state["a"] * 0.5 + 1
        return state["a"] + state["b"]

    agreement.agree(step, lambda: ({"a": const(3), "b": const(3, seed=3)},), 5)


def test_inputs_with_memory_of_a_dead_tensor() -> None:
    step = jg.compile(lambda x: (x * 2).sum())
    for k in range(50):
        assert step(jg.full((7,), float(k))).item() == 14.0 * k


@pytest.mark.parametrize("view", ["diagonal", "t", "flatten"])
def test_a_view_is_read_after_its_pending_base_was_written(view: str) -> None:
    def step(x: Any) -> Any:
        base = x * 1
        window = getattr(base, view)()
        base.mul_(0.5)
        first = window.tolist()
        base.add_(1)
        return first, window + 0, window.tolist()

    agreement.agree(step, lambda: (const(3, 3),), 4)
