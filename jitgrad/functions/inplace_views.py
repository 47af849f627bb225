"""Views in place: ``t_``, ``transpose_``, ``squeeze_``, ``unsqueeze_`` and their other names.

Owns: what of a tensor changes when it takes its own view's place: layout, history, version.
Must not know: how views are made.

The memory is not touched, but to a Node that saved the tensor this is a write: the version counts up. What the tensor
was a view of stays as it was; its own history goes on with the view's Node, as PyTorch's does, and hooks stay with the
old value. A trace ends its segment: memory is windowed afresh.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.dispatch import check_writes
from jitgrad.functions import views
from jitgrad.ops.table import Op
from jitgrad.runtime.engine.graph.copy_slices import check_writable
from jitgrad.runtime.engine.graph.op_node import OpNode
from jitgrad.runtime.engine.graph.overwrites import caught, note_write
from jitgrad.state import state, write_checks
from jitgrad.structs import replaced
from jitgrad.version_counter import inference_tensors

__all__ = ["INPLACE_VIEWS", "take_own_view"]


def take_own_view(self: Any, make: Callable[[Any], Any], name: str) -> None:
    """Let ``self`` be ``make(self)``, a view of it, from here on; ``name`` is for messages."""
    recorder = state.handler
    if recorder is not None:
        recorder.view_inplace(self, make, name, _take)
    else:
        _take(self, make, name)


def _take(self: Any, make: Callable[[Any], Any], name: str) -> None:
    view = make(self)
    version = self._vc
    version[0] += 1
    if caught.left:
        note_write(version, name)
    self._aval, self._storage, self._array = view._aval, self._storage, None
    if view._requires_grad and view._grad_fn is not None:
        node = view._grad_fn
        if isinstance(node, OpNode):
            node.op = _with_own_name(node.op)
        self._grad_fn, self._output_nr, self._requires_grad = node, 0, True
        self._graph = self._hooks = None
        if self._base is not None and self._view_version is not None:
            self._view_version = version[0]


_NODE_NAMES = {
    "t": "TBackward1",
    "transpose": "TransposeBackward1",
    "squeeze": "SqueezeBackward3",
    "squeeze_dim": "SqueezeBackward4",
    "squeeze_dims": "SqueezeBackward5",
    "unsqueeze": "UnsqueezeBackward1",
}


@functools.cache
def _with_own_name(op: Op) -> Op:
    """The operation under the name that PyTorch gives the node of its in-place form."""
    return replaced(op, node_name=_NODE_NAMES.get(op.name, op.node_name))


def _in_place(self: Any, make: Callable[[Any], Any], name: str) -> Any:
    """Check, and do it.

    Raises:
        RuntimeError: a leaf that requires grad, a view that must not be written, an inference tensor.
    """
    if self.is_sparse:
        raise NotImplementedError(f"{name} is not supported for sparse tensors")
    if write_checks or inference_tensors:
        check_writes((self,))
    check_writable((self,), (self,))
    take_own_view(self, make, name)
    return self


def transpose_(self: Any, dim0: int, dim1: int) -> Any:
    """Swap two dimensions of the tensor itself."""
    return _in_place(self, lambda x: views.transpose(x, dim0, dim1), "transpose_")


def t_(self: Any) -> Any:
    """Transpose the matrix itself. RuntimeError above two dimensions."""
    if self.ndim > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return _in_place(self, views.t, "t_")


def squeeze_(self: Any, dim: Any = None) -> Any:
    """Drop dimensions of extent 1 (all, or those of ``dim`` that have it) of the tensor itself."""
    return _in_place(self, lambda x: views.squeeze(x, dim), "squeeze_")


def unsqueeze_(self: Any, dim: int) -> Any:
    """Insert a dimension of extent 1 into the tensor itself."""
    return _in_place(self, lambda x: views.unsqueeze(x, dim), "unsqueeze_")


INPLACE_VIEWS = {function.__name__: function for function in (transpose_, t_, squeeze_, unsqueeze_)}
INPLACE_VIEWS["swapaxes_"] = INPLACE_VIEWS["swapdims_"] = transpose_
