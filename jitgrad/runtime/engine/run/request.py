"""From ``backward()`` and ``grad()`` to the engine: the request, its roots and seeds.

Owns: ``BackwardRequest``, ``execute_request``, the checks of gradients that are given, and what is seeded by itself.
Must not know: how the graph is run, the recorder (which may keep a request and execute it later).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import filled
from jitgrad.runtime.engine.graph.accumulate_grad import existing_accumulator
from jitgrad.runtime.engine.graph.hooks import retain_grad
from jitgrad.runtime.engine.graph.node import Edge, Identity
from jitgrad.runtime.engine.graph.op_node import edge_of
from jitgrad.runtime.engine.run.engine import engine
from jitgrad.state import modes_in_use, state
from jitgrad.structs import struct
from jitgrad.tensor_base import TensorBase, new_result

__all__ = [
    "ONES", "BackwardRequest", "check_used", "execute_request", "fill_grads", "first_gradient", "input_tuple",
    "make_grads", "output_edge",
]  # fmt: skip


class _Ones:
    """The gradient of a root that has one element and was given none: ones, made when the graph runs."""

    def __repr__(self) -> str:
        return "ONES"


ONES = _Ones()


@struct
class BackwardRequest:
    """One call of ``backward()`` or ``grad()``, its arguments checked.

    Attributes:
        roots: the tensors to differentiate.
        grads: their gradients; None = ones, for one element.
        keep_graph: keep saved values, for another call.
        create_graph: make the result differentiable.
        inputs: accumulate into, or return the gradients of, these; none = every leaf.
        allow_unused: an input that the graph does not reach gets None, instead of an error.
        accumulate: into ``.grad``; else return the gradients of ``inputs``.
    """

    roots: tuple[Any, ...]
    grads: tuple[Any, ...]
    keep_graph: bool
    create_graph: bool
    inputs: tuple[Any, ...]
    allow_unused: bool
    accumulate: bool


def input_tuple(inputs: Any, name: str) -> tuple[Any, ...]:
    """The argument ``inputs`` of ``backward`` or ``grad`` as a tuple; none for None.

    Raises:
        RuntimeError: an empty sequence.
    """
    if inputs is None:
        return ()
    found = (inputs,) if isinstance(inputs, (TensorBase, Edge)) else tuple(inputs)
    if not found:
        raise RuntimeError(f"`inputs` argument to `{name}()` cannot be empty.")
    return found


def execute_request(request: BackwardRequest) -> tuple[Any, ...]:
    """Do what a request says, now.

    Returns:
        The gradients of ``inputs`` (None where nothing arrived); empty when accumulating.

    Raises:
        RuntimeError: as PyTorch's ``backward`` and ``grad``.
    """
    seeds = fill_grads(request.roots, request.grads)
    roots = _root_edges(request.roots)
    outputs = [output_edge(x, request.accumulate) for x in request.inputs]
    captured = engine.execute(roots, seeds, request.keep_graph, request.create_graph, request.accumulate, outputs)
    if not request.accumulate and not request.allow_unused:
        check_used(captured)
    return tuple(captured)


def check_used(grads: Sequence[Any]) -> None:
    """RuntimeError if an input of ``grad()`` got nothing."""
    for i, g in enumerate(grads):
        if g is None:
            raise RuntimeError(
                f"The differentiated Tensor at index {i} appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )


def make_grads(roots: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
    """One gradient per root: the given one, checked, or ``ONES`` for a root of one element.

    A root that does not require grad may be left without: it is refused later, with another message.

    Raises:
        RuntimeError: counts or shapes differ, or a root that needs a gradient got none.
        TypeError: a gradient is no tensor.
    """
    if len(roots) != len(grads):
        raise RuntimeError(f"got {len(roots)} tensors and {len(grads)} gradients")
    made = []
    for index, root in enumerate(roots):
        grad = grads[index]
        if isinstance(root, Edge):
            if grad is None:
                raise RuntimeError("a gradient edge as a root needs its gradient to be given")
        elif not isinstance(root, TensorBase):
            raise TypeError(f"a root must be a Tensor or a gradient edge, but number {index} is {type(root).__name__}")
        elif grad is not None:
            _check_given(index, root, grad)
        elif root._requires_grad:
            aval = root._aval
            if aval.numel != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if not aval.dtype.is_floating_point:
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {aval.dtype}"
                )
            grad = ONES
        made.append(grad)
    return tuple(made)


def _check_given(index: int, root: Any, grad: Any) -> None:
    if not isinstance(grad, TensorBase):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
    if grad._aval.shape != root._aval.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of torch.Size({list(grad._aval.shape)}) and "
            f"output[{index}] has a shape of torch.Size({list(root._aval.shape)})."
        )
    if grad._aval.dtype.is_complex is not root._aval.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{index}] has a dtype of {grad._aval.dtype} and output[{index}] has a dtype of "
            f"{root._aval.dtype}."
        )


def fill_grads(roots: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients, with ones of one element for None."""
    return tuple([_ones(root._aval) if grad is None else grad for root, grad in zip(roots, grads, strict=True)])


def _ones(aval: Aval) -> Any:
    if state.handler is not None or modes_in_use or aval.device is not CPU:
        return filled(1.0, aval)
    # the same, by hand: nearly every eager backward begins with it
    ones = np.empty(aval.shape, aval.dtype.np)
    ones.fill(1)
    return new_result(aval if aval.is_canonical and not aval.offset else make_aval(aval.shape, aval.dtype), ones)


def first_gradient(root: Any) -> Any:
    """The gradient of a root that was given none; None where ``make_grads`` refuses that."""
    aval = root._aval
    return _ones(aval) if aval.numel == 1 and aval.dtype.is_floating_point else None


def _root_edges(roots: Sequence[Any]) -> list[Edge]:
    edges = []
    for index, root in enumerate(roots):
        edge = root if isinstance(root, Edge) else Edge(*edge_of(root))
        if edge.node is None:
            raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
        edges.append(edge)
    return edges


def output_edge(tensor: Any, accumulate: bool) -> Edge:
    """Where the gradient of an input passes.

    A leaf without an accumulator is in no graph: nothing will arrive at the ``Identity`` that stands for it.
    """
    if isinstance(tensor, Edge):
        return tensor
    if not tensor.requires_grad:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    node = tensor.grad_fn
    if node is not None:
        if accumulate:
            retain_grad(tensor)
        return Edge(node, tensor._output_nr)
    accumulator = existing_accumulator(tensor)
    return Edge(accumulator if accumulator is not None else Identity((), (tensor._aval,)), 0)
