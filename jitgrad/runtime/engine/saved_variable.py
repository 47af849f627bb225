"""``SavedVariable``: a tensor that waits for its backward.

Owns: the version check, and saving an output without a reference cycle.
Must not know: operations, the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitgrad.tensor_base import new_tensor

if TYPE_CHECKING:
    from jitgrad.runtime.engine.node import Node

__all__ = ["RELEASED_MESSAGE", "SavedVariable"]

RELEASED_MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)


class SavedVariable:
    """A tensor saved by a node, and the version it had then.

    An input is kept as it is: it holds the graph below the node, never the node. An output would hold its own node,
    so it is kept as a detached alias and gets its history back when it is unpacked.

    Attributes:
        tensor: the tensor, or the alias.
        version: of the storage, when saved.
        output_nr: which output of the saving node; -1 for an input.
    """

    __slots__ = ("output_nr", "tensor", "version")

    def __init__(self, tensor: Any, output_nr: int = -1) -> None:
        self.version = tensor._vc[0]
        self.output_nr = output_nr
        self.tensor = tensor if output_nr < 0 else _detached(tensor)

    def unpack(self, saved_by: Node, with_history: bool) -> Any:
        """The tensor, after checking that nothing has written over it.

        Args:
            saved_by: the node that saved it.
            with_history: the caller may differentiate the result.

        Raises:
            RuntimeError: an in-place operation has changed the value.
        """
        tensor = self.tensor
        if tensor._vc[0] != self.version:
            raise RuntimeError(self._modified_message(saved_by))
        if with_history and self.output_nr >= 0:
            tensor = _detached(tensor)
            tensor._requires_grad = True
            tensor._grad_fn, tensor._output_nr = self.history(saved_by)
        return tensor

    def history(self, saved_by: Node) -> tuple[Node, int]:
        """Where the gradient of a saved output flows."""
        return saved_by, self.output_nr

    def _modified_message(self, saved_by: Node) -> str:
        tensor = self.tensor
        maker = saved_by if self.output_nr >= 0 else _operation_of(tensor)
        output_nr = self.output_nr if self.output_nr >= 0 else tensor._output_nr
        aval = tensor._aval
        origin = f", which is output {output_nr} of {maker.name()}," if maker is not None else ""
        return (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[jitgrad.{_TYPE_NAMES.get(aval.dtype.name, aval.dtype.name)} {list(aval.shape)}]{origin} "
            f"is at version {tensor._vc[0]}; expected version {self.version} instead. Hint: enable anomaly detection "
            "to find the operation that failed to compute its gradient, with "
            "jitgrad.autograd.set_detect_anomaly(True)."
        )


def _operation_of(tensor: Any) -> Node | None:
    """What made a tensor; nothing made a leaf, though a handle on it may carry its accumulator."""
    node: Node | None = tensor._grad_fn
    return node if node is not None and node.next_edges else None


def _detached(tensor: Any) -> Any:
    """``tensor.detach()`` without the dispatcher: this is the eager hot path, and no event of a trace."""
    alias = new_tensor(tensor._aval, tensor._storage, tensor._array)
    alias._vc = tensor._vc
    if tensor._tid:
        alias._tid, alias._vid = tensor._tid, tensor._vid
    return alias


_TYPE_NAMES = {
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "int32": "IntTensor",
    "int64": "LongTensor",
    "bool": "BoolTensor",
}
