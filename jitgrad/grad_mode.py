"""Grad mode: whether operations join the graph.

Owns: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``.
Must not know: tensors, the recorder's class.

The mode belongs to the thread. A recorder that is active is told of each change: what it records depends on it.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from jitgrad.state import state

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_grad_mode",
]

class _Inference(threading.local):
    enabled: bool = False


_inference = _Inference()

F = TypeVar("F", bound=Callable[..., Any])


def set_grad_mode(enabled: bool) -> None:
    """Set the thread's grad mode."""
    state.grad_enabled = enabled
    recorder = state.recorder
    if recorder is not None:
        recorder.set_grad_mode(enabled)


def is_grad_enabled() -> bool:
    """Whether operations on this thread join the graph."""
    return state.grad_enabled


class _GradMode:
    """A mode for a ``with`` block, a function, or the running parts of a generator.

    One object may be entered again inside itself, so the modes to restore form a stack. A compiled step enters modes
    every iteration, so these two methods look at the thread's dictionary once instead of at the local four times.
    """

    _mode = False
    _outer: Any = None

    def __enter__(self) -> None:
        thread = state.__dict__
        try:
            enabled = thread["grad_enabled"]
        except KeyError:  # the thread's first look
            enabled = True
        self._outer = (enabled, self._outer)
        mode = self._mode
        thread["grad_enabled"] = mode
        if enabled is not mode:
            recorder = thread.get("recorder")
            if recorder is not None:
                recorder.set_grad_mode(mode)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        thread = state.__dict__
        enabled, self._outer = self._outer
        if thread["grad_enabled"] is not enabled:
            thread["grad_enabled"] = enabled
            recorder = thread.get("recorder")
            if recorder is not None:
                recorder.set_grad_mode(enabled)

    def __call__(self, fn: F) -> F:
        """Decorate ``fn``; of a generator function, each resumption runs in the mode."""
        decorated: F = _decorate(self._again, fn)
        return decorated

    def _again(self) -> Any:
        return type(self)()


class no_grad(_GradMode):
    """Operations do not join the graph: ``with no_grad(): ...`` or ``@no_grad()``; also ``@no_grad``."""

    def __new__(cls, fn: Any = None) -> Any:
        self = object.__new__(cls)
        return self if fn is None else self(fn)


class enable_grad(no_grad):
    """Operations join the graph, also inside ``no_grad``."""

    _mode = True


class set_grad_enabled(_GradMode):
    """Set the mode at once; as a context manager, restore it at the end of the block."""

    def __init__(self, mode: bool) -> None:
        self._mode = bool(mode)
        self._before = state.grad_enabled
        set_grad_mode(self._mode)

    def __enter__(self) -> None:
        self._outer = (self._before, self._outer)
        self._before = self._mode
        set_grad_mode(self._mode)

    def __call__(self, fn: F) -> F:
        """Decorate ``fn``; the mode outside stays as it was before."""
        set_grad_mode(self._before)
        return super().__call__(fn)

    def _again(self) -> Any:
        return set_grad_enabled(self._mode)


class inference_mode(no_grad):
    """``no_grad``, as a promise that the results are never part of a graph; ``inference_mode(False)`` ends one."""

    _flag: bool

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        self._flag = mode if isinstance(mode, bool) else True
        self._mode = not self._flag
        return self if isinstance(mode, bool) else self(mode)

    def __enter__(self) -> None:
        super().__enter__()
        self._outer = (*self._outer, _inference.enabled)
        _inference.enabled = self._flag

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        enabled, outer, _inference.enabled = self._outer
        self._outer = (enabled, outer)
        super().__exit__(kind, error, traceback)

    def _again(self) -> Any:
        return inference_mode(self._flag)


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside ``inference_mode``."""
    return _inference.enabled


def _decorate(make_mode: Callable[[], Any], fn: Any) -> Any:
    if inspect.isgeneratorfunction(fn):
        return _decorate_generator(make_mode, fn)

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with make_mode():
            return fn(*args, **kwargs)

    return wrapper


def _decorate_generator(make_mode: Callable[[], Any], fn: Any) -> Any:
    """The body runs in the mode, the consumer between two values does not."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        generator = fn(*args, **kwargs)
        resume: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with make_mode():
                    value = resume()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield value
            except GeneratorExit:
                with make_mode():
                    generator.close()
                raise
            except BaseException as error:
                resume = functools.partial(generator.throw, error)
            else:
                resume = functools.partial(generator.send, sent)

    return wrapper
