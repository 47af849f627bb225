"""Which leaves the graph of a value of a trace reaches, without making Nodes.

Owns: ``reached_leaves``: one event of the path, so that a hit is one look-up.
Must not know: levels, the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.compiled.nodes.graph_nodes import ancestors
from jitgrad.errors import ElsewhereError
from jitgrad.structs import struct
from jitgrad.tracer.recording.history import History

__all__ = ["reached_leaves"]

_LEAVES = "<leaves>"


@struct
class _Leaves:
    """What was found.

    Attributes:
        vids: input ids; None where the graph goes on outside the step.
    """

    vids: tuple[int, ...] | None

    def replay(self, history: History) -> None:
        """Nothing was computed."""


def reached_leaves(recorder: Any, tensors: Sequence[Any]) -> list[Any] | None:
    """The leaves that ``tensors`` were computed from; None if some of the graph began outside the step."""
    tid = recorder.tid
    try:
        vids = tuple([x._vid if x._tid == tid else recorder.enter(x) for x in tensors])
    except ElsewhereError:
        return None
    key = (_LEAVES, vids)
    node = recorder.node.children.get(key)
    if node is None:
        event = _Leaves(_find(recorder.path.live(), vids))
        node = recorder.path.publish(recorder.path.grow(key, event), event)
    recorder.node = node
    found = node.event.vids
    return None if found is None else [recorder.inputs[vid] for vid in found]


def _find(history: History, roots: tuple[int, ...]) -> tuple[int, ...] | None:
    reached = [v for i in ancestors(history, list(roots)) for v, need in zip(i.inputs, i.needs, strict=True) if need]
    leaves: dict[int, None] = {}
    for vid in (*reached, *roots):
        if vid in history.leaves:
            leaves[history.leaves[vid]] = None
            continue
        found = history.defs.get(history.node_source(vid))
        if found is None or not found[0].requires_grad:
            return None
    return tuple(leaves)
