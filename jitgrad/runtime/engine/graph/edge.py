"""``Edge``: where one gradient flows to.

Owns: ``Edge``, its plain form and the invalid edge.
Must not know: tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional

if TYPE_CHECKING:
    from jitgrad.runtime.engine.graph.node import Node

__all__ = ["INVALID_EDGE", "Edge", "NextEdge"]


class Edge(NamedTuple):
    """Input ``input_nr`` of ``node``; ``node`` None says that no gradient is wanted here.

    A tuple, because the engine unpacks one per gradient; a graph is often made of plain ones (``NextEdge``), which
    cost a fifth.
    """

    node: Node | None
    input_nr: int

    @property
    def output_nr(self) -> int:
        """``input_nr``, from the side of the forward: which output of its operation the gradient belongs to."""
        return self.input_nr


INVALID_EDGE = Edge(None, 0)

NextEdge = tuple[Optional["Node"], int]
"""An ``Edge``, or the same as a plain tuple."""
