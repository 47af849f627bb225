"""One import; the profiler: named ranges of operations, nodes, kernels and one's own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from modes import Mode

import jitgrad
from jitgrad import nn, optim
from jitgrad.autograd.profiler import _nested, emit_ranges, profile, record_function
from jitgrad.compiled import timed_kernels
from jitgrad.cpython.build import is_known_interpreter
from jitgrad.cpython.liveness import counts_references
from jitgrad.probe import probe


def _make() -> tuple[Any, ...]:
    return jitgrad.ones(4, requires_grad=True), jitgrad.full((4,), 2.0)


def _step(x: Any, y: Any) -> Any:
    with record_function("forward"):
        loss = (x * y).exp().sum()
    loss.backward()
    return loss


@pytest.mark.row("A21")
def test_one_import(mode: Mode) -> None:
    def step():
        layer = jitgrad.nn.Linear(2, 1)
        optimizer = jitgrad.optim.SGD(layer.parameters(), lr=0.1)
        jitgrad.autograd.backward(layer(jitgrad.tensor([[1.0, 2.0]])).sum())
        optimizer.step()
        return layer.bias.grad

    assert mode.run(step, is_steady=False).tolist() == [1]


def test_one_import_is_enough_in_a_fresh_process() -> None:
    program = "import jitgrad; jitgrad.tensor, jitgrad.autograd.grad, jitgrad.nn.Linear, jitgrad.optim.SGD"
    subprocess.run([sys.executable, "-c", f"{program}, jitgrad.profiler.profile"], check=True, timeout=60)


@pytest.mark.row("A21")
def test_named_ranges(mode: Mode) -> None:
    """Eagerly: every operation and node. Compiled: the segments, with the kernels they launched."""
    step = mode.wrap(_step)
    if mode.name == "warm":
        for _ in range(2):
            step(*_make())
    arguments = _make()
    with profile() as prof:
        step(*arguments)
    events = prof.function_events
    by_category: dict[str, list[str]] = {}
    for event in events:
        by_category.setdefault(event.category, []).append(event.name)
    assert by_category["user"] == ["forward"]
    if mode.is_compiled:
        assert by_category["segment"] == ["segment"]
        (kernels,) = [event.kernels for event in events if event.category == "kernel"]
        assert kernels
        assert all(isinstance(name, str) for name in kernels)
        assert ("compile" in by_category) == (mode.name == "cold")
        assert ("node" in by_category) == (mode.name == "cold")  # warm, the backward is in the kernels
        assert "op" not in by_category
    else:
        assert by_category["op"][:3] == ["mul", "exp", "sum"]
        names = ["SumBackward0", "ExpBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
        assert by_category["node"] == names
    assert arguments[0].grad is not None


@pytest.mark.row("A21")
def test_ranges_for_other_tools(mode: Mode) -> None:
    """``push`` and ``pop`` come in pairs, whatever happens between."""
    told: list[str] = []
    step = mode.wrap(_step)

    def failing(x, y):
        with record_function("failing"):
            raise ZeroDivisionError

    with emit_ranges(told.append, lambda: told.append("/")):
        step(*_make())
        with pytest.raises(ZeroDivisionError):
            mode.wrap(failing)(*_make())
    assert "forward" in told
    assert "failing" in told
    assert told.count("/") * 2 == len(told)
    depth = 0
    for entry in told:
        depth += -1 if entry == "/" else 1
        assert depth >= 0


def test_times_add_up() -> None:
    with profile(record_shapes=True) as prof, record_function("outer"):
        _step(*_make())
        _step(*_make())
    events = prof.function_events
    outer = events[0]
    assert (outer.name, outer.depth) == ("outer", 0)
    assert [e.count for e in prof.key_averages() if e.key == "mul"] == [6]  # two of three in the backward
    assert sum(e.self_ns for e in events) == outer.duration_ns
    assert prof.self_cpu_time_total == pytest.approx(outer.cpu_time)
    assert all(e.duration_ns >= e.self_ns >= 0 for e in events)
    multiplication = next(e for e in events if e.name == "mul")
    assert multiplication.depth == 2
    assert multiplication.input_shapes == ((4,), (4,))
    grouped = prof.key_averages(group_by_input_shape=True)
    assert {a.input_shapes for a in grouped if a.key == "sum"} == {((4,),)}
    total = prof.total_average()
    assert total.count == len(events)
    assert total.self_cpu_time_total == pytest.approx(outer.cpu_time)


@pytest.mark.skipif(not counts_references, reason="without reference counts no segment's end is a hit")
def test_hits_stay_hits() -> None:
    """A profiled warm step takes the way of one that is not profiled: its ranges are rows that the hit has written."""
    step = jitgrad.compile(_step)
    for _ in range(3):
        step(*_make())
    with profile() as prof:
        for _ in range(4):
            step(*_make())
    assert len(prof._stamps) == 4
    assert {category for category, *_ in prof._ranges}.isdisjoint({"segment", "kernel"})
    events = [e for e in prof.function_events if e.category in ("segment", "kernel")]
    assert [(e.category, e.depth) for e in events] == [("segment", 0), ("kernel", 1)] * 4
    for outer, inner in pairwise(events):
        if outer.category == "segment":
            assert outer.start_ns <= inner.start_ns
            assert inner.start_ns + inner.duration_ns <= outer.start_ns + outer.duration_ns
            assert outer.self_ns == outer.duration_ns - inner.duration_ns
            assert inner.kernels
    assert probe.stamps is None


@pytest.mark.skipif(not counts_references, reason="without reference counts no segment's end is a hit")
@pytest.mark.parametrize("room", [1 << 14, 1], ids=["one log", "a log per call"])
def test_hits_time_tasks(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call in the block makes a log; hits run the timed step until the log is full."""
    monkeypatch.setattr(timed_kernels, "_LOG_ROWS", room)
    step = jitgrad.compile(_step)
    for _ in range(3):
        step(*_make())
    with profile(kernels=True) as one:
        step(*_make())
    tasks = [event.name for event in one.task_events()]
    assert len(tasks) > 0 and one._stamps == []
    with profile(kernels=True) as prof:
        for _ in range(4):
            step(*_make())
    assert len(prof._stamps) == (3 if room > 1 else 0)
    assert [event.name for event in prof.task_events()] == tasks * 4
    segments = [e for e in prof.function_events if e.category == "segment"]
    assert len(segments) == 4
    for event in prof.task_events():
        assert any(s.start_ns <= event.start_ns <= s.start_ns + s.duration_ns for s in segments)
    assert not timed_kernels._steps, "logs are not kept after the block"


