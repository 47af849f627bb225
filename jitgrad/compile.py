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
from types import TracebackType
from typing import Any, TypeVar, overload

from jitgrad.compiled.backend import backend
from jitgrad.compiled.batches import Batches
from jitgrad.config import config
from jitgrad.cpython.primitives import Raised, has_front
from jitgrad.events import bump, bump_call
from jitgrad.garbage import collect_as_before
from jitgrad.lazy import LazyModule
from jitgrad.runtime.eager.direct import install_native
from jitgrad.runtime.eager.kernel import install_kernels
from jitgrad.state import anomaly, native_cell, state, switch_handler
from jitgrad.tracer.hits.call_hits import OPENED_FROM, CallSite
from jitgrad.tracer.recorder import Recorder
from jitgrad.tracer.recording.call_graph import OPENED_COSTS
from jitgrad.tracer.recording.history import History
from jitgrad.tracer.recording.hot import HOT
from jitgrad.tracer.recording.recorder_state import RUNNING, new_tid
from jitgrad.tracer.recording.trie import Trie
from jitgrad.user_line import PACKAGE, came_between

# Note [New graphs]
# ~~~~~~~~~~~~~~~~~
# A graph that is met once gains nothing from a compiler: its kernels run once. To plan an operation costs ten times
# what a small operation costs eagerly, so a call compiles what it records only until it has recorded
# ``config.compile_at_once`` new values. Segments that end later are run operation by operation
# (``compiled/interpret.py``), and compiled when they are met again, by the next call. Example: of a step of 1,000
# operations, the first call records and interprets, the second compiles, the third only runs. A graph that was met
# with other numbers counts as met, and a segment whose plan is known (Note [Known plans]) never waits.
# A step whose graph is new at every call never repeats, and one whose graphs come back now and then gains little: to
# record a new graph (a *look*) costs about ``LOOK_COSTS`` eager calls, and a call without a miss saves one at most. So
# a compiled function keeps account, in eager calls: ``debt`` is what its looks have cost less what known graphs have
# saved. From ``_DEFER_FROM`` on short segments wait, too. From ``_FOLLOW_FROM`` on (16 looks in a row) calls *follow*:
# one goes along the path as far as it is known, and leaves the recording at the first operation that is new, as a long
# call does (Note [Long calls]). To leave costs about one eager call, so after ``_TRIES`` of these in a row calls run
# eagerly for a while: 16 of them, and twice as many after each that leaves again, up to 256. 32 eager calls pay for one
# unit of debt, so there is a look now and then, and what is known grows.
# Example: sentences of 5 to 60 words. The first 16 lengths are recorded. Then a call follows; if its length is known,
# it saves an eager call, and ten of these pay for a look at another length. In the end all lengths are known. A step
# that never repeats costs a few hundredths more than eager mode. ``stats()`` counts ``eager_calls``, ``left_calls``.
# A segment that runs operation by operation may round differently from its kernels, which contract ``x * y + z`` and
# add up sums in blocks: a call's last bits may depend on whether its graph was new. With ``config.same_bits`` every
# segment is compiled when it is first met, at whatever cost (no Note [Long calls] either), and equal calls give equal
# bits.
#
# Note [Opened graphs]
# ~~~~~~~~~~~~~~~~~~~~
# The graph that a call leaves is one node as long as nobody looks (Note [Backward from outside]). Where somebody does
# after every call - ``create_graph=True`` outside, a hook, a custom Function - its Nodes are made from a recipe, in
# Python, some 20 us each. Eager mode makes them in native code, so with small values it is the quicker one, by two to
# four times. So a compiled function keeps account here, too: such a call adds ``OPENED_COSTS`` to ``opened`` of its
# trie, a plain backward takes one off. From ``OPENED_FROM`` on, which is 32 such calls in a row, calls run eagerly for
# a while if their values have ``_SMALL_NBYTES`` or less in the mean: 16 of them, and twice as many each time that a few
# looks show the same, up to 256. ``stats()["eager_calls"]`` counts them. A step that is compiled as a whole leaves no
# graph, and with ``config.same_bits`` nothing of this happens.
LOOK_COSTS = 10
_DEFER_FROM, _FOLLOW_FROM = 6 * LOOK_COSTS, 16 * LOOK_COSTS
MOST_DEBT = _FOLLOW_FROM + LOOK_COSTS
_TRIES, _FIRST_PAUSE, LONGEST_PAUSE, _EAGER_CALLS_PAY = 4, 16, 256, 32
_LOOKS, _SMALL_NBYTES = 4, 1 << 16

_checking: Any = LazyModule("jitgrad.checking.verify")

install_native(lambda: LazyModule("jitgrad.compiled.native_eager").install())
_EAGER_KERNELS = LazyModule("jitgrad.compiled.eager_kernels")
install_kernels(
    lambda request: _EAGER_KERNELS.make_kernel(request),
    lambda segment: _EAGER_KERNELS.make_step(segment),
    lambda segment: _EAGER_KERNELS.make_form(segment),
)

