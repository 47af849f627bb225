"""Recurrent layers over all steps: ``_lstm_layer``, ``_gru_layer``, ``_rnn_tanh_layer``, ``_rnn_relu_layer``.

Owns: these operations and their backwards, one operation each. A layer of 500 steps is recorded as one of 5.
Must not know: Tensor, kernels, layers of a network.

The first operand is the inputs' part of the gates, [T, N, gates * H], T steps of N rows; then the weight of states
[gates * H, H] and its bias, the states to begin with, [N, H], and ``is_back``: from the last step to the first. Results
are the outputs [T, N, H], the states at the end, and what derivatives read. What a step computes, and its sources, are
those of ``recurrent_cells.py``.

The gradient of the weight is ONE product over the rows of all steps,
  dW = [dG[0]; dG[1]; ...].T @ [h[-1]; h[0]; ...],
and the way through the steps is one operation, ``_lstm_layer_backward``, which is not differentiated itself: with
``create_graph``, the rules of the single steps run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.formulas.special import np_sigmoid
from jitgrad.ops.layers.recurrent_cells import GRU_GATES, LSTM_GATES, defined, through_gru_gates, through_lstm_gates
from jitgrad.ops.table import RuleContext, define, joint_vjp
from jitgrad.state import state as thread

__all__: list[str] = []

Forward = Callable[..., tuple[Aval, ...]]


def _checked(name: str, gates: Aval, weight: Aval, bias: Aval, states: Sequence[Aval], count: int) -> None:
    """Kernels go by one operand's extents; a caller's mistake is an error before they read beside another."""
    hidden = weight.shape[-1] if weight.ndim == 2 else -1
    width = count * hidden
    fits = gates.ndim == 3 and gates.shape[2] == width and weight.shape == (width, hidden) and bias.shape == (width,)
    if not fits or any(x.shape != (gates.shape[1], hidden) for x in states):
        shapes = [list(x.shape) for x in (gates, weight, bias, *states)]
        raise RuntimeError(f"{name}: gates, weight, bias and states do not go together, got {shapes}")
    if not gates.shape[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    dtypes = {x.dtype for x in (gates, weight, bias, *states)}
    if len(dtypes) > 1 or gates.dtype.category is not FLOATING:
        raise RuntimeError(f"{name}: all operands must be of one floating dtype, got {sorted(map(str, dtypes))}")


def _layer_aval(name: str, count: int, states: int, saved: Sequence[int]) -> Forward:
    """The rule of a layer.

    Args:
        name: of the operation.
        count: gates per hidden unit.
        states: how many there are.
        saved: widths, per hidden unit, of the results that derivatives read.
    """

    def aval(gates: Aval, weight: Aval, bias: Aval, *rest: Any) -> tuple[Aval, ...]:
        *given, _ = rest
        _checked(name, gates, weight, bias, given, count)
        (steps, rows, width), dtype = gates.shape, gates.dtype
        hidden = width // count
        ends = [make_aval((rows, hidden), dtype)] * states
        kept = [make_aval((steps, rows, n * hidden), dtype) for n in saved]
        return (make_aval((steps, rows, hidden), dtype), *ends, *kept)

    return aval


def _check_backward(
    name: str, count: int, wide: Sequence[Aval], outputs: Sequence[Aval], states: Sequence[Aval], w: Aval
) -> None:
    """As ``_checked``. ``count``: gates per hidden unit; ``wide``: arrays of all gates."""
    first = outputs[0]
    hidden = first.shape[2] if first.ndim == 3 else -1
    fits = (
        w.shape == (count * hidden, hidden)
        and all(x.shape == first.shape for x in outputs)
        and all(x.shape == (*first.shape[:2], count * hidden) for x in wide)
        and all(x.shape == (first.shape[1], hidden) for x in states)
    )
    if not fits:
        shapes = [list(x.shape) for x in (*outputs, *states, *wide, w)]
        raise RuntimeError(f"{name}: operands do not go together, got {shapes}")


def _order(steps: int, is_back: bool) -> range:
    """The steps in the layer's own order."""
    return range(steps - 1, -1, -1) if is_back else range(steps)


