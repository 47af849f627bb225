"""``AccumulateGrad``: where a gradient becomes ``.grad``.

Owns: the accumulator of a leaf, and which edge a tensor's gradient flows along.
Must not know: operations, the queue.

# Note [Who owns .grad]
# ~~~~~~~~~~~~~~~~~~~~~
# The first gradient becomes ``.grad`` itself when nobody else can see it, and a copy otherwise: later gradients are
# added into ``.grad`` in place, and the user may write to it. PyTorch asks for the reference count of the tensor alone;
# a gradient whose *storage* is shared (a view of what another leaf received) would then be corrupted, so here both
# counts, see Note [Reference counts].
#
# Note [Layout of gradients]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~
# ``.grad`` is made with the strides of its leaf, if the leaf has neither gaps nor repetitions, else row-major: so an
# optimizer walks through both in one order (PyTorch's ``accumulate_grad.h``). A gradient that arrives with other
# strides is copied, even if nobody else can see it. What is added later, in place, keeps the strides of ``.grad``,
# also of one that the user has assigned; with ``create_graph`` the sum is a new tensor, laid out as any sum.
"""

from __future__ import annotations

import operator
from threading import Lock
from typing import Any
from weakref import ref

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.cpython.primitives import blank, eager_native, is_atomic
from jitgrad.locks import process_lock
from jitgrad.ops.aval import Aval, devices_in_use, is_dense
from jitgrad.ops.dispatch_hook import call
from jitgrad.runtime.engine.graph.node import ACCUMULATE_GRAD_SEQUENCE_NR, INVALID_EDGE, Edge, Node
from jitgrad.runtime.engine.graph.node_hooks import HookDict, NodeHooks
from jitgrad.state import state, without_overrides
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.recorder_state import RUNNING, sets_grad

__all__ = ["AccumulateGrad", "accumulator_of", "existing_accumulator", "gradient_edge"]

_creation_lock = process_lock()
_creating: list[bool] = []
"""Not empty while a thread that has the lock makes an accumulator."""


class HookedAccumulator(ref["AccumulateGrad"]):
    """How a leaf holds an accumulator that may have hooks of its own: hits tell it by its class."""

    __slots__ = ()


class AccumulateGrad(Node):
    """The end of a path: adds what arrives into ``variable.grad``.

    One per leaf while any graph refers to it; the leaf holds it weakly.

    Attributes:
        variable: the leaf.
    """

    __slots__ = ("_lock", "variable")

    _lock: Any
    variable: Any

    def __init__(self, variable: Any) -> None:
        _begin(self, variable)

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def ensure_hooks(self) -> NodeHooks:
        if existing_accumulator(self.variable) is self:
            self.variable._accumulator = HookedAccumulator(self)
        return super().ensure_hooks()

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        if len(grad_outputs) != 1:
            raise RuntimeError(f"AccumulateGrad: expected 1 arguments (got {len(grad_outputs)})")
        new_grad = grad_outputs[0]
        grad_outputs[0] = None
        if new_grad is None:
            return ()
        variable = self.variable
        if not variable._requires_grad:
            return ()  # no longer: it was detached in place, or ``requires_grad_(False)`` was called
        if RUNNING:
            sets_grad(variable)
        with self._lock:
            old = variable._grad
            if old is None:
                is_ours = references(new_grad) == ONE_LOCAL and _owns_storage(new_grad, variable._aval)
                variable._grad = new_grad if is_ours and not state.grad_enabled else _copy_like(new_grad, variable)
            elif state.grad_enabled or (old.is_sparse and not new_grad.is_sparse):
                variable._grad = without_overrides(operator.add, old, new_grad)
            else:
                without_overrides(operator.iadd, old, new_grad)
        hooks = variable._post_accumulate_hooks
        if hooks:
            _run_post_accumulate_hooks(hooks, variable)
        return ()


@eager_native
def _begin(node: AccumulateGrad, variable: TensorBase) -> None:
    """Fill a new accumulator."""
    node.variable = variable
    node.next_edges = ()
    node.input_metadata = (variable._aval,)
    node.sequence_nr = ACCUMULATE_GRAD_SEQUENCE_NR
    node.topological_nr = 0
    node.hooks = None
    node._lock = Lock()
    if devices_in_use:
        node.note_stream()
    if variable._hooks is not None:
        node.ensure_hooks().tensor_pre.append((0, variable._hooks))