@pytest.mark.parametrize(("ranges", "events"), [
    ([], []),
    ([("b", 10, 20, 1), ("a", 0, 30, 1)], [("a", 0, 20), ("b", 1, 10)]),
    ([("inner", 0, 30, 1), ("outer", 0, 30, 1)], [("outer", 0, 0), ("inner", 1, 30)]),
    ([("a", 0, 10, 1), ("b", 10, 20, 1)], [("a", 0, 10), ("b", 0, 10)]),
    ([("a", 0, 10, 1), ("b", 5, 20, 1)], [("a", 0, 5), ("b", 1, 15)]),
    ([("a", 0, 10, 1), ("b", 2, 4, 2)], [("a", 0, 10), ("b", 0, 2)]),
    ([("c", 3, 4, 1), ("b", 2, 6, 1), ("d", 7, 9, 1), ("a", 0, 10, 1)],
     [("a", 0, 4), ("b", 1, 3), ("c", 2, 1), ("d", 1, 2)]),
])  # fmt: skip
def test_ranges_nest_by_their_times(ranges: list[Any], events: list[Any]) -> None:
    found = _nested([("user", name, start, end, thread, ()) for name, start, end, thread in ranges])
    assert [(e.name, e.depth, e.self_ns) for e in found] == events


def test_table() -> None:
    with profile() as prof:
        _step(*_make())
    text = prof.key_averages().table(sort_by="count", row_limit=2)
    lines = text.splitlines()
    assert lines[1].split() == ["Name", "Self", "CPU", "%", "Self", "CPU", "CPU", "total", "CPU", "time", "avg", "#",
                                "of", "Calls"]  # fmt: skip
    assert len(lines) == 7
    counts = sorted(Counter(e.name for e in prof.function_events).values(), reverse=True)
    assert [int(line.split()[-1]) for line in lines[3:5]] == counts[:2]
    assert lines[-1].startswith("Self CPU time total: ")
    assert "MulBackward0" in prof.table()
    assert "MulBackward0" in repr(prof)
    assert "MulBackward0" in prof.events().table(sort_by="self_cpu_time_total")
    with pytest.raises(ValueError, match="cannot sort by 'colour'"):
        prof.table(sort_by="colour")


def test_chrome_trace(tmp_path: Path) -> None:
    with profile() as prof:
        jitgrad.compile(_step)(*_make())
    prof.export_chrome_trace(tmp_path / "trace.json")
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    events = [row for row in rows if row["ph"] == "X"]
    assert [row["name"] for row in rows if row["ph"] != "X"] == ["thread_name"]
    assert {row["tid"] for row in rows} == {1}, "Perfetto keeps 32 bits: the identity of a thread has more"
    assert {"forward", "segment", "compile"} <= {e["name"] for e in events}
    assert all(e["dur"] >= 0 for e in events)


def test_other_threads_and_decorators() -> None:
    @record_function("mine")
    def work() -> None:
        jitgrad.ones(2).exp()

    with profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        work()
    mine = [e for e in prof.function_events if e.name == "mine"]
    assert len({e.thread for e in mine}) == 2
    assert [e.depth for e in mine] == [0, 0]


