"""How long the ways to do a product take on this machine, measured once for a class of products.

Owns: ``Question``, ``measured``, ``quickest``, ``grade``; which classes are measured and when, where times are kept.
Must not know: which ways there are, how a product is run (``trial``).

# Note [Measured tiles]
# ~~~~~~~~~~~~~~~~~~~~~
# A model of the core chooses a product's register tile, and whether panels of B and rows of A are copied
# (``core_model``). It is mostly right, and off by half where caches decide. So the few ways that it likes best are
# timed, on zeros, with the plain epilogue, and the times of a *class* of products (nearly the same extents, the same
# strides as far as caches care) are kept in the disk cache: under the CPU's model and the digest of codegen's sources,
# trusted like a kernel, Note [Cache trust]. What they say is never executed: they only choose among the ways that are
# right for a product, and every way gives the same bits, Note [Order of summation].
# Another way than the model's must be faster by 5 %; one that exists already may be slower by 8 %.
# Measuring is on by default, because the times last: a machine does it once. A first call must not become noticeably
# slower, and nearly all of a measurement is LLVM's time for kernels that nobody else uses. So a process measures a
# class only if this fits into a twentieth of the processor time that it has used so far, and a second at most; where it
# does not, the model decides, and a later compile or process comes back to it. ``python -m jitgrad.tune`` does all at
# once. Products of less than 20 us are left to the model. So is everything where times cannot be kept (no disk cache),
# where the machine has more to do than it has cores for, and where two runs of one kernel differ too much. Those that
# are measured hold a lock: threads measure one after the other; processes may do it twice, and the last one's file
# stays.
# Example: [256, 784] @ [784, 1024] on a Zen 4: 8x1 in place takes 2.3 times as long as 8x3 with copies of panels.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from jitgrad.codegen.gemm.spec import GemmSpec
from jitgrad.codegen.gemm.trial import MOST_RUN_NS, Trial, fastest, source_of
from jitgrad.codegen.llvm.jit import disk_cache, is_at_hand, version_key
from jitgrad.codegen.llvm.object_cache import ObjectCache
from jitgrad.codegen.llvm.target import Target, host_target, processor
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.events import bump, log
from jitgrad.locks import process_lock

__all__ = ["Question", "Times", "Way", "grade", "is_on", "measured", "on_measured", "quickest", "way_of"]

_CLEAR = 1.05  # so much faster than the model's choice, or that is taken
_LEAST_NS = 20_000  # of a product that is worth it
_MOST_NBYTES = 32 << 20  # of operands
_SHARE, _MOST_NS = 0.05, 1e9  # of the processor time so far
_KERNEL_NS = 16e6  # to compile one,
_TRIAL_NS = 2e6 + 7 * MOST_RUN_NS  # and to load and run it
_MAX_KNOWN = 4096
_MAX_TRIES = 2


class Way(NamedTuple):
    """How a product is done: what a spec has that is not given by the product.

    Attributes:
        rows, vectors: the register tile.
        copy: of panels of B.
        copy_rows: of A.
    """

    rows: int
    vectors: int
    copy: bool
    copy_rows: bool

    def __str__(self) -> str:
        copied = " and ".join(["A"] * self.copy_rows + ["B"] * self.copy)
        return f"{self.rows}x{self.vectors}" + (f", {copied} copied" if copied else "")


Times = Mapping[Way, float]
"""Nanoseconds."""

Prepare = Callable[[GemmSpec], Trial | None]
"""Makes a trial of a spec; None if it would take too long."""


class Question(NamedTuple):
    """What is to be known of a product.

    Attributes:
        key: its class; the same in every process.
        about: the product, in words.
        specs: the ways to measure, the model's choice first.
        prepare: makes the trials.
        nbytes: the size of A, B and C.
        multiplies: how many multiply-adds the whole product has.
        cost_ns: estimated, of it.
    """

    key: Hashable
    about: str
    specs: Sequence[GemmSpec]
    prepare: Prepare
    nbytes: Sequence[int]
    multiplies: int
    cost_ns: float


def way_of(spec: GemmSpec) -> Way:
    """The way of a spec."""
    return Way(spec.rows, spec.vectors, spec.copy, spec.copy_rows)


def grade(extent: int, exact: int) -> int:
    """The extents of one class: each of its own up to ``exact``, then four per doubling."""
    return extent if extent <= exact else exact + math.ceil(4 * math.log2(extent / exact))


on_measured: list[Callable[[Question, Times], None]] = []
"""Are called when times are known that the process did not know: measured, or read."""

_lock = process_lock()
_times: dict[bytes, Times] = {}
_tries: dict[bytes, int] = {}
_spent_ns = 0.0
_is_measuring = False


def is_on(target: Target) -> bool:
    """Whether times of kernels for ``target`` can be had at all."""
    return config.tune > 0 and target == host_target() and _cache() is not None


def measured(question: Question, target: Target) -> Times:
    """The times of the ways of a class, which may be others than those asked for; empty: they are not known.

    ``target``: of the kernels.
    """
    cache = _cache()
    if cache is None or question.cost_ns < _LEAST_NS:
        return {}
    digest = _digest(question.key, target)
    with _lock:
        found = _times.get(digest)
        if found is not None or _is_measuring:
            return found or {}
        found = _read(cache, digest) or _measure(question, digest, cache)
        if found:
            _remember(digest, found)
            for tell in on_measured:
                tell(question, found)
    return found or {}


def quickest(first: Way, times: Times) -> Way:
    """The way that ``times`` ask for: ``first``, the model's choice, unless another is clearly faster."""
    best = min(times, key=times.__getitem__)
    return best if _CLEAR * times[best] <= times.get(first, math.inf) else first


