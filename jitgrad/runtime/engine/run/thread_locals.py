"""``ThreadLocalState``: the settings of the thread that called backward, for the threads that run its nodes.

Owns: what is taken over, and giving it back.
Must not know: which settings there are: they are the attributes of ``state``, and the series of node numbers.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from jitgrad.grad_mode import set_grad_mode
from jitgrad.numbering import share_sequence
from jitgrad.state import state, switch_handler

__all__ = ["ThreadLocalState", "ThreadLocalStateGuard"]


class ThreadLocalState:
    """A copy of this thread's ``state``, with a graph task's own grad mode, and without the recorder.

    Attributes:
        thread: the thread that has these settings anyway.
        settings: by name.
        grad_mode: the graph task's.
        sequence: the thread's series of node numbers. (PyTorch's workers count for themselves; then the order in which
            a second derivative adds up would depend on the device.)
    """

    __slots__ = ("grad_mode", "sequence", "settings", "thread")

    def __init__(self, grad_mode: bool) -> None:
        self.thread = threading.get_ident()
        self.settings = dict(state.__dict__)
        self.settings.pop("handler", None)
        self.grad_mode = grad_mode
        self.sequence = share_sequence()


class ThreadLocalStateGuard:
    """``with``: this thread has those settings, and its own recorder; afterwards its own settings again."""

    __slots__ = ("_before", "_sequence", "_state")

    def __init__(self, thread_locals: ThreadLocalState) -> None:
        self._state = thread_locals
        self._before: dict[str, Any] | bool = False

    def __enter__(self) -> None:
        wanted = self._state
        if wanted.thread == threading.get_ident():
            self._before = state.grad_enabled
        else:
            self._before = dict(state.__dict__)
            self._sequence = share_sequence(wanted.sequence)
            _replace(wanted.settings)
        if state.grad_enabled is not wanted.grad_mode:
            set_grad_mode(wanted.grad_mode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        before = self._before
        if not isinstance(before, bool):
            if state.handler is not None:
                set_grad_mode(self._state.settings.get("grad_enabled", True))  # as it was handed over
            _replace(before)
            share_sequence(self._sequence)
        elif state.grad_enabled is not before:
            set_grad_mode(before)


def _replace(settings: dict[str, Any]) -> None:
    recorder = state.handler
    state.__dict__.clear()
    state.__dict__.update(settings)
    if recorder is not None:
        switch_handler(recorder)
