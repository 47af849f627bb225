"""Eager execution of operations, without a detour.

Owns: ``apply_one``, ``apply_two`` and ``apply_many``, and what native code does in their place (of writes:
``direct_writes.py``).
Must not know: traces, code generation.
In: an ``Op``, its operands, its params. Out: its result, a tensor.

The same steps as in ``eager.py``, in a straight line: most operations of most programs come by here, those over new
shapes, too, once ``plan_if_right`` has made a plan. What is not plain - other devices, a mode, operands that are no
tensors and no plain numbers - is left to ``apply_eager``.

# Note [Eager in native code]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Around NumPy's call an eager operation looks for its plan, makes a tensor and, in a graph, a Node with its edges and
# what it saves. In Python that takes several times as long as NumPy takes to multiply ten numbers. So these steps, and
# the loop of a plain backward, are written in the subset of Note [Native Python], marked ``eager_native`` or
# ``eager_apart``: Python runs them as they are, and once a process has run some thousand eager operations,
# ``compiled/native_eager.py`` compiles them, as a module of their own. From then on operators and comparisons
# try ``operate_now`` first, and the door ``apply_now``, ``write_now`` and ``update_now``. They answer for the main
# thread only: its ``Here`` is the active one.
# What may be refused of a write is left to Python: a write runs here only where the result fits, operands share all of
# their memory with what is written or none, this is neither a leaf nor a view if it is in a graph, and nobody asked to
# see writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jitgrad.cpython.primitives import (
    active,
    eager_apart,
    eager_native,
    is_hashable,
    joined,
    packed_rest,
)
from jitgrad.door import door
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.runtime.eager.eager import apply_eager, make_view
from jitgrad.runtime.eager.plan import EagerPlan, plan_if_right, plans
from jitgrad.runtime.eager.results import (
    Here,
    array_of,
    constant_of,
    join,
    needs_grad,
    result_of,
    results_of,
)
from jitgrad.state import autocasts, modes_in_use, override_classes, plain_tensors
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.hits import MISSED, Args
from jitgrad.tracer.recording.recorder_state import LATEST, RUNNING, RecorderState

__all__ = ["apply_many", "apply_now", "apply_one", "apply_two", "ask_again", "first_of", "here", "here_if_eager",
           "install_native", "is_number", "kinds_of", "multiply_now", "operate_now", "tick"]  # fmt: skip


class _OfThisThread(threading.local):
    def __init__(self) -> None:
        self.here = Here()


here = _OfThisThread()


# --- operations ---


@eager_native
def others_record(thread: Here) -> bool:
    """Whether another thread may be recording a call: then Note [Threads that share tensors] has a say."""
    if len(RUNNING) == 0:
        return False
    calls: dict[Any, Any] = RUNNING
    found = calls.get(LATEST[0])
    if found is None:
        return True
    alone: RecorderState = found
    return alone.thread is not thread.thread


@eager_apart
def run_one(thread: Here, op: Op, x: Any, params: tuple[Any, ...]) -> Any:
    """``apply_one``, or ``MISSED``."""
    if modes_in_use or not (len(params) == 0 or is_hashable(params)) or others_record(thread):
        return MISSED
    if not isinstance(x, TensorBase):
        return run_number(thread, op, x, params)
    known: dict[Any, Any] = plans
    found = known.get((op, params, x._aval))
    if found is None:
        found = plan_if_right(op, (x,), params)
        if found is None:
            return MISSED
    plan: EagerPlan = found
    made: Any = None
    if plan.is_plain is True:
        array = array_of(x)
        if array is MISSED:
            return MISSED
        made = result_of(thread, plan, (array,), params)
    elif plan.is_one_view is True and not (x._array is None and x.is_sparse):
        made = make_view(x, plan.aval, plan.has_base, False)
    else:
        return run_many(thread, op, (x,), params)
    if op.vjps and thread.thread.get("grad_enabled") is not False and needs_grad(x):
        join(plan, (True,), (x,), (made,))
    return made


@eager_apart
def run_number(thread: Here, op: Op, x: Any, params: tuple[Any, ...]) -> Any:
    """``run_one`` of a number: ``zeros(3)`` fills a tensor with one."""
    if not is_number(x):
        return MISSED
    known: dict[Any, Any] = plans
    found = known.get((op, params, (type(x), x)))
    if found is None:
        found = plan_if_right(op, (x,), params)
        if found is None:
            return MISSED
    plan: EagerPlan = found
    if plan.is_plain is not True:
        return MISSED
    return result_of(thread, plan, (constant_of(plan, x),), params)


@eager_apart
def kinds_of(inputs: tuple[Any, ...]) -> Any:
    """Operands in the keys of ``plans`` where the value of a number may decide the shape, see ``number_key``."""
    kinds: list[Any] = []
    for x in inputs:
        if isinstance(x, TensorBase):
            kinds.append(x._aval)
        else:
            kinds.append((type(x), x))
    return tuple(kinds)


@eager_apart
def plan_looked_at(op: Op, x: TensorBase, number: Any, params: tuple[Any, ...]) -> Any:
    """The plan of ``op(x, number)`` whose shape rule looks at the number, and has taken this one; else None."""
    known: dict[Any, Any] = plans
    found = known.get(("looked at", op, params, x._aval, type(number)))
    if found is None:
        return None
    plan: EagerPlan = found
    if plan._taken is None:
        return None
    taken: set[Any] = plan._taken
    return plan if ((type(number), number),) in taken else None


@eager_apart
def run_two(thread: Here, op: Op, x: Any, y: Any, params: tuple[Any, ...]) -> Any:
    """``apply_two``, or ``MISSED``."""
    if modes_in_use or not (len(params) == 0 or is_hashable(params)) or others_record(thread):
        return MISSED
    is_x = isinstance(x, TensorBase)
    is_y = isinstance(y, TensorBase)
    known: dict[Any, Any] = plans
    found = known.get((op, params, x._aval if is_x else type(x), y._aval if is_y else type(y)))
    if found is None and is_x and is_number(y):
        found = plan_looked_at(op, x, y, params)
    if found is None:
        if not (is_x or is_number(x)) or not (is_y or is_number(y)):
            return MISSED
        found = plan_if_right(op, (x, y), params)
        if found is None:
            return MISSED
    plan: EagerPlan = found
    if plan.is_plain is not True:
        return run_many(thread, op, (x, y), params)
    a = array_of(x) if is_x else constant_of(plan, x)
    b = array_of(y) if is_y else constant_of(plan, y)
    if a is MISSED or b is MISSED:
        return MISSED
    made = result_of(thread, plan, (a, b), params)
    if op.vjps and thread.thread.get("grad_enabled") is not False:
        needs_x = is_x and needs_grad(x)
        needs_y = is_y and needs_grad(y)
        if needs_x or needs_y:
            join(plan, (needs_x, needs_y), (x, y), (made,))
    return made


@eager_apart
def run_many(thread: Here, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """``apply_many``, or ``MISSED``."""
    if modes_in_use or not (len(params) == 0 or is_hashable(params)) or others_record(thread):
        return MISSED
    avals: list[Any] = []
    has_number = False
    has_other = False
    for x in inputs:
        if isinstance(x, TensorBase):
            avals.append(x._aval)
        else:
            avals.append(type(x))
            has_number = is_number(x)
            has_other = has_other or not has_number
    known: dict[Any, Any] = plans
    found = known.get(joined((op, params), tuple(avals)))
    if found is None and has_number:
        found = known.get(joined((op, params), kinds_of(inputs)))
    if found is None:
        found = None if has_other else plan_if_right(op, inputs, params)
        if found is None:
            return MISSED
    plan: EagerPlan = found
    made = results_of(thread, plan, inputs, params)
    if made is None:
        return MISSED
    outs: tuple[Any, ...] = made
    if op.vjps and thread.thread.get("grad_enabled") is not False:
        is_needed = False
        needs: list[Any] = []
        for x in inputs:
            needed = isinstance(x, TensorBase) and needs_grad(x)
            needs.append(needed)
            is_needed = is_needed or needed
        if is_needed:
            join(plan, tuple(needs), inputs, outs)
    return outs if plan.is_several is True else outs[0]


def apply_one(op: Op, x: Any, params: tuple[Any, ...]) -> Any:
    """``apply_eager(op, (x,), params)``; raises what that raises."""
    tick()
    out = run_one(here.here, op, x, params)
    return apply_eager(op, (x,), params) if out is MISSED else out


def apply_two(op: Op, x: Any, y: Any, params: tuple[Any, ...] = ()) -> Any:
    """``apply_eager(op, (x, y), params)``; raises what that raises."""
    tick()
    out = run_two(here.here, op, x, y, params)
    return apply_eager(op, (x, y), params) if out is MISSED else out


def apply_many(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """``apply_eager(op, inputs, params)``; raises what that raises."""
    tick()
    out = run_many(here.here, op, inputs, params)
    return apply_eager(op, inputs, params) if out is MISSED else out


# --- where native code is called ---


@eager_native
def here_if_eager() -> Any:
    """What this thread looks at, where native code may run its operations now; else None."""
    thread: Here = active()
    if thread is None or thread.thread.get("handler") is not None:
        return None
    is_watched = door.run_one is not apply_one or door.run_two is not apply_two or door.run_many is not apply_many
    return None if is_watched else thread


@eager_native
def is_number(x: Any) -> bool:
    """Whether an operand is a plain Python number."""
    return type(x) is float or type(x) is int or type(x) is bool


@eager_native
def may_override(x: Any) -> bool:
    """Whether an operand may be of a class that overrides operators: those are asked in Python."""
    if len(override_classes) == 0 or not isinstance(x, TensorBase):
        return False
    return type(x) not in plain_tensors


@eager_native
def operate_now(op: Op, swapped: Any, a: Any, b: Any) -> Any:
    """An operator of Tensor: ``op(a, b)``, or ``swapped(b, a)`` if there is such an operation and ``a`` is a number."""
    thread = here_if_eager()
    if thread is None or may_override(a) or may_override(b):
        return MISSED
    if isinstance(a, TensorBase):
        return run_two(thread, op, a, b, ()) if is_number(b) or isinstance(b, TensorBase) else MISSED
    return run_two(thread, swapped, b, a, ()) if swapped is not None and is_number(a) else MISSED


@eager_native
def is_matrix(x: Any) -> bool:
    """Whether an operand is a tensor of two dimensions."""
    if not isinstance(x, TensorBase):
        return False
    aval: Aval = x._aval
    shape: tuple[Any, ...] = aval.shape
    return len(shape) == 2


@eager_native
def multiply_now(op: Op, swapped: Any, a: Any, b: Any) -> Any:
    """``a @ b`` of two matrices."""
    return operate_now(op, None, a, b) if is_matrix(a) and is_matrix(b) and not autocasts else MISSED


@eager_native
def apply_now(op: Op, args: Args) -> Any:
    """``door.apply``."""
    thread = here_if_eager()
    if thread is None:
        return MISSED
    count = int(op.num_inputs)
    if len(args) < count or len(args) == 0:
        return MISSED
    if count == 1:
        return run_one(thread, op, args[0], packed_rest(args, 1))
    if count == 2:
        return run_two(thread, op, args[0], args[1], packed_rest(args, 2))
    if count < 0:
        return run_listed(thread, op, args[0], packed_rest(args, 1))
    return run_many(thread, op, first_of(args, count), packed_rest(args, count))


@eager_apart
def run_listed(thread: Here, op: Op, given: Any, params: tuple[Any, ...]) -> Any:
    """``run_many`` of an operation that takes a list of operands."""
    if type(given) is tuple:
        return run_many(thread, op, given, params)
    return run_many(thread, op, tuple(given), params) if type(given) is list else MISSED


@eager_apart
def first_of(args: Args, count: int) -> Any:
    """The first arguments, as a tuple."""
    found: list[Any] = []
    at = 0
    while at < count:
        found.append(args[at])
        at += 1
    return tuple(found)


# --- when it is compiled ---

_OFTEN = 4000
"""After so many eager operations native code has paid for itself, nearly: it takes some 50 ms to load."""
_SOON = 500


class _Countdown:
    """How many more operations Python's form runs before ``install`` is called."""

    __slots__ = ("install", "left")

    def __init__(self) -> None:
        self.left = _OFTEN
        self.install: Callable[[], None] | None = None


_countdown = _Countdown()


def install_native(install: Callable[[], None]) -> None:
    """Let ``install()`` put native code in place, once that is worth while."""
    _countdown.install = install


def ask_again() -> None:
    """Have ``install`` called again after some more operations: native code is being made, Note [Builders]."""
    _countdown.left = _SOON


def tick(count: int = 1) -> None:
    """Some operations have been run by Python's form."""
    left = _countdown.left = _countdown.left - count
    if left <= 0 < left + count and _countdown.install is not None:
        _countdown.install()
