"""Steps whose inputs have other extents at each call: Note [Path families]."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.codegen.llvm.target import host_target
from jitgrad.compile import CompiledFunction
from jitgrad.compiled.extents import copies, forks, kept_copies, verify_copies
from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.events import count
from jitgrad.nn import functional as F
from tests.compiled.steps_of_other_extents import PROGRAMS, Data, Step


def _run(make: Callable[[], tuple[Step, Data]], wrap: Any, calls: int) -> tuple[list[Any], list[dict[str, int]]]:
    """Results, and what each call counted."""
    jg.manual_seed(0)
    step, data = make()
    step = wrap(step)
    rng = np.random.default_rng(1)
    results, counts = [], []
    for _ in range(calls):
        arrays = data(rng, int(rng.integers(66, 260)))
        args = [jg.from_numpy(np.asarray(a, np.float32 if np.asarray(a).dtype == np.float64 else None)) for a in arrays]
        before = jg.stats()
        results.append(step(*args).numpy().copy())
        after = jg.stats()
        counts.append({name: after[name] - before[name] for name in after})
    return results, counts


@pytest.fixture(autouse=True)
def calls_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``config.verify``, which tests set, calls record, and what they record is compared with copies."""
    monkeypatch.setattr(config, "verify", False)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No function gives up recording."""
    monkeypatch.setattr(CompiledFunction, "_count_new_graph", lambda self: None)


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_other_extents_are_copied(make: Any) -> None:
    results, counts = _run(make, jg.compile, 60)
    expected, _ = _run(make, lambda step: step, 60)
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-5)
    if not counts_references:  # all views count as held, and a path that leaves views behind has no copies
        return
    late = counts[40:]
    assert sum(c["copied_paths"] > 0 for c in late) >= 8
    assert sum(c["misses"] > 0 for c in late) <= 6, "special sizes are recorded, others are not"
    assert all(c["path_families"] == 0 for c in late if not c["misses"])


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.usefixtures("patient")
def test_a_copy_is_what_recording_makes(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(config, "verify", True)
    compare_programs = verify_copies.compare_programs
    monkeypatch.setattr(verify_copies, "compare_programs", lambda *args: compared.append(compare_programs(*args)))
    _, counts = _run(make, jg.compile, 24)
    assert len(compared) >= 6 or not counts_references, "events and programs, to the end of the path"
    assert sum(c["copied_paths"] for c in counts) == 0


def _steps_of_any_kind(rng: np.random.Generator) -> tuple[Step, int]:
    """A random program over [n, 8], and how many operations it has."""
    kinds = rng.integers(0, 16, int(rng.integers(3, 9))).tolist()
    weight = jg.from_numpy(rng.standard_normal((8, 8)).astype(np.float32) * 0.3).requires_grad_()

    def apply(kind: int, x: Any, other: Any, places: Any) -> Any:
        n = x.shape[0]
        return [
            lambda: x * other, lambda: (x @ weight).tanh(), lambda: x - x.mean(0), lambda: x.flip(0) * 0.5,
            lambda: x / (1 + x.abs().sum(1, True)), lambda: x.t().contiguous().t() + other,
            lambda: jg.cat([x, other])[:n],
            lambda: x.reshape(-1, 4).reshape(n, 8), lambda: x.softmax(1), lambda: x.cumsum(0) / n,
            lambda: x[jg.arange(n - 1, -1, -1)], lambda: F.pad(x[1:], (0, 0, 0, 1)), lambda: x.max(0).values + other,
            lambda: jg.where(x > 0, x, other.sin()),
            lambda: x[jg.arange(n), places].unsqueeze(1) + other, lambda: other * x[jg.arange(n) % 8, places].mean(),
        ][kind]()  # fmt: skip

    is_twice = bool(rng.random() < 0.5)

    def step(x: Any, places: Any) -> Any:
        x = x.clone().requires_grad_() if is_twice else x
        h, before = x, x
        for kind in kinds:
            h, before = apply(kind, h, before, places), h
        if is_twice:
            (slope,) = jg.autograd.grad(h.sin().sum(), x, create_graph=True)
            h = h + slope * 0.1
        loss = h.pow(2).mean()
        loss = loss + (x @ weight).mean()
        loss.backward()
        grad, weight.grad = weight.grad, None
        return loss.detach() + grad.sum()

    return step, len(kinds)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.usefixtures("patient")
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first round calls are copied, in the second what they record is compared."""
    step, _ = _steps_of_any_kind(np.random.default_rng(seed))
    rng = np.random.default_rng(1)
    for verify in (False, True):
        monkeypatch.setattr(config, "verify", verify)
        compiled, before = jg.compile(step), jg.stats()["copied_paths"]
        for _ in range(16):
            x = jg.from_numpy(rng.standard_normal((int(rng.integers(70, 120)), 8)).astype(np.float32))
            places = jg.from_numpy(rng.integers(0, 8, len(x)))
            np.testing.assert_allclose(compiled(x, places).numpy(), step(x, places).numpy(), rtol=2e-3, atol=1e-4)
        assert (jg.stats()["copied_paths"] > before) is not verify


