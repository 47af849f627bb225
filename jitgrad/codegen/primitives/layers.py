"""What the primitives "recurrent" compute: kinds, and the shapes of their operands and results.

Owns: ``GATES``, ``recurrent_results``.
Must not know: how they are computed (``routines/recurrent.py``).

kind            operands                                                       results
lstm            gates, W, bias, h, c                                           outputs, cells, activated
gru             gates, W, bias, h                                              outputs, activated, new
tanh, relu      gates, W, bias, h                                              outputs
lstm_backward   of outputs, of h, of c; c, cells, activated, W                 of gates, of h, of c
gru_backward    of outputs, of h; h, outputs, activated, new, W                of gates, of states' gates, of h
tanh_backward,  of outputs, of h; outputs, W                                   of gates, of h
relu_backward

With T steps of N rows, H hidden units and G gates per unit: gates [T, N, G * H] (the inputs' part), W [G * H, H], bias
[G * H] (of the states' part), h and c [N, H], outputs and cells [T, N, H], activated [T, N, G * H]: the gates behind
their activations; new [T, N, H]: the states' part of the third gate of a GRU. The flag ``is_back`` says that a layer
goes from the last step to the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.dtypes import DType

__all__ = ["GATES", "recurrent_results"]

Shape = tuple[int, ...]

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
"""Kind of a layer -> its gates per hidden unit."""


def recurrent_results(kind: str, shapes: Sequence[Shape], dtype: DType) -> tuple[tuple[Shape, DType], ...]:
    """Shape and dtype of each result.

    Args:
        shapes: of the operands.
        dtype: of all of them.
    """
    layer, _, is_backward = kind.partition("_")
    steps, rows, width = shapes[0]
    hidden = width if is_backward else width // GATES[layer]
    gates, outputs, state = (steps, rows, GATES[layer] * hidden), (steps, rows, hidden), (rows, hidden)
    found: dict[str, list[Shape]] = {
        "lstm": [outputs, outputs, gates],
        "gru": [outputs, gates, outputs],
        "lstm_backward": [gates, state, state],
        "gru_backward": [gates, gates, state],
    }
    return tuple([(shape, dtype) for shape in found.get(kind, [gates, state] if is_backward else [outputs])])
