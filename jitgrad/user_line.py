"""The user's line: the innermost frame outside jitgrad.

Owns: ``PACKAGE``, the folder whose frames are not the user's, and ``user_line``.
"""

from __future__ import annotations

import os
import sys

__all__ = ["PACKAGE", "user_line"]

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_line() -> str:
    """``file:line`` of the innermost frame outside jitgrad; empty if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
