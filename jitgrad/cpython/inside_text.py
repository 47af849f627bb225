"""What eager mode's native functions call besides: tuples, keys, calls inside a context, draws; as LLVM text.

Owns: ``inside_text``.
Must not know: the functions that use it.
"""

from __future__ import annotations

from jitgrad.cpython.arrays import ARRAY_DATA
from jitgrad.cpython.module_text import ModuleText

__all__ = ["inside_text"]


def inside_text(module: ModuleText) -> str:
    """``call_inside``, ``draw_to``, ``is_hashable``, ``joined``, ``pack_rest``, ``fresh_counter``: primitives."""
    none, clear = module.object_word(None), module.api_word("PyErr_Clear")
    return f"""
define internal ptr @call_inside(ptr %context, ptr %function, ptr %args) nounwind {{
  %enter = {module.api_word("PyContext_Enter")}
  %refused = call i32 %enter(ptr %context)
  %is.in = icmp eq i32 %refused, 0
  br i1 %is.in, label %inside, label %outside
inside:
  %call = {module.api_word("PyObject_Call")}
  %made = call ptr %call(ptr %function, ptr %args, ptr null)
  %leave = {module.api_word("PyContext_Exit")}
  %left = call i32 %leave(ptr %context)
  ret ptr %made
outside:
  %clear = {clear}
  call void %clear()
  %none = {none}
  call void @incref(ptr %none)
  ret ptr %none
}}
define internal void @draw_to(i64 %kernel, i64 %stream, ptr %array, i64 %count, i64 %params) nounwind {{
  %function = inttoptr i64 %kernel to ptr
  %state = inttoptr i64 %stream to ptr
  %data = getelementptr i8, ptr %array, i64 {ARRAY_DATA}
  %out = load ptr, ptr %data
  %words = inttoptr i64 %params to ptr
  %kind = load i64, ptr %words
  %at.a = getelementptr double, ptr %words, i64 1
  %at.b = getelementptr double, ptr %words, i64 2
  %a = load double, ptr %at.a
  %b = load double, ptr %at.b
  call void %function(ptr %state, ptr %out, i64 %count, i64 %kind, double %a, double %b)
  ret void
}}
define internal i1 @is_hashable(ptr %o) nounwind {{
  %hash = {module.api_word("PyObject_Hash")}
  %found = call i64 %hash(ptr %o)
  %failed = icmp eq i64 %found, -1
  br i1 %failed, label %no, label %yes
no:
  %clear = {clear}
  call void %clear()
  ret i1 false
yes:
  ret i1 true
}}
define internal ptr @joined(ptr %a, ptr %b) nounwind {{
  %join = {module.api_word("PySequence_Concat")}
  %made = call ptr %join(ptr %a, ptr %b)
  ret ptr %made
}}
define internal ptr @pack_rest(ptr %args, i64 %count, i64 %first) nounwind {{
  %rest = getelementptr ptr, ptr %args, i64 %first
  %n = sub i64 %count, %first
  %made = call ptr @pack(ptr %rest, i64 %n)
  ret ptr %made
}}
define internal ptr @fresh_counter() nounwind {{
  %zero = {module.object_word(0)}
  %new = {module.api_word("PyList_New")}
  %made = call ptr @new_counter(ptr %zero, ptr %new)
  ret ptr %made
}}"""
