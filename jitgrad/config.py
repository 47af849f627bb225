"""Settings, each with a sentence; read from the environment once, at import.

Owns: the settings and the names of the log artifacts.
"""

from __future__ import annotations

import os

from jitgrad.lazy import LazyModule
from jitgrad.structs import struct

__all__ = ["LOGS", "VARIABLES", "Config", "config"]

LOGS = {
    "record": "each trie miss, with the event that was new",
    "fusion": "kernel groups, and why steps were not fused",
    "pipeline": "each segment after every pass of codegen's pipeline, and how often each rewrite rule applied",
    "llvm": "the LLVM IR of each kernel compiled",
    "tune": "each measurement of the ways to do a matrix product, in nanoseconds",
    "recompiles": "why a call that could have hit had to compile",
}


VARIABLES = {
    "JITGRAD_BUILDERS": "processes that LLVM runs in beside this one where the cache lacks a lot; default: as many as "
    "cores are left, at most 3",
    "JITGRAD_CACHE_DIR": "where object code is kept; empty: nowhere, the disk cache is off",
    "JITGRAD_CHECK": "1: look at each native hit of an operation again, in Python, at each index in jitgrad.kernel, "
    "and at where each kernel reads and writes",
    "JITGRAD_CPU": "an LLVM CPU name to compile for instead of the host's, such as x86-64-v3 or generic",
    "JITGRAD_EAGER": "1: run decorated functions eagerly; numpy: no eager operation runs as a kernel; kernels: all do",
    "JITGRAD_LIVENESS": "weak: ask weak references, not reference counts, what is still held",
    "JITGRAD_LOG": "artifacts to log, with commas between: see below",
    "JITGRAD_NATIVE_HITS": "0: do the recorder's hits in Python instead of native code",
    "JITGRAD_NUM_THREADS": "threads that kernels use, the caller's own included; default: all cores",
    "JITGRAD_SAME_BITS": "1: compile every graph at once, however new, so that equal calls give equal bits",
    "JITGRAD_SHUTDOWN_WAIT": "at exit, wait this many seconds for each of the engine's threads; default: 10",
    "JITGRAD_TUNE": "0: a model alone chooses how matrix products are done, no measurement; all: each class of "
    "products is measured when it is met, however long that takes",
    "JITGRAD_VCPUS": "how many virtual devices there are, vcpu:0 and so on; default: 2",
    "JITGRAD_VERIFY": "1: check what the code generator made after each of its passes",
}
"""Every variable of the environment that is read, with a sentence for ``python -m jitgrad --help``."""


_logging = LazyModule("logging")


EAGER_KERNELS = 8192
_TUNE = {"0": 0, "": 0, "all": 2}
_EAGER_KERNELS = {"numpy": -1, "kernels": 1}


def _default_cache_dir() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "jitgrad")


