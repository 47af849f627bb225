"""Calls that leave their recording and go on eagerly.

Owns: ``must_leave``, ``is_too_long`` and ``stop_recording``.
Must not know: operations, programs, the engine.

# Note [Long calls]
# ~~~~~~~~~~~~~~~~~
# To record an operation for the first time costs several times what a small operation costs eagerly, and to compile it
# several times that. A call that has recorded ``Trie.new_limit`` values that were new (at first
# ``config.max_new_values``) therefore stops: its segment ends and runs operation by operation (it would be compiled
# for nothing: the next call does not end there), and the rest of the call runs eagerly. Each such call quadruples the
# limit, so the next one takes the path that is there and records four times as much: a step of n operations is recorded
# whole after about log4(n / 2048) calls, and compiled once. Example: of 20,000 new operations the first call records
# 2,048, the second 8,192 more, the third the rest.
# A call does not stop inside a backward, nor under a level (``jvp``, ``vmap``): these hold on to the recorder.
"""

from __future__ import annotations

from typing import Any

from jitgrad.config import config
from jitgrad.events import bump
from jitgrad.state import state, switch_handler

__all__ = ["is_too_long", "must_leave", "stop_recording"]

_GROWTH = 4


def is_too_long(recorder: Any) -> bool:
    """Whether a call has recorded as much as it may, or may record nothing (Note [New graphs])."""
    trie = recorder.trie
    limit: int = trie.new_limit
    return trie.follows or recorder.path.new_values >= limit


def must_leave(recorder: Any) -> bool:
    """Whether a call records nothing more. Asked before an operation is recorded for the first time."""
    if not is_too_long(recorder) or recorder.must_record or config.same_bits:
        return False
    is_active = state.handler is recorder
    return is_active and recorder.backend.may_stop()


def stop_recording(recorder: Any) -> None:
    """End the segment without compiling it; the thread runs eagerly until the call returns."""
    bump("left_calls" if recorder.trie.follows else "long_calls")
    try:
        recorder.has_stopped = True
        recorder.detours.step_outside()
        recorder.graph.make_all_nodes()
        if not recorder.trie.follows:
            recorder.trie.new_limit *= _GROWTH
        state.eager_depth += 1  # ``CompiledFunction`` takes it back
    except BaseException:  # also Ctrl-C: the call ends as any that raises, and has no depth to take back
        recorder.has_stopped = False
        raise
    switch_handler(None)
