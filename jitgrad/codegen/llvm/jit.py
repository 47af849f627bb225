"""Kernels to machine code: in memory, from the disk cache, or by LLVM.

Owns: ``compile_kernels``, the LLVM session, and the table of loaded kernels.
Must not know: what a kernel computes, programs, buffers.
In: ``KernelSource`` (a key and a thunk that prints IR). Out: ``CompiledKernel`` (an address, and the code's lifetime).

# Note [Kernel keys]
# ~~~~~~~~~~~~~~~~~~
# On a hit the thunk is not called, so a key describes everything that the text depends on: the emitter's own key, the
# kernel's name, the target, LLVM's version, and a digest of the sources of this package and of the ABI (any edit of an
# emitter changes it).
# Example: the sums of x[64, 1000] and of x[32, 500] along rows have one key, because extents and strides are argument
# words; the sum of a transposed x has another, because its lanes are strided.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jitgrad.codegen.llvm.binding import binding, version
from jitgrad.codegen.llvm.builders import Builders, BuildRequest, build_all
from jitgrad.codegen.llvm.emit import Emitter
from jitgrad.codegen.llvm.object_cache import ObjectCache, open_cache
from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.events import bump, log
from jitgrad.locks import process_lock
from jitgrad.user_line import let_through

__all__ = [
    "CompiledKernel",
    "KernelSource",
    "build_beside",
    "compile_kernels",
    "disk_cache",
    "drop_idle_kernels",
    "is_at_hand",
    "version_key",
]

MAX_IDLE_KERNELS = 4096
KERNELS_PER_LINKER = 64
_MAPS_PER_KERNEL = 4
"""Memory maps that we reckon with: code and constants are two, and the process needs some for all else."""


@dataclass(slots=True, frozen=True)
class KernelSource:
    """What a kernel is compiled from.

    Attributes:
        name: the function's symbol in the text.
        key: everything the text depends on, apart from the target; the same in every process.
        text: prints the LLVM module; called on a miss only.
        needs_passes: its text keeps variables in memory and calls small functions: LLVM's passes clean that up.
    """

    name: str
    key: str
    text: Callable[[], str]
    needs_passes: bool = False


class CompiledKernel:
    """Loaded machine code. It stays loaded as long as this object lives.

    Attributes:
        name: its symbol.
        address: its entry point.
    """

    __slots__ = ("__weakref__", "_code", "address", "name")

    def __init__(self, name: str, address: int, code: Any) -> None:
        self.name, self.address, self._code = name, address, code

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name} at {self.address:#x})"


@functools.cache
def _sources_digest() -> str:
    """Of the sources that decide what a kernel is, wherever they were imported from: a folder or an archive."""
    digest = hashlib.blake2b(digest_size=16)
    for text in _sources(files("jitgrad")):
        digest.update(text)
    return digest.hexdigest()


def _sources(package: Any) -> Iterator[bytes]:
    yield (package / "abi.py").read_bytes()
    waiting = [package / "codegen"]
    while waiting:
        for entry in sorted(waiting.pop().iterdir(), key=lambda e: e.name):
            if entry.is_dir():
                waiting.append(entry)
            elif entry.name.endswith(".py"):
                yield entry.read_bytes()


@functools.cache
def version_key() -> str:
    """What every key on disk contains: LLVM's version and the digest of the sources."""
    return f"{version()}|{_sources_digest()}"


def _digest(source: KernelSource, target: Target) -> bytes:
    text = "\0".join((source.key, source.name, target.key, version_key()))
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


