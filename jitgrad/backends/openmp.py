"""``torch.backends.openmp``: jitgrad compiles its own kernels and has no part in it."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether it is used: False."""
    return False
