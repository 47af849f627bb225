"""Drawings of the backward graph, and the report on gradients."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import jitgrad
from jitgrad import nn
from jitgrad.autograd.dot import graph_of
from jitgrad.pictures.graph import draw_graph, layers_of


def _model() -> tuple[nn.Module, Any]:
    jitgrad.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = jitgrad.randn(5, 3)
    return model, (model(x) + x.sum(1, keepdim=True)).square().mean()


def test_boxes_have_names_and_shapes() -> None:
    model, loss = _model()
    boxes, arrows = graph_of(loss, dict(model.named_parameters()))
    leaves = {box.lines for box in boxes if box.kind == "leaf"}
    assert leaves == {(name, str(tuple(p.shape))) for name, p in model.named_parameters()}
    keys = {box.key for box in boxes}
    assert len(keys) == len(boxes)
    assert {key for arrow in arrows for key in (arrow.source, arrow.target)} == keys


def test_arrows_go_down_the_layers() -> None:
    model, loss = _model()
    hidden = loss * 2 + loss  # two ways of different length
    boxes, arrows = graph_of((hidden, loss), dict(model.named_parameters()))
    layers = layers_of(boxes, arrows)
    depth = {key: nr for nr, layer in enumerate(layers) for key in layer}
    assert depth.keys() == {box.key for box in boxes}
    assert all(depth[arrow.source] < depth[arrow.target] for arrow in arrows)
    assert all(layers)


@pytest.mark.parametrize("ending", ["svg", "png", "dot"])
def test_a_graph_is_drawn_without_graphviz(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="pictures are drawn by it")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    model, loss = _model()
    path = draw_graph(loss, tmp_path / f"graph.{ending}", params=dict(model.named_parameters()))
    assert path.stat().st_size > 500
    if ending == "dot":
        assert "0.weight" in path.read_text()


def test_graphviz_gets_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jitgrad.pictures import graph

    class Source:
        def __init__(self, text: str) -> None:
            self.text = text

        def pipe(self, format: str) -> bytes:
            return f"{format}: {self.text}".encode()

    monkeypatch.setattr(graph, "_graphviz", type("Graphviz", (), {"Source": Source}))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(graph.shutil, "which", lambda name: name)
    _, loss = _model()
    assert draw_graph(loss, tmp_path / "graph.svg").read_text().startswith("svg: digraph {")


def test_a_path_without_ending_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\.svg, \.png"):
        draw_graph(_model()[1], "graph")


class _Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Parameter(jitgrad.ones(2))
        self.same = nn.Parameter(jitgrad.ones(2))
        self.tiny = nn.Parameter(jitgrad.ones(2))
        self.huge = nn.Parameter(jitgrad.ones(2))
        self.broken = nn.Parameter(jitgrad.ones(2))
        self.unused = nn.Parameter(jitgrad.ones(2))
        self.frozen = nn.Parameter(jitgrad.ones(2), requires_grad=False)
        self.still = nn.Parameter(jitgrad.ones(2))
        self.sparse = nn.Parameter(jitgrad.ones(20))


def test_what_is_odd_about_gradients_is_said(mode: Any, tmp_path: Path) -> None:
    def step() -> Any:
        model = _Odd()
        first = jitgrad.tensor([1.0] + [0.0] * 19)
        loss = model.plain.sum() + model.same.sum() + (model.tiny * 1e-6).sum() + (model.huge * 1e6).sum()
        loss = loss + (model.broken * float("inf")).sum() + (model.still * 0).sum() + (model.sparse * first).sum()
        loss.backward()
        return model

    report = jitgrad.gradient_flow(mode.run(step))
    said = {note.split(":")[0]: note for note in report.notes() if note.split(":")[0].isupper()}
    kinds = {"VANISHING": "tiny", "EXPLODING": "huge", "NOT FINITE": "broken", "ZERO": "still", "MOSTLY ZERO": "sparse"}
    assert said.keys() == kinds.keys()
    assert all(f"gradient of {name}" in said[kind] for kind, name in kinds.items())
    others = "\n".join(report.notes())
    assert "unused has no gradient: jitgrad.why_none" in others
    assert "frozen has no gradient: it does not require grad" in others
    assert "plain" not in others
    assert report.parameters[0].rms == 1.0
    assert json.loads(json.dumps(report.to_json()))["parameters"][2]["name"] == "tiny"


def test_gradients_are_plotted(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are drawn by it").use("Agg")
    model, loss = _model()
    loss.backward()
    jitgrad.gradient_flow(model).plot(tmp_path / "flow.png")
    assert (tmp_path / "flow.png").stat().st_size > 5_000
    with pytest.raises(TypeError, match="takes a module"):
        jitgrad.gradient_flow(loss)
