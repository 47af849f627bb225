"""``PyNode``: a graph node whose forward and backward are the user's Python.

Owns: what such a node saves, how its backward is called, and what that may return.
Must not know: ``autograd.Function`` (the subclass says what to call), how outputs join the graph (py_outputs.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.dtypes import float32
from jitgrad.ops.aval import Aval, devices_in_use, make_aval
from jitgrad.ops.dispatch_hook import filled
from jitgrad.runtime.engine.graph.accumulate_grad import gradient_edge
from jitgrad.runtime.engine.graph.anomaly import store_stack
from jitgrad.runtime.engine.graph.copy_slices import SavedSlice
from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.graph.node import Node, name_of, topological_nr_above
from jitgrad.runtime.engine.graph.node_hooks import NodeHooks
from jitgrad.runtime.engine.graph.saved_variable import RELEASED_MESSAGE, SavedTensor, SavedVariable, pack
from jitgrad.state import anomaly, modes_in_use, state
from jitgrad.tensor_base import TensorBase

__all__ = ["Error", "PyNode", "without_trace", "zeros"]

_NO_TENSOR = make_aval((0,), float32)
"""Stands in ``input_metadata`` for an output that is no tensor: no gradient ever arrives there."""

_ACCESSED_TWICE = (
    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function. "
    "Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
)


class PyNode(Node):
    """One application of a custom function; to its methods, the ``ctx``.

    Attributes:
        needs_input_grad: per argument, whether it requires grad.
        is_executable: the node is part of a graph; to users, ``requires_grad``.
        materialize_grads: undefined gradients are given as zeros.
        to_save, saved_for_forward, dirty_tensors, non_differentiable: what forward declared; gone when it is over.
    """

    # the subclasses have a dictionary, for the user's own attributes
    __slots__ = (
        "_is_tensor_input", "_is_used_up", "_no_gradient", "_out_avals", "_saved", "is_executable", "needs_input_grad",
    )  # fmt: skip

    clear_saved_tensors_on_access = False
    boxed_grads_call = False
    materialize_grads = True
    _materialize_non_diff_grads = True
    to_save: Any = None
    saved_for_forward: Any = None
    dirty_tensors: Any = None
    non_differentiable: Any = None

    def __init__(self, args: Sequence[Any] = ()) -> None:
        super().__init__()
        are_tensors = [isinstance(x, TensorBase) for x in args]
        needs = [is_tensor and x.requires_grad for x, is_tensor in zip(args, are_tensors, strict=True)]
        self._is_tensor_input = tuple(are_tensors)
        self.needs_input_grad = tuple(needs)
        self.is_executable = state.grad_enabled and True in needs
        self._is_used_up = ""
        self._saved: tuple[SavedVariable | None, ...] = ()
        self._out_avals: tuple[Aval | None, ...] = ()
        if self.is_executable:
            self.next_edges = tuple([gradient_edge(x) for x in args if isinstance(x, TensorBase)])
            self.topological_nr = topological_nr_above(self.next_edges)
            if anomaly.enabled:
                store_stack(self, current.node)

    # what the user sees as ctx
    @property
    def requires_grad(self) -> bool:
        return self.is_executable

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` was given, with its history, after the version checks.

        Raises:
            RuntimeError: the graph has been freed, or a value was overwritten.
        """
        if self.saved_for_forward is not None:
            return tuple(self.saved_for_forward)
        if self._is_used_up:
            raise RuntimeError(self._is_used_up)
        values = tuple([None if x is None else x.unpack(self, True) for x in self._saved])
        if self.clear_saved_tensors_on_access:
            self._saved, self._is_used_up = (), _ACCESSED_TWICE
        return values

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """Deprecated name of ``saved_tensors``."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The saved values as they are kept, for hooks of their own."""
        if self._is_used_up:
            raise RuntimeError(self._is_used_up)
        return tuple([SavedTensor(self, "_saved", i) for i in range(len(self._saved))])

    def maybe_clear_saved_tensors(self) -> None:
        """Drop what was saved, for a ``backward`` that has read it: unless the graph is kept for another backward."""
        task = current.graph_task
        if task is not None and not task.keep_graph:
            self.release_variables()

    def release_variables(self) -> None:
        self._saved = ()
        self._is_used_up = RELEASED_MESSAGE

    # what the forward leaves behind
    def describe_outputs(self, outputs: Sequence[Any], no_gradient: frozenset[int] = frozenset()) -> None:
        """Remember what each output was, for gradients that do not arrive; ``no_gradient``: which never have one."""
        self._no_gradient = no_gradient
        if self.hooks is not None and not isinstance(self.hooks, NodeHooks):
            raise AttributeError("'hooks' of a ctx are the hooks of its Node; keep your own under another name")
        self._out_avals = tuple([x._aval if isinstance(x, TensorBase) else None for x in outputs])
        self.input_metadata = tuple([_NO_TENSOR if x is None else x for x in self._out_avals])
        if devices_in_use:
            self.note_stream()

    def save(self, outputs: Sequence[Any]) -> None:
        """Save what ``save_for_backward`` was given; ``outputs`` have their history by now."""
        tensors = self.to_save
        if tensors is None:
            return
        self.to_save = None
        if not isinstance(tensors, tuple):
            raise RuntimeError(
                "autograd internal error: to_save attribute is expected to be a tuple but is "
                f"{type(tensors).__name__}"
            )
        numbers = {id(x): nr for nr, x in enumerate(outputs)}
        self._saved = tuple([self._save_one(i, x, numbers.get(id(x), -1)) for i, x in enumerate(tensors)])
        if modes_in_use and state.saved_tensor_hooks:
            hooks = state.saved_tensor_hooks[-1]
            self._saved = tuple([None if x is None else pack(x, self, hooks) for x in self._saved])

    def _save_one(self, position: int, tensor: Any, output_nr: int) -> SavedVariable | None:
        if tensor is None:
            return None
        if not isinstance(tensor, TensorBase):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {position} is of type "
                f"{type(tensor).__name__}"
            )
        if output_nr < 0 or not tensor.requires_grad:
            return SavedVariable(without_trace(tensor))
        saved = SavedVariable(tensor, output_nr)
        is_slice = tensor._grad_fn is not self  # written into a view: the base has the node, wrapped
        return SavedSlice(saved, tensor._base._grad_fn) if is_slice else saved

    # backward
    def user_backward(self) -> Callable[..., Any]:
        """The user's backward: called with this node and the gradients."""
        raise NotImplementedError

    def apply(self, *args: Any) -> Any:
        """Called by the engine with its list of gradients; by a user with the gradients: the bare backward, then."""
        if len(args) == 1 and isinstance(args[0], list):
            return self._run_backward(args[0])
        return self.user_backward()(self, *((list(args),) if self.boxed_grads_call else args))

    def _run_backward(self, grads: list[Any]) -> tuple[Any, ...]:
        given = [
            zeros(aval) if g is None and aval is not None and self._materializes(nr) else g
            for nr, (g, aval) in enumerate(zip(grads, self._out_avals, strict=True))
        ]
        backward = self.user_backward()
        result = backward(self, given) if self.boxed_grads_call else backward(self, *given)
        return self._checked(result if isinstance(result, tuple) else (result,))

    def _materializes(self, nr: int) -> bool:
        """Whether ``backward`` is given zeros for output ``nr`` if no gradient arrives."""
        return self.materialize_grads and (self._materialize_non_diff_grads or nr not in self._no_gradient)

    def _checked(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the tensor arguments; RuntimeError for a wrong number, or for what is no gradient."""
        expected = len(self._is_tensor_input)
        if len(grads) > expected and all(g is None for g in grads[expected:]):
            grads = grads[:expected]
        if len(grads) != expected:
            raise RuntimeError(
                f"function {name_of(self)} returned an incorrect number of gradients (expected {expected}, got "
                f"{len(grads)})"
            )
        results = []
        for position, (grad, is_tensor) in enumerate(zip(grads, self._is_tensor_input, strict=True)):
            if not is_tensor and grad is not None:
                raise RuntimeError(
                    f"function {name_of(self)} returned a gradient different than None at position {position + 1}, "
                    "but the corresponding forward input was not a Variable"
                )
            if grad is not None and not isinstance(grad, TensorBase):
                raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
            if is_tensor:
                results.append(grad)
        return tuple(results)


class Error(Node):
    """Raises when a gradient reaches it.

    Attributes:
        message: of the RuntimeError.
    """

    __slots__ = ("message",)

    def __init__(self, message: str, inputs: Sequence[Any]) -> None:
        super().__init__(tuple(gradient_edge(x) for x in inputs), tuple(x._aval for x in inputs))
        self.message = message

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        raise RuntimeError(self.message)


def zeros(aval: Aval) -> Any:
    """A gradient of zeros."""
    return filled(0, aval)


def without_trace(tensor: Any) -> Any:
    """What is saved of an input: of a pending value with a graph, an alias that knows its Node and not its trace.

    The trace's graph may lead to the node that saves, and the two would keep each other alive.
    """
    recorder = state.handler
    if recorder is None or not tensor._requires_grad or tensor.is_leaf:
        return tensor
    return recorder.twin(tensor)
