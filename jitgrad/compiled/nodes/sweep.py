"""Running the real Nodes of a call where the engine has a stand-in for them.

Owns: ``sweep``.
Must not know: how the Nodes were made.

Nobody has seen these Nodes, so they have no hooks, and nothing can tell that the engine does not run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.graph.node import NextEdge, Node
from jitgrad.runtime.engine.graph.validate import fit
from jitgrad.runtime.engine.run.input_buffer import InputBuffer

__all__ = ["sweep"]


def sweep(roots: Sequence[tuple[Any, int]], grads: Sequence[Any], edges: Sequence[NextEdge]) -> tuple[Any, ...]:
    """The gradients that arrive at some edges.

    What the running backward wants says nothing of these Nodes, which it does not know: all gradients are computed.

    Args:
        roots: (Node, output number) of each result that has a gradient.
        grads: these gradients.
        edges: where to stop: edges of these Nodes.
    """
    task, wanted = current.graph_task, current.wanted
    current.graph_task = current.wanted = None
    try:
        return _sweep(roots, grads, edges)
    finally:
        current.graph_task, current.wanted = task, wanted


def _sweep(roots: Sequence[tuple[Any, int]], grads: Sequence[Any], edges: Sequence[NextEdge]) -> tuple[Any, ...]:
    ends: dict[NextEdge, int] = {}
    for i, (node, nr) in enumerate(edges):
        ends.setdefault((node, nr), i)
    arrived: dict[Node, InputBuffer] = {}
    found: list[Any] = [None] * len(edges)

    def send(node: Node, nr: int, grad: Any) -> None:
        end = ends.get((node, nr))
        if end is not None:
            found[end] = grad if found[end] is None else found[end] + grad
            return
        buffer = arrived.get(node)
        if buffer is None:
            buffer = arrived[node] = InputBuffer([None] * len(node.input_metadata))
        buffer.add(nr, grad)

    for (node, nr), grad in zip(roots, grads, strict=True):
        send(node, nr, grad)
    while arrived:
        node = max(arrived, key=_sequence_nr)  # all that leads to it is younger, and has run
        for index, (grad, (target, nr)) in enumerate(zip(node.apply(arrived.pop(node)), node.next_edges, strict=True)):
            if target is not None and grad is not None:
                expected = target.input_metadata[nr]
                send(target, nr, grad if grad._aval is expected else fit(node, index, grad, expected))
    return tuple(found)


def _sequence_nr(node: Node) -> int:
    return node.sequence_nr
