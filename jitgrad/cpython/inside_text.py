"""What eager mode's native functions call besides: tuples, keys, calls inside a context, draws, arrays; as LLVM text.

Owns: ``inside_text``.
Must not know: the functions that use it.
"""

from __future__ import annotations

import numpy as np

from jitgrad.cpython.arrays import ARRAY_DATA
from jitgrad.cpython.layout import ITEMS, SIZE, count_place
from jitgrad.cpython.module_text import ModuleText

__all__ = ["inside_text"]


def inside_text(module: ModuleText) -> str:
    """``advance``, ``array_over``, ``call_inside``, ``draw_to``, ``fresh_array``, ``fresh_counter``, ``is_hashable``,
    ``joined``, ``pack_rest``, ``word_at``: primitives."""
    return _calls_text(module) + _words_text() + _array_over(module) + _fresh_array(module)


def _calls_text(module: ModuleText) -> str:
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


def _words_text() -> str:
    upcoming = count_place()
    return f"""
define internal i64 @advance(ptr %series, i64 %count) alwaysinline nounwind {{
  %at = getelementptr i8, ptr %series, i64 {max(upcoming, 0)}
  %first = load i64, ptr %at
  %is.known = icmp ult i64 %first, 4611686018427387904
  %may = and i1 %is.known, {"false" if upcoming < 0 else "true"}
  br i1 %may, label %go, label %no
go:
  %next = add i64 %first, %count
  store i64 %next, ptr %at
  ret i64 %first
no:
  ret i64 -1
}}
define internal i64 @word_at(i64 %address) alwaysinline nounwind {{
  %at = inttoptr i64 %address to ptr
  %word = load i64, ptr %at
  ret i64 %word
}}"""


_MOST_DIMS = 16
_ALIGNED_AND_WRITEABLE = 0x0500


_WORDS_OF = f"""
define internal void @words_of(ptr %row, ptr %to, i64 %factor) nounwind {{
entry:
  %at.count = getelementptr i8, ptr %row, i64 {SIZE}
  %count = load i64, ptr %at.count
  %items = getelementptr i8, ptr %row, i64 {ITEMS}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %more, %item ]
  %any = icmp slt i64 %i, %count
  br i1 %any, label %item, label %done
item:
  %from = getelementptr ptr, ptr %items, i64 %i
  %o = load ptr, ptr %from
  %n = call i64 @as_word(ptr %o)
  %word = mul i64 %n, %factor
  %at = getelementptr i64, ptr %to, i64 %i
  store i64 %word, ptr %at
  %more = add i64 %i, 1
  br label %next
done:
  ret void
}}"""
"""The ints of a tuple, times a factor, as words."""


def _rank_text(module: ModuleText) -> str:
    """The first block of both: NumPy's function, and the rank; to ``none`` if that is beyond it, else to ``known``."""
    return f"""entry:
  %dims = alloca [{_MOST_DIMS} x i64]
  %steps = alloca [{_MOST_DIMS} x i64]
  %make = {module.api_word("PyArray_NewFromDescr")}
  %is.unknown = icmp eq ptr %make, null
  %at.count = getelementptr i8, ptr %shape, i64 {SIZE}
  %count = load i64, ptr %at.count
  %is.long = icmp ugt i64 %count, {_MOST_DIMS}
  %is.left = or i1 %is.unknown, %is.long
  br i1 %is.left, label %none, label %known
none:
  %none.o = {module.object_word(None)}
  call void @incref(ptr %none.o)
  ret ptr %none.o
known:
  call void @words_of(ptr %shape, ptr %dims, i64 1)
  %class = {module.object_word(np.ndarray)}
  %rank = trunc i64 %count to i32
  call void @incref(ptr %kind)"""


def _array_over(module: ModuleText) -> str:
    """``array_over``; null is an error. NumPy takes over a reference to the dtype, and one to the owner."""
    flags = _ALIGNED_AND_WRITEABLE
    given = f"ptr %class, ptr %kind, i32 %rank, ptr %dims, ptr %steps, ptr %data, i32 {flags}, ptr null"
    return f"""{_WORDS_OF}
define internal ptr @array_over(ptr %kind, ptr %shape, ptr %stride, i64 %size, i64 %address, ptr %owner) nounwind {{
{_rank_text(module)}
  call void @words_of(ptr %stride, ptr %steps, i64 %size)
  %data = inttoptr i64 %address to ptr
  %made = call ptr %make({given})
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %error, label %hold
hold:
  call void @incref(ptr %owner)
  %set = {module.api_word("PyArray_SetBaseObject")}
  %refused = call i32 %set(ptr %made, ptr %owner)
  %is.refused = icmp ne i32 %refused, 0
  br i1 %is.refused, label %drop, label %done
drop:
  call void @decref(ptr %made)
  br label %error
done:
  ret ptr %made
error:
  ret ptr null
}}"""


def _fresh_array(module: ModuleText) -> str:
    """``fresh_array``; null is an error. NumPy takes over a reference to the dtype."""
    return f"""
define internal ptr @fresh_array(ptr %kind, ptr %shape) nounwind {{
{_rank_text(module)}
  %made = call ptr %make(ptr %class, ptr %kind, i32 %rank, ptr %dims, ptr null, ptr null, i32 0, ptr null)
  ret ptr %made
}}"""
