"""The parts of the runtime that are native code, put in place at the first compile.

Owns: when and in what order they are installed.
Must not know: what they do.
"""

from __future__ import annotations

from jitgrad.codegen.driver import driver
from jitgrad.compiled import native_hits
from jitgrad.events import log
from jitgrad.runtime.native import executor

__all__ = ["install_native"]


def install_native() -> None:
    """Give the runtime its driver and worker loop, and the recorder its native hits."""
    native = driver.load()
    executor.install(native.driver, native.worker, native)
    try:
        native_hits.install(native.driver)
    except Exception as error:  # they are an accelerator: without them every hit takes the Python path
        log("record", "native hits are off: %r", error)
