"""Where CPython keeps what: offsets inside objects, measured and checked in this process.

Owns: ``slot_offset``, ``class_of_slot``, ``why_unknown``.
Must not know: what the objects are for.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import os
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from jitgrad.cpython.build import is_known_interpreter
from jitgrad.cpython.kept import keep_for_ever
from jitgrad.cpython.liveness import counts_references

__all__ = [
    "DICT_USED",
    "DIGITS",
    "INT_HEAD",
    "ITEMS",
    "LIST_ALLOCATED",
    "LIST_ITEMS",
    "NUMBER_SLOTS",
    "SET_USED",
    "SIZE",
    "TYPE",
    "TYPE_FLAGS",
    "TYPE_VERSION",
    "class_of_hint",
    "class_of_slot",
    "compare_slot",
    "count_place",
    "finds_attributes",
    "followed_version",
    "function_runner",
    "getattr_slot",
    "int_layout",
    "is_slot",
    "number_slots",
    "slot_offset",
    "small_int_size",
    "thread_is_own_address",
    "type_runner",
    "type_version",
    "vectorcall_offset",
    "why_unknown",
]  # fmt: skip

TYPE, SIZE, ITEMS, LIST_ITEMS, LIST_ALLOCATED, DICT_USED, SET_USED = 8, 16, 24, 24, 32, 16, 24
"""Offsets: of an object's type, a list's or tuple's length, a tuple's first item, the address of a list's items, how
many items that address has room for, how many keys a dictionary has, how many members a set has."""

TYPE_VERSION = 384
"""Offset in a type: of its version, 32 bits."""

INT_HEAD, DIGITS = 16, 24
"""Offsets in an int: of the word with its sign and number of digits, of its first digit."""

_VECTORCALL, _AS_NUMBER, _GETATTRO, TYPE_FLAGS, _RICHCOMPARE = 56, 96, 144, 168, 200
"""Offsets in a type: of where its objects keep the address of what calls them, of the address of its number slots, of
its slot for attributes, of its flags, of its slot for comparisons."""

NUMBER_SLOTS = {
    "nb_add": 0, "nb_subtract": 1, "nb_multiply": 2, "nb_remainder": 3, "nb_power": 5, "nb_negative": 6,
    "nb_invert": 10, "nb_and": 13, "nb_xor": 14, "nb_or": 15, "nb_floor_divide": 29, "nb_true_divide": 30,
    "nb_matrix_multiply": 34,
}  # fmt: skip
"""Slot -> which word of them it is (``PyNumberMethods``)."""

_NUMBER_METHODS = {
    "nb_add": "__add__", "nb_subtract": "__sub__", "nb_multiply": "__mul__", "nb_remainder": "__mod__",
    "nb_power": "__pow__", "nb_negative": "__neg__", "nb_invert": "__invert__", "nb_and": "__and__",
    "nb_xor": "__xor__", "nb_or": "__or__", "nb_floor_divide": "__floordiv__", "nb_true_divide": "__truediv__",
    "nb_matrix_multiply": "__matmul__",
}  # fmt: skip
_NUMBER_WORDS = 36


def compare_slot(cls: type) -> Any:
    """The word of a class's ``tp_richcompare``, which can be written."""
    return ctypes.c_size_t.from_address(id(cls) + _RICHCOMPARE)


def getattr_slot(cls: type) -> Any:
    """The word of a class's ``tp_getattro``, which can be written."""
    return ctypes.c_size_t.from_address(id(cls) + _GETATTRO)


def finds_attributes() -> bool:
    """Whether native code is to find attributes of tensors, see Note [Attributes of tensors].

    Asked: the version, and each offset that this needs.
    """
    if sys.version_info >= (3, 12) or not dict_offsets(_Open):
        return False
    member = _word(id(_Probe.__dict__["second"]) + 5 * 8)
    getter = _word(id(_Asked.__dict__["asked"]) + 16)
    is_object = ctypes.c_int32.from_address(member + 8).value == 16
    asks, usual = getattr_slot(_Asked).value, getattr_slot(_Probe).value
    is_slot = asks != usual == getattr_slot(object).value and asks == getattr_slot(_AskedToo).value
    return is_object and is_slot and getter == id(_Asked.__dict__["asked"].fget)


def number_slots(cls: type) -> Any:
    """The words of a class's number slots, which can be written."""
    return (ctypes.c_size_t * _NUMBER_WORDS).from_address(_word(id(cls) + _AS_NUMBER))


def vectorcall_offset() -> int:
    """Where a Python function keeps the address of the C function that runs it."""
    return _word(id(FunctionType) + _VECTORCALL)


def type_version(cls: type) -> int:
    """A number that is another one, or 0, once a class or one of its bases was changed; 0: it cannot be known."""
    changed = type("Changed", (_Probe,), {"__slots__": ()})
    versions = [_version(changed)]
    changed.added = None  # type: ignore[attr-defined]
    versions.append(ctypes.c_uint32.from_address(id(changed) + TYPE_VERSION).value)
    return _version(cls) if versions[0] != 0 and versions[1] == 0 and _version(changed) != versions[0] else 0


