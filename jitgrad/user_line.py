"""The user's line: the innermost frame outside jitgrad.

Owns: ``PACKAGE``, the folder whose frames are not the user's, ``user_line`` and ``is_called_from_outside``.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

__all__ = ["PACKAGE", "is_called_from_outside", "user_line"]

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def is_called_from_outside(end: CodeType) -> bool:
    """Whether a frame outside jitgrad is between the caller and the innermost call of ``end``.

    Where jitgrad calls nobody, such a frame is a signal handler or a finalizer.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not end:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def user_line() -> str:
    """``file:line`` of the innermost frame outside jitgrad; empty if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
