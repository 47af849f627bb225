"""``backward`` and ``grad``: the two ways to ask for gradients.

Owns: the arguments, as PyTorch spells them.
Must not know: how a request is carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.cpython.primitives import REMEMBERED, has_front
from jitgrad.lazy import LazyModule
from jitgrad.ops.dispatch_hook import call
from jitgrad.overrides import handle_torch_function, has_torch_function, override_classes
from jitgrad.runtime.engine.graph.node import Edge
from jitgrad.runtime.engine.run.imperative import execution_engine
from jitgrad.runtime.engine.run.request import ONES, fill_grads, input_tuple, make_grads
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, tensor_class
from jitgrad.user_line import warn_of_cycle, warn_user

__all__ = ["backward", "grad"]

_transforms = LazyModule("jitgrad.transforms.vmap")
_LISTS = frozenset({list, tuple})

Tensors = Any
"""A Tensor or a sequence of them."""


def backward(
    tensors: Tensors,
    grad_tensors: Tensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensors | None = None,
    inputs: Tensors | None = None,
) -> None:
    """Accumulate the gradients of ``tensors`` into the leaves they were computed from.

    Args:
        tensors: what to differentiate, any shapes.
        grad_tensors: one gradient per tensor, of its shape; None (for all, or for one) means ones, for one element.
        retain_graph: keep saved values for another call; None: as ``create_graph``.
        create_graph: make the gradients differentiable.
        grad_variables: the old name of ``grad_tensors``, deprecated.
        inputs: accumulate only into these; non-leaves get their ``.grad`` too.

    Raises:
        RuntimeError: a missing gradient, a shape mismatch, a tensor outside every graph, a graph already freed, a
            saved value overwritten in place; gradients under both names.
        TypeError: a gradient is no tensor.
    """
    roots = _to_tuple(tensors)
    if override_classes and has_torch_function(roots):
        options = {"retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
        given = {"grad_tensors": grad_tensors, "grad_variables": grad_variables}
        handle_torch_function(backward, roots, tensors, **given, **options)
        return
    if grad_variables is not None:
        warn_user("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if create_graph:
        warn_of_cycle()
    wanted = input_tuple(inputs, "backward")
    keep_graph = create_graph if retain_graph is None else retain_graph
    seeds = make_grads(roots, _grads_for(roots, grad_tensors))
    execution_engine.run_backward(
        roots, seeds, keep_graph, create_graph, wanted, allow_unreachable=True, accumulate_grad=True
    )


@has_front(REMEMBERED)
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
        only_inputs: ignored, with a warning if False; kept because PyTorch keeps it.
        allow_unused: give None for an input that is not in the graph, instead of raising.
        is_grads_batched: ``grad_outputs`` have one more dimension in front; so have the results.
        materialize_grads: give zeros instead of None.

    Returns:
        One gradient per input, of its shape and dtype.

    Raises:
        RuntimeError: as ``backward``; and for an unused input.
        ValueError: ``materialize_grads`` with ``allow_unused=False``.
    """
    if state.handler is None and not (allow_unused or is_grads_batched or materialize_grads) and only_inputs:
        found = _plain_grad(outputs, inputs, grad_outputs, retain_graph, create_graph)
        if found is not None:
            return found
    if override_classes and has_torch_function(overridable := (*_to_tuple(outputs), *_to_tuple(inputs))):
        options = {"retain_graph": retain_graph, "create_graph": create_graph, "only_inputs": only_inputs}
        more = {"allow_unused": allow_unused, "is_grads_batched": is_grads_batched}
        more["materialize_grads"] = materialize_grads
        caught: tuple[Any, ...] = handle_torch_function(
            grad, overridable, outputs, inputs, grad_outputs=grad_outputs, **options, **more
        )
        return caught
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        warn_user(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use jitgrad.autograd.backward.",
            FutureWarning,
        )
    roots, wanted = _to_tuple(outputs), input_tuple(inputs, "grad")
    allow = materialize_grads if allow_unused is None else allow_unused
    keep_graph = create_graph if retain_graph is None else retain_graph
    given = _grads_for(roots, grad_outputs)

    def run(seeds: tuple[Any, ...]) -> tuple[Any, ...]:
        return execution_engine.run_backward(roots, seeds, keep_graph, create_graph, wanted, allow) or ()

    grads = _run_batched(run, roots, given) if is_grads_batched else run(make_grads(roots, given))
    if materialize_grads:
        if any(g is None and isinstance(x, Edge) for g, x in zip(grads, wanted, strict=True)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        grads = tuple(
            call("zeros_like", x).requires_grad_(create_graph) if g is None else g
            for g, x in zip(grads, wanted, strict=True)
        )
    return grads


def _plain_grad(
    outputs: Any, inputs: Any, grad_outputs: Any, retain_graph: bool | None, create_graph: bool
) -> tuple[Any, ...] | None:
    """``grad`` of one plain tensor, with few looks at its arguments; None: something is not usual, or may be wrong."""
    plain = tensor_class()
    wanted = (inputs,) if type(inputs) is plain else tuple(inputs) if type(inputs) in _LISTS else ()
    if type(outputs) is not plain or not wanted or not outputs._requires_grad:
        return None
    seed = grad_outputs[0] if type(grad_outputs) in _LISTS and len(grad_outputs) == 1 else grad_outputs
    aval = outputs._aval
    if seed is None:
        if aval.numel != 1 or not aval.dtype.is_floating_point:
            return None
        seed = ONES
    elif type(seed) is not plain or seed._aval.shape != aval.shape or aval.dtype.is_complex:
        return None
    for x in wanted:
        if type(x) is not plain:
            return None
    keep_graph = create_graph if retain_graph is None else retain_graph
    return execution_engine.run_backward((outputs,), (seed,), keep_graph, create_graph, wanted)


def _run_batched(run: Any, roots: tuple[Any, ...], seeds: tuple[Any, ...]) -> Any:
    """The seeds are a batch, so every gradient is one: the graph is run once, over whole batches."""
    for i, (root, seed) in enumerate(zip(roots, seeds, strict=True)):
        if seed is not None and not isinstance(root, Edge) and seed.shape[1:] != root.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of torch.Size({list(seed.shape)}) "
                f"and output[{i}] has a shape of torch.Size({list(root.shape)}). If you only want some tensors in "
                "`grad_output` to be considered batched, consider using vmap."
            )
    filled = [_implicit(r) if s is None else s for r, s in zip(roots, seeds, strict=True)]
    is_reached: list[bool] = []

    def vjp(*one: Any) -> list[Any]:
        grads = run(make_grads(roots, one))
        is_reached[:] = [g is not None for g in grads]
        return [g for g in grads if g is not None]

    found = iter(_transforms.vmap(vjp)(*filled))
    return tuple(next(found) if reached else None for reached in is_reached)


def _implicit(root: Any) -> Any:
    """What a root without a gradient begins with."""
    (grad,) = make_grads((root,), (None,))
    return fill_grads((root,), (None,))[0] if grad is ONES else grad


def _to_tuple(tensors: Tensors) -> tuple[Any, ...]:
    return (tensors,) if isinstance(tensors, (TensorBase, Edge)) else tuple(tensors)


def _grads_for(roots: Sequence[Any], grads: Tensors | None) -> tuple[Any, ...]:
    return (None,) * len(roots) if grads is None else _to_tuple(grads)