__all__ = ["LONGEST_PAUSE", "LOOK_COSTS", "MOST_DEBT", "CompiledFunction", "compile", "eager"]

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


class CompiledFunction(CallSite):
    """A function whose every call is recorded and run as compiled segments. Its attributes: see ``CallSite``."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.trie = Trie(config.max_trie_nodes, config.max_new_values)
        self.last = None
        self.debt = self.skip = self.tries = self.pauses = 0
        self.idle = []
        self.batches = Batches()

    @has_front("call_compiled")
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record a call. One that begins as others did is done by the front, ``call_compiled``."""
        if HOT.runs_now(self):
            return self._run_now(args, kwargs)
        swapped: list[Any] = []
        moves = self.batches.are_rebased
        if (args or kwargs) and moves is not False and (moves is None or kwargs or HOT.begins_inside(args)):
            args, kwargs, swapped = self.batches.swap(args, kwargs)
        try:
            recorder = self.idle.pop()  # atomic under the GIL
        except IndexError:
            recorder = Recorder(self.trie, backend, config.max_segment_ops)
        tid = new_tid()
        try:
            if not HOT.begin_call(recorder, tid):
                self._begin(recorder, tid)
            result = self.fn(*args, **kwargs)
            if not HOT.end_call(self, recorder):
                recorder.flush(is_last=True)
        except BaseException as error:
            self._flush_after(error, recorder, tid)
            raise
        finally:
            # a usual call is over at this point: another one may be using the recorder
            try:
                if recorder.tid is tid:
                    if recorder.has_stopped:  # here: Ctrl-C may come as soon as a function is called
                        state.eager_depth -= 1
                    self._end(recorder)
            finally:
                self._stop(tid)
            if swapped:
                self.batches.settle(swapped)
        return self.batches.returned(result, swapped) if swapped else result

    def settle(self, recorder: Recorder, how: tuple[int, Any, Any, list[bool]]) -> Any:
        """The end of a call that ``call_compiled`` has begun, and that raised or does not end as usual.

        Args:
            recorder: of the call.
            how: (the call's ``tid``; what the function has returned, or ``Raised``; what ``end_call`` has said, or
                ``Raised``, False if it was not asked; a list that is no longer empty once this function has begun).
        """
        tid, result, is_over, has_begun = how
        try:
            has_begun.append(True)
            error = next((one.error for one in (result, is_over) if type(one) is Raised), None)
            if error is not None:
                del how, is_over  # a traceback has this frame: it must not hold the error
                result = None
                try:
                    raise error
                finally:
                    error = None
            if is_over is False:
                recorder.flush(is_last=True)
        except BaseException as raised:
            self._flush_after(raised, recorder, tid)
            raise
        finally:
            try:
                if recorder.tid is tid:
                    if recorder.has_stopped:  # as in ``__call__``
                        state.eager_depth -= 1
                    self._end(recorder)
            finally:
                self._stop(tid)
        return result

    def _run_now(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that is not recorded, or is a part of another one."""
        if self.skip and not (state.handler is not None or state.eager_depth or config.eager or anomaly.enabled):
            self.skip -= 1
            bump("eager_calls")
        return self.fn(*args, **kwargs)

    def _begin(self, recorder: Recorder, tid: int) -> None:
        """``begin_call`` of a call that begins otherwise than the recorder's last one."""
        recorder.begin(tid)
        HOT.began(recorder)
        switch_handler(recorder)
        if state.saved_tensor_hooks:
            recorder.saved_hooks_changed()

    def _end(self, recorder: Recorder) -> None:
        """The end of a call that was not a usual one, or raised."""
        switch_handler(None)
        HOT.ended(recorder.tid)
        if recorder.has_stopped or not HOT.hit_finish(recorder):
            self._finish(recorder)
        else:
            HOT.put_away(self, recorder)
        for install in tuple(native_cell.waiting):
            install()

    @staticmethod
    def _stop(tid: int) -> None:
        """Have nothing recorded behind the call, also where Ctrl-C has come before ``_end`` had seen to it."""
        if state.handler is not None:
            switch_handler(None)
        HOT.ended(tid)

    @staticmethod
    def _flush_after(error: BaseException, recorder: Recorder, tid: int) -> None:
        """What was recorded before an exception has happened, as in eager mode.

        Ctrl-C, or what a signal handler raises, may have come while the recorder changed its state. If ``flush`` cannot
        be finished then, what the segment would have written is not written, and the interrupt goes on.
        """
        if recorder.tid is not tid:
            return
        if isinstance(error, Exception) and not came_between(error, _below_step(error.__traceback__)):
            recorder.flush()
            return
        recorder.path.misses += 1  # no other call uses this recorder
        try:
            recorder.flush()
        except Exception as lost:
            error.add_note(f"in a compiled step; the operations since its last read are lost: {lost!r}")

    def _finish(self, recorder: Recorder) -> None:
        """Count, and let go of what the call held."""
        collect_as_before(recorder.path)
        node = recorder.node
        if not (recorder.has_stopped and self.trie.follows):
            self.last = node
        if recorder.path.misses and not recorder.has_stopped and recorder.path.noted != recorder.tid:
            backend.note_path(recorder)
        self.trie.end_of_call(node, RUNNING)
        bump_call(node.depth, recorder.path.misses, recorder.segments, recorder.launches)
        recorder.graph.close()
        if recorder.has_stopped:
            self._count_left()
        elif recorder.path.misses:
            self._count_new_graph()
        else:
            self.count_known_graph()
        if self.trie.opened >= OPENED_FROM:
            self.pause()
        if recorder.rest():
            self.idle.append(recorder)

    def pause(self) -> None:
        """See Note [Opened graphs]."""
        if config.same_bits or not self._is_small():
            self.trie.opened = -LONGEST_PAUSE
            return
        self.trie.opened = OPENED_FROM - _LOOKS * OPENED_COSTS
        self.skip = min(_FIRST_PAUSE << min(self.pauses, 8), LONGEST_PAUSE)
        self.pauses += 1

    def _is_small(self) -> bool:
        """Whether the values of the call that ended last are small in the mean."""
        instrs = History.replay(self.last).instrs
        return sum([aval.nbytes for instr in instrs for aval in instr.avals]) <= _SMALL_NBYTES * len(instrs)

    def _count_new_graph(self) -> None:
        """A call recorded something new, see Note [New graphs]."""
        if not config.same_bits:
            self._owe(min(self.debt + LOOK_COSTS, MOST_DEBT))

    def count_known_graph(self) -> None:
        """A call had nothing new, see Note [New graphs]."""
        self.tries = 0
        self._owe(self.debt - 1)

    def _count_left(self) -> None:
        """A call left its recording, see Note [New graphs]."""
        if not self.trie.follows:
            return
        self.tries += 1
        if self.tries >= _TRIES:
            self.skip = min(_FIRST_PAUSE << (self.tries - _TRIES), LONGEST_PAUSE)
            self.tries = min(self.tries, _TRIES + 8)
            self._owe(self.debt - self.skip // _EAGER_CALLS_PAY)

    def _owe(self, debt: int) -> None:
        """Change ``debt``, and what it decides."""
        self.debt = max(debt, 0)
        self.trie.defers = debt >= _DEFER_FROM
        self.trie.follows = debt >= _FOLLOW_FROM

    def look_again(self) -> None:
        """Record the next call, whatever recent calls were like."""
        self.skip = self.tries = self.pauses = self.trie.opened = 0
        self._owe(0)

    def last_path(self) -> list[Any]:
        """The events of the call that ended last, on any thread; for ``explain``."""
        path = []
        node = self.last
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


def _below_step(place: TracebackType | None) -> TracebackType | None:
    """The part of a traceback from the first frame of jitgrad on that the step itself has called."""
    while place is not None and place.tb_frame.f_code.co_filename == __file__:
        place = place.tb_next
    while place is not None and not place.tb_frame.f_code.co_filename.startswith(PACKAGE):
        place = place.tb_next
    return place


@overload
def compile(
    model: F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: Any = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: Any = ...,
    verify: Any = ...,
) -> F: ...


@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: Any = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: Any = ...,
    verify: Any = ...,
) -> Callable[[F], F]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    verify: Any = False,
) -> Any:
    """Decorate a training step, or any function of tensors: with or without parentheses.

    The function runs in Python at every call, so branches, loops, prints and closures mean what they always mean; what
    it does to tensors is recorded and runs as fused native code. Reading a value (``.item()``, ``bool()``, ``print``)
    runs what has been recorded so far.

    Args:
        model: the function. An ``nn.Module`` has its ``forward`` compiled in place and is returned (PyTorch wraps it).
        fullgraph, dynamic, backend, mode, options, name, recompile_limit, isolate_recompiles, shapes_spec: accepted for
            PyTorch's sake; there is one compiler.
        disable: return ``model`` as it is.
        verify: hold calls against eager execution before they are done, see ``jitgrad.verify``, and raise
            ``VerificationError`` where they differ: True: every call; a number: the first so many; a ``Verification``:
            every call, with its options.

    Returns:
        A callable of the same signature. Calls inside another compiled function are recorded by that one.

    Raises:
        TypeError: ``verify`` with a module: give a function that calls it.
    """
    if disable:
        return model if model is not None else lambda function: function
    if verify is not False:
        return (lambda function: _verified(function, verify)) if model is None else _verified(model, verify)
    return _compiled if model is None else _compiled(model)


def _verified(fn: Any, verify: Any) -> Any:
    if hasattr(fn, "forward"):
        raise TypeError("compile(verify=...) takes a function; give it one that calls the module")
    return _checking.VerifiedFunction(CompiledFunction(fn), verify)


def _compiled(fn: Any) -> Any:
    if not (hasattr(fn, "forward") and hasattr(fn, "compile")):
        return CompiledFunction(fn)
    fn.compile()  # a Module, which this level does not know
    return fn
