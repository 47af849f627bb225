"""Memory that lies against pages which nobody may touch.

Owns: ``GuardedMemory``: blocks between two unreadable pages, the arrays over them, and both sources of memory that
operations have (jitgrad's free lists, NumPy's allocator) turned to it.
Must not know: operations.

A block lies at the end of its pages (``AFTER``: one element too far is a fault) or at their beginning (``BEFORE``). A
block of whole elements lies there exactly; the alignment is what its size leaves, because kernels rely on no more than
that of an element. What is left of the pages holds a pattern, which is looked at when the block is freed: a store
beyond the other side is found then. A freed block's pages can be read by nobody, so its later use is a fault, too.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from jitgrad.runtime.eager.quiet import quiet
from jitgrad.runtime.storage.memory import free_lists, release_cached

__all__ = ["AFTER", "BEFORE", "GuardedMemory"]

AFTER, BEFORE = "after", "before"
_PAGE = mmap.PAGESIZE
_NONE, _READ_WRITE = 0, 3  # PROT_NONE, PROT_READ | PROT_WRITE
_PRIVATE_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_PATTERN = 0xA7
_MAX_IDLE = 4096  # regions that wait, unreadable, to be used again: the system allows 65,530 mappings
_MAX_FREED = 1 << 20
_BLOCK_NBYTES = 1 << 30  # of one block: a greater one is refused, as by a system without the memory

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
_libc.memmove.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class GuardedMemory:
    """Blocks between unreadable pages.

    Attributes:
        side: ``AFTER`` or ``BEFORE``: the side at which a new block has no byte to spare.
        made: blocks so far.
        spoiled: what stores beside blocks have left, a line each.
    """

    def __init__(self) -> None:
        self.side, self.made, self.spoiled = AFTER, 0, list[str]()
        self._blocks: dict[int, tuple[int, int, int]] = {}  # address -> first page, bytes of pages, of the block
        self._idle: dict[int, list[int]] = {}  # bytes of pages -> first pages, the last freed one at the end
        self._num_idle = 0
        self._freed = (ctypes.c_int64 * (_MAX_FREED + 1))()  # by NumPy, since the last look: their number, addresses

    # --- blocks ---

    def allocate(self, nbytes: int) -> int:
        """The address of a new block of exactly ``nbytes``, 0 if there is no memory; the contents are a pattern."""
        self._release_freed()
        if nbytes > _BLOCK_NBYTES:
            return 0
        room = -(-max(nbytes, 1) // _PAGE) * _PAGE
        start = self._region(room)
        if not start:
            return 0
        _libc.memset(start, _PATTERN, room)
        at = start + room - nbytes if self.side == AFTER else start
        while at in self._blocks:  # blocks without bytes at one place
            at -= 1
        self._blocks[at] = start, room, nbytes
        self.made += 1
        return at

    def _region(self, room: int) -> int:
        idle = self._idle.get(room)
        if idle and self._num_idle > _MAX_IDLE // 2:  # used again late: faults by stale addresses are found
            self._num_idle -= 1
            start = idle.pop(0)
            _libc.mprotect(start, room, _READ_WRITE)
            return start
        whole = _libc.mmap(None, room + 2 * _PAGE, _NONE, _PRIVATE_ANONYMOUS, -1, 0)
        if whole in (None, ctypes.c_void_p(-1).value):
            return 0
        start = int(whole) + _PAGE
        _libc.mprotect(start, room, _READ_WRITE)
        return start

    def release(self, address: int) -> None:
        """Make a block's pages unreadable; look at what was beside it."""
        start, room, nbytes = self._blocks.pop(address)
        before, after = address - start, start + room - address - nbytes
        for at, count in ((start, before), (address + nbytes, after)):
            found = ctypes.string_at(at, count)
            if found.count(_PATTERN) != count:
                self.spoiled.append(f"a store beside a block of {nbytes} bytes ({before} bytes before, {after} after)")
        _libc.mprotect(start, room, _NONE)
        if self._num_idle >= _MAX_IDLE:
            _libc.munmap(start - _PAGE, room + 2 * _PAGE)
        else:
            self._num_idle += 1
            self._idle.setdefault(room, []).append(start)

    def _release_freed(self) -> None:
        freed = self._freed
        count, freed[0] = freed[0], 0
        for address in filter(None, freed[1 : count + 1]):
            self.release(address)

    # --- arrays ---

    def array(self, like: Any, axes: tuple[int, ...] = (), steps: tuple[int, ...] = (), shift: int = 0) -> Any:
        """A copy of an array, over a block that begins with its first element and ends with its last one.

        Args:
            like: any array.
            axes: the dimensions from the one with the greatest stride to the one with the smallest; none: row-major.
            steps: per dimension, 1: neighbours are adjacent; 2: an element lies between; 0: an expanded dimension.
            shift: bytes of the block before the first element, which spoil its alignment.
        """
        axes, steps = axes or tuple(range(like.ndim)), steps or (1,) * like.ndim
        strides, reach = [0] * like.ndim, like.itemsize
        for axis in reversed(axes):
            strides[axis] = reach * steps[axis]
            reach = max(reach, strides[axis] * max(like.shape[axis], 1))
        last = sum((max(n, 1) - 1) * s for n, s in zip(like.shape, strides, strict=True)) + like.itemsize
        owner = _Block(self, last + shift if like.size else 0)
        memory = (ctypes.c_char * owner.nbytes).from_address(owner.address)
        memory.owner = owner  # type: ignore[attr-defined]
        made: Any = np.ndarray(like.shape, like.dtype, memory, *((shift, strides) if like.size else ()))
        made[...] = like
        return made

    # --- where operations have their memory from ---

    @contextmanager
    def for_storages(self) -> Iterator[None]:
        """Storages that are made in this block lie against guards, and are not used again by the free lists."""
        lists = free_lists
        before = lists.allocate, lists.release, lists.limit
        release_cached()
        lists.allocate, lists.limit = self.allocate, -1
        lists.release = lambda address: self.release(address) if address in self._blocks else before[1](address)
        try:
            yield
        finally:
            lists.allocate, _, lists.limit = before  # storages that live on are given back by ``release``

    @contextmanager
    def for_numpy(self) -> Iterator[None]:
        """NumPy arrays that this thread makes in this block lie against guards."""
        handler, contexts = _Handler(self), (_here, quiet.run)  # Note [Quiet NumPy]: the handler is a context's
        before = [run(_set_handler(), handler.capsule) for run in contexts]
        try:
            yield
        finally:
            for run, capsule in zip(contexts, before, strict=True):
                run(_set_handler(), capsule)


