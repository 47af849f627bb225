"""Eager execution of operations on one or two operands, without a detour.

Owns: ``apply_one`` and ``apply_two``, and what native code does in the place of both.
Must not know: traces, code generation.
In: an ``Op``, its operands, its params. Out: its result, a tensor.

The same steps as in ``eager.py``, in a straight line: most operations of most programs come by here. What is not plain
- several results, other devices, a mode, a combination of operands that is new - is left to ``apply_eager``.

# Note [Eager in native code]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Around NumPy's call an eager operation looks for its plan, makes a tensor and, in a graph, a Node with its edges and
# what it saves. In Python that takes several times as long as NumPy takes to multiply ten numbers. So these steps, and
# the loop of a plain backward, are written in the subset of Note [Native Python], marked ``eager_native``: Python runs
# them as they are, and once a process has run some thousand eager operations, ``compiled/native_eager.py`` compiles
# them, as a module of their own. From then on the number slots of Tensor's type and the door try ``operate_now`` and
# ``apply_now`` first, which answer for the main thread only: its ``Here`` is the active one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jitgrad.cpython.primitives import active, call_inside, eager_native, is_hashable, joined, packed_rest
from jitgrad.door import door
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op, RuleContext
from jitgrad.runtime.eager.eager import apply_eager, make_view
from jitgrad.runtime.eager.numpy_rule import is_own, own
from jitgrad.runtime.eager.plan import EagerPlan, plans
from jitgrad.runtime.eager.quiet import quiet, run_in_errstate
from jitgrad.runtime.engine.graph.copy_slices import view_requires_grad
from jitgrad.runtime.engine.graph.edge import INVALID_EDGE
from jitgrad.runtime.engine.graph.op_node import BackwardPlan, assemble, edge_of, remember_line, save
from jitgrad.runtime.engine.graph.overwrites import caught
from jitgrad.state import autocasts, modes_in_use, override_classes, plain_tensors, state
from jitgrad.tensor_base import TensorBase, new_result
from jitgrad.tracer.hits import MISSED, Args
from jitgrad.tracer.recorder_state import LATEST, RUNNING, RecorderState

__all__ = ["Here", "apply_now", "apply_one", "apply_two", "here", "install_native", "multiply_now", "operate_now",
           "tick"]  # fmt: skip


class Here:
    """What the eager operations of a thread look at.

    Attributes:
        context: the thread's ``quiet.context``.
        thread: the dictionary of ``state``; a name that is not in it has the default of its class.
    """

    __slots__ = ("context", "thread")

    context: Any
    thread: dict[str, Any]

    def __init__(self) -> None:
        self.context, self.thread = quiet.context, state.__dict__


class _OfThisThread(threading.local):
    def __init__(self) -> None:
        self.here = Here()


here = _OfThisThread()


# --- values ---


@eager_native
def array_of(x: TensorBase) -> Any:
    """A tensor's array, made if there is none yet; ``MISSED`` if the tensor is sparse."""
    if x._array is not None:
        return x._array
    return MISSED if x.is_sparse else x._ndarray()


@eager_native
def constant_of(plan: EagerPlan, number: Any) -> Any:
    """``plan.constant(number)``."""
    constants: dict[Any, Any] = plan._constants
    kept = constants.get(number)
    return plan.constant(number) if kept is None else kept


