"""``ImperativeEngine``: the engine as Python calls it; every ``backward()`` and ``grad()`` comes down to it.

Owns: ``run_backward``, its argument checks with PyTorch's messages, and whether a request is recorded or executed.
Must not know: how a request is carried out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.lazy import LazyModule
from jitgrad.runtime.engine.graph.node import Edge
from jitgrad.runtime.engine.run.engine import engine
from jitgrad.runtime.engine.run.request import ONES, BackwardRequest, execute_request
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase

__all__ = ["ImperativeEngine", "execution_engine"]

_PLAIN = LazyModule("jitgrad.runtime.engine.run.plain_graph")


class ImperativeEngine:
    """The engine as ``torch.autograd.Variable._execution_engine``."""

    def run_backward(
        self,
        tensors: tuple[Any, ...],
        grad_tensors: tuple[Any, ...],
        keep_graph: bool,
        create_graph: bool,
        inputs: tuple[Any, ...] = (),
        allow_unreachable: bool = False,
        accumulate_grad: bool = False,
    ) -> tuple[Any, ...] | None:
        """Run the graph of ``tensors``; in a compiled step, record it.

        Args:
            tensors: what to differentiate; tensors or gradient edges.
            grad_tensors: one gradient per tensor, of its shape; unlike ``backward()``, none is made up for None.
                (``backward()`` passes ``request.ONES`` where it was given none.)
            keep_graph: keep saved values, for another call.
            create_graph: make the gradients differentiable.
            inputs: run only what leads to these; none: everything.
            allow_unreachable: give None for an input that the graph does not reach, instead of raising.
            accumulate_grad: into ``.grad``, instead of returning gradients.

        Returns:
            The gradients of ``inputs``, in order; None when accumulating.

        Raises:
            RuntimeError: wrong arguments, and as ``backward()``.
        """
        grads = _checked_grads(tensors, grad_tensors)
        _check_inputs(inputs, accumulate_grad)
        request = BackwardRequest(
            tensors, grads, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad
        )
        recorder = state.handler
        if recorder is not None:
            results = tuple(recorder.record_backward(request) or ())
        elif (found := _PLAIN.run_request(request)) is not None:
            results = found
        else:
            results = execute_request(request)
        return None if accumulate_grad else results

    def queue_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback()`` when the current backward is done; RuntimeError outside one."""
        engine.queue_callback(callback)

    def is_checkpoint_valid(self) -> bool:
        """Whether a nested backward may accumulate: not inside ``grad()`` or ``backward(inputs=)``."""
        return engine.is_checkpoint_valid()


def _checked_grads(tensors: Any, grads: Any) -> tuple[Any, ...]:
    """The gradients as a request has them: None for ``ONES``."""
    if not isinstance(tensors, tuple):
        raise RuntimeError(f"tensors argument is expected to be a tuple, but got {type(tensors).__name__}")
    if not isinstance(grads, tuple):
        raise RuntimeError(f"grad_tensors argument is expected to be a tuple, but got {type(grads).__name__}")
    if len(tensors) != len(grads):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    checked: list[Any] = []
    for index, tensor in enumerate(tensors):
        grad = grads[index]
        if grad is ONES:  # for a tensor that ``make_grads`` has looked at
            checked.append(None)
            continue
        if isinstance(tensor, TensorBase):
            if not tensor.requires_grad:
                raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
        elif not isinstance(tensor, Edge):
            raise RuntimeError(f"element {index} of tensors tuple is neither a Tensor nor a GradientEdge")
        if grad is None:
            raise RuntimeError(
                f"element {index} of gradients tuple is None, but the corresponding Tensor requires grad"
            )
        if not isinstance(grad, TensorBase):
            raise RuntimeError(f"element {index} of gradients tuple is not a Tensor or None")
        checked.append(grad)
    return tuple(checked)


def _check_inputs(inputs: Any, accumulate_grad: bool) -> None:
    if not isinstance(inputs, tuple):
        raise RuntimeError("inputs to run_backward must be a tuple")
    for tensor in inputs:
        if not isinstance(tensor, (TensorBase, Edge)):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__}")
    if not (accumulate_grad or inputs):
        raise RuntimeError("grad requires non-empty inputs.")


execution_engine = ImperativeEngine()