def _run_post_accumulate_hooks(hooks: HookDict, variable: Any) -> None:
    """PyTorch notices what a hook returns when all have run, each with what the one before returned."""
    argument = variable
    for fn in tuple(hooks.values()):
        result = fn(argument)
        if result is not None and not isinstance(result, TensorBase):
            raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
        argument = argument if result is None else result
    if argument is not variable:
        raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def _copy_like(grad: Any, variable: Any) -> Any:
    """A copy that obeys Note [Layout of gradients]."""
    if grad.is_sparse:
        return call("clone", grad)
    layout = variable._aval
    return call("contiguous", grad, None if layout.is_canonical or not is_dense(layout) else layout.stride)


def _obeys(aval: Aval, layout: Aval) -> bool:
    """Whether a gradient is laid out as Note [Layout of gradients] says; ``layout``: of the leaf."""
    if layout.is_canonical or not is_dense(layout):
        return aval.is_contiguous
    return all(n == 1 or s == t for n, s, t in zip(aval.shape, aval.stride, layout.stride, strict=True))


def _owns_storage(grad: TensorBase, layout: Aval) -> bool:
    """Whether the tensor is laid out for a leaf, in a storage that nothing else refers to, NumPy included."""
    if grad.is_sparse:
        return False
    aval = grad._aval
    if aval.offset or grad._base is not None or not (aval is layout or _obeys(aval, layout)):
        return False
    array = grad._array
    if array is not None and array.base is None and references(array) == ONE_LOCAL + 1:
        return True  # there is no storage yet: Note [Storage on demand]
    storage = grad._storage
    memory = None if array is None else array.base
    if storage is not None and memory is storage:  # a compiled call's result, or that of its backward
        memory = None
        return references(array) == ONE_LOCAL + 1 and references(storage) == ONE_LOCAL + 2
    if storage is not None and getattr(memory, "storage", None) is storage:  # a kernel's result
        alone = references(array) == ONE_LOCAL + 1 and references(memory) == ONE_LOCAL + 1
        return alone and references(storage) == ONE_LOCAL + 2
    if storage is None:
        return False
    if references(storage) != ONE_LOCAL + 1:
        return False
    owner = storage.owner
    return owner is None or references(owner) == ONE_LOCAL + 1 + 2 * (array is owner)


@eager_native
def accumulator_of(tensor: TensorBase) -> Any:
    """The accumulator of a leaf, made if there is none alive."""
    known = existing_accumulator(tensor)
    if known is not None:
        return known
    if not is_atomic() or _creating:
        return _accumulator_of(tensor)
    node: AccumulateGrad = blank(AccumulateGrad)
    _begin(node, tensor)
    reference = ref(node)
    # a collection may have run other code meanwhile, or let another thread run; from here on nothing else runs
    if _creating or existing_accumulator(tensor) is not None:
        return _accumulator_of(tensor)
    tensor._accumulator = reference
    return node


def _accumulator_of(tensor: Any) -> Any:
    """``accumulator_of`` where another thread may come in between two statements."""
    with _creation_lock:
        _creating.append(True)
        try:
            node = existing_accumulator(tensor)
            if node is None:
                node = AccumulateGrad(tensor)
                tensor._accumulator = ref(node)
        finally:
            _creating.pop()
    return node


@eager_native
def existing_accumulator(tensor: TensorBase) -> Any:
    """The accumulator of a leaf if some graph refers to it, else None."""
    reference = tensor._accumulator
    return reference() if reference is not None else None


def gradient_edge(tensor: Any) -> Edge:
    """The edge along which the gradient of ``tensor`` flows.

    (grad_fn, output_nr); for a leaf that requires grad (its accumulator, 0); else the invalid edge.
    """
    node = tensor.grad_fn
    if node is not None:
        return Edge(node, tensor._output_nr)
    if not tensor._requires_grad:
        return INVALID_EDGE
    return Edge(accumulator_of(tensor), 0)
