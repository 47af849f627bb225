"""Code that is left in the middle and gone on with later, around compiled steps and inside them.

Owns: the scene ``interleavings``: tasks of an event loop, generators, greenlets, context variables.

What a thread has switched on (``no_grad``, a recording) belongs to the thread, as in PyTorch, not to a task. So code
that is left inside a step is recorded with what others do in the meantime; the values are those of that order.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import types
from collections.abc import Callable, Generator, Iterator
from typing import Any

import jitgrad as jg
from tests.attack.scenes import Outcome, in_child, scene
from tests.attack.training import STEPS, begin, wanted

try:
    import greenlet
except ImportError:
    greenlet = None

NAME: contextvars.ContextVar[int] = contextvars.ContextVar("NAME", default=0)


def _compare(got: Any, want: Any, what: str = "values") -> str:
    is_right = len(got) == len(want) and all(abs(a - b) <= 1e-4 * (1 + abs(b)) for a, b in zip(got, want, strict=True))
    return "" if is_right else f"the {what} were {got}, not {want}"


def _recorded() -> int:
    """How many events of compiled calls there were."""
    return int(jg.stats()["hits"] + jg.stats()["misses"])


def _in_tasks(rng: random.Random) -> str:
    """Several trainings of one loop, which give way after each step."""
    scales = [1.0 + nr for nr in range(4)]
    pauses = [[rng.choice((0, 0, 0.001)) for _ in range(STEPS)] for _ in scales]

    async def train(scale: float, waits: list[float]) -> list[float]:
        step, found = begin(scale=scale), []
        for wait in waits:
            found.append(step())
            await asyncio.sleep(wait)
        return found

    async def all_of_them() -> list[list[float]]:
        return await asyncio.gather(*map(train, scales, pauses))

    return next(filter(None, map(_compare, asyncio.run(all_of_them()), map(wanted, scales))), "")


def _one_function_in_tasks(rng: random.Random) -> str:
    """All tasks call one compiled function, between whose calls they give way; each has a context of its own."""

    @jg.compile
    def step(x: Any) -> Any:
        y = x * NAME.get()
        return (y + x).sum()

    async def work(nr: int) -> list[float]:
        NAME.set(nr)
        x, found = jg.full((3 + nr % 2,), float(nr)), []
        for _ in range(6):
            found.append(step(x).item() - (nr * nr + nr) * x.numel())
            await asyncio.sleep(rng.choice((0, 0.001)))
        return found

    async def all_of_them() -> list[list[float]]:
        return await asyncio.gather(*map(work, range(6)))

    return _compare([x for row in asyncio.run(all_of_them()) for x in row], [0.0] * 36, "differences")


def _in_threads_of_a_loop(rng: random.Random) -> str:
    """``asyncio.to_thread`` beside steps on the loop's own thread."""
    here, there = begin(scale=2.0), [begin(scale=3.0 + nr) for nr in range(3)]

    async def elsewhere(step: Callable[[], float]) -> list[float]:
        return [await asyncio.to_thread(step) for _ in range(STEPS)]

    async def mine() -> list[float]:
        found = []
        for _ in range(STEPS):
            found.append(here())
            await asyncio.sleep(rng.choice((0, 0.002)))
        return found

    async def all_of_them() -> list[list[float]]:
        return await asyncio.gather(mine(), *map(elsewhere, there))

    wants = [wanted(2.0), *(wanted(3.0 + nr) for nr in range(3))]
    return next(filter(None, map(_compare, asyncio.run(all_of_them()), wants)), "")


def _compiled_coroutine(rng: random.Random) -> str:
    """A coroutine function that was compiled runs eagerly: the call is over when it has made the coroutine."""
    w = jg.ones(3, requires_grad=True)

    @jg.compile
    async def step(x: Any) -> Any:
        y = (x * w).exp()
        await asyncio.sleep(0)
        loss = y.sum()
        loss.backward()
        return loss.item()

    async def all_of_them() -> list[float]:
        return await asyncio.gather(*(step(jg.full((3,), nr / 4)) for nr in range(4)))

    found = asyncio.run(all_of_them())
    want = [float(3 * jg.tensor(nr / 4).exp()) for nr in range(4)]
    slope = sum(nr / 4 * float(jg.tensor(nr / 4).exp()) for nr in range(4))
    return _compare(found, want) or _compare(w.grad.tolist(), [slope] * 3, "gradients")


