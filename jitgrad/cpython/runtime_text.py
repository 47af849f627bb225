"""What translated functions call: references, and the primitives of ``primitives.py``, as LLVM text.

Owns: ``runtime_text``.
Must not know: the functions that use it.

# Note [Immortal objects]
# ~~~~~~~~~~~~~~~~~~~~~~~
# Since CPython 3.12 an object whose 32-bit reference count is negative is immortal: nobody counts it. In 3.11 nothing
# is, and a count is one instruction.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from jitgrad.cpython.attempt_text import attempt_text
from jitgrad.cpython.frame_text import frame_text
from jitgrad.cpython.inside_text import inside_text
from jitgrad.cpython.ints_text import ints_text
from jitgrad.cpython.layout import ITEMS, LIST_ALLOCATED, LIST_ITEMS, SIZE, TYPE
from jitgrad.cpython.module_text import ModuleText
from jitgrad.cpython.thread_text import thread_text
from jitgrad.layouts import Size

__all__ = ["POOL", "runtime_text"]

POOL = 1024
"""How many blank handles are kept."""

_COUNTS_ALL = """
define internal void @incref(ptr %o) alwaysinline nounwind {
  %n = load i64, ptr %o
  %m = add i64 %n, 1
  store i64 %m, ptr %o
  ret void
}
define internal void @decref(ptr %o) alwaysinline nounwind {
  %n = load i64, ptr %o
  %m = sub i64 %n, 1
  store i64 %m, ptr %o
  %last = icmp eq i64 %m, 0
  br i1 %last, label %free, label %done
free:
  call void @dealloc(ptr %o)
  br label %done
done:
  ret void
}
"""

_COUNTS_MORTALS = """
define internal void @incref(ptr %o) alwaysinline nounwind {
  %n = load i32, ptr %o
  %mortal = icmp sge i32 %n, 0
  br i1 %mortal, label %count, label %done
count:
  %m = add i32 %n, 1
  store i32 %m, ptr %o
  br label %done
done:
  ret void
}
define internal void @decref(ptr %o) alwaysinline nounwind {
  %n = load i32, ptr %o
  %mortal = icmp sge i32 %n, 0
  br i1 %mortal, label %count, label %done
count:
  %m = sub i32 %n, 1
  store i32 %m, ptr %o
  %last = icmp eq i32 %m, 0
  br i1 %last, label %free, label %done
free:
  call void @dealloc(ptr %o)
  br label %done
done:
  ret void
}
"""

_REFERENCES = """
define internal void @xdecref(ptr %o) alwaysinline nounwind {
  %none = icmp eq ptr %o, null
  br i1 %none, label %done, label %some
some:
  call void @decref(ptr %o)
  br label %done
done:
  ret void
}
define internal void @clear(ptr %place) alwaysinline nounwind {
  %o = load ptr, ptr %place
  store ptr null, ptr %place
  call void @xdecref(ptr %o)
  ret void
}
define internal i64 @refcount(ptr %o) alwaysinline nounwind {
  %n = load i32, ptr %o
  %wide = zext i32 %n to i64
  %others = sub i64 %wide, 1
  ret i64 %others
}
define internal i1 @is_atomic() alwaysinline nounwind {
  ret i1 true
}
define internal void @poke(i64 %address, i64 %index, i64 %value) alwaysinline nounwind {
  %base = inttoptr i64 %address to ptr
  %at = getelementptr i64, ptr %base, i64 %index
  store i64 %value, ptr %at
  ret void
}
define internal void @poke_float(i64 %address, i64 %index, ptr %value) alwaysinline nounwind {
  %from = getelementptr i8, ptr %value, i64 16
  %bits = load i64, ptr %from
  call void @poke(i64 %address, i64 %index, i64 %bits)
  ret void
}
define internal i1 @within(i64 %address, i64 %count, i64 %low, i64 %high, i64 %allowed) nounwind {
entry:
  %span = sub i64 %high, %low
  %base = inttoptr i64 %address to ptr
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %more, %look ]
  %any = icmp slt i64 %i, %count
  br i1 %any, label %look, label %yes
look:
  %at = getelementptr i64, ptr %base, i64 %i
  %v = load i64, ptr %at
  %above = sub i64 %v, %low
  %inside = icmp ult i64 %above, %span
  %exempt = icmp eq i64 %v, %allowed
  %fine = or i1 %inside, %exempt
  %more = add i64 %i, 1
  br i1 %fine, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
