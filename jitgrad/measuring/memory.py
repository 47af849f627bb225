"""How much memory the process has had resident.

Owns: ``peak_nbytes`` and ``reset_peak``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jitgrad.lazy import LazyModule

__all__ = ["peak_nbytes", "reset_peak"]

_resource: Any = LazyModule("resource")
_RESET_PEAK = "5"  # of /proc/pid/clear_refs, see proc(5)


def reset_peak() -> bool:
    """Count the peak from now on; False where the system cannot, and the peak is that of the whole process."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def peak_nbytes() -> int | None:
    """The largest resident size, in bytes; None where nobody counts it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10
    except (OSError, StopIteration):
        pass
    if sys.platform == "win32":
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return int(_resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss) * unit