class _LlvmSession:
    """LLVM's own state. ``emit`` and ``load`` must be called under the compile lock."""

    def __init__(self, target: Target) -> None:
        self.target = (target.triple, target.cpu, target.features)
        self._emitter = Emitter(binding(), *self.target)
        self._linker: Any = None
        self._num_loaded = 0

    def emit(self, source: KernelSource, text: str) -> bytes:
        """Object code of a module; CompileError if LLVM refuses it."""
        try:
            return self._emitter.emit(text, source.needs_passes)
        except RuntimeError as error:
            let_through(error)
            raise CompileError(f"kernel {source.name}: {error}") from error

    def _next_linker(self) -> Any:
        """The linker of the next kernel.

        One keeps some 9 KB of every kernel that it has loaded, also of those that are gone, and is the slower for it.
        So it loads a certain number. It goes with the last of them, which holds it.
        """
        if self._num_loaded % KERNELS_PER_LINKER == 0:
            # JITLink lays a kernel's sections side by side. RuntimeDyld places each section anywhere, and aborts the
            # process when two of them that the small code model ties together are more than 2 GiB apart.
            self._linker = binding().create_lljit_compiler(self._emitter.make_machine(), use_jit_link=True)
        self._num_loaded += 1
        return self._linker

    def load(self, name: str, obj: bytes) -> CompiledKernel:
        """The kernel of an object; CompileError if it cannot be linked."""
        library = binding().JITLibraryBuilder().add_object_img(obj).add_current_process().export_symbol(name)
        try:
            tracker = library.link(self._next_linker(), f"kernel{self._num_loaded}")
        except RuntimeError as error:
            let_through(error)
            raise CompileError(f"kernel {name}: {error}") from error
        return CompiledKernel(name, tracker[name], tracker)


@functools.cache
def _session() -> _LlvmSession:
    return _LlvmSession(host_target())


_lock = process_lock()
_loaded: weakref.WeakValueDictionary[bytes, CompiledKernel] = weakref.WeakValueDictionary()
_recent: OrderedDict[bytes, CompiledKernel] = OrderedDict()
_beside: dict[bytes, int] = {}
"""What builders were asked for and is not needed at once: digest -> request."""
_made_beside: dict[bytes, bytes] = {}
"""Object code of theirs that nobody has loaded yet."""


@functools.cache
def _builders() -> Builders:
    def directory() -> int:
        cache = disk_cache()
        return -1 if cache is None else cache.descriptor()

    return Builders(_session().target, config.builders, directory)


def _forget_builders() -> None:
    """In a forked child: they are its parent's."""
    if _builders.cache_info().currsize:
        _builders().close()
    _beside.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_builders)


def compile_kernels(sources: Sequence[KernelSource]) -> list[CompiledKernel]:
    """The kernels of ``sources``, in order. Equal sources give the same object.

    Raises:
        CompileError: LLVM refused a text, and the message names the kernel; or too many kernels are in use.
    """
    with _lock:
        digests = [_digest(source, host_target()) for source in sources]
        found = _at_hand(dict(zip(digests, sources, strict=True)))
        return [found[digest] for digest in digests]


def build_beside(source: KernelSource) -> bool:
    """Have a builder make a kernel, Note [Builders]; whether ``compile_kernels`` is to be called now.

    If not, the kernel is on the way: ask again later. It is to be called where the kernel is at hand, and where there
    is nobody to make it but this process.
    """
    with _lock:
        digest = _digest(source, host_target())
        if digest in _beside:
            return _take_beside(digest)
        cache = disk_cache()
        is_there = digest in _loaded or digest in _made_beside or (cache is not None and cache.load(digest) is not None)
        if is_there or not config.builders:
            return True
        nr = _builders().ask_for_later(BuildRequest(digest, source.text, source.needs_passes), source.text())
        if nr:
            _beside[digest] = nr
        return not nr


def _take_beside(digest: bytes) -> bool:
    """Whether a builder has done what it was asked, or will never do it."""
    builders = _builders()
    builders.look()
    is_there, obj = builders.take(_beside[digest])
    if is_there:
        del _beside[digest]
        if obj is not None:
            _made_beside[digest] = obj
            bump("built_beside")
    return is_there


