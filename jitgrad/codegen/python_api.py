"""Calling Python's C API from LLVM text.

Owns: ``CFunction``, and ``WORDS``: the block of addresses and offsets through which the text finds Python.
Must not know: what the functions are for (``python_handles``, ``python_hits``).

The text holds no address of this process, so its object code can be cached: a C API function, an object, the offset
of a slot are each a word, filled in by ``compiled/native_hits.py``.
"""

from __future__ import annotations

from jitgrad.codegen.llvm.text import FnBuilder

__all__ = ["API", "BEYOND_A_STAMP", "BINARY", "MAX_POOL", "REFLECTED", "WORDS", "CFunction", "argument", "number_key"]

API = (
    "PyThread_get_thread_ident", "PyTuple_New", "PyTuple_SetItem", "PyDict_GetItemWithError", "PyDict_SetItem",
    "PyType_GenericAlloc", "PyList_New", "PyList_Append", "PyList_GetItem", "PyList_Size", "Py_IncRef", "Py_DecRef",
    "PyObject_IsTrue", "PyObject_CallFunctionObjArgs", "PyObject_Vectorcall", "PyType_IsSubtype", "PyErr_Occurred",
    "PyErr_Clear", "PyLong_FromVoidPtr", "PyWeakref_NewRef", "PyLong_AsLong", "PyLong_FromLong", "PyList_SetItem",
    "PyTuple_GetItem", "PyTuple_Size", "PySet_New", "PySet_Add", "PySet_Contains",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "pow", "rsub")
REFLECTED = ("div",)
_SLOTS = {
    "tensor": ("_tid", "_vid", "_aval", "_requires_grad", "_graph", "_storage", "_grad_fn", "_hooks",
               "_post_accumulate_hooks", "_base", "_vc", "_view_version", "_creation_meta", "_array", "_grad",
               "_retains_grad", "_accumulator", "_output_nr", "__weakref__"),
    "recorder": ("tid", "node", "handles", "graph", "inputs", "buffers", "_slots", "_viewed", "_dirty",
                 "_counted_twice", "picks"),
    "node": ("children", "vid", "aval", "requires_grad", "special", "param_types", "window", "writes"),
    "op": ("num_inputs",),
    "storage": ("addr", "nbytes", "owner"),
    "slot": ("home", "is_family", "is_shared", "older", "others", "owner", "storage"),
}  # fmt: skip
MAX_POOL = 1024
BEYOND_A_STAMP = (
    "_storage _grad_fn _hooks _post_accumulate_hooks _base _vc _view_version _creation_meta _array _grad _retains_grad "
    "_accumulator _output_nr __weakref__"
).split()
_OBJECTS = (
    "recorder thread Tensor Storage Slot float int list True False None simple views in plain leaf tracked untracked "
    "pool link_view write write_checks override_classes slow_apply slow_apply_inplace slow_enter slow_assignments "
    "fresh pending view"
).split()

WORDS: dict[str, int] = {
    name: nr
    for nr, name in enumerate(
        [
            *_OBJECTS,
            *API,
            *(f"{owner}.{slot}" for owner, slots in _SLOTS.items() for slot in slots),
            *(f"op {name}" for name in BINARY),
            *(f"slow {name}" for name in BINARY),
            *(f"slow r{name}" for name in REFLECTED),
        ]
    )
}
_VARARGS = frozenset({"PyObject_CallFunctionObjArgs"})


