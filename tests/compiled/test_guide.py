"""What ``docs/compiled_steps.md`` says about the counters and about what may change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.config import config

DATA = jg.randn(200, 3)
LAYER = nn.Linear(3, 2)


def _counts(step: Callable[[int], Any], calls: int = 3) -> dict[str, int]:
    """What the last of some calls counted; each call gets another number."""
    for i in range(calls):
        before = jg.stats()
        step(i)
    after = jg.stats()
    return {k: v - before[k] for k, v in after.items() if v != before[k]}


def test_a_steady_step_only_hits() -> None:
    step = jg.compile(lambda i: LAYER(DATA).square().sum().backward())
    assert _counts(step).keys() <= {"traces", "hits", "segments", "launches"}


ROWS = [jg.tensor([n, n + 1]) for n in range(30)]
FREE: dict[str, Callable[[int], Any]] = {
    "float": lambda i: lambda: DATA * (0.5 + i),
    "int": lambda i: lambda: DATA * (i + 2),
    "tensor": lambda i: lambda: DATA * jg.tensor(0.5 + i),
    "rows by a tensor": lambda i: lambda: DATA[ROWS[i]],
    "a batch by a tensor": lambda i: functools.partial(LAYER, DATA[ROWS[i]]),
    "a copied slice": lambda i: functools.partial(LAYER, DATA[i * 4 : (i + 1) * 4].clone()),
}
NEW: dict[str, Callable[[int], Any]] = {
    "an index": lambda i: lambda: DATA[i] * 2,
    "a slice": lambda i: lambda: DATA[i * 4 : (i + 1) * 4] * 2,
    "a slice that a closure brings": lambda i: functools.partial(LAYER, DATA[i * 4 : (i + 1) * 4]),
    "an exponent": lambda i: lambda: DATA ** (i + 2),
    "a size": lambda i: lambda: jg.zeros(i + 1) + 1,
    "a dimension": lambda i: lambda: DATA[(None,) * i].sum(),
    "a loop": lambda i: lambda: [LAYER(DATA) for _ in range(i)],
}


@pytest.mark.parametrize("step", FREE.values(), ids=FREE)
def test_what_is_free(step: Callable[[int], Any]) -> None:
    compiled = jg.compile(lambda call: call())
    assert "misses" not in _counts(lambda i: compiled(step(i)))


def test_slices_of_a_data_set_as_arguments_are_free() -> None:
    layer, pair = jg.compile(LAYER), jg.compile(lambda batch: LAYER(batch[0]) + LAYER(batch[1]))
    assert "misses" not in _counts(lambda i: layer(DATA[i * 4 : (i + 1) * 4]))
    assert "misses" not in _counts(lambda i: pair((DATA[i * 4 : (i + 1) * 4], DATA[i * 4 + 4 : (i + 2) * 4])))


@pytest.mark.parametrize("step", NEW.values(), ids=NEW)
def test_what_is_another_graph(step: Callable[[int], Any]) -> None:
    compiled = jg.compile(lambda call: call())
    calls = [step(i) for i in range(3)]
    assert "misses" in _counts(lambda i: compiled(calls[i]))
    assert _counts(lambda i: compiled(calls[i])).keys().isdisjoint({"misses", "eager_calls"})  # again: known now


def test_a_counter_as_exponent_ends_in_eager_calls() -> None:
    assert _counts(jg.compile(lambda i: DATA ** (i + 0.5)), calls=22) == {"eager_calls": 1}


def test_a_counter_as_index_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "verify", False)
    step = jg.compile(lambda i: DATA[i] * 2)
    assert _counts(step, calls=22).keys().isdisjoint({"misses", "eager_calls", "plans"})


def test_reads_split_and_hooks_run_the_engine() -> None:
    assert _counts(jg.compile(lambda i: (DATA.sum().item(), DATA.max())))["segments"] == 2

    def hooked(i: int) -> None:
        y = LAYER(DATA)
        y.register_hook(lambda g: g * 2)
        y.sum().backward()

    counts = _counts(jg.compile(hooked))
    assert counts["engine_runs"] == 1
    assert counts["segments"] == 1


def test_anomaly_mode_runs_eagerly() -> None:
    step = jg.compile(lambda i: LAYER(DATA).sum())
    with pytest.warns(UserWarning, match="Anomaly Detection"), jg.autograd.detect_anomaly():
        assert "traces" not in _counts(step)
