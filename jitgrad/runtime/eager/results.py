"""The results of eager operations whose plan is known: their values, and their Node.

Owns: ``results_of`` and its parts, ``join``; ``Here``.
Must not know: which operation asks, and for whom.

Native code and Python run the same functions, Note [Eager in native code].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.cpython.primitives import call_inside, eager_apart, eager_native, is_word, joined, same
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import RuleContext
from jitgrad.runtime.eager.eager import array_in_storage, make_view
from jitgrad.runtime.eager.kernel_runs import run_kernel
from jitgrad.runtime.eager.numpy_rule import is_own, own, own_inside
from jitgrad.runtime.eager.plan import EagerPlan
from jitgrad.runtime.eager.quiet import quiet, run_in_errstate
from jitgrad.runtime.engine.graph.copy_slices import view_requires_grad
from jitgrad.runtime.engine.graph.node import INVALID_EDGE
from jitgrad.runtime.engine.graph.op_node import BackwardPlan, assemble, edge_of, remember_line, save
from jitgrad.runtime.engine.graph.overwrites import caught
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_result
from jitgrad.tracer.hits.hits import MISSED

__all__ = ["MAKERS", "PYTHONS_MAKERS", "Here", "Makers", "array_of", "arrays_of", "constant_of", "edges_to", "graph_of",
           "join", "needs_grad", "result_of", "results_of", "run_all"]  # fmt: skip


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


class Makers:
    """What programs in Python's form make their results by: these functions in the form that is in use."""

    __slots__ = ("are_alike", "make_view", "new_result", "owned")

    are_alike: Any
    make_view: Any
    new_result: Any
    owned: Any

    def __init__(self) -> None:
        self.use(PYTHONS_MAKERS)

    def use(self, functions: dict[str, Any]) -> None:
        """Put these forms in use."""
        for name in PYTHONS_MAKERS:
            setattr(self, name, functions[name])


# --- their values ---


@eager_native
def owned(result: Any, aval: Aval, inputs: tuple[Any, ...]) -> Any:
    """``own(result, aval, inputs)``, for a caller that NumPy is quiet for."""
    return result if is_own(result, aval, inputs) else own_inside(result, aval, inputs)


@eager_native
def are_alike(a: Aval, b: Aval) -> bool:
    """Whether two layouts differ in nothing but where they begin."""
    return same(a.shape, b.shape) and same(a.stride, b.stride) and a.dtype is b.dtype and a.device is b.device


PYTHONS_MAKERS: dict[str, Any] = {f.__name__: f for f in (are_alike, make_view, new_result, owned)}
MAKERS = Makers()


@eager_native
def array_of(x: TensorBase) -> Any:
    """A tensor's array, made if there is none yet; ``MISSED`` if the tensor is sparse."""
    if x._array is not None:
        return x._array
    made = array_in_storage(x)
    if made is not None:
        return made
    return MISSED if x.is_sparse else x._ndarray()


@eager_native
def constant_of(plan: EagerPlan, number: Any) -> Any:
    """``plan.constant(number)``."""
    if plan.has_kernel is True and (type(number) is float or (type(number) is int and is_word(number))):
        return number
    if plan.zero is not None and type(number) is int and same(number, 0):
        return plan.zero
    constants: dict[Any, Any] = plan._constants
    kept = constants.get(number)
    return plan.constant(number) if kept is None else kept


@eager_apart
def arrays_of(plan: EagerPlan, inputs: tuple[Any, ...]) -> Any:
    """What a plan's function takes, in a list; None if an operand is sparse."""
    arrays: list[Any] = []
    for x in inputs:
        array = array_of(x) if isinstance(x, TensorBase) else constant_of(plan, x)
        if array is MISSED:
            return None
        arrays.append(array)
    return arrays


