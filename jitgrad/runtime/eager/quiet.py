"""NumPy without floating-point warnings, at no cost per call.

Owns: ``run_quietly``, ``run_into``, and ``quiet.run`` for the one caller that cannot afford its frame.

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

__all__ = ["quiet", "run_anyway", "run_into", "run_quietly"]


def _run_in_errstate(function: Callable[..., Any], *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*args)


class _Quiet(threading.local):
    """A context cannot be entered twice at once, so each thread has its own."""

    def __init__(self) -> None:
        if np.lib.NumpyVersion(np.__version__) < "2.0.0":
            self.run: Callable[..., Any] = _run_in_errstate
        else:
            context = contextvars.copy_context()
            context.run(np.seterr, all="ignore")
            self.run = context.run


quiet = _Quiet()


def run_quietly(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` with NumPy's floating-point errors ignored."""
    try:
        return quiet.run(function, *args)
    except RuntimeError as error:
        return run_anyway(error, function, *args)


def run_into(function: Callable[..., Any], out: Any, *args: Any) -> None:
    """``run_quietly`` of a ufunc, into ``out`` (by name: ``maximum`` and ``minimum`` deprecate a third argument)."""
    try:
        quiet.run(function, *args, out=out)
    except RuntimeError as error:
        run_anyway(error, partial(function, out=out), *args)


def run_anyway(error: RuntimeError, function: Callable[..., Any], *args: Any) -> Any:
    """After ``quiet.run`` has raised: again, if only a finalizer had come here in the middle of another operation."""
    if "cannot enter context" not in str(error):
        try:
            raise error
        finally:
            del error  # it refers to this frame: if that referred to the error, both would live on
    return _run_in_errstate(function, *args)
