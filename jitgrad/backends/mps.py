"""``torch.backends.mps``: jitgrad compiles its own kernels and has no part in it."""

from __future__ import annotations

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Whether it is used: False."""
    return False


def is_built() -> bool:
    """Whether it could be: False."""
    return False
