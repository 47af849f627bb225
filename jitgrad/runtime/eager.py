"""Eager execution: one operation, now, by its NumPy rule, with its Node in the graph.

Owns: ``apply_eager`` and ``apply_inplace_eager``.
Must not know: traces, code generation.
In: an ``Op``, tensors and numbers. Out: tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.table import Op
from jitgrad.runtime.buffer import Storage
from jitgrad.runtime.eager_plan import EagerPlan, find_plan
from jitgrad.runtime.engine.copy_slices import check_view_writable, rebase_history, view_requires_grad, view_version
from jitgrad.runtime.engine.op_node import build_node, make_op_node, saved_inputs
from jitgrad.runtime.engine.saved_variable import SavedVariable
from jitgrad.runtime.overlap import check_no_overlap
from jitgrad.runtime.quiet import run_quietly
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_tensor

__all__ = ["apply_eager", "apply_inplace_eager", "run_numpy", "split_args", "storage_from_result"]


def split_args(op: Op, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(inputs, params). An operation over a list of tensors takes the list as its first argument."""
    n = op.num_inputs
    if n < 0:
        return tuple(args[0]), args[1:]
    return args[:n], args[n:]


def run_numpy(op: Op, arrays: list[Any], params: tuple[Any, ...], avals: tuple[Aval, ...]) -> list[Any]:
    """The NumPy rule's arrays, made exactly what the avals say."""
    assert op.numpy is not None
    raw = run_quietly(op.numpy, *((arrays,) if op.num_inputs < 0 else arrays), *params)
    results = raw if isinstance(raw, tuple | list) else (raw,)
    return [_exactly(r, a) for r, a in zip(results, avals, strict=True)]


def _exactly(result: Any, aval: Aval) -> Any:
    """A row-major array of the aval's dtype; 0-d results of NumPy are scalars, so ``asarray`` first."""
    array = np.asarray(result, dtype=aval.dtype.np, order="C")
    return array if array.shape == aval.shape else np.ascontiguousarray(np.broadcast_to(array, aval.shape))


def storage_from_result(array: Any, inputs: list[Any]) -> tuple[Any, Any]:
    """A storage for a fresh result; a rule may have returned (a view of) an input: copy then."""
    if not array.flags.owndata or not array.flags.writeable or any(array is a for a in inputs):
        array = array.copy()
    return Storage.from_array(array), array


