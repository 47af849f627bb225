"""What a custom function returned becomes part of the graph.

Owns: the cases of PyTorch's ``_wrap_outputs`` (torch/csrc/autograd/custom_function.cpp): fresh tensors, inputs
returned as they are, inputs written in place, views, outputs without a gradient; and the misuses it refuses.
Must not know: what the function computes, how a Node saves.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from jitgrad.grad_mode import no_grad
from jitgrad.numbering import next_sequence_nr
from jitgrad.ops.dispatch_hook import call
from jitgrad.runtime.engine.graph.copy_slices import rebase_history
from jitgrad.runtime.engine.graph.creation_meta import CreationMeta
from jitgrad.runtime.engine.graph.join import set_history
from jitgrad.runtime.engine.graph.py_node import PyNode
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.version_counter import count_write

__all__ = ["wrap_outputs"]

_LEAF_WRITTEN = "a leaf Variable that requires grad has been used in an in-place operation."
_VIEW_OF_LEAF_WRITTEN = "a view of a leaf Variable that requires grad is being used in an in-place operation."
_DIRTY_NOT_RETURNED = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
    "inplace must all be outputs of the Function."
)
_DIRTY_NO_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
    "passed to ctx.mark_dirty()."
)
_SAVED_AND_RETURNED = (
    "An input that has been returned as-is as output is being saved for backward. This is not supported if you "
    "override setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or setup "
    "ctx inside the forward function itself."
)
_DIRTY_VIEW = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more "
    "than one Tensor. This is not supported by the current autograd engine. You should either make sure the input is "
    "not a view (using .clone() for example) or make your Function only return one Tensor (potentially splitting it "
    "into two Functions: one doing the inplace that returns a single Tensor and a second one that does the other "
    "operations). You can ask on the forum https://discuss.pytorch.org/ if you need help to do this change."
)


def wrap_outputs(node: PyNode, inputs: Sequence[Any], raw: tuple[Any, ...], has_setup_context: bool) -> tuple[Any, ...]:
    """The outputs as the caller gets them; tensors among them are part of the graph if the node is.

    Args:
        node: its declarations (``mark_dirty`` and the like) say what is what.
        inputs: the arguments of the function.
        raw: what forward returned; anything but tensors passes through.
        has_setup_context: an input that is returned and saved is an error then, as in PyTorch.
    """
    if node.is_executable and len(raw) == 1 and _is_plain(node, raw[0], inputs):
        node.describe_outputs(raw)
        set_history(raw[0], node, 0)
        node.save(raw)
        return raw
    wrapping = _Wrapping(node, inputs, raw, has_setup_context)
    outputs = tuple([wrapping.wrap(nr, x) if isinstance(x, TensorBase) else x for nr, x in enumerate(raw)])
    wrapping.mark_views(outputs)
    if not all(any(dirty is x for x in raw) for dirty in wrapping.dirty):
        raise RuntimeError(_DIRTY_NOT_RETURNED)
    if node.is_executable:
        node.save(outputs)
    node.to_save = None
    return outputs


def _is_plain(node: PyNode, out: Any, inputs: Sequence[Any]) -> bool:
    """The usual case, worth being quick: a fresh floating tensor, and nothing declared but what to save."""
    return (
        isinstance(out, TensorBase)
        and out._base is None
        and out._aval.dtype.is_inexact
        and node.dirty_tensors is None
        and node.non_differentiable is None
        and node.saved_for_forward is None
        and not any(out is x for x in inputs)
    )


class _Wrapping:
    """One forward's end.

    Attributes:
        dirty: what was declared written.
    """

    def __init__(self, node: PyNode, inputs: Sequence[Any], raw: tuple[Any, ...], has_setup_context: bool) -> None:
        self.node = node
        self.num_outputs = len(raw)
        self.inputs = {id(x) for x in inputs if isinstance(x, TensorBase)}
        saved = node.to_save if has_setup_context and isinstance(node.to_save, tuple) else ()
        self.saved_in_setup = {id(x) for x in saved}
        self.no_gradient = {id(x) for x in _declared(node, "non_differentiable", _check_non_differentiable)}
        self.dirty = _declared(node, "dirty_tensors", _check_dirty)
        self.written = {id(x) for x in self.dirty}
        for x in self.dirty:
            _note_write(x)
        if node.is_executable:
            tensors = [(nr, x) for nr, x in enumerate(raw) if isinstance(x, TensorBase)]
            node.describe_outputs(raw, frozenset(nr for nr, x in tensors if not self._has_gradient(x)))

    def wrap(self, nr: int, out: Any) -> Any:
        """The tensor to hand out for output ``nr``."""
        if not self.node.is_executable or not self._has_gradient(out):
            return self._outside(out)
        if id(out) in self.written:
            self._rejoin(nr, out)
        else:
            if id(out) in self.inputs:
                out = self._identity(out)
            set_history(out, self.node, nr)
        return out

    def mark_views(self, outputs: Sequence[Any]) -> None:
        """A write to a view would replace the user's derivative by a view's: those writes are refused."""
        tensors = [x for x in outputs if isinstance(x, TensorBase)]
        views = [x for x in tensors if x._base is not None and not (id(x) in self.written and id(x) in self.inputs)]
        if views:
            several = self.node.is_executable and sum(self._has_gradient(x) for x in tensors) > 1
            for x in views:
                x._creation_meta = CreationMeta.MULTI_OUTPUT_NODE if several else CreationMeta.IN_CUSTOM_FUNCTION

    def _has_gradient(self, out: Any) -> bool:
        return id(out) not in self.no_gradient and out._aval.dtype.is_inexact

    def _outside(self, out: Any) -> Any:
        """An output without a gradient."""
        is_input = id(out) in self.inputs
        if not out.requires_grad:
            return self._identity(out) if is_input and id(out) not in self.written else out
        if is_input:
            self._check_not_saved(out)
            return call("detach", out)
        if out._base is None:
            out.detach_()
        return out

    def _identity(self, x: Any) -> Any:
        """A view of an input that was returned as it is: the input's own history must stay."""
        self._check_not_saved(x)
        with no_grad():
            return call("view", x, x._aval.shape)

    def _check_not_saved(self, x: Any) -> None:
        if id(x) in self.saved_in_setup:
            raise RuntimeError(_SAVED_AND_RETURNED)

    def _rejoin(self, nr: int, out: Any) -> None:
        """A tensor that forward has written."""
        if out.requires_grad and out.is_leaf:
            raise RuntimeError(_LEAF_WRITTEN)
        if out._base is not None and out._base.requires_grad and out._base.is_leaf:
            raise RuntimeError(_VIEW_OF_LEAF_WRITTEN)
        if id(out) not in self.inputs:
            warnings.warn(_DIRTY_NO_INPUT, stacklevel=5)
        if out._base is not None and self.num_outputs > 1:
            raise RuntimeError(_DIRTY_VIEW)
        out._grad = None
        recorder = state.handler
        if recorder is not None:  # the Nodes made here are younger than what a trace has recorded
            recorder.go_outside()
            self.node.sequence_nr = next_sequence_nr()
        rebase_history(out, self.node, nr)
        if recorder is not None:
            recorder.come_inside()
        for x in (out, out._base):
            if x is not None:
                x._graph = None  # its history is no trace's any more, and would keep the trace alive


def _note_write(x: Any) -> None:
    """Count a write that forward has declared. A trace goes on with the memory as it is now: views change with it."""
    count_write(x)
    recorder = state.handler
    if recorder is not None:
        recorder.note_write(x)


def _declared(node: PyNode, name: str, check: Any) -> tuple[Any, ...]:
    """A declaration of forward, checked and taken off the node."""
    tensors = getattr(node, name)
    if tensors is None:
        return ()
    setattr(node, name, None)
    if not isinstance(tensors, tuple):
        raise RuntimeError(
            f"autograd internal error: {name} attribute is expected to be a tuple but is {type(tensors).__name__}"
        )
    for position, x in enumerate(tensors):
        if not isinstance(x, TensorBase):
            check(position, x)
    return tensors


def _check_non_differentiable(position: int, x: Any) -> None:
    raise RuntimeError(f"mark_non_differentiable only accepts variable arguments, but got {type(x).__name__}")


def _check_dirty(position: int, x: Any) -> None:
    raise RuntimeError(
        f"mark_dirty can only accept variables, but argument {position} is of type {type(x).__name__}"
    )
