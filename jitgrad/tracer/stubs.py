"""Views that were made in no_grad mode, once grad mode is on again.

Owns: ``Stubs``, the part of a recorder that tells of such a view that it requires grad.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.tracer.keys import STUB

__all__ = ["Stubs"]


class Stubs:
    """Views of tensors that require grad, made in no_grad mode. Their gradient goes nowhere.

    Attributes:
        unlinked: weak references to those that were made since grad mode was on last.
        views: weak references to those that require grad; until the call ends, they are told by their flag.
    """

    __slots__ = ("_recorder", "unlinked", "views")

    unlinked: list[ref[Any]]
    views: list[ref[Any]]

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self.unlinked = []
        self.views = []

    def give(self) -> None:
        """Grad mode is on: those that somebody holds require grad."""
        recorder = self._recorder
        views = self.unlinked[:]
        self.unlinked.clear()
        ours = set(map(id, recorder.handles))
        for reference in views:
            view = reference()
            if view is None or (id(view) in ours and references(view) <= ONE_LOCAL + 1):
                continue  # nobody but ``handles`` holds it
            if view._tid == recorder.tid and not view._requires_grad and view.requires_grad:
                recorder.path.mark((STUB, view._vid))
                recorder.entry.outer[view._vid] = (None, 0)
                view._requires_grad = True
                self.views.append(reference)

    def take(self, tensor: Any) -> bool:
        """Whether a tensor was one of them. It is none from here on: it becomes a leaf."""
        if not any(view() is tensor for view in self.views):
            return False
        self.views[:] = [view for view in self.views if view() is not tensor]
        del self._recorder.entry.outer[tensor._vid]
        return True

    def end(self) -> None:
        """The call is over."""
        for reference in self.views:
            view = reference()
            if view is not None:
                view._requires_grad = False

    def clear(self) -> None:
        """Know of none."""
        self.unlinked.clear()
        self.views.clear()
