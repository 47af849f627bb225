"""The backward graph as a picture.

Owns: ``to_dot``.
Must not know: how the graph is run.
In: tensors. Out: text for Graphviz.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad, gradient_edge
from jitgrad.runtime.engine.graph.node import Node, name_of
from jitgrad.tensor_base import TensorBase

__all__ = ["to_dot"]


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
    tensors = (tensor,) if isinstance(tensor, TensorBase) else tuple(tensor)
    names = {id(leaf): name for name, leaf in (params or {}).items()}
    lines = ["digraph {", "  node [shape=box, fontname=monospace]"]
    roots = []
    for position, t in enumerate(tensors):
        edge = gradient_edge(t)
        if edge.node is None:
            raise RuntimeError(f"element {position} of tensors does not require grad and does not have a grad_fn")
        roots.append(edge.node)
        label = _quoted(names.get(id(t), "output"), _shape(t))
        lines.append(f'  root{position} [label={label}, style=filled, fillcolor=palegreen]')
        lines.append(_arrow(f"root{position}", _key(edge.node), edge.input_nr))
    for node in _reachable(roots):
        lines.append(f"  {_key(node)} [{_attributes(node, names)}]")
        for target, nr in node.next_functions:
            if target is not None:
                lines.append(_arrow(_key(node), _key(target), nr))
    return "\n".join([*lines, "}"]) + "\n"


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


def _attributes(node: Node, names: dict[int, str]) -> str:
    if isinstance(node, AccumulateGrad):
        leaf = node.variable
        return f"label={_quoted(names.get(id(leaf), name_of(node)), _shape(leaf))}, style=filled, fillcolor=lightblue"
    shapes = ", ".join(str(tuple(aval.shape)) for aval in node.input_metadata)
    return f"label={_quoted(name_of(node), shapes)}"


def _shape(tensor: Any) -> str:
    return str(tuple(tensor.shape))


def _key(node: Node) -> str:
    return f"n{id(node):x}"


def _quoted(*lines: str) -> str:
    text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return f'"{text}"'


def _arrow(source: str, target: str, input_nr: int) -> str:
    """An edge; the number says which output of the forward it belongs to, where that is not the first."""
    return f"  {source} -> {target}" + (f' [label="{input_nr}"]' if input_nr else "")
