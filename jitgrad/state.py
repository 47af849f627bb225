"""Per-thread state: the active recorder and the grad mode.

One ``threading.local`` holds both, because every operation looks at both.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["State", "native_cell", "state", "switch_recorder"]


class State(threading.local):
    """What a thread is doing.

    Attributes:
        recorder: the ``tracer.recorder.Recorder`` of the compiled step being called, or None.
        grad_enabled: whether operations join the graph.
    """

    recorder: Any = None
    grad_enabled: bool = True


state = State()


class NativeCell:
    """Where the native hits look for the active recorder, see Note [Native hits].

    Attributes:
        words: their block: word 0 is the recorder's address or 0, word 1 its thread; None while they are not installed.
    """

    words: Any = None


native_cell = NativeCell()


def switch_recorder(recorder: Any) -> Any:
    """Make ``recorder`` (or None) this thread's; returns the one before. The only way to change ``state.recorder``."""
    before = state.recorder
    state.recorder = recorder
    words = native_cell.words
    if words is not None:
        if recorder is not None and recorder.is_hot:
            words[1] = threading.get_ident()
            words[0] = id(recorder)
        elif before is not None and words[0] == id(before):
            words[0] = 0
    return before
