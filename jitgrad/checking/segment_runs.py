"""What the segments of a call read and made: copies, taken while it runs.

Owns: ``SegmentRun``, ``watch_segments``, ``observing``.
Must not know: what is looked for in them.
In: a block that calls a compiled function. Out: its segments with inputs and results (Note [Profiling points]).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jitgrad.compiled.backend import backend
from jitgrad.compiled.run import LoadedProgram, run_program
from jitgrad.dtypes import uint8
from jitgrad.locks import process_lock
from jitgrad.ops.aval import Aval, last_position, make_aval
from jitgrad.probe import probe
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tracer.recording.graph import Segment

__all__ = ["SegmentRun", "SegmentWatch", "bytes_of", "laid_out", "observing", "run_copy", "watch_segments"]

_lock = process_lock()


@dataclass(slots=True)
class SegmentRun:
    """One segment, once.

    Attributes:
        segment: what was recorded.
        program: what ran; None of a part of another segment.
        memory: value id -> the bytes of the input's storage, before, as far as the input reaches.
        scalars: the trace's run-time scalars.
        outputs: value id -> array, of fresh results.
        written: value id -> array, of what was written to existing storages, read back from there.
    """

    segment: Segment
    program: LoadedProgram | None
    memory: dict[int, Any]
    scalars: list[int | float]
    outputs: dict[int, Any] = field(default_factory=dict)
    written: dict[int, Any] = field(default_factory=dict)

    def inputs(self) -> dict[int, Any]:
        """Value id -> array, laid out as the step's were."""
        return {vid: laid_out(self.memory[vid], aval) for vid, aval in self.segment.inputs.items()}


def laid_out(memory: Any, aval: Aval) -> Any:
    """The array that a layout sees in bytes."""
    size = aval.dtype.itemsize
    if not aval.numel:
        return np.empty(aval.shape, aval.dtype.np)
    return np.ndarray(aval.shape, aval.dtype.np, memory, aval.offset * size, tuple(s * size for s in aval.stride))


def bytes_of(storage: Any, aval: Aval) -> Any:
    """A copy of a storage's bytes, from its first to the last that a layout sees."""
    count = (last_position(aval) + 1) * aval.dtype.itemsize if aval.numel else 0
    memory = np.zeros(max(count, 1), np.uint8)
    if count:
        memory[:] = storage.array(make_aval((count,), uint8))
    return memory


class SegmentWatch:
    """What stands in ``probe.session``: it hands segments to ``around``, and everything else through."""

    def __init__(self, around: Callable[[Any, Any, Callable[[], Any]], Any]) -> None:
        self._around = around

    def enter(self, name: str) -> int:
        """A range of the user's: of no interest."""
        return 0

    def leave(self, name: str, category: str, args: tuple[Any, ...], start: int) -> None:
        """Its end."""

    def call(self, category: str, subject: Any, function: Callable[..., Any], *args: Any) -> Any:
        """See ``Probe.call``; the arguments of a segment are a recorder and the event that ends it."""
        if category != "segment" or args[1].program is None:
            return function(*args)
        return self._around(args[0], args[1], lambda: function(*args))


@contextmanager
def observing(session: Any) -> Iterator[None]:
    """Put ``session`` into the slot ``probe.session`` for the block.

    Raises:
        RuntimeError: the slot is taken.
    """
    with _lock:
        if probe.session is not None:
            raise RuntimeError("a profiler, verify or watch_nan is active already: only one may be at a time")
        probe.session = session
    try:
        yield
    finally:
        probe.session = None


@contextmanager
def watch_segments() -> Iterator[list[SegmentRun]]:
    """The segments that run inside the block, in order."""
    runs: list[SegmentRun] = []

    def around(recorder: Any, event: Any, run: Callable[[], Any]) -> Any:
        segment: Segment = event.segment
        buffers = recorder.buffers
        memory = {vid: bytes_of(buffers[vid], aval) for vid, aval in segment.inputs.items()}
        seen = SegmentRun(segment, event.program, memory, list(recorder.scalars))
        result = run()
        after = recorder.buffers
        avals = _avals(segment)
        for vid in segment.outputs:
            seen.outputs[vid] = after[vid].array(segment.stored_aval(vid, avals[vid])).copy()
        for vid, owner in segment.writes:
            seen.written[vid] = buffers[owner].array(segment.inputs[owner]).copy()
        runs.append(seen)
        return result

    with observing(SegmentWatch(around)):
        yield runs


def _avals(segment: Segment) -> dict[int, Aval]:
    made = {vid: aval for i in segment.instrs for vid, aval in zip(i.outputs, i.avals, strict=True)}
    return {**segment.inputs, **made}


def run_copy(
    segment: Segment, memory: dict[int, Any], scalars: list[int | float], program: Any = None
) -> dict[int, Any]:
    """Run a segment on copies of memory: value id -> array, of its outputs.

    Args:
        program: a ``LoadedProgram``; None: the segment is compiled.
    """
    loaded = backend.compile_end(segment, {}) if program is None else program
    buffers: dict[int, Any] = {}
    for vid in segment.inputs:
        storage = buffers[vid] = Storage(len(memory[vid]))
        storage.array(make_aval((len(memory[vid]),), uint8))[:] = memory[vid]
    run_program(loaded, buffers, list(scalars))
    avals = _avals(segment)
    return {vid: buffers[vid].array(segment.stored_aval(vid, avals[vid])).copy() for vid in segment.outputs}
