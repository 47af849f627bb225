"""What writes and the end of a segment ask of many handles, natively. See Note [Native hits].

Owns: the text of ``unwatched``, ``move``, ``assignments``.
Must not know: why the recorder asks. Each has a twin in Python, in ``tracer/hot.py``.
"""

from __future__ import annotations

from jitgrad.codegen.python_api import CFunction

__all__ = ["write_functions"]


def _is_missing(b: CFunction, value: str) -> str:
    return b.op(f"or i1 {b.same(value, 'null')}, {b.same(value, b.word('None'))}")


def _argument(b: CFunction, index: int) -> str:
    return b.op(f"load ptr, ptr {b.op(f'getelementptr ptr, ptr %args, i64 {index}')}")


def _answer(b: CFunction, word: str) -> str:
    """The function's text, which ends with returning an object that lives for ever."""
    found = b.word(word)
    b.api("Py_IncRef", "void", f"ptr {found}")
    return b.finish(f"ret ptr {found}", "ptr")


def _unwatched() -> str:
    """``unwatched(recorder, targets)``: True if nobody else can be looking at what a write to these tensors changes."""
    b = CFunction("unwatched", "ptr %module, ptr %args, i64 %nargs")
    no = b.label("no")
    rec, targets = _argument(b, 0), _argument(b, 1)
    tid, slots = b.get(rec, "recorder.tid"), b.get(rec, "recorder._slots")
    with b.loop("0", b.api("PyList_Size", "i64", f"ptr {targets}")) as i:
        free, stored, unstored, seen = (b.label(n) for n in ("free", "stored", "unstored", "seen"))
        target = b.api("PyList_GetItem", "ptr", f"ptr {targets}", f"i64 {i}")
        b.leave_unless(b.same(b.get(target, "tensor._tid"), tid), no)
        retains = b.get(target, "tensor._retains_grad")
        b.leave_unless(b.op(f"or i1 {b.same(retains, 'null')}, {b.same(retains, b.word('False'))}"), no)
        b.leave_unless(_is_missing(b, b.get(target, "tensor._base")), no)
        storage = b.get(target, "tensor._storage")
        b.do(f"br i1 {_is_missing(b, storage)}, label %{unstored}, label %{stored}")
        b.start(unstored)  # a value of the trace; or eager: then its storage is made when it is asked for
        b.do(f"br i1 {_is_missing(b, b.get(target, 'tensor._array'))}, label %{free}, label %{no}")
        b.start(stored)
        address = b.api("PyLong_FromVoidPtr", "ptr", f"ptr {storage}")
        slot = b.api("PyDict_GetItemWithError", "ptr", f"ptr {slots}", f"ptr {address}")
        b.drop(address)
        b.do(f"br i1 {b.present(slot)}, label %{seen}, label %{free}")
        b.start(seen)
        others, older = b.get(slot, "slot.others"), b.get(slot, "slot.older")
        b.do(f"br i1 {b.op(f'and i1 {_is_missing(b, others)}, {_is_missing(b, older)}')}, label %{free}, label %{no}")
        b.start(free)
    b.api("Py_IncRef", "void", f"ptr {b.word('True')}")
    b.do(f"ret ptr {b.word('True')}")
    b.start(no)
    return _answer(b, "False")


