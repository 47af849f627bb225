"""The recorder's hits as native code that calls Python's C API.

Owns: the LLVM text of Note [Native hits]: operators, ``apply``, ``enter``, ``alive``.
Must not know: the recorder's Python code. It sees slots at offsets, and functions and objects at addresses.
In: a block of words, see ``WORDS``, filled by ``compiled/native_hits.py``. Out: C functions for method tables.

# Note [Native hits]
# ~~~~~~~~~~~~~~~~~~
# A hit is one dict look-up and one handle, and in Python it costs ten times that in bytecode. These functions are the
# fast paths of ``tracer/recorder.py`` again, over the same objects: same keys, same dicts, same slots. They do hits and
# nothing else; whatever is unusual - no recorder, another thread's recorder, a miss, a number that was promoted, a zero
# (whose sign a key must keep), NaN, a subclass of int - goes to the Python function that they stand before. So they can
# be left away at any time, and are where the interpreter is not one they know.
# Handles that nobody wants any more when a segment ends are kept in a pool, and made anew from there: half of what a
# handle costs is allocating it and freeing it. Only handles that were never more than a stamp go there.
# All objects that are held across a call which may run Python code are owned references or kept by such.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.codegen.text import FnBuilder

__all__ = ["API", "BINARY", "ENTRY_POINTS", "REFLECTED", "WORDS", "module_text"]

API = (
    "PyThread_get_thread_ident", "PyTuple_New", "PyTuple_SetItem", "PyDict_GetItemWithError", "PyDict_SetItem",
    "PyType_GenericAlloc", "PyList_New", "PyList_Append", "PyList_GetItem", "PyList_Size", "Py_IncRef", "Py_DecRef",
    "PyObject_IsTrue", "PyObject_CallFunctionObjArgs", "PyObject_Vectorcall", "PyType_IsSubtype", "PyErr_Occurred",
    "PyErr_Clear", "PyLong_FromVoidPtr", "PyWeakref_NewRef", "PyLong_AsLong",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "pow")
REFLECTED = ("sub", "div")
_SLOTS = {
    "tensor": ("_tid", "_vid", "_aval", "_requires_grad", "_graph", "_storage", "_grad_fn", "_hooks",
               "_post_accumulate_hooks", "_base", "_vc", "_view_version", "_array", "_grad", "_retains_grad",
               "_accumulator", "_output_nr", "__weakref__"),
    "recorder": ("tid", "node", "handles", "graph", "inputs", "buffers", "_slots", "_viewed"),
    "node": ("children", "vid", "aval", "requires_grad", "special", "param_types", "window"),
    "op": ("num_inputs",),
    "storage": ("addr", "nbytes", "owner"),
    "slot": ("home", "is_shared", "older", "others", "owner", "storage"),
}  # fmt: skip
_MAX_POOL = 1024
_BEYOND_A_STAMP = (
    "_storage _grad_fn _hooks _post_accumulate_hooks _base _vc _view_version _array _grad _retains_grad _accumulator "
    "_output_nr __weakref__"
).split()
_OBJECTS = (
    "recorder thread Tensor Storage Slot float int True False None simple views in plain leaf tracked untracked pool "
    "link_view slow_apply slow_enter"
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
ENTRY_POINTS = (*(f"op_{n}" for n in BINARY), *(f"op_r{n}" for n in REFLECTED), "apply", "enter", "alive", "activate")
_VARARGS = frozenset({"PyObject_CallFunctionObjArgs"})


class _Fn(FnBuilder):
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


def _vid_of() -> str:
    b = _Fn("vid_of", "ptr %rec, ptr %t")
    enter = b.label("enter")
    stamp = b.get("%t", "tensor._tid")
    b.leave_unless(b.same(stamp, b.get("%rec", "recorder.tid")), enter)
    b.do(f"ret ptr {b.get('%t', 'tensor._vid')}")
    b.start(enter)
    return b.finish(f"ret ptr {b.op('call ptr @enter_new(ptr %rec, ptr %t)')}", "ptr")


def _is_unset(b: _Fn, obj: str, slot: str, slow: str) -> None:
    """Go on only if a slot is unset or None."""
    value = b.get(obj, slot)
    unset = b.op(f"or i1 {b.same(value, 'null')}, {b.same(value, b.word('None'))}")
    b.leave_unless(unset, slow)


def _enter_new() -> str:
    """``Recorder.enter`` for a storage that the call has not seen; null means: ask Python."""
    b = _Fn("enter_new", "ptr %rec, ptr %t")
    slow, seen, leaf, plain, known = (b.label(n) for n in ("slow", "seen", "leaf", "plain", "known"))
    storage = b.get("%t", "tensor._storage")
    b.leave_unless(b.present(storage), slow)
    b.leave_unless(b.differ(storage, b.word("None")), slow)
    _is_unset(b, "%t", "tensor._base", slow)
    b.do(f"br i1 {b.same(b.get('%t', 'tensor._requires_grad'), b.word('True'))}, label %{leaf}, label %{plain}")
    b.start(leaf)
    for slot in ("_grad_fn", "_graph", "_hooks", "_post_accumulate_hooks"):
        _is_unset(b, "%t", f"tensor.{slot}", slow)
    leaf_kind, leaf_block = b.word("leaf"), b.block
    b.do(f"br label %{known}")
    b.start(plain)
    plain_kind = b.word("plain")
    b.do(f"br label %{known}")
    b.start(known)
    kind = b.op(f"phi ptr [ {leaf_kind}, %{leaf_block} ], [ {plain_kind}, %{plain} ]")
    address = b.api("PyLong_FromVoidPtr", "ptr", f"ptr {storage}")
    slots = b.get("%rec", "recorder._slots")
    other = b.api("PyDict_GetItemWithError", "ptr", f"ptr {slots}", f"ptr {address}")
    b.leave_unless(b.same(other, "null"), seen)
    node = b.child("%rec", b.pack(b.word("in"), b.get("%t", "tensor._aval"), kind), seen)
    b.set("%rec", "recorder.node", node)
    vid = b.get(node, "node.vid")
    b.set("%t", "tensor._tid", b.get("%rec", "recorder.tid"))
    b.set("%t", "tensor._vid", vid)
    b.api("PyDict_SetItem", "i32", f"ptr {b.get('%rec', 'recorder.inputs')}", f"ptr {vid}", "ptr %t")
    b.api("PyDict_SetItem", "i32", f"ptr {b.get('%rec', 'recorder.buffers')}", f"ptr {vid}", f"ptr {storage}")
    slot = b.api("PyType_GenericAlloc", "ptr", f"ptr {b.word('Slot')}", "i64 0")
    _fill_slot(b, slot, storage, "%t", b.word("None"), vid)
    b.api("PyDict_SetItem", "i32", f"ptr {slots}", f"ptr {address}", f"ptr {slot}")
    b.drop(slot)
    b.drop(address)
    b.do(f"ret ptr {vid}")
    b.start(seen)
    b.drop(address)
    b.do(f"br label %{slow}")
    b.start(slow)
    return b.finish("ret ptr null", "ptr")


def _list_words(b: _Fn, items: str) -> tuple[str, str]:
    """Addresses of a list's size and of its item array (``PyListObject``)."""
    size = b.op(f"getelementptr i64, ptr {items}, i64 2")
    return size, b.op(f"load ptr, ptr {b.op(f'getelementptr i64, ptr {items}, i64 3')}")