define internal i1 @failed(ptr %found, ptr %occurred) alwaysinline nounwind {
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %ask, label %fine
ask:
  %error = call ptr %occurred()
  %is = icmp ne ptr %error, null
  ret i1 %is
fine:
  ret i1 false
}
define internal i1 @is_subtype(ptr %kind, ptr %cls, ptr %usual, ptr %ask) alwaysinline nounwind {
  %exact = icmp eq ptr %kind, %usual
  br i1 %exact, label %yes, label %maybe
maybe:
  %sub = call i32 %ask(ptr %kind, ptr %cls)
  %is = icmp ne i32 %sub, 0
  ret i1 %is
yes:
  ret i1 true
}
"""

_LISTS = f"""
define internal i32 @append(ptr %list, ptr %o, ptr %grow) nounwind {{
  %at.size = getelementptr i8, ptr %list, i64 {SIZE}
  %at.room = getelementptr i8, ptr %list, i64 {LIST_ALLOCATED}
  %size = load i64, ptr %at.size
  %room = load i64, ptr %at.room
  %fits = icmp slt i64 %size, %room
  br i1 %fits, label %put, label %full
put:
  call void @incref(ptr %o)
  %p = call ptr @place(ptr %list, i64 %size)
  store ptr %o, ptr %p
  %more = add i64 %size, 1
  store i64 %more, ptr %at.size
  ret i32 0
full:
  %failed = call i32 %grow(ptr %list, ptr %o)
  ret i32 %failed
}}
define internal void @drain(ptr %list) nounwind {{
entry:
  %at.size = getelementptr i8, ptr %list, i64 {SIZE}
  br label %next
next:
  %size = load i64, ptr %at.size
  %any = icmp sgt i64 %size, 0
  br i1 %any, label %pop, label %done
pop:
  %last = sub i64 %size, 1
  %p = call ptr @place(ptr %list, i64 %last)
  %o = load ptr, ptr %p
  store i64 %last, ptr %at.size
  call void @decref(ptr %o)
  br label %next
done:
  ret void
}}
"""


def runtime_text(module: ModuleText, driver_word: str, wiped: dict[str, int], stamp: dict[str, Any]) -> str:
    """The text.

    Args:
        driver_word: loads the native driver's address.
        wiped: slot -> offset, of what a retired handle lets go of.
        stamp: ``cls`` is the load of the handles' class, ``owned`` where their weak references and attributes are.
    """
    load = module.api_word
    counts = _COUNTS_ALL if sys.version_info < (3, 12) else _COUNTS_MORTALS
    parts = [counts, _REFERENCES, _LISTS, _dealloc(load("_Py_Dealloc")), _is_row(module)]
    parts += [_equal(module), _same(module), _pack(load("PyTuple_New"))]
    parts += [_new_handle(stamp["cls"], load("PyType_GenericAlloc")), _is_idle(stamp, wiped), _retire_all(module)]
    parts.append(_number_at(load))
    parts += [_take_last(module.object_word(None)), _take_out(load), thread_text(module)]
    parts.append(
        f"define internal ptr @blank(ptr %cls) nounwind {{\n  %f = {load('PyType_GenericAlloc')}\n"
        "  %new = call ptr %f(ptr %cls, i64 0)\n  ret ptr %new\n}"
    )
    parts.append(frame_text(module))
    parts += [ints_text(module), _NEW_COUNTER, attempt_text(module), inside_text(module)]
    parts.append(
        f"define internal i64 @run_driver(i64 %record) nounwind {{\n  %driver = {driver_word}\n"
        "  %status = call i64 %driver(i64 %record)\n  ret i64 %status\n}"
    )
    parts.append(
        f"define internal i64 @run_driver_released(i64 %record) nounwind {{\n  %save = {load('PyEval_SaveThread')}\n"
        f"  %restore = {load('PyEval_RestoreThread')}\n  %thread = call ptr %save()\n"
        "  %status = call i64 @run_driver(i64 %record)\n  call void %restore(ptr %thread)\n  ret i64 %status\n}"
    )
    return "\n".join(parts)


_NEW_COUNTER = f"""
define internal ptr @new_counter(ptr %zero, ptr %new) nounwind {{
  %list = call ptr %new(i64 1)
  %failed = icmp eq ptr %list, null
  br i1 %failed, label %done, label %fill
fill:
  call void @incref(ptr %zero)
  %at = getelementptr i8, ptr %list, i64 {LIST_ITEMS}
  %items = load ptr, ptr %at
  store ptr %zero, ptr %items
  br label %done
done:
  ret ptr %list
}}"""
"""``[0]``; null is an error."""


def _number_at(load: Callable[[str], str]) -> str:
    """``number_at(address, kind)``; null is an error."""
    return f"""
