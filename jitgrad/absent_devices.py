"""What modules of GPUs answer on a machine without one: the functions that ``cuda``, ``mps`` and ``xpu`` share.

Owns: ``no_devices``, which makes them.
Must not know: any tensor.

A script asks whether there is a GPU, sets seeds on all of them, empties their caches: PyTorch without a GPU answers
False, and does nothing. What needs a GPU raises, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["no_devices"]


def no_devices(module: str, message: str) -> dict[str, Callable[..., Any]]:
    """The functions of ``module``; those that need a device raise ``AssertionError(message)``."""

    def is_available() -> bool:
        """Whether there is such a device: False."""
        return False

    def device_count() -> int:
        """How many such devices there are: 0."""
        return 0

    def is_initialized() -> bool:
        """Whether the driver was started: False."""
        return False

    def manual_seed(seed: int) -> None:
        """Nothing: there is no generator to seed."""

    def manual_seed_all(seed: int) -> None:
        """Nothing: there is no generator to seed."""

    def empty_cache() -> None:
        """Nothing: there is no cache."""

    def is_bf16_supported(including_emulation: bool = True) -> bool:
        """False."""
        return False

    def needing(name: str) -> Callable[..., Any]:
        def needs_a_device(*args: Any, **kwargs: Any) -> Any:
            raise AssertionError(message)

        needs_a_device.__name__ = needs_a_device.__qualname__ = name
        needs_a_device.__doc__ = "AssertionError: there is no such device."
        return needs_a_device

    made: list[Callable[..., Any]] = [is_available, device_count, is_initialized, manual_seed, manual_seed_all,
                                      empty_cache, is_bf16_supported]  # fmt: skip
    made += [needing(name) for name in ("current_device", "current_stream", "get_device_name", "get_device_properties",
                                        "get_device_capability", "init", "memory_summary", "set_device",
                                        "synchronize")]  # fmt: skip
    for function in made:
        function.__module__ = module
    return {function.__name__: function for function in made}
