"""``torch.backends.cudnn`` on a machine without a GPU: its flags can be set and change nothing."""

from __future__ import annotations

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "is_available", "version"]

enabled, benchmark, deterministic, allow_tf32 = True, False, False, True


def is_available() -> bool:
    """Whether there is cuDNN: False."""
    return False


def version() -> int | None:
    """Its version: None."""
    return None