class CFunction(FnBuilder):
    """A C function in terms of words, slots and API calls."""

    __slots__ = ()

    def word(self, name: str, kind: str = "ptr") -> str:
        return self.op(f"load {kind}, ptr {self.op(f'getelementptr i64, ptr @words, i64 {WORDS[name]}')}")

    def api(self, name: str, result: str, *args: str) -> str:
        """Call a C API function; its address is in a word, so the module needs no symbols."""
        function = self.word(name)
        kind = "ptr (ptr, ...)" if name in _VARARGS else result
        if result == "void":
            self.do(f"call void {function}({', '.join(args)})")
            return ""
        return self.op(f"call {kind} {function}({', '.join(args)})")

    def _address(self, obj: str, slot: str) -> str:
        return self.op(f"getelementptr i8, ptr {obj}, i64 {self.word(slot, 'i64')}")

    def get(self, obj: str, slot: str) -> str:
        """The object in a slot (borrowed; null if never set)."""
        return self.op(f"load ptr, ptr {self._address(obj, slot)}")

    def set(self, obj: str, slot: str, value: str) -> None:
        """Put an object into a slot, dropping what was there."""
        at = self._address(obj, slot)
        old = self.op(f"load ptr, ptr {at}")
        self.api("Py_IncRef", "void", f"ptr {value}")
        self.do(f"store ptr {value}, ptr {at}")
        self.api("Py_DecRef", "void", f"ptr {old}")  # null is allowed

    def fill(self, obj: str, slot: str, value: str) -> None:
        """``set`` for a slot of a new object."""
        self.api("Py_IncRef", "void", f"ptr {value}")
        self.do(f"store ptr {value}, ptr {self._address(obj, slot)}")

    def leave_unless(self, cond: str, exit_label: str) -> None:
        """Go on only if the i1 is true."""
        following = self.label("on")
        self.do(f"br i1 {cond}, label %{following}, label %{exit_label}")
        self.start(following)

    def same(self, a: str, b: str) -> str:
        return self.op(f"icmp eq ptr {a}, {b}")

    def differ(self, a: str, b: str) -> str:
        return self.op(f"icmp ne ptr {a}, {b}")

    def present(self, a: str) -> str:
        return self.differ(a, "null")

    def type_of(self, obj: str) -> str:
        return self.op(f"load ptr, ptr {self.op(f'getelementptr i64, ptr {obj}, i64 1')}")

    def pack(self, *items: str) -> str:
        """A new tuple of borrowed items."""
        made = self.api("PyTuple_New", "ptr", f"i64 {len(items)}")
        for nr, item in enumerate(items):
            self.api("Py_IncRef", "void", f"ptr {item}")
            self.api("PyTuple_SetItem", "i32", f"ptr {made}", f"i64 {nr}", f"ptr {item}")
        return made

    def drop(self, obj: str) -> None:
        self.api("Py_DecRef", "void", f"ptr {obj}")

    def clear_error(self) -> None:
        """A look-up that failed by an exception is a miss: the Python path will raise it again, if it is real."""
        failed = self.present(self.api("PyErr_Occurred", "ptr"))
        with self.when(failed):
            self.api("PyErr_Clear", "void")

    def active_recorder(self, slow: str) -> str:
        """This thread's recorder."""
        rec = self.word("recorder")
        self.leave_unless(self.present(rec), slow)
        here = self.api("PyThread_get_thread_ident", "i64")
        self.leave_unless(self.op(f"icmp eq i64 {here}, {self.word('thread', 'i64')}"), slow)
        return rec

    def is_tensor(self, obj: str) -> str:
        """i1: an instance of Tensor or of a subclass."""
        kind = self.type_of(obj)
        sub = self.api("PyType_IsSubtype", "i32", f"ptr {kind}", f"ptr {self.word('Tensor')}")
        return self.op(f"icmp ne i32 {sub}, 0")

    def vid(self, rec: str, tensor: str, slow: str) -> str:
        """The value id of a tensor (borrowed), entering it if it is new."""
        found = self.op(f"call ptr @vid_of(ptr {rec}, ptr {tensor})")
        self.leave_unless(self.present(found), slow)
        return found

    def child(self, rec: str, key: str, slow: str) -> str:
        """The trie node under a new key, which is dropped; borrowed, as its parent keeps it."""
        children = self.get(self.get(rec, "recorder.node"), "node.children")
        node = self.api("PyDict_GetItemWithError", "ptr", f"ptr {children}", f"ptr {key}")
        self.drop(key)
        with self.when(self.same(node, "null")):
            self.clear_error()
        self.leave_unless(self.present(node), slow)
        return node


def argument(b: CFunction, index: str) -> str:
    """An argument of a METH_FASTCALL function (borrowed)."""
    return b.op(f"load ptr, ptr {b.op(f'getelementptr ptr, ptr %args, i64 {index}')}")


def number_key(b: CFunction, number: str, slow: str) -> str:
    """(value, type) of a plain float or int that is not zero; a new tuple. (A NaN is never found, so it goes slow.)"""
    kind = b.type_of(number)
    plain = b.op(f"or i1 {b.same(kind, b.word('float'))}, {b.same(kind, b.word('int'))}")
    b.leave_unless(plain, slow)
    truth = b.api("PyObject_IsTrue", "i32", f"ptr {number}")
    b.leave_unless(b.op(f"icmp eq i32 {truth}, 1"), slow)
    return b.pack(number, kind)
