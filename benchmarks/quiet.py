"""Whether anything else runs on the machine: a figure measured beside a busy neighbour is worth nothing.

Must not know: rows, subjects.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["busy_cores", "wait_for_builders"]

_STAT = Path("/proc/stat")
_IDLE_FIELDS = (4, 5)
"""``idle`` and ``iowait`` of the ``cpu`` line."""


def _busy_seconds() -> float | None:
    try:
        fields = _STAT.read_text().split("\n", 1)[0].split()
    except OSError:
        return None
    ticks = sum(int(field) for i, field in enumerate(fields) if i and i not in _IDLE_FIELDS)
    return ticks / os.sysconf("SC_CLK_TCK")


def busy_cores(seconds: float = 0.3) -> float | None:
    """How many cores are at work while this process sleeps; None where the system does not say."""
    before = _busy_seconds()
    start = time.perf_counter()
    time.sleep(seconds)
    after = _busy_seconds()
    if before is None or after is None:
        return None
    return max(0.0, after - before) / (time.perf_counter() - start)


_BUILDER = b"jitgrad.codegen.llvm.builder_process"


def wait_for_builders(patience: float = 15.0) -> None:
    """Return once no builder of jitgrad's is at work, or after that many seconds.

    A process that has ended may have left some behind, which finish what it has asked for; they would disturb what is
    measured next.
    """
    end = time.monotonic() + patience
    looks = 0
    while looks < 2 and time.monotonic() < end:
        looks = 0 if any(map(_is_busy_builder, Path("/proc").glob("[0-9]*/cmdline"))) else looks + 1
        time.sleep(0.05)


def _is_busy_builder(path: Path) -> bool:
    try:
        if _BUILDER not in path.read_bytes():
            return False
        return path.with_name("stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False
