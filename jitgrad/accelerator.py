"""``torch.accelerator``: there is none."""

from __future__ import annotations

from typing import Any

__all__ = ["current_accelerator", "device_count", "is_available"]


def is_available() -> bool:
    """Whether there is an accelerator: False."""
    return False


def device_count() -> int:
    """How many accelerators there are: 0."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The accelerator's device: None."""
    return None
