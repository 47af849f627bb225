"""Python ints to machine words and back, as LLVM text.

Owns: ``ints_text``.
Must not know: what the numbers mean.

Nearly all are small, or addresses: one digit or two, of 30 bits each. Those are read where they lie, and small ones are
not made but found in the row that the interpreter has of them. The C API does the rest, and all where a probe fails.
"""

from __future__ import annotations

from jitgrad.cpython.layout import DIGITS, INT_HEAD, TYPE, int_layout, small_int_size
from jitgrad.cpython.module_text import ModuleText

__all__ = ["ints_text"]

_FIRST_SMALL, _SMALL_COUNT = -5, 262


def ints_text(module: ModuleText) -> str:
    """``as_word``, ``box_word``, ``is_word``."""
    return "\n".join([_as_word(module), _box_word(module), _is_word(module)])


def _as_word(module: ModuleText) -> str:
    """``as_word(o)``: as ``PyLong_AsLongLong``."""
    layout = int_layout()
    if not layout:
        return f"""
define internal i64 @as_word(ptr %o) nounwind {{
  %f = {module.api_word("PyLong_AsLongLong")}
  %word = call i64 %f(ptr %o)
  ret i64 %word
}}"""
    if layout == "sign and size":
        of_one = "  %above = add i64 %head, 1\n  %small = icmp ult i64 %above, 3\n  %sign = add i64 %head, 0"
        two = 2
    else:
        of_one = "  %small = icmp ult i64 %head, 16\n  %bits = and i64 %head, 3\n  %sign = sub i64 1, %bits"
        two = 16
    return f"""
define internal i64 @as_word(ptr %o) alwaysinline nounwind {{
  %at.kind = getelementptr i8, ptr %o, i64 {TYPE}
  %kind = load ptr, ptr %at.kind
  %ints = {module.object_word(int)}
  %exact = icmp eq ptr %kind, %ints
  br i1 %exact, label %look, label %ask
look:
  %at.head = getelementptr i8, ptr %o, i64 {INT_HEAD}
  %head = load i64, ptr %at.head
{of_one}
  br i1 %small, label %one, label %ask
one:
  %at = getelementptr i8, ptr %o, i64 {DIGITS}
  %digit = load i32, ptr %at
  %wide = zext i32 %digit to i64
  %word = mul i64 %wide, %sign
  ret i64 %word
ask:
  %more = call i64 @as_long_word(ptr %o)
  ret i64 %more
}}
define internal i64 @as_long_word(ptr %o) noinline nounwind {{
  %at.kind = getelementptr i8, ptr %o, i64 {TYPE}
  %kind = load ptr, ptr %at.kind
  %ints = {module.object_word(int)}
  %exact = icmp eq ptr %kind, %ints
  br i1 %exact, label %look, label %ask
look:
  %at.head = getelementptr i8, ptr %o, i64 {INT_HEAD}
  %head = load i64, ptr %at.head
  %two = icmp eq i64 %head, {two}
  br i1 %two, label %both, label %ask
both:
  %at = getelementptr i8, ptr %o, i64 {DIGITS}
  %low = load i32, ptr %at
  %at.high = getelementptr i8, ptr %o, i64 {DIGITS + 4}
  %high = load i32, ptr %at.high
  %wide = zext i32 %low to i64
  %wide.high = zext i32 %high to i64
  %moved = shl i64 %wide.high, 30
  %word = or i64 %wide, %moved
  ret i64 %word
ask:
  %f = {module.api_word("PyLong_AsLongLong")}
  %more = call i64 %f(ptr %o)
  ret i64 %more
}}"""


def _box_word(module: ModuleText) -> str:
    """``box_word(word)``: as ``PyLong_FromLongLong``."""
    size = small_int_size()
    make = f"""
  %f = {module.api_word("PyLong_FromLongLong")}
  %made = call ptr %f(i64 %word)
  ret ptr %made
}}"""
    if not size:
        return f"define internal ptr @box_word(i64 %word) nounwind {{{make}"
    return f"""
define internal ptr @box_word(i64 %word) nounwind {{
  %above = sub i64 %word, {_FIRST_SMALL}
  %small = icmp ult i64 %above, {_SMALL_COUNT}
  br i1 %small, label %found, label %make
found:
  %zero = {module.object_word(0)}
  %place = mul i64 %word, {size}
  %one = getelementptr i8, ptr %zero, i64 %place
  call void @incref(ptr %one)
  ret ptr %one
make:{make}"""


def _is_word(module: ModuleText) -> str:
    return f"""
define internal i1 @is_word(ptr %o) nounwind {{
  %over = alloca i32
  %f = {module.api_word("PyLong_AsLongLongAndOverflow")}
  %word = call i64 %f(ptr %o, ptr %over)
  %is.over = load i32, ptr %over
  %fits = icmp eq i32 %is.over, 0
  ret i1 %fits
}}"""