def _fits_kernels(avals: Sequence[Aval], *_: Any) -> bool:
    return 0 not in avals[0].shape and not avals[0].dtype.is_short


def _last(b: Any, outputs: Any, is_back: bool) -> Any:
    """The state behind the last step, over primitives."""
    steps, rows, hidden = outputs.shape
    first = 0 if is_back else steps - 1
    part = b.slice(outputs, (first, 0, 0), (first + 1, rows, hidden), (1, 1, 1))
    return b.reshape(part, (rows, hidden))


def _before(outputs: Any, start: Any, is_back: bool) -> Any:
    """The states before each step, over Tensors."""
    steps = outputs.shape[0]
    first = start.unsqueeze(0)
    if steps == 1:
        return first
    others = outputs.narrow(0, 1 if is_back else 0, steps - 1)
    return call("cat", [others, first] if is_back else [first, others], 0)


def _of_operands(
    wanted: Sequence[int], of_gates: Any, of_hidden: Any, of_states: Sequence[Any], outputs: Any, h: Any, is_back: bool
) -> dict[int, Any]:
    """The gradients of a layer's operands.

    Args:
        wanted: which.
        of_gates, of_hidden: of the inputs' part of the gates, and of the states' part.
        of_states: of the states to begin with.
        outputs, h, is_back: of the layer.
    """
    found = {0: of_gates, **dict(enumerate(of_states, 3))}
    rows = of_hidden.flatten(0, 1)
    if 1 in wanted:
        found[1] = rows.t().mm(_before(outputs, h, is_back).flatten(0, 1))
    if 2 in wanted:
        found[2] = rows.sum(0)
    return {n: found[n] for n in wanted}


def _goes_by_steps(*of_kept: Any) -> bool:
    """Whether derivatives are to be differentiated: ``create_graph``, or what a layer has kept has gradients itself."""
    return thread.grad_enabled or any(g is not None for g in of_kept)


def _at(x: Any, step: int) -> Any:
    return None if x is None else x.select(0, step)


# --- _lstm_layer(gates, weight, bias, h, c; is_back) -> (outputs, h, c, cells, activated gates) ---