def _blank_handle() -> str:
    """A handle from the pool, stamp and all, or a new one; the caller owns it."""
    b = _Fn("blank_handle", "")
    make = b.label("make")
    size, items = _list_words(b, b.word("pool"))
    count = b.op(f"load i64, ptr {size}")
    b.leave_unless(b.op(f"icmp sgt i64 {count}, 0"), make)
    last = b.op(f"sub i64 {count}, 1")
    handle = b.op(f"load ptr, ptr {b.op(f'getelementptr ptr, ptr {items}, i64 {last}')}")
    b.do(f"store i64 {last}, ptr {size}")  # the list's reference is the caller's now
    b.do(f"ret ptr {handle}")
    b.start(make)
    made = b.api("PyType_GenericAlloc", "ptr", f"ptr {b.word('Tensor')}", "i64 0")
    return b.finish(f"ret ptr {made}", "ptr")


def _retire() -> str:
    """Put a handle that only its list holds into the pool, if it is no more than a stamp and the pool has room."""
    b = _Fn("retire", "ptr %handle")
    no = b.label("no")
    pool = b.word("pool")
    size, _ = _list_words(b, pool)
    b.leave_unless(b.op(f"icmp slt i64 {b.op(f'load i64, ptr {size}')}, {_MAX_POOL}"), no)
    b.leave_unless(b.same(b.type_of("%handle"), b.word("Tensor")), no)
    for slot in _BEYOND_A_STAMP:
        b.leave_unless(b.same(b.get("%handle", f"tensor.{slot}"), "null"), no)
    graph_at = b._address("%handle", "tensor._graph")
    graph = b.op(f"load ptr, ptr {graph_at}")
    b.do(f"store ptr null, ptr {graph_at}")
    b.drop(graph)
    b.api("PyList_Append", "i32", f"ptr {pool}", "ptr %handle")
    b.do("ret void")
    b.start(no)
    return b.finish("ret void", "void")


