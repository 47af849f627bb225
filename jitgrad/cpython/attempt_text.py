"""Calls with the arguments of a front, and calls that may raise, as LLVM text: primitives of ``primitives.py``.

Owns: ``attempt_text``.
Must not know: the functions that use it.
"""

from __future__ import annotations

from jitgrad.cpython.layout import ITEMS, SIZE
from jitgrad.cpython.module_text import ModuleText
from jitgrad.cpython.primitives import Raised

__all__ = ["attempt_text"]


def attempt_text(module: ModuleText) -> str:
    """``call_as_given``, ``call_rest``; ``attempt``, ``attempt_row``, ``attempt_pair``: ``Raised`` if a call raises."""
    call = module.api_word("PyObject_Vectorcall")
    return f"""
define internal ptr @caught(ptr %out) nounwind {{
  %failed = icmp eq ptr %out, null
  br i1 %failed, label %fetch, label %fine
fine:
  ret ptr %out
fetch:
  %kind = alloca ptr
  %error = alloca ptr
  %trace = alloca ptr
  %get = {module.api_word("PyErr_Fetch")}
  call void %get(ptr %kind, ptr %error, ptr %trace)
  %make = {module.api_word("PyErr_NormalizeException")}
  call void %make(ptr %kind, ptr %error, ptr %trace)
  %e = load ptr, ptr %error
  %t = load ptr, ptr %trace
  %bare = icmp eq ptr %t, null
  br i1 %bare, label %wrap, label %place
place:
  %set = {module.api_word("PyException_SetTraceback")}
  %done = call i32 %set(ptr %e, ptr %t)
  br label %wrap
wrap:
  %raised = {module.object_word(Raised)}
  %call = {call}
  %made = call ptr %call(ptr %raised, ptr %error, i64 1, ptr null)
  call void @clear(ptr %kind)
  call void @clear(ptr %error)
  call void @clear(ptr %trace)
  ret ptr %made
}}
define internal ptr @call_as_given(ptr %function, ptr %args, i64 %all, ptr %names) nounwind {{
entry:
  %none = {module.object_word(None)}
  %plain = icmp eq ptr %names, %none
  br i1 %plain, label %go, label %some
some:
  %at = getelementptr i8, ptr %names, i64 {SIZE}
  %n = load i64, ptr %at
  %positional = sub i64 %all, %n
  br label %go
go:
  %given = phi i64 [ %all, %entry ], [ %positional, %some ]
  %named = phi ptr [ null, %entry ], [ %names, %some ]
  %call = {call}
  %out = call ptr %call(ptr %function, ptr %args, i64 %given, ptr %named)
  ret ptr %out
}}
define internal ptr @call_rest(ptr %function, ptr %args, i64 %count, ptr %names) nounwind {{
  %first = getelementptr ptr, ptr %args, i64 1
  %all = sub i64 %count, 1
  %out = call ptr @call_as_given(ptr %function, ptr %first, i64 %all, ptr %names)
  ret ptr %out
}}
define internal ptr @attempt(ptr %function, ptr %args, i64 %count, ptr %names) nounwind {{
  %out = call ptr @call_rest(ptr %function, ptr %args, i64 %count, ptr %names)
  %result = call ptr @caught(ptr %out)
  ret ptr %result
}}
define internal ptr @attempt_row(ptr %function, ptr %row, ptr %names) nounwind {{
  %items = getelementptr i8, ptr %row, i64 {ITEMS}
  %at = getelementptr i8, ptr %row, i64 {SIZE}
  %count = load i64, ptr %at
  %result = call ptr @attempt(ptr %function, ptr %items, i64 %count, ptr %names)
  ret ptr %result
}}
define internal ptr @attempt_pair(ptr %function, ptr %a, ptr %b) nounwind {{
  %place = alloca [2 x ptr]
  %second = getelementptr ptr, ptr %place, i64 1
  store ptr %a, ptr %place
  store ptr %b, ptr %second
  %call = {call}
  %out = call ptr %call(ptr %function, ptr %place, i64 2, ptr null)
  %result = call ptr @caught(ptr %out)
  ret ptr %result
}}"""
