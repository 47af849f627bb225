"""``profile(kernels=True)``: every task of every kernel, as a timeline; nothing of it stays when the block ends."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import jitgrad as jg
from jitgrad.autograd.timeline import _gaps
from jitgrad.codegen.llvm.object_cache import open_cache
from jitgrad.probe import probe
from jitgrad.profiler import profile, record_function
from jitgrad.runtime.devices.device_queue import DeviceQueue


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
    ((thread, start, end),) = prof._timeline._blocks
    outer = [e for e in prof.events() if e.thread == thread and e.depth == 0]
    inside = sum(max(0, min(e.start_ns + e.duration_ns, end) - max(e.start_ns, start)) for e in outer)
    assert len(outer) == 5 and inside + sum(b - a for a, b in _gaps(outer, thread, start, end)) == end - start
    prof.export_chrome_trace(tmp_path / "trace.json")
    rows = [r for r in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if r["ph"] == "X"]
    assert [r["cat"] for r in rows if r["cat"] in ("python", "segment")].count("python") == 6


class Range(NamedTuple):
    """What gaps are left by."""

    start_ns: int
    duration_ns: int
    thread: int = 1
    depth: int = 0


@pytest.mark.parametrize(("ranges", "gaps"), [
    ([], [(100, 200)]),
    ([Range(110, 20), Range(150, 10)], [(100, 110), (130, 150), (160, 200)]),
    ([Range(90, 30), Range(190, 50)], [(120, 190)]),
    ([Range(50, 500)], []),
    ([Range(20, 30), Range(300, 1)], [(100, 200)]),
    ([Range(110, 50), Range(120, 10), Range(120, 10, depth=1), Range(170, 5, thread=2)], [(100, 110), (160, 200)]),
])  # fmt: skip
def test_gaps_between_ranges(ranges: list[Range], gaps: list[tuple[int, int]]) -> None:
    assert _gaps(ranges, 1, 100, 200) == gaps


def test_work_of_a_queue_and_waiting_for_it(tmp_path: Path) -> None:
    queue = DeviceQueue("vcpu:7")

    def work() -> None:
        while not queue._waiting:
            time.sleep(0.001)

    with profile(kernels=True) as prof:
        queue.wait(queue.submit(work))
    queue.is_retired = True
    done, waited = sorted((e for e in prof.events() if e.category in ("queue", "wait")), key=lambda e: e.category)
    assert (done.name, waited.name) == ("work of vcpu:7", "wait for vcpu:7")
    assert done.thread != waited.thread == threading.get_ident()
    prof.export_chrome_trace(tmp_path / "trace.json")
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"the profiled thread", "jitgrad-queue-vcpu:7"} <= {r["args"]["name"] for r in rows if r["ph"] == "M"}


def test_operations_on_a_device_are_work_of_its_queue() -> None:
    with profile() as prof:
        total = (jg.ones(4, device="vcpu:0") + 1).sum().item()
    assert total == 8
    assert [e.name for e in prof.events() if e.category == "queue"].count("work of vcpu:0") >= 3


def test_reading_the_cache_is_a_range(tmp_path: Path) -> None:
    cache = open_cache(str(tmp_path / "cache"), 1 << 20)
    assert cache is not None and cache.store(b"d" * 32, b"code")
    with profile() as prof:
        assert cache.load(b"d" * 32) == b"code"
    assert [(e.name, e.category) for e in prof.events()] == [("cache read", "cache")]


def test_an_ordinary_profile_times_no_tasks() -> None:
    step, x = _step()
    with profile() as prof:
        step(x)
    assert prof.task_events() == []
    assert [e.category for e in prof.events()].count("kernel") == 1