def _fill_slot(b: _Fn, slot: str, storage: str, home: str, others: str, owner: str) -> None:
    values = {"storage": storage, "home": home, "others": others, "owner": owner}
    values |= {"older": b.word("None"), "is_shared": b.word("False")}
    for name, value in values.items():
        b.fill(slot, f"slot.{name}", value)


def _is_missing(b: _Fn, value: str) -> str:
    return b.op(f"or i1 {b.same(value, 'null')}, {b.same(value, b.word('None'))}")


def _give_pending_storage(b: _Fn) -> None:
    """``Storage.pending()`` for a value of the trace that gets its first view."""
    storage = b.api("PyType_GenericAlloc", "ptr", f"ptr {b.word('Storage')}", "i64 0")
    zero = b.word("simple")  # the int 0
    b.fill(storage, "storage.addr", zero)
    b.fill(storage, "storage.nbytes", zero)
    b.fill(storage, "storage.owner", b.word("None"))
    b.set("%source", "tensor._storage", storage)
    b.drop(storage)


def _link_new() -> str:
    """``Recorder._link_view`` where nothing has to be made but a slot and references; 0 means: ask Python."""
    b = _Fn("link_new", "ptr %rec, ptr %node, ptr %out, ptr %source")
    slow, found, make, linked = (b.label(n) for n in ("slow", "found", "make", "linked"))
    window = b.get("%node", "node.window")
    b.leave_unless(b.differ(window, b.word("untracked")), slow)
    with b.when(_is_missing(b, b.get("%source", "tensor._storage"))):
        _give_pending_storage(b)
    with b.when(b.same(b.get("%source", "tensor._vc"), "null")):
        counter = b.api("PyList_New", "ptr", "i64 0")
        b.api("PyList_Append", "i32", f"ptr {counter}", f"ptr {b.word('simple')}")  # the int 0
        b.set("%source", "tensor._vc", counter)
        b.drop(counter)
    storage, version = b.get("%source", "tensor._storage"), b.get("%source", "tensor._vc")
    slots, address = b.get("%rec", "recorder._slots"), b.api("PyLong_FromVoidPtr", "ptr", f"ptr {storage}")
    known = b.api("PyDict_GetItemWithError", "ptr", f"ptr {slots}", f"ptr {address}")
    from_entry = b.block
    b.do(f"br i1 {b.present(known)}, label %{found}, label %{make}")
    b.start(make)
    made = b.api("PyType_GenericAlloc", "ptr", f"ptr {b.word('Slot')}", "i64 0")
    home = b.api("PyWeakref_NewRef", "ptr", "ptr %source", "ptr null")
    _fill_slot(b, made, storage, home, b.word("None"), b.get("%source", "tensor._vid"))
    b.drop(home)
    b.api("PyDict_SetItem", "i32", f"ptr {slots}", f"ptr {address}", f"ptr {made}")
    b.drop(made)
    from_make = b.block
    b.do(f"br label %{found}")
    b.start(found)
    slot = b.op(f"phi ptr [ {known}, %{from_entry} ], [ {made}, %{from_make} ]")
    b.drop(address)
    with b.when(b.same(b.get(slot, "slot.others"), b.word("None"))):
        others = b.api("PyList_New", "ptr", "i64 0")
        b.set(slot, "slot.others", others)
        b.drop(others)
        b.api("PyList_Append", "i32", f"ptr {b.get('%rec', 'recorder._viewed')}", f"ptr {slot}")
    reference = b.api("PyWeakref_NewRef", "ptr", "ptr %out", "ptr null")
    b.api("PyList_Append", "i32", f"ptr {b.get(slot, 'slot.others')}", f"ptr {reference}")
    b.drop(reference)
    b.fill("%out", "tensor._storage", storage)
    b.fill("%out", "tensor._vc", version)
    b.leave_unless(b.same(window, b.word("tracked")), linked)
    base = b.get("%source", "tensor._base")
    has_base = b.op(f"and i1 {b.present(base)}, {b.differ(base, b.word('None'))}")
    b.fill("%out", "tensor._base", b.op(f"select i1 {has_base}, ptr {base}, ptr %source"))
    b.fill("%out", "tensor._view_version", b.api("PyList_GetItem", "ptr", f"ptr {version}", "i64 0"))
    b.do(f"br label %{linked}")
    b.start(linked)
    b.do("ret i32 1")
    b.start(slow)
    return b.finish("ret i32 0", "i32")


