"""Writes in eager mode, without a detour: in-place operations and optimizers' steps.

Owns: ``write_now``, ``update_now``.
Must not know: traces, code generation.

Note [Eager in native code]. What is not usual is left to ``apply_inplace_eager``; it raises what has to be raised.
"""

from __future__ import annotations

from typing import Any

from numpy import may_share_memory

from jitgrad.cpython.primitives import (
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
from jitgrad.ops.aval import Aval, has_repeats
from jitgrad.ops.table import OPS, Op, RuleContext
from jitgrad.runtime.eager.assign import may_need_graph
from jitgrad.runtime.eager.direct import first_of, here_if_eager, is_number, kinds_of
from jitgrad.runtime.eager.kernel_runs import run_kernel
from jitgrad.runtime.eager.plan import EagerPlan, plan_if_right, plans
from jitgrad.runtime.eager.results import Here, array_of, arrays_of, edges_to, graph_of, needs_grad, run_all
from jitgrad.runtime.engine.graph.copy_slices import rebase_history
from jitgrad.runtime.engine.graph.op_node import BackwardPlan, assemble, remember_line, save
from jitgrad.runtime.engine.graph.overwrites import CAUGHT_AT_FIRST, caught, note_write
from jitgrad.state import anomaly, modes_in_use, write_checks
from jitgrad.tensor_base import TensorBase, new_result
from jitgrad.tracer.hits.hits import MISSED, Args
from jitgrad.tracer.recording.recorder_state import RUNNING
from jitgrad.version_counter import VERSION, inference_tensors

__all__ = ["update_now", "write_now"]


@eager_native
def is_marked_now(x: TensorBase) -> bool:
    """Whether a tensor is an inference tensor, which may be written in inference mode only."""
    return len(inference_tensors) != 0 and type(x._vc) is not list


@eager_apart
def write_now(op: Op, targets: Any, args: Args) -> Any:
    """``door.apply_inplace`` of one target that is laid out as the result.

    Where no graph has to know nothing can be refused then: operands are laid out alike, and share all of their memory
    with the target or none, or have memory of their own. What a graph refuses is left to Python.
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
    joins = may_join and (may_need_graph(target) or any_in_graph(inputs))
    if joins and not op.vjps:  # no gradient comes or goes: Python knows what that means for the target
        return MISSED
    if op is _COPY and inputs[0] is target:
        if not joins:
            return targets if copy_now(thread, target, inputs[1]) else MISSED
        if target._base is not None:
            return targets if copy_into_part(thread, target, inputs) else MISSED
    avals: list[Any] = []
    needs: list[Any] = []
    has_number = False
    has_other = False
    for x in inputs:
        needed = False
        if isinstance(x, TensorBase):
            if x._aval is not target._aval and (x._vc is target._vc or overlaps(x, target)):
                return MISSED
            needed = joins and needs_grad(x)
            avals.append(x._aval)
        else:
            avals.append(type(x))
            has_number = is_number(x)
            has_other = has_other or not has_number
        needs.append(needed)
    known: dict[Any, Any] = plans
    found = known.get(joined((op, params), tuple(avals)))
    if found is None and has_number:
        found = known.get(joined((op, params), kinds_of(inputs)))
    if found is None:
        found = None if has_other else plan_if_right(op, inputs, params)
        if found is None:
            return MISSED
    plan: EagerPlan = found
    is_alike = plan.aval is target._aval
    if not is_alike:
        if plan.is_plain is not True or not takes_result(target._aval, plan.aval):
            return MISSED
    elif not may_write_alike(plan, target, inputs):
        return MISSED
    if joins:
        if target._base is not None:
            return targets if write_part(thread, plan, target, inputs, tuple(needs), params) else MISSED
        if not is_alike:
            return MISSED
        return targets if write_and_join(thread, plan, target, inputs, tuple(needs), params) else MISSED
    arrays = arrays_of(plan, inputs)
    if arrays is None or array_of(target) is MISSED:
        return MISSED
    if is_alike:
        return targets if write_alike(thread, plan, target, arrays, params) else MISSED
    overwrite(thread, plan, target, arrays, params)
    return targets


@eager_native
def may_write_alike(plan: EagerPlan, target: TensorBase, inputs: tuple[Any, ...]) -> bool:
    """Whether ``write_alike`` may write what lies as the result does."""
    if plan.has_kernel is True:
        return inputs[0] is target and (plan.by_place is True or is_alone(target, inputs))
    return plan.by_place is True if plan.into is not None else plan.is_plain is True and not plan.aval.dtype.is_short


@eager_native
def is_alone(target: TensorBase, inputs: tuple[Any, ...]) -> bool:
    """Whether no operand but the first one looks at the memory that is written."""
    at = 1
    while at < len(inputs):
        if isinstance(inputs[at], TensorBase):
            x: TensorBase = inputs[at]
            if x._vc is target._vc or overlaps(x, target):
                return False
        at += 1
    return True


@eager_native
def takes_result(own: Aval, result: Aval) -> bool:
    """Whether a tensor takes a result as it is, wherever its elements lie."""
    if own.dtype is not result.dtype or own.device is not CPU or result.device is not CPU or own.dtype.is_short:
        return False
    return same(own.shape, result.shape) and not has_repeats(own)


@eager_native
def any_in_graph(inputs: tuple[Any, ...]) -> bool:
    """``may_need_graph`` of some operand; others may be numbers."""
    for x in inputs:  # noqa: SIM110
        if isinstance(x, TensorBase) and may_need_graph(x):
            return True
    return False


@eager_native
def overlaps(x: TensorBase, target: TensorBase) -> bool:
    """Whether a tensor in another layout may look at memory that is written; True also if it is on a device."""
    aval: Aval = x._aval
    own: Aval = target._aval
    if aval.device is not CPU or own.device is not CPU:
        return True
    array = array_of(x)
    into = array_of(target)
    return array is MISSED or into is MISSED or may_share_memory(array, into) is True


@eager_apart
def write_and_join(
    thread: Here,
    plan: EagerPlan,
    target: TensorBase,
    inputs: tuple[Any, ...],
    needs: tuple[Any, ...],
    params: tuple[Any, ...],
) -> bool:
    """Write a plan's result into a tensor, which gets a Node; False: nothing is written.

    Left to Python: views (Note [In-place on views]), leaves, tensors with hooks.
    """
    if inputs[0] is not target or not may_get_node(target):
        return False
    graph = graph_of(plan, needs)
    arrays = arrays_of(plan, inputs)
    if graph is None or arrays is None or array_of(target) is MISSED:
        return False
    parts: tuple[Any, ...] = graph
    backward: BackwardPlan = parts[0]
    context: RuleContext = parts[1]
    if is_written_twice(target, inputs):
        return False
    edges = edges_to(inputs, context.needs)
    before = inputs
    for place in backward.inputs:
        if int(place) == 0:
            before = with_first(value_of(target), inputs)
    if not write_alike(thread, plan, target, arrays, params):
        return False
    caught.left = CAUGHT_AT_FIRST
    saved: tuple[Any, ...] = save(backward, before, (target,)) if backward.saves else ()
    node = assemble(plan.op, backward, context, edges, saved)
    target._grad_fn = node
    target._output_nr = 0
    target._requires_grad = True
    target._accumulator = None
    if len(saved) > 0:
        remember_line(node)
    return True


@eager_native
def with_first(x: TensorBase, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands of which the first one is another."""
    found: list[Any] = []
    found.append(x)
    at = 1
    while at < len(inputs):
        found.append(inputs[at])
        at += 1
    return tuple(found)


@eager_native
def value_of(target: TensorBase) -> TensorBase:
    """A copy of what is about to be written, with its history: a Node saves it."""
    array: Any = array_of(target)
    copied: Any = array.copy
    old: TensorBase = new_result(target._aval, copied())
    old._requires_grad = target._requires_grad
    old._grad_fn = target._grad_fn
    old._output_nr = target._output_nr
    return old


@eager_apart
def copy_into_part(thread: Here, target: TensorBase, inputs: tuple[Any, ...]) -> bool:
    """``x[0] = y`` where a graph has to know: overwrite a view, whose base gets a Node, Note [In-place on views].

    False: nothing is written.
    """
    source = source_in(target._aval, inputs[1])
    into = array_of(target)
    if source is MISSED or into is MISSED or not may_be_rebased(target) or shares_memory(inputs[1], target):
        return False
    kind: Any = None
    if isinstance(inputs[1], TensorBase):
        operand: TensorBase = inputs[1]
        kind = operand._aval
    else:
        kind = (type(inputs[1]), inputs[1])
    known: dict[Any, Any] = plans
    found = known.get((_COPY, (), target._aval, kind))
    if found is None:
        found = plan_if_right(_COPY, inputs, ())
        if found is None:
            return False
    needs = (needs_grad(target), isinstance(inputs[1], TensorBase) and needs_grad(inputs[1]))
    graph = graph_of(found, needs)
    if graph is None:
        return False
    parts: tuple[Any, ...] = graph
    context: RuleContext = parts[1]
    edges = edges_to(inputs, context.needs)
    given: Any = (into, source)
    if call_inside(thread.context, _overwrite, given) is None:  # see ``result_of``
        run_all(_overwrite, given)
    versions: list[Any] = target._vc
    versions[VERSION] = int(versions[VERSION]) + 1
    caught.left = CAUGHT_AT_FIRST
    note_write(versions, "copy", 0)
    rebase_history(target, assemble(_COPY, parts[0], context, edges, ()), 0)
    return True


@eager_apart
def write_part(
    thread: Here,
    plan: EagerPlan,
    target: TensorBase,
    inputs: tuple[Any, ...],
    needs: tuple[Any, ...],
    params: tuple[Any, ...],
) -> bool:
    """``x[0].mul_(y)`` where a graph has to know: ``write_and_join`` of a view, see ``copy_into_part``."""
    if inputs[0] is not target or not may_be_rebased(target) or is_written_twice(target, inputs):
        return False
    graph = graph_of(plan, needs)
    arrays = arrays_of(plan, inputs)
    if graph is None or arrays is None or array_of(target) is MISSED:
        return False
    parts: tuple[Any, ...] = graph
    backward: BackwardPlan = parts[0]
    context: RuleContext = parts[1]
    edges = edges_to(inputs, context.needs)
    before = inputs
    for place in backward.inputs:
        if int(place) == 0:
            if not plan.aval.is_canonical:
                return False
            before = with_first(part_before(plan.aval, target), inputs)
    overwrite(thread, plan, target, arrays, params)
    caught.left = CAUGHT_AT_FIRST
    saved: tuple[Any, ...] = save(backward, before, (target,)) if backward.saves else ()
    node = assemble(plan.op, backward, context, edges, saved)
    rebase_history(target, node, 0)
    if len(saved) > 0:
        remember_line(node)
    return True


@eager_native
def part_before(aval: Aval, target: TensorBase) -> TensorBase:
    """A row-major copy of a view that is about to be written, with its history: a Node saves it."""
    array: Any = array_of(target)
    copied: Any = array.copy
    old: TensorBase = new_result(aval, copied())
    old._requires_grad = True
    old._grad_fn = target._grad_fn
    old._output_nr = target._output_nr
    return old


@eager_native
def source_in(aval: Aval, source: Any) -> Any:
    """What NumPy copies into a tensor of a dtype, maybe broadcast; ``MISSED``: something has to be converted."""
    if not isinstance(source, TensorBase):
        return source_of(aval, source)
    other: Aval = source._aval
    if other.dtype is not aval.dtype or other.device is not CPU or aval.device is not CPU:
        return MISSED
    return array_of(source)


@eager_native
def shares_memory(x: Any, target: TensorBase) -> bool:
    """Whether an operand, which may be a number, may look at memory that is written."""
    return isinstance(x, TensorBase) and (x._vc is target._vc or overlaps(x, target))


@eager_native
def may_be_rebased(view: TensorBase) -> bool:
    """Whether a write to a view is allowed in a graph, and its base has nothing that would have to move."""
    base: TensorBase = view._base
    versions: list[Any] = view._vc
    if view._creation_meta is not None or view._view_version is None or anomaly.enabled:
        return False
    if int(view._view_version) != int(versions[VERSION]) or base._graph is not None or is_marked_now(base):
        return False
    is_of_leaf = base._grad_fn is None and (base._requires_grad or view._requires_grad)
    if is_of_leaf or has_repeats(view._aval):
        return False
    return view._hooks is None and base._hooks is None and not view._retains_grad and not base._retains_grad


@eager_native
def may_get_node(target: TensorBase) -> bool:
    """Whether a written tensor, no view, has the history that a new Node says, and nothing else has to move."""
    aval: Aval = target._aval
    if not aval.is_contiguous or target._graph is not None:
        return False
    if target._hooks is not None or target._retains_grad:
        return False
    is_leaf = target._requires_grad and target._grad_fn is None
    return not is_leaf and not anomaly.enabled


@eager_native
def is_written_twice(target: TensorBase, inputs: tuple[Any, ...]) -> bool:
    """Whether another operand shares the version counter of the first one, which is written."""
    at = 1
    while at < len(inputs):
        if isinstance(inputs[at], TensorBase):
            x: TensorBase = inputs[at]
            if x._vc is target._vc:
                return True
        at += 1
    return False


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
def write_alike(
    thread: Here, plan: EagerPlan, target: TensorBase, arrays: list[Any], params: tuple[Any, ...]
) -> bool:
    """Write a plan's result into a tensor that is laid out as it is; False: nothing is written."""
    if plan.has_kernel is not True or not write_by_kernel(plan, arrays, _FIRST):
        if plan.into is None:
            if plan.has_kernel is True:
                return False
            overwrite(thread, plan, target, arrays, params)
            return True
        else:
            arrays.append(array_of(target))
            given: Any = tuple(arrays)
            if call_inside(thread.context, plan.into, given) is None:  # see ``result_of``
                run_all(plan.into, given)
    count_write(target, plan.op)
    return True


@eager_apart
def overwrite(thread: Here, plan: EagerPlan, target: TensorBase, arrays: list[Any], params: tuple[Any, ...]) -> None:
    """Compute a plan's result on the side, and copy it: any operation may read what it writes."""
    result: Any = None
    if plan.kernel is not None:
        made = run_kernel(plan.kernel, tuple(arrays))
        if made is not None:
            outs: list[Any] = made
            result = outs[0]
    if result is None:
        args: Any = joined(tuple(arrays), params)
        result = call_inside(thread.context, plan.function, args)
        if result is None:  # see ``result_of``
            result = run_all(plan.function, args)
    given: Any = (array_of(target), result)
    if call_inside(thread.context, _overwrite, given) is None:
        run_all(_overwrite, given)
    count_write(target, plan.op)


@eager_native
def count_write(target: TensorBase, op: Op) -> None:
    """A tensor has been written."""
    versions: list[Any] = target._vc
    versions[VERSION] = int(versions[VERSION]) + 1
    if int(caught.left) > 0:
        note_write(versions, op.name, 0)  # of native code there are no frames


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
