"""What writes and the end of a segment ask of many handles, natively. See Note [Native hits].

Owns: the text of ``unwatched``, ``move``, ``apply_inplace``, ``assignments``.
Must not know: why the recorder asks. Each has a twin in Python: ``tracer/hot.py``, ``Writes.apply_inplace``.
"""

from __future__ import annotations

from jitgrad.codegen.python_api import CFunction, argument, number_key

__all__ = ["write_functions"]


def _is_missing(b: CFunction, value: str) -> str:
    return b.op(f"or i1 {b.same(value, 'null')}, {b.same(value, b.word('None'))}")


def _answer(b: CFunction, word: str) -> str:
    """The function's text, which ends with returning an object that lives for ever."""
    found = b.word(word)
    b.api("Py_IncRef", "void", f"ptr {found}")
    return b.finish(f"ret ptr {found}", "ptr")


def _is_unwatched() -> str:
    """1 if nobody else can be looking at what a write to this tensor changes; 0 means: ask Python."""
    b = CFunction("is_unwatched", "ptr %rec, ptr %target")
    no, free, stored, unstored, seen = (b.label(n) for n in ("no", "free", "stored", "unstored", "seen"))
    b.leave_unless(b.same(b.get("%target", "tensor._tid"), b.get("%rec", "recorder.tid")), no)
    retains = b.get("%target", "tensor._retains_grad")
    b.leave_unless(b.op(f"or i1 {b.same(retains, 'null')}, {b.same(retains, b.word('False'))}"), no)
    b.leave_unless(_is_missing(b, b.get("%target", "tensor._base")), no)
    storage = b.get("%target", "tensor._storage")
    b.do(f"br i1 {_is_missing(b, storage)}, label %{unstored}, label %{stored}")
    b.start(unstored)  # a value of the trace; or eager: then its storage is made when it is asked for
    b.do(f"br i1 {_is_missing(b, b.get('%target', 'tensor._array'))}, label %{free}, label %{no}")
    b.start(stored)
    address = b.api("PyLong_FromVoidPtr", "ptr", f"ptr {storage}")
    slot = b.api("PyDict_GetItemWithError", "ptr", f"ptr {b.get('%rec', 'recorder._slots')}", f"ptr {address}")
    b.drop(address)
    b.do(f"br i1 {b.present(slot)}, label %{seen}, label %{free}")
    b.start(seen)
    others, older = b.get(slot, "slot.others"), b.get(slot, "slot.older")
    b.do(f"br i1 {b.op(f'and i1 {_is_missing(b, others)}, {_is_missing(b, older)}')}, label %{free}, label %{no}")
    b.start(free)
    b.do("ret i32 1")
    b.start(no)
    return b.finish("ret i32 0", "i32")


def _move_one() -> str:
    """A tensor is on to a new value; its storage is to be written."""
    b = CFunction("move_one", "ptr %rec, ptr %target, ptr %vid")
    b.set("%target", "tensor._vid", "%vid")
    with b.when(b.same(b.get("%target", "tensor._vc"), "null")):
        counter = b.api("PyList_New", "ptr", "i64 0")
        b.api("PyList_Append", "i32", f"ptr {counter}", f"ptr {b.word('simple')}")  # the int 0
        b.set("%target", "tensor._vc", counter)
        b.drop(counter)
    counter = b.get("%target", "tensor._vc")
    version = b.api("PyLong_AsLong", "i64", f"ptr {b.api('PyList_GetItem', 'ptr', f'ptr {counter}', 'i64 0')}")
    after = b.api("PyLong_FromLong", "ptr", f"i64 {b.op(f'add i64 {version}, 1')}")
    b.api("PyList_SetItem", "i32", f"ptr {counter}", "i64 0", f"ptr {after}")  # takes the reference
    storage = b.get("%target", "tensor._storage")
    with b.when(b.op(f"xor i1 {_is_missing(b, storage)}, true")):
        address = b.api("PyLong_FromVoidPtr", "ptr", f"ptr {storage}")
        b.api("PySet_Add", "i32", f"ptr {b.get('%rec', 'recorder._dirty')}", f"ptr {address}")
        b.drop(address)
    return b.finish()


def _unwatched() -> str:
    """``unwatched(recorder, targets)``: whether all targets are."""
    b = CFunction("unwatched", "ptr %module, ptr %args, i64 %nargs")
    no = b.label("no")
    rec, targets = argument(b, "0"), argument(b, "1")
    with b.loop("0", b.api("PyList_Size", "i64", f"ptr {targets}")) as i:
        target = b.api("PyList_GetItem", "ptr", f"ptr {targets}", f"i64 {i}")
        alone = b.op(f"call i32 @is_unwatched(ptr {rec}, ptr {target})")
        b.leave_unless(b.op(f"icmp eq i32 {alone}, 1"), no)
    b.api("Py_IncRef", "void", f"ptr {b.word('True')}")
    b.do(f"ret ptr {b.word('True')}")
    b.start(no)
    return _answer(b, "False")


