"""Note [Equal turns]: long loops are split into parts, and equal parts are planned once; what they compute stays."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import optim
from jitgrad.codegen.pipeline import plan_parts
from jitgrad.codegen.turns import split
from jitgrad.codegen.turns.find import TurnLoop, find_loops
from jitgrad.compiled.kernel_costs import kernel_costs, kernel_labels
from jitgrad.compiled.temporaries import stages_of
from jitgrad.config import config
from jitgrad.nn import functional as F
from tests.compiled.agreement import agree

TURNS, BATCH, WIDTH = 24, 3, 5
Arguments = Callable[[], tuple[Any, ...]]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of 60 operations are long, and everything is compiled at once."""
    monkeypatch.setattr(split, "LONG", 60)
    monkeypatch.setattr(split, "PART", 20)
    monkeypatch.setattr(config, "same_bits", True)


def equal_turns(call: Callable[[], Any]) -> int:
    before = jg.stats()["equal_turns"]
    call()
    return jg.stats()["equal_turns"] - before


def inputs(*shapes: tuple[int, ...], grad: bool = True, dtype: Any = jg.float32) -> Arguments:
    def make() -> tuple[Any, ...]:
        rng = np.random.default_rng(3)
        return tuple(jg.tensor(0.4 * rng.standard_normal(s), dtype=dtype, requires_grad=grad) for s in shapes)

    return make