def _here(function: Any, *args: Any) -> Any:
    return function(*args)


class _Block:
    """A block for as long as this object lives."""

    def __init__(self, memory: GuardedMemory, nbytes: int) -> None:
        self.nbytes, self._memory = nbytes, memory
        self.address = memory.allocate(nbytes)

    def __del__(self) -> None:
        self._memory.release(self.address)


# --- NumPy's allocator: its C interface, ``PyDataMem_Handler`` of ``ndarraytypes.h`` ---

_SIZE, _POINTER = ctypes.c_size_t, ctypes.c_void_p


class _Fields(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("ctx", _POINTER),
        ("malloc", ctypes.CFUNCTYPE(_POINTER, _POINTER, _SIZE)),
        ("calloc", ctypes.CFUNCTYPE(_POINTER, _POINTER, _SIZE, _SIZE)),
        ("realloc", ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER, _SIZE)),
        ("free", ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _SIZE)),
    )


_handlers: list[Any] = []
"""Never freed: an array calls the handler that made it."""


class _Handler:
    """A handler for NumPy, and the capsule that NumPy takes it in."""

    def __init__(self, memory: GuardedMemory) -> None:
        kinds = {name: kind for name, kind in _Fields._fields_ if name in ("malloc", "calloc", "realloc", "free")}
        functions = {
            "malloc": lambda ctx, nbytes: memory.allocate(nbytes) or None,
            "calloc": lambda ctx, count, size: self._zeros(memory, count * size) or None,
            "realloc": lambda ctx, at, nbytes: self._moved(memory, at, nbytes) or None,
        }
        made = {name: kinds[name](call) for name, call in functions.items()}
        made["free"] = kinds["free"](_note_freed().get_function_address("note_freed"))
        self._fields = _Fields(b"guard", 1, ctypes.addressof(memory._freed), **made)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (_POINTER, ctypes.c_char_p, _POINTER)
        self._name = b"mem_handler"
        self.capsule = new(ctypes.addressof(self._fields), self._name, None)
        _handlers.append(self)

    @staticmethod
    def _zeros(memory: GuardedMemory, nbytes: int) -> int:
        at = memory.allocate(nbytes)
        if at:
            _libc.memset(at, 0, nbytes)
        return at

    @staticmethod
    def _moved(memory: GuardedMemory, at: int, nbytes: int) -> int:
        made = memory.allocate(nbytes)
        if made and at:
            _libc.memmove(made, at, min(nbytes, memory._blocks[at][2]))
            memory.release(at)
        return made


_NOTE_FREED = """
define void @note_freed(ptr %noted, ptr %block, i64 %size) {
  %count = load i64, ptr %noted
  %next = add i64 %count, 1
  store i64 %next, ptr %noted
  %at = getelementptr i64, ptr %noted, i64 %next
  store ptr %block, ptr %at
  ret void
}
"""
"""NumPy frees arrays while an exception is on its way, when Python code cannot run: a block is noted, and released when
the next one is made."""


@functools.cache
def _note_freed() -> Any:
    """The compiled function, as its engine, which must live."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(_NOTE_FREED), machine)


_SET_HANDLER = 304  # the place of ``PyDataMem_SetHandler`` in NumPy's table of functions, which never changes


def _set_handler() -> Any:
    """``PyDataMem_SetHandler(capsule)``: the capsule before."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = _POINTER, (ctypes.py_object, ctypes.c_char_p)
    table = get(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    address = (_POINTER * (_SET_HANDLER + 1)).from_address(table)[_SET_HANDLER]
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)