def _move() -> str:
    """``move(recorder, targets, vids)``."""
    b = CFunction("move", "ptr %module, ptr %args, i64 %nargs")
    rec, targets, vids = (argument(b, str(n)) for n in range(3))
    with b.loop("0", b.api("PyList_Size", "i64", f"ptr {targets}")) as i:
        target = b.api("PyList_GetItem", "ptr", f"ptr {targets}", f"i64 {i}")
        vid = b.api("PyTuple_GetItem", "ptr", f"ptr {vids}", f"i64 {i}")
        b.do(f"call void @move_one(ptr {rec}, ptr {target}, ptr {vid})")
    return _answer(b, "None")


def _apply_inplace() -> str:
    """``dispatch.apply_inplace(op, targets, *inputs, *params)`` with one target, of tensors and numbers."""
    b = CFunction("apply_inplace", "ptr %module, ptr %args, i64 %nargs")
    slow = b.label("slow")
    rec = b.active_recorder(slow)
    op, targets = argument(b, "0"), argument(b, "1")
    count = b.api("PyLong_AsLong", "i64", f"ptr {b.get(op, 'op.num_inputs')}")
    after = b.op(f"add i64 {count}, 2")
    b.leave_unless(b.op(f"and i1 {b.op(f'icmp sgt i64 {count}, 0')}, {b.op(f'icmp sge i64 %nargs, {after}')}"), slow)
    is_one = b.op(f"icmp eq i64 {b.api('PyTuple_Size', 'i64', f'ptr {targets}')}, 1")
    b.leave_unless(is_one, slow)
    checks = b.api("PyList_Size", "i64", f"ptr {b.word('write_checks')}")
    twice = b.api("PyObject_IsTrue", "i32", f"ptr {b.get(rec, 'recorder._counted_twice')}")
    picks = b.api("PyList_Size", "i64", f"ptr {b.get(rec, 'recorder.picks')}")
    plain = b.op(f"and i1 {b.op(f'icmp eq i64 {checks}, 0')}, {b.op(f'icmp eq i32 {twice}, 0')}")
    b.leave_unless(b.op(f"and i1 {plain}, {b.op(f'icmp eq i64 {picks}, 0')}"), slow)
    # enter them all before the place in the trie is read
    with b.loop("2", after) as i, b.when(b.is_tensor(argument(b, i))):
        b.vid(rec, argument(b, i), slow)
    target = b.api("PyTuple_GetItem", "ptr", f"ptr {targets}", "i64 0")
    alone = b.op(f"call i32 @is_unwatched(ptr {rec}, ptr {target})")
    b.leave_unless(b.op(f"icmp eq i32 {alone}, 1"), slow)
    ids, incomplete = b.api("PyTuple_New", "ptr", f"i64 {count}"), b.label("incomplete")
    with b.loop("2", after) as i:
        tensor, number, put = (b.label(n) for n in ("tensor", "number", "put"))
        at, item = b.op(f"sub i64 {i}, 2"), argument(b, i)
        b.do(f"br i1 {b.is_tensor(item)}, label %{tensor}, label %{number}")
        b.start(tensor)
        vid = b.get(item, "tensor._vid")
        b.api("Py_IncRef", "void", f"ptr {vid}")
        b.do(f"br label %{put}")
        b.start(number)
        value = number_key(b, item, incomplete)
        from_number = b.block
        b.do(f"br label %{put}")
        b.start(put)
        one = b.op(f"phi ptr [ {vid}, %{tensor} ], [ {value}, %{from_number} ]")
        b.api("PyTuple_SetItem", "i32", f"ptr {ids}", f"i64 {at}", f"ptr {one}")  # takes the reference
    extra = b.op(f"sub i64 %nargs, {after}")
    params = b.api("PyTuple_New", "ptr", f"i64 {extra}")
    with b.loop("0", extra) as i:
        one = argument(b, b.op(f"add i64 {i}, {after}"))
        b.api("Py_IncRef", "void", f"ptr {one}")
        b.api("PyTuple_SetItem", "i32", f"ptr {params}", f"i64 {i}", f"ptr {one}")
    target_ids = b.pack(b.get(target, "tensor._vid"))
    key = b.pack(b.word("write"), op, target_ids, ids, params)
    for made in (target_ids, ids, params):
        b.drop(made)
    node = b.child(rec, key, slow)
    vids = b.get(node, "node.writes")
    b.leave_unless(b.differ(vids, b.word("None")), slow)
    b.set(rec, "recorder.node", node)
    vid = b.api("PyTuple_GetItem", "ptr", f"ptr {vids}", "i64 0")
    b.do(f"call void @move_one(ptr {rec}, ptr {target}, ptr {vid})")
    b.api("Py_IncRef", "void", f"ptr {targets}")
    b.do(f"ret ptr {targets}")
    b.start(incomplete)
    b.drop(ids)
    b.do(f"br label %{slow}")
    b.start(slow)
    word = b.word("slow_apply_inplace")
    result = b.api("PyObject_Vectorcall", "ptr", f"ptr {word}", "ptr %args", "i64 %nargs", "ptr null")
    return b.finish(f"ret ptr {result}", "ptr")


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
    return [_is_unwatched(), _move_one(), _unwatched(), _move(), _apply_inplace(), _assignments()]
