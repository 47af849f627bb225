"""Handles on the native path: stamps, the pool of blank ones, views. See Note [Native hits].

Owns: the text of ``vid_of``, ``enter_new``, ``new_handle``, ``link_new`` and the pool.
Must not know: operators and ``apply``, which call these.
"""

from __future__ import annotations

from jitgrad.codegen.python_api import BEYOND_A_STAMP, MAX_POOL, CFunction

__all__ = ["handle_functions", "list_words"]


def _vid_of() -> str:
    b = CFunction("vid_of", "ptr %rec, ptr %t")
    enter = b.label("enter")
    stamp = b.get("%t", "tensor._tid")
    b.leave_unless(b.same(stamp, b.get("%rec", "recorder.tid")), enter)
    b.do(f"ret ptr {b.get('%t', 'tensor._vid')}")
    b.start(enter)
    return b.finish(f"ret ptr {b.op('call ptr @enter_new(ptr %rec, ptr %t)')}", "ptr")


def _is_unset(b: CFunction, obj: str, slot: str, slow: str) -> None:
    """Go on only if a slot is unset or None."""
    value = b.get(obj, slot)
    unset = b.op(f"or i1 {b.same(value, 'null')}, {b.same(value, b.word('None'))}")
    b.leave_unless(unset, slow)


def _enter_new() -> str:
    """``Recorder.enter`` for a storage that the call has not seen; null means: ask Python."""
    b = CFunction("enter_new", "ptr %rec, ptr %t")
    slow, seen, leaf, plain, known = (b.label(n) for n in ("slow", "seen", "leaf", "plain", "known"))
    storage = b.get("%t", "tensor._storage")
    b.leave_unless(b.present(storage), slow)
    b.leave_unless(b.differ(storage, b.word("None")), slow)
    b.leave_unless(b.same(b.type_of(storage), b.word("Storage")), slow)
    _is_unset(b, "%t", "tensor._base", slow)
    with b.when(b.present(b.get("%t", "tensor._vc"))):  # an inference tensor's counter is of a class of its own
        b.leave_unless(b.same(b.type_of(b.get("%t", "tensor._vc")), b.word("list")), slow)
    b.do(f"br i1 {b.same(b.get('%t', 'tensor._requires_grad'), b.word('True'))}, label %{leaf}, label %{plain}")
    b.start(leaf)
    for slot in ("_grad_fn", "_graph", "_hooks", "_post_accumulate_hooks", "_accumulator"):
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


def list_words(b: CFunction, items: str) -> tuple[str, str]:
    """Addresses of a list's size and of its item array (``PyListObject``)."""
    size = b.op(f"getelementptr i64, ptr {items}, i64 2")
    return size, b.op(f"load ptr, ptr {b.op(f'getelementptr i64, ptr {items}, i64 3')}")


def _blank_handle() -> str:
    """A handle from the pool, stamp and all, or a new one; the caller owns it."""
    b = CFunction("blank_handle", "")
    make = b.label("make")
    size, items = list_words(b, b.word("pool"))
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
    b = CFunction("retire", "ptr %handle")
    no = b.label("no")
    pool = b.word("pool")
    size, _ = list_words(b, pool)
    b.leave_unless(b.op(f"icmp slt i64 {b.op(f'load i64, ptr {size}')}, {MAX_POOL}"), no)
    b.leave_unless(b.same(b.type_of("%handle"), b.word("Tensor")), no)
    for slot in BEYOND_A_STAMP:
        b.leave_unless(b.same(b.get("%handle", f"tensor.{slot}"), "null"), no)
    graph_at = b._address("%handle", "tensor._graph")
    graph = b.op(f"load ptr, ptr {graph_at}")
    b.do(f"store ptr null, ptr {graph_at}")
    b.drop(graph)
    b.api("PyList_Append", "i32", f"ptr {pool}", "ptr %handle")
    b.do("ret void")
    b.start(no)
    return b.finish("ret void", "void")


def _fill_slot(b: CFunction, slot: str, storage: str, home: str, others: str, owner: str) -> None:
    values = {"storage": storage, "home": home, "others": others, "owner": owner}
    values |= {"older": b.word("None"), "is_shared": b.word("False"), "is_family": b.word("False")}
    for name, value in values.items():
        b.fill(slot, f"slot.{name}", value)


def _is_missing(b: CFunction, value: str) -> str:
    return b.op(f"or i1 {b.same(value, 'null')}, {b.same(value, b.word('None'))}")


def _give_pending_storage(b: CFunction) -> None:
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
    b = CFunction("link_new", "ptr %rec, ptr %node, ptr %out, ptr %source")
    slow, found, make, linked = (b.label(n) for n in ("slow", "found", "make", "linked"))
    window = b.get("%node", "node.window")
    b.leave_unless(b.differ(window, b.word("untracked")), slow)
    b.leave_unless(_is_missing(b, b.get("%source", "tensor._creation_meta")), slow)
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
    b = CFunction("new_handle", "ptr %rec, ptr %node")
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


def handle_functions() -> list[str]:
    """Their text, callees first."""
    return [_vid_of(), _enter_new(), _blank_handle(), _retire(), _new_handle(), _link_new()]
