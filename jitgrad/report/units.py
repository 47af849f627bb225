"""Figures for people.

Owns: ``time_text``, ``nbytes_text``, ``share_text``.
"""

from __future__ import annotations

__all__ = ["nbytes_text", "share_text", "time_text"]

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def time_text(seconds: float | None) -> str:
    """Three digits and the unit that suits: ``12.3 us``; ``-`` for None."""
    if seconds is None:
        return "-"
    scale, unit = next((pair for pair in _TIMES if abs(seconds) >= pair[0]), _TIMES[-1])
    return f"{_three_digits(seconds / scale)} {unit}"


def nbytes_text(nbytes: float | None) -> str:
    """Three digits and the unit that suits: ``4.50 MiB``; ``-`` for None."""
    if nbytes is None:
        return "-"
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(nbytes) >= 1 << power:
            return f"{_three_digits(nbytes / (1 << power))} {unit}"
    return f"{nbytes:.0f} B"


def share_text(part: float, whole: float) -> str:
    """``25%``; ``-`` of nothing."""
    return f"{100 * part / whole:.0f}%" if whole else "-"


def _three_digits(value: float) -> str:
    return f"{value:.{max(0, 2 - len(str(int(abs(value)))) + 1)}f}"