def _cancelled(rng: random.Random) -> str:
    """A task that is cancelled between its steps, and another that goes on with the same function."""
    step = begin(scale=2.0)
    found: list[float] = []

    async def work() -> None:
        while len(found) < STEPS:
            found.append(step())
            await asyncio.sleep(0)

    async def both() -> None:
        first = asyncio.create_task(work())
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)
        first.cancel()
        await work()

    asyncio.run(both())
    return _compare(found, wanted(2.0))


def _loop_inside_a_step(rng: random.Random) -> str:
    """An event loop that runs inside a step: its tasks' operations are the step's."""

    @jg.compile
    def step(x: Any) -> Any:
        parts = []

        async def part(nr: int) -> None:
            y = x * nr
            await asyncio.sleep(0)
            parts.append((y.sin() + inner(y)).sum())

        async def all_of_them() -> None:
            await asyncio.gather(*map(part, range(3)))

        asyncio.run(all_of_them())
        return sum(parts[1:], parts[0])

    @jg.compile
    def inner(y: Any) -> Any:
        return y * y

    x = jg.arange(4.0)
    want = sum(float(((x * nr).sin() + (x * nr) * (x * nr)).sum()) for nr in range(3))
    return _compare([step(x).item() for _ in range(4)], [want] * 4)


def _left_generators(rng: random.Random) -> str:
    """A generator that begins inside a step, is left there, and ends outside or in another step."""
    x = jg.arange(5.0, requires_grad=True)

    def parts() -> Generator[Any]:
        y = x * 2
        yield y.sum()
        y = y.exp()
        yield y.sum()
        yield (y * x).sum()

    @jg.compile
    def first() -> Any:
        one = parts()
        return one, next(one) + 1

    @jg.compile
    def further(one: Any) -> Any:
        return next(one) * 1

    def plain() -> list[float]:
        found = parts()
        values = [next(found) for _ in range(3)]
        return [values[0].item() + 1, values[1].item(), values[2].item()]

    want = plain()
    x.grad = None
    for how in range(4):
        one, loss = first()
        second = further(one) if how & 1 else next(one)
        third = further(one) if how & 2 else next(one)
        wrong = _compare([loss.item(), second.item(), third.item()], want)
        third.backward()
        slope = ((x * 2).exp() * (1 + 2 * x)).detach().tolist()
        wrong = wrong or _compare(x.grad.tolist(), slope, f"gradients, way {how},")
        x.grad = None
        if wrong:
            return wrong
    return ""


def _taking_turns(rng: random.Random) -> str:
    """Generators that are steps and take turns, each with an optimizer of its own."""
    scales = [1.0, 2.0, 3.0]

    def train(scale: float) -> Iterator[float]:
        step = begin(scale=scale)
        for _ in range(STEPS):
            yield step()

    running = {scale: train(scale) for scale in scales}
    found: dict[float, list[float]] = {scale: [] for scale in scales}
    while running:
        scale = rng.choice(list(running))
        try:
            found[scale].append(next(running[scale]))
        except StopIteration:
            del running[scale]
    return next(filter(None, (_compare(found[scale], wanted(scale)) for scale in scales)), "")


def _compiled_generator(rng: random.Random) -> str:
    """A generator function that was compiled, two of whose generators take turns."""
    w = jg.ones(3, requires_grad=True)

    @jg.compile
    def steps(k: int) -> Iterator[Any]:
        for nr in range(3):
            y = (w * k).sum() * nr
            yield y
            y.backward()

    found = [a.item() + b.item() for a, b in zip(steps(2), steps(5), strict=True)]
    return _compare(found, [0.0, 21.0, 42.0]) or _compare(w.grad.tolist(), [21.0] * 3, "gradients")