def _new_handle() -> str:
    """The handle of a hit, and the step down the trie."""
    b = _Fn("new_handle", "ptr %rec, ptr %node")
    b.set("%rec", "recorder.node", "%node")
    out = b.op("call ptr @blank_handle()")
    b.set(out, "tensor._tid", b.get("%rec", "recorder.tid"))
    b.set(out, "tensor._vid", b.get("%node", "node.vid"))
    b.set(out, "tensor._aval", b.get("%node", "node.aval"))
    needs = b.get("%node", "node.requires_grad")
    b.set(out, "tensor._requires_grad", needs)
    with b.when(b.same(needs, b.word("True"))):
        b.fill(out, "tensor._graph", b.get("%rec", "recorder.graph"))
    b.api("PyList_Append", "i32", f"ptr {b.get('%rec', 'recorder.handles')}", f"ptr {out}")
    return b.finish(f"ret ptr {out}", "ptr")


def _number_key(b: _Fn, number: str, slow: str) -> str:
    """(value, type) of a plain float or int that is not zero; a new tuple. (A NaN is never found, so it goes slow.)"""
    kind = b.type_of(number)
    plain = b.op(f"or i1 {b.same(kind, b.word('float'))}, {b.same(kind, b.word('int'))}")
    b.leave_unless(plain, slow)
    truth = b.api("PyObject_IsTrue", "i32", f"ptr {number}")
    b.leave_unless(b.op(f"icmp eq i32 {truth}, 1"), slow)
    return b.pack(number, kind)


def _finish_simple(b: _Fn, rec: str, key: str, slow: str) -> None:
    node = b.child(rec, key, slow)
    b.leave_unless(b.same(b.get(node, "node.special"), b.word("simple")), slow)
    b.do(f"ret ptr {b.op(f'call ptr @new_handle(ptr {rec}, ptr {node})')}")


def _call_slow(b: _Fn, slow: str, word: str) -> str:
    b.start(slow)
    out = b.api("PyObject_CallFunctionObjArgs", "ptr", f"ptr {b.word(word)}", "ptr %self", "ptr %other", "ptr null")
    return b.finish(f"ret ptr {out}", "ptr")


def _binary(name: str) -> str:
    """``self op other``: a tensor, and a tensor or a number."""
    b = _Fn(f"op_{name}", "ptr %self, ptr %other")
    slow, number = b.label("slow"), b.label("number")
    rec = b.active_recorder(slow)
    a = b.vid(rec, "%self", slow)
    b.leave_unless(b.is_tensor("%other"), number)
    _finish_simple(b, rec, b.pack(b.word(f"op {name}"), a, b.vid(rec, "%other", slow)), slow)
    b.start(number)
    value = _number_key(b, "%other", slow)
    key = b.pack(b.word(f"op {name}"), a, value)
    b.drop(value)
    _finish_simple(b, rec, key, slow)
    return _call_slow(b, slow, f"slow {name}")


def _reflected(name: str) -> str:
    """``number op self``."""
    b = _Fn(f"op_r{name}", "ptr %self, ptr %other")
    slow = b.label("slow")
    rec = b.active_recorder(slow)
    a = b.vid(rec, "%self", slow)
    value = _number_key(b, "%other", slow)
    key = b.pack(b.word(f"op {name}"), value, a)
    b.drop(value)
    _finish_simple(b, rec, key, slow)
    return _call_slow(b, slow, f"slow r{name}")


@contextmanager
def _each(b: _Fn, begin: str, end: str) -> Iterator[str]:
    with b.loop(begin, end) as index:
        yield index


def _argument(b: _Fn, index: str) -> str:
    return b.op(f"load ptr, ptr {b.op(f'getelementptr ptr, ptr %args, i64 {index}')}")


def _tuple_of(b: _Fn, count: str) -> str:
    return b.api("PyTuple_New", "ptr", f"i64 {count}")