def _np_lstm_layer(
    gates: Any, weight: Any, bias: Any, h: Any, c: Any, is_back: bool
) -> tuple[Any, Any, Any, Any, Any]:
    activated, outputs = np.empty_like(gates), np.empty((*gates.shape[:2], h.shape[1]), gates.dtype)
    cells = np.empty_like(outputs)
    for t in _order(len(gates), is_back):
        i, f, g, o = np.split(h @ weight.T + bias + gates[t], LSTM_GATES, -1)
        i, f, g, o = np_sigmoid(i), np_sigmoid(f), np.tanh(g), np_sigmoid(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        outputs[t], cells[t], activated[t] = h, c, np.concatenate([i, f, g, o], -1)
    return outputs, h, c, cells, activated


def _lower_lstm_layer(b: Any, gates: Any, weight: Any, bias: Any, h: Any, c: Any, is_back: bool) -> tuple[Any, ...]:
    outputs, cells, activated = b.recurrent("lstm", [gates, weight, bias, h, c], is_back)
    return outputs, _last(b, outputs, is_back), _last(b, cells, is_back), cells, activated


def _lstm_layer_joint(
    context: RuleContext, grads: Any, wanted: list[int], weight: Any, h: Any, c: Any, outputs: Any, cells: Any,
    activated: Any,
) -> dict[int, Any]:  # fmt: skip
    (is_back,) = context.params
    grad, of_h, of_c = (defined(g, like) for g, like in zip(grads[:3], (outputs, h, c), strict=True))
    if _goes_by_steps(*grads[3:]):
        of_gates: list[Any] = [None] * outputs.shape[0]
        order = _order(len(of_gates), is_back)
        for turn in reversed(range(len(order))):
            t = order[turn]
            before = cells.select(0, order[turn - 1]) if turn else c
            if grads[3] is not None:
                of_c = of_c + grads[3].select(0, t)
            given = grad.select(0, t) + of_h, of_c, _at(grads[4], t)
            of_gates[t], of_c = through_lstm_gates(given, before, cells.select(0, t), activated.select(0, t))
            of_h = of_gates[t].mm(weight)
        of_all = call("stack", of_gates, 0)
    else:
        kept = (c, cells, activated, weight)
        of_all, of_h, of_c = call("_lstm_layer_backward", grad, of_h, of_c, *kept, is_back)
    return _of_operands(wanted, of_all, of_all, (of_h, of_c), outputs, h, is_back)


define(
    "_lstm_layer",
    aval=_layer_aval("_lstm_layer", LSTM_GATES, 2, (1, LSTM_GATES)),
    numpy=_np_lstm_layer,
    lower=_lower_lstm_layer,
    lowers=_fits_kernels,
    vjps=[joint_vjp(_lstm_layer_joint, i, (1, 3, 4, "out", "out3", "out4")) for i in range(5)],
    num_inputs=5,
    node_name="MkldnnRnnLayerBackward0",
    joint=_lstm_layer_joint,
)


def _lstm_layer_backward_aval(
    grad: Aval, of_h: Aval, of_c: Aval, c: Aval, cells: Aval, activated: Aval, weight: Aval, is_back: bool
) -> tuple[Aval, ...]:
    _check_backward("_lstm_layer_backward", LSTM_GATES, (activated,), (grad, cells), (of_h, of_c, c), weight)
    state = make_aval(c.shape, c.dtype)
    return make_aval(activated.shape, activated.dtype), state, state


def _np_lstm_layer_backward(
    grad: Any, of_h: Any, of_c: Any, c: Any, cells: Any, activated: Any, weight: Any, is_back: bool
) -> tuple[Any, Any, Any]:
    of_gates, order = np.empty_like(activated), _order(len(grad), is_back)
    for turn in reversed(range(len(order))):
        t = order[turn]
        i, f, g, o = np.split(activated[t], LSTM_GATES, -1)
        before, tanh_c, to_h = cells[order[turn - 1]] if turn else c, np.tanh(cells[t]), grad[t] + of_h
        of_c = of_c + to_h * o * (1 - tanh_c * tanh_c)
        of_each = [of_c * g * (1 - i) * i, of_c * before * (1 - f) * f, of_c * i * (1 - g * g)]
        of_each.append(to_h * tanh_c * (1 - o) * o)
        of_gates[t] = np.concatenate(of_each, -1)
        of_h, of_c = of_gates[t] @ weight, of_c * f
    return of_gates, of_h, of_c


def _lower_lstm_layer_backward(b: Any, *operands: Any) -> tuple[Any, ...]:
    *given, is_back = operands
    found: tuple[Any, ...] = b.recurrent("lstm_backward", given, is_back)
    return found


define(
    "_lstm_layer_backward",
    aval=_lstm_layer_backward_aval,
    numpy=_np_lstm_layer_backward,
    lower=_lower_lstm_layer_backward,
    lowers=_fits_kernels,
    num_inputs=7,
)


# --- _gru_layer(gates, weight, bias, h; is_back) -> (outputs, h, activated gates, states' part of the third gate) ---


def _np_gru_layer(gates: Any, weight: Any, bias: Any, h: Any, is_back: bool) -> tuple[Any, Any, Any, Any]:
    activated, outputs = np.empty_like(gates), np.empty((*gates.shape[:2], h.shape[1]), gates.dtype)
    new = np.empty_like(outputs)
    for t in _order(len(gates), is_back):
        (r_x, z_x, n_x), (r_h, z_h, n_h) = (np.split(x, GRU_GATES, -1) for x in (gates[t], h @ weight.T + bias))
        r, z = np_sigmoid(r_x + r_h), np_sigmoid(z_x + z_h)
        n = np.tanh(n_x + r * n_h)
        h = n + z * (h - n)
        outputs[t], activated[t], new[t] = h, np.concatenate([r, z, n], -1), n_h
    return outputs, h, activated, new


def _lower_gru_layer(b: Any, gates: Any, weight: Any, bias: Any, h: Any, is_back: bool) -> tuple[Any, ...]:
    outputs, activated, new = b.recurrent("gru", [gates, weight, bias, h], is_back)
    return outputs, _last(b, outputs, is_back), activated, new


def _gru_layer_joint(
    context: RuleContext, grads: Any, wanted: list[int], weight: Any, h: Any, outputs: Any, activated: Any, new: Any
) -> dict[int, Any]:
    (is_back,) = context.params
    grad, of_h = defined(grads[0], outputs), defined(grads[1], h)
    if _goes_by_steps(*grads[2:]):
        of_gates: list[Any] = [None] * outputs.shape[0]
        of_hidden: list[Any] = [*of_gates]
        order = _order(len(of_gates), is_back)
        for turn in reversed(range(len(order))):
            t = order[turn]
            before = outputs.select(0, order[turn - 1]) if turn else h
            given = grad.select(0, t) + of_h, _at(grads[2], t), _at(grads[3], t)
            parts = new.select(0, t), before, activated.select(0, t)
            of_gates[t], of_hidden[t], direct = through_gru_gates(given, *parts)
            of_h = direct + of_hidden[t].mm(weight)
        of_inputs, of_states = call("stack", of_gates, 0), call("stack", of_hidden, 0)
    else:
        kept = (h, outputs, activated, new, weight)
        of_inputs, of_states, of_h = call("_gru_layer_backward", grad, of_h, *kept, is_back)
    return _of_operands(wanted, of_inputs, of_states, (of_h,), outputs, h, is_back)


define(
    "_gru_layer",
    aval=_layer_aval("_gru_layer", GRU_GATES, 1, (GRU_GATES, 1)),
    numpy=_np_gru_layer,
    lower=_lower_gru_layer,
    lowers=_fits_kernels,
    vjps=[joint_vjp(_gru_layer_joint, i, (1, 3, "out", "out2", "out3")) for i in range(4)],
    num_inputs=4,
    node_name="MkldnnRnnLayerBackward0",
    joint=_gru_layer_joint,
)


def _gru_layer_backward_aval(
    grad: Aval, of_h: Aval, h: Aval, outputs: Aval, activated: Aval, new: Aval, weight: Aval, is_back: bool
) -> tuple[Aval, ...]:
    _check_backward("_gru_layer_backward", GRU_GATES, (activated,), (grad, outputs, new), (of_h, h), weight)
    of_gates = make_aval(activated.shape, activated.dtype)
    return of_gates, of_gates, make_aval(h.shape, h.dtype)


def _np_gru_layer_backward(
    grad: Any, of_h: Any, h: Any, outputs: Any, activated: Any, new: Any, weight: Any, is_back: bool
) -> tuple[Any, Any, Any]:
    of_gates, of_hidden, order = np.empty_like(activated), np.empty_like(activated), _order(len(grad), is_back)
    for turn in reversed(range(len(order))):
        t = order[turn]
        r, z, n = np.split(activated[t], GRU_GATES, -1)
        before, to_h = outputs[order[turn - 1]] if turn else h, grad[t] + of_h
        to_n = to_h * (1 - z) * (1 - n * n)
        shared = [to_n * new[t] * (1 - r) * r, to_h * (before - n) * (1 - z) * z]
        of_gates[t], of_hidden[t] = np.concatenate([*shared, to_n], -1), np.concatenate([*shared, to_n * r], -1)
        of_h = to_h * z + of_hidden[t] @ weight
    return of_gates, of_hidden, of_h


def _lower_gru_layer_backward(b: Any, *operands: Any) -> tuple[Any, ...]:
    *given, is_back = operands
    found: tuple[Any, ...] = b.recurrent("gru_backward", given, is_back)
    return found


define(
    "_gru_layer_backward",
    aval=_gru_layer_backward_aval,
    numpy=_np_gru_layer_backward,
    lower=_lower_gru_layer_backward,
    lowers=_fits_kernels,
    num_inputs=7,
)


# --- _rnn_tanh_layer, _rnn_relu_layer(gates, weight, bias, h; is_back) -> (outputs, h) ---


def _np_relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _define_plain(kind: str, activation: Callable[[Any], Any], np_through: Callable[[Any, Any], Any],
                  through: Callable[[Any, Any], Any]) -> None:  # fmt: skip
    """A layer whose state is ``activation`` of its one gate; ``through``: what its gradient makes of the gate's."""
    name = f"_rnn_{kind}_layer"
    backward_name = f"{name}_backward"

    def numpy(gates: Any, weight: Any, bias: Any, h: Any, is_back: bool) -> tuple[Any, Any]:
        outputs = np.empty_like(gates)
        for t in _order(len(gates), is_back):
            outputs[t] = h = activation(h @ weight.T + bias + gates[t])
        return outputs, h

    def lower(b: Any, gates: Any, weight: Any, bias: Any, h: Any, is_back: bool) -> tuple[Any, ...]:
        (outputs,) = b.recurrent(kind, [gates, weight, bias, h], is_back)
        return outputs, _last(b, outputs, is_back)

    def joint(
        context: RuleContext, grads: Any, wanted: list[int], weight: Any, h: Any, outputs: Any
    ) -> dict[int, Any]:
        (is_back,) = context.params
        grad, of_h = defined(grads[0], outputs), defined(grads[1], h)
        if _goes_by_steps():
            of_gates: list[Any] = [None] * outputs.shape[0]
            for t in reversed(_order(len(of_gates), is_back)):
                of_gates[t] = through(grad.select(0, t) + of_h, outputs.select(0, t))
                of_h = of_gates[t].mm(weight)
            of_all = call("stack", of_gates, 0)
        else:
            of_all, of_h = call(backward_name, grad, of_h, outputs, weight, is_back)
        return _of_operands(wanted, of_all, of_all, (of_h,), outputs, h, is_back)

    define(
        name,
        aval=_layer_aval(name, 1, 1, ()),
        numpy=numpy,
        lower=lower,
        lowers=_fits_kernels,
        vjps=[joint_vjp(joint, i, (1, 3, "out")) for i in range(4)],
        num_inputs=4,
        node_name="MkldnnRnnLayerBackward0",
        joint=joint,
    )

    def backward_aval(grad: Aval, of_h: Aval, outputs: Aval, weight: Aval, is_back: bool) -> tuple[Aval, ...]:
        _check_backward(backward_name, 1, (), (grad, outputs), (of_h,), weight)
        return make_aval(outputs.shape, outputs.dtype), make_aval(of_h.shape, of_h.dtype)

    def backward_numpy(grad: Any, of_h: Any, outputs: Any, weight: Any, is_back: bool) -> tuple[Any, Any]:
        of_gates = np.empty_like(outputs)
        for t in reversed(_order(len(grad), is_back)):
            of_gates[t] = np_through(grad[t] + of_h, outputs[t])
            of_h = of_gates[t] @ weight
        return of_gates, of_h

    def backward_lower(b: Any, *operands: Any) -> tuple[Any, ...]:
        *given, is_back = operands
        found: tuple[Any, ...] = b.recurrent(f"{kind}_backward", given, is_back)
        return found

    define(
        backward_name,
        aval=backward_aval,
        numpy=backward_numpy,
        lower=backward_lower,
        lowers=_fits_kernels,
        num_inputs=4,
    )


_define_plain("tanh", np.tanh, lambda g, y: g * (1 - y * y), lambda g, y: g * (1 - y * y))
_define_plain("relu", _np_relu, lambda g, y: np.where(y <= 0, 0, g), lambda g, y: call("threshold_backward", g, y))
