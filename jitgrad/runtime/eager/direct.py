"""Eager execution of operations, without a detour.

Owns: ``apply_one``, ``apply_two`` and ``apply_many``, and what native code does in their place and for writes.
Must not know: traces, code generation.
In: an ``Op``, its operands, its params. Out: its result, a tensor.

The same steps as in ``eager.py``, in a straight line: most operations of most programs come by here. What is not plain
- other devices, a mode, a combination of operands that is new - is left to ``apply_eager``.

# Note [Eager in native code]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Around NumPy's call an eager operation looks for its plan, makes a tensor and, in a graph, a Node with its edges and
# what it saves. In Python that takes several times as long as NumPy takes to multiply ten numbers. So these steps, and
# the loop of a plain backward, are written in the subset of Note [Native Python], marked ``eager_native`` or
# ``eager_apart``: Python runs them as they are, and once a process has run some thousand eager operations,
# ``compiled/native_eager.py`` compiles them, as a module of their own. From then on operators and comparisons
# try ``operate_now`` first, and the door ``apply_now``, ``write_now`` and ``update_now``. They answer for the main
# thread only: its ``Here`` is the active one.
# What a graph has to know of a write, and what may be refused, is left to Python: a write runs here only where every
# tensor has the same ``Aval``, none of them is in a graph that can be recorded, and nobody asked to see writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jitgrad.cpython.primitives import (
    active,
    call_inside,
    eager_apart,
    eager_native,
    is_hashable,
    is_word,
    joined,
    packed_rest,
    same,
)
from jitgrad.devices import CPU
from jitgrad.door import door
from jitgrad.dtypes import float32, float64, int64
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import OPS, Op
from jitgrad.runtime.eager.assign import may_need_graph
from jitgrad.runtime.eager.eager import apply_eager, make_view
from jitgrad.runtime.eager.kernel_runs import run_kernel
from jitgrad.runtime.eager.plan import EagerPlan, plans
from jitgrad.runtime.eager.results import (
    Here,
    array_of,
    arrays_of,
    constant_of,
    join,
    needs_grad,
    result_of,
    results_of,
    run_all,
)
from jitgrad.runtime.engine.graph.overwrites import caught, note_write
from jitgrad.state import autocasts, modes_in_use, override_classes, plain_tensors, write_checks
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits import MISSED, Args
from jitgrad.tracer.recorder_state import LATEST, RUNNING, RecorderState
from jitgrad.version_counter import VERSION, inference_tensors

__all__ = ["apply_many", "apply_now", "apply_one", "apply_two", "ask_again", "here", "install_native", "multiply_now",
           "operate_now", "tick", "update_now", "write_now"]  # fmt: skip


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
def run_two(thread: Here, op: Op, x: Any, y: Any, params: tuple[Any, ...]) -> Any:
    """``apply_two``, or ``MISSED``."""
    if modes_in_use or not (len(params) == 0 or is_hashable(params)) or others_record(thread):
        return MISSED
    is_x = isinstance(x, TensorBase)
    is_y = isinstance(y, TensorBase)
    known: dict[Any, Any] = plans
    found = known.get((op, params, x._aval if is_x else type(x), y._aval if is_y else type(y)))
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
    for x in inputs:
        if isinstance(x, TensorBase):
            avals.append(x._aval)
        else:
            avals.append(type(x))
            has_number = is_number(x)
    known: dict[Any, Any] = plans
    found = known.get(joined((op, params), tuple(avals)))
    if found is None and has_number:
        found = known.get(joined((op, params), kinds_of(inputs)))
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


# --- in-place operations ---


@eager_native
def is_marked_now(x: TensorBase) -> bool:
    """Whether a tensor is an inference tensor, which may be written in inference mode only."""
    return len(inference_tensors) != 0 and type(x._vc) is not list


@eager_apart
def write_now(op: Op, targets: Any, args: Args) -> Any:
    """``door.apply_inplace`` of one target, where no graph has to know and all tensors are laid out alike.

    Nothing can be refused then: the result fits, and operands share all of their memory with the target, or none.
    """
    thread = here_if_eager()
    if thread is None or write_checks or modes_in_use or len(RUNNING) > 0:
        return MISSED
    written: tuple[Any, ...] = targets
    count = int(op.num_inputs)
    if len(written) != 1 or count < 1 or len(args) < count or not isinstance(written[0], TensorBase):
        return MISSED  # slots are read without a look at the class
    params: tuple[Any, ...] = packed_rest(args, count)
    if not (len(params) == 0 or is_hashable(params)):
        return MISSED
    target: TensorBase = written[0]
    if is_marked_now(target):
        return MISSED
    inputs: tuple[Any, ...] = first_of(args, count)
    may_join = thread.thread.get("grad_enabled") is not False
    if may_join and may_need_graph(target):
        return MISSED
    if op is _COPY:
        source: TensorBase = inputs[1]
        if inputs[0] is not target or (may_join and isinstance(inputs[1], TensorBase) and may_need_graph(source)):
            return MISSED
        return targets if copy_now(thread, target, inputs[1]) else MISSED
    avals: list[Any] = []
    for x in inputs:
        if isinstance(x, TensorBase):
            if x._aval is not target._aval or (may_join and may_need_graph(x)):
                return MISSED
            avals.append(x._aval)
        else:
            avals.append(type(x))
    known: dict[Any, Any] = plans
    found = known.get(joined((op, params), tuple(avals)))
    if found is None:
        return MISSED
    plan: EagerPlan = found
    if plan.aval is not target._aval or plan.direct is None or (plan.into is None and plan.has_kernel is not True):
        return MISSED  # without ``direct``, an element may be more than a function of those at its place
    if plan.has_kernel is True and inputs[0] is not target:
        return MISSED
    arrays = arrays_of(plan, inputs)
    if arrays is None or array_of(target) is MISSED or not write_alike(thread, plan, target, arrays):
        return MISSED
    return targets


_COPY = OPS["copy"]
_FIRST = (0,)


@eager_apart
def source_of(aval: Aval, source: Any) -> Any:
    """What NumPy copies into a tensor of a layout, with no other rounding than PyTorch's; ``MISSED``: something else.

    The memory of a source must be another one, or lie alike.
    """
    if isinstance(source, TensorBase):
        other: Aval = source._aval
        is_alike = other.dtype is aval.dtype and other.device is aval.device and same(other.shape, aval.shape)
        return array_of(source) if is_alike else MISSED
    if aval.dtype is float32 or aval.dtype is float64:
        return source if type(source) is float or (type(source) is int and is_word(source)) else MISSED
    return source if aval.dtype is int64 and type(source) is int and is_word(source) else MISSED


@eager_apart
def copy_now(thread: Here, target: TensorBase, source: Any) -> bool:
    """Overwrite a tensor outside any graph with a tensor or a number that it holds; False: nothing is written."""
    aval: Aval = target._aval
    if not aval.is_contiguous or aval.device is not CPU:
        return False
    if isinstance(source, TensorBase) and source._aval is not aval and source._vc is target._vc:
        return False  # another view of the same memory
    array = source_of(aval, source)
    into = array_of(target)
    if array is MISSED or into is MISSED:
        return False
    given: Any = (into, array)
    if call_inside(thread.context, _overwrite, given) is None:  # see ``result_of``
        run_all(_overwrite, given)
    versions: list[Any] = target._vc
    versions[VERSION] = int(versions[VERSION]) + 1
    if int(caught.left) > 0:
        note_write(versions, "copy", 0)
    return True


def _overwrite(target: Any, source: Any) -> bool:
    target[...] = source
    return True


@eager_apart
def write_alike(thread: Here, plan: EagerPlan, target: TensorBase, arrays: list[Any]) -> bool:
    """Write a plan's result into a tensor that is laid out as it is; False: nothing is written."""
    if plan.has_kernel is not True or not write_by_kernel(plan, arrays, _FIRST):
        if plan.into is None:
            return False
        arrays.append(array_of(target))
        given: Any = tuple(arrays)
        if call_inside(thread.context, plan.into, given) is None:  # see ``result_of``
            run_all(plan.into, given)
    versions: list[Any] = target._vc
    versions[VERSION] = int(versions[VERSION]) + 1
    if int(caught.left) > 0:
        note_write(versions, plan.op.name, 0)  # of native code there are no frames
    return True


