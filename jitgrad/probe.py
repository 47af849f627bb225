"""``probe``: the slot of the profiler, or another observer of what runs.

Owns: ``Probe``, what is called at the places that report, and ``probe``, the slot.
Must not know: what is done with it (``autograd.profiler`` measures times).

# Note [Profiling points]
# ~~~~~~~~~~~~~~~~~~~~~~~
# ``probe.session`` is None nearly always. These places look at it, once per range and before they start, and if
# somebody is there, they run as ``probe.session.call(category, subject, function, *args)``:
# - ``compiled.run``: a segment, its native steps ("kernel"); ``compiled.interpret``: operations without one ("op");
# - ``compiled.backend``: compiling a segment; ``codegen.llvm.object_cache``: reading object code ("cache");
# - the queues of devices: their work ("queue"), and the host's waiting for it ("wait");
# - the engine: a node. Its short loop for the CPU looks once per backward and leaves the graph to the full loop.
# Eager operations do not look, because that would be a look per operation: they are called as ``door.run_one`` and the
# like, and the profiler puts functions there that take the time and call the ones before. That is below all that
# handles operations (native hits, overrides, transforms), so every operation is seen, however it comes.
# Hits of a segment's end (Note [Hits of an end]) call nobody: they leave the segment to ``compiled.run``, unless there
# is a list ``probe.stamps``, to which they add a row of times. While tasks are timed, they run the timed step.
# Remembered calls (Note [Remembered calls]) report nothing, so they are repeated while there is that list.
# Operations of a compiled step are recorded, not run: its ranges are those above. Kernels of one native call are
# listed; they are timed one by one, on each thread, while ``probe.hand_tasks`` is set (Note [Timed kernels]).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Probe", "ProbeSlot", "probe"]


class Probe(Protocol):
    """What may stand in the slot; its methods are called from any thread."""

    def enter(self, name: str) -> int:
        """A range of the user's begins on this thread; the result is for ``leave``."""
        ...

    def leave(self, name: str, category: str, args: tuple[Any, ...], start: int) -> None:
        """The thread's innermost range ends."""
        ...

    def call(self, category: str, subject: Any, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)``, or something that stands for it.

        Args:
            category: ``"segment"``, ``"compile"``, ``"cache"``, ``"kernel"``, ``"op"``, ``"node"``, ``"queue"`` or
                ``"wait"``.
            subject: what runs: the node, the loaded native step, the event that ends the segment, the operation's name;
                else the category.
        """
        ...


class ProbeSlot:
    """The slot.

    Attributes:
        session: the watcher of the whole process; None: there is none.
        hand_tasks: called with (program, step, its ``TaskLog``, first row) of each native step that is no hit's; hits
            add rows to a log that was handed over. None: tasks are not timed. It is set only while ``session`` is.
        stamps: where hits of segments' ends write when they ran, so that a watched step is nearly as quick as any
            other; None: no such hits, every segment is a call of ``session``. A row is (the ``EndEvent``, its
            ``LoadedProgram`` or None, four times, the thread's identity). The times are those of
            ``time.perf_counter_ns``: the end began, the program began, the program ended, the end was over.
    """

    __slots__ = ("hand_tasks", "session", "stamps")

    def __init__(self) -> None:
        self.session: Probe | None = None
        self.stamps: list[Any] | None = None
        self.hand_tasks: Callable[[Any, Any, Any, int], None] | None = None


probe = ProbeSlot()
