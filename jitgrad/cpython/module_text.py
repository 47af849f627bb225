"""The module of native functions under construction: constants, C API calls, the functions themselves.

Owns: ``ModuleText``, the words through which its text finds this process.
Must not know: Python's syntax (``translate.py``), what the functions are for.

The text holds no address of this process, so its object code can be cached on disk: a Python object and a C API
function are each a word of a table, filled in by ``install.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ModuleText", "Unsupported"]

_VARARGS = {"PyObject_CallFunctionObjArgs": "ptr (ptr, ...)"}


class Unsupported(Exception):
    """A function is not written in the subset, see Note [Native Python]."""


class ModuleText:
    """Text of a module, and the words it needs.

    Attributes:
        functions: Python function -> its symbol; every native function.
        objects: the Python objects of the words, in order; an API function stands there by its name.
        usual: class -> the subclass that most of its objects are of; ``isinstance`` looks for that one first.
    """

    def __init__(self, functions: list[Callable[..., Any]], usual: dict[type, type] | None = None) -> None:
        self.usual = usual or {}
        self.functions = {function: f"py_{function.__name__}" for function in functions}
        self.objects: list[Any] = []
        self._object_words: dict[int, int] = {}
        self._api_words: dict[str, int] = {}
        self.parts: list[str] = []

    def object_word(self, value: Any) -> str:
        """The load of a Python constant."""
        nr = self._object_words.get(id(value))
        if nr is None:
            nr = self._object_words[id(value)] = len(self.objects)
            self.objects.append(("object", value))
        return self._load(nr)

    def api_word(self, name: str) -> str:
        """The load of a C API function's address."""
        nr = self._api_words.get(name)
        if nr is None:
            nr = self._api_words[name] = len(self.objects)
            self.objects.append(("api", name))
        return self._load(nr)

    @staticmethod
    def _load(nr: int) -> str:
        return f"load ptr, ptr getelementptr (i64, ptr @words, i64 {nr}), !invariant.load !0"

    def text(self, entries: list[str]) -> str:
        """The whole module; ``native_hits(i)`` is the address of entry i, ``native_hits(-1)`` that of the words."""
        table = ", ".join(f"ptr @{name}" for name in entries)
        head = [
            f"@words = internal global [{len(self.objects)} x i64] zeroinitializer",
            f"@entries = internal constant [{len(entries)} x ptr] [{table}]",
            *self.parts,
            "define i64 @native_hits(i64 %nr) {",
            "  %negative = icmp slt i64 %nr, 0",
            "  br i1 %negative, label %words, label %entry",
            "words:",
            "  %w = ptrtoint ptr @words to i64",
            "  ret i64 %w",
            "entry:",
            "  %at = getelementptr ptr, ptr @entries, i64 %nr",
            "  %e = load i64, ptr %at",
            "  ret i64 %e",
            "}",
            "!0 = !{}",
        ]
        return "\n".join(head) + "\n"
