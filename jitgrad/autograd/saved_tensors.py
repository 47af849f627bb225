"""What becomes of tensors that are saved for backward: hooks around them, and writing over them.

Owns: ``saved_tensors_hooks``, ``save_on_cpu``, ``disable_saved_tensors_hooks``, ``allow_mutation_on_saved_tensors``.
Must not know: how a Node saves (``runtime.engine.saved_variable``, see Note [Saved-tensor hooks]).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.grad_mode import no_grad
from jitgrad.state import modes_in_use, state, write_checks

__all__ = [
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "save_on_cpu",
    "saved_tensors_hooks",
]

_MODE = "saved-tensor hooks"


class saved_tensors_hooks:
    """Inside the block, what operations save for backward goes through a pair of functions.

    Of nested blocks the innermost counts. The blocks belong to the thread.

    Args:
        pack_hook: gets each tensor when it is saved, an output with its history; what it returns (anything) is kept
            instead. It runs without grad mode and may not write to the tensor.
        unpack_hook: gets that when backward, or ``grad_fn._saved_self``, needs the tensor, and returns a tensor of the
            same values, shape and dtype.

    Raises:
        RuntimeError: on entering, where ``disable_saved_tensors_hooks`` forbids it.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        for hook in (self.pack_hook, self.unpack_hook):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks(): expected two callables, got {type(hook).__name__!r}")
        if state.saved_tensor_hooks_disabled is not None:
            raise RuntimeError(state.saved_tensor_hooks_disabled)
        modes_in_use.append(_MODE)
        _set_stack((*state.saved_tensor_hooks, (self.pack_hook, self.unpack_hook)))

    def __exit__(self, *exc_info: object) -> None:
        modes_in_use.remove(_MODE)
        _set_stack(state.saved_tensor_hooks[:-1])


def _set_stack(hooks: tuple[Any, ...]) -> None:
    state.saved_tensor_hooks = hooks
    if state.handler is not None:
        state.handler.saved_hooks_changed()


class save_on_cpu(saved_tensors_hooks):
    """Inside the block, saved tensors are kept on the CPU, and brought back to their device for backward.

    Args:
        pin_memory: copy also what is on the CPU already, into memory that belongs to the graph alone.
        device_type: accepted as PyTorch does; every device is treated alike.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "vcpu") -> None:
        def pack_to_cpu(tensor: Any) -> tuple[Any, Any]:
            kept = tensor.cpu()
            return tensor.device, kept.clone() if pin_memory and kept is tensor else kept

        def unpack_from_cpu(packed: tuple[Any, Any]) -> Any:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack_to_cpu, unpack_from_cpu)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside the block, saved-tensor hooks are an error: for code that does not work with them.

    Args:
        error_message: of the RuntimeError that entering ``saved_tensors_hooks`` raises, or this block inside of one.
    """
    if state.saved_tensor_hooks:
        raise RuntimeError(error_message)
    before, state.saved_tensor_hooks_disabled = state.saved_tensor_hooks_disabled, error_message
    try:
        yield
    finally:
        state.saved_tensor_hooks_disabled = before


class _Handle:
    """What a saved tensor is packed as."""

    __slots__ = ("__weakref__",)


class _AllowMutationOnSavedContext:
    """The saved tensors of one block.

    Attributes:
        original: the tensors as saved, until they are written.
        cloned: copies of those that were written.
    """

    def __init__(self) -> None:
        self.original: weakref.WeakKeyDictionary[_Handle, Any] = weakref.WeakKeyDictionary()
        self.cloned: weakref.WeakKeyDictionary[_Handle, Any] = weakref.WeakKeyDictionary()
        self.is_open = True

    def pack(self, tensor: Any) -> _Handle:
        """Keep a tensor under a handle; one handle per tensor and version would do, one per saving is simpler."""
        handle = _Handle()
        self.original[handle] = tensor.detach() if tensor.grad_fn is not None else tensor
        return handle

    def unpack(self, handle: _Handle) -> Any:
        """The tensor as it was when it was packed."""
        found = self.cloned.get(handle) if self.is_open else None
        found = self.original.get(handle) if found is None and self.is_open else found
        if found is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        return found

    def before_write(self, tensor: Any) -> None:
        """Copy what a write would change: everything that shares the tensor's version counter."""
        for handle, saved in list(self.original.items()):
            if saved._vc is tensor._vc:
                hooks, state.saved_tensor_hooks = state.saved_tensor_hooks, ()
                try:
                    with no_grad():
                        self.cloned[handle] = saved.detach().clone()
                finally:
                    state.saved_tensor_hooks = hooks
                del self.original[handle]

    def clear(self) -> None:
        """Forget everything."""
        self.original.clear()
        self.cloned.clear()
        self.is_open = False


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """Inside the block, a tensor that was saved for backward may be written: backward sees a copy of the old value.

    Forward and backward must both run inside the block. A copy is made only of what is written.

    Raises:
        RuntimeError: on entering a second block.
        AssertionError: a backward outside needs what was saved inside.
    """
    if state.mutation_guard is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()

    def guard(tensor: Any) -> None:
        if state.mutation_guard is context:
            context.before_write(tensor)

    with saved_tensors_hooks(context.pack, context.unpack):
        state.mutation_guard = context
        write_checks.append(guard)
        try:
            yield context
        finally:
            write_checks.remove(guard)
            state.mutation_guard = None
            context.clear()