def followed_version(cls: type) -> tuple[int, Callable[[], None]]:
    """(address of a word with a class's ``type_version``, what looks whether objects are made as now and renews it).

    The version changes with any attribute, and where the interpreter clears its caches.
    """
    word, usual = ctypes.c_uint64(type_version(cls)), (cls.__new__, cls.__init__)  # type: ignore[misc]
    keep_for_ever(word)

    def renew() -> None:
        if (cls.__new__, cls.__init__) == usual and word.value != _version(cls):  # type: ignore[misc]
            word.value = type_version(cls)

    return ctypes.addressof(word), renew


def _version(cls: type) -> int:
    """A look at an attribute gives a class its number."""
    getattr(cls, "__hash__")  # noqa: B009
    return ctypes.c_uint32.from_address(id(cls) + TYPE_VERSION).value


def type_runner(cls: type) -> Any:
    """The word of a class with the address of the C function that calls it, which can be written; usually 0."""
    return ctypes.c_size_t.from_address(id(cls) + _word(id(type) + _VECTORCALL))


def function_runner() -> int:
    """The address of the C function that runs Python functions."""
    find = ctypes.pythonapi.PyVectorcall_Function
    find.argtypes, find.restype = [ctypes.py_object], ctypes.c_void_p
    return int(find(function_runner))


_INTS = (0, 1, -1, 257, -258, (1 << 30) - 1, 1 << 30, (1 << 47) + 5, -(1 << 40), 1 << 60)


def int_layout() -> str:
    """What the head of an int says: "sign and size" until CPython 3.11, later "tag"; empty: something else."""
    found = [(n, _word(id(n) + INT_HEAD), _digits_of(n)) for n in _INTS]
    for layout, head in (("sign and size", _size_of), ("tag", _tag_of)):
        if all((word, digits) == (head(n), _expected_digits(n)) for n, word, digits in found):
            return layout
    return ""


def count_place() -> int:
    """The byte of an ``itertools.count`` at which its next number is, as a word; -1: it has none there."""
    series = itertools.count(5)
    at = id(series) + INT_HEAD  # the first word behind an object's head
    if _word(at) != 5:
        return -1
    ctypes.c_int64.from_address(at).value = 70
    return INT_HEAD if (next(series), next(series), _word(at)) == (70, 71, 72) else -1


def _digits_of(n: int) -> list[int]:
    return [ctypes.c_uint32.from_address(id(n) + DIGITS + 4 * nr).value for nr in range(len(_expected_digits(n)))]


def _expected_digits(n: int) -> list[int]:
    digits: list[int] = []
    while abs(n) >> 30 * len(digits):
        digits.append(abs(n) >> 30 * len(digits) & (1 << 30) - 1)
    return digits


def _size_of(n: int) -> int:
    size = len(_expected_digits(n))
    return size if n >= 0 else (1 << 64) - size


def _tag_of(n: int) -> int:
    return len(_expected_digits(n)) << 3 | (1 if n == 0 else 2 if n < 0 else 0)


def small_int_size() -> int:
    """How far apart the ints from -5 to 256 lie, of which there is one object each; 0: they are no row."""
    size, ints = id(1) - id(0), range(-5, 257)
    return size if all(id(n) == id(0) + n * size for n in ints) else 0


def thread_is_own_address() -> bool:
    """Whether a thread's identifier is the address of a word that holds it: of the first word of the segment FS.

    That is what the x86-64 ABI of Linux says of this word, and both libraries of C take its address for the thread.
    """
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return False
    return _word(threading.get_ident()) == threading.get_ident()


def slot_offset(cls: type, name: str) -> int:
    """Where a ``__slots__`` member lies in its objects (``PyMemberDescrObject.d_member->offset``).

    Raises:
        AttributeError: no class in the MRO has such a slot.
    """
    if name == "__weakref__":
        return cls.__weakrefoffset__
    for base in cls.__mro__:
        if name in base.__dict__:
            member = ctypes.c_void_p.from_address(id(base.__dict__[name]) + 5 * 8).value
            assert member is not None
            return ctypes.c_ssize_t.from_address(member + 2 * 8).value
    raise AttributeError(f"{cls.__name__} has no slot {name}")


def dict_offsets(cls: type) -> tuple[int, ...]:
    """Where objects have their attributes: the dictionary, and values that may stand for one; all 0: there are none.

    Measured on an object of a class with the slots ``__dict__`` and ``__weakref__``.
    """
    if cls.__dictoffset__ >= 0:
        return (cls.__dictoffset__,) if cls.__dictoffset__ else ()
    probe = _Open()
    bare = [_word(id(probe) + offset) for offset in _BEFORE]
    probe.__dict__["first"] = None
    kept: dict[str, object] = {}
    probe.__dict__ = kept
    found = [offset for offset in _BEFORE if _word(id(probe) + offset) == id(kept)]
    return (*found, *(offset for offset, word in zip(_BEFORE, bare, strict=True) if word and offset not in found))


