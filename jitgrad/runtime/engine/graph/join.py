"""``set_history``: give a tensor the Node it came from, when that Node is Python's and not an operation's.

Owns: the one place that writes a tensor's history by hand, eagerly and in a trace.
Must not know: what the Node computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitgrad.state import state
from jitgrad.version_counter import VERSION

if TYPE_CHECKING:
    from jitgrad.runtime.engine.graph.node import Node

__all__ = ["give_back_history", "set_history"]


def set_history(tensor: Any, node: Node, output_nr: int) -> None:
    """From here on, ``tensor`` is output ``output_nr`` of ``node``, which was just made, and requires grad.

    In a trace the tensor becomes another value, one that comes in with a graph of its own: what was recorded before
    has seen the tensor without this history. A view has its history for the memory as it is now: forward may have
    written it, and returned a view from before.
    """
    if tensor._base is not None and tensor._view_version is not None:
        tensor._view_version = tensor._vc[VERSION]
    recorder = state.handler
    if recorder is not None:
        recorder.join_outer(tensor, node, output_nr)
        return
    tensor._requires_grad = True
    tensor._grad_fn = node
    tensor._output_nr = output_nr


def give_back_history(tensor: Any, node: Node, output_nr: int) -> None:
    """``set_history`` with a Node that is older: its place in the order of execution stays."""
    sequence_nr = node.sequence_nr
    set_history(tensor, node, output_nr)
    node.sequence_nr = sequence_nr
