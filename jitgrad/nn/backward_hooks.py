"""Hooks around a module's part of the backward: how gradients reach them.

Owns: ``BackwardHook``, the hooks of one call of a module; ``watch_last_node`` for the deprecated kind.
Must not know: modules, how backward is run.

The gradients that backward hooks see flow through two nodes that do nothing, one before the module's forward and one
after it: their own hooks call the module's. (PyTorch's ``BackwardHook``, torch/utils/hooks.py.)
"""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.autograd.function import Function
from jitgrad.grad_mode import is_grad_enabled
from jitgrad.tensor import Tensor

__all__ = ["BackwardHook", "watch_last_node"]


class BackwardHookFunction(Function):
    """Does nothing, as a node of the graph."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[x for x in args if not x.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class BackwardHook:
    """The backward hooks of one call of a module.

    Attributes:
        grad_outputs: what has arrived at the outputs, until the hooks have been called.
    """

    def __init__(self, module: Any, hooks: tuple[Any, ...], pre_hooks: tuple[Any, ...]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: Any = None
        self.input_places: list[int] | None = None
        self.num_inputs = 0

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, behind a node that calls the hooks with the gradients of both sides."""
        self.num_inputs = len(args)
        args, self.input_places, node = _through_node(args)
        if node is not None:
            node.register_hook(lambda grad_inputs, _: self._at_inputs(grad_inputs))
        return args

    def watch_outputs(self, result: Any) -> Any:
        """The result, behind a node that calls the pre-hooks, and keeps the gradients for the hooks."""
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=4,
            )
        outputs = result if isinstance(result, tuple) else (result,)
        count = len(outputs)
        outputs, places, node = _through_node(outputs)
        if node is not None:
            node.register_hook(lambda _, grad_outputs: self._at_outputs(grad_outputs, places, count))
        return outputs if isinstance(result, tuple) else outputs[0]

    def _at_outputs(self, grads: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
        grad_outputs = self.grad_outputs = _spread(places, grads, count)
        for hook in self.pre_hooks:
            replaced = hook(self.module, grad_outputs)
            if replaced is None:
                continue
            replaced = replaced if isinstance(replaced, tuple) else (replaced,)
            if len(replaced) != count:
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(replaced)}, but expected "
                    f"{count}"
                )
            grad_outputs = self.grad_outputs = replaced
        if self.input_places is None:
            self._without_inputs(grad_outputs)
        return tuple(grad_outputs[i] for i in places)

    def _without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        """No input requires grad: the hooks are called here, and have nothing to replace."""
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                "inputs require gradients.",
                stacklevel=5,
            )
        for hook in self.hooks:
            replaced = hook(self.module, (None,) * self.num_inputs, grad_outputs)
            if replaced is not None and not (isinstance(replaced, tuple) and all(x is None for x in replaced)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        self.grad_outputs = None

    def _at_inputs(self, grads: tuple[Any, ...]) -> Any:
        if self.grad_outputs is None:
            return None  # the gradient has come round the module's outputs, as in a double backward
        assert self.input_places is not None
        grad_inputs = _spread(self.input_places, grads, self.num_inputs)
        for hook in self.hooks:
            replaced = hook(self.module, grad_inputs, self.grad_outputs)
            if replaced is None:
                continue
            replaced = replaced if isinstance(replaced, tuple) else (replaced,)
            if len(replaced) != len(grad_inputs):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(replaced)}, but expected "
                    f"{len(grad_inputs)}"
                )
            grad_inputs = replaced
        self.grad_outputs = None
        return tuple(grad_inputs[i] for i in self.input_places)


def _through_node(args: tuple[Any, ...]) -> Any:
    """(the arguments, where tensors among them stand, the node that they have passed); no node outside a graph."""
    places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
    if not (is_grad_enabled() and any(args[i].requires_grad for i in places)):
        return args, None, None
    passed = BackwardHookFunction.apply(*[args[i] for i in places])
    passed = passed if isinstance(passed, tuple) else (passed,)
    node = next(x.grad_fn for x in passed if x.requires_grad)
    behind = list(args)
    for i, x in zip(places, passed, strict=True):
        behind[i] = x
    return tuple(behind), places, node


def _spread(places: list[int], values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """``values`` at their places among ``count``, None elsewhere."""
    out: list[Any] = [None] * count
    for i, value in zip(places, values, strict=True):
        out[i] = value
    return tuple(out)


# --- the deprecated kind: hooks of the node that made the result ---


def watch_last_node(module: Any, hooks: list[Any], args: tuple[Any, ...], result: Any) -> None:
    """Hook the node that made the first tensor of ``result``; warn if it is not the whole module."""
    first = result
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda grad_inputs, grad_outputs, hook=hook: hook(module, grad_inputs, grad_outputs))
    missing = _what_is_missing(args, result, node)
    if missing:
        warnings.warn(missing, FutureWarning, stacklevel=5)


def _what_is_missing(args: tuple[Any, ...], result: Any, node: Any) -> str:
    """Why hooks of the last node do not see all gradients of the module, in PyTorch's words; empty if they do."""
    full = "Please use register_full_backward_hook to get the documented behavior."
    results = (result,) if isinstance(result, Tensor) else result
    if not _are_tensors(results):
        return (
            "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors is "
            "deprecated and will be removed in future versions. This hook will be missing some of the grad_output. "
            f"{full}"
        )
    if not _are_tensors(args):
        return (
            "Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of "
            "Tensors is deprecated and will be removed in future versions. This hook will be missing some of the "
            f"grad_input. {full}"
        )
    nodes = {x.grad_fn for x in results if x.grad_fn is not None}
    if not nodes or (len(nodes) == 1 and node not in nodes):
        return (
            "Using a non-full backward hook when outputs are nested in python data structure is deprecated and will "
            "be removed in future versions. This hook will be missing some grad_output."
        )
    if len(nodes) > 1:
        return (
            "Using a non-full backward hook when outputs are generated by different autograd Nodes is deprecated and "
            f"will be removed in future versions. This hook will be missing some grad_output. {full}"
        )
    if {x.grad_fn for x in args if x.grad_fn is not None} != {below for below, _ in node.next_functions}:
        return (
            "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and will "
            f"be removed in future versions. This hook will be missing some grad_input. {full}"
        )
    return ""


def _are_tensors(values: Any) -> bool:
    return isinstance(values, tuple) and all(isinstance(x, Tensor) for x in values)