@eager_apart
def write_by_kernel(plan: EagerPlan, arrays: list[Any], targets: tuple[Any, ...]) -> bool:
    """``plan.write(arrays, targets)``."""
    kernels: dict[Any, Any] = plan._writes
    kernel = kernels.get(targets)
    if kernel is None:
        return plan.write(arrays, targets) is True
    return run_kernel(kernel, tuple(arrays)) is not None


# --- optimizers' steps ---


@eager_apart
def update_now(op: Op, rows: Any, writes: Any, numbers: Any, params: Any, rest: Args) -> Any:
    """``door.apply_update`` where every row has a kernel and tensors that are laid out alike."""
    thread = here_if_eager()
    if thread is None or write_checks or modes_in_use or len(RUNNING) > 0:
        return MISSED
    if type(rows) is not list or len(rest) != 0 or thread.thread.get("grad_enabled") is not False:
        return MISSED
    given: list[Any] = rows
    kinds: list[Any] = []
    values: tuple[Any, ...] = numbers
    for number in values:
        kinds.append(type(number))
    ends = tuple(kinds)
    found: list[Any] = []
    for row in given:
        plan = plan_of_row(op, row, ends, params)
        if plan is None:
            return MISSED
        found.append(plan)
    at = 0
    while at < len(given):
        update_row(found[at], given[at], writes, numbers, params)
        at += 1
    return None


@eager_apart
def plan_of_row(op: Op, row: tuple[Any, ...], kinds: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """The plan of a row; None if it has none, or no kernel."""
    first: TensorBase = row[0]
    avals: list[Any] = []
    for x in row:
        if not isinstance(x, TensorBase) or x._aval is not first._aval or is_marked_now(x) or array_of(x) is MISSED:
            return None
        avals.append(x._aval)
    known: dict[Any, Any] = plans
    found = known.get(joined((op, params), joined(tuple(avals), kinds)))
    if found is None:
        return None
    plan: EagerPlan = found
    return plan if plan.has_kernel is True and plan.aval is first._aval else None


@eager_apart
def update_row(
    plan: EagerPlan, row: tuple[Any, ...], writes: tuple[Any, ...], numbers: tuple[Any, ...], params: tuple[Any, ...]
) -> None:
    """Compute a row's results, and write them."""
    arrays: list[Any] = []
    for x in row:
        arrays.append(array_of(x))
    for number in numbers:
        arrays.append(number)
    targets: list[Any] = []
    for place in writes:
        targets.append(row[int(place)])
    if not write_by_kernel(plan, arrays, writes):
        door.run_inplace(plan.op, tuple(targets), joined(row, numbers), params)
        return
    for x in targets:
        target: TensorBase = x
        versions: list[Any] = target._vc
        versions[VERSION] = int(versions[VERSION]) + 1
        if int(caught.left) > 0:
            note_write(versions, plan.op.name, 0)


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
