"""Process-wide switches of ``torch`` that scripts set: what they mean here.

Owns: precision of products, deterministic algorithms, the default device.
Must not know: operations.

Results never depend on threads and products are computed in the operands' dtype, so most switches are kept and
returned, and change nothing.
"""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.devices import Device
from jitgrad.dtypes import DType, bfloat16, float16
from jitgrad.lazy import LazyModule
from jitgrad.runtime.devices.device import canonical
from jitgrad.state import state

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_autocast_dtype",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_autocast_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_default_device",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "use_deterministic_algorithms",
]  # fmt: skip


_float_mode: Any = LazyModule("jitgrad.codegen.driver.float_mode")

_PRECISIONS = ("highest", "high", "medium")
_kept: dict[str, Any] = {"precision": "highest", "is_deterministic": False, "warns_only": False, "interop_threads": 1}


def set_float32_matmul_precision(precision: str) -> None:
    """How exact products of float32 must be: ``"highest"``, ``"high"`` or ``"medium"``. They are always the first.

    Another word is a warning, and changes nothing.
    """
    if precision in _PRECISIONS:
        _kept["precision"] = precision
        return
    words = ", ".join(repr(word) for word in _PRECISIONS)
    warnings.warn(f"{precision} is not one of {words}; the call has no effect", stacklevel=2)


def get_float32_matmul_precision() -> str:
    """What ``set_float32_matmul_precision`` set."""
    return str(_kept["precision"])


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Whether results must be the same in every run; they always are."""
    _kept.update(is_deterministic=bool(mode), warns_only=bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """What ``use_deterministic_algorithms`` set."""
    return bool(_kept["is_deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What ``use_deterministic_algorithms`` set as ``warn_only``."""
    return bool(_kept["warns_only"])


_DEBUG_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """``use_deterministic_algorithms`` by a word or its number: "default" (0), "warn" (1), "error" (2).

    Raises:
        TypeError: it is neither a word nor a number.
        RuntimeError: another word or number.
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = _DEBUG_MODES.index(debug_mode)
    if not isinstance(debug_mode, int):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in range(3):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0: algorithms need not be deterministic; 1: one that is not should warn; 2: it should raise."""
    if not _kept["is_deterministic"]:
        return 0
    return 1 if _kept["warns_only"] else 2


def set_flush_denormal(mode: bool) -> bool:
    """Whether numbers below the smallest normal one (1.2e-38 in float32) are taken for zero, on x86-64.

    Operations on such numbers are up to a hundred times slower: gradients through hundreds of steps of a recurrence
    become that small. As in PyTorch the switch is the calling thread's, and NumPy's results change with it. Kernels
    run as the thread is set that calls them, on however many threads, Note [Float mode]; the thread of a virtual device
    stays as it was when it was started.

    Args:
        mode: True: they are zero. False, as at the start: they are computed.

    Returns:
        Whether the processor has such a switch.

    Raises:
        RuntimeError: ``mode`` is not a bool.
    """
    if type(mode) is not bool:
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return _float_mode.exchange(mode) is not None


def set_num_interop_threads(count: int) -> None:
    """Threads between operations: operations run one after the other, so there is one."""
    if count <= 0:
        raise RuntimeError("Expected positive number of threads")
    _kept["interop_threads"] = count


def get_num_interop_threads() -> int:
    """What ``set_num_interop_threads`` set."""
    return int(_kept["interop_threads"])


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether products on such a device (a GPU unless given) are computed in a shorter dtype, by ``amp.autocast``."""
    return device_type == "cpu" and state.autocast is not None


def get_autocast_dtype(device_type: str) -> DType:
    """What ``amp.autocast`` computes in on such a device unless another dtype is given: bfloat16 on a CPU."""
    used: DType | None = state.autocast if device_type == "cpu" else float16
    return bfloat16 if used is None else used


def set_default_device(device: Any) -> None:
    """Where this thread makes new tensors from now on; None = the CPU.

    Raises:
        RuntimeError: there is no such device.
    """
    state.default_device = None if device is None else canonical(device)


def get_default_device() -> Device:
    """Where this thread makes new tensors."""
    return Device("cpu") if state.default_device is None else state.default_device
