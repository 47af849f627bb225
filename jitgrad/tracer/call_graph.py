"""``CallGraph``: what hits look at of the graph of a call.

Owns: the slots. ``compiled/nodes/trace_graph.py`` has the class of such graphs.
Must not know: Nodes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CallGraph"]


class CallGraph:
    """The state of a call's graph.

    Attributes:
        recorder: the recorder while the call runs, then None.
        tid: the call.
        tip: the end of the path when a segment last left differentiable survivors.
        is_touched: something was noted about values or Nodes of this call.
        marks: of ``CreationOrder``; empty while no Node was numbered.
        saves: what escaped can still be differentiated.
        leaves: (value id, tensor), flat: the leaves of a graph that escaped and was used up; None otherwise.
        numbers: the run-time scalars of a graph that escaped by a hit.
        noted: (value id, version counter, version), flat: of a graph that escaped by a hit, and can still be
            differentiated; None otherwise.
        entered, table, outer: what such a graph took over from the recorder, under the same names.
    """

    __slots__ = (
        "entered",
        "is_touched",
        "leaves",
        "marks",
        "noted",
        "numbers",
        "outer",
        "recorder",
        "saves",
        "table",
        "tid",
        "tip",
    )

    entered: Any
    noted: Any
    outer: Any
    table: Any

    is_touched: bool
    leaves: list[Any] | None
    marks: list[Any]
    numbers: list[Any]
    recorder: Any
    saves: bool
    tid: int
    tip: Any