def run_all(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """``function(*args)``, quietly, where the context cannot be entered."""
    return run_in_errstate(function, *args)


@eager_apart
def result_of(thread: Here, plan: EagerPlan, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """The result of a plan's function, a tensor outside any graph."""
    if plan.kernel is not None:
        found = run_kernel(plan.kernel, operands)
        if found is not None:
            outs: list[Any] = found
            return new_result(plan.aval, outs[0])
    given: Any = operands
    if len(params) > 0:
        given = joined(operands, params)
    array = call_inside(thread.context, plan.function, given)
    if array is None:  # a finalizer has come here in the middle of another operation
        array = run_all(plan.function, given)
    if plan.is_exact is not True and not is_own(array, plan.aval, operands):
        array = own(array, plan.aval, operands)
    return new_result(plan.aval, array)


@eager_apart
def results_of(thread: Here, plan: EagerPlan, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """A plan's results, tensors outside any graph, in a tuple; None where it takes more than this."""
    if plan.is_elsewhere is True:
        return None
    if plan.views is not None:
        return views_of(plan, inputs[0])
    found = arrays_of(plan, inputs)
    if found is None:
        return None
    arrays: list[Any] = found
    if plan.is_plain is True:
        return (result_of(thread, plan, tuple(arrays), params),)
    if plan.list_rule is not None:
        return (result_of_list(thread, plan, arrays, params),)
    return None if plan.op.is_view else results_of_several(plan, arrays)


@eager_apart
def views_of(plan: EagerPlan, source: TensorBase) -> Any:
    """A plan's results over the memory of the operand; None if that is sparse."""
    if source._array is None and source.is_sparse:
        return None
    made: list[Any] = []
    known: Any = plan.views
    avals: tuple[Any, ...] = known
    for aval in avals:
        made.append(make_view(source, aval, plan.has_base is True, plan.is_several is True))
    return tuple(made)


@eager_apart
def result_of_list(thread: Here, plan: EagerPlan, arrays: list[Any], params: tuple[Any, ...]) -> Any:
    """The result of an operation over a list of operands."""
    given: Any = joined((arrays,), params)
    array = call_inside(thread.context, plan.list_rule, given)
    if array is None:  # see ``result_of``
        array = run_all(plan.list_rule, given)
    operands = tuple(arrays)
    if not is_own(array, plan.aval, operands):
        array = own(array, plan.aval, operands)
    return new_result(plan.aval, array)


@eager_apart
def results_of_several(plan: EagerPlan, arrays: list[Any]) -> Any:
    """Several results, or those of an operation that has no plain plan."""
    computed: Any = None
    if plan.kernel is not None:
        computed = run_kernel(plan.kernel, tuple(arrays))
    if computed is None:
        computed = plan.compute(arrays)
    found: list[Any] = computed
    avals: tuple[Any, ...] = plan.out_avals
    made: list[Any] = []
    for array in found:
        made.append(new_result(avals[len(made)], array))
    return tuple(made)


# --- their Node ---


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


@eager_apart
def join(plan: EagerPlan, needs: tuple[Any, ...], inputs: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
    """Give the floating results their Node, if a gradient can come and go."""
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
    elif len(inputs) == 2:
        edges = (edge_to(inputs[0], wanted[0] is True), edge_to(inputs[1], wanted[1] is True))
    else:
        edges = edges_to(inputs, wanted)
    saved: tuple[Any, ...] = save(backward, inputs, outs) if backward.saves else ()
    node = assemble(plan.op, backward, context, edges, saved)
    if len(outs) == 1:
        only: TensorBase = outs[0]
        only._grad_fn = node
        only._requires_grad = True
    else:
        share(node, outs)
    if len(saved) > 0 and int(caught.left) > 0:
        remember_line(node)


@eager_apart
def edges_to(inputs: tuple[Any, ...], wanted: tuple[Any, ...]) -> Any:
    """Where the operands' gradients go."""
    edges: list[Any] = []
    for x in inputs:
        edges.append(edge_to(x, True) if wanted[len(edges)] is True else INVALID_EDGE)
    return tuple(edges)


@eager_apart
def share(node: Any, outs: tuple[Any, ...]) -> None:
    """Several results of one Node."""
    at = 0
    while at < len(outs):
        out: TensorBase = outs[at]
        aval: Aval = out._aval
        if aval.dtype.is_inexact:
            out._grad_fn = node
            out._output_nr = at
            out._requires_grad = True
        at += 1
