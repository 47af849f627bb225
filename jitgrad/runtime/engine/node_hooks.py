"""Hooks: their dictionaries, their handles, and what a hook may return.

Owns: ``RemovableHandle``, ``HookDict``, ``NodeHooks``.
Must not know: the engine, operations.

# Note [Order of hooks]
# ~~~~~~~~~~~~~~~~~~~~~
# When a node runs: its tensor pre-hooks (``Tensor.register_hook``) in order of registration, then the ``retain_grad``
# ones, then node pre-hooks, the node itself, for an accumulator the post-accumulate hooks, and node post-hooks.
# Where ``grad()`` only captures, the tensor pre-hooks run too, before the capture.
# https://pytorch.org/docs/stable/notes/autograd.html#backward-hooks-execution
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from jitgrad.tensor_base import TensorBase

__all__ = ["HookDict", "NodeHooks", "RemovableHandle"]

_next_id = itertools.count().__next__


class RemovableHandle:
    """Takes a hook out again, by ``remove()`` or at the end of a ``with`` block.

    Attributes:
        id: unique among all hooks.
    """

    __slots__ = ("_hooks", "id")

    def __init__(self, hooks: HookDict) -> None:
        self._hooks = weakref.ref(hooks)
        self.id = _next_id()

    def remove(self) -> None:
        """Remove the hook; again is harmless."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


class HookDict(dict[int, Callable[..., Any]]):
    """Hooks in order of registration, by handle id."""

    __slots__ = ("__weakref__",)

    def add(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Append a hook."""
        handle = RemovableHandle(self)
        self[handle.id] = fn
        return handle


class NodeHooks:
    """The hooks of one node.

    Attributes:
        tensor_pre: (input number, hooks of the tensor that this input's gradient belongs to).
        retains_grad: input number -> hook that stores the gradient.
        pre: node pre-hooks.
        post: node post-hooks.
    """

    __slots__ = ("post", "pre", "retains_grad", "tensor_pre")

    def __init__(self) -> None:
        self.tensor_pre: list[tuple[int, HookDict]] = []
        self.retains_grad: dict[int, Callable[[Any], None]] = {}
        self.pre = HookDict()
        self.post = HookDict()

    def run_tensor_pre(self, grads: list[Any]) -> None:
        """Tensor pre-hooks, then ``retain_grad``; replaced gradients are written into ``grads``."""
        for position, hooks in self.tensor_pre:
            for fn in tuple(hooks.values()):
                result = fn(grads[position])
                if result is not None:
                    _check_single_result(fn, grads[position], result)
                    grads[position] = result
        for position, retain in self.retains_grad.items():
            retain(grads[position])

    def run_pre(self, grad_outputs: list[Any]) -> list[Any]:
        """Node pre-hooks."""
        for fn in tuple(self.pre.values()):
            result = fn(tuple(grad_outputs))
            if result is not None:
                grad_outputs = list(_checked_results(fn, grad_outputs, result))
        return grad_outputs

    def run_post(self, grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Node post-hooks."""
        for fn in tuple(self.post.values()):
            result = fn(grad_inputs, grad_outputs)
            if result is not None:
                grad_inputs = _checked_results(fn, grad_inputs, result)
        return grad_inputs


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", "<unknown>")


def _check_single_result(fn: Callable[..., Any], original: Any, result: Any) -> None:
    """What PyTorch requires of a replaced gradient: a tensor of the same shape."""
    if not isinstance(result, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if original is not None and result._aval.shape != original._aval.shape:
        raise RuntimeError(f"hook '{_name_of(fn)}' has changed the size of value")


def _checked_results(fn: Callable[..., Any], originals: Any, results: Any) -> tuple[Any, ...]:
    if not isinstance(results, (tuple, list)):
        results = (results,)
    if len(results) != len(originals):
        raise RuntimeError(
            f"hook '{_name_of(fn)}' has returned an incorrect number of values "
            f"(got {len(results)}, but expected {len(originals)})"
        )
    for original, result in zip(originals, results, strict=True):
        if result is not None:
            _check_single_result(fn, original, result)
    return tuple(results)
