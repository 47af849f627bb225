"""Recording while saved-tensor hooks are active.

Owns: ``NodeMakingRecorder``.
Must not know: what the hooks do.

A pack hook is called when an operation saves a tensor, that is when its Node is made: in a compiled step, usually
never. While such hooks are active this stands in front of the recorder, and has the Node of every operation made right
after the operation is recorded. The Nodes of what was recorded before are made first, without the hooks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.handler import ForwardingHandler
from jitgrad.ops.table import Op
from jitgrad.state import state, switch_handler

__all__ = ["NodeMakingRecorder"]


class NodeMakingRecorder(ForwardingHandler):
    """A recorder that makes Nodes at once; for everything but operations it is the recorder behind it."""

    __slots__ = ("_recorder", "tid")

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self.tid = recorder.tid

    def pass_on(self, name: str, *args: Any) -> Any:
        return getattr(self._recorder, name)(*args)

    def binary(self, op: Op, a: Any, b: Any) -> Any:
        _without_hooks((a, b))
        return self._make_nodes(self._recorder.binary(op, a, b))

    def reflected(self, op: Op, number: int | float, x: Any) -> Any:
        _without_hooks((x,))
        return self._make_nodes(self._recorder.reflected(op, number, x))

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        _without_hooks(args[0] if op.num_inputs < 0 else args)
        return self._make_nodes(self._recorder.apply(op, args))

    def apply_inplace(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        operands = args[0] if op.num_inputs < 0 else args
        _without_hooks(operands)
        if op.vjps and state.grad_enabled and any(getattr(x, "_requires_grad", False) for x in operands):
            # hooks see the inputs before the write, and one that raises prevents it
            done: tuple[Any, ...] = self._recorder.detours.enter_and_write(op, targets, args)
            return done
        targets = self._recorder.apply_inplace(op, targets, args)
        self._make_nodes(targets)
        return targets

    def grad_fn_of(self, tensor: Any) -> Any:
        """The Node of a value that has none yet: it was recorded outside the hooks."""
        hooks, state.saved_tensor_hooks = state.saved_tensor_hooks, ()
        try:
            return self._recorder.grad_fn_of(tensor)
        finally:
            state.saved_tensor_hooks = hooks

    def _make_nodes(self, results: Any) -> Any:
        """The Nodes of what was just recorded; making them calls the hooks."""
        for out in results if isinstance(results, tuple) else (results,):
            if _is_pending(out):
                self._recorder.grad_fn_of(out)
        return results

    def saved_hooks_changed(self) -> None:
        """Step aside when the last pair of hooks has gone."""
        if not state.saved_tensor_hooks:
            switch_handler(self._recorder)


def _is_pending(x: Any) -> bool:
    """Whether a value's Node is still to be made."""
    return getattr(x, "_graph", None) is not None and x._requires_grad and x._grad_fn is None


def _without_hooks(operands: Iterable[Any]) -> None:
    """Make the Nodes of operations that were recorded outside the hooks."""
    for x in operands:
        if _is_pending(x):
            x.grad_fn  # noqa: B018 - looking makes it, see ``grad_fn_of``
