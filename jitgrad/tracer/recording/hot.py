"""``HOT``: the hits in the form that is in use, Python's or native code's.

Owns: the one place where the recorder finds the functions of ``hits.py``.
Must not know: what they do. ``hits.py`` puts Python's there, ``compiled/native_hits.py`` the native ones, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["HOT", "Hot"]


class Hot:
    """Functions of ``hits.py``, by their names there."""

    __slots__ = (
        "all_unwatched",
        "assignments",
        "began",
        "begin_call",
        "begins_inside",
        "catch_up",
        "data_source",
        "end_call",
        "ended",
        "hit_apply",
        "hit_backward",
        "hit_binary",
        "hit_end",
        "hit_enter",
        "hit_finish",
        "hit_inplace",
        "hit_mark",
        "hit_update",
        "link_views",
        "living",
        "makes_stub",
        "may_let_go",
        "move",
        "needed_instrs",
        "note_source",
        "put_away",
        "runs_now",
        "settle",
        "sharing",
    )

    all_unwatched: Callable[..., bool]
    assignments: Callable[..., tuple[int, ...]]
    began: Callable[..., None]
    begin_call: Callable[..., bool]
    begins_inside: Callable[..., bool]
    catch_up: Callable[..., None]
    data_source: Callable[..., Any]
    end_call: Callable[..., bool]
    ended: Callable[..., None]
    hit_apply: Callable[..., Any]
    hit_backward: Callable[..., bool]
    hit_end: Callable[..., bool]
    hit_finish: Callable[..., bool]
    hit_update: Callable[..., bool]
    hit_binary: Callable[..., Any]
    hit_enter: Callable[..., bool]
    hit_inplace: Callable[..., bool]
    hit_mark: Callable[..., bool]
    link_views: Callable[..., None]
    living: Callable[..., list[Any]]
    makes_stub: Callable[..., bool]
    may_let_go: Callable[..., bool]
    move: Callable[..., None]
    needed_instrs: Callable[..., list[Any]]
    note_source: Callable[..., None]
    put_away: Callable[..., None]
    runs_now: Callable[..., bool]
    settle: Callable[..., None]
    sharing: Callable[..., tuple[int, ...]]

    def use(self, functions: dict[str, Any]) -> None:
        """Use these from now on; names that are no slot are not for the recorder."""
        for name in self.__slots__:
            if name in functions:
                setattr(self, name, functions[name])


HOT = Hot()
