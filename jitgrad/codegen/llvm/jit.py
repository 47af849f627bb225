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
        llvm = binding()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        make = llvm.Target.from_triple(target.triple).create_target_machine
        options = {"cpu": target.cpu, "features": target.features, "reloc": "pic", "codemodel": "small"}
        self._make_machine = functools.partial(make, opt=2, **options)
        self._machine = self._make_machine()
        self._linker: Any = None
        self._num_loaded = 0

    def emit(self, source: KernelSource, text: str) -> bytes:
        """Object code of a module, straight from the text: kernels are printed vectorised, passes gain nothing."""
        name = source.name
        try:
            module = binding().parse_assembly(text)
            module.verify()
            if source.needs_passes:
                self._clean_up(module)
            return self._machine.emit_object(module)
        except RuntimeError as error:
            let_through(error)
            raise CompileError(f"kernel {name}: {error}") from error

    def _clean_up(self, module: Any) -> None:
        llvm = binding()
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_jump_threading_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, llvm.create_pass_builder(self._machine, llvm.create_pipeline_tuning_options()))

    def _next_linker(self) -> Any:
        """The linker of the next kernel.

        One keeps some 9 KB of every kernel that it has loaded, also of those that are gone, and is the slower for it.
        So it loads a certain number. It goes with the last of them, which holds it.
        """
        if self._num_loaded % KERNELS_PER_LINKER == 0:
            # JITLink lays a kernel's sections side by side. RuntimeDyld places each section anywhere, and aborts the
            # process when two of them that the small code model ties together are more than 2 GiB apart.
            self._linker = binding().create_lljit_compiler(self._make_machine(), use_jit_link=True)
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


def compile_kernels(sources: Sequence[KernelSource]) -> list[CompiledKernel]:
    """The kernels of ``sources``, in order. Equal sources give the same object.

    Raises:
        CompileError: LLVM refused a text, and the message names the kernel; or too many kernels are in use.
    """
    with _lock:
        return [_compile_one(source) for source in sources]


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


def _compile_one(source: KernelSource) -> CompiledKernel:
    digest = _digest(source, host_target())
    kernel = _loaded.get(digest)
    if kernel is None:
        _make_room()
        kernel = _loaded[digest] = _build(source, digest)
    _recent[digest] = kernel
    _recent.move_to_end(digest)
    while len(_recent) > MAX_IDLE_KERNELS:
        _recent.popitem(last=False)
        bump("evictions")
    return kernel


def disk_cache() -> ObjectCache | None:
    """Where kernels are kept; None if nowhere."""
    return open_cache(None if config.cache_dir is None else os.fspath(config.cache_dir), config.cache_limit_nbytes)


def _build(source: KernelSource, digest: bytes) -> CompiledKernel:
    """From the disk cache, else by LLVM. An object that does not load is as good as none."""
    cache, session = disk_cache(), _session()
    cached = cache.load(digest) if cache else None
    if cached is not None:
        with contextlib.suppress(CompileError):
            kernel = session.load(source.name, cached)
            bump("cache_reads")
            return kernel
    text = source.text()
    log("llvm", "%s\n%s", source.name, text)
    obj = session.emit(source, text)
    bump("compiles")
    if cache and cache.store(digest, obj):
        bump("cache_writes")
    return session.load(source.name, obj)
