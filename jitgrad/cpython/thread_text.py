"""What native code knows of the thread that it runs on, as LLVM text.

Owns: ``thread_text``.
Must not know: what a thread is doing.
"""

from __future__ import annotations

import sys

from jitgrad.cpython.layout import thread_is_own_address
from jitgrad.cpython.module_text import ModuleText

__all__ = ["thread_text"]


def thread_text(module: ModuleText) -> str:
    """``active``, ``activate``, ``activate_now``, ``thread_dict``."""
    return "\n".join([_active(module), _thread_dict(module)])


def _active(module: ModuleText) -> str:
    """``active()``: the recorder that was activated on this thread, or None; ``activate(recorder)``."""
    none, here = module.object_word(None), "%here = load i64, ptr addrspace(257) null"
    if not thread_is_own_address():
        here = f"%ident = {module.api_word('PyThread_get_thread_ident')}\n  %here = call i64 %ident()"
    return f"""
@active.recorder = internal global ptr null
@active.thread = internal global i64 0
define internal ptr @active() alwaysinline nounwind {{
  %recorder = load ptr, ptr @active.recorder
  %nobody = icmp eq ptr %recorder, null
  br i1 %nobody, label %no, label %thread
thread:
  {here}
  %owner = load i64, ptr @active.thread
  %mine = icmp eq i64 %here, %owner
  br i1 %mine, label %yes, label %no
yes:
  ret ptr %recorder
no:
  %none = {none}
  ret ptr %none
}}
define internal ptr @activate(ptr %self, ptr %recorder) nounwind {{
  call void @activate_now(ptr %recorder)
  %none = {none}
  call void @incref(ptr %none)
  ret ptr %none
}}
define internal void @activate_now(ptr %recorder) nounwind {{
  %none = {none}
  {here}
  %nobody = icmp eq ptr %recorder, %none
  br i1 %nobody, label %stop, label %begin
begin:
  store i64 %here, ptr @active.thread
  store ptr %recorder, ptr @active.recorder
  br label %done
stop:
  %owner = load i64, ptr @active.thread
  %mine = icmp eq i64 %here, %owner
  br i1 %mine, label %forget, label %done
forget:
  store ptr null, ptr @active.recorder
  br label %done
done:
  ret void
}}"""


def _thread_dict(module: ModuleText) -> str:
    """``thread_dict(local)``, as it was the last time, where the same thread asks for that of the same object.

    A thread's state may lie where another one's did, but its number is its own. Null is an error.
    """
    load = module.api_word
    return f"""
@last.local = internal global ptr null
@last.state = internal global ptr null
@last.number = internal global i64 0
@last.dict = internal global ptr null
define internal ptr @thread_dict(ptr %local) nounwind {{
  %get = {load("PyThreadState_Get")}
  %state = call ptr %get()
  %get.number = {load("PyThreadState_GetID")}
  %number = call i64 %get.number(ptr %state)
  %known.local = load ptr, ptr @last.local
  %known.state = load ptr, ptr @last.state
  %known.number = load i64, ptr @last.number
  %same.local = icmp eq ptr %local, %known.local
  %same.state = icmp eq ptr %state, %known.state
  %same.number = icmp eq i64 %number, %known.number
  %same.thread = and i1 %same.state, %same.number
  %same = and i1 %same.local, %same.thread
  br i1 %same, label %known, label %ask
known:
  %last = load ptr, ptr @last.dict
  ret ptr %last
ask:
  %find = {load("PyObject_GetAttr")}
  %name = {module.object_word(sys.intern("__dict__"))}
  %found = call ptr %find(ptr %local, ptr %name)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %error, label %note
error:
  ret ptr null
note:
  call void @decref(ptr %found)
  store ptr %local, ptr @last.local
  store ptr %state, ptr @last.state
  store i64 %number, ptr @last.number
  store ptr %found, ptr @last.dict
  ret ptr %found
}}"""
