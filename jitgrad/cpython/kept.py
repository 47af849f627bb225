"""Objects that native code points at.

Owns: ``keep_for_ever``.
Must not know: what the objects are.

# Note [Kept for ever]
# ~~~~~~~~~~~~~~~~~~~~
# Native fronts and slots are called until the last object is gone, and that is after the interpreter has emptied the
# modules: ``Storage.__del__`` runs then for what a module's dictionary held. So what native code points at must not be
# owned by a module. Example: a front finds its row in a table; were the table a global of its module alone, its memory
# would be freed while storages are still to be dropped.
"""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["keep_for_ever"]


def keep_for_ever(*objects: Any) -> None:
    """Take a reference to each object that is never given back."""
    for item in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))