def _sizes(count: int, least: int = 66) -> list[int]:
    return list(range(least, least + count))


def test_a_call_that_does_something_else_records_it() -> None:
    @jg.compile
    def step(x: Any) -> Any:
        y = x * 2
        return (y.exp() if x.shape[0] % 3 == 0 else y.sin()).sum()

    for n in _sizes(30):
        x = jg.full((n, 3), 0.5)
        expected = np.exp(1.0) if n % 3 == 0 else np.sin(1.0)
        np.testing.assert_allclose(step(x).item(), 3 * n * expected, rtol=1e-5)


def test_a_function_that_does_many_things_is_not_copied_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_MAX_STRAYS", 4)
    monkeypatch.setattr(copies, "_MAX_STRAYS", 0)  # it is not for the extents that calls stray
    monkeypatch.setattr(CompiledFunction, "_count_new_graph", lambda self: None)
    count = [0]

    @jg.compile
    def step(x: Any) -> Any:
        count[0] += 1
        y = x * 2
        for _ in range(count[0] if count[0] > 8 else 1):
            y = y + 1
        return y.sum()

    for n in _sizes(30):
        step(jg.ones(n, 3))
    before = jg.stats()["copied_paths"]
    for n in _sizes(5, 200):
        step(jg.ones(n, 3))
    assert jg.stats()["copied_paths"] == before


def test_errors_come_at_their_statement_and_the_next_call_works() -> None:
    passed = []

    @jg.compile
    def step(x: Any, rows: Any) -> Any:
        passed.clear()
        y = x[rows]
        passed.append(1)
        return y.sum()

    for n in _sizes(8):
        step(jg.ones(n, 2), jg.arange(n - 1, -1, -1))
    copied = jg.stats()["copied_paths"]
    for n in _sizes(6, 100):
        bad = jg.arange(n)
        bad[3] = n
        with pytest.raises(IndexError):
            step(jg.ones(n, 2), bad)
        assert not passed
        assert step(jg.ones(n, 2), jg.arange(n)).item() == 2 * n
    assert jg.stats()["copied_paths"] > copied


def test_positions_that_the_step_computes_are_checked_at_their_statement() -> None:
    """``arange(n)`` is in range for some n, which nobody looks at in each call."""
    table, passed = jg.ones(128, 2), []

    @jg.compile
    def step(x: Any) -> Any:
        passed.clear()
        y = x + F.embedding(jg.arange(x.shape[0]), table)
        passed.append(1)
        return y.sum()

    for n in _sizes(12):
        assert step(jg.ones(n, 2)).item() == 4 * n
    assert step(jg.ones(128, 2)).item() == 512
    for n in (129, 200):
        with pytest.raises(IndexError):
            step(jg.ones(n, 2))
        assert not passed


def test_one_copy_goes_on_with_several_extents() -> None:
    """The second input's extents are not known when the first ones' events are copied."""

    @jg.compile
    def step(x: Any, y: Any) -> Any:
        return (x * 2).sum() + (y * 3).mean(0)

    for n in _sizes(8):
        step(jg.ones(n), jg.ones(2 * n + 70))
    before = jg.stats()["misses"]
    for m in (201, 205, 222, 201, 217):
        assert step(jg.ones(90), jg.ones(m)).item() == 183.0
    assert jg.stats()["misses"] == before


def test_a_copy_goes_on_again_from_where_it_was() -> None:
    """What comes with the third input uses the layout of the second: how many positions a call looks at."""
    passed = []

    @jg.compile
    def step(x: Any, y: Any, z: Any) -> Any:
        total = (x * 2).sum() + (y * 1).sum() + (z * 0).sum()
        passed.clear()
        taken = z[y]
        passed.append(1)
        return total + taken.sum()

    for n in _sizes(8):
        step(jg.ones(n), jg.zeros(n + 20, dtype=jg.int64), jg.ones(n + 40))
    before = jg.stats()["misses"]
    for m, k in ((102, 120), (100, 120), (102, 121), (100, 122)):
        assert step(jg.ones(80), jg.zeros(m, dtype=jg.int64), jg.ones(k)).item() == 160 + m
    assert jg.stats()["misses"] == before
    late = jg.zeros(102, dtype=jg.int64)
    late[101] = 123
    with pytest.raises(IndexError):
        step(jg.ones(80), late, jg.ones(123))
    assert not passed


def test_families_that_differ_in_later_extents_go_on_from_each_others_copies() -> None:
    """A sum of 8,192 elements or more is cut into parts; how many elements there are, the second input says."""

    @jg.compile
    def step(x: Any, y: Any) -> Any:
        return (x * 2).sum() + (y * 3).sum()

    rng = np.random.default_rng(3)
    counts = [400, 40_000]
    for k in range(24):
        step(jg.ones(70 + k), jg.ones(counts[k % 2] + k))
    before = jg.stats()
    for k in range(24):
        n, m = 100 + k, counts[int(rng.integers(2))] + 40 + k
        assert step(jg.ones(n), jg.ones(m)).item() == 2 * n + 3 * m
    after = jg.stats()
    assert after["misses"] == before["misses"]
    assert after["copied_paths"] - before["copied_paths"] == 48


