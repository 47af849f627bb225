"""``JITGRAD_CHECK=1``: every native hit of an operation is looked at again, in Python.

Owns: ``checked``, which stands around an entry of native code; ``checked_front``, around a front.
Must not know: how a hit is found.

A reference that is counted once too often, or a slot at another offset, shows only much later, as a leak or a crash.
Here the next statement fails: the trie node must be the one that the call describes, the result what the shape rule
says, and no object may have more or fewer references than before.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.errors import JitgradError
from jitgrad.ops.table import Op
from jitgrad.runtime.eager.eager import split_args
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.front_hits import FrontRow, form_of
from jitgrad.tracer.hits.hits import MISSED
from jitgrad.tracer.recorder import Recorder
from jitgrad.tracer.recording.numbers import FITTED
from jitgrad.tracer.recording.shape_rules import out_avals_of, recorded_op

__all__ = ["checked", "checked_front", "why_wrong"]

_WORKERS = ("jitgrad-worker", "jitgrad-queue")
"""What the names of threads begin with that run kernels and queues: they hold what they were given until it is done."""


def checked(native: Callable[..., Any], arguments: Callable[..., tuple[Op, tuple[Any, ...]]]) -> Callable[..., Any]:
    """``native``, with a look at what it did.

    Args:
        arguments: (operation, its arguments) of a call's arguments.
    """

    def check(*given: Any) -> Any:
        recorder = state.handler
        if not isinstance(recorder, Recorder):
            return native(*given)
        misses, before = recorder.path.misses, references(recorder)
        out = native(*given)
        is_hit = recorder.path.misses == misses and state.handler is recorder
        if is_hit and isinstance(out, TensorBase) and out._tid == recorder.tid:
            op, args = arguments(*given)
            reason = why_wrong(recorder, op, args, out)
            is_alone = _is_alone()
            if not reason and is_alone and references(recorder) != before:
                reason = f"the recorder has {references(recorder) - before} more references"
            # the variable and the recorder's list, and an operand that is its own result
            if not reason and is_alone and references(out) > ONE_LOCAL + 1 + len(given) + len(args):
                reason = f"the result has {references(out)} references"
            if reason:
                raise JitgradError(f"native hit of {op.name}: {reason}")
        return out

    return check


def why_wrong(recorder: Any, op: Op, args: tuple[Any, ...], out: Any) -> str:
    """Why a hit is not what the call describes; empty if it is. ``out``: its result."""
    node = recorder.node
    if node.op is not op or node.event is None:
        return ""  # the segment has ended since, or the operation ran otherwise
    if node.vid != out._vid:
        return f"the result is value {out._vid}, the path's is {node.vid}"
    inputs, params = split_args(op, args)
    for want, x in zip(node.ids, inputs, strict=True):
        if want is FITTED and isinstance(x, int | float):
            continue  # any number that the dtype holds
        found = x._vid if isinstance(x, TensorBase) else type(x) if isinstance(want, type) else (x,)
        if repr(found) != repr(want):
            return f"operand {found!r}, the path's is {want!r}"
    if node.params != params:
        return f"params {params!r}, the path's are {node.params!r}"
    (aval,), _ = out_avals_of(recorded_op(op, inputs), inputs, params)
    if (out._aval.shape, out._aval.dtype) != (aval.shape, aval.dtype):
        return f"the result is {out._aval!r}, the shape rule says {aval!r}"
    return ""


def checked_front(name: str, functions: dict[str, Any]) -> Callable[..., Any]:
    """A front's native function, with a look at what it did.

    Args:
        name: of the native function.
        functions: where it will be found.
    """

    def check(row: Any, args: tuple[Any, ...], *names: Any) -> Any:
        recorder = state.handler
        if not isinstance(recorder, Recorder):
            return functions[name](row, args, *names)
        # where a segment has ended, a signal's handler has run between two looks; where it learns, the function has
        runs = recorder.segments, recorder.learned
        entered, has_links, depth = len(recorder.entered), recorder.links, recorder.node.depth
        before = [references(x) for x in args], references(recorder)
        out = functions[name](row, args, *names)
        after = [references(x) for x in args], references(recorder)
        if out is MISSED or state.handler is not recorder or (recorder.segments, recorder.learned) != runs:
            return out
        reason = ""
        is_alone = _is_alone()
        if is_alone and after[1] != before[1]:
            reason = f"the recorder has {after[1] - before[1]} more references"
        events = recorder.node.depth - depth - (len(recorder.entered) - entered) // 3
        # else views were linked, or what a call of several operations made between refers to its arguments
        if is_alone and not has_links and events <= 1:
            for nr, x in enumerate(args):
                expected = _holds(out, x) + sum(x is y for y in recorder.entered[entered:])
                if isinstance(x, TensorBase) and after[0][nr] - before[0][nr] != expected:
                    reason = f"argument {nr} has {after[0][nr] - before[0][nr]} more references, not {expected}"
        form = form_of(row, args, names[0] if names else None) if type(row) is FrontRow else None
        if not reason and form is not None and name == "call" and events == 1:
            reason = _why_wrong_call(recorder, form, args, out)
        if reason and not _is_interrupted():
            raise JitgradError(f"native front {name}: {reason}")
        return out

    return check


def _is_alone() -> bool:
    """Whether no other thread of the user's can take or drop references between two counts.

    One may use the same tensors, or be about to return from the call that used this recorder before.
    """
    this = threading.current_thread()
    return all(thread is this or thread.name.startswith(_WORKERS) for thread in threading.enumerate())


def _is_interrupted() -> bool:
    """Whether functions of the user's run at any time, by a timer or a debugger, and may hold what is counted."""
    if sys.gettrace() is not None:
        return True
    return hasattr(signal, "getitimer") and signal.getitimer(signal.ITIMER_REAL)[1] > 0


def _holds(out: Any, x: Any) -> int:
    """How often a result holds an argument: as itself, or as what it is a view of."""
    if isinstance(out, tuple):
        return sum(_holds(one, x) for one in out)
    count = 0
    while isinstance(out, TensorBase):
        count += out is x
        out = None if out is x else out._source
    return count


def _why_wrong_call(recorder: Any, form: Any, args: tuple[Any, ...], out: Any) -> str:
    """``why_wrong`` of a call that is one operation."""
    order = form.order or range(form.count)
    params = args[form.count :] + form.extras
    if not isinstance(out, TensorBase) or form.is_first:
        return ""
    if _is_alone() and references(out) > ONE_LOCAL + 2:  # the caller's variable, and the recorder's list
        return f"the result has {references(out)} references"
    return why_wrong(recorder, form.op, (*(args[at] for at in order), *params), out)