def is_at_hand(source: KernelSource) -> bool:
    """Whether ``compile_kernels`` need not ask LLVM: the kernel is loaded, or in the disk cache."""
    digest = _digest(source, host_target())
    cache = disk_cache()
    return digest in _loaded or (cache is not None and cache.holds(digest))


def drop_idle_kernels() -> None:
    """Forget the kernels that are kept only in case they are asked for again."""
    with _lock:
        _recent.clear()


@functools.cache
def max_live_kernels() -> int:
    """How many kernels a process may hold: a kernel has pages of its own, and the system counts a process's maps."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text()) // _MAPS_PER_KERNEL
    except (OSError, ValueError):
        return 1 << 20


def _make_room() -> None:
    """CompileError where one more kernel might find no memory map: LLVM would end the process."""
    if len(_loaded) < max_live_kernels():
        return
    _recent.clear()
    if len(_loaded) >= max_live_kernels():
        raise CompileError(f"{len(_loaded)} kernels are in use, and the system has no memory maps for more")


def _at_hand(wanted: dict[bytes, KernelSource]) -> dict[bytes, CompiledKernel]:
    """The kernels of some digests: those in memory, those of the disk cache, and the rest by LLVM."""
    found: dict[bytes, CompiledKernel] = {}
    missing: dict[bytes, KernelSource] = {}
    for digest, source in wanted.items():
        kernel = _loaded.get(digest)
        if kernel is None:
            _make_room()
            kernel = _read(source, digest)
            if kernel is None:
                missing[digest] = source
                continue
            _remember(digest, kernel)
        found[digest] = kernel
    if missing:
        for digest, obj in zip(missing, _emit_all(missing), strict=True):
            _make_room()
            found[digest] = _session().load(missing[digest].name, obj)
            _remember(digest, found[digest])
    return found


def _remember(digest: bytes, kernel: CompiledKernel) -> None:
    """Make a loaded kernel findable, and keep it for a while, in case it is asked for again.

    Those that are kept go in the order in which they were loaded, however often one was asked for: it would hold its
    linker, and with it what that keeps of 63 others.
    """
    _loaded[digest] = kernel
    _recent[digest] = kernel
    while len(_recent) > MAX_IDLE_KERNELS:
        _recent.popitem(last=False)
        bump("evictions")


def disk_cache() -> ObjectCache | None:
    """Where kernels are kept; None if nowhere."""
    return open_cache(None if config.cache_dir is None else os.fspath(config.cache_dir), config.cache_limit_nbytes)


def _read(source: KernelSource, digest: bytes) -> CompiledKernel | None:
    """From the disk cache. An object that does not load is as good as none."""
    cache = disk_cache()
    cached = cache.load(digest) if cache else None
    if cached is not None:
        with contextlib.suppress(CompileError):
            kernel = _session().load(source.name, cached)
            bump("cache_reads")
            return kernel
    return None


def _emit_all(missing: dict[bytes, KernelSource]) -> list[bytes]:
    """Object code by LLVM, here and by builders; it goes into the disk cache."""
    sources, made = list(missing.values()), [_made_beside.pop(digest, None) for digest in missing]
    jobs = [nr for nr, obj in enumerate(made) if obj is None]
    digests = list(missing)

    def here(job: int, text: str) -> bytes:
        return _session().emit(sources[jobs[job]], text)

    wanted = [BuildRequest(digests[nr], _logged(sources[nr]), sources[nr].needs_passes) for nr in jobs]
    for nr, obj in zip(jobs, build_all(wanted, here, _builders()), strict=True):
        made[nr] = obj
    cache, objects = disk_cache(), [obj for obj in made if obj is not None]
    for digest, obj in zip(digests, objects, strict=True):
        bump("compiles")
        if cache and cache.store(digest, obj):
            bump("cache_writes")
    return objects


def _logged(source: KernelSource) -> Callable[[], str]:
    def text() -> str:
        printed = source.text()
        log("llvm", "%s\n%s", source.name, printed)
        return printed

    return text