define internal ptr @number_at(i64 %address, i64 %kind) nounwind {{
  %at = inttoptr i64 %address to ptr
  switch i64 %kind, label %bool [ i64 0, label %float i64 1, label %double i64 2, label %long ]
float:
  %narrow = load float, ptr %at
  %wide = fpext float %narrow to double
  br label %box
double:
  %own = load double, ptr %at
  br label %box
box:
  %real = phi double [ %wide, %float ], [ %own, %double ]
  %from.double = {load("PyFloat_FromDouble")}
  %o.real = call ptr %from.double(double %real)
  ret ptr %o.real
long:
  %word = load i64, ptr %at
  %o.long = call ptr @box_word(i64 %word)
  ret ptr %o.long
bool:
  %byte = load i8, ptr %at
  %truth = zext i8 %byte to i64
  %from.bool = {load("PyBool_FromLong")}
  %o.bool = call ptr %from.bool(i64 %truth)
  ret ptr %o.bool
}}"""


def _take_last(none: str) -> str:
    return f"""
define internal ptr @take_last(ptr %list) nounwind {{
  %at.size = getelementptr i8, ptr %list, i64 {SIZE}
  %size = load i64, ptr %at.size
  %any = icmp sgt i64 %size, 0
  br i1 %any, label %take, label %empty
take:
  %last = sub i64 %size, 1
  %p = call ptr @place(ptr %list, i64 %last)
  %o = load ptr, ptr %p
  store i64 %last, ptr %at.size
  ret ptr %o
empty:
  %none = {none}
  call void @incref(ptr %none)
  ret ptr %none
}}"""


def _take_out(load: Callable[[str], str]) -> str:
    """Usually the key is there: one look-up."""
    return f"""
define internal void @take_out(ptr %table, ptr %key) nounwind {{
  %remove = {load("PyDict_DelItem")}
  %failed = call i32 %remove(ptr %table, ptr %key)
  %missing = icmp ne i32 %failed, 0
  br i1 %missing, label %forget, label %done
forget:
  %clear = {load("PyErr_Clear")}
  call void %clear()
  br label %done
done:
  ret void
}}"""


def _dealloc(word: str) -> str:
    return (
        f"define internal void @dealloc(ptr %o) noinline nounwind {{\n  %f = {word}\n"
        "  call void %f(ptr %o)\n  ret void\n}"
    )


def _is_row(module: ModuleText) -> str:
    """``is_row(class)``: whether it is ``tuple`` or ``Size``, which is laid out as one."""
    return f"""
define internal i1 @is_row(ptr %class) alwaysinline nounwind {{
  %tuples = {module.object_word(tuple)}
  %sizes = {module.object_word(Size)}
  %is.tuple = icmp eq ptr %class, %tuples
  %is.size = icmp eq ptr %class, %sizes
  %is.row = or i1 %is.tuple, %is.size
  ret i1 %is.row
}}"""


def _equal(module: ModuleText) -> str:
    """``a == b``; False if that raises."""
    return f"""
define internal i1 @equal(ptr %a, ptr %b) nounwind {{
  %f = {module.api_word("PyObject_RichCompareBool")}
  %found = call i32 %f(ptr %a, ptr %b, i32 2)
  %failed = icmp slt i32 %found, 0
  br i1 %failed, label %forget, label %answer
forget:
  %g = {module.api_word("PyErr_Clear")}
  call void %g()
  ret i1 false
answer:
  %equal = icmp ne i32 %found, 0
  ret i1 %equal
}}"""


def _same(module: ModuleText) -> str:
    """``same(a, b)``: most are the same object, or tuples of the same objects."""
    floats, ints, texts = (module.object_word(t) for t in (float, int, str))
    return f"""
