"""Functions of the hot path that have native twins, see Note [Native hits].

Owns: ``HOT`` and the functions as Python has them.
Must not know: the native ones, which ``compiled/native_hits.py`` puts here.
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.liveness import held_elsewhere

__all__ = ["FRESH", "HOT", "PENDING", "VIEW", "assignments"]

# how a surviving handle gets its storage
FRESH = 0  # a new one
PENDING = 1  # views hold a storage without memory already: give that one memory
VIEW = 2  # shares one that has memory, or gets it from another survivor


def assignments(alive: list[Any]) -> tuple[int, ...]:
    """One per handle. Of the handles that share a storage without memory, the first that is no view fills it."""
    assign = []
    filled: set[int] = set()
    for handle in alive:
        storage = handle._storage
        if storage is None:
            how = FRESH
        elif handle._base is not None or id(storage) in filled:
            how = VIEW
        elif not storage.addr:
            how = PENDING
            filled.add(id(storage))
        else:  # an alias of an input
            how = VIEW
        assign.append(how)
    return tuple(assign)


def _unwatched(recorder: Any, targets: list[Any]) -> bool:
    """True if nobody else can be looking at what a write to the targets changes; here never sure, for Python asks in
    ``Writes._rebinds`` anyway."""
    return False


def _move(recorder: Any, targets: list[Any], vids: tuple[int, ...]) -> None:
    """The targets are on to new values; their storages are to be written."""
    dirty = recorder._dirty
    for target, vid in zip(targets, vids, strict=True):
        target._vid = vid
        target._vc[0] += 1
        storage = target._storage
        if storage is not None:
            dirty.add(id(storage))


class Hot:
    """The functions in use."""

    alive = staticmethod(held_elsewhere)
    assignments = staticmethod(assignments)
    unwatched = staticmethod(_unwatched)
    move = staticmethod(_move)


HOT = Hot()
