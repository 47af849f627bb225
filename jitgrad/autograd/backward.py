"""``backward`` and ``grad``: the two ways to ask for gradients.

Owns: the arguments, as PyTorch spells them.
Must not know: how a request is carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.ops.dispatch_hook import call
from jitgrad.runtime.engine.edge import Edge
from jitgrad.runtime.engine.request import BackwardRequest, execute_request
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase

__all__ = ["backward", "grad", "run_backward"]

Tensors = Any
"""A Tensor or a sequence of them."""


def run_backward(request: BackwardRequest) -> tuple[Any, ...]:
    """Carry out a request: recorded while a compiled step is being recorded, at once otherwise."""
    recorder = state.recorder
    if recorder is not None:
        return tuple(recorder.record_backward(request) or ())
    return execute_request(request)


def backward(
    tensors: Tensors,
    grad_tensors: Tensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Accumulate the gradients of ``tensors`` into the leaves they were computed from.

    Args:
        tensors: what to differentiate, any shapes.
        grad_tensors: one gradient per tensor, of its shape; None (for all, or for one) means ones, for one element.
        retain_graph: keep saved values for another call; None: as ``create_graph``.
        create_graph: make the gradients differentiable.
        inputs: accumulate only into these; non-leaves get their ``.grad`` too.

    Raises:
        RuntimeError: a missing gradient, a shape mismatch, a tensor outside every graph, a graph already freed, a
            saved value overwritten in place.
    """
    roots = _to_tuple(tensors)
    run_backward(
        BackwardRequest(roots, _grads_for(roots, grad_tensors), retain_graph, create_graph, inputs, True, True)
    )


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``; no ``.grad`` changes.

    Args:
        outputs: what to differentiate.
        inputs: with respect to what; leaves or not.
        grad_outputs: as ``grad_tensors`` of ``backward``.
        retain_graph: keep saved values for another call; None: as ``create_graph``.
        create_graph: make the result differentiable.
        only_inputs: must be True; kept because PyTorch keeps it.
        allow_unused: give None for an input that is not in the graph, instead of raising.
        is_grads_batched: ``grad_outputs`` have one more dimension in front; so have the results.
        materialize_grads: give zeros instead of None.

    Returns:
        One gradient per input, of its shape and dtype.

    Raises:
        RuntimeError: as ``backward``; and for an unused input.
        ValueError: ``materialize_grads`` with ``allow_unused=False``.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        raise ValueError("only_inputs=False is not supported; use backward() to accumulate into every leaf")
    roots, wanted = _to_tuple(outputs), _to_tuple(inputs)
    allow = materialize_grads if allow_unused is None else allow_unused
    seeds = _grads_for(roots, grad_outputs)

    def run(seeds: tuple[Any, ...], keep: bool | None) -> tuple[Any, ...]:
        return run_backward(BackwardRequest(roots, seeds, keep, create_graph, wanted, allow, False))

    grads = _run_batched(run, seeds, retain_graph) if is_grads_batched else run(seeds, retain_graph)
    if materialize_grads:
        grads = tuple(call("zeros_like", x) if g is None else g for g, x in zip(grads, wanted, strict=True))
    return grads


def _run_batched(run: Any, seeds: tuple[Any, ...], retain_graph: bool | None) -> tuple[Any, ...]:
    """One call per entry of the batch, stacked."""
    given = [s for s in seeds if s is not None]
    if not given:
        raise RuntimeError("is_grads_batched=True needs grad_outputs")
    size = given[0].shape[0]
    rows = [
        run(tuple(s if s is None else s[i] for s in seeds), retain_graph if i == size - 1 else True)
        for i in range(size)
    ]
    return tuple(None if column[0] is None else call("stack", list(column), 0) for column in zip(*rows, strict=True))


def _to_tuple(tensors: Tensors) -> tuple[Any, ...]:
    return (tensors,) if isinstance(tensors, (TensorBase, Edge)) else tuple(tensors)


def _grads_for(roots: Sequence[Any], grads: Tensors | None) -> tuple[Any, ...]:
    return (None,) * len(roots) if grads is None else _to_tuple(grads)
