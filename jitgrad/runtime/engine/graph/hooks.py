"""Hooks of tensors: where ``Tensor.register_hook`` and its kin put them.

Owns: ``register_tensor_hook``, ``register_post_accumulate_grad_hook``, ``retain_grad``.
Must not know: when hooks run (node_hooks.py, accumulate_grad.py).

A tensor's hooks live in one dictionary that the tensor and its node share, so that a handle removes from both.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any

from jitgrad.ops.dispatch_hook import call
from jitgrad.runtime.engine.graph.accumulate_grad import existing_accumulator
from jitgrad.runtime.engine.graph.node_hooks import HookDict, RemovableHandle
from jitgrad.state import without_overrides

__all__ = ["RemovableHandle", "register_post_accumulate_grad_hook", "register_tensor_hook", "retain_grad"]


def register_tensor_hook(tensor: Any, fn: Callable[[Any], Any]) -> RemovableHandle:
    """Call ``fn(grad)`` when the gradient of ``tensor`` is known; a tensor it returns replaces it.

    Raises:
        RuntimeError: the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if tensor._hooks is None:
        tensor._hooks = HookDict()
        _share_with_node(tensor)
    return tensor._hooks.add(fn)


def _share_with_node(tensor: Any) -> None:
    """An accumulator that is made later takes the dictionary from its leaf."""
    node = existing_accumulator(tensor) if tensor.is_leaf else tensor.grad_fn
    if node is not None:
        node.ensure_hooks().tensor_pre.append((tensor._output_nr, tensor._hooks))


def register_post_accumulate_grad_hook(tensor: Any, fn: Callable[[Any], None]) -> RemovableHandle:
    """Call ``fn(tensor)`` after a gradient was accumulated into ``tensor.grad``.

    Raises:
        RuntimeError: the tensor is no leaf that requires grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not tensor.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if tensor._post_accumulate_hooks is None:
        tensor._post_accumulate_hooks = HookDict()
    return tensor._post_accumulate_hooks.add(fn)


def retain_grad(tensor: Any) -> None:
    """Keep the gradient of a non-leaf in its ``.grad``; of a leaf it is kept anyway.

    Raises:
        RuntimeError: the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if tensor.is_leaf or tensor._retains_grad:
        return
    tensor._retains_grad = True
    tensor.grad_fn.ensure_hooks().retains_grad[tensor._output_nr] = _Retain(tensor)


class _Retain:
    """Stores a gradient in a tensor, if that is still there."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = weakref.ref(tensor)

    def __call__(self, grad: Any) -> None:
        tensor = self._tensor()
        if tensor is not None and grad is not None:
            old = tensor._grad
            tensor._grad = call("clone", grad) if old is None else without_overrides(operator.add, old, grad)
