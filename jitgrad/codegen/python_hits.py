"""The recorder's hits as native code that calls Python's C API.

Owns: the LLVM text of Note [Native hits]: operators, ``apply``, ``enter``, ``alive`` (``python_writes`` has the rest).
Must not know: the recorder's Python code. It sees slots at offsets, and functions and objects at addresses.
In: a block of words, see ``python_api.WORDS``, filled by ``compiled/native_hits.py``. Out: C functions.

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

from jitgrad.codegen.python_api import BINARY, REFLECTED, WORDS, CFunction, argument, number_key
from jitgrad.codegen.python_handles import handle_functions, list_words
from jitgrad.codegen.python_writes import write_functions

__all__ = ["ENTRY_POINTS", "module_text"]

_OPERATORS = (*(f"op_{n}" for n in BINARY), *(f"op_r{n}" for n in REFLECTED))
ENTRY_POINTS = (*_OPERATORS, "apply", "enter", "alive", "activate", "unwatched", "move", "apply_inplace", "assignments")


def _finish_simple(b: CFunction, rec: str, key: str, slow: str) -> None:
    node = b.child(rec, key, slow)
    b.leave_unless(b.same(b.get(node, "node.special"), b.word("simple")), slow)
    b.do(f"ret ptr {b.op(f'call ptr @new_handle(ptr {rec}, ptr {node})')}")


def _call_slow(b: CFunction, slow: str, word: str) -> str:
    b.start(slow)
    out = b.api("PyObject_CallFunctionObjArgs", "ptr", f"ptr {b.word(word)}", "ptr %self", "ptr %other", "ptr null")
    return b.finish(f"ret ptr {out}", "ptr")


def _binary(name: str) -> str:
    """``self op other``: a tensor, and a tensor or a number."""
    b = CFunction(f"op_{name}", "ptr %self, ptr %other")
    slow, number = b.label("slow"), b.label("number")
    rec = b.active_recorder(slow)
    a = b.vid(rec, "%self", slow)
    b.leave_unless(b.is_tensor("%other"), number)
    # a class that overrides operators is asked in Python
    num_overrides = b.op(f"load i64, ptr {list_words(b, b.word('override_classes'))[0]}")
    is_plain = b.same(b.type_of("%other"), b.word("Tensor"))
    b.leave_unless(b.op(f"or i1 {is_plain}, {b.op(f'icmp eq i64 {num_overrides}, 0')}"), slow)
    _finish_simple(b, rec, b.pack(b.word(f"op {name}"), a, b.vid(rec, "%other", slow)), slow)
    b.start(number)
    value = number_key(b, "%other", slow)
    key = b.pack(b.word(f"op {name}"), a, value)
    b.drop(value)
    _finish_simple(b, rec, key, slow)
    return _call_slow(b, slow, f"slow {name}")


def _reflected(name: str) -> str:
    """``number op self``."""
    b = CFunction(f"op_r{name}", "ptr %self, ptr %other")
    slow = b.label("slow")
    rec = b.active_recorder(slow)
    a = b.vid(rec, "%self", slow)
    value = number_key(b, "%other", slow)
    key = b.pack(b.word(f"op {name}"), value, a)
    b.drop(value)
    _finish_simple(b, rec, key, slow)
    return _call_slow(b, slow, f"slow r{name}")


def _tuple_of(b: CFunction, count: str) -> str:
    return b.api("PyTuple_New", "ptr", f"i64 {count}")


def _put(b: CFunction, made: str, index: str, item: str) -> None:
    b.api("Py_IncRef", "void", f"ptr {item}")
    b.api("PyTuple_SetItem", "i32", f"ptr {made}", f"i64 {index}", f"ptr {item}")


def _apply() -> str:
    """``dispatch.apply(op, *inputs, *params)`` where every input is a tensor."""
    b = CFunction("apply", "ptr %module, ptr %args, i64 %nargs")
    slow, one, pair, many, keyed = (b.label(n) for n in ("slow", "one", "pair", "many", "keyed"))
    rec = b.active_recorder(slow)
    b.leave_unless(b.op("icmp sgt i64 %nargs, 1"), slow)
    op = argument(b, "0")
    count = b.api("PyLong_AsLong", "i64", f"ptr {b.get(op, 'op.num_inputs')}")
    b.leave_unless(b.op(f"icmp sgt i64 {count}, 0"), slow)
    after = b.op(f"add i64 {count}, 1")
    b.leave_unless(b.op(f"icmp sge i64 %nargs, {after}"), slow)
    with b.loop("1", after) as i:
        b.leave_unless(b.is_tensor(argument(b, i)), slow)
    with b.loop("1", after) as i:  # enter them all before the place in the trie is read
        b.vid(rec, argument(b, i), slow)
    extra = b.op(f"sub i64 %nargs, {after}")
    params = _tuple_of(b, extra)
    with b.loop("0", extra) as i:
        _put(b, params, i, argument(b, b.op(f"add i64 {i}, {after}")))
    b.do(f"br i1 {b.op(f'icmp eq i64 {count}, 1')}, label %{one}, label %{pair}")
    b.start(one)
    key_one, from_one = b.pack(op, b.get(argument(b, "1"), "tensor._vid"), params), b.block
    b.do(f"br label %{keyed}")
    b.start(pair)
    is_pair = b.op(f"and i1 {b.op(f'icmp eq i64 {count}, 2')}, {b.op(f'icmp eq i64 {extra}, 0')}")
    b.leave_unless(is_pair, many)
    first, second = (b.get(argument(b, str(n)), "tensor._vid") for n in (1, 2))
    key_pair, from_pair = b.pack(op, first, second), b.block
    b.do(f"br label %{keyed}")
    b.start(many)
    ids = _tuple_of(b, count)
    with b.loop("0", count) as i:
        _put(b, ids, i, b.get(argument(b, b.op(f"add i64 {i}, 1")), "tensor._vid"))
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


def _finish_apply(b: CFunction, rec: str, key: str, after: str, extra: str, slow: str) -> None:
    """Check the params' types where they matter, make the handle, link a view."""
    typed, fine, views = b.label("typed"), b.label("fine"), b.label("views")
    node = b.child(rec, key, slow)
    types = b.get(node, "node.param_types")
    b.do(f"br i1 {b.same(types, b.word('None'))}, label %{fine}, label %{typed}")
    b.start(typed)
    with b.loop("0", extra) as i:  # a tuple's items follow its three-word head
        place = b.op(f"add i64 {i}, 3")
        wanted = b.op(f"load ptr, ptr {b.op(f'getelementptr ptr, ptr {types}, i64 {place}')}")
        have = b.type_of(argument(b, b.op(f"add i64 {i}, {after}")))
        b.leave_unless(b.same(wanted, have), slow)
    b.do(f"br label %{fine}")
    b.start(fine)
    special = b.get(node, "node.special")
    b.leave_unless(b.same(special, b.word("simple")), views)
    b.do(f"ret ptr {b.op(f'call ptr @new_handle(ptr {rec}, ptr {node})')}")
    b.start(views)
    b.leave_unless(b.same(special, b.word("views")), slow)
    out = b.op(f"call ptr @new_handle(ptr {rec}, ptr {node})")
    source, ready = argument(b, "1"), b.label("linked")
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
    b = CFunction("enter", "ptr %self, ptr %other")
    slow = b.label("slow")
    found = b.op("call ptr @enter_new(ptr %self, ptr %other)")
    b.leave_unless(b.present(found), slow)
    b.api("Py_IncRef", "void", f"ptr {found}")
    b.do(f"ret ptr {found}")
    return _call_slow(b, slow, "slow_enter")


def _alive() -> str:
    """The items of a list that somebody else holds."""
    b = CFunction("alive", "ptr %module, ptr %handles")
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
    b = CFunction("activate", "ptr %module, ptr %recorder")
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
    parts = handle_functions()
    parts += [*map(_binary, BINARY), *map(_reflected, REFLECTED), _apply(), _enter(), _alive(), _activate()]
    parts += write_functions()
    table = ", ".join(f"ptr @{name}" for name in ENTRY_POINTS)
    count = len(ENTRY_POINTS)
    find = CFunction("native_hits", "i64 %nr")
    words = find.label("words")
    find.leave_unless(find.op("icmp sge i64 %nr, 0"), words)
    at = find.op(f"getelementptr [{count} x ptr], ptr @entries, i64 0, i64 %nr")
    find.do(f"ret ptr {find.op(f'load ptr, ptr {at}')}")
    find.start(words)
    parts.append(find.finish("ret ptr @words", "ptr"))
    head = f"@words = internal global [{len(WORDS)} x i64] zeroinitializer\n"
    head += f"@entries = internal constant [{count} x ptr] [{table}]\n"
    return head + "\n".join(p.replace("\ndefine", "\ndefine internal", 1) for p in parts[:-1]) + parts[-1]