define internal i1 @same(ptr %a, ptr %b) nounwind {{
entry:
  %identical = icmp eq ptr %a, %b
  br i1 %identical, label %yes, label %types
types:
  %ka.at = getelementptr i8, ptr %a, i64 {TYPE}
  %kb.at = getelementptr i8, ptr %b, i64 {TYPE}
  %ka = load ptr, ptr %ka.at
  %kb = load ptr, ptr %kb.at
  %a.is.row = call i1 @is_row(ptr %ka)
  %b.is.row = call i1 @is_row(ptr %kb)
  %are.rows = and i1 %a.is.row, %b.is.row
  br i1 %are.rows, label %sizes, label %others
others:
  %alike = icmp eq ptr %ka, %kb
  br i1 %alike, label %float, label %no
float:
  %floats = {floats}
  %is.float = icmp eq ptr %ka, %floats
  br i1 %is.float, label %bits, label %int
bits:
  %fa.at = getelementptr i8, ptr %a, i64 16
  %fb.at = getelementptr i8, ptr %b, i64 16
  %fa = load i64, ptr %fa.at
  %fb = load i64, ptr %fb.at
  %same.bits = icmp eq i64 %fa, %fb
  ret i1 %same.bits
sizes:
  %sa.at = getelementptr i8, ptr %a, i64 {SIZE}
  %sb.at = getelementptr i8, ptr %b, i64 {SIZE}
  %sa = load i64, ptr %sa.at
  %sb = load i64, ptr %sb.at
  %same.size = icmp eq i64 %sa, %sb
  br i1 %same.size, label %items, label %no
items:
  %i = phi i64 [ 0, %sizes ], [ %next, %item.same ]
  %more = icmp slt i64 %i, %sa
  br i1 %more, label %item, label %yes
item:
  %ia.base = getelementptr i8, ptr %a, i64 {ITEMS}
  %ib.base = getelementptr i8, ptr %b, i64 {ITEMS}
  %ia.at = getelementptr ptr, ptr %ia.base, i64 %i
  %ib.at = getelementptr ptr, ptr %ib.base, i64 %i
  %ia = load ptr, ptr %ia.at
  %ib = load ptr, ptr %ib.at
  %item.is = call i1 @same(ptr %ia, ptr %ib)
  br i1 %item.is, label %item.same, label %no
item.same:
  %next = add i64 %i, 1
  br label %items
int:
  %ints = {ints}
  %is.int = icmp eq ptr %ka, %ints
  br i1 %is.int, label %answer, label %text
text:
  %texts = {texts}
  %is.text = icmp eq ptr %ka, %texts
  br i1 %is.text, label %answer, label %no
answer:
  %equal = call i1 @equal(ptr %a, ptr %b)
  ret i1 %equal
yes:
  ret i1 true
no:
  ret i1 false
}}"""


def _pack(new: str) -> str:
    """Arguments as a tuple; null is an error."""
    return f"""
define internal ptr @pack(ptr %args, i64 %count) nounwind {{
entry:
  %f = {new}
  %made = call ptr %f(i64 %count)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %item ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %item, label %done
item:
  %from = getelementptr ptr, ptr %args, i64 %i
  %o = load ptr, ptr %from
  call void @incref(ptr %o)
  %base = getelementptr i8, ptr %made, i64 {ITEMS}
  %to = getelementptr ptr, ptr %base, i64 %i
  store ptr %o, ptr %to
  %next = add i64 %i, 1
  br label %loop
done:
  ret ptr %made
}}"""


def _new_handle(cls: str, alloc: str) -> str:
    """A blank tensor: one that was retired, or a new one."""
    return f"""