def _cache() -> ObjectCache | None:
    cache = disk_cache()
    return cache if cache is not None and cache.readable and cache.writable else None


def _digest(key: Hashable, target: Target) -> bytes:
    text = "\0".join(("times", repr(key), target.key, processor(), version_key()))
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


def _remember(digest: bytes, found: Times) -> None:
    if len(_times) >= _MAX_KNOWN:
        _times.clear()
        _tries.clear()
    _times[digest] = found


def _may_measure(trials: Sequence[Trial]) -> bool:
    """Whether now is the time for it, Note [Measured tiles]."""
    if config.tune > 1:
        return True
    missing = sum([not is_at_hand(source_of(trial)) for trial in trials])
    needed = missing * _KERNEL_NS + len(trials) * _TRIAL_NS
    return _spent_ns + needed <= min(_SHARE * time.process_time_ns(), _MOST_NS) and not _is_busy()


def _is_busy() -> bool:
    """Whether the machine has more to do than it has cores for."""
    try:
        return os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
    except (AttributeError, OSError):
        return False


def _measure(question: Question, digest: bytes, cache: ObjectCache) -> Times | None:
    """Measure, and keep the times; None if this is not the time for it, or something disturbed it."""
    global _is_measuring, _spent_ns
    if len(question.specs) < 2 or sum(question.nbytes) > _MOST_NBYTES or _tries.get(digest, 0) >= _MAX_TRIES:
        return None
    trials = [trial for spec in question.specs if (trial := question.prepare(spec)) is not None]
    if len(trials) < len(question.specs) or not _may_measure(trials):
        return None
    start, found = time.perf_counter_ns(), None
    _is_measuring = True
    _tries[digest] = _tries.get(digest, 0) + 1
    try:
        with contextlib.suppress(CompileError, MemoryError):
            found = fastest(trials, question.nbytes)
    finally:
        _is_measuring = False
        _spent_ns += time.perf_counter_ns() - start
    if found is None:
        return None
    times = dict(zip(map(way_of, question.specs), found, strict=True))
    bump("tuned")
    log("tune", "%s: %s", question.about, "; ".join([f"{way} {ns / 1e3:.1f} us" for way, ns in times.items()]))
    cache.store(digest, _pack(times))
    return times


def _pack(times: Times) -> bytes:
    return json.dumps([[*way, ns] for way, ns in times.items()]).encode()


def _read(cache: ObjectCache, digest: bytes) -> Times | None:
    payload = cache.load(digest)
    times = None if payload is None else _unpack(payload)
    bump("tuned_reads", int(bool(times)))
    return times


def _unpack(payload: bytes) -> Times | None:
    """What ``_pack`` wrote; None if it is anything else."""
    try:
        rows = json.loads(payload)
        times = {Way(int(m), int(n), bool(copy), bool(copy_rows)): float(ns) for m, n, copy, copy_rows, ns in rows}
    except (ValueError, TypeError):
        return None
    return times if all(0 < ns < math.inf for ns in times.values()) else None
