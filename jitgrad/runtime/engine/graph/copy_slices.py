"""In-place writes and views: which node a tensor's value comes from.

Owns: ``CopySlices``, ``rebase_history``, ``current_grad_fn``.
Must not know: how a write is done.

# Note [In-place on views]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# A write to a view changes its base, and with it every other view. The base's ``grad_fn`` becomes a ``CopySlices``: the
# old base with the slice replaced by the operation's result. A view notices, when its ``grad_fn`` is next asked for,
# that the version is no longer the one its ``grad_fn`` was right for, and takes a new one: a strided read of the base.
# (PyTorch's note [View + Inplace update for base tensor], torch/csrc/autograd/variable.h.)
# PyTorch's CopySlices writes into a copy of the gradient; here it is a function of the gradient
# (``ops/views/strided.py``), so that it can be recorded and differentiated again.
"""

from __future__ import annotations

import weakref
from typing import Any

from jitgrad.cpython.primitives import eager_native
from jitgrad.grad_mode import is_inference_mode_enabled
from jitgrad.ops.aval import REPEATS, Aval, has_repeats
from jitgrad.ops.views.strided import STRIDED_SELECT, over
from jitgrad.runtime.engine.graph.accumulate_grad import gradient_edge
from jitgrad.runtime.engine.graph.anomaly import store_stack
from jitgrad.runtime.engine.graph.creation_meta import CreationMeta, view_refusal
from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.graph.node import INVALID_EDGE, Edge, NextEdge, Node, call_node
from jitgrad.runtime.engine.graph.op_node import OpNode, make_op_node, wanted_nodes
from jitgrad.runtime.engine.graph.saved_variable import RELEASED_MESSAGE, SavedVariable
from jitgrad.runtime.engine.graph.validate import fit
from jitgrad.state import anomaly, state
from jitgrad.tensor_base import TensorBase, new_tensor
from jitgrad.version_counter import VERSION

__all__ = [
    "CopySlices",
    "SavedSlice",
    "check_writable",
    "creation_meta_of",
    "current_grad_fn",
    "is_in_graph",
    "rebase_history",
    "view_requires_grad",
]


class CopySlices(Node):
    """The history of a base after a write to one of its views.

    Its first edge is the base's former history; the others are those of the operation that was written, without the
    view's own, because the view is part of the base.

    Attributes:
        fn: the operation's node; None once released.
        view: the layout of what was written.
        replaces_view: the operation read the view: its first gradient belongs into the slice.
    """

    __slots__ = ("fn", "output_nr", "replaces_view", "view")

    def __init__(self, base: Any, base_edge: NextEdge, view: Aval, fn: Node, view_edge: Edge, output_nr: int) -> None:
        first = fn.next_edges[0] if fn.next_edges else None
        self.replaces_view = first is not None and first in (view_edge, INVALID_EDGE)
        rest = fn.next_edges[1:] if self.replaces_view else fn.next_edges
        super().__init__((base_edge, *rest), (base._aval,))
        if self.replaces_view:
            # what fn computes is decided by where its gradients go: see Note [Exec info]
            fn.next_edges = self.next_edges
        if isinstance(fn, OpNode) and fn.saved:
            fn.saved = tuple(SavedSlice(x, self) if _is_output(x) else x for x in fn.saved)
        self.fn: Node | None = fn
        self.view = view
        self.output_nr = output_nr
        if anomaly.enabled:
            store_stack(self, current.node)

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        if self.fn is None:
            raise RuntimeError(RELEASED_MESSAGE)
        grad = grad_outputs[0]
        if grad is None:
            return (None,) * len(self.next_edges)
        base = self.input_metadata[0]
        incoming: list[Any] = [None] * len(self.fn.input_metadata)
        incoming[self.output_nr] = over("strided_select", base, self.view, grad)
        grads = call_node(self.fn, incoming)
        slice_grad: Any = 0.0
        if self.replaces_view:
            if grads[0] is not None:
                slice_grad = fit(self.fn, 0, grads[0], self.view)
            grads = grads[1:]
        target, wanted = self.next_edges[0][0], wanted_nodes()
        if target is None:
            return (None, *grads)
        if has_repeats(self.view):  # PyTorch's backward cannot write the gradient of what was expanded
            if not wanted or target in wanted:
                raise RuntimeError(REPEATS)
            return (None, *grads)
        return (over("strided_scatter", base, self.view, grad, slice_grad), *grads)

    @property
    def saved(self) -> tuple[Any, ...] | None:
        """Nothing of its own; None once released."""
        return None if self.fn is None else ()

    def release_variables(self) -> None:
        self.fn = None


class SavedSlice(SavedVariable):
    """A saved output that was written into a view: its history is the slice of the base, not the wrapped operation."""

    __slots__ = ("_copy_slices",)

    def __init__(self, saved: SavedVariable, copy_slices: CopySlices) -> None:
        self.tensor, self.version, self.output_nr = saved.tensor, saved.version, saved.output_nr
        self._copy_slices = weakref.ref(copy_slices)

    def history(self, saved_by: Node) -> tuple[Node, int]:
        copy_slices = self._copy_slices()
        assert copy_slices is not None, "the operation is only run by its CopySlices"
        base = new_tensor(copy_slices.input_metadata[0], None)
        base._requires_grad, base._grad_fn = True, copy_slices
        return _read_slice(base, new_tensor(copy_slices.view, None)), 0


def _is_output(saved: Any) -> bool:
    return isinstance(saved, SavedVariable) and saved.output_nr >= 0


