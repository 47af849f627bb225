"""The parts of the runtime that are native code, put in place at the first compile.

An eager kernel needs the driver alone; the native hits take LLVM longer than all of it.

Owns: when and in what order they are installed.
Must not know: what they do.
"""

from __future__ import annotations

import functools

from jitgrad.codegen.driver import driver
from jitgrad.compiled import native_hits
from jitgrad.compiled.native_code import NativeCode
from jitgrad.events import log
from jitgrad.runtime.native import executor
from jitgrad.user_line import let_through

__all__ = ["install_hits", "install_loops"]


@functools.cache
def install_loops() -> driver.NativeLoops:
    """Give the runtime its driver and worker loop."""
    native = driver.load()
    executor.install(native.driver, native.worker, native)
    return native


def install_hits() -> None:
    """Give the recorder its native hits, once; where a builder is to make them first, ends of calls ask again."""
    if not _is_settled:
        _install_hits()


_hits = NativeCode(install_hits)
_is_settled: list[bool] = []
"""Not empty: there is nothing to ask for any more."""


def _install_hits() -> None:
    native = install_loops()
    try:
        is_over = native_hits.install(_hits, native.driver)
    except Exception as error:  # they are an accelerator: without them every hit takes the Python path
        let_through(error)
        log("record", "native hits are off: %r", error)
        is_over = True
    if is_over:
        _hits.give_up()
        _is_settled.append(True)