def _modes_left_open(rng: random.Random) -> str:
    """Blocks of ``no_grad`` and ``eager`` that tasks leave in another order than they came in: none stays on."""
    x = jg.ones(3, requires_grad=True)
    step = jg.compile(lambda: (x * 3).sum())

    async def work(block: Callable[[], Any], nr: int) -> None:
        with block():
            await asyncio.sleep(0.001 * rng.randrange(3))
            step()
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        await asyncio.gather(*(work(jg.eager, nr) for nr in range(4)))

    asyncio.run(all_of_them())
    before = _recorded()
    loss = step()
    loss.backward()
    if _recorded() == before:
        return "steps are not recorded any more"
    return _compare(x.grad.tolist(), [3.0] * 3, "gradients")


def _greenlets(rng: random.Random) -> str:
    """Steps that are left in the middle for each other, and ended in any order."""
    if greenlet is None:
        return ""
    scales = [1.0, 2.0, 3.0]
    left: list[Any] = []

    def pause() -> None:
        greenlet.getcurrent().parent.switch()

    def train(scale: float, found: list[float]) -> None:
        x = jg.arange(6.0) * scale
        w = jg.full((6,), 0.5, requires_grad=True)

        @jg.compile
        def step() -> Any:
            y = x * w
            pause()
            loss = (y.sin() + w).sum()
            pause()
            loss.backward()
            return loss.detach()

        for _ in range(3):
            found.append(step().item())
        found += w.grad.tolist()

    found: dict[float, list[float]] = {scale: [] for scale in scales}
    left = [(greenlet.greenlet(train), scale) for scale in scales]
    for one, scale in left:
        one.switch(scale, found[scale])
    while left:
        one, scale = rng.choice(left)
        one.switch()
        left = [row for row in left if not row[0].dead]
    for scale in scales:
        x = jg.arange(6.0) * scale
        value, slopes = float((x * 0.5).sin().sum()) + 3.0, (((x * 0.5).cos() * x + 1) * 3).tolist()
        wrong = _compare(found[scale], [value] * 3 + slopes)
        if wrong:
            return wrong
    step = jg.compile(lambda: jg.ones(3).sum())
    before = _recorded()
    step()
    return "" if _recorded() > before else "the thread still records"


def _coroutines_by_hand(rng: random.Random) -> str:
    """``send`` and ``close`` of coroutines that were begun inside a step."""

    @types.coroutine
    def pause() -> Generator[None]:
        yield

    x = jg.arange(3.0, requires_grad=True)

    async def work() -> Any:
        y = x * 2
        try:
            await pause()
            return (y * x).sum()
        finally:
            closed.append((y + 1).sum())

    @jg.compile
    def first() -> Any:
        one = work()
        one.send(None)
        return one

    closed: list[Any] = []
    for nr in range(4):
        one = first()
        if nr % 2:
            one.close()
        else:
            try:
                one.send(None)
            except StopIteration as end:
                wrong = _compare([end.value.item()], [10.0])
                if wrong:
                    return wrong
    return _compare([y.item() for y in closed], [9.0] * 4)


KINDS = (
    _in_tasks, _one_function_in_tasks, _in_threads_of_a_loop, _compiled_coroutine, _cancelled, _loop_inside_a_step,
    _left_generators, _taking_turns, _compiled_generator, _modes_left_open, _greenlets, _coroutines_by_hand,
)  # fmt: skip


@scene
def interleavings(share: float) -> Iterator[Outcome]:
    """Each kind several times, in other orders."""
    for turn in range(max(1, round(25 * share))):
        for kind in KINDS:
            if kind is _greenlets and greenlet is None:
                continue
            wrong = in_child(lambda kind=kind, turn=turn: kind(random.Random(turn)))
            yield Outcome(f"{kind.__name__.strip('_')}, turn {turn}", wrong)
