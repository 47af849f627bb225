"""``InputBuffer``: the gradients that have arrived at a node.

Owns: accumulation of several gradients into one slot.
Must not know: nodes, the graph task.

# Note [Accumulating in place]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A gradient that arrives may also be in somebody else's hands: the user's (a seed, a hook's argument), another
# buffer's (a rule that returns one object for two inputs), or, as a view, anybody's. It is never written. The first
# sum is a new tensor that only this buffer knows; further gradients are added to it in place, unless the sum itself is
# being recorded for a higher derivative.
"""

from __future__ import annotations

from typing import Any

from jitgrad.state import state

__all__ = ["InputBuffer"]


class InputBuffer(list[Any]):
    """One slot per node input; None = undefined.

    Attributes:
        owned: bit ``i`` is set when slot ``i`` holds a sum made here.
    """

    __slots__ = ("owned",)

    owned: int

    def __init__(self, num_inputs: int) -> None:
        super().__init__((None,) * num_inputs)
        self.owned = 0

    def add(self, position: int, gradient: Any) -> None:
        """Merge a gradient into a slot; an undefined one changes nothing."""
        if gradient is None:
            return
        old = self[position]
        if old is None:
            self[position] = gradient
        elif self.owned >> position & 1 and not state.grad_enabled and state.recorder is None:
            old.add_(gradient)
        else:
            self[position] = old + gradient
            self.owned |= 1 << position
