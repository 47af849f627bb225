"""NumPy without floating-point warnings, at no cost per call.

Owns: ``run_quietly``, ``run_into``, and ``quiet.run`` and ``quiet.context`` for callers that cannot afford a frame.

# Note [Quiet NumPy]
# ~~~~~~~~~~~~~~~~~~
# An operation may overflow or divide by zero: the result is inf or nan, as in PyTorch, and no warning is wanted.
# ``np.errstate`` around each call costs more than the call. Since NumPy 2 the error state is a context variable, so a
# context in which it was set once serves for ever, and running in it costs 30 ns; the user's own state is untouched.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

__all__ = ["has_context", "quiet", "run_anyway", "run_in_errstate", "run_into", "run_quietly"]


def run_in_errstate(function: Callable[..., Any], *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*args)


class _Errstate:
    """Stands for a context where the error state is none of a context."""

    run = staticmethod(run_in_errstate)


class _Quiet(threading.local):
    """A context cannot be entered twice at once, so each thread has its own.

    Attributes:
        context: a ``contextvars.Context``, or with old NumPy an object with the same ``run``.
        run: its method.
    """

    def __init__(self) -> None:
        if np.lib.NumpyVersion(np.__version__) < "2.0.0":
            self.context: Any = _Errstate
            self.run: Callable[..., Any] = run_in_errstate
        else:
            context = contextvars.copy_context()
            context.run(np.seterr, all="ignore")
            self.context, self.run = context, context.run


quiet = _Quiet()


def has_context() -> bool:
    """Whether NumPy's error state belongs to a context."""
    return isinstance(quiet.context, contextvars.Context)


TROUBLES = (RuntimeError, MemoryError, ValueError, OverflowError)
"""What ``run_anyway`` looks at."""


def run_quietly(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` with NumPy's floating-point errors ignored. RuntimeError where NumPy gets no memory."""
    try:
        return quiet.run(function, *args)
    except TROUBLES as error:
        return run_anyway(error, function, *args)


def run_into(function: Callable[..., Any], out: Any, *args: Any) -> None:
    """``run_quietly`` of a ufunc, into ``out`` (by name: ``maximum`` and ``minimum`` deprecate a third argument)."""
    try:
        quiet.run(function, *args, out=out)
    except TROUBLES as error:
        run_anyway(error, partial(function, out=out), *args)


def run_anyway(error: Exception, function: Callable[..., Any], *args: Any) -> Any:
    """After ``quiet.run`` has raised: again, if only a finalizer had come here in the middle of another operation.

    Raises:
        RuntimeError: NumPy got no memory, or would have to count its bytes by more than 64 bits: as a kernel says it.
        ValueError: an argument is an integer of more than 64 bits.
        Exception: any other error, as it is.
    """
    if isinstance(error, RuntimeError) and "cannot enter context" in str(error):
        return run_in_errstate(function, *args)
    try:
        if isinstance(error, MemoryError):
            raise RuntimeError(f"DefaultCPUAllocator: can't allocate memory: {error}") from None
        if str(error).startswith(("array is too big", "Maximum allowed", "arange: cannot compute length")):
            raise RuntimeError(f"Storage size calculation overflowed: {error}") from None
        if isinstance(error, OverflowError) and "Python int too large" in str(error):
            raise ValueError(f"Overflow when unpacking long long: {error}") from None
        raise error
    finally:
        del error  # it refers to this frame: if that referred to the error, both would live on
