"""``HookHandle``: what registering a module's hook returns."""

from __future__ import annotations

import itertools
from typing import Any

__all__ = ["HookHandle"]

_ids = itertools.count()


class HookHandle:
    """Removes its hook with ``remove()``, or at the end of a ``with`` block."""

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks = hooks
        self.id = next(_ids)
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
