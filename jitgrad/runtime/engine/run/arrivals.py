"""``Arrivals``: in which order gradients are added up when several threads send them.

Owns: the order, and what has to wait for its turn.
Must not know: how gradients are added, threads.
In: a graph, and its gradients as they come. Out: the same gradients, in the order in which one thread would send them.

# Note [Order of arrival]
# ~~~~~~~~~~~~~~~~~~~~~~~
# A sum of three or more gradients depends on its order, in the last bit. One thread runs nodes in falling sequence
# number: what a node waits for was made after it, so the highest number is always ready. Several threads send as they
# get done. So an input with three or more arrivals takes them in falling sequence number of their senders; what comes
# early is held until its turn. The bits are then those of the CPU, in every run. (PyTorch adds in order of arrival.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jitgrad.runtime.engine.graph.node import Node

__all__ = ["Arrivals"]

_Input = tuple[Node, int]
_Sender = tuple[Node, int]


class Arrivals:
    """The order of arrival at the inputs of a graph. Not locked: the graph task's mutex is held around it.

    Args:
        nodes: of the graph; each sends one gradient along every edge.
    """

    __slots__ = ("_early", "_expected")

    def __init__(self, nodes: Iterable[Node]) -> None:
        found: dict[_Input, list[_Sender]] = {}
        for node in nodes:
            for index, (target, input_nr) in enumerate(node.next_edges):
                if target is not None:
                    found.setdefault((target, input_nr), []).append((node, index))
        # two can be added either way; the next one is the last of a list
        self._expected = {place: senders[::-1] for place, senders in found.items() if len(senders) > 2}
        for senders in self._expected.values():
            senders.sort(key=_rank)  # stable: nodes of several threads may share a number
        self._early: dict[_Input, dict[_Sender, tuple[Any, Any]]] = {}

    def arrive(
        self, sender: Node, index: int, target: Node, input_nr: int, gradient: Any, stream: Any
    ) -> Iterator[tuple[Any, Any]]:
        """What ``target`` is to add now: (gradient, stream of its sender), in order.

        Args:
            sender: the node that sends.
            index: along which of its edges.
            target: the node that receives.
            input_nr: at which input.
            gradient: what is sent; None, if it is undefined.
            stream: of the sender.
        """
        place = (target, input_nr)
        expected = self._expected.get(place)
        if expected is None:
            yield gradient, stream
            return
        early = self._early.setdefault(place, {})
        early[sender, index] = (gradient, stream)
        while expected and expected[-1] in early:
            yield early.pop(expected.pop())


def _rank(sender: _Sender) -> tuple[int, int]:
    """Greater ranks come first."""
    node, index = sender
    return node.sequence_nr, -index
