"""The memory of a step: exact sizes, names, what holds it, eagerly and compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import jitgrad
from jitgrad import nn, optim
from jitgrad.abi import NativeStep
from jitgrad.nn import functional as F
from jitgrad.pictures.memory_use import MemoryUse

HERE = Path(__file__).name
N = 1000
LINE = 4 * N
"""Bytes of a vector of ``N`` float32."""


def _line_of(mark: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    return f"{HERE}:{next(nr for nr, line in enumerate(lines, 1) if line.endswith(f'# {mark}'))}"


def _chain(x: Any) -> Any:
    a = x * 2.0  # doubled
    b = a.exp()  # exp
    del a
    c = b + 1.0
    del b
    return c


def test_each_moment_of_an_eager_step() -> None:
    x = jitgrad.ones(N)
    use = jitgrad.memory_use(_chain, x)
    assert [(held.what, held.nbytes) for held in use.before] == [("x", LINE)]
    assert [(m.what, m.nbytes) for m in use.moments] == [("mul", 2 * LINE), ("exp", 3 * LINE), ("add", 3 * LINE)]
    assert use.before_nbytes == LINE
    assert use.peak_nbytes == 3 * LINE
    assert [held.where.rpartition("/")[2] for held in use.at_peak] == [_line_of("doubled"), _line_of("exp")]
    assert [(held.what, held.nbytes) for held in use.after] == [("result", LINE)]
    assert use.result.equal(_chain(x))


def test_a_saved_value_names_its_node() -> None:
    def step(x: Any) -> Any:
        return x.exp().sin()

    use = jitgrad.memory_use(step, jitgrad.ones(N, requires_grad=True))
    held = {h.what: h.by for h in use.at_peak}
    assert held == {"exp": "ExpBackward0, SinBackward0", "result": ""}


def test_views_and_writes_in_place_take_no_memory() -> None:
    def step(x: Any) -> Any:
        return x.reshape(10, -1).t().mul_(2.0)[1:]

    use = jitgrad.memory_use(step, jitgrad.ones(N))
    assert {m.nbytes for m in use.moments} == {LINE}
    assert use.at_peak == use.after == []
    assert use.notes() == ["The step makes no tensors."]


def test_memory_that_is_gone_does_not_count() -> None:
    held = [jitgrad.ones(N)]

    def step(x: Any) -> Any:
        held.clear()
        return x + 1.0

    use = jitgrad.memory_use(step, jitgrad.ones(N))
    assert use.before_nbytes == 2 * LINE
    assert [m.nbytes for m in use.moments] == [2 * LINE]


def _training() -> Any:
    jitgrad.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)  # forward
        loss.backward()
        optimizer.step()
        return loss

    step.model = model  # type: ignore[attr-defined]
    return step


def _batch() -> tuple[Any, Any]:
    return jitgrad.randn(128, 32), jitgrad.randint(0, 10, (128,))


@pytest.mark.parametrize("calls", [None, 0, 3], ids=["eager", "cold", "warm"])
def test_a_training_step(calls: int | None, tmp_path: Path) -> None:
    plain = _training()
    step = plain if calls is None else jitgrad.compile(plain)
    x, y = _batch()
    for _ in range(calls or 3):
        plain(x, y) if calls == 0 else step(x, y)
    use = jitgrad.memory_use(step, x, y)
    weights = sum(p.nbytes for p in plain.model.parameters())
    before = {held.what for held in use.before}
    assert {"x", "y", "model.0.weight", "model.0.weight.grad", "optimizer.state[model.0.weight]['exp_avg']"} <= before
    numbers = 4 * len(list(plain.model.parameters()))  # Adam counts its steps
    assert use.before_nbytes == pytest.approx(4 * weights + x.nbytes + y.nbytes, abs=2 * numbers)
    left = {held.what: held.nbytes for held in use.after}
    assert {name: n for name, n in left.items() if name.endswith(".grad")} == {
        f"model.{name}.grad": p.nbytes for name, p in plain.model.named_parameters()
    }
    assert left["result"] == 4
    assert use.before_nbytes < use.peak_nbytes < 2 * use.before_nbytes + 8 * 128 * 64 * 4
    assert any(held.where.endswith(_line_of("forward")) and held.by for held in use.at_peak)
    document = json.loads(json.dumps(use.to_json()))
    assert document["peak_nbytes"] == use.peak_nbytes
    assert document["before_nbytes"] == use.before_nbytes
    use.save(tmp_path / "use.html")
    assert "model.0.weight" in (tmp_path / "use.html").read_text()
    assert (use.arena_nbytes > 0) == (calls is not None)


def test_temporaries_of_a_compiled_step_are_those_of_its_plan() -> None:
    step = jitgrad.compile(_training())
    x, y = _batch()
    for _ in range(3):
        step(x, y)
    before = jitgrad.stats()
    use = jitgrad.memory_use(step, x, y)
    assert jitgrad.stats()["misses"] == before["misses"]
    assert jitgrad.stats()["fallbacks"] == before["fallbacks"]
    (segment,) = jitgrad.explain(step, x, y).segments
    (native,) = [s for s in segment.program.steps if isinstance(s, NativeStep)]
    assert use.arena_nbytes == native.arena_nbytes
    assert len(use.moments) == len(native.stages) + 1
    temporaries = [held for held in use.at_peak if held.by.startswith("until ")]
    assert 0 < sum(held.nbytes for held in temporaries) <= native.arena_nbytes


def test_a_step_that_raises_leaves_nothing_behind() -> None:
    def step(x: Any) -> Any:
        return (x * 2.0).reshape(7, 11)

    for tried in (step, jitgrad.compile(step)):
        with pytest.raises(RuntimeError, match="shape"):
            jitgrad.memory_use(tried, jitgrad.ones(N))
    assert isinstance(jitgrad.memory_use(_chain, jitgrad.ones(N)), MemoryUse)


def test_a_curve_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are drawn by it")
    use = jitgrad.memory_use(_chain, jitgrad.ones(N))
    use.plot(tmp_path / "use.png")
    assert (tmp_path / "use.png").stat().st_size > 5000
