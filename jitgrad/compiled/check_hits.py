"""``JITGRAD_CHECK=1``: every native hit of an operation is looked at again, in Python.

Owns: ``checked``, which stands around an entry of native code.
Must not know: how a hit is found.

A reference that is counted once too often, or a slot at another offset, shows only much later, as a leak or a crash.
Here the next statement fails: the trie node must be the one that the call describes, the result what the shape rule
says, and no object may have more or fewer references than before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.errors import JitgradError
from jitgrad.ops.table import Op
from jitgrad.runtime.eager.eager import split_args
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.numbers import FITTED
from jitgrad.tracer.recorder import Recorder
from jitgrad.tracer.shape_rules import out_avals_of

__all__ = ["checked", "why_wrong"]


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
            # another thread may be about to return from the call that used this recorder before
            if not reason and threading.active_count() == 1 and references(recorder) != before:
                reason = f"the recorder has {references(recorder) - before} more references"
            # the variable and the recorder's list, and an operand that is its own result
            if not reason and references(out) > ONE_LOCAL + 1 + len(given) + len(args):
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
    (aval,), _ = out_avals_of(op, inputs, params)
    if (out._aval.shape, out._aval.dtype) != (aval.shape, aval.dtype):
        return f"the result is {out._aval!r}, the shape rule says {aval!r}"
    return ""