def _put(b: _Fn, made: str, index: str, item: str) -> None:
    b.api("Py_IncRef", "void", f"ptr {item}")
    b.api("PyTuple_SetItem", "i32", f"ptr {made}", f"i64 {index}", f"ptr {item}")


def _apply() -> str:
    """``dispatch.apply(op, *inputs, *params)`` where every input is a tensor."""
    b = _Fn("apply", "ptr %module, ptr %args, i64 %nargs")
    slow, one, pair, many, keyed = (b.label(n) for n in ("slow", "one", "pair", "many", "keyed"))
    rec = b.active_recorder(slow)
    b.leave_unless(b.op("icmp sgt i64 %nargs, 1"), slow)
    op = _argument(b, "0")
    count = b.api("PyLong_AsLong", "i64", f"ptr {b.get(op, 'op.num_inputs')}")
    b.leave_unless(b.op(f"icmp sgt i64 {count}, 0"), slow)
    after = b.op(f"add i64 {count}, 1")
    b.leave_unless(b.op(f"icmp sge i64 %nargs, {after}"), slow)
    with b.loop("1", after) as i:
        b.leave_unless(b.is_tensor(_argument(b, i)), slow)
    with b.loop("1", after) as i:  # enter them all before the place in the trie is read
        b.vid(rec, _argument(b, i), slow)
    extra = b.op(f"sub i64 %nargs, {after}")
    params = _tuple_of(b, extra)
    with b.loop("0", extra) as i:
        _put(b, params, i, _argument(b, b.op(f"add i64 {i}, {after}")))
    b.do(f"br i1 {b.op(f'icmp eq i64 {count}, 1')}, label %{one}, label %{pair}")
    b.start(one)
    key_one, from_one = b.pack(op, b.get(_argument(b, "1"), "tensor._vid"), params), b.block
    b.do(f"br label %{keyed}")
    b.start(pair)
    is_pair = b.op(f"and i1 {b.op(f'icmp eq i64 {count}, 2')}, {b.op(f'icmp eq i64 {extra}, 0')}")
    b.leave_unless(is_pair, many)
    first, second = (b.get(_argument(b, str(n)), "tensor._vid") for n in (1, 2))
    key_pair, from_pair = b.pack(op, first, second), b.block
    b.do(f"br label %{keyed}")
    b.start(many)
    ids = _tuple_of(b, count)
    with b.loop("0", count) as i:
        _put(b, ids, i, b.get(_argument(b, b.op(f"add i64 {i}, 1")), "tensor._vid"))
    key_many = b.pack(op, ids, params)
    b.drop(ids)
    from_many = b.block
    b.do(f"br label %{keyed}")
    b.start(keyed)
    key = b.op(f"phi ptr [ {key_one}, %{from_one} ], [ {key_pair}, %{from_pair} ], [ {key_many}, %{from_many} ]")
    b.drop(params)
    _finish_apply(b, rec, key, after, extra, slow)
    b.start(slow)
    result = b.api("PyObject_Vectorcall", "ptr", f"ptr {b.word('slow_apply')}", "ptr %args", "i64 %nargs", "ptr null")
    return b.finish(f"ret ptr {result}", "ptr")


def _finish_apply(b: _Fn, rec: str, key: str, after: str, extra: str, slow: str) -> None:
    """Check the params' types where they matter, make the handle, link a view."""
    typed, fine, views = b.label("typed"), b.label("fine"), b.label("views")
    node = b.child(rec, key, slow)
    types = b.get(node, "node.param_types")
    b.do(f"br i1 {b.same(types, b.word('None'))}, label %{fine}, label %{typed}")
    b.start(typed)
    with b.loop("0", extra) as i:  # a tuple's items follow its three-word head
        place = b.op(f"add i64 {i}, 3")
        wanted = b.op(f"load ptr, ptr {b.op(f'getelementptr ptr, ptr {types}, i64 {place}')}")
        have = b.type_of(_argument(b, b.op(f"add i64 {i}, {after}")))
        b.leave_unless(b.same(wanted, have), slow)
    b.do(f"br label %{fine}")
    b.start(fine)
    special = b.get(node, "node.special")
    b.leave_unless(b.same(special, b.word("simple")), views)
    b.do(f"ret ptr {b.op(f'call ptr @new_handle(ptr {rec}, ptr {node})')}")
    b.start(views)
    b.leave_unless(b.same(special, b.word("views")), slow)
    out = b.op(f"call ptr @new_handle(ptr {rec}, ptr {node})")
    source, ready = _argument(b, "1"), b.label("linked")
    linked = b.op(f"call i32 @link_new(ptr {rec}, ptr {node}, ptr {out}, ptr {source})")
    b.leave_unless(b.op(f"icmp eq i32 {linked}, 0"), ready)
    link = b.word("link_view")
    done = b.api(
        "PyObject_CallFunctionObjArgs", "ptr", f"ptr {link}", f"ptr {rec}", f"ptr {out}", f"ptr {source}", "ptr null"
    )
    failed = b.label("failed")
    b.leave_unless(b.present(done), failed)
    b.drop(done)
    b.do(f"ret ptr {out}")
    b.start(ready)
    b.do(f"ret ptr {out}")
    b.start(failed)
    b.drop(out)
    b.do("ret ptr null")


