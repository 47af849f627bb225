"""``torch.storage``: the classes of memory, under that name."""

from __future__ import annotations

from jitgrad.functions.storages import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
