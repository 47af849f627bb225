"""Stand-ins that become views of a base again, see Note [Parts of a graph's tensors].

Owns: ``become_views_of_base``, ``end_stand_ins``.
Must not know: why a write asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.ops.aval import make_aval

__all__ = ["become_views_of_base", "end_stand_ins", "has_stand_in"]


def has_stand_in(tensor: Any) -> bool:
    """Whether a tensor is a stand-in that comes with a graph, or a view of one."""
    storage = tensor._storage
    return storage is not None and storage.is_window and storage.passed is not None


def end_stand_ins(tensors: Iterable[Any]) -> None:
    """Let stand-ins, and views of some, that are about to be written be views of a base from here on.

    The others that look at that memory find out when they are used next, by their version.
    """
    become_views_of_base([x for x in tensors if has_stand_in(x)])


def become_views_of_base(tensors: Iterable[Any]) -> None:
    """Make each of these a view of the tensor that the passed argument is a view of."""
    for x in tensors:
        passed, aval = x._storage.passed, x._aval
        x._aval = make_aval(aval.shape, aval.dtype, aval.stride, aval.offset + passed._aval.offset)
        if x._base is None:  # the stand-in itself
            x._view_version, x._creation_meta = passed._view_version, passed._creation_meta
        x._base, x._storage, x._array = passed._base, passed._storage, None
        x._tid = 0
