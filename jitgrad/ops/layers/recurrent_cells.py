"""What a recurrent cell does behind its products: ``_lstm_cell`` and ``_gru_cell``, one operation each.

Owns: both operations. A loop over time records one of them where it would record ten.
Must not know: Tensor, kernels, weights.

Gates are in PyTorch's order, side by side in the last dimension. Besides the state, the last result is what the
derivatives read: the gates behind their activations. (PyTorch calls it the workspace.) Sources: Hochreiter and
Schmidhuber, "Long Short-Term Memory", 1997; Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder",
2014.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.formulas.special import np_sigmoid
from jitgrad.ops.shapes import operand
from jitgrad.ops.table import RuleContext, define, joint_vjp
from jitgrad.ops.views.views import lower_slice

__all__: list[str] = []

_LSTM_GATES, _GRU_GATES = 4, 3
Joint = Callable[..., "dict[int, Any]"]


def _cell_aval(name: str, count: int, states: int) -> Callable[..., tuple[Aval, ...]]:
    """The rule for (x's part of ``count`` gates, h's, state) -> (``states`` states, activated gates)."""

    def aval(x: Aval, hidden: Aval, state: Aval) -> tuple[Aval, ...]:
        gates = (*state.shape[:-1], count * state.shape[-1]) if state.ndim else ()
        if not state.ndim or x.shape != gates or hidden.shape != gates:
            raise RuntimeError(
                f"{name}: gates of shape {list(gates)} go with a state of shape {list(state.shape)}, got "
                f"{list(x.shape)} and {list(hidden.shape)}"
            )
        if not (x.dtype is hidden.dtype is state.dtype and state.dtype.category is FLOATING):
            raise RuntimeError(
                f"{name}: gates and state must be of one floating dtype, got {x.dtype}, {hidden.dtype}, {state.dtype}"
            )
        return (*[make_aval(state.shape, state.dtype)] * states, make_aval(gates, state.dtype))

    return aval


def _check_backward(name: str, gates: tuple[Aval, ...], states: tuple[Aval, ...], count: int) -> None:
    """Kernels go by one operand's extents; a caller's mistake is an error before they read beside another."""
    state = states[-1]
    wide = (*state.shape[:-1], count * state.shape[-1]) if state.ndim else None
    if any(x.shape != wide for x in gates) or any(x.shape != state.shape for x in states):
        shapes = [list(x.shape) for x in (*states, *gates)]
        raise RuntimeError(f"{name}: states and {count} times as wide gates must have one shape, got {shapes}")


def _parts(b: Any, gates: Any, count: int) -> list[Any]:
    """Each gate, over primitives."""
    last, width = len(gates.shape) - 1, gates.shape[-1] // count
    return [lower_slice(b, gates, last, i * width, (i + 1) * width, 1) for i in range(count)]


def _defined(g: Any, like: Any) -> Any:
    return call("zeros_like", like) if g is None else g


def _of_each(of_gates: Any, count: int) -> list[Any]:
    """The gradients of the activated gates, which derivatives of a rule have: those that read them."""
    return [None] * count if of_gates is None else list(of_gates.chunk(count, -1))


def _through_sigmoid(g: Any, own: Any, y: Any) -> Any:
    """What the gradient of ``y`` = sigmoid(x) makes of x; ``own``: more of it, or None."""
    return (g if own is None else g + own) * (1 - y) * y


def _through_tanh(g: Any, own: Any, y: Any) -> Any:
    return (g if own is None else g + own) * (1 - y * y)


# --- _lstm_cell(x's part of the gates, h's, c) -> (h, c, activated gates) ---


def _np_lstm(x: Any, hidden: Any, c: Any) -> tuple[Any, Any, Any]:
    i, f, g, o = np.split(x + hidden, _LSTM_GATES, -1)
    i, f, g, o = np_sigmoid(i), np_sigmoid(f), np.tanh(g), np_sigmoid(o)
    c = f * c + i * g
    return o * np.tanh(c), c, np.concatenate([i, f, g, o], -1)


def _lower_lstm(b: Any, x: Any, hidden: Any, c: Any) -> tuple[Any, Any, Any]:
    i, f, g, o = _parts(b, b.add(x, hidden), _LSTM_GATES)
    i, f, g, o = b.sigmoid(i), b.sigmoid(f), b.tanh(g), b.sigmoid(o)
    c = b.add(b.mul(f, c), b.mul(i, g))
    return b.mul(o, b.tanh(c)), c, b.cat([i, f, g, o], len(x.shape) - 1)


def _lstm_joint(_: RuleContext, grads: Any, wanted: list[int], c: Any, new_c: Any, gates: Any) -> dict[int, Any]:
    i, f, g, o = gates.chunk(_LSTM_GATES, -1)
    own_i, own_f, own_g, own_o = _of_each(grads[2], _LSTM_GATES)
    tanh_c, grad_h = new_c.tanh(), _defined(grads[0], new_c)
    grad_c = _through_tanh(grad_h * o, None, tanh_c)
    grad_c = grad_c if grads[1] is None else grads[1] + grad_c
    found = {2: grad_c * f} if 2 in wanted else {}
    if 0 in wanted or 1 in wanted:
        parts = [
            _through_sigmoid(grad_c * g, own_i, i),
            _through_sigmoid(grad_c * c, own_f, f),
            _through_tanh(grad_c * i, own_g, g),
            _through_sigmoid(grad_h * tanh_c, own_o, o),
        ]
        found |= dict.fromkeys([n for n in wanted if n < 2], call("cat", parts, -1))
    return found


define(
    "_lstm_cell",
    aval=_cell_aval("_lstm_cell", _LSTM_GATES, 2),
    numpy=_np_lstm,
    lower=_lower_lstm,
    vjps=[joint_vjp(_lstm_joint, i, (2, "out1", "out2")) for i in range(3)],
    num_inputs=3,
    node_name="ThnnFusedLstmCellBackward0",
    joint=_lstm_joint,
)


# --- _lstm_cell_backward(gradient of h, more of it, of the new c; c, new c, gates) -> (of the gates, of c) ---
# ``_lstm_joint`` as one operation, for a layer's own backward; it is not differentiated itself.


def _lstm_backward_aval(g: Aval, more: Aval, grad_c: Aval, c: Aval, new_c: Aval, gates: Aval) -> tuple[Aval, ...]:
    _check_backward("_lstm_cell_backward", (gates,), (g, more, grad_c, new_c, c), _LSTM_GATES)
    return make_aval(gates.shape, gates.dtype), make_aval(c.shape, c.dtype)


def _np_lstm_backward(g: Any, more: Any, grad_c: Any, c: Any, new_c: Any, gates: Any) -> tuple[Any, Any]:
    i, f, z, o = np.split(gates, _LSTM_GATES, -1)
    tanh_c, grad_h = np.tanh(new_c), g + more
    grad_c = grad_c + grad_h * o * (1 - tanh_c * tanh_c)
    of_gates = [
        grad_c * z * (1 - i) * i, grad_c * c * (1 - f) * f, grad_c * i * (1 - z * z), grad_h * tanh_c * (1 - o) * o
    ]  # fmt: skip
    return np.concatenate(of_gates, -1), grad_c * f


def _lower_lstm_backward(b: Any, g: Any, more: Any, grad_c: Any, c: Any, new_c: Any, gates: Any) -> tuple[Any, Any]:
    i, f, z, o = _parts(b, gates, _LSTM_GATES)
    tanh_c, grad_h = b.tanh(new_c), b.add(g, more)
    grad_c = b.add(grad_c, _lower_through_tanh(b, b.mul(grad_h, o), tanh_c))
    of_gates = [
        _lower_through_sigmoid(b, b.mul(grad_c, z), i),
        _lower_through_sigmoid(b, b.mul(grad_c, c), f),
        _lower_through_tanh(b, b.mul(grad_c, i), z),
        _lower_through_sigmoid(b, b.mul(grad_h, tanh_c), o),
    ]
    return b.cat(of_gates, len(gates.shape) - 1), b.mul(grad_c, f)


def _lower_through_sigmoid(b: Any, g: Any, y: Any) -> Any:
    return b.mul(b.mul(g, b.sub(operand(b, 1, y.dtype), y)), y)


def _lower_through_tanh(b: Any, g: Any, y: Any) -> Any:
    return b.mul(g, b.sub(operand(b, 1, y.dtype), b.mul(y, y)))


define(
    "_lstm_cell_backward",
    aval=_lstm_backward_aval,
    numpy=_np_lstm_backward,
    lower=_lower_lstm_backward,
    num_inputs=6,
)


# --- _gru_cell(x's part of the gates, h's, h) -> (h, activated gates) ---


def _np_gru(x: Any, hidden: Any, h: Any) -> tuple[Any, Any]:
    (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(x, _GRU_GATES, -1), np.split(hidden, _GRU_GATES, -1)
    r, z = np_sigmoid(r_x + r_h), np_sigmoid(z_x + z_h)
    n = np.tanh(n_x + r * n_h)
    return n + z * (h - n), np.concatenate([r, z, n], -1)


def _lower_gru(b: Any, x: Any, hidden: Any, h: Any) -> tuple[Any, Any]:
    (r_x, z_x, n_x), (r_h, z_h, n_h) = _parts(b, x, _GRU_GATES), _parts(b, hidden, _GRU_GATES)
    r, z = b.sigmoid(b.add(r_x, r_h)), b.sigmoid(b.add(z_x, z_h))
    n = b.tanh(b.add(n_x, b.mul(r, n_h)))
    return b.add(n, b.mul(z, b.sub(h, n))), b.cat([r, z, n], len(x.shape) - 1)


def _gru_joint(_: RuleContext, grads: Any, wanted: list[int], hidden: Any, h: Any, gates: Any) -> dict[int, Any]:
    r, z, n = gates.chunk(_GRU_GATES, -1)
    own_r, own_z, own_n = _of_each(grads[1], _GRU_GATES)
    grad_h = _defined(grads[0], h)
    found = {2: grad_h * z} if 2 in wanted else {}
    if 0 in wanted or 1 in wanted:
        grad_n = _through_tanh(grad_h * (1 - z), own_n, n)
        n_h = hidden.chunk(_GRU_GATES, -1)[2]
        shared = [_through_sigmoid(grad_n * n_h, own_r, r), _through_sigmoid(grad_h * (h - n), own_z, z)]
        ends = {0: grad_n, 1: grad_n * r}
        found |= {i: call("cat", [*shared, end], -1) for i, end in ends.items() if i in wanted}
    return found


define(
    "_gru_cell",
    aval=_cell_aval("_gru_cell", _GRU_GATES, 1),
    numpy=_np_gru,
    lower=_lower_gru,
    vjps=[joint_vjp(_gru_joint, i, (1, 2, "out1")) for i in range(3)],
    num_inputs=3,
    node_name="ThnnFusedGruCellBackward0",
    joint=_gru_joint,
)


# --- _gru_cell_backward(gradient of the new h, more of it; h's gates, h, gates) -> (of x's gates, of h's, of h) ---


def _gru_backward_aval(g: Aval, more: Aval, hidden: Aval, h: Aval, gates: Aval) -> tuple[Aval, ...]:
    _check_backward("_gru_cell_backward", (hidden, gates), (g, more, h), _GRU_GATES)
    of_gates = make_aval(gates.shape, gates.dtype)
    return of_gates, of_gates, make_aval(h.shape, h.dtype)


def _np_gru_backward(g: Any, more: Any, hidden: Any, h: Any, gates: Any) -> tuple[Any, Any, Any]:
    r, z, n = np.split(gates, _GRU_GATES, -1)
    n_h = np.split(hidden, _GRU_GATES, -1)[2]
    grad_h = g + more
    grad_n = grad_h * (1 - z) * (1 - n * n)
    shared = [grad_n * n_h * (1 - r) * r, grad_h * (h - n) * (1 - z) * z]
    return np.concatenate([*shared, grad_n], -1), np.concatenate([*shared, grad_n * r], -1), grad_h * z


def _lower_gru_backward(b: Any, g: Any, more: Any, hidden: Any, h: Any, gates: Any) -> tuple[Any, Any, Any]:
    r, z, n = _parts(b, gates, _GRU_GATES)
    n_h = _parts(b, hidden, _GRU_GATES)[2]
    grad_h = b.add(g, more)
    grad_n = _lower_through_tanh(b, b.mul(grad_h, b.sub(operand(b, 1, z.dtype), z)), n)
    shared = [
        _lower_through_sigmoid(b, b.mul(grad_n, n_h), r),
        _lower_through_sigmoid(b, b.mul(grad_h, b.sub(h, n)), z),
    ]
    last = len(gates.shape) - 1
    return b.cat([*shared, grad_n], last), b.cat([*shared, b.mul(grad_n, r)], last), b.mul(grad_h, z)


define(
    "_gru_cell_backward",
    aval=_gru_backward_aval,
    numpy=_np_gru_backward,
    lower=_lower_gru_backward,
    num_inputs=5,
)