def test_in_place_and_optimizers() -> None:
    weight = nn.Parameter(jitgrad.ones(2))
    with profile() as prof:
        weight.grad = jitgrad.ones(2)
        optim.SGD([weight], lr=0.5).step()
        jitgrad.ones(2).mul_(3)
    names = [e.name for e in prof.function_events]
    assert "_sgd_update_" in names
    assert "mul_" in names


def test_one_at_a_time() -> None:
    with profile() as prof:
        with pytest.raises(RuntimeError, match="already enabled"), profile():
            pass
        jitgrad.ones(2) + 1
    assert [e.name for e in prof.function_events] == ["full", "add"]


def test_an_error_ends_the_profile() -> None:
    with pytest.raises(ZeroDivisionError), profile() as prof:
        jitgrad.ones(2).exp()
        raise ZeroDivisionError
    count = len(prof.function_events)
    assert count == 2
    jitgrad.ones(2).exp()
    assert len(prof.function_events) == count


def test_disabled() -> None:
    with profile(enabled=False) as prof, record_function("x"):
        jitgrad.ones(2)
    assert not prof.function_events
    assert repr(prof) == "<profile without events>"


def test_nothing_is_left_behind() -> None:
    """A profiler fills two slots: the functions of the door that run operations, and ``probe.session``."""
    program = """
        import sys
        import jitgrad
        from jitgrad.autograd import profiler
        from jitgrad.compiled.backend import backend
        from jitgrad.door import Door, door
        from jitgrad.probe import probe
        slots = [name for name in Door.__slots__ if name.startswith("run_")]
        owners = [m for n, m in sys.modules.items() if n.startswith("jitgrad")] + [type(backend), jitgrad.Tensor]
        before, names = [getattr(door, slot) for slot in slots], [dict(vars(owner)) for owner in owners]
        with profiler.profile():
            assert all(a is not getattr(door, slot) for a, slot in zip(before, slots))
            assert all(vars(owner)[n] is v for owner, was in zip(owners, names) for n, v in was.items() if callable(v))
            assert probe.session is not None
            jitgrad.ones(2, requires_grad=True).sum().backward()
        assert all(a is getattr(door, slot) for a, slot in zip(before, slots))
        assert probe.session is None
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
    assert probe.session is None


def test_torch_profiler_s_names() -> None:
    names = jitgrad.profiler
    with names.profile(activities=[names.ProfilerActivity.CPU]) as prof, names.record_function("x"):
        pass
    assert [a.key for a in prof.key_averages()] == ["x"]


_AFTER_EVERYTHING_ELSE = '''
    import json
    import jitgrad
    from jitgrad.nn import functional as F
    from jitgrad.state import native_cell

    def work(x, y):
        z = (x + y) * y - 1 / (2.0 - x)
        z = F.relu(jitgrad.exp(z).neg() @ y).pow(2)
        z += y.sum()
        return z.logcumsumexp(0).sum()

    def make():
        return jitgrad.ones(2, 2, requires_grad=True), jitgrad.full((2, 2), 2.0)

    step = jitgrad.compile(work)
    for _ in range(3):
        step(*make()).backward()

    class Logged(jitgrad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    def names(step, x, y):
        with jitgrad.profiler.profile() as prof:
            step(x, y)
        return [e.name if e.category == "op" else e.category for e in prof.function_events if e.category != "cache"]

    other = jitgrad.compile(lambda x, y: work(y, x))
    x, y, logged = *make(), jitgrad.ones(2, 2).as_subclass(Logged)
    found = [names(work, x, y), names(work, logged, y), names(step, x, y), names(other, x, y), names(other, y, logged)]
    print(json.dumps([native_cell.is_installed, found]))
'''


@pytest.mark.parametrize("native_hits", ["0", "1"])
def test_everything_is_seen_after_compiled_steps_and_overrides(native_hits: str, tmp_path: Path) -> None:
    """A process where native hits and ``__torch_function__`` are in place before the profiler is even imported."""
    env = {**os.environ, "JITGRAD_NATIVE_HITS": native_hits, "JITGRAD_CACHE_DIR": str(tmp_path)}
    program = [sys.executable, "-c", textwrap.dedent(_AFTER_EVERYTHING_ELSE)]
    out = subprocess.run(program, check=True, timeout=120, capture_output=True, text=True, env=env).stdout
    is_installed, (eager, subclass, warm, *cold) = json.loads(out)
    assert is_installed == (native_hits == "1" and is_known_interpreter() and counts_references)
    operators = "add mul rsub reciprocal mul sub".split()
    functions = "exp neg mm relu pow_scalar sum add_ logcumsumexp sum".split()
    assert eager == subclass == operators + functions
    assert warm == ["segment", "kernel", "logcumsumexp", "kernel"]  # it has no kernel
    assert cold == [["compile", *warm]] * 2
