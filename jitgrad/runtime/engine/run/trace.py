"""``engine.trace()``: what the engine did, event by event, for people who debug their own graph.

Owns: ``Trace``, ``TraceEvent``, and which traces are active.
Must not know: how the engine runs; it tells.
In: ``emit(...)`` from the engine, its threads, input buffers and streams. Out: a list of events that prints well.

A trace is of the process: it sees every thread. What is traced runs as it runs without a trace: the loop for one thread
asks once per backward whether anybody watches, and a backward that a compiled step has recorded stays recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from jitgrad.locks import process_lock
from jitgrad.state import engine_watchers
from jitgrad.structs import value

__all__ = ["KINDS", "Provisional", "Trace", "TraceEvent", "emit", "is_active"]

KINDS = {
    "deps": "before anything runs: ``count`` gradients will arrive at the node",
    "ready": "the node has all its gradients and was pushed to the queue of ``device``",
    "not_ready": "a gradient arrived at the node, which waits for ``count`` more",
    "accumulate": "a gradient was added to one that had arrived at the node's input ``count`` before",
    "exec": "the node runs",
    "skip": "the node was not run, for the reason in ``detail``",
    "capture": "the node's gradient became result ``count`` of ``grad()``",
    "sync": "a stream waits for another one, or a thread for a stream",
    "wake": "a thread that sleeps on the queue of ``device`` was woken, because its graph task is done",
    "thread": "a thread of the engine started",
    "error": "the node raised; no other node of this graph task runs after it",
    "recorded": "a compiled step repeated a backward that it had recorded: no node ran; ``count`` gradients were made",
}
"""Every kind of event, with a sentence."""


@value
class TraceEvent:
    """One thing that happened.

    Attributes:
        kind: one of ``KINDS``.
        node: the node, or None.
        name: of the node.
        device: where, as ``"cpu"`` or ``"vcpu:0"``.
        thread: the name of the thread on which it happened.
        count: a number; ``KINDS`` says of what.
        depth: reentrant depth of the graph task.
        detail: anything else, in words.
        leaves: of a recorded backward: what it accumulated into.
    """

    kind: str
    node: Any
    name: str
    device: str
    thread: str
    count: int
    depth: int
    detail: str
    leaves: tuple[Any, ...] = ()

    def __str__(self) -> str:
        words = [self.kind, self.name, f"on {self.device}" if self.device else "", str(self.count or ""), self.detail]
        return " ".join(word for word in words if word)


class Trace:
    """The events of the time between ``with engine.trace() as trace:`` and the end of the block, in order.

    ``print(trace)`` shows a table, ``for event in trace`` goes through the events, ``trace.of("exec", "ready")`` are
    those of some kinds. A trace keeps the nodes it shows, and so their graph, until ``clear()``.
    """

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self._lock = threading.Lock()

    def add(self, event: TraceEvent) -> None:
        """Append an event; from any thread."""
        with self._lock:
            self.events.append(event)

    def of(self, *kinds: str) -> list[TraceEvent]:
        """The events of these kinds.

        Raises:
            ValueError: there is no such kind.
        """
        for kind in kinds:
            if kind not in KINDS:
                raise ValueError(f"no kind of event: {kind!r}; known: {', '.join(KINDS)}")
        return [event for event in self.events if event.kind in kinds]

    def names(self, *kinds: str) -> list[str]:
        """The nodes' names of ``of(*kinds)``, in order."""
        return [event.name for event in self.of(*kinds)]

    def clear(self) -> None:
        """Forget the events, and let go of the nodes."""
        with self._lock:
            self.events.clear()

    def __enter__(self) -> Trace:
        _change(lambda active: (*active, self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        _change(lambda active: tuple(trace for trace in active if trace is not self))

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(tuple(self.events))

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"<Trace of {len(self.events)} events>"

    def __str__(self) -> str:
        """A table, one line per event; a number distinguishes nodes of one name."""
        labels = _labels(self.events)
        head = ("", "event", "node", "device", "thread", "count", "")
        rows = [head]
        for number, event in enumerate(self.events):
            place = "  " * event.depth + labels.get(id(event.node), "")
            count = str(event.count or "")
            rows.append((str(number), event.kind, place, event.device, event.thread, count, event.detail))
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)


def _labels(events: list[TraceEvent]) -> dict[int, str]:
    """A name for each node: with a number where several nodes have the same one."""
    nodes: dict[str, dict[int, None]] = {}
    for event in events:
        if event.node is not None:
            nodes.setdefault(event.name, {})[id(event.node)] = None
    found = {}
    for name, ids in nodes.items():
        for number, key in enumerate(ids):
            found[key] = f"{name}#{number}" if len(ids) > 1 else name
    return found


_change_lock = process_lock()


def _change(change: Any) -> None:
    with _change_lock:
        engine_watchers[:] = change(tuple(engine_watchers))


def is_active() -> bool:
    """Whether anybody is watching."""
    return bool(engine_watchers)


class _Held(threading.local):
    """Events of this thread that are held back; None: events are delivered at once."""

    events: list[TraceEvent] | None = None


_held = _Held()


class Provisional:
    """``with Provisional() as attempt:`` holds back what this thread emits; ``attempt.keep()`` delivers it."""

    def __init__(self) -> None:
        self._is_kept = False

    def keep(self) -> None:
        """The attempt was a success: its events have happened."""
        self._is_kept = True

    def __enter__(self) -> Provisional:
        self._before, _held.events = _held.events, []
        return self

    def __exit__(self, *exc_info: object) -> None:
        events, _held.events = _held.events, self._before
        if self._is_kept:
            for event in events or ():
                _tell(event)


def _tell(event: TraceEvent) -> None:
    if _held.events is not None:
        _held.events.append(event)
        return
    for trace in tuple(engine_watchers):
        trace.add(event)


def emit(
    kind: str,
    node: Any = None,
    *,
    device: Any = "",
    count: int = 0,
    depth: int = 0,
    detail: str = "",
    leaves: tuple[Any, ...] = (),
) -> None:
    """Tell every active trace; nothing happens without one.

    Args:
        kind: one of ``KINDS``.
        node: the node it is about.
        device: where; anything whose ``str`` is a device's name.
        count: a number; ``KINDS`` says of what.
        depth: reentrant depth of the graph task.
        detail: in words.
        leaves: that a recorded backward accumulated into.
    """
    if not engine_watchers:
        return
    name = node.name() if node is not None else ""
    thread = threading.current_thread().name
    _tell(TraceEvent(kind, node, name, str(device), thread, count, depth, detail, leaves))
