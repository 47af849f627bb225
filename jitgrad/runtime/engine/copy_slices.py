"""In-place writes and views: which node a tensor's value comes from.

Owns: ``rebase_history``, ``current_grad_fn``.
Must not know: how a write is done.
"""

from __future__ import annotations

from typing import Any

from jitgrad.runtime.engine.node import Node

__all__ = ["current_grad_fn", "rebase_history"]


def current_grad_fn(tensor: Any) -> Node | None:
    """The ``grad_fn`` of a tensor as it is now."""
    return tensor._grad_fn  # type: ignore[no-any-return]


def rebase_history(tensor: Any, node: Node) -> None:
    """An in-place operation whose node is ``node`` has written ``tensor``."""
    tensor._grad_fn = node