@struct
class Config:
    """What can be set.

    Attributes:
        eager: run decorated functions eagerly (``JITGRAD_EAGER=1``).
        num_threads: threads that kernels use, the caller's own included (``JITGRAD_NUM_THREADS``; default: all cores).
        cache_dir: where object code is kept (``JITGRAD_CACHE_DIR``); None turns the disk cache off (empty variable).
        cache_limit_nbytes: the disk cache is trimmed to this, least recently used first.
        eager_kernels: eager operations on this many elements or more run as kernels, as do products and what takes
            NumPy several calls on any number, Note [Eager kernels]; -1: none do
            (``JITGRAD_EAGER=numpy``; ``JITGRAD_EAGER=kernels``: all do, for tests).
        max_trie_nodes: per compiled function; the least recently used paths go first.
        max_new_values: a call that has recorded this many new values runs on eagerly, Note [Long calls].
        compile_at_once: a call that has recorded more new values than this leaves compiling what follows to the next
            call, Note [New graphs].
        same_bits: compile every graph at once, however new: equal calls give equal bits, Note [New graphs]
            (``JITGRAD_SAME_BITS=1``).
        max_segment_ops: a recorded segment is run when it reaches this many operations.
        check_hits: look at each native hit of an operation again, in Python, at each index in functions that
            ``jitgrad.kernel`` compiles, and prove of each kernel that it stays inside its operands, Note [Verification]
            (``JITGRAD_CHECK=1``).
        native_hits: do the recorder's hits in native code, Note [Native hits] (``JITGRAD_NATIVE_HITS=0``: in Python).
        reference_counts: ask reference counts what is still held (``JITGRAD_LIVENESS=weak``: ask weak references, as on
            interpreters without such counts), Note [Reference counts]. Cannot be changed after the import.
        vcpus: how many virtual devices ``vcpu:0`` ... there are (``JITGRAD_VCPUS``; default 2).
        shutdown_wait_s: at exit, wait this long for each of the engine's threads (``JITGRAD_SHUTDOWN_WAIT``, seconds).
        tune: choose register tiles of matrix products by measurements, Note [Measured tiles]: 0: never
            (``JITGRAD_TUNE=0``), 1: as time allows, 2: each class at once (``JITGRAD_TUNE=all``).
        builders: at most so many processes beside this one that LLVM runs in, Note [Builders] (``JITGRAD_BUILDERS``).
        verify: check what codegen made after each of its passes, Note [Verification] (``JITGRAD_VERIFY=1``).
        cpu: an LLVM CPU name to compile for instead of the host's (``JITGRAD_CPU``), for tests of other targets.
    """

    eager: bool
    num_threads: int
    cache_dir: str | os.PathLike[str] | None
    cache_limit_nbytes: int = 256 << 20
    eager_kernels: int = EAGER_KERNELS
    max_trie_nodes: int = 200_000
    max_new_values: int = 2048
    compile_at_once: int = 128
    same_bits: bool = False
    max_segment_ops: int = 20_000
    check_hits: bool = False
    native_hits: bool = True
    reference_counts: bool = True
    vcpus: int = 2
    shutdown_wait_s: float = 10.0
    cpu: str = ""
    tune: int = 1
    builders: int = 0
    verify: bool = False


def _variable(name: str, default: str = "") -> str:
    """A variable of the environment; KeyError if it is not among ``VARIABLES``."""
    assert VARIABLES[name]
    return os.environ.get(name, default)


def _is_on(name: str, default: str = "0") -> bool:
    return _variable(name, default) not in ("", "0")


def _from_environment() -> Config:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    mode = _variable("JITGRAD_EAGER", "0")
    for artifact in filter(None, _variable("JITGRAD_LOG").split(",")):
        if artifact not in LOGS:
            raise ValueError(f"JITGRAD_LOG: unknown artifact {artifact!r}; known: {', '.join(LOGS)}")
        _logging.basicConfig(format="[%(name)s] %(message)s")
        _logging.getLogger(f"jitgrad.{artifact}").setLevel(_logging.DEBUG)
    return Config(
        eager=mode not in ("", "0", *_EAGER_KERNELS),
        eager_kernels=_EAGER_KERNELS.get(mode, EAGER_KERNELS),
        num_threads=max(1, int(_variable("JITGRAD_NUM_THREADS", str(cores)))),
        cache_dir=_variable("JITGRAD_CACHE_DIR", _default_cache_dir()) or None,
        same_bits=_is_on("JITGRAD_SAME_BITS"),
        check_hits=_is_on("JITGRAD_CHECK"),
        native_hits=_is_on("JITGRAD_NATIVE_HITS", "1"),
        reference_counts=_variable("JITGRAD_LIVENESS") != "weak",
        vcpus=max(0, int(_variable("JITGRAD_VCPUS", "2"))),
        shutdown_wait_s=float(_variable("JITGRAD_SHUTDOWN_WAIT", "10")),
        cpu=_variable("JITGRAD_CPU"),
        tune=_TUNE.get(_variable("JITGRAD_TUNE", "1"), 1),
        builders=max(0, int(_variable("JITGRAD_BUILDERS", str(min(cores - 1, 3))))),
        verify=_is_on("JITGRAD_VERIFY"),
    )


config = _from_environment()
