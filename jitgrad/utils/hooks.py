"""``torch.utils.hooks``: handles of registered hooks, under that name."""

from __future__ import annotations

from typing import Any

from jitgrad.runtime.engine.graph.node_hooks import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Any) -> Any:
    """Mark a hook as one that a pickle of its tensor leaves out."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Nothing: pickles of tensors leave their hooks out, as PyTorch's do with a warning."""
