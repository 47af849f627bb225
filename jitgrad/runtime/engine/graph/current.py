"""What this thread is executing: which backward call, which node.

Owns: ``current``, which Nodes look at when they are made and when they run.
Must not know: how a backward call is run: ``run/`` sets the attributes. So the types that are further up are named in
words here, and are ``Any`` to mypy.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["CPU_DEVICE", "NO_DEVICE", "current", "current_graph_task", "current_node"]

CPU_DEVICE = -1
"""``worker_device`` of a thread that runs the CPU's nodes of its own backward."""

NO_DEVICE = -2
"""``worker_device`` of a thread outside every backward."""


class _Current(threading.local):
    """What this thread is executing.

    Attributes:
        graph_task: the innermost backward call, a ``GraphTask``, or None.
        node: the ``Node`` being run, or None.
        worker_device: the device whose nodes this thread runs: a number, ``CPU_DEVICE`` inside a backward call, else
            ``NO_DEVICE``.
        local_ready_queue: the ``ReadyQueue`` where its work comes from; None before its first backward.
        current_depth: reentrant calls on this thread's stack.
        wanted: for a backward without a graph task, Note [Plain backward]: its ``wanted``; None: all or no backward.
    """

    graph_task: Any = None
    node: Any = None
    worker_device: int = NO_DEVICE
    local_ready_queue: Any = None
    current_depth: int = 0
    wanted: dict[Any, Any] | None = None


current = _Current()


def current_graph_task() -> Any:
    """The backward call that this thread is in, a ``GraphTask``, or None."""
    return current.graph_task


def current_node() -> Any:
    """The ``Node`` that this thread is running; readable in hooks, None outside."""
    return current.node
