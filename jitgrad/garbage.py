"""Python's collections of cycles, kept away from work that makes many objects and no garbage.

Owns: ``without_collections``, ``collect_seldom``, ``collect_as_before``.
Must not know: what the work is.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from jitgrad.locks import process_lock

__all__ = ["collect_as_before", "collect_seldom", "without_collections"]

_SELDOM = 50_000
"""New objects between two collections of the youngest ones; Python's own setting is 700."""
_lock = process_lock()
_growing: WeakSet[Any] = WeakSet()
_before: list[tuple[int, int, int]] = []
"""The thresholds that were set; empty: they still are."""
_pauses: list[tuple[int, object]] = []
"""(Thread, what tells it from others) of each work that runs without collections."""
_was_enabled: list[bool] = [True]
"""Whether Python collected cycles before the first of them began."""


def collect_seldom(grows: Any) -> None:
    """Until ``collect_as_before(grows)``, or until the object dies, let Python collect cycles seldom.

    For calls that record what is new: all that they make lives until their end at least. User code runs in them, too,
    and may leave cycles, so collections do not stop. Whoever sets thresholds meanwhile keeps them.
    """
    with _lock:
        _growing.add(grows)
        found = gc.get_threshold()
        if 0 < found[0] < _SELDOM:
            _before[:] = [found]
            gc.set_threshold(_SELDOM, *found[1:])


def collect_as_before(grows: Any) -> None:
    """See ``collect_seldom``. Nothing where that has not been called."""
    if not _before:
        return
    with _lock:
        _growing.discard(grows)
        if _before and not _growing:
            before = _before.pop()
            if gc.get_threshold() == (_SELDOM, *before[1:]):
                gc.set_threshold(*before)


def without_collections(work: Callable[..., Any], *args: Any) -> Any:
    """``work(*args)`` while Python collects no cycles.

    For recording a graph, planning it, running it operation by operation: nearly all objects that these make live until
    their end, so collections find nothing, and they took a third of the time of long graphs. Works of several threads
    may overlap: the first one notes whether Python was to collect, the last one lets it.
    """
    pause = threading.get_ident(), object()
    try:
        with _lock:
            if not _pauses:
                _was_enabled[:] = [gc.isenabled()]
            _pauses.append(pause)
            gc.disable()
        return work(*args)
    finally:
        try:
            _end_locked(pause)
        except BaseException:  # a signal handler's, in the middle of that: collections must not stop for good
            _end_locked(pause)
            raise


def _end_locked(pause: tuple[int, object]) -> None:
    with _lock:
        _end(pause)


def _end(*pauses: tuple[int, object]) -> None:
    """The last one that ends lets Python collect again, if it did before."""
    _pauses[:] = [pause for pause in _pauses if pause not in pauses]
    if not _pauses and _was_enabled[0]:
        gc.enable()


def _after_fork() -> None:
    """The other threads are not in the child, and their work does not end there."""
    others = [pause for pause in _pauses if pause[0] != threading.get_ident()]
    if others:
        _end(*others)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
