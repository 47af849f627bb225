"""How attributes of tensors are found, as LLVM text.

Owns: ``getattr_text``.
Must not know: which attributes there are.

# Note [Attributes of tensors]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Tensors have a ``__getattr__``, for slots that were never set and for names that nobody has. In CPython 3.11 that
# makes every look at an attribute slow, also where it is never called: ``x.sum`` is looked up three times in the type,
# because ``__getattr__`` and ``__getattribute__`` come first, and the interpreter never learns where it is. So there
# the type's ``tp_getattro`` is native code that does the three usual cases itself: methods of objects without
# attributes of their own, slots that are set, and properties; anything else it leaves to what stood in the slot.
# Later versions learn where methods are in spite of ``__getattr__``, as long as the slot is the interpreter's own.
"""

from __future__ import annotations

from types import FunctionType, MemberDescriptorType

from jitgrad.cpython.layout import TYPE
from jitgrad.cpython.module_text import ModuleText

__all__ = ["getattr_text"]

_MEMBER, _MEMBER_KIND, _MEMBER_OFFSET, _OBJECT = 40, 8, 16, 16
_GETTER = 16


def getattr_text(module: ModuleText, own: tuple[int, ...], functions: tuple[type, ...]) -> str:
    """``slot_tp_getattro``.

    Args:
        own: where objects keep attributes of their own; all zero: there are none.
        functions: the classes of functions.
    """
    kinds, is_function = _is_function(module, (FunctionType, *functions))
    return f"""
define internal ptr @slot_tp_getattro(ptr %o, ptr %name) nounwind {{
  %at.type = getelementptr i8, ptr %o, i64 {TYPE}
  %type = load ptr, ptr %at.type
  %look = {module.api_word("_PyType_Lookup")}
  %found = call ptr %look(ptr %type, ptr %name)
  %none = icmp eq ptr %found, null
  br i1 %none, label %ask, label %some
some:
  %at.kind = getelementptr i8, ptr %found, i64 {TYPE}
  %kind = load ptr, ptr %at.kind
{kinds}
  br i1 {is_function}, label %function, label %other
function:
{_own(own)}
  br i1 %bare, label %bind, label %ask
bind:
  %new = {module.api_word("PyMethod_New")}
  %method = call ptr %new(ptr %found, ptr %o)
  ret ptr %method
other:
  %members = {module.object_word(MemberDescriptorType)}
  %is.member = icmp eq ptr %kind, %members
  br i1 %is.member, label %member, label %maybe
{_member()}
maybe:
  %properties = {module.object_word(property)}
  %is.property = icmp eq ptr %kind, %properties
  br i1 %is.property, label %property, label %ask
property:
  %at.getter = getelementptr i8, ptr %found, i64 {_GETTER}
  %getter = load ptr, ptr %at.getter
  %no.getter = icmp eq ptr %getter, null
  br i1 %no.getter, label %ask, label %get
get:
  %result = call ptr @get_property(ptr %getter, ptr %o, ptr %name)
  ret ptr %result
ask:
  %before = {module.api_word("tp_getattro")}
  %rest = call ptr %before(ptr %o, ptr %name)
  ret ptr %rest
}}
{_get_property(module)}"""


def _is_function(module: ModuleText, classes: tuple[type, ...]) -> tuple[str, str]:
    """Lines, and the register that says whether ``%kind`` is one of the classes."""
    lines, found = [], "false"
    for nr, cls in enumerate(classes):
        lines += [f"  %class{nr} = {module.object_word(cls)}", f"  %is{nr} = icmp eq ptr %kind, %class{nr}",
                  f"  %any{nr} = or i1 {found}, %is{nr}"]  # fmt: skip
        found = f"%any{nr}"
    return "\n".join(lines), found


def _own(places: tuple[int, ...]) -> str:
    """``%bare``: whether the object has no attributes of its own."""
    lines, has = [], "0"
    for nr, offset in enumerate(places):
        lines += [f"  %at.own{nr} = getelementptr i8, ptr %o, i64 {offset}", f"  %own{nr} = load i64, ptr %at.own{nr}",
                  f"  %has{nr} = or i64 {has}, %own{nr}"]  # fmt: skip
        has = f"%has{nr}"
    return "\n".join([*lines, f"  %bare = icmp eq i64 {has}, 0"])


def _member() -> str:
    """A slot: its object, if it was set."""
    return f"""member:
  %at.member = getelementptr i8, ptr %found, i64 {_MEMBER}
  %definition = load ptr, ptr %at.member
  %at.what = getelementptr i8, ptr %definition, i64 {_MEMBER_KIND}
  %what = load i32, ptr %at.what
  %is.object = icmp eq i32 %what, {_OBJECT}
  br i1 %is.object, label %slot, label %ask
slot:
  %at.offset = getelementptr i8, ptr %definition, i64 {_MEMBER_OFFSET}
  %offset = load i64, ptr %at.offset
  %at.value = getelementptr i8, ptr %o, i64 %offset
  %value = load ptr, ptr %at.value
  %unset = icmp eq ptr %value, null
  br i1 %unset, label %ask, label %give
give:
  call void @incref(ptr %value)
  ret ptr %value"""


def _get_property(module: ModuleText) -> str:
    """What a getter returns; where it raises AttributeError, what ``__getattr__`` does."""
    return f"""
define internal ptr @get_property(ptr %getter, ptr %o, ptr %name) nounwind {{
  %given = alloca [2 x ptr]
  call void @incref(ptr %getter)
  store ptr %o, ptr %given
  %call = {module.api_word("PyObject_Vectorcall")}
  %result = call ptr %call(ptr %getter, ptr %given, i64 1, ptr null)
  call void @decref(ptr %getter)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %error, label %done
done:
  ret ptr %result
error:
  %errors = {module.object_word(AttributeError)}
  %matches = {module.api_word("PyErr_ExceptionMatches")}
  %missing = call i32 %matches(ptr %errors)
  %is.missing = icmp ne i32 %missing, 0
  br i1 %is.missing, label %hook, label %done
hook:
  %clear = {module.api_word("PyErr_Clear")}
  call void %clear()
  %second = getelementptr ptr, ptr %given, i64 1
  store ptr %name, ptr %second
  %hook.name = {module.object_word("__getattr__")}
  %hook.call = {module.api_word("PyObject_VectorcallMethod")}
  %answer = call ptr %hook.call(ptr %hook.name, ptr %given, i64 2, ptr null)
  ret ptr %answer
}}"""
