"""Whether anything else runs on the machine: a figure measured beside a busy neighbour is worth nothing.

Must not know: rows, subjects.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["busy_cores", "wait_until_quiet"]

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


def wait_until_quiet(patience: float = 10.0) -> None:
    """Return once nothing else runs, or after that many seconds.

    A process that has ended may have left others behind, as jitgrad's builders are, which keep what they were asked.
    """
    end = time.monotonic() + patience
    while time.monotonic() < end:
        cores = busy_cores(0.2)
        if cores is None or cores < 0.3:
            return
