"""``torch.cuda`` on a machine without a GPU: nothing is available, and asking is no error."""

from __future__ import annotations

from typing import Any

from jitgrad.absent_devices import no_devices
from jitgrad.cuda import amp

__all__ = [
    "amp", "current_device", "current_stream", "device_count", "empty_cache", "get_device_capability",
    "get_device_name", "get_device_properties", "init", "is_available", "is_bf16_supported", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "memory_allocated", "memory_reserved",
    "memory_summary", "reset_peak_memory_stats", "set_device", "synchronize",
]  # fmt: skip

_made = no_devices(__name__, "Torch not compiled with CUDA enabled")
is_available, device_count, is_initialized = _made["is_available"], _made["device_count"], _made["is_initialized"]
manual_seed, manual_seed_all, empty_cache = _made["manual_seed"], _made["manual_seed_all"], _made["empty_cache"]
is_bf16_supported, init, set_device = _made["is_bf16_supported"], _made["init"], _made["set_device"]
current_device, current_stream, synchronize = _made["current_device"], _made["current_stream"], _made["synchronize"]
get_device_name, get_device_properties = _made["get_device_name"], _made["get_device_properties"]
get_device_capability, memory_summary = _made["get_device_capability"], _made["memory_summary"]


def memory_allocated(device: Any = None) -> int:
    """Bytes of GPU memory in use: 0."""
    return 0


max_memory_allocated = memory_reserved = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing: no memory is counted."""
