"""Eager execution: one operation, now, by its NumPy rule, with its Node in the graph.

Owns: ``apply_eager`` and ``apply_inplace_eager``.
Must not know: traces, code generation.
In: an ``Op``, tensors and numbers. Out: tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.cpython.arrays import ARRAY_DATA
from jitgrad.cpython.primitives import array_over, eager_apart, eager_native, was_set, word_at
from jitgrad.devices import CPU
from jitgrad.dtypes import DType
from jitgrad.layouts import plain
from jitgrad.ops.aval import Aval, check_inside, make_aval
from jitgrad.ops.shapes import as_dtype, np_operand
from jitgrad.ops.table import OPS, Op
from jitgrad.runtime.eager.assign import may_need_graph
from jitgrad.runtime.eager.device_ops import different_devices, run_elsewhere, write_elsewhere
from jitgrad.runtime.eager.numpy_rule import own, run_numpy
from jitgrad.runtime.eager.overlap import check_no_overlap, writes_repeats
from jitgrad.runtime.eager.plan import EagerPlan, find_plan, plan_for
from jitgrad.runtime.eager.quiet import run_into, run_quietly
from jitgrad.runtime.engine.graph.copy_slices import (
    check_writable,
    creation_meta_of,
    is_in_graph,
    rebase_history,
    view_requires_grad,
)
from jitgrad.runtime.engine.graph.op_node import backward_plan, build_node, make_op_node, saved_inputs
from jitgrad.runtime.engine.graph.overwrites import caught, note_write
from jitgrad.runtime.engine.graph.saved_variable import SavedVariable, pack_saved
from jitgrad.state import modes_in_use, state
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase, new_result, new_tensor, new_view
from jitgrad.tracer.recording.recorder_state import RUNNING, looks_at
from jitgrad.version_counter import VERSION

__all__ = ["apply_eager", "apply_inplace_eager", "array_in_storage", "checked_plan", "make_view", "split_args"]

_COPY = OPS["copy"]
_AS_STRIDED = OPS["as_strided"]
_MANY_DIMS = 32  # every version of NumPy makes such arrays; tensors may have more dimensions
_TOO_MANY = 1 << 48  # elements: NumPy makes no such array, though an expanded tensor may be so large


def split_args(op: Op, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(inputs, params). An operation over a list of tensors takes the list as its first argument."""
    n = op.num_inputs
    if n < 0:
        return tuple(args[0]), plain(args[1:])
    return args[:n], plain(args[n:])