def run_all(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """``function(*args)``, quietly, where the context cannot be entered."""
    return run_in_errstate(function, *args)


@eager_native
def result_of(thread: Here, plan: EagerPlan, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """The result of a plan's function, a tensor outside any graph."""
    given: Any = operands
    if len(params) > 0:
        given = joined(operands, params)
    array = call_inside(thread.context, plan.function, given)
    if array is None:  # a finalizer has come here in the middle of another operation
        array = run_all(plan.function, given)
    if plan.is_exact is not True and not is_own(array, plan.aval, operands):
        array = own(array, plan.aval, operands)
    return new_result(plan.aval, array)


# --- the graph ---


@eager_native
def needs_grad(x: TensorBase) -> bool:
    """Whether an operand needs a gradient."""
    return x._requires_grad or (x._base is not None and view_requires_grad(x))


@eager_native
def edge_to(x: TensorBase, is_wanted: bool) -> Any:
    """Where an operand's gradient goes."""
    if not is_wanted:
        return INVALID_EDGE
    if x._grad_fn is not None and x._base is None:
        return (x._grad_fn, x._output_nr)
    return edge_of(x)


@eager_native
def graph_of(plan: EagerPlan, needs: tuple[Any, ...]) -> Any:
    """``plan.graph(needs)``."""
    graphs: dict[Any, Any] = plan._graph
    found = graphs.get(needs)
    return plan.graph(needs) if found is None else found


@eager_native
def join(plan: EagerPlan, needs: tuple[Any, ...], inputs: tuple[Any, ...], out: TensorBase) -> None:
    """Give a result its Node, if a gradient can come and go."""
    graph = graph_of(plan, needs)
    if graph is None:
        return
    parts: tuple[Any, ...] = graph
    backward: BackwardPlan = parts[0]
    context: RuleContext = parts[1]
    wanted: tuple[Any, ...] = context.needs
    edges: Any = None
    if len(inputs) == 1:
        edges = (edge_to(inputs[0], wanted[0] is True),)
    else:
        edges = (edge_to(inputs[0], wanted[0] is True), edge_to(inputs[1], wanted[1] is True))
    saved: tuple[Any, ...] = save(backward, inputs, (out,)) if backward.saves else ()
    node = assemble(plan.op, backward, context, edges, saved)
    out._grad_fn = node
    out._requires_grad = True
    if len(saved) > 0 and int(caught.left) > 0:
        remember_line(node)


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


@eager_native
def run_one(thread: Here, op: Op, x: Any, params: tuple[Any, ...]) -> Any:
    """``apply_one``, or ``MISSED``."""
    if modes_in_use or not isinstance(x, TensorBase) or not (len(params) == 0 or is_hashable(params)):
        return MISSED
    if others_record(thread):
        return MISSED
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
        return MISSED
    if op.vjps and thread.thread.get("grad_enabled") is not False and needs_grad(x):
        join(plan, (True,), (x,), made)
    return made


@eager_native
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
        return MISSED
    a = array_of(x) if is_x else constant_of(plan, x)
    b = array_of(y) if is_y else constant_of(plan, y)
    if a is MISSED or b is MISSED:
        return MISSED
    made = result_of(thread, plan, (a, b), params)
    if op.vjps and thread.thread.get("grad_enabled") is not False:
        needs_x = is_x and needs_grad(x)
        needs_y = is_y and needs_grad(y)
        if needs_x or needs_y:
            join(plan, (needs_x, needs_y), (x, y), made)
    return made


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


# --- where native code is called ---


@eager_native
def here_if_eager() -> Any:
    """What this thread looks at, where native code may run its operations now; else None."""
    thread: Here = active()
    if thread is None or thread.thread.get("handler") is not None:
        return None
    if door.run_one is not apply_one or door.run_two is not apply_two:  # somebody watches
        return None
    return thread


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
    if count == 1 and len(args) > 0:
        return run_one(thread, op, args[0], packed_rest(args, 1))
    if count == 2 and len(args) > 1:
        return run_two(thread, op, args[0], args[1], packed_rest(args, 2))
    return MISSED


# --- when it is compiled ---

_OFTEN = 4000
"""After so many eager operations native code has paid for itself, nearly: it takes some 50 ms to load."""


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


def tick(count: int = 1) -> None:
    """Some operations have been run by Python's form."""
    left = _countdown.left = _countdown.left - count
    if left <= 0 < left + count and _countdown.install is not None:
        _countdown.install()
