"""Grad mode: whether operations join the graph.

Owns: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``, ``set_multithreading_enabled``.
Must not know: tensors, the recorder's class.

The mode belongs to the thread. An active recorder hears of each change: what it records depends on the mode.

# Note [Inference tensors]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# A tensor made in inference mode may never take part in autograd: it cannot be written or made to require grad outside
# the mode, nor be saved for backward. The mark is the class of its version counter (``InferenceVersion``), which views
# and detached aliases share. Eagerly ``new_tensor`` sets it; what a trace computed gets it when a segment ends in the
# mode, so entering and leaving the mode inside a step ends the segment.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from jitgrad.state import modes_in_use, state

__all__ = [
    "GradMode",
    "decorate_with",
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_grad_mode",
    "set_multithreading_enabled",
]

F = TypeVar("F", bound=Callable[..., Any])


def set_grad_mode(enabled: bool) -> None:
    """Set the thread's grad mode."""
    if modes_in_use and state.inference_mode:
        state.pretends_grad, enabled = enabled, False
    state.grad_enabled = enabled
    recorder = state.handler
    if recorder is not None:
        recorder.set_grad_mode(enabled)


def is_grad_enabled() -> bool:
    """The thread's grad mode: whether its operations join the graph, but for inference mode."""
    return state.grad_enabled or state.pretends_grad


class GradMode:
    """A mode for a ``with`` block, a function, or the running parts of a generator.

    One object may be entered again inside itself, so the modes to restore form a stack. A compiled step enters modes
    every iteration, so these two methods look at the thread's dictionary once instead of at the local four times.
    """

    __slots__ = ("_outer",)

    _mode = False
    _outer: Any

    def __enter__(self) -> None:
        thread = state.__dict__
        try:
            enabled = thread["grad_enabled"]
        except KeyError:  # the thread's first look
            enabled = True
        mode = self._mode
        self._outer = (enabled, self._outer)
        try:
            thread["grad_enabled"] = mode
            if enabled is not mode:
                recorder = thread.get("handler")
                if recorder is not None:
                    recorder.set_grad_mode(mode)
        except BaseException:  # Ctrl-C: Python does not call __exit__ of a block that was not entered
            thread["grad_enabled"], self._outer = self._outer
            raise

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        thread = state.__dict__
        enabled, outer = self._outer
        try:
            if thread["grad_enabled"] is not enabled:
                thread["grad_enabled"] = enabled
                recorder = thread.get("handler")
                if recorder is not None:
                    recorder.set_grad_mode(enabled)
        finally:
            thread["grad_enabled"], self._outer = enabled, outer

    def __call__(self, fn: F) -> F:
        """Decorate ``fn``; of a generator function, each resumption runs in the mode."""
        if inspect.isclass(fn):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        decorated: F = decorate_with(self._again, fn)
        return decorated

    def _again(self) -> Any:
        return type(self)()

    def clone(self) -> Any:
        """Another one that does the same."""
        return self._again()


class no_grad(GradMode):
    """Operations do not join the graph: ``with no_grad(): ...`` or ``@no_grad()``; also ``@no_grad``."""

    __slots__ = ()

    def __new__(cls, orig_func: Any = None) -> Any:
        self = object.__new__(cls)
        self._outer = None
        return self if orig_func is None else self(orig_func)


class enable_grad(no_grad):
    """Operations join the graph, also inside ``no_grad``; inside ``inference_mode`` they do not."""

    _mode = True

    def __enter__(self) -> None:
        if modes_in_use and state.inference_mode:
            self._outer = (_Pretended(state.pretends_grad), self._outer)
            state.pretends_grad = True
        else:
            super().__enter__()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        before, outer = self._outer
        if isinstance(before, _Pretended):
            state.pretends_grad, self._outer = before.grad, outer
        else:
            super().__exit__(kind, error, traceback)


class _Pretended(NamedTuple):
    """The grad mode to go back to inside inference mode."""

    grad: bool


class set_grad_enabled(GradMode):
    """Set the mode at once; as a context manager, restore it at the end of the block."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self._mode = mode
        self._outer = None
        self._before = is_grad_enabled()
        set_grad_mode(self._mode)

    def __enter__(self) -> None:
        self._outer = (self._before, self._outer)
        self._before = self._mode
        set_grad_mode(self._mode)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        enabled, self._outer = self._outer
        set_grad_mode(enabled)

    def __call__(self, fn: F) -> F:
        """Decorate ``fn``; the mode outside stays as it was before."""
        set_grad_mode(self._before)
        return super().__call__(fn)

    def _again(self) -> Any:
        return set_grad_enabled(self._mode)

    def __repr__(self) -> str:
        return f"jitgrad.set_grad_enabled(mode={self._mode})"


class inference_mode(no_grad):
    """``no_grad``, as a promise that the results are never part of a graph; ``inference_mode(False)`` ends one."""

    _flag: bool

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        self._outer = None
        self._flag = mode if isinstance(mode, bool) else True
        self._mode = not self._flag
        return self if isinstance(mode, bool) else self(mode)

    def __enter__(self) -> None:
        _end_segment(self._flag)  # may raise: then nothing has changed
        super().__enter__()
        self._outer = (*self._outer, state.inference_mode, state.pretends_grad)
        state.pretends_grad = False
        _set_inference_mode(self._flag)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        enabled, outer, before, state.pretends_grad = self._outer
        try:
            _end_segment(before)
        finally:
            _set_inference_mode(before)
            self._outer = (enabled, outer)
            super().__exit__(kind, error, traceback)

    def _again(self) -> Any:
        return inference_mode(self._flag)


def _end_segment(enabled: bool) -> None:
    """A segment's results are all inference tensors, or none is."""
    if enabled is not state.inference_mode and state.handler is not None:
        state.handler.flush()


def _set_inference_mode(enabled: bool) -> None:
    """See Note [Inference tensors]."""
    if enabled is state.inference_mode:
        return
    state.inference_mode = enabled
    if enabled:
        modes_in_use.append("inference mode")
    else:
        modes_in_use.remove("inference mode")


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside ``inference_mode``."""
    return state.inference_mode


class set_multithreading_enabled:
    """Whether backward may run nodes on the threads of their devices; at once, or for a ``with`` block.

    Inside ``set_multithreading_enabled(False)`` the calling thread runs every node.
    """

    def __init__(self, mode: bool) -> None:
        self._mode, self._before = mode, state.multithreading_enabled
        state.multithreading_enabled = mode

    def __enter__(self) -> None:
        state.multithreading_enabled = self._mode

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        state.multithreading_enabled = self._before

    def __call__(self, fn: F) -> F:
        """Decorate ``fn``; outside, everything stays as it was."""
        state.multithreading_enabled = self._before
        decorated: F = decorate_with(lambda: set_multithreading_enabled(self._mode), fn)
        return decorated


def decorate_with(make_mode: Callable[[], Any], fn: Any) -> Any:
    """Run ``fn`` in a mode; of a generator function, each resumption."""
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
