"""The backward graph as a picture.

Owns: ``graph_of``, what is drawn, and ``to_dot``.
Must not know: how the graph is run.
In: tensors. Out: boxes and arrows; text for Graphviz.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad, gradient_edge
from jitgrad.runtime.engine.graph.node import Node, name_of
from jitgrad.tensor_base import TensorBase

__all__ = ["COLOURS", "Arrow", "Box", "graph_of", "to_dot"]

COLOURS = {"output": "palegreen", "leaf": "lightblue", "node": ""}
"""Of a box, by what it is; empty: none."""


@dataclass(frozen=True, slots=True)
class Box:
    """What is drawn of a tensor asked about (``"output"``), of a Node, or of a leaf's AccumulateGrad.

    Attributes:
        key: no other box has it.
        lines: the name, and the shapes of the gradients that come in.
        kind: a key of ``COLOURS``.
    """

    key: str
    lines: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a box to the one that its gradient goes to.

    Attributes:
        source, target: keys.
        input_nr: which output of the forward the gradient belongs to.
    """

    source: str
    target: str
    input_nr: int


def to_dot(tensor: Any, params: Mapping[str, Any] | None = None) -> str:
    """The backward graph of a tensor (or of several) in the DOT language: every node and every edge.

    Boxes are nodes, with the shape of the gradient that comes in; blue ones are leaves, under the names that ``params``
    gives them (``dict(model.named_parameters())``); green ones are the tensors asked about. Arrows go as gradients do.

    Args:
        tensor: a tensor that requires grad, or a sequence of them.
        params: names of leaves.

    Raises:
        RuntimeError: a tensor has no graph.
    """
    boxes, arrows = graph_of(tensor, params)
    leaving: dict[str, list[Arrow]] = {}
    for arrow in arrows:
        leaving.setdefault(arrow.source, []).append(arrow)
    lines = ["digraph {", "  node [shape=box, fontname=monospace]"]
    for box in boxes:
        colour = COLOURS[box.kind]
        filled = f", style=filled, fillcolor={colour}" if colour else ""
        lines.append(f"  {box.key} [label={_quoted(*box.lines)}{filled}]")
        lines += [_arrow(arrow) for arrow in leaving.get(box.key, ())]
    return "\n".join([*lines, "}"]) + "\n"


def graph_of(tensor: Any, params: Mapping[str, Any] | None = None) -> tuple[list[Box], list[Arrow]]:
    """Boxes and arrows of the backward graph, in the order in which a walk from the tensors meets them.

    Args, Raises: see ``to_dot``.
    """
    tensors = (tensor,) if isinstance(tensor, TensorBase) else tuple(tensor)
    names = {id(leaf): name for name, leaf in (params or {}).items()}
    boxes, arrows, roots = [], [], []
    for position, t in enumerate(tensors):
        edge = gradient_edge(t)
        if edge.node is None:
            raise RuntimeError(f"element {position} of tensors does not require grad and does not have a grad_fn")
        roots.append(edge.node)
        boxes.append(Box(f"root{position}", (names.get(id(t), "output"), _shape(t)), "output"))
        arrows.append(Arrow(f"root{position}", _key(edge.node), edge.input_nr))
    for node in _reachable(roots):
        boxes.append(_box(node, names))
        edges = [(target, nr) for target, nr in node.next_functions if target is not None]
        arrows += [Arrow(_key(node), _key(target), nr) for target, nr in edges]
    return boxes, arrows


def _reachable(roots: list[Node]) -> list[Node]:
    """Every node, in the order in which a walk from the roots meets them."""
    seen: dict[Node, None] = dict.fromkeys(roots)
    stack = list(reversed(seen))
    while stack:
        for target, _ in stack.pop().next_functions:
            if target is not None and target not in seen:
                seen[target] = None
                stack.append(target)
    return list(seen)


def _box(node: Node, names: dict[int, str]) -> Box:
    if isinstance(node, AccumulateGrad):
        leaf = node.variable
        return Box(_key(node), (names.get(id(leaf), name_of(node)), _shape(leaf)), "leaf")
    shapes = ", ".join(str(tuple(aval.shape)) for aval in node.input_metadata)
    return Box(_key(node), (name_of(node), shapes), "node")


def _shape(tensor: Any) -> str:
    return str(tuple(tensor.shape))


def _key(node: Node) -> str:
    return f"n{id(node):x}"


def _quoted(*lines: str) -> str:
    text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return f'"{text}"'


def _arrow(arrow: Arrow) -> str:
    """An edge; the number says which output of the forward it belongs to, where that is not the first."""
    label = f' [label="{arrow.input_nr}"]' if arrow.input_nr else ""
    return f"  {arrow.source} -> {arrow.target}{label}"