def _move() -> str:
    """``move(recorder, targets, vids)``: the targets are on to new values; their storages are to be written."""
    b = CFunction("move", "ptr %module, ptr %args, i64 %nargs")
    rec, targets, vids = (_argument(b, n) for n in range(3))
    dirty = b.get(rec, "recorder._dirty")
    with b.loop("0", b.api("PyList_Size", "i64", f"ptr {targets}")) as i:
        target = b.api("PyList_GetItem", "ptr", f"ptr {targets}", f"i64 {i}")
        b.set(target, "tensor._vid", b.api("PyTuple_GetItem", "ptr", f"ptr {vids}", f"i64 {i}"))
        with b.when(b.same(b.get(target, "tensor._vc"), "null")):
            counter = b.api("PyList_New", "ptr", "i64 0")
            b.api("PyList_Append", "i32", f"ptr {counter}", f"ptr {b.word('simple')}")  # the int 0
            b.set(target, "tensor._vc", counter)
            b.drop(counter)
        counter = b.get(target, "tensor._vc")
        version = b.api("PyLong_AsLong", "i64", f"ptr {b.api('PyList_GetItem', 'ptr', f'ptr {counter}', 'i64 0')}")
        after = b.api("PyLong_FromLong", "ptr", f"i64 {b.op(f'add i64 {version}, 1')}")
        b.api("PyList_SetItem", "i32", f"ptr {counter}", "i64 0", f"ptr {after}")  # takes the reference
        storage = b.get(target, "tensor._storage")
        with b.when(b.op(f"xor i1 {_is_missing(b, storage)}, true")):
            address = b.api("PyLong_FromVoidPtr", "ptr", f"ptr {storage}")
            b.api("PySet_Add", "i32", f"ptr {dirty}", f"ptr {address}")
            b.drop(address)
    return _answer(b, "None")


def _assignments() -> str:
    """``flush.assignments(alive)``: how each handle gets its storage."""
    b = CFunction("assignments", "ptr %module, ptr %alive")
    slow = b.label("slow")
    count = b.api("PyList_Size", "i64", "ptr %alive")
    made, filled = b.api("PyTuple_New", "ptr", f"i64 {count}"), b.api("PySet_New", "ptr", "ptr null")
    words = {name: b.word(name) for name in ("fresh", "pending", "view")}
    with b.loop("0", count) as i:
        unstored, stored, view, pending, put = (b.label(n) for n in ("unstored", "stored", "view", "pending", "put"))
        handle = b.api("PyList_GetItem", "ptr", "ptr %alive", f"i64 {i}")
        storage = b.get(handle, "tensor._storage")
        b.do(f"br i1 {_is_missing(b, storage)}, label %{unstored}, label %{stored}")
        b.start(unstored)
        b.leave_unless(_is_missing(b, b.get(handle, "tensor._array")), slow)
        from_fresh = b.block
        b.do(f"br label %{put}")
        b.start(stored)
        b.leave_unless(b.same(b.type_of(storage), b.word("Storage")), slow)
        b.leave_unless(_is_missing(b, b.get(handle, "tensor._base")), view)
        again = b.api("PySet_Contains", "i32", f"ptr {filled}", f"ptr {storage}")
        b.leave_unless(b.op(f"icmp eq i32 {again}, 0"), view)
        memory = b.api("PyObject_IsTrue", "i32", f"ptr {b.get(storage, 'storage.addr')}")
        b.do(f"br i1 {b.op(f'icmp eq i32 {memory}, 0')}, label %{pending}, label %{view}")
        b.start(pending)
        b.api("PySet_Add", "i32", f"ptr {filled}", f"ptr {storage}")
        b.do(f"br label %{put}")
        b.start(view)
        b.do(f"br label %{put}")
        b.start(put)
        how = b.op(
            f"phi ptr [ {words['fresh']}, %{from_fresh} ], [ {words['pending']}, %{pending} ], "
            f"[ {words['view']}, %{view} ]"
        )
        b.api("Py_IncRef", "void", f"ptr {how}")
        b.api("PyTuple_SetItem", "i32", f"ptr {made}", f"i64 {i}", f"ptr {how}")
    b.drop(filled)
    b.do(f"ret ptr {made}")
    b.start(slow)
    b.drop(filled)
    b.drop(made)
    out = b.api("PyObject_CallFunctionObjArgs", "ptr", f"ptr {b.word('slow_assignments')}", "ptr %alive", "ptr null")
    return b.finish(f"ret ptr {out}", "ptr")


def write_functions() -> list[str]:
    """Their text."""
    return [_unwatched(), _move(), _assignments()]
