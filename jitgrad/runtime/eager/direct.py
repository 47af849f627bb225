"""Eager execution of operations on one or two operands, without a detour.

Owns: ``apply_one`` and ``apply_two``.
Must not know: traces, code generation.
In: an ``Op``, its operands, its params. Out: its result, a tensor.

The same steps as in ``eager.py``, in a straight line: most operations of most programs come by here, and a loop over
two operands, a tuple, a call each cost a tenth of what NumPy takes to add two numbers. What is not plain - several
results, other devices, a combination of operands that is new - is left to ``apply_eager``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops.table import Op, RuleContext
from jitgrad.runtime.eager.eager import apply_eager, make_view
from jitgrad.runtime.eager.numpy_rule import own
from jitgrad.runtime.eager.plan import EagerPlan, plans
from jitgrad.runtime.eager.quiet import quiet, run_anyway
from jitgrad.runtime.engine.graph.copy_slices import view_requires_grad
from jitgrad.runtime.engine.graph.edge import INVALID_EDGE
from jitgrad.runtime.engine.graph.op_node import BackwardPlan, assemble, edge_of, remember_line, save
from jitgrad.runtime.engine.graph.overwrites import caught
from jitgrad.runtime.engine.graph.saved_variable import pack_saved
from jitgrad.state import modes_in_use, state
from jitgrad.tensor_base import TensorBase, new_result

__all__ = ["apply_one", "apply_two"]


def apply_one(op: Op, x: Any, params: tuple[Any, ...]) -> Any:
    """``apply_eager(op, (x,), params)``; raises what that raises."""
    try:
        plan = plans.get((op, params, x._aval)) if isinstance(x, TensorBase) else None
    except TypeError:  # a parameter that cannot be hashed
        plan = None
    if plan is None:
        return apply_eager(op, (x,), params)
    if plan.is_plain:
        a = x._array
        if a is None:
            a = x._ndarray()
        try:
            result = quiet.run(plan.function, a, *params) if params else quiet.run(plan.function, a)
        except RuntimeError as error:
            result = run_anyway(error, plan.function, a, *params)
        out = new_result(plan.aval, result if plan.is_exact else own(result, plan.aval, (a,)))
    elif plan.is_one_view:
        out = make_view(x, plan.aval, plan.has_base, False)
    else:
        return apply_eager(op, (x,), params)
    if op.vjps and state.grad_enabled and (x._requires_grad or (x._base is not None and view_requires_grad(x))):
        graph = plan.graph((True,))
        if graph is not None:
            node = x._grad_fn
            edge: Any = (node, x._output_nr) if node is not None and x._base is None else edge_of(x)
            _join(plan.op, graph, (x,), out, (edge,))
    return out


def apply_two(op: Op, x: Any, y: Any, params: tuple[Any, ...] = ()) -> Any:
    """``apply_eager(op, (x, y), params)``; raises what that raises."""
    is_x, is_y = isinstance(x, TensorBase), isinstance(y, TensorBase)
    try:
        plan = plans.get((op, params, x._aval if is_x else type(x), y._aval if is_y else type(y)))
    except TypeError:
        plan = None
    if plan is None or not plan.is_plain:
        return apply_eager(op, (x, y), params)
    a = x._array if is_x else plan.constant(x)
    b = y._array if is_y else plan.constant(y)
    if a is None:
        a = x._ndarray()
    if b is None:
        b = y._ndarray()
    try:
        result = quiet.run(plan.function, a, b, *params) if params else quiet.run(plan.function, a, b)
    except RuntimeError as error:
        result = run_anyway(error, plan.function, a, b, *params)
    out = new_result(plan.aval, result if plan.is_exact else own(result, plan.aval, (a, b)))
    if op.vjps and state.grad_enabled:
        needs_x = is_x and (x._requires_grad or (x._base is not None and view_requires_grad(x)))
        needs_y = is_y and (y._requires_grad or (y._base is not None and view_requires_grad(y)))
        if needs_x or needs_y:
            _join_two(plan, x, y, out, (needs_x, needs_y))
    return out


def _join_two(plan: EagerPlan, x: Any, y: Any, out: Any, needs: tuple[bool, bool]) -> None:
    graph = plan.graph(needs)
    if graph is None:
        return
    needs_x, needs_y = graph[1].needs
    edge_x: Any = INVALID_EDGE
    edge_y: Any = INVALID_EDGE
    if needs_x:
        node = x._grad_fn
        edge_x = (node, x._output_nr) if node is not None and x._base is None else edge_of(x)
    if needs_y:
        node = y._grad_fn
        edge_y = (node, y._output_nr) if node is not None and y._base is None else edge_of(y)
    _join(plan.op, graph, (x, y), out, (edge_x, edge_y))


def _join(op: Op, graph: tuple[BackwardPlan, RuleContext], inputs: tuple[Any, ...], out: Any, edges: Any) -> None:
    """Give the result its Node."""
    backward, context = graph
    saved = save(backward, inputs, (out,)) if backward.saves else ()
    out._grad_fn = node = assemble(op, backward, context, edges, saved)
    out._requires_grad = True
    if saved and caught.left:
        remember_line(node)
    if modes_in_use:
        pack_saved(node)
