"""Python's collections of cycles, kept away from work that makes many objects and no garbage.

Owns: ``without_collections``, ``collect_seldom``, ``collect_as_before``.
Must not know: what the work is.
"""

from __future__ import annotations

import gc
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
    their end, so collections find nothing, and they took a third of the time of long graphs.
    """
    was_enabled = gc.isenabled()
    try:
        gc.disable()
        return work(*args)
    finally:
        if was_enabled:
            gc.enable()
