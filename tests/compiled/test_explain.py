"""``jitgrad.explain``: what a call cost, what ended its segments, what was new; slow steps name their cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from html_page import Page

import jitgrad as jg
from jitgrad import nn, optim
from jitgrad.nn import functional as F

SOURCE = Path(__file__).read_text().splitlines()


def _line_with(text: str) -> str:
    """``file:line`` of the first line that has a mark."""
    return f"{__file__}:{next(nr for nr, line in enumerate(SOURCE, 1) if text in line)}"


def _after(step: Any, *calls: tuple[Any, ...]) -> jg.Explanation:
    for args in calls[:-1]:
        step(*args)
    return jg.explain(step, *calls[-1])


@pytest.fixture(scope="module")
def training() -> jg.Explanation:
    jg.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    @jg.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    args = (jg.randn(32, 16), jg.randint(0, 4, (32,)))
    return _after(step, args, args, args)


def test_costs_of_kernels(training: jg.Explanation) -> None:
    (segment,) = training.segments
    costs = segment.costs
    assert [c.name for c in costs] == list(segment.kernels)
    first = costs[0]
    assert first.form == "matmul 32x32x16"
    assert {"linear", "gelu"} <= set(first.does)
    assert first.operations >= 2 * 32 * 32 * 16
    assert first.nbytes == 4 * (32 * 16 + 32 * 16 + 32 + 2 * 32 * 32)
    assert all(c.measured_s > 0 and c.estimated_s > 0 and c.share_of_peak >= 0 for c in costs)
    assert any("_adam_update" in c.does for c in costs)
    assert any(c.borders for c in costs)
    assert segment.ended_by == "the function returned"
    assert training.summary() == []


def test_as_text_and_json(training: jg.Explanation) -> None:
    text = str(training)
    for part in ("matmul 32x32x16", "of peak", "border: kernel", "ended by: the function returned", "linear gelu"):
        assert part in text
    document = json.loads(json.dumps(training.to_json()))
    assert len(document["segments"][0]["kernels"]) == len(training.segments[0].kernels)


def test_the_page_stands_alone(training: jg.Explanation, tmp_path: Path) -> None:
    training.save(tmp_path / "step.html")
    page = Page((tmp_path / "step.html").read_text())
    assert page.open == []
    assert page.links == []
    kernels = len(training.segments[0].kernels)
    assert page.counts["rect"] == kernels
    assert page.counts["svg"] == page.counts["table"] == 1
    assert page.counts["tr"] == kernels + 1


def test_an_exponent_that_counts_up() -> None:
    data = jg.randn(100, 3)

    @jg.compile
    def step(i: int) -> Any:
        return (data ** (i + 0.5) * 2.0).sum()  # counts up

    report = _after(step, *[(i,) for i in range(6)])
    assert report.summary()[0] == f"{_line_with('# counts up')}: pow: 5.5 instead of 4.5"
    assert "misses" in report.summary()[1]


def test_an_exponent_that_counts_up_is_named_when_calls_run_eagerly() -> None:
    data = jg.randn(100, 3)
    step = jg.compile(lambda i: (data ** (i + 0.5) * 2.0).sum())
    report = _after(step, *[(i,) for i in range(40)])
    assert "pow: 39.5 instead of" in report.summary()[0]


def test_a_read_in_the_middle() -> None:
    @jg.compile
    def step(x: Any) -> Any:
        h = x.exp()
        if h.sum().item() > 0:  # reads
            h = h * 2.0
        return h.sum()

    x = jg.randn(4)
    report = _after(step, (x,), (x,), (x,))
    assert report.summary() == [f"segment 0 ended early: item() at {_line_with('# reads')} needs values"]


def test_a_hook_that_reads() -> None:
    w = jg.randn(4, requires_grad=True)
    norms: list[float] = []

    def note(g: Any) -> None:
        norms.append(g.norm().item())  # a hook reads

    @jg.compile
    def step(x: Any) -> Any:
        h = x * w
        h.register_hook(note)
        h.sum().backward()
        return w.grad

    x = jg.randn(4)
    summary = _after(step, (x,), (x,), (x,)).summary()
    assert f"segment 0 ended early: item() at {_line_with('# a hook reads')} needs values" in summary
    assert any("by the engine node by node" in line for line in summary)


def test_a_size_that_changed() -> None:
    @jg.compile
    def step(x: Any) -> Any:
        return (x * 2.0).sum()  # of a batch

    report = _after(step, (jg.ones(64, 3),), (jg.ones(64, 3),), (jg.ones(48, 3),))
    assert report.summary()[0] == (
        f"{_line_with('# of a batch')}: a tensor from outside has size 48 instead of 64 (dimension 0)"
    )


def test_other_events_that_differ() -> None:
    @jg.compile
    def step(x: Any, flag: bool) -> Any:
        y = x.exp()
        return (y * 2.0).sum() if flag else (y + 1.0).sum()

    x = jg.ones(3)
    assert "add at" in _after(step, (x, True), (x, True), (x, False)).summary()[0]
    assert "float64[3] instead of float32[3]" in _after(step, (x, True), (x.double(), True)).summary()[0]
