"""Who looks at which storage.

Owns: ``Slot`` and the kinds of inputs.

# Note [Aliases in a trace]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# Values are immutable; storages are not. ``_slots`` lists, per storage, the handles of this call that look at it.
# A write to a storage that one handle (or several with the very same window) looks at is recorded: those handles move
# on to the new value, and the segment's end writes it into the storage, once. A write while a *different* live window
# looks on is not worth modelling: the segment ends there and the write is done eagerly, on the real memory.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

__all__ = ["EXTERNAL", "HOOKED", "LEAF", "PLAIN", "Slot", "input_kind"]

PLAIN, LEAF, HOOKED, EXTERNAL = range(4)


def input_kind(tensor: Any) -> int:
    """PLAIN: outside any graph. LEAF. HOOKED: Python wants to see its gradient. EXTERNAL: its graph began elsewhere."""
    if not tensor._requires_grad:
        return PLAIN
    if not tensor.is_leaf:
        return EXTERNAL
    return HOOKED if tensor._hooks or tensor._post_accumulate_hooks else LEAF


class Slot:
    """The handles of a call that look at one storage. None but an input is kept alive by it.

    Attributes:
        storage: the storage, kept alive because slots are found by its ``id``.
        owner: the value id that has the storage in ``buffers``.
        home: the first handle: an input, or a weak reference to a value of the trace.
        is_shared: more than one value id has the storage in ``buffers``.
        others: weak references to handles made since the last segment's end; None while there are none.
        older: the same, from before.
    """

    __slots__ = ("home", "is_shared", "older", "others", "owner", "storage")

    def __init__(self, storage: Any, home: Any, owner: int) -> None:
        self.storage = storage
        self.home = home
        self.owner = owner
        self.others: list[Any] | None = None
        self.older: list[Any] | None = None
        self.is_shared = False

    def add_older(self, tensor: Any) -> None:
        """A tensor from outside looks at the storage too."""
        self.older = [*(self.older or ()), ref(tensor)]
        self.is_shared = True

    def settle(self) -> None:
        """A segment has ended: the views that are left are windows on memory from here on."""
        self.older = [*(self.older or ()), *(r for r in self.others or () if r() is not None)]
        self.others = None
        self.is_shared = True

    def live(self) -> list[Any]:
        """The handles that still exist."""
        home = self.home() if type(self.home) is ref else self.home
        handles = [] if home is None else [home]
        for group in (self.others, self.older):
            if group:
                handles += [h for h in [r() for r in group] if h is not None]
        return handles