def apply_eager(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Run one operation.

    Raises:
        Whatever the shape rule or the NumPy rule raises; nothing has happened then.
    """
    avals: list[Any] = []
    needs: list[bool] = []
    for x in inputs:
        if isinstance(x, TensorBase):
            avals.append(x._aval)
            needs.append(x._requires_grad or (x._base is not None and view_requires_grad(x)))
        else:
            avals.append(x)
            needs.append(False)
    plan = find_plan(op, avals, params)
    if plan.direct is not None:
        outs: tuple[Any, ...] = (_run_direct(plan, inputs),)
    elif op.is_view:
        outs = tuple(_make_view(inputs[0], a, bool(op.vjps)) for a in plan.out_avals)
    else:
        arrays = [x._ndarray() if isinstance(x, TensorBase) else x for x in inputs]
        results = run_numpy(op, arrays, params, plan.out_avals)
        pairs = zip(results, plan.out_avals, strict=True)
        outs = tuple(new_tensor(a, *storage_from_result(r, arrays)) for r, a in pairs)
    if True in needs and op.vjps and state.grad_enabled:
        _join_graph(plan, inputs, outs, needs)
    return outs if plan.is_several else outs[0]


def _run_direct(plan: EagerPlan, inputs: tuple[Any, ...]) -> Any:
    """Floating, row-major, one dtype: the NumPy function's result is what the aval says."""
    assert plan.direct is not None
    arrays = [x._array if isinstance(x, TensorBase) and x._array is not None else _array_of(x) for x in inputs]
    result = run_quietly(plan.direct, *arrays)
    if result.base is not None or result is arrays[0]:
        result = result.copy()
    out = new_tensor(plan.out_avals[0], Storage.from_array(result), result)
    # every one of these is looked at before long; setting them here is cheaper than ``__getattr__`` later
    out._vc = [0]
    out._requires_grad = False
    out._base = out._grad_fn = out._grad = out._hooks = None
    return out


def _array_of(x: Any) -> Any:
    return x._ndarray() if isinstance(x, TensorBase) else x


def _in_graph(x: Any) -> bool:
    """Whether a tensor requires grad; of a view, the base may have joined the graph since it was made."""
    return x._requires_grad or (x._base is not None and view_requires_grad(x))


def _make_view(source: Any, aval: Aval, is_differentiable: bool) -> Any:
    out = new_tensor(aval, source._storage)
    out._vc = source._vc
    if is_differentiable:
        # a view of a detached tensor looks no further than that: the graph behind it is another one
        out._base = source if source._base is None or source._view_version is None else source._base
        out._view_version = view_version(source)
    return out


def _join_graph(plan: EagerPlan, inputs: tuple[Any, ...], outs: tuple[Any, ...], needs: list[bool]) -> None:
    """Give the floating outputs a Node, if the operation has a derivative for any of the inputs that need one."""
    if not plan.is_differentiable:
        needs = [need and has_rule for need, has_rule in zip(needs, plan.differentiable, strict=True)]
        if True not in needs:
            return
    node = build_node(plan.op, *plan.graph(tuple(needs)), inputs, outs)
    for nr, out in enumerate(outs):
        if out._aval.dtype.is_floating_point:
            out._requires_grad = True
            out._output_nr = nr
            out._grad_fn = node


def _needs(op: Op, inputs: tuple[Any, ...]) -> tuple[bool, ...]:
    """Which inputs need a gradient."""
    return tuple(
        isinstance(x, TensorBase) and x._requires_grad and vjp is not None
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
    if aval.dtype.category > have.dtype.category:
        raise RuntimeError(
            f"result type {_scalar_type(aval)} can't be cast to the desired output type {_scalar_type(have)}"
            f" (in-place {op.name})"
        )


def check_writable_leaf(target: Any) -> None:
    """A leaf in the graph cannot be written while the graph is being recorded."""
    if not (state.grad_enabled and target._requires_grad):
        return
    if target.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    base = target._base
    if base is not None and base._requires_grad and base.is_leaf:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def _scalar_type(aval: Aval) -> str:
    return {"float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int", "bool": "Bool"}[aval.dtype.name]


def apply_inplace_eager(
    op: Op, targets: tuple[Any, ...], inputs: tuple[Any, ...], params: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Run ``op`` and write its outputs into ``targets``, which keep their identity, storage and layout."""
    plan = find_plan(op, [x._aval if isinstance(x, TensorBase) else x for x in inputs], params)
    out_avals = plan.out_avals
    for target, aval in zip(targets, out_avals, strict=True):
        check_inplace(op, target, aval)
        check_writable_leaf(target)
        check_no_overlap(target, inputs)
    arrays = [x._ndarray() if isinstance(x, TensorBase) else x for x in inputs]
    joins = state.grad_enabled and bool(op.vjps) and any(isinstance(x, TensorBase) and _in_graph(x) for x in inputs)
    if isinstance(plan.direct, np.ufunc) and not joins and targets[0]._aval.dtype is out_avals[0].dtype:
        run_quietly(plan.direct, *arrays, targets[0]._ndarray())
        targets[0]._vc[0] += 1
        return targets
    before = list(inputs)
    if joins:
        for target in targets:
            check_view_writable(target)
        kept = saved_inputs(op, _needs(op, inputs))
        for i, x in enumerate(inputs):
            if any(x is t for t in targets):
                # the operation's own target is kept as a copy; the same tensor as another operand is overwritten
                before[i] = _before_write(x, i == 0 and i in kept)
    if op.is_view or op.numpy is None:
        raise RuntimeError(f"{op.name} has no in-place form")
    # the rule's dtype may be narrower than the target's (int result into a float target): cast on the copy
    results = run_numpy(op, arrays, params, out_avals)
    for target, result in zip(targets, results, strict=True):
        np.copyto(target._ndarray(), result, casting="unsafe")
        target._vc[0] += 1
    if joins:
        _rejoin_graph(op, tuple(before), params, targets)
        for old in before[1:]:
            if isinstance(old, TensorBase) and not any(old is x for x in inputs):
                old._vc[0] += 1
    return targets


def _before_write(target: Any, is_saved: bool) -> Any:
    """The target as it was, to be the operation's input in the graph; a copy, if its Node saves the value."""
    if is_saved:
        array = target._ndarray().copy(order="C")
        old = new_tensor(make_aval(target._aval.shape, target._aval.dtype), Storage.from_array(array), array)
    else:
        old = new_tensor(target._aval, target._storage)
    old._requires_grad = target._requires_grad
    old._grad_fn = target.grad_fn
    old._output_nr = target._output_nr
    return old


def _rejoin_graph(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], targets: tuple[Any, ...]) -> None:
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


def scratch_aval(shape: tuple[int, ...], like: Aval) -> Aval:
    """A row-major aval of ``shape`` with ``like``'s dtype."""
    return make_aval(shape, like.dtype)
