"""One plan for segments that differ in their extents alone: Note [Program families].

Tests run with ``config.verify``: each program that a family gives is compared with what planning makes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.codegen import families as module
from jitgrad.codegen.families import compare, families
from jitgrad.codegen.schedule.memory import Lifetime, plan_arena, planned_by_size
from jitgrad.errors import CompileError
from jitgrad.nn import functional as F
from jitgrad.runtime.eager.new_shapes import at_once
from jitgrad.structs import replaced
from jitgrad.symbols.members import MAX_PINNED
from tests.codegen.test_any_extent import OPERATIONS

pytestmark = pytest.mark.usefixtures("nothing_is_known")
SIZES = (101, 118, 109, 97, 122, 73, 66, 125, 88, 114)


def _counts(call: Callable[[int], Any], sizes: Any) -> dict[str, int]:
    before = jg.stats()
    with at_once():
        for n in sizes:
            call(n)
    after = jg.stats()
    return {name: after[name] - before[name] for name in ("families", "family_programs", "eager_kernels")}


_ONE_CALL = {"clamp", "a number", "max_pool1d", "max_pool2d", "max_pool2d of widths", "adaptive_avg_pool2d", "flip",
             "places of rows"}  # fmt: skip
"""Of few elements NumPy does them, or they are views, or one operation of several is not planned."""


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in _ONE_CALL])
def test_an_operation_is_planned_once_for_all_extents(name: str) -> None:
    counts = _counts(OPERATIONS[name], SIZES)
    assert counts["families"] >= 1
    assert counts["family_programs"] >= 4, counts


def test_constants_that_are_equal_by_chance_are_one() -> None:
    """Of 4 elements 8 are made, and 0.5, the step, is a constant of the formula, too."""
    before = jg.stats()
    with at_once():
        for n, m in ((5, 9), (6, 11), (7, 15), (9, 10), (3, 6), (4, 8), (8, 4), (8, 16), (4, 4)):
            F.interpolate(jg.ones(2, 3, n), size=m, mode="linear")
    after = jg.stats()
    assert after["eager_kernels"] - before["eager_kernels"] >= 9, "none was refused"
    assert after["families"] > before["families"]


@pytest.mark.parametrize("backward", [False, True])
def test_compiled_steps_of_other_extents(backward: bool) -> None:
    w = jg.full((8, 8), 0.1, requires_grad=True)

    def step(x: Any) -> Any:
        loss = ((x @ w).tanh().softmax(0) * x).std(1).mean()
        if not backward:
            return loss.detach()
        loss.backward()
        grad, w.grad = w.grad, None
        return grad.sum()

    compiled = jg.compile(step)
    before = jg.stats()["family_programs"]
    for n in SIZES:
        x = jg.from_numpy(np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32))
        np.testing.assert_allclose(compiled(x).item(), step(x).item(), rtol=1e-4)
    assert jg.stats()["family_programs"] > before


def test_a_kind_is_all_but_extents() -> None:
    def keys(x: Any, *others: Any) -> int:
        step = jg.compile(lambda a, *rest: (a + (rest[0] if rest else 1)).sum(0))
        families.forget()
        step(x, *others)
        (key,) = families._kinds
        return hash(key)

    base = keys(jg.ones(70, 8))
    assert keys(jg.ones(80, 9)) == base
    others = [jg.ones(8, 8), jg.ones(70, 1), jg.ones(70, 8, dtype=jg.float64), jg.ones(8, 70).t(), jg.ones(70, 8, 2)]
    found = {keys(x) for x in others}
    assert len(found) == len(others) and base not in found, "equal extents, 1, dtypes, layouts and ranks are kinds"


def test_kinds_that_hold_for_one_set_of_extents_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []
    original = module._traced

    def pinned(kind: Any, before: Any, plan: Any) -> Any:
        member = original(kind, before, plan)
        assert member is not None
        member.is_pinned = True
        member._evaluate = lambda *extents: None
        traced.append(member)
        return member

    monkeypatch.setattr(module, "_traced", pinned)
    _counts(OPERATIONS["softmax"], SIZES)
    assert len(traced) == MAX_PINNED


def test_what_cannot_be_planned_for_symbols_is_planned_for_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise CompileError("for this test")

    monkeypatch.setattr(module._SegmentKind, "twin", refuse)
    counts = _counts(OPERATIONS["softmax"], SIZES)
    assert counts["families"] == counts["family_programs"] == 0
    assert counts["eager_kernels"] == len(SIZES)


def test_a_program_that_differs_is_noticed() -> None:
    from jitgrad.codegen.pipeline import compile_segment

    segments = []
    monkey = pytest.MonkeyPatch()
    monkey.setattr(families, "program_of", lambda segment, plan: segments.append(segment))
    jg.compile(lambda x: (x * 2).softmax(1).sum(0))(jg.ones(70, 8))
    monkey.undo()
    families.forget()
    one, other = compile_segment(segments[-1]), compile_segment(segments[-1])
    compare(one, other)
    step = other.steps[0]
    launch = step.stages[0][0]
    for changed in ({"units": launch.units + 1}, {"args": (*launch.args[:-1], 77)}, {"grain": 99}):
        wrong = replaced(step, stages=((replaced(launch, **changed),), *step.stages[1:]))
        with pytest.raises(CompileError, match="launches"):
            compare(one, replaced(other, steps=[wrong]))
    with pytest.raises(CompileError, match="arena"):
        compare(one, replaced(other, steps=[replaced(step, arena_nbytes=step.arena_nbytes + 64)]))


@pytest.mark.parametrize("seed", range(20))
def test_arenas_by_exact_size_never_overlap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([64, 100, 4096, 40000], 40).tolist()
    spans = [sorted(rng.integers(0, 30, 2).tolist()) for _ in sizes]
    lifetimes = [Lifetime(n, first, last) for n, (first, last) in zip(sizes, spans, strict=True)]
    with planned_by_size(True):
        top = plan_arena(lifetimes)
    for nr, x in enumerate(lifetimes):
        assert x.offset % 64 == 0 and x.offset + x.nbytes <= top
        for y in lifetimes[:nr]:
            apart = x.last < y.first or y.last < x.first
            assert apart or x.offset + x.nbytes <= y.offset or y.offset + y.nbytes <= x.offset