def lstm(x: Any, w: Any, u: Any, b: Any) -> Any:
    """``x[t]``: another view in each turn; ``chunk``: views that the backward reads."""
    h = c = jg.zeros(BATCH, WIDTH)
    for t in range(TURNS):
        i, f, g, o = (F.linear(x[t], w, b) + F.linear(h, u)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    loss = h.square().sum()
    loss.backward()
    return loss.detach()


def states(x: Any, w: Any) -> Any:
    """Some states are handed out, all are stacked; the parts of ``x`` are made before the loop, and not row-major."""
    h, kept = jg.zeros(BATCH, WIDTH), []
    for part in x.transpose(1, 2).unbind(0):
        h = jg.tanh(part.t() @ w + h)
        h = h * 0.5 + h.sin() * 0.5
        kept.append(h)
    stacked = jg.stack(kept)
    stacked.square().mean().backward()
    return [kept[3], kept[11].t(), stacked.detach()]


def pendulum(state: Any, length: Any) -> Any:
    """Runge and Kutta's method, in float64, with a number that differs from call to call."""

    def slope(s: Any) -> Any:
        return jg.stack([s[1], -9.81 / length * jg.sin(s[0])])

    y = state
    for _ in range(12):
        a = slope(y)
        b = slope(y + 0.05 * a)
        c = slope(y + 0.05 * b)
        y = y + 0.1 / 6 * (a + 2 * b + 2 * c + slope(y + 0.1 * c))
    y.square().sum().backward()
    return y.detach()


def updates(x: Any, w: Any, momentum: Any, decay: Any) -> Any:
    """Written memory is read in every turn, also through views, and written at the end, what only halves at once."""
    h = x
    for _ in range(TURNS):
        h = jg.tanh(h @ w[:, :WIDTH]) + momentum[0] * h * decay[1]
        h = h - momentum[1:3].sum(0) * 0.1
    h.sum().backward()
    with jg.no_grad():
        decay.mul_(0.5)
        momentum.mul_(0.5).add_(w.grad[:, :WIDTH])
        w.sub_(0.1 * w.grad)
        w.grad = None
    return h.detach()


def summed_by_rows(x: Any, w: Any, rows: Any) -> Any:
    """A small tensor of which each turn writes a part crosses."""
    y = jg.zeros(TURNS, WIDTH)
    h = x
    for t in range(TURNS):
        h = jg.tanh(h * w) + x
        y = y.index_add(0, rows[t], h)
    y.square().sum().backward()
    return y.detach()


def rows_of_a_leaf(x: Any, w: Any) -> Any:
    """The gradient of ``x[t]`` is another in each turn."""
    h = jg.zeros(BATCH, WIDTH)
    for t in range(TURNS):
        h = jg.tanh(x[t] @ w + h) * x[t] + h.sin()
    h.square().sum().backward()
    return h.detach()


def written_rows(x: Any, w: Any) -> Any:
    """The states are put into one tensor, which no turn reads."""
    h = jg.zeros(BATCH, WIDTH)
    out = jg.zeros(TURNS, BATCH, WIDTH)
    for t in range(TURNS):
        h = jg.tanh(x[t] @ w + h.sin() * 0.5)
        out[t] = h.detach()
    return [h.detach(), out]


def embedded(table: Any, w: Any, words: Any) -> Any:
    """A layer in front of the loop, batch first."""
    x = F.embedding(words, table)
    h = jg.zeros(BATCH, WIDTH)
    for t in range(TURNS):
        h = jg.tanh(x[:, t] @ w + h) - h.cos()
    h.square().sum().backward()
    return h.detach()


def counted_turns(x: Any, w: Any) -> Any:
    """Turns with a number of their own are no equals."""
    h = x
    for t in range(TURNS):
        h = jg.sin(h * (0.1 * t + 0.3)) * w + h
    h.sum().backward()
    return h.detach()


def two_loops(x: Any, w: Any) -> Any:
    h = x
    for _ in range(TURNS):
        h = jg.tanh(h * w) + x
    for _ in range(TURNS):
        h = jg.exp(-h * h) - w
    h.sum().backward()
    return h.detach()


def second_gradients(x: Any, w: Any) -> Any:
    h = x
    for _ in range(TURNS // 2):
        h = jg.tanh(h @ w) + h
    (g,) = jg.autograd.grad(h.sum(), x, create_graph=True)
    g.square().sum().backward()
    return g.detach()


def gathered(table: Any, rows: Any) -> Any:
    """An index is checked in every turn."""
    h = jg.zeros(WIDTH)
    for t in range(TURNS):
        h = jg.tanh(h + table[rows[t]])
    h.sum().backward()
    return h.detach()


MATRIX, GATES, SEQUENCE = (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (TURNS, BATCH, WIDTH)
STEPS: dict[str, tuple[Callable[..., Any], Arguments]] = {
    "lstm": (lstm, lambda: (*inputs(SEQUENCE, grad=False)(), *inputs(GATES, GATES, (4 * WIDTH,))())),
    "states": (states, inputs(SEQUENCE, MATRIX)),
    "pendulum": (pendulum, inputs((2, 4), (4,), dtype=jg.float64)),
    "updates": (updates, lambda: (*inputs((BATCH, WIDTH), (WIDTH, 7))(), jg.full(MATRIX, 0.1), jg.ones(MATRIX))),
    "rows": (summed_by_rows, lambda: (*inputs((BATCH, WIDTH), (WIDTH,))(), jg.arange(72).view(TURNS, BATCH) % 7)),
    "rows of a leaf": (rows_of_a_leaf, inputs(SEQUENCE, MATRIX)),
    "written rows": (written_rows, inputs(SEQUENCE, MATRIX, grad=False)),
    "embedded": (embedded, lambda: (*inputs((9, WIDTH), MATRIX)(), jg.arange(BATCH * TURNS).view(BATCH, TURNS) % 9)),
    "two loops": (two_loops, inputs((BATCH, WIDTH), (WIDTH,))),
    "second gradients": (second_gradients, inputs((BATCH, WIDTH), MATRIX)),
    "gathered": (gathered, lambda: (*inputs((7, WIDTH))(), jg.arange(TURNS) * 5 % 7)),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_what_they_are_eagerly(name: str) -> None:
    step, arguments = STEPS[name]
    assert equal_turns(lambda: agree(step, arguments)) > 0


def test_a_number_of_each_turn_is_planned_as_a_whole() -> None:
    assert equal_turns(lambda: agree(counted_turns, inputs((BATCH, WIDTH), (WIDTH,)))) == 0


def test_a_large_tensor_that_is_written_row_by_row_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_LARGE", TURNS * WIDTH * 4 - 1)
    step, arguments = STEPS["rows"]
    assert equal_turns(lambda: agree(step, arguments)) == 0


def test_an_optimizer_with_a_number_that_changes() -> None:
    """Run-time scalars belong to the call, whatever turn reads them."""

    def step(x: Any, w: Any, rate: float) -> Any:
        h = x
        for _ in range(TURNS):
            h = jg.tanh(h @ w) * rate + 0.5 * h
        h.sum().backward()
        return h.detach()

    def change(args: tuple[Any, ...], nr: int) -> tuple[Any, ...]:
        return (*args[:2], 0.5 + 0.05 * nr)

    arguments = inputs((BATCH, WIDTH), MATRIX)
    assert equal_turns(lambda: agree(step, lambda: (*arguments(), 0.5), 6, change)) > 0


def test_training_through_a_loop() -> None:
    def train(wrap: Callable[[Any], Any]) -> list[float]:
        x, w, u, b = STEPS["lstm"][1]()
        optimizer = optim.Adam([w, u, b], lr=0.01)

        def step() -> Any:
            optimizer.zero_grad()
            loss = lstm(x, w, u, b)
            optimizer.step()
            return loss

        step = wrap(step)
        return [step().item() for _ in range(6)]

    losses: list[float] = []
    assert equal_turns(lambda: losses.extend(train(jg.compile))) > 0
    np.testing.assert_allclose(losses, train(lambda f: f), rtol=1e-5)


def test_an_index_out_of_range_in_the_middle_leaves_everything_as_it_was() -> None:
    step, arguments = STEPS["gathered"]
    compiled = jg.compile(step)
    table, rows = arguments()
    for _ in range(2):
        compiled(table, rows)
    before = table.grad.clone()
    rows[TURNS // 2] = 7
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        compiled(table, rows)
    assert jg.equal(table.grad, before)
    rows[TURNS // 2] = 6
    compiled(table, rows)
    assert not jg.equal(table.grad, before)


@pytest.mark.parametrize("name", ["lstm", "updates"])
def test_reports_know_the_kernels_of_all_turns(name: str) -> None:
    """One line per launch, and of the user's lines that of the turn."""
    step, arguments = STEPS[name]
    compiled = jg.compile(step)
    compiled(*arguments())
    reports = [r for r in jg.explain(compiled, *arguments()).segments if r.program is not None]
    split_ones = [r for r in reports if len({id(part) for part, _ in plan_parts(r.segment)}) > 1]
    assert split_ones
    for report in split_ones:
        segment, program = report.segment, report.program
        launches = sum(len(stage) for part in program.steps for stage in part.stages)
        assert len(kernel_labels(segment, program)) == len(kernel_costs(segment, program)) == launches
        assert len(stages_of(segment, program)) == sum(len(part.stages) for part in program.steps)


# --- loops that a generator writes ---


def _random_step(seed: int) -> tuple[Callable[..., Any], Arguments]:
    """A body of some operations on a state, a piece of a sequence and weights, repeated."""
    rng = random.Random(seed)
    unary = [jg.tanh, jg.sin, jg.sigmoid, jg.abs, lambda v: v.t().contiguous().t(), lambda v: v.clone()]
    binary = [jg.add, jg.mul, jg.sub, jg.maximum, lambda a, b: a @ b, lambda a, b: jg.where(a > b, a, b)]
    views = [lambda v: v.t(), lambda v: v[:, :1], lambda v: v[1:2], lambda v: v.reshape(-1, WIDTH), lambda v: v.flip(0)]
    body = [(rng.choice(("u", "b", "b", "v")), rng.randrange(6), rng.randrange(8), rng.randrange(8)) for _ in
            range(rng.randrange(3, 9))]  # fmt: skip
    how, leaves = rng.randrange(4), rng.randrange(3)

    def step(x: Any, w: Any, kept: Any) -> Any:
        h, seen = w * 0.5, []
        parts = x.unbind(0) if how == 1 else None
        for t in range(TURNS):
            whole = x[t] if how < 2 else x[TURNS - 1 - t]
            part = parts[t] if parts else whole if how != 2 else x[:, t % WIDTH][:WIDTH]
            values = [h, part, w, kept, w.t(), kept[0] + h]
            for kind, nr, a, b in body:
                first, second = values[a % len(values)], values[b % len(values)]
                if kind == "u":
                    made = unary[nr](first)
                elif kind == "b":
                    made = binary[nr](first, second)
                else:
                    made = views[nr % len(views)](first)
                    if made.shape != h.shape:
                        made = made + second
                values.append(made if made.shape == h.shape else h + made.sum())
            h = jg.tanh(values[-1]) + 0.1 * h
            if leaves == 1 and t % 5 == 0:
                seen.append(h.detach())
        loss = h.sum() + h.square().mean()
        loss.backward()
        if leaves == 2:
            with jg.no_grad():
                kept.mul_(0.9).add_(h.detach() * 0.1)
        return [loss.detach(), *seen]

    def arguments() -> tuple[Any, ...]:
        x, w = inputs((TURNS, WIDTH, WIDTH), MATRIX)()
        return x, w, jg.full(MATRIX, 0.3)

    return step, arguments


@pytest.mark.parametrize("seed", range(12))
def test_random_loops(seed: int) -> None:
    step, arguments = _random_step(seed)
    agree(step, arguments, calls=3)


# --- where loops are found ---


def _loops(text: str) -> list[TurnLoop]:
    return find_loops(np.array([ord(c) for c in text], np.int64))


def test_loops_are_found() -> None:
    assert _loops("xyz" + 20 * "abcdefghijkl" + "w") == [TurnLoop(3, 243, 12)]
    assert _loops("ab" + 9 * "cdefghijkl" + "mnopq" + 9 * "rstuvwxyz-") == [TurnLoop(2, 92, 10), TurnLoop(97, 187, 10)]


def test_the_shortest_period_is_found() -> None:
    assert _loops(200 * "a") == [TurnLoop(0, 200, 1)]
    assert _loops(60 * "abc") == [TurnLoop(0, 180, 3)]


def test_three_turns_are_no_loop() -> None:
    assert _loops("uvw" + 3 * "abcdefghijklmnop" + "xyz") == []
    assert _loops("abc") == _loops("") == []


def test_a_loop_within_the_turns_of_a_loop() -> None:
    """The one that covers more."""
    assert _loops(10 * ("xyz" + 5 * "abcd" + "uvw"))[0] == TurnLoop(0, 260, 26)