def is_slot(cls: type, name: str) -> bool:
    """Whether objects of a class keep the attribute in a ``__slots__`` member."""
    found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return type(found).__name__ == "member_descriptor"


def class_of_slot(cls: type, name: str) -> Any:
    """The class that a slot's annotation promises (without ``| None``); None if it says nothing that helps."""
    for base in cls.__mro__:
        hint = inspect.get_annotations(base).get(name)
        if hint is not None:
            return class_of_hint(hint, vars(sys.modules[base.__module__]))
    return None


def class_of_hint(hint: Any, names: dict[str, Any]) -> Any:
    """``list`` for ``"list[Any]"``, ``TrieNode`` for ``"TrieNode | None"``; None for ``Any`` and what is unknown."""
    if isinstance(hint, type):
        return None if hint is Any else hint  # since 3.11 ``Any`` is a class itself
    text = str(hint).removesuffix("| None").strip().split("[")[0]
    builtin = {"list": list, "dict": dict, "set": set, "tuple": tuple, "int": int, "bool": bool, "float": float}
    found = builtin.get(text, names.get(text))
    return found if isinstance(found, type) and found is not Any else None


class _Probe:
    """An object whose slot is looked at through its address."""

    __slots__ = ("first", "second")

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


_BEFORE = (-32, -24)
"""What lies before an object, and before the collector's two words."""


class _Open:
    """A class whose objects take any attribute."""

    __slots__ = ("__dict__", "__weakref__")


class _Asked:
    """A class whose objects are asked for what they have not."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    @property
    def asked(self) -> None:
        """There for its getter."""


class _AskedToo(_Asked):
    """Another one."""

    __slots__ = ()


class _Compared:
    """A class with a comparison of its own."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def why_unknown() -> str:
    """Why native code must not touch this interpreter's objects; empty if it may.

    Asked: CPython, 64 bits, little-endian, built with the GIL, a version whose structs were checked, and each offset
    that native code uses, on objects of this process.
    """
    if not is_known_interpreter():
        return f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]} was never checked"
    if sys.byteorder != "little":
        return "not a little-endian machine"
    return _misplaced() if counts_references else "no reference counts"


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _misplaced() -> str:
    items = (object(), object(), object())
    listed = [*items, object()]
    members = {1, 2, 3, 4}
    members.discard(1)  # its place is still taken
    five, table = [None] * 5, {"a": 1, "b": 2, "c": 3}  # held: what dies at once may not be there when it is read
    probe = _Probe(items[0], items[1])
    expected = {
        "a type": (_word(id(probe) + TYPE), id(_Probe)),
        "a tuple's length": (_word(id(items) + SIZE), 3),
        "a tuple's item": (_word(id(items) + ITEMS + 8), id(items[1])),
        "a list's length": (_word(id(listed) + SIZE), 4),
        "a list's item": (_word(_word(id(listed) + LIST_ITEMS) + 16), id(items[2])),
        "a list's room": (_word(id(five) + LIST_ALLOCATED), 5),
        "how many keys": (_word(id(table) + DICT_USED), 3),
        "how many members": (_word(id(members) + SET_USED), 3),
        "a slot": (_word(id(probe) + slot_offset(_Probe, "second")), id(items[1])),
        "a float's value": (_word(id(1.0) + 16), 0x3FF0000000000000),
        "a comparison": (compare_slot(_Compared).value != compare_slot(object).value, True),
        "an inherited comparison": (compare_slot(_Probe).value, compare_slot(object).value),
        "attributes": (len(dict_offsets(_Open)) > 0, True),
        "a type's flags": (_word(id(_Probe) + TYPE_FLAGS), _Probe.__flags__),
        "what runs a class": (type_runner(list).value != 0 and type_runner(_Probe).value == 0, True),
        "what runs a function": (_word(id(_word) + vectorcall_offset()), function_runner()),
        "a reference count": (ctypes.c_uint32.from_address(id(probe)).value, 1),
    }
    wrong = [what for what, (found, wanted) in expected.items() if found != wanted]
    wrong += [slot for slot, method in _NUMBER_METHODS.items() if _filled_slots(method) != [NUMBER_SLOTS[slot]]]
    return f"{', '.join(wrong)} is not where it is expected" if wrong else ""


def _filled_slots(name: str) -> list[int]:
    """Which number slots a class has that defines one special method."""
    number = type("Number", (), {name: lambda *operands: None})
    filled = [nr for nr, word in enumerate(number_slots(number)) if word]
    del number  # not earlier: the words lie in it
    return filled
