"""What the primitives "recurrent" compute: forms, and the shapes of their operands and results.

Owns: ``GATES``, ``LayerForm``.
Must not know: how they are computed (``routines/recurrent.py``).

layer            operands                                                       results
lstm             gates, W, bias, h, c                                           outputs, cells, activated
gru              gates, W, bias, h                                              outputs, activated, new
tanh, relu       gates, W, bias, h                                              outputs
lstm, backward   of outputs, of h, of c; c, cells, activated, W                 of gates, of h, of c
gru, backward    of outputs, of h; h, outputs, activated, new, W                of gates, of states' gates, of h
tanh and relu,   of outputs, of h; outputs, W                                   of gates, of h
  backward

With T steps of N rows, H hidden units and G gates per unit: gates [T, N, G * H] (the inputs' part), W [G * H, H], bias
[G * H] (of the states' part), h and c [N, H], outputs and cells [T, N, H], activated [T, N, G * H]: the gates behind
their activations; new [T, N, H]: the states' part of the third gate of a GRU.

A packed form takes steps of fewer and fewer rows: in the place of [T, N, *] there is [rows of all steps, *], one more
operand says how many each step has, [T] int64, and a forward has more results: the states at each row's end, h (and
c), [N, H], and h before each step, [rows of all steps, H].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jitgrad.dtypes import DType

__all__ = ["GATES", "LayerForm"]

Shape = tuple[int, ...]

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
"""Layer -> its gates per hidden unit."""
_OPERANDS = {"lstm": (5, 7), "gru": (4, 7), "tanh": (4, 4), "relu": (4, 4)}
"""Layer -> how many operands its forward and its backward have, where rows are not packed."""


class LayerForm(NamedTuple):
    """Which of them.

    Attributes:
        layer: a key of ``GATES``.
        is_backward, is_packed: see above.
        is_back: the layer goes from the last step to the first.
    """

    layer: str
    is_backward: bool
    is_packed: bool
    is_back: bool

    @property
    def operands(self) -> int:
        """How many there are; of a packed form, the last one says how many rows each step has."""
        return _OPERANDS[self.layer][self.is_backward] + self.is_packed

    @property
    def weight(self) -> int:
        """Which operand is the weight."""
        return self.operands - 1 - self.is_packed if self.is_backward else 1

    @property
    def state(self) -> int:
        """An operand [N, H]."""
        return 1 if self.is_backward else 3

    def results(self, shapes: Sequence[Shape], dtype: DType) -> tuple[tuple[Shape, DType], ...]:
        """Shape and dtype of each result.

        Args:
            shapes: of the operands.
            dtype: of all of them but the last one of a packed form.
        """
        rows, state = shapes[0][:-1], shapes[self.state]
        outputs, gates = (*rows, state[1]), (*rows, GATES[self.layer] * state[1])
        ends = [state, state] if self.layer == "lstm" else [state]
        found: list[Shape]
        if self.is_backward:
            found = [*({"gru": [gates, gates]}.get(self.layer, [gates])), *ends]
        else:
            found = {"lstm": [outputs, outputs, gates], "gru": [outputs, gates, outputs]}.get(self.layer, [outputs])
            found = [*found, *ends, outputs] if self.is_packed else found
        return tuple([(shape, dtype) for shape in found])
