"""The backward graph drawn: by Graphviz where it is installed, else by matplotlib.

Owns: ``draw_graph``, the layers of the second drawing.
Must not know: Nodes (``autograd/dot.py`` makes boxes and arrows of them).
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jitgrad.autograd.dot import COLOURS, Arrow, Box, graph_of, to_dot
from jitgrad.lazy import LazyModule

__all__ = ["draw_graph", "layers_of"]

_graphviz: Any = LazyModule("graphviz")
_figures: Any = LazyModule("matplotlib.figure")
_WIDTH, _HEIGHT = 2.6, 0.9
"""Inches of a box and what is around it."""
_MAX_INCHES = 100
_SWEEPS = 4


def draw_graph(tensor: Any, path: str | Path, params: Mapping[str, Any] | None = None) -> Path:
    """Draw the backward graph of a tensor (or of several) into a file; see ``to_dot`` for what is drawn.

    By Graphviz, if the package ``graphviz`` and its program ``dot`` are installed; else by matplotlib, in layers.

    Args:
        tensor: a tensor that requires grad, or a sequence of them.
        path: its ending is the format: ``.svg``, ``.png``, ``.pdf``; ``.dot``: the text itself.
        params: names of leaves, ``dict(model.named_parameters())``.

    Returns:
        The path.

    Raises:
        RuntimeError: a tensor has no graph.
        ValueError: the path has no ending.
        ImportError: neither Graphviz nor matplotlib is installed.
    """
    path = Path(path)
    if not path.suffix:
        raise ValueError(f"the file's ending says its format: .svg, .png, .pdf or .dot, but path is {str(path)!r}")
    if path.suffix == ".dot":
        path.write_text(to_dot(tensor, params))
    elif importlib.util.find_spec("graphviz") is not None and shutil.which("dot"):
        path.write_bytes(_graphviz.Source(to_dot(tensor, params)).pipe(format=path.suffix[1:]))
    else:
        _draw(*graph_of(tensor, params), path)
    return path


def layers_of(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> list[list[str]]:
    """Keys of boxes in layers: a box is one layer below the lowest that has an arrow to it.

    Within a layer, boxes stand where those above and below them are on average, as in Sugiyama's method.
    """
    below: dict[str, list[str]] = {box.key: [] for box in boxes}
    above: dict[str, list[str]] = {box.key: [] for box in boxes}
    for arrow in arrows:
        below[arrow.source].append(arrow.target)
        above[arrow.target].append(arrow.source)
    depth = _depths(below, above)
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for box in boxes:
        layers[depth[box.key]].append(box.key)
    for _ in range(_SWEEPS):
        for neighbours, order in ((above, layers), (below, layers[::-1])):
            _sort_layers(order, neighbours, _places(layers))
    return layers


def _depths(below: dict[str, list[str]], above: dict[str, list[str]]) -> dict[str, int]:
    """The longest path to each box from one without arrows to it."""
    missing = {key: len(sources) for key, sources in above.items()}
    ready = [key for key, count in missing.items() if not count]
    depth = dict.fromkeys(below, 0)
    while ready:
        key = ready.pop()
        for target in below[key]:
            depth[target] = max(depth[target], depth[key] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return depth


def _places(layers: list[list[str]]) -> dict[str, float]:
    """Where boxes stand from left to right, 0 being the middle."""
    return {key: nr - (len(layer) - 1) / 2 for layer in layers for nr, key in enumerate(layer)}


def _sort_layers(layers: list[list[str]], neighbours: dict[str, list[str]], place: dict[str, float]) -> None:
    for layer in layers:
        around = {key: [place[other] for other in neighbours[key]] or [place[key]] for key in layer}
        mean = {key: sum(places) / len(places) for key, places in around.items()}
        layer.sort(key=mean.__getitem__)
        place.update(_places([layer]))


def _draw(boxes: Sequence[Box], arrows: Sequence[Arrow], path: Path) -> None:
    layers = layers_of(boxes, arrows)
    depth = {key: nr for nr, layer in enumerate(layers) for key in layer}
    place = _places(layers)
    size = _WIDTH * max(map(len, layers)), _HEIGHT * len(layers)
    figure = _figures.Figure(figsize=(min(size[0], _MAX_INCHES), min(size[1], _MAX_INCHES)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    half = max(map(len, layers)) / 2
    axes.set(xlim=(-half, half), ylim=(-len(layers) + 0.5, 0.5))
    for arrow in arrows:
        start, end = ((place[key], -depth[key]) for key in (arrow.source, arrow.target))
        style = {"arrowstyle": "->", "color": "gray", "shrinkA": 14, "shrinkB": 14}
        axes.annotate("", xy=end, xytext=start, arrowprops=style)
    for box in boxes:
        frame = {"boxstyle": "round", "facecolor": COLOURS[box.kind] or "white", "edgecolor": "black"}
        style = {"ha": "center", "va": "center", "family": "monospace", "size": 7, "bbox": frame}
        axes.text(place[box.key], -depth[box.key], "\n".join(box.lines), **style)
    figure.savefig(path, dpi=150)
