"""``profile(kernels=True)``: every task of every kernel, as a timeline; nothing of it stays when the block ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jitgrad as jg
from jitgrad.probe import probe
from jitgrad.profiler import profile, record_function


def _step() -> tuple[Any, Any]:
    x = jg.randn(64, 32)
    w = jg.randn(32, 16, requires_grad=True)

    @jg.compile
    def step(x: Any) -> Any:
        (g,) = jg.autograd.grad((x @ w).relu().sum(), [w])
        return g.clone()

    for _ in range(2):
        step(x)
    return step, x


def test_tasks_are_timed_where_they_ran(tmp_path: Path) -> None:
    step, x = _step()
    expected = step(x)
    with profile(kernels=True) as prof:
        with record_function("mine"):
            found = step(x)
        step(x)
    assert probe.session is None
    assert jg.equal(found, expected)
    tasks = prof.task_events()
    assert any(event.name.startswith("matmul 64x16x32: mm relu") for event in tasks), [t.name for t in tasks]
    native = [event for event in prof.events() if event.category == "kernel"]
    assert len(native) == 2
    for task in tasks:
        inside = [n for n in native if n.start_ns <= task.start_ns <= n.start_ns + n.duration_ns]
        assert inside, "a task ran outside of every native step"
    prof.export_chrome_trace(tmp_path / "trace.json")
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    categories = {row.get("cat") for row in rows}
    assert {"task", "kernel", "segment", "user", "python"} <= categories
    assert all(row["ph"] in "XM" for row in rows)


def test_outermost_ranges_add_up_to_the_block(tmp_path: Path) -> None:
    step, x = _step()
    with profile(kernels=True) as prof:
        for _ in range(5):
            step(x)
    prof.export_chrome_trace(tmp_path / "trace.json")
    rows = [r for r in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if r["ph"] == "X"]
    main = next(r["tid"] for r in rows if r["cat"] == "python")
    outer = sorted((r["ts"], r["dur"]) for r in rows if r["tid"] == main and r["cat"] in ("python", "segment"))
    whole = outer[-1][0] + outer[-1][1] - outer[0][0]
    assert abs(sum(duration for _, duration in outer) - whole) < 0.01 * whole


def test_an_ordinary_profile_times_no_tasks() -> None:
    step, x = _step()
    with profile() as prof:
        step(x)
    assert prof.task_events() == []
    assert [e.category for e in prof.events()].count("kernel") == 1
