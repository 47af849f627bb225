"""``@jitgrad.compile``.

Owns: the decorator, the life of one recorded call, ``eager()``.
In: a function of tensors and anything else. Out: a function that means the same.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from jitgrad.compiled.backend import backend
from jitgrad.compiled.batches import Batches
from jitgrad.config import config
from jitgrad.dtypes import get_default_dtype
from jitgrad.events import bump, bump_call
from jitgrad.state import state, switch_handler
from jitgrad.tracer.hot import HOT
from jitgrad.tracer.recorder import Recorder
from jitgrad.tracer.recorder_state import new_tid
from jitgrad.tracer.trie import Trie

# Note [New graphs]
# ~~~~~~~~~~~~~~~~~
# A step whose graph is new at every call gains nothing from a compiler: its kernels run once. After a few calls in a
# row that recorded something new (``_DEFER_AFTER``), a segment seen for the first time is run operation by operation,
# and compiled when it is met again; after more of them (``_EAGER_AFTER``) most calls run eagerly, and one in
# ``_LOOK_EVERY`` is recorded, to notice when graphs repeat. One call without a miss ends all this.
# ``stats()["eager_calls"]`` counts.
# A segment that runs operation by operation may round differently from its kernels, which contract ``x * y + z`` and
# add up sums in blocks: a call's last bits may depend on whether its graph was new. With ``config.same_bits`` every
# segment is compiled when it is first met, at whatever cost (no Note [Long calls] either), and equal calls give equal
# bits.
_DEFER_AFTER, _EAGER_AFTER, _LOOK_EVERY = 6, 16, 16

__all__ = ["CompiledFunction", "compile", "eager"]

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def eager() -> Iterator[None]:
    """Run compiled functions eagerly inside the block, on this thread; also inside a step that is being recorded."""
    recorder = state.handler
    versions = recorder.leave() if recorder is not None else {}
    state.eager_depth += 1
    switch_handler(None)
    try:
        yield
    finally:
        switch_handler(recorder)
        state.eager_depth -= 1
        if recorder is not None:
            recorder.come_back(versions)


class CompiledFunction:
    """A function whose every call is recorded and run as compiled segments.

    Attributes:
        fn: the function as written; call it to run eagerly.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self._trie = Trie(config.max_trie_nodes, config.max_new_values)
        self._last: Any = None
        self._streak = 0
        self._skip = 0
        self._idle: list[Recorder] = []
        self._batches = Batches()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if state.handler is not None or state.eager_depth or config.eager or state.anomaly_enabled:
            return self.fn(*args, **kwargs)
        if self._skip:
            self._skip -= 1
            bump("eager_calls")
            return self.fn(*args, **kwargs)
        swapped: list[Any] = []
        if args or kwargs:
            args, kwargs, swapped = self._batches.swap(args, kwargs)
        grad_mode = state.grad_enabled
        try:
            recorder = self._idle.pop()  # atomic under the GIL
        except IndexError:
            recorder = Recorder(self._trie, backend, config.max_segment_ops)
        else:
            if not HOT.hit_begin(recorder, new_tid(), grad_mode, get_default_dtype()):
                recorder.begin()
        tid = recorder.tid
        try:
            HOT.began(recorder)
            switch_handler(recorder)
            if state.saved_tensor_hooks:
                recorder.saved_hooks_changed()
            result = self.fn(*args, **kwargs)
            recorder.flush(is_last=True)
        except Exception:
            # what was recorded before the exception has happened, as in eager mode
            recorder.flush()
            raise
        except BaseException as interrupt:
            self._flush_after(interrupt, recorder)
            raise
        finally:
            if recorder.has_stopped:
                state.eager_depth -= 1
            switch_handler(None)
            HOT.ended(tid)
            if HOT.hit_finish(recorder):
                self._last = recorder.node
                self._streak = 0
                self._trie.defers = False
                self._idle.append(recorder)
            else:
                self._finish(recorder)
            if swapped:
                self._batches.settle(swapped)
        return self._batches.returned(result, swapped) if swapped else result

    @staticmethod
    def _flush_after(interrupt: BaseException, recorder: Recorder) -> None:
        """``flush`` after Ctrl-C, which may have come while the recorder changed its state.

        If that cannot be finished, what the segment would have written is not written, and the interrupt goes on.
        """
        recorder.path.misses += 1  # no other call uses this recorder
        try:
            recorder.flush()
        except Exception as lost:
            interrupt.add_note(f"in a compiled step; the operations since its last read are lost: {lost!r}")

    def _finish(self, recorder: Recorder) -> None:
        """Count, and let go of what the call held."""
        node = recorder.node
        self._last = node
        self._trie.end_of_call(node)
        bump_call(node.depth, recorder.path.misses, recorder.segments, recorder.launches)
        recorder.graph.close()
        if recorder.path.misses and not recorder.has_stopped:
            self._count_new_graph()
        elif not recorder.path.misses:
            self._streak = 0
            self._trie.defers = False
        if recorder.rest():
            self._idle.append(recorder)

    def _count_new_graph(self) -> None:
        """See Note [New graphs]."""
        if config.same_bits:
            return
        self._streak += 1
        self._trie.defers = self._streak >= _DEFER_AFTER
        if self._streak >= _EAGER_AFTER:
            self._skip = _LOOK_EVERY - 1

    def last_path(self) -> list[Any]:
        """The events of the call that ended last, on any thread; for ``explain``."""
        path = []
        node = self._last
        while node is not None:
            path.append(node.event)
            node = node.parent
        return path[::-1]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Methods: one trie for all instances, whose tensors are inputs like any other."""
        return self if instance is None else functools.partial(self, instance)

    # copies and pickles are new functions of the same Python, and record for themselves
    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        fn = copy.deepcopy(self.fn, memo)
        return self if fn is self.fn else CompiledFunction(fn)

    def __reduce__(self) -> Any:
        # a decorated function is found by its name, as functions are; what it wraps cannot be
        found: Any = sys.modules.get(getattr(self.fn, "__module__", ""))
        name = getattr(self.fn, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (CompiledFunction, (self.fn,))

    def __repr__(self) -> str:
        return f"<jitgrad.compile of {getattr(self.fn, '__qualname__', self.fn)!r}>"


@overload
def compile(
    fn: F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: Any = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> F: ...


@overload
def compile(
    fn: None = None,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: Any = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> Callable[[F], F]: ...


def compile(
    fn: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Decorate a training step, or any function of tensors: with or without parentheses.

    The function runs in Python at every call, so branches, loops, prints and closures mean what they always mean; what
    it does to tensors is recorded and runs as fused native code. Reading a value (``.item()``, ``bool()``, ``print``)
    runs what has been recorded so far.

    Args:
        fn: the function. An ``nn.Module`` has its ``forward`` compiled in place and is returned (PyTorch wraps it).
        fullgraph, dynamic, backend, mode, options: accepted for PyTorch's sake; there is one compiler.
        disable: return ``fn`` as it is.

    Returns:
        A callable of the same signature. Calls inside another compiled function are recorded by that one.
    """
    if disable:
        return fn if fn is not None else lambda function: function
    return _compiled if fn is None else _compiled(fn)


def _compiled(fn: Any) -> Any:
    if not (hasattr(fn, "forward") and hasattr(fn, "compile")):
        return CompiledFunction(fn)
    fn.compile()  # a Module, which this level does not know
    return fn
