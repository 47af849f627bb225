"""Saved-tensor hooks that write down when they are called.

Owns: ``logged_hooks``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["logged_hooks"]


def logged_hooks(lib: Any, log: list[Any]) -> Any:
    """Hooks that look at shapes only: a look at values would end the segment, and hide what is not recorded."""

    def pack(t: Any) -> Any:
        log.append(("pack", tuple(t.shape)))
        return t

    def unpack(t: Any) -> Any:
        log.append(("unpack", tuple(t.shape)))
        return t

    return lib.autograd.graph.saved_tensors_hooks(pack, unpack)