def _enter() -> str:
    """``Recorder.enter(tensor)``."""
    b = _Fn("enter", "ptr %self, ptr %other")
    slow = b.label("slow")
    found = b.op("call ptr @enter_new(ptr %self, ptr %other)")
    b.leave_unless(b.present(found), slow)
    b.api("Py_IncRef", "void", f"ptr {found}")
    b.do(f"ret ptr {found}")
    return _call_slow(b, slow, "slow_enter")


def _alive() -> str:
    """The items of a list that somebody else holds."""
    b = _Fn("alive", "ptr %module, ptr %handles")
    out = b.api("PyList_New", "ptr", "i64 0")
    with b.loop("0", b.api("PyList_Size", "i64", "ptr %handles")) as i:
        item = b.api("PyList_GetItem", "ptr", "ptr %handles", f"i64 {i}")
        references = b.op(f"load i64, ptr {item}")
        held = b.op(f"icmp sgt i64 {references}, 1")
        with b.when(held):
            b.api("PyList_Append", "i32", f"ptr {out}", f"ptr {item}")
        with b.when(b.op(f"xor i1 {held}, true")):
            b.do(f"call void @retire(ptr {item})")
    return b.finish(f"ret ptr {out}", "ptr")


def _activate() -> str:
    """Answer for this recorder, on this thread; None: for nobody, if it was this thread's turn."""
    b = _Fn("activate", "ptr %module, ptr %recorder")
    recorder, thread = (b.op(f"getelementptr i64, ptr @words, i64 {WORDS[n]}") for n in ("recorder", "thread"))
    here = b.api("PyThread_get_thread_ident", "i64")
    nobody, done, mine = b.label("nobody"), b.label("done"), b.label("mine")
    b.leave_unless(b.differ("%recorder", b.word("None")), nobody)
    b.do(f"store i64 {here}, ptr {thread}")
    b.do(f"store ptr %recorder, ptr {recorder}")
    b.do(f"br label %{done}")
    b.start(nobody)
    owner = b.word("thread", "i64")
    b.do(f"br i1 {b.op(f'icmp eq i64 {here}, {owner}')}, label %{mine}, label %{done}")
    b.start(mine)
    b.do(f"store ptr null, ptr {recorder}")
    b.do(f"br label %{done}")
    b.start(done)
    none = b.word("None")
    b.api("Py_IncRef", "void", f"ptr {none}")
    return b.finish(f"ret ptr {none}", "ptr")


def module_text() -> str:
    """The whole module; ``native_hits(i)`` is the address of entry point i, ``native_hits(-1)`` that of the words."""
    parts = [_vid_of(), _enter_new(), _blank_handle(), _retire(), _new_handle(), _link_new()]
    parts += [*map(_binary, BINARY), *map(_reflected, REFLECTED), _apply(), _enter(), _alive(), _activate()]
    table = ", ".join(f"ptr @{name}" for name in ENTRY_POINTS)
    count = len(ENTRY_POINTS)
    find = _Fn("native_hits", "i64 %nr")
    words = find.label("words")
    find.leave_unless(find.op("icmp sge i64 %nr, 0"), words)
    at = find.op(f"getelementptr [{count} x ptr], ptr @entries, i64 0, i64 %nr")
    find.do(f"ret ptr {find.op(f'load ptr, ptr {at}')}")
    find.start(words)
    parts.append(find.finish("ret ptr @words", "ptr"))
    head = f"@words = internal global [{len(WORDS)} x i64] zeroinitializer\n"
    head += f"@entries = internal constant [{count} x ptr] [{table}]\n"
    return head + "\n".join(p.replace("\ndefine", "\ndefine internal", 1) for p in parts[:-1]) + parts[-1]
