"""``this_frame`` and ``untrack``, as LLVM text.

Owns: ``frame_text``.
Must not know: the functions that use it.
"""

from __future__ import annotations

from jitgrad.cpython.module_text import ModuleText

__all__ = ["frame_text"]


def frame_text(module: ModuleText) -> str:
    """Native code has no frame of its own: the innermost one is its caller's, and borrowed."""
    return f"""
define internal ptr @this_frame() nounwind {{
  %f = {module.api_word("PyEval_GetFrame")}
  %frame = call ptr %f()
  %none = icmp eq ptr %frame, null
  %nothing = {module.object_word(None)}
  %found = select i1 %none, ptr %nothing, ptr %frame
  call void @incref(ptr %found)
  ret ptr %found
}}
define internal void @untrack(ptr %o) nounwind {{
  %f = {module.api_word("PyObject_GC_UnTrack")}
  call void %f(ptr %o)
  ret void
}}"""
