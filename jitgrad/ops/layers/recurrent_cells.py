"""What a recurrent cell does behind its products: ``_lstm_cell`` and ``_gru_cell``, one operation each.

Owns: both operations, and their derivatives by the gates. A loop over time records one where it would record ten.
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
from jitgrad.ops.table import RuleContext, define, joint_vjp
from jitgrad.ops.views.views import lower_slice

__all__ = ["GRU_GATES", "LSTM_GATES", "defined", "through_gru_gates", "through_lstm_gates"]

LSTM_GATES, GRU_GATES = 4, 3
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


def _parts(b: Any, gates: Any, count: int) -> list[Any]:
    """Each gate, over primitives."""
    last, width = len(gates.shape) - 1, gates.shape[-1] // count
    return [lower_slice(b, gates, last, i * width, (i + 1) * width, 1) for i in range(count)]


def defined(g: Any, like: Any) -> Any:
    """The gradient, or zeros where there is none."""
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
    i, f, g, o = np.split(x + hidden, LSTM_GATES, -1)
    i, f, g, o = np_sigmoid(i), np_sigmoid(f), np.tanh(g), np_sigmoid(o)
    c = f * c + i * g
    return o * np.tanh(c), c, np.concatenate([i, f, g, o], -1)


def _lower_lstm(b: Any, x: Any, hidden: Any, c: Any) -> tuple[Any, Any, Any]:
    i, f, g, o = _parts(b, b.add(x, hidden), LSTM_GATES)
    i, f, g, o = b.sigmoid(i), b.sigmoid(f), b.tanh(g), b.sigmoid(o)
    c = b.add(b.mul(f, c), b.mul(i, g))
    return b.mul(o, b.tanh(c)), c, b.cat([i, f, g, o], len(x.shape) - 1)


def through_lstm_gates(given: tuple[Any, Any, Any], c: Any, new_c: Any, gates: Any) -> tuple[Any, Any]:
    """The gradients (of the gates before their activations, of ``c``), over Tensors.

    Args:
        given: the gradients of h, of ``new_c`` or None, and of the activated gates or None.
        c, new_c, gates: the cell before and behind the step, and the activated gates.
    """
    grad_h, grad_c, own = given
    i, f, g, o = gates.chunk(LSTM_GATES, -1)
    own_i, own_f, own_g, own_o = _of_each(own, LSTM_GATES)
    tanh_c = new_c.tanh()
    through_h = _through_tanh(grad_h * o, None, tanh_c)
    grad_c = through_h if grad_c is None else grad_c + through_h
    parts = [
        _through_sigmoid(grad_c * g, own_i, i),
        _through_sigmoid(grad_c * c, own_f, f),
        _through_tanh(grad_c * i, own_g, g),
        _through_sigmoid(grad_h * tanh_c, own_o, o),
    ]
    return call("cat", parts, -1), grad_c * f


def _lstm_joint(_: RuleContext, grads: Any, wanted: list[int], c: Any, new_c: Any, gates: Any) -> dict[int, Any]:
    of_gates, of_c = through_lstm_gates((defined(grads[0], new_c), grads[1], grads[2]), c, new_c, gates)
    found = {0: of_gates, 1: of_gates, 2: of_c}
    return {n: found[n] for n in wanted}


define(
    "_lstm_cell",
    aval=_cell_aval("_lstm_cell", LSTM_GATES, 2),
    numpy=_np_lstm,
    lower=_lower_lstm,
    vjps=[joint_vjp(_lstm_joint, i, (2, "out1", "out2")) for i in range(3)],
    num_inputs=3,
    node_name="ThnnFusedLstmCellBackward0",
    joint=_lstm_joint,
)


# --- _gru_cell(x's part of the gates, h's, h) -> (h, activated gates) ---


def _np_gru(x: Any, hidden: Any, h: Any) -> tuple[Any, Any]:
    (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(x, GRU_GATES, -1), np.split(hidden, GRU_GATES, -1)
    r, z = np_sigmoid(r_x + r_h), np_sigmoid(z_x + z_h)
    n = np.tanh(n_x + r * n_h)
    return n + z * (h - n), np.concatenate([r, z, n], -1)


def _lower_gru(b: Any, x: Any, hidden: Any, h: Any) -> tuple[Any, Any]:
    (r_x, z_x, n_x), (r_h, z_h, n_h) = _parts(b, x, GRU_GATES), _parts(b, hidden, GRU_GATES)
    r, z = b.sigmoid(b.add(r_x, r_h)), b.sigmoid(b.add(z_x, z_h))
    n = b.tanh(b.add(n_x, b.mul(r, n_h)))
    return b.add(n, b.mul(z, b.sub(h, n))), b.cat([r, z, n], len(x.shape) - 1)


def through_gru_gates(given: tuple[Any, Any, Any], n_h: Any, h: Any, gates: Any) -> tuple[Any, Any, Any]:
    """The gradients (of x's part of the gates, of the state's part, of ``h`` but through that), over Tensors.

    Args:
        given: the gradients of the new h, of the activated gates or None, and of ``n_h`` or None.
        n_h: the state's part of the third gate.
        h, gates: the state before the step, and the activated gates.
    """
    grad_h, own, own_n_h = given
    r, z, n = gates.chunk(GRU_GATES, -1)
    own_r, own_z, own_n = _of_each(own, GRU_GATES)
    grad_n = _through_tanh(grad_h * (1 - z), own_n, n)
    shared = [_through_sigmoid(grad_n * n_h, own_r, r), _through_sigmoid(grad_h * (h - n), own_z, z)]
    of_n_h = grad_n * r if own_n_h is None else grad_n * r + own_n_h
    return call("cat", [*shared, grad_n], -1), call("cat", [*shared, of_n_h], -1), grad_h * z


def _gru_joint(_: RuleContext, grads: Any, wanted: list[int], hidden: Any, h: Any, gates: Any) -> dict[int, Any]:
    n_h = hidden.chunk(GRU_GATES, -1)[2]
    return dict(
        item for item in enumerate(through_gru_gates((defined(grads[0], h), grads[1], None), n_h, h, gates))
        if item[0] in wanted
    )  # fmt: skip


define(
    "_gru_cell",
    aval=_cell_aval("_gru_cell", GRU_GATES, 1),
    numpy=_np_gru,
    lower=_lower_gru,
    vjps=[joint_vjp(_gru_joint, i, (1, 2, "out1")) for i in range(3)],
    num_inputs=3,
    node_name="ThnnFusedGruCellBackward0",
    joint=_gru_joint,
)
