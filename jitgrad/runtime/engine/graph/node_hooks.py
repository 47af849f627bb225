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

import weakref
from collections.abc import Callable
from typing import Any

from jitgrad.formatting import type_name
from jitgrad.locks import process_lock
from jitgrad.tensor_base import TensorBase

__all__ = ["HookDict", "MultiHandle", "NodeHooks", "RemovableHandle"]

_id_lock = process_lock()


class RemovableHandle:
    """Takes a hook out again, by ``remove()`` or at the end of a ``with`` block.

    A handle pickles with its dictionary, and without one it becomes a handle on nothing.

    Attributes:
        id: unique among all hooks.
    """

    id: int
    next_id = 0

    def __init__(self, hooks_dict: HookDict, *, extra_dict: Any = None) -> None:
        """``extra_dict``: a dictionary, or a list of them, from which the id goes as well."""
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        with _id_lock:
            self.id = RemovableHandle.next_id
            RemovableHandle.next_id += 1
        extra = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra)

    def remove(self) -> None:
        """Remove the hook; again is harmless."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: Any) -> None:
        hooks, self.id, extra = state
        self.hooks_dict_ref = weakref.ref(HookDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra if d is not None)
        with _id_lock:
            RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


class MultiHandle(RemovableHandle):
    """Removes several hooks at once."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


class HookDict(dict[int, Any]):
    """Hooks in order of registration, by handle id."""

    __slots__ = ("__weakref__",)

    def add(self, fn: Any, *, prepend: bool = False) -> RemovableHandle:
        """Append a hook, or put it before all others."""
        handle = RemovableHandle(self)
        later = dict(self) if prepend else {}
        if later:
            self.clear()
        self[handle.id] = fn
        self.update(later)
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
    """What PyTorch requires of a replaced gradient: a tensor of the same type and shape, where there was one."""
    if not isinstance(result, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if original is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    was, got = original._aval, result._aval
    if was.dtype is not got.dtype or was.device is not got.device:
        raise RuntimeError(
            f"hook '{_name_of(fn)}' has changed the type of value (was {type_name(was)} got {type_name(got)})"
        )
    if was.shape != got.shape:
        raise RuntimeError(f"hook '{_name_of(fn)}' has changed the size of value")


def _checked_results(fn: Callable[..., Any], originals: Any, results: Any) -> tuple[Any, ...]:
    if not isinstance(results, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(results).__name__}'")
    if len(results) != len(originals):
        raise RuntimeError(
            f"hook '{_name_of(fn)}' has returned an incorrect number of values "
            f"(got {len(results)}, but expected {len(originals)})"
        )
    for original, result in zip(originals, results, strict=True):
        if result is not None:
            _check_single_result(fn, original, result)
    return results