def apply_eager(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Run one operation.

    Raises:
        Whatever the shape rule or the NumPy rule raises; nothing has happened then.
    """
    if RUNNING:
        looks_at(inputs)
    plan = plan_for(op, inputs, params)
    outs: tuple[Any, ...]
    if plan.is_plain:
        outs = (_run_plain(plan, inputs),)
    elif op.is_view:
        if op is _AS_STRIDED:
            check_inside(plan.out_avals[0], inputs[0]._storage.nbytes)
        outs = tuple([make_view(inputs[0], a, plan.has_base, plan.is_several) for a in plan.out_avals])
    elif plan.is_elsewhere:
        outs = run_elsewhere(plan.op, inputs, plan.params, plan.out_avals, plan.on_host())
    elif plan.list_rule is not None:
        outs = (_run_list(plan, inputs),)
    else:
        arrays = [x._ndarray() if isinstance(x, TensorBase) else x for x in inputs]
        outs = tuple(map(new_result, plan.out_avals, plan.compute(arrays)))
    if op.vjps and state.grad_enabled:
        _join_graph(plan, inputs, outs)
    return outs if plan.is_several else outs[0]


def _run_plain(plan: EagerPlan, inputs: tuple[Any, ...]) -> Any:
    arrays = []
    for x in inputs:
        if isinstance(x, TensorBase):
            array = x._array
            arrays.append(array if array is not None else x._ndarray())
        else:
            arrays.append(plan.constant(x))
    result = run_quietly(plan.function, *arrays, *plan.params)
    return new_result(plan.aval, result if plan.is_exact else own(result, plan.aval, arrays))


def _run_list(plan: EagerPlan, inputs: tuple[Any, ...]) -> Any:
    arrays = []
    for x in inputs:
        array = x._array
        arrays.append(array if array is not None else x._ndarray())
    return new_result(plan.aval, own(run_quietly(plan.list_rule, arrays, *plan.params), plan.aval, arrays))


@eager_apart
def make_view(source: TensorBase, aval: Aval, has_base: bool, is_several: bool) -> Any:
    """A tensor laid out as ``aval`` over the memory of ``source``; with ``has_base``, writes to it reach the graph."""
    array: Any = None
    if state.handler is None:
        array = _array_of_view(source, aval)
    out: TensorBase = new_tensor(aval, source._storage) if array is None else new_view(aval, array)
    if array is not None and array.base.base is not None:  # in a storage: a kernel may be the next to ask for it
        out._storage = source._storage
    versions: list[Any] = source._vc
    out._vc = versions
    if has_base:
        # a view of a detached tensor looks no further than that: the graph behind it is another one
        base = source._base
        out._base = source if base is None or source._view_version is None else base
        out._view_version = versions[VERSION]
        if is_several or base is not None or not state.grad_enabled:
            out._creation_meta = creation_meta_of(source, is_several)
    return out


@eager_native
def is_whole(x: TensorBase, array: Any) -> bool:
    """Whether a tensor's array, which lies in its storage, shows all memory of that."""
    if x._base is not None or x._storage is None:
        return False
    storage: StorageBase = x._storage
    return int(storage.nbytes) == int(array.nbytes)


@eager_apart
def array_in_storage(x: TensorBase) -> Any:
    """``x._ndarray()`` of a tensor whose memory is at hand, as that of a compiled call's result is.

    None: it must be waited for, or is laid out in another way; or Python runs this.
    """
    if not was_set(x, "_storage") or x._storage is None or len(RUNNING) != 0:
        return None
    storage: StorageBase = x._storage
    aval: Aval = x._aval
    dtype: DType = aval.dtype
    count = int(aval.numel)
    if aval.device is not CPU or not aval.is_contiguous or count == 0 or not was_set(dtype, "np"):
        return None
    size = int(dtype.itemsize)
    start = int(aval.offset) * size
    if int(storage.addr) == 0 or start + count * size > int(storage.nbytes):
        return None
    array = array_over(dtype.np, aval.shape, aval.stride, size, int(storage.addr) + start, storage)
    if array is not None:
        x._array = array
    return array


@eager_apart
def _memory_of(source: TensorBase, array: Any) -> Any:
    """The row-major array of all memory that ``source`` lies in, from whose start its offset counts.

    None: its array may be a window of the user's, or shows a part of a storage.
    """
    root: TensorBase = source
    if source._base is not None:
        root = source._base
    top: Any = root._array
    if top is None:
        return None
    behind: Any = top.base
    if isinstance(behind, np.ndarray):
        # of a row-major result that was made in another shape, Note [Storage on demand]; user's arrays have a storage
        if was_set(root, "_storage") or behind.base is not None:
            return None
        return behind if array is top or array.base is behind else None
    if behind is not None and not is_whole(root, top):
        return None
    if array is not top and array.base is not top:
        return None
    whole: Aval = root._aval
    return top if int(whole.offset) == 0 and whole.is_contiguous else None


@eager_apart
def _array_of_view(source: TensorBase, aval: Aval) -> Any:
    """A view's array over that of its source, so that it needs no storage yet, see Note [Storage on demand].

    None where the array does not show all memory of the source's storage.
    """
    array: Any = source._array
    whole: Aval = source._aval
    if aval.dtype is not whole.dtype or len(aval.shape) > _MANY_DIMS or len(whole.shape) > _MANY_DIMS:
        return None
    if array is None and whole.device is CPU and len(RUNNING) == 0 and int(whole.numel) < _TOO_MANY:
        array = array_in_storage(source)
        if array is None:
            array = source._ndarray()
    if array is None:
        return None
    count = int(aval.numel)
    if count == 0 or count >= _TOO_MANY:
        return None
    memory: Any = _memory_of(source, array)
    if memory is None:
        return None
    size = int(aval.dtype.itemsize)
    if ARRAY_DATA >= 0:
        start = word_at(id(memory) + ARRAY_DATA) + int(aval.offset) * size
        made = array_over(memory.dtype, aval.shape, aval.stride, size, start, memory)
        if made is not None:
            return made
    strides: Any = None
    if not aval.is_contiguous:
        steps: list[Any] = []
        for stride in aval.stride:
            steps.append(int(stride) * size)
        strides = tuple(steps)
    return np.ndarray(aval.shape, memory.dtype, memory, int(aval.offset) * size, strides)


def _join_graph(plan: EagerPlan, inputs: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
    """Give the floating outputs a Node, if the operation has a derivative for any of the inputs that need one."""
    needs = [
        isinstance(x, TensorBase) and (x._requires_grad or (x._base is not None and view_requires_grad(x)))
        for x in inputs
    ]
    graph = plan.graph(tuple(needs)) if True in needs else None
    if graph is None:
        return
    node = build_node(plan.op, *graph, inputs, outs)
    if plan.is_elsewhere:
        node.note_stream()
    for nr, out in enumerate(outs):
        if out._aval.dtype.is_inexact:
            out._requires_grad = True
            out._output_nr = nr
            out._grad_fn = node
    if modes_in_use:
        pack_saved(node)


def _needs(op: Op, inputs: tuple[Any, ...]) -> tuple[bool, ...]:
    """Which inputs need a gradient."""
    return tuple(
        vjp is not None and is_in_graph(x)
        for x, vjp in zip(inputs, _vjps_for(op, len(inputs)), strict=True)
    )


def _vjps_for(op: Op, count: int) -> tuple[Any, ...]:
    """One rule per input; an operation over a list has one rule for all of its inputs."""
    return op.vjps * count if op.num_inputs < 0 else op.vjps


def check_inplace(op: Op, target: Any, aval: Aval) -> None:
    """PyTorch's refusals of ``target.op_()`` whose result would be ``aval``."""
    have = target._aval
    if aval.shape != have.shape:
        raise RuntimeError(
            f"output with shape {list(have.shape)} doesn't match the broadcast shape {list(aval.shape)}"
            f" (in-place {op.name})"
        )
    if aval.device is not have.device:
        raise different_devices(aval.device, have.device)
    if aval.dtype.category > have.dtype.category:
        raise RuntimeError(
            f"result type {aval.dtype.type_name} can't be cast to the desired output type {have.dtype.type_name}"
            f" (in-place {op.name})"
        )


def checked_plan(
    op: Op, targets: tuple[Any, ...], inputs: tuple[Any, ...], params: tuple[Any, ...]
) -> tuple[EagerPlan, bool]:
    """The plan of an in-place operation, and whether a graph may have to know of it.

    Raises:
        Whatever refuses it, before anything is written.
    """
    tracked = check_writable(targets, inputs)
    plan = find_plan(op, [x._aval if isinstance(x, TensorBase) else x for x in inputs], params)
    for target, aval in zip(targets, plan.out_avals, strict=True):
        check_inplace(op, target, aval)
        check_no_overlap(target, inputs, op)
    return plan, tracked


def _write_alike(op: Op, target: Any, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> bool:
    """The common case: all tensors are laid out alike and no graph has to know. Returns whether it was that, and done.

    Nothing can be refused then: the result fits, and operands share all of their memory with the target, or none.
    """
    may_join = state.grad_enabled
    if may_join and may_need_graph(target):
        return False
    plan, aval, arrays = plan_for(op, inputs, params), target._aval, []
    if plan.direct is None or plan.aval is not aval:
        return False
    for x in inputs:
        if not isinstance(x, TensorBase):
            arrays.append(plan.constant(x))
        elif x._aval is not aval or (may_join and may_need_graph(x)):
            return False
        else:
            array = x._array
            arrays.append(array if array is not None else x._ndarray())
    if plan.has_kernel and inputs[0] is target and plan.write(arrays, (0,)):
        pass
    elif plan.is_exact and isinstance(plan.direct, np.ufunc):  # a kernel is exact, too, and its rule may be no ufunc
        run_into(plan.direct, target._ndarray(), *plan.ufunc_operands(arrays))
    else:
        np.copyto(target._ndarray(), run_quietly(plan.direct, *plan.ufunc_operands(arrays), *params))
    target._vc[VERSION] += 1
    if caught.left:
        note_write(target._vc, op.name)
    return True


def _are_apart(plan: EagerPlan, targets: tuple[Any, ...], inputs: tuple[Any, ...], arrays: list[Any]) -> bool:
    """Whether a kernel may write targets while it reads the inputs: none looks at a target's memory in another layout.

    NumPy's own in-place calls take care of that: ``x.mul_(x.diagonal())``. Where an element of a result is more than a
    function of those at its place, the target is one operand at most: ``x.addmm_(x, x)`` reads what it has written.
    """
    by_place = plan.by_place
    if not by_place and any([sum(x is target for x in inputs) > 1 for target in targets]):
        return False
    for x, array in zip(inputs, arrays, strict=True):
        if isinstance(x, TensorBase):
            for target in targets:
                is_alike = x._aval is target._aval and (by_place or x is target)
                if not is_alike and np.may_share_memory(array, target._ndarray()):
                    return False
    return True


def _targets_among(targets: tuple[Any, ...], inputs: tuple[Any, ...], outs: tuple[Aval, ...]) -> tuple[int, ...]:
    """Which operands the targets are, if each is one and takes its result as it is; else nothing."""
    found = []
    for target, out in zip(targets, outs, strict=True):
        have = target._aval
        if have.dtype is not out.dtype or have.shape != out.shape:
            return ()
        for i, x in enumerate(inputs):
            if x is target:
                found.append(i)
                break
        else:
            return ()
    return tuple(found)


def apply_inplace_eager(
    op: Op, targets: tuple[Any, ...], inputs: tuple[Any, ...], params: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Run ``op`` and write its outputs into ``targets``, which keep their identity, storage and layout."""
    if RUNNING:
        looks_at(targets, is_written=True)
        looks_at(inputs)
    if len(targets) == 1 and _write_alike(op, targets[0], inputs, params):
        return targets
    plan, tracked = checked_plan(op, targets, inputs, params)
    op, out_avals = plan.op, plan.out_avals
    elsewhere = plan.is_elsewhere
    arrays = [] if elsewhere else [x._ndarray() if isinstance(x, TensorBase) else x for x in inputs]
    joins = tracked and bool(op.vjps) and targets[0]._aval.dtype.is_inexact and any(map(is_in_graph, inputs))
    is_apart = not plan.has_kernel or _are_apart(plan, targets, inputs, arrays)
    written = _targets_among(targets, inputs, out_avals) if plan.has_kernel and is_apart else ()
    if isinstance(plan.direct, np.ufunc) and not joins and targets[0]._aval.dtype is out_avals[0].dtype:
        if not (written and plan.write(arrays, written)):
            run_into(plan.direct, targets[0]._ndarray(), *plan.ufunc_operands(arrays))
        targets[0]._vc[VERSION] += 1
        if caught.left:
            note_write(targets[0]._vc, op.name)
        return targets
    before = list(inputs)
    if joins:
        kept = saved_inputs(op, _needs(op, inputs))
        for i, x in enumerate(inputs):
            if any(x is t for t in targets):
                # the operation's own target is kept as a copy; the same tensor as another operand is overwritten
                before[i] = _before_write(x, i == 0 and i in kept)
            elif isinstance(x, TensorBase) and x._base is not None and x._vc is targets[0]._vc and is_in_graph(x):
                # another view of the memory: afterwards its history is that of what was written
                before[i] = _before_write(x, False)
    if op.is_view or op.numpy is None:
        raise RuntimeError(f"{op.name} has no in-place form")
    node = None
    if joins and modes_in_use:
        node = _packed_before(op, tuple(before), params, targets)
    # the rule's dtype may be narrower than the target's (int result into a float target): cast on the copy
    if elsewhere:
        write_elsewhere(op, targets, inputs, plan.params, out_avals, plan.on_host())
    elif op is _COPY:
        run_quietly(_copy_over, targets[0]._ndarray(), arrays[1])
    elif op.write is not None and writes_repeats(op, targets[0]._aval):
        run_quietly(op.write, targets[0]._ndarray(), *arrays[1:], *plan.params)
    elif not (written and plan.write(arrays, written)):
        results = run_numpy(op, arrays, params, out_avals) if is_apart else plan.compute(arrays)
        for target, result in zip(targets, results, strict=True):
            np.copyto(target._ndarray(), result, casting="unsafe")
    for target in targets:
        target._vc[VERSION] += 1
        if joins or caught.left:
            note_write(target._vc, op.name)
    if joins:
        caught.go_on()
        _rejoin_graph(op, tuple(before), params, targets, node)
        for old in before[1:]:
            if isinstance(old, TensorBase) and not any(old is x for x in inputs):
                old._vc[VERSION] += 1
    return targets


def _copy_over(target: Any, source: Any) -> None:
    """What the rule of ``copy`` computes, without an array in between."""
    np.copyto(target, np_operand(source, as_dtype(target.dtype)), casting="unsafe")


def _before_write(target: Any, is_saved: bool) -> Any:
    """The target as it was, to be the operation's input in the graph; a copy, if its Node saves the value."""
    if is_saved and target._aval.device is not CPU:
        (old,) = run_elsewhere(OPS["clone"], (target,), (), (scratch_aval(target._aval.shape, target._aval),))
    elif is_saved:
        array = target._ndarray().copy(order="C")
        old = new_result(make_aval(target._aval.shape, target._aval.dtype), array)
    else:
        old = new_tensor(target._aval, target._storage)
    old._requires_grad = target._requires_grad
    old._grad_fn = target.grad_fn
    old._output_nr = target._output_nr
    return old


def _packed_before(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], targets: tuple[Any, ...]) -> Any:
    """The Node, made before the write: a pack hook sees the inputs as they are, and if it raises nothing is written.

    None for an operation that saves what it writes, which hooks see afterwards.
    """
    needs = _needs(op, inputs)
    if not any(needs) or not state.saved_tensor_hooks or backward_plan(op, needs).outputs:
        return None
    node = make_op_node(op, inputs, targets, params, needs)
    pack_saved(node)
    return node


def _rejoin_graph(
    op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], targets: tuple[Any, ...], made: Any = None
) -> None:
    """Give the targets their new history; ``made``: their Node, if there is one already."""
    if made is not None:
        for nr, target in enumerate(targets):
            rebase_history(target, made, nr)
        return
    needs = _needs(op, inputs)
    if not any(needs):
        return
    node = make_op_node(op, inputs, targets, params, needs)
    for saved in node.saved or ():
        # saved after the write, but read before it: through an alias of the target the old value is lost
        if isinstance(saved, SavedVariable) and saved.output_nr < 0 and any(saved.tensor._vc is t._vc for t in targets):
            saved.version -= 1
    for nr, target in enumerate(targets):
        rebase_history(target, node, nr)
    if modes_in_use:
        pack_saved(node)


def scratch_aval(shape: tuple[int, ...], like: Aval) -> Aval:
    """A row-major aval of ``shape`` with ``like``'s dtype."""
    return make_aval(shape, like.dtype).on(like.device)
