"""A recurrent layer over a whole sequence as one operation.

Owns: when a layer is one operation, and the call of it.
Must not know: what a step computes, layers of a network, directions of more than one.

# Note [Layers as operations]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# The steps of one layer and direction are one operation (``ops/layers/recurrent_layers.py``), eagerly and in a compiled
# step, whose kernel goes through the steps itself (Note [Layers as routines]). Step by step, a layer of 35 steps would
# be a hundred operations to record or to run, a graph of its own for each length of a sequence, and 35 products that
# are added up for the weight's gradient, which now is one.
# Packed sequences are one operation, too, of rows that end one after the other: how many rows each step has is an
# operand. Steps remain single operations where there are projections, where autocast mixes dtypes, and under ``vmap``
# and its like, whose rules are the cells'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.nn.recurrent_cells import are_one_operation
from jitgrad.ops.dispatch_hook import call
from jitgrad.state import state as thread

__all__ = ["is_one_operation", "run_as_operation"]

State = tuple[Any, ...]

_LAYERS = {
    "LSTM": "_lstm_layer", "GRU": "_gru_layer", "RNN_TANH": "_rnn_tanh_layer", "RNN_RELU": "_rnn_relu_layer",
}  # fmt: skip


def is_one_operation(gates: Any, state: State, weights: Sequence[Any], sizes: Sequence[int]) -> bool:
    """Whether the steps of a layer are one operation: of one dtype, and with rows.

    Args:
        gates: the inputs' part of all steps' gates, (rows, gates).
        state: to begin with.
        weights: of states, its bias or None, and the projection if there is one.
        sizes: how many rows each step has.
    """
    handler = thread.handler
    if len(weights) != 2 or thread.autocast is not None or (handler is not None and handler.reinterprets):
        return False
    return bool(sizes[0]) and are_one_operation(gates, *state, *[x for x in weights if x is not None])


def run_as_operation(
    mode: str, gates: Any, state: State, weights: Sequence[Any], back: bool, batch_sizes: Any
) -> tuple[Any, State]:
    """The outputs of all steps, (rows, hidden_size), and the state behind the last step.

    Args:
        mode: see ``RNNBase``.
        gates, state, weights: see ``is_one_operation``.
        back: go through the steps from the last to the first.
        batch_sizes: of packed sequences; None: each step has all rows.
    """
    weight, bias = weights
    if bias is None:
        bias = gates.new_zeros(weight.shape[0])
    if batch_sizes is not None:
        outputs, *rest = call(_LAYERS[mode] + "_packed", gates, weight, bias, *state, batch_sizes, back)
        return outputs, tuple(rest[: len(state)])
    steps = gates.unflatten(0, (-1, state[0].shape[0]))
    outputs, *rest = call(_LAYERS[mode], steps, weight, bias, *state, back)
    return outputs.flatten(0, 1), tuple(rest[: len(state)])
