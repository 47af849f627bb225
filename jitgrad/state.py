"""Per-thread state: the active recorder and the grad mode.

One ``threading.local`` holds both, because every operation looks at both.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["State", "state"]


class State(threading.local):
    """What a thread is doing.

    Attributes:
        recorder: the ``tracer.recorder.Recorder`` of the compiled step being called, or None.
        grad_enabled: whether operations join the graph.
    """

    recorder: Any = None
    grad_enabled: bool = True


state = State()