def _read_slice(base: Any, view: Any) -> Node:
    """The node of reading ``view`` out of ``base``."""
    return make_op_node(STRIDED_SELECT, (base,), (view,), (base._aval, view._aval), (True,))


def rebase_history(tensor: Any, node: Node, output_nr: int = 0) -> None:
    """An in-place operation has written ``tensor``; ``node`` is its history, ``output_nr`` the output written.

    The hooks that the tensor had belong to its old value, and stay with the old node; ``retain_grad`` moves on.
    """
    if tensor._base is None or tensor._view_version is None:
        _set_history(tensor, node, output_nr)
        return
    base = tensor._base
    copy_slices = CopySlices(
        base, gradient_edge(base), tensor._aval, node, Edge(tensor._grad_fn, tensor._output_nr), output_nr
    )
    _set_history(base, copy_slices, 0)
    tensor._requires_grad = True
    _regenerate(tensor)


def _set_history(tensor: Any, node: Node, output_nr: int) -> None:
    _move_retain_grad(tensor, node, output_nr)
    tensor._grad_fn = node
    tensor._output_nr = output_nr
    tensor._requires_grad = True
    tensor._accumulator = None
    tensor._hooks = None


def _move_retain_grad(tensor: Any, node: Node, output_nr: int) -> None:
    """What ``retain_grad`` keeps is the gradient of the tensor's newest value."""
    old = tensor._grad_fn
    if tensor._retains_grad and old is not None and old.hooks is not None:
        retain = old.hooks.retains_grad.pop(tensor._output_nr, None)
        if retain is not None:
            node.ensure_hooks().retains_grad[output_nr] = retain


def is_in_graph(x: Any) -> bool:
    """Whether ``x`` is a tensor that requires grad; of a view, the base may have joined the graph since it was made."""
    return isinstance(x, TensorBase) and (x._requires_grad or (x._base is not None and view_requires_grad(x)))


def view_requires_grad(tensor: Any) -> bool:
    """Whether a view requires grad: if its base does, it does.

    As in PyTorch this holds of a view made in no_grad mode too, which has no history: no gradient leaves it.
    """
    if tensor._requires_grad or tensor._view_version is None or not tensor._base._requires_grad:
        return bool(tensor._requires_grad)
    if tensor._creation_meta is None and tensor._view_version != tensor._vc[VERSION]:
        _regenerate_now(tensor)  # a write has brought the base into a graph, and the view with it
    return True


def current_grad_fn(tensor: Any) -> Node | None:
    """The ``grad_fn`` of a tensor as it is now; see Note [In-place on views].

    Raises:
        RuntimeError: the base was written, and how the view was made does not allow it a new history.
    """
    base = tensor._base
    known = tensor._view_version
    if base is None or known is None or known == tensor._vc[VERSION]:
        return tensor._grad_fn
    if tensor._grad_fn is None and not base._requires_grad:
        return None
    if tensor._creation_meta is not None:
        raise RuntimeError(view_refusal(tensor._creation_meta, tensor._grad_fn, tensor._output_nr, is_indirect=True))
    return _regenerate_now(tensor)


@eager_native
def creation_meta_of(source: TensorBase, is_several: bool) -> Any:
    """The ``_creation_meta`` of a view of ``source`` that is made now, one of ``is_several`` or alone."""
    if not state.grad_enabled:
        return CreationMeta.INFERENCE_MODE if is_inference_mode_enabled() else CreationMeta.NO_GRAD_MODE
    if is_several:
        return CreationMeta.MULTI_OUTPUT_NODE
    return source._creation_meta if source._base is not None else None


def check_writable(targets: tuple[Any, ...], inputs: tuple[Any, ...]) -> bool:
    """PyTorch's refusals of an in-place operation that the graph would have to know of (its ``check_inplace``).

    Returns:
        Whether it has to: grad mode is on, and some tensor requires grad.

    Raises:
        RuntimeError: a target is a leaf that requires grad, a view of one, or a view that must not be written.
    """
    if not state.grad_enabled:
        return False
    for x in (*inputs, *targets):
        if isinstance(x, TensorBase) and (x._requires_grad or (x._base is not None and view_requires_grad(x))):
            break
    else:
        return False
    for target in targets:
        base = target._base
        if base is not None and target._view_version is not None:
            if target._creation_meta is not None:
                # a Node that a trace has not made yet is made here: the text names it
                node = target.grad_fn if target._view_version == target._vc[VERSION] else target._grad_fn
                nr = target._output_nr
                raise RuntimeError(view_refusal(target._creation_meta, node, nr, is_indirect=False))
            if base.is_leaf and target.requires_grad:
                raise RuntimeError(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation."
                )
        if target.requires_grad and target.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    return True


def _regenerate_now(tensor: Any) -> Node:
    """``_regenerate`` at a look at the view: the Node is younger than all that a trace has recorded before it."""
    handler = state.handler
    if handler is None:
        return _regenerate(tensor)
    handler.go_outside()
    try:
        return _regenerate(tensor)
    finally:
        handler.come_inside()


def _regenerate(tensor: Any) -> Node:
    """Give a view a ``grad_fn`` that reads its base as it is now; hooks stay with the old one."""
    node = _read_slice(tensor._base, tensor)
    _move_retain_grad(tensor, node, 0)
    tensor._hooks = None
    tensor._requires_grad = True
    tensor._grad_fn = node
    tensor._output_nr = 0
    tensor._view_version = tensor._vc[VERSION]
    return node
