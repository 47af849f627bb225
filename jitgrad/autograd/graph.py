"""The backward graph as users see it.

Owns: names only; the graph is ``runtime.engine``'s.
"""

from __future__ import annotations

from typing import Any

from jitgrad.runtime.engine.accumulate_grad import gradient_edge
from jitgrad.runtime.engine.edge import Edge as GradientEdge
from jitgrad.runtime.engine.graph_task import current_node
from jitgrad.runtime.engine.node import Node
from jitgrad.runtime.engine.node_hooks import RemovableHandle

__all__ = ["GradientEdge", "Node", "RemovableHandle", "current_node", "get_gradient_edge"]


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of ``tensor`` flows: (grad_fn, output_nr), or (its accumulator, 0) for a leaf.

    Raises:
        RuntimeError: the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return gradient_edge(tensor)