@pool = internal global [{POOL} x ptr] zeroinitializer
@pool.size = internal global i64 0
define internal ptr @new_handle() nounwind {{
  %n = load i64, ptr @pool.size
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %reuse, label %make
reuse:
  %last = sub i64 %n, 1
  store i64 %last, ptr @pool.size
  %at = getelementptr ptr, ptr @pool, i64 %last
  %blank = load ptr, ptr %at
  ret ptr %blank
make:
  %cls = {cls}
  %f = {alloc}
  %new = call ptr %f(ptr %cls, i64 0)
  ret ptr %new
}}"""


def _is_idle(stamp: dict[str, Any], wiped: dict[str, int]) -> str:
    """Whether a handle may be used again; letting go of what it holds; a list's place."""
    owned, has = [], "0"
    for nr, offset in enumerate(stamp["owned"]):
        owned.append(f"  %at.own{nr} = getelementptr i8, ptr %o, i64 {offset}\n  %own{nr} = load i64, ptr %at.own{nr}")
        owned.append(f"  %has{nr} = or i64 {has}, %own{nr}")
        has = f"%has{nr}"
    look, wipe, seen = [], [], "0"
    for nr, offset in enumerate(wiped.values()):
        look.append(f"  %w{nr} = getelementptr i8, ptr %o, i64 {offset}\n  %v{nr} = load i64, ptr %w{nr}")
        look.append(f"  %any{nr} = or i64 {seen}, %v{nr}")
        wipe.append(f"  call void @clear(ptr %w{nr})")
        seen = f"%any{nr}"
    return f"""
define internal i1 @is_idle(ptr %o) alwaysinline nounwind {{
  %n = load i32, ptr %o
  %alone = icmp eq i32 %n, 1
  %at.kind = getelementptr i8, ptr %o, i64 {TYPE}
  %k = load ptr, ptr %at.kind
  %cls = {stamp["cls"]}
  %exact = icmp eq ptr %k, %cls
  %plain = and i1 %alone, %exact
  br i1 %plain, label %owned, label %no
owned:
{chr(10).join(owned)}
  %bare = icmp eq i64 {has}, 0
  ret i1 %bare
no:
  ret i1 false
}}
define internal void @wipe(ptr %o) nounwind {{
{chr(10).join(look)}
  %blank = icmp eq i64 {seen}, 0
  br i1 %blank, label %done, label %some
some:
{chr(10).join(wipe)}
  br label %done
done:
  ret void
}}
define internal ptr @place(ptr %list, i64 %i) alwaysinline nounwind {{
  %at = getelementptr i8, ptr %list, i64 {LIST_ITEMS}
  %items = load ptr, ptr %at
  %place = getelementptr ptr, ptr %items, i64 %i
  ret ptr %place
}}"""


def _retire_all(module: ModuleText) -> str:
    """Keep the handles that only their list holds for ``new_handle``.

    Two passes: letting go of what a handle holds may run Python, and nobody may find a handle in the pool while its
    list still has it. The second pass runs no Python; the pool takes the list's reference, the list gets None.
    """
    return f"""
define internal void @retire_all(ptr %list) nounwind {{
entry:
  %at.size = getelementptr i8, ptr %list, i64 {SIZE}
  %size = load i64, ptr %at.size
  br label %wiping
wiping:
  %i = phi i64 [ 0, %entry ], [ %i.next, %wiped ]
  %now = load i64, ptr %at.size
  %i.more = icmp slt i64 %i, %size
  %i.there = icmp slt i64 %i, %now
  %i.go = and i1 %i.more, %i.there
  br i1 %i.go, label %look, label %pooling
look:
  %p = call ptr @place(ptr %list, i64 %i)
  %o = load ptr, ptr %p
  %idle = call i1 @is_idle(ptr %o)
  br i1 %idle, label %let.go, label %wiped
let.go:
  call void @wipe(ptr %o)
  br label %wiped
wiped:
  %i.next = add i64 %i, 1
  br label %wiping
pooling:
  %end = phi i64 [ %i, %wiping ]
  br label %next
next:
  %j = phi i64 [ 0, %pooling ], [ %j.next, %done ]
  %pooled = load i64, ptr @pool.size
  %room = icmp slt i64 %pooled, {POOL}
  %j.more = icmp slt i64 %j, %end
  %j.go = and i1 %room, %j.more
  br i1 %j.go, label %ask, label %leave
ask:
  %q = call ptr @place(ptr %list, i64 %j)
  %h = load ptr, ptr %q
  %free = call i1 @is_idle(ptr %h)
  br i1 %free, label %put, label %done
put:
  %none = {module.object_word(None)}
  call void @incref(ptr %none)
  store ptr %none, ptr %q
  %to = getelementptr ptr, ptr @pool, i64 %pooled
  store ptr %h, ptr %to
  %more = add i64 %pooled, 1
  store i64 %more, ptr @pool.size
  br label %done
done:
  %j.next = add i64 %j, 1
  br label %next
leave:
  ret void
}}"""
