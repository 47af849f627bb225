"""A recurrent layer over a whole sequence as one node of the graph.

Owns: when a layer is one node, its forward and its backward.
Must not know: what one step computes forward (``recurrent_cells.STEPS``), layers, directions.

# Note [Layers as nodes]
# ~~~~~~~~~~~~~~~~~~~~~~
# Eager mode would make three nodes for each step of an LSTM, and each step's backward would add its part to the
# gradients of the weight and of the bias: for 35 steps 35 products, and 35 sums of matrices as large as the weight.
# So in eager mode the steps of one layer and direction are one node. Its backward goes through the steps alone from
# the last to the first; then the gradient of the weight is ONE product over the rows of all steps,
#   dW = [dG[0]; dG[1]; ...].T @ [h[-1]; h[0]; ...].
# A compiled step records the single steps: its code generator joins the products, Note [Joined products].
# With ``create_graph`` the steps run again as single operations, from what the node saved, and are differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.autograd.backward import grad as gradients_of
from jitgrad.autograd.function import Function
from jitgrad.functions import cat
from jitgrad.grad_mode import enable_grad, is_grad_enabled
from jitgrad.nn import functional as F
from jitgrad.nn.recurrent_cells import STEPS, are_one_operation
from jitgrad.ops.dispatch_hook import call
from jitgrad.state import state as thread

__all__ = ["is_one_node", "run_as_node"]

State = tuple[Any, ...]

_CELLS = {"LSTM": "_lstm_cell", "GRU": "_gru_cell"}
_ACTIVATIONS = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}


def is_one_node(mode: str, gates: Any, state: State, weights: Sequence[Any], sizes: Sequence[int]) -> bool:
    """Whether the steps of a layer run as one node: in eager mode, where a gradient is wanted, on equal rows.

    Args:
        mode: see ``RNNBase``.
        gates: the inputs' part of all steps' gates, (rows, gates).
        state: to begin with.
        weights: of states, its bias or None, and the projection if there is one.
        sizes: how many rows each step has.
    """
    if thread.handler is not None or len(weights) != 2 or thread.autocast is not None:
        return False
    if len(sizes) < 2 or sizes[0] != sizes[-1] or not is_grad_enabled():
        return False
    weight, bias = weights
    own = [gates, weight, *state] + ([] if bias is None else [bias])
    return any(x.requires_grad for x in own) and are_one_operation(*own)


def run_as_node(mode: str, gates: Any, state: State, weights: Sequence[Any], back: bool) -> tuple[Any, State]:
    """The outputs of all steps, (rows, hidden_size), and the state behind the last step.

    Args:
        mode, gates, state, weights: see ``is_one_node``.
        back: go through the steps from the last to the first.
    """
    out, *last = _Layer.apply(mode, back, gates, *weights, *state)
    return out, tuple(last)


class _Layer(Function):
    """(mode, back, gates, weight, bias or None, state ...) to (outputs, state ...)."""

    @staticmethod
    def forward(ctx: Any, mode: str, back: bool, gates: Any, weight: Any, bias: Any, *state: Any) -> Any:
        outputs: list[Any] = []
        saved: list[tuple[Any, ...]] = []
        current: Any = state
        for x in _in_order(gates, state, back):
            hidden = F.linear(current[0], weight, bias)
            if mode in _ACTIVATIONS:
                current = (call(_ACTIVATIONS[mode], x + hidden),)
                saved.append(current)
            else:
                *current, activated = call(_CELLS[mode], x, hidden, current[-1])
                saved.append((activated, current[-1] if mode == "LSTM" else hidden))
            outputs.append(current[0])
        ctx.mode, ctx.back, ctx.num_states = mode, back, len(state)
        ctx.save_for_backward(gates, weight, bias, *state, *outputs[:-1], *[part for one in saved for part in one])
        return cat(outputs[::-1] if back else outputs), *current

    @staticmethod
    def backward(ctx: Any, grad_out: Any, *grad_last: Any) -> Any:
        first = 3 + ctx.num_states
        inputs, kept = ctx.saved_tensors[:first], ctx.saved_tensors[first:]
        if is_grad_enabled():
            return None, None, *_through_single_steps(ctx, inputs, (grad_out, *grad_last))
        return None, None, *_THROUGH[ctx.mode](ctx, inputs, kept, grad_out, grad_last)


def _in_order(rows: Any, state: State, back: bool) -> Sequence[Any]:
    """The rows of each step, in the order in which a layer goes through them."""
    steps: Sequence[Any] = rows.split(state[0].shape[0])
    return steps[::-1] if back else steps


def _through_lstm(ctx: Any, inputs: State, kept: State, grad_out: Any, grad_last: Any) -> State:
    _, weight, _, h, c = inputs
    grads = _in_order(grad_out, (h,), ctx.back)
    count = len(grads)
    outputs, saved = kept[: count - 1], kept[count - 1 :]
    grad_h, grad_c = grad_last
    of_gates = []
    for step in reversed(range(count)):
        before = saved[2 * step - 1] if step else c
        of_step, grad_c = call(
            "_lstm_cell_backward", grads[step], grad_h, grad_c, before, saved[2 * step + 1], saved[2 * step]
        )
        of_gates.append(of_step)
        grad_h = of_step.mm(weight)
    rows = cat(of_gates if ctx.back else of_gates[::-1])
    return rows, *_of_weights(ctx, rows, h, outputs), grad_h, grad_c


def _through_gru(ctx: Any, inputs: State, kept: State, grad_out: Any, grad_last: Any) -> State:
    _, weight, _, h = inputs
    grads = _in_order(grad_out, (h,), ctx.back)
    count = len(grads)
    outputs, saved = kept[: count - 1], kept[count - 1 :]
    (grad_h,) = grad_last
    of_inputs, of_hidden = [], []
    for step in reversed(range(count)):
        before = outputs[step - 1] if step else h
        activated, hidden = saved[2 * step], saved[2 * step + 1]
        for_input, for_hidden, direct = call("_gru_cell_backward", grads[step], grad_h, hidden, before, activated)
        of_inputs.append(for_input)
        of_hidden.append(for_hidden)
        grad_h = direct + for_hidden.mm(weight)
    rows, of_gates = (cat(parts if ctx.back else parts[::-1]) for parts in (of_hidden, of_inputs))
    return of_gates, *_of_weights(ctx, rows, h, outputs), grad_h


def _through_rnn(ctx: Any, inputs: State, kept: State, grad_out: Any, grad_last: Any) -> State:
    _, weight, _, h = inputs
    grads = _in_order(grad_out, (h,), ctx.back)
    count = len(grads)
    outputs, saved = kept[: count - 1], kept[count - 1 :]
    (grad_h,) = grad_last
    of_gates = []
    for step in reversed(range(count)):
        grad_h = grads[step] + grad_h
        if ctx.mode == "RNN_TANH":
            of_gates.append(grad_h * (1 - saved[step] * saved[step]))
        else:
            of_gates.append(call("threshold_backward", grad_h, saved[step]))
        grad_h = of_gates[-1].mm(weight)
    rows = cat(of_gates if ctx.back else of_gates[::-1])
    return rows, *_of_weights(ctx, rows, h, outputs), grad_h


def _of_weights(ctx: Any, rows: Any, h: Any, outputs: State) -> tuple[Any, Any]:
    """The gradients of the weight and of the bias.

    Args:
        rows: the gradient of the states' part of the gates, step after step as the inputs lie.
        h: the state before the first step.
        outputs: behind all steps but the last.
    """
    _, _, _, needs_weight, needs_bias, *_ = ctx.needs_input_grad
    states = [h, *outputs]
    of_weight = rows.t().mm(cat(states[::-1] if ctx.back else states)) if needs_weight else None
    return of_weight, rows.sum(0) if needs_bias else None


def _through_single_steps(ctx: Any, inputs: State, grads: State) -> State:
    """The gradients as functions of the inputs and of the gradients that come in."""
    with enable_grad():
        # aliases: what leads to one input through another belongs to that one's own node
        own = [None if x is None else x.view_as(x) for x in inputs]
        gates, weight, bias, *start = own
        outputs, state = [], tuple(start)
        for x in _in_order(gates, state, ctx.back):
            state = STEPS[ctx.mode](x, state, (weight, bias))
            outputs.append(state[0])
        ends = (cat(outputs[::-1] if ctx.back else outputs), *state)
        wanted = [x for x, needed in zip(own, ctx.needs_input_grad[2:], strict=True) if needed]
        found = iter(gradients_of(ends, wanted, grads, create_graph=True, allow_unused=True))
    return tuple(next(found) if needed else None for needed in ctx.needs_input_grad[2:])


_THROUGH = {"LSTM": _through_lstm, "GRU": _through_gru, "RNN_TANH": _through_rnn, "RNN_RELU": _through_rnn}
