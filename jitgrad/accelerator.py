"""``torch.accelerator``: there is none, so that a script can ask, and what needs one raises."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "is_available",
    "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is an accelerator: False."""
    return False


def device_count() -> int:
    """How many accelerators there are: 0."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The accelerator's device: None."""
    return None


class device_index:
    """``with device_index(i): ...``: a block whose current device is number ``i``; None changes nothing.

    Raises:
        RuntimeError: on entry, for a number.
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _refuse()

    def __exit__(self, *error: object) -> None:
        pass


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is no accelerator."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_idx = current_device_index = current_stream = get_device_capability = get_memory_info = _refuse
empty_cache = empty_host_cache = max_memory_allocated = max_memory_reserved = memory_allocated = _refuse
memory_reserved = memory_stats = reset_accumulated_memory_stats = reset_peak_memory_stats = _refuse
set_device_idx = set_device_index = set_stream = synchronize = _refuse