def test_an_extent_of_one_is_another_path() -> None:
    step = jg.compile(lambda x: x.squeeze(0).sum(0))
    for n in _sizes(12):
        assert step(jg.ones(n, 4)).shape == (4,)
    assert step(jg.ones(1, 4)).shape == ()
    assert step(jg.ones(0, 4)).shape == (4,)


def test_extents_that_are_equal_by_chance() -> None:
    @jg.compile
    def step(x: Any, y: Any) -> Any:
        return x.sum() - y.sum() + (x[:, 0] * 2).mean()

    for n in _sizes(8):
        step(jg.ones(n, 2), jg.ones(n + 70))
    for n, m in ((100, 100), (100, 101), (2, 2), (1, 1), (0, 3), (64, 2), (2, 64)):
        found = step(jg.ones(n, 2), jg.ones(m)).item()
        np.testing.assert_allclose(found, 2 * n - m + (2.0 if n else np.nan))


def test_numbers_that_are_equal_by_chance() -> None:
    """47 and 46 rows both have 11 quarters: 11 is no constant, as what came before shows."""

    @jg.compile
    def step(x: Any) -> Any:
        return x.sum() * jg.ones(3, len(x) // 4, 8)

    before = jg.stats()
    for n in (32, 61, 47, 46, 52, 38, 70, 44, 66, 90):
        x = jg.randn(n, 8)
        assert step(x).shape == (3, n // 4, 8)
    after = jg.stats()
    if counts_references:
        assert after["path_families"] - before["path_families"] == 1
        assert after["copied_paths"] - before["copied_paths"] == 6


@pytest.mark.skipif(not host_target().has_masks, reason="targets without masked loads copy windows to memory first")
def test_images_of_any_size_have_a_form_for_each_parity() -> None:
    """Neither the number of positions, of which four are transposed at a time, nor in how many rows of the image a
    vector lies, makes another form."""
    rng, before = np.random.default_rng(0), jg.stats()
    model = jg.nn.Sequential(
        jg.nn.Conv2d(3, 16, 3, padding=1), jg.nn.ReLU(), jg.nn.MaxPool2d(2), jg.nn.Conv2d(16, 32, 3, padding=1),
        jg.nn.AdaptiveAvgPool2d(1), jg.nn.Flatten(), jg.nn.Linear(32, 10),
    )  # fmt: skip

    @jg.compile
    def step(x: Any) -> Any:
        loss = model(x).square().sum()
        model.zero_grad()
        loss.backward()
        return loss

    for _ in range(40):
        step(jg.randn(4, 3, *rng.integers(16, 49, 2).tolist()))
    after = jg.stats()
    if counts_references:
        assert after["path_families"] - before["path_families"] <= 5
        assert after["copied_paths"] - before["copied_paths"] >= 24


def test_a_backward_outside() -> None:
    w = jg.full((4,), 0.5, requires_grad=True)
    model = jg.compile(lambda x: (x * w).exp().mean(0))
    for n in _sizes(14):
        x = jg.from_numpy(np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32))
        model(x).sum().backward()
        grad, w.grad = w.grad, None
        (x * w).exp().mean(0).sum().backward()
        np.testing.assert_allclose(grad.numpy(), w.grad.numpy(), rtol=1e-5)
        w.grad = None


def test_steps_over_sizes_in_turn_come_to_copy_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_copies, "_LEAST", 8)
    step = jg.compile(lambda x: (x * 2).sum(0).exp().sum())
    for _ in range(12):
        for n in range(10, 34):
            step(jg.full((n, 3), 0.01))
    with count("copied_paths") as copied:
        for n in range(10, 34):
            assert step(jg.full((n, 3), 0.01)).item() == pytest.approx(3 * np.exp(0.02 * n), rel=1e-5)
    assert copied() == 0


def test_copies_of_ever_new_sizes_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_copies, "_LEAST", 8)
    step = jg.compile(lambda x: (x * 2).sum())
    programs = []
    for n in range(66, 126):
        step(jg.ones(n, 3))
        programs.append(weakref.ref(step.last.event.program.only))
    gc.collect()
    assert sum(program() is not None for program in programs) < 24
    assert step(jg.ones(150, 3)).item() == 900.0


def test_threads_share_what_is_derived() -> None:
    w = jg.full((4, 4), 0.1)

    @jg.compile
    def step(x: Any, y: Any) -> Any:
        return ((x @ w).tanh().sum(0) + y.mean(0)).sum()

    for n in _sizes(8):
        step(jg.ones(n, 4), jg.ones(3 * n, 4))
    errors: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            n, m = (int(k) for k in rng.integers(70, 110, 2))
            expected = 4 * n * np.tanh(0.4) + 4
            found = step(jg.ones(n, 4), jg.ones(m, 4)).item()
            if abs(found - expected) > 1e-3 * expected:
                errors.append((n, m, found, expected))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
