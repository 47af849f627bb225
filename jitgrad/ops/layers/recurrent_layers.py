"""Recurrent layers over all steps as one operation: ``_lstm_layer``, ``_gru_layer``, ``_rnn_tanh_layer``,
``_rnn_relu_layer``; the same with ``_packed`` behind it, of rows that end one after the other; their backwards.

Owns: these operations. A layer of 500 steps is recorded as one of 5.
Must not know: Tensor, kernels, layers of a network.

Operands: the inputs' part of the gates, [T, N, gates * H], T steps of N rows; the weight of states [gates * H, H] and
its bias; the states to begin with, [N, H]. The param ``is_back``: from the last step to the first. Results: the outputs
[T, N, H], the states at the ends, and what derivatives read. Packed rows are [rows of all steps, *], one step behind
the other, and the last operand says how many rows each step has, [T] int64, first all N and then never more than
before; with other numbers, which layers refuse, all results are NaN. What a step computes, and its sources, are those
of ``recurrent_cells.py``.

The gradient of the weight is ONE product over the rows of all steps,
  dW = [dG[0]; dG[1]; ...].T @ [h[-1]; h[0]; ...],
and the way through the steps is one operation, the layer's backward, which is not differentiated itself: with
``create_graph``, the rules of the single steps run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jitgrad.dtypes import FLOATING, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.formulas.special import np_sigmoid
from jitgrad.ops.layers.recurrent_cells import GRU_GATES, LSTM_GATES, defined, through_gru_gates, through_lstm_gates
from jitgrad.ops.table import RuleContext, define, joint_vjp
from jitgrad.state import state as thread

__all__: list[str] = []


class _Layer(NamedTuple):
    """A kind of layer.

    Attributes:
        name: of its primitive.
        gates: per hidden unit.
        states: how many there are.
        kept: widths per hidden unit of the results that derivatives read.
        step: NumPy's (inputs' part, states' part, states) -> (new states, what is kept).
        through: NumPy's (gradient of the output, of the other states, states before, output, what was kept) ->
            (gradients of both parts of the gates, of the states, but through the product).
        through_tensors: the same over Tensors, with the gradients of what was kept as one more argument.
    """

    name: str
    gates: int
    states: int
    kept: tuple[int, ...]
    step: Callable[..., Any]
    through: Callable[..., Any]
    through_tensors: Callable[..., Any]


# --- one step ---


def _lstm_step(x: Any, hidden: Any, states: Sequence[Any]) -> Any:
    i, f, g, o = np.split(hidden + x, LSTM_GATES, -1)
    i, f, g, o = np_sigmoid(i), np_sigmoid(f), np.tanh(g), np_sigmoid(o)
    c = f * states[1] + i * g
    return (o * np.tanh(c), c), (c, np.concatenate([i, f, g, o], -1))


def _through_lstm(to_h: Any, others: Sequence[Any], states: Sequence[Any], y: Any, kept: Sequence[Any]) -> Any:
    (to_c,), c, (new_c, activated) = others, states[1], kept
    i, f, g, o = np.split(activated, LSTM_GATES, -1)
    tanh_c = np.tanh(new_c)
    to_c = to_c + to_h * o * (1 - tanh_c * tanh_c)
    of_each = [to_c * g * (1 - i) * i, to_c * c * (1 - f) * f, to_c * i * (1 - g * g), to_h * tanh_c * (1 - o) * o]
    of_gates = np.concatenate(of_each, -1)
    return of_gates, of_gates, (None, to_c * f)


def _through_lstm_tensors(
    to_h: Any, others: Sequence[Any], states: Sequence[Any], y: Any, kept: Sequence[Any], own: Sequence[Any]
) -> Any:
    (to_c,), (new_c, activated), (of_new_c, of_activated) = others, kept, own
    to_c = to_c if of_new_c is None else to_c + of_new_c
    of_gates, of_c = through_lstm_gates((to_h, to_c, of_activated), states[1], new_c, activated)
    return of_gates, of_gates, (None, of_c)


def _gru_step(x: Any, hidden: Any, states: Sequence[Any]) -> Any:
    (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(x, GRU_GATES, -1), np.split(hidden, GRU_GATES, -1)
    r, z = np_sigmoid(r_x + r_h), np_sigmoid(z_x + z_h)
    n = np.tanh(n_x + r * n_h)
    return (n + z * (states[0] - n),), (np.concatenate([r, z, n], -1), n_h)


def _through_gru(to_h: Any, others: Sequence[Any], states: Sequence[Any], y: Any, kept: Sequence[Any]) -> Any:
    activated, n_h = kept
    r, z, n = np.split(activated, GRU_GATES, -1)
    to_n = to_h * (1 - z) * (1 - n * n)
    shared = [to_n * n_h * (1 - r) * r, to_h * (states[0] - n) * (1 - z) * z]
    return np.concatenate([*shared, to_n], -1), np.concatenate([*shared, to_n * r], -1), (to_h * z,)


def _through_gru_tensors(
    to_h: Any, others: Sequence[Any], states: Sequence[Any], y: Any, kept: Sequence[Any], own: Sequence[Any]
) -> Any:
    of_gates, of_hidden, of_h = through_gru_gates((to_h, *own), kept[1], states[0], kept[0])
    return of_gates, of_hidden, (of_h,)


def _plain_step(activation: Callable[[Any], Any], x: Any, hidden: Any, states: Sequence[Any]) -> Any:
    return (activation(hidden + x),), ()


def _through_plain(through: Callable[[Any, Any], Any], to_h: Any, others: Any, states: Any, y: Any, *_: Any) -> Any:
    of_gates = through(to_h, y)
    return of_gates, of_gates, (None,)


def _through_tanh(g: Any, y: Any) -> Any:
    return g * (1 - y * y)


def _np_relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _np_through_relu(g: Any, y: Any) -> Any:
    return np.where(y <= 0, 0, g)


def _through_relu(g: Any, y: Any) -> Any:
    return call("threshold_backward", g, y)


_LAYERS = {
    "_lstm_layer": _Layer("lstm", LSTM_GATES, 2, (1, LSTM_GATES), _lstm_step, _through_lstm, _through_lstm_tensors),
    "_gru_layer": _Layer("gru", GRU_GATES, 1, (GRU_GATES, 1), _gru_step, _through_gru, _through_gru_tensors),
    "_rnn_tanh_layer": _Layer(
        "tanh", 1, 1, (), partial(_plain_step, np.tanh), partial(_through_plain, _through_tanh),
        partial(_through_plain, _through_tanh),
    ),
    "_rnn_relu_layer": _Layer(
        "relu", 1, 1, (), partial(_plain_step, _np_relu), partial(_through_plain, _np_through_relu),
        partial(_through_plain, _through_relu),
    ),
}  # fmt: skip


# --- shapes ---


def _check(name: str, layer: _Layer, wide: Sequence[Aval], outputs: Sequence[Aval], states: Sequence[Aval],
           weight: Aval, rank: int) -> None:  # fmt: skip
    """Kernels go by one operand's extents; a caller's mistake is an error before they read beside another.

    Args:
        wide: arrays of all gates.
        outputs: arrays of the outputs' shape.
        states: [N, H].
        weight: of the states.
        rank: of arrays of all steps.
    """
    hidden = weight.shape[-1] if weight.ndim == 2 else -1
    first = (wide[0] if wide else outputs[0]).shape
    rows = states[0].shape[0] if states[0].ndim else -1
    fits = (
        len(first) == rank
        and weight.shape == (layer.gates * hidden, hidden)
        and all(x.shape == (*first[:-1], layer.gates * hidden) for x in wide)
        and all(x.shape == (*first[:-1], hidden) for x in outputs)
        and all(x.shape == (rows, hidden) for x in states)
        and (rank == 2 or rows == first[1])
    )
    arrays = (*wide, *outputs, *states, weight)
    if not fits:
        raise RuntimeError(f"{name}: operands do not go together, got {[list(x.shape) for x in arrays]}")
    if not first[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    dtypes = {x.dtype for x in arrays}
    if len(dtypes) > 1 or weight.dtype.category is not FLOATING:
        raise RuntimeError(f"{name}: all operands must be of one floating dtype, got {sorted(map(str, dtypes))}")


def _check_counts(name: str, counts: Aval) -> None:
    if counts.ndim != 1 or counts.dtype is not int64:
        raise RuntimeError(f"{name}: numbers of rows must be one-dimensional and int64, got {counts!r}")


def _fits_kernels(avals: Sequence[Aval], *_: Any) -> bool:
    return all(0 not in x.shape for x in avals) and not avals[0].dtype.is_short


# --- NumPy's rules ---


def _parts(counts: list[int], is_back: bool) -> list[tuple[int, int]]:
    """(Place of the first row, how many rows) of each step, in the layer's order."""
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
    found = list(zip(starts, counts, strict=True))
    return found[::-1] if is_back else found


def _are_packed(counts: list[int], rows: int, total: int) -> bool:
    """Whether packed sequences have such numbers of rows: all ``rows`` at first, then no more than before."""
    falls = all(a >= b > 0 for a, b in zip([rows, *counts], counts, strict=False))
    return falls and counts[:1] == [rows] and sum(counts) == total


def _flat(x: Any) -> Any:
    """Rows of all steps."""
    return x.reshape(-1, x.shape[-1])


def _np_forward(layer: _Layer, is_packed: bool, gates: Any, weight: Any, bias: Any, *rest: Any) -> tuple[Any, ...]:
    *states, is_back = rest
    counts = states.pop().tolist() if is_packed else [gates.shape[1]] * gates.shape[0]
    rows, hidden = _flat(gates), weight.shape[1]
    widths = (hidden, *[n * hidden for n in layer.kept], hidden)
    outputs, *kept, before = (np.full((len(rows), n), np.nan, gates.dtype) for n in widths)
    are_right = _are_packed(counts, len(states[0]), len(rows))
    states = [x.copy() if are_right else np.full_like(x, np.nan) for x in states]
    for start, count in _parts(counts, is_back) if are_right else ():
        at = slice(start, start + count)
        now = [x[:count].copy() for x in states]
        before[at] = now[0]
        found, parts = layer.step(rows[at], now[0] @ weight.T + bias, now)
        for x, new in zip(states, found, strict=True):
            x[:count] = new
        outputs[at] = found[0]
        for array, part in zip(kept, parts, strict=True):
            array[at] = part
    shaped = [x.reshape(*gates.shape[:-1], x.shape[-1]) for x in (outputs, *kept)]
    return (shaped[0], *states, *shaped[1:], *([before] if is_packed else []))


def _saved(layer: _Layer, given: Sequence[Any]) -> tuple[Sequence[Any], Any, Sequence[Any]]:
    """(States to begin with that are needed, outputs or None, what was kept) of a backward's operands."""
    if layer.name == "lstm":
        return [None, given[0]], None, given[1:]
    return ([given[0]], given[1], given[2:]) if layer.name == "gru" else ([None], given[0], ())


def _np_backward(layer: _Layer, is_packed: bool, grad: Any, *rest: Any) -> tuple[Any, ...]:
    *operands, is_back = rest
    *given, weight = operands[layer.states : -1] if is_packed else operands[layer.states :]
    counts = operands[-1].tolist() if is_packed else [grad.shape[1]] * grad.shape[0]
    are_right = _are_packed(counts, len(operands[0]), len(_flat(grad)))
    of_states = [x.copy() if are_right else np.full_like(x, np.nan) for x in operands[: layer.states]]
    start_states, outputs, kept = _saved(layer, given)
    outputs, kept = None if outputs is None else _flat(outputs), [_flat(x) for x in kept]
    rows, width = _flat(grad), layer.gates * weight.shape[1]
    parts = _parts(counts, is_back) if are_right else []
    own: Any = outputs if layer.name != "lstm" else kept[0]  # the states that the way back asks for
    before = np.empty_like(own)
    state = next((x.copy() for x in start_states if x is not None), np.zeros_like(of_states[0]))
    for start, count in parts:
        before[start : start + count] = state[:count]
        state[:count] = own[start : start + count]
    of_gates, of_hidden = (np.full((len(rows), width), np.nan, grad.dtype) for _ in range(2))
    for start, count in parts[::-1]:
        at = slice(start, start + count)
        to_h, *others = (x[:count].copy() for x in of_states)
        states = [before[at]] * layer.states
        y = None if outputs is None else outputs[at]
        of_gates[at], of_hidden[at], direct = layer.through(
            rows[at] + to_h, others, states, y, [x[at] for x in kept]
        )  # fmt: skip
        through = of_hidden[at] @ weight
        of_states[0][:count] = through if direct[0] is None else direct[0] + through
        for x, new in zip(of_states[1:], direct[1:], strict=True):
            x[:count] = new
    found = [of_gates, of_hidden] if layer.name == "gru" else [of_gates]
    return (*[x.reshape(*grad.shape[:-1], width) for x in found], *of_states)


# --- lowerings ---


def _last(b: Any, outputs: Any, is_back: bool) -> Any:
    """The state behind the last step of equal rows, over primitives."""
    steps, rows, hidden = outputs.shape
    first = 0 if is_back else steps - 1
    part = b.slice(outputs, (first, 0, 0), (first + 1, rows, hidden), (1, 1, 1))
    return b.reshape(part, (rows, hidden))


def _lower_forward(layer: _Layer, is_packed: bool, b: Any, *operands: Any) -> tuple[Any, ...]:
    *given, is_back = operands
    outputs, *rest = b.recurrent(layer.name, given, is_back, False, is_packed)
    kept = rest[: len(layer.kept)]
    if is_packed:
        *ends, before = rest[len(kept) :]
        return (outputs, *ends, *kept, before)
    ends = [_last(b, x, is_back) for x in (outputs, *kept[: layer.states - 1])]
    return (outputs, *ends, *kept)


def _lower_backward(layer: _Layer, is_packed: bool, b: Any, *operands: Any) -> tuple[Any, ...]:
    *given, is_back = operands
    found: tuple[Any, ...] = b.recurrent(layer.name, given, is_back, True, is_packed)
    return found


# --- derivatives, over Tensors ---


def _before(outputs: Any, start: Any, is_back: bool) -> Any:
    """The states before each step of equal rows."""
    steps = outputs.shape[0]
    first = start.unsqueeze(0)
    if steps == 1:
        return first
    others = outputs.narrow(0, 1 if is_back else 0, steps - 1)
    return call("cat", [others, first] if is_back else [first, others], 0)


def _by_steps(
    layer: _Layer, grads: Sequence[Any], saved: _Saved, of_kept: Sequence[Any], of_before: Any
) -> tuple[Any, Any, tuple[Any, ...], Any]:
    """(Gradients of both parts of the gates, of the states; the states before all rows), so that they can be
    differentiated: step after step.

    Args:
        grads: of the outputs, and of the states at the ends.
        saved: of the layer.
        of_kept, of_before: gradients of what was kept, and of the states before packed rows; None: there are none.
    """
    outputs, kept = saved.outputs.flatten(0, -2), [x.flatten(0, -2) for x in saved.kept]
    grad, of_own = grads[0].flatten(0, -2), [None if g is None else g.flatten(0, -2) for g in of_kept]
    of_states = list(grads[1:])
    parts = _parts(saved.counts(), saved.is_back)
    of_rows: dict[int, tuple[Any, Any, Any]] = {}
    for turn in reversed(range(len(parts))):
        start, count = parts[turn]

        def here(x: Any, start: int = start, count: int = count) -> Any:
            return None if x is None else x.narrow(0, start, count)

        steps = [outputs, *kept[: layer.states - 1]]
        before = [_rows_before(parts, turn, x, s) for x, s in zip(steps, saved.states, strict=True)]
        to_h, *others = (x.narrow(0, 0, count) for x in of_states)
        of_x, of_hidden, direct = layer.through_tensors(
            here(grad) + to_h, others, before, here(outputs), [here(x) for x in kept], [here(g) for g in of_own]
        )
        through = of_hidden.mm(saved.weight)
        of_h = through if direct[0] is None else direct[0] + through
        found = [of_h if of_before is None else of_h + here(of_before), *direct[1:]]
        of_states = [_joined(new, old) for new, old in zip(found, of_states, strict=True)]
        of_rows[start] = of_x, of_hidden, before[0]
    columns = zip(*[of_rows[start] for start in sorted(of_rows)], strict=True)
    of_x, of_hidden, of_before = (call("cat", list(each), 0) for each in columns)
    shape = (*saved.outputs.shape[:-1], -1)
    return of_x.reshape(shape), of_hidden.reshape(shape), tuple(of_states), of_before


def _rows_before(parts: Sequence[tuple[int, int]], turn: int, steps: Any, start: Any) -> Any:
    """The states before a step: of the step before, and of rows that begin here those to begin with."""
    _, count = parts[turn]
    if not turn:
        return start.narrow(0, 0, count)
    place, known = parts[turn - 1]
    return _joined(steps.narrow(0, place, min(known, count)), start.narrow(0, 0, count))


def _joined(first: Any, rest: Any) -> Any:
    """``rest``, whose first rows are others."""
    count, total = first.shape[0], rest.shape[0]
    return first if count == total else call("cat", [first, rest.narrow(0, count, total - count)], 0)


class _Saved(NamedTuple):
    """What a layer's derivatives read.

    Attributes:
        weight, states, outputs, kept: operands and results of the layer.
        before: of packed rows, the states before each.
        sizes: of packed rows, how many each step has.
        is_back: see above.
    """

    weight: Any
    states: Sequence[Any]
    outputs: Any
    kept: Sequence[Any]
    before: Any
    sizes: Any
    is_back: bool

    def counts(self) -> list[int]:
        """How many rows each step has."""
        if self.sizes is None:
            return [self.outputs.shape[1]] * self.outputs.shape[0]
        found: list[int] = self.sizes.tolist()
        return found


def _forward_joint(
    layer: _Layer, is_packed: bool, backward: str, context: RuleContext, grads: Any, wanted: list[int],
    weight: Any, *rest: Any,
) -> dict[int, Any]:  # fmt: skip
    """The gradients of a layer's operands. ``rest``: the states, sizes of packed rows, outputs, what was kept."""
    (is_back,) = context.params
    states, rest = rest[: layer.states], rest[layer.states :]
    sizes, rest = (rest[0], rest[1:]) if is_packed else (None, rest)
    outputs, kept = rest[0], rest[1 : 1 + len(layer.kept)]
    saved = _Saved(weight, states, outputs, kept, rest[-1] if is_packed else None, sizes, is_back)
    ends = 1 + layer.states
    given = [defined(g, like) for g, like in zip(grads[:ends], (outputs, *states), strict=True)]
    of_kept = grads[ends : ends + len(kept)]
    before, of_before = saved.before, grads[-1] if is_packed else None
    are_differentiated = thread.grad_enabled or of_before is not None or any(g is not None for g in of_kept)
    if are_differentiated and outputs.device.type != "meta":  # there, shapes are all, and nobody knows the rows
        of_gates, of_hidden, of_states, before = _by_steps(layer, given, saved, of_kept, of_before)
    else:
        first = {"lstm": states[1:], "gru": (*states, outputs)}.get(layer.name, (outputs,))
        operands = (*given, *first, *kept, weight, *([sizes] if is_packed else []))
        of_gates, *others = call(backward, *operands, is_back)
        of_hidden, of_states = (others[0], others[1:]) if layer.name == "gru" else (of_gates, others)
    found = {0: of_gates, **dict(enumerate(of_states, 3))}
    rows = of_hidden if is_packed else of_hidden.flatten(0, 1)
    if 1 in wanted:
        if before is None:
            before = _before(outputs, states[0], is_back).flatten(0, 1)
        found[1] = rows.t().mm(before)
    if 2 in wanted:
        found[2] = rows.sum(0)
    return {n: found[n] for n in wanted}


# --- the operations ---


def _forward_aval(name: str, layer: _Layer, is_packed: bool, gates: Aval, weight: Aval, bias: Aval, *rest: Any) -> Any:
    *states, _ = rest
    if is_packed:
        _check_counts(name, states.pop())
    _check(name, layer, [gates], [], states, weight, 2 if is_packed else 3)
    if bias.shape != weight.shape[:1] or bias.dtype is not weight.dtype:
        raise RuntimeError(f"{name}: a bias of {bias!r} does not go with a weight of {weight!r}")
    hidden, dtype = weight.shape[1], weight.dtype
    widths = [hidden, *[n * hidden for n in layer.kept]]
    outputs, *kept = (make_aval((*gates.shape[:-1], n), dtype) for n in widths)
    ends = [make_aval(x.shape, dtype) for x in states]
    return (outputs, *ends, *kept, *([outputs] if is_packed else []))


def _backward_aval(name: str, layer: _Layer, is_packed: bool, grad: Aval, *rest: Any) -> tuple[Aval, ...]:
    *operands, _ = rest
    if is_packed:
        _check_counts(name, operands.pop())
    *given, weight = operands
    of_states, given = given[: layer.states], given[layer.states :]
    states, outputs, kept = _saved(layer, given)
    wide = [x for x, n in zip(kept, layer.kept, strict=True) if n > 1]
    narrow = [x for x, n in zip(kept, layer.kept, strict=True) if n == 1]
    same = [grad, *narrow, *([] if outputs is None else [outputs])]
    _check(name, layer, wide, same, [*of_states, *[x for x in states if x is not None]], weight, 2 if is_packed else 3)
    of_gates = make_aval((*grad.shape[:-1], weight.shape[0]), grad.dtype)
    ends = [make_aval(x.shape, x.dtype) for x in of_states]
    return (*[of_gates] * (2 if layer.name == "gru" else 1), *ends)


def _define(name: str, layer: _Layer, is_packed: bool) -> None:
    backward = f"{name}_backward"
    inputs = 3 + layer.states
    kept = 1 + layer.states
    outs = ["out", *[f"out{kept + nr}" for nr in range(len(layer.kept) + is_packed)]]
    saves = (1, *range(3, inputs + is_packed), *outs)
    joint = partial(_forward_joint, layer, is_packed, backward)
    define(
        name,
        aval=partial(_forward_aval, name, layer, is_packed),
        numpy=partial(_np_forward, layer, is_packed),
        lower=partial(_lower_forward, layer, is_packed),
        lowers=_fits_kernels,
        vjps=[*[joint_vjp(joint, i, saves) for i in range(inputs)], *([None] if is_packed else [])],
        num_inputs=inputs + is_packed,
        node_name="MkldnnRnnLayerBackward0",
        joint=joint,
    )
    operands = {"lstm": 4, "gru": 5}.get(layer.name, 2)
    define(
        backward,
        aval=partial(_backward_aval, backward, layer, is_packed),
        numpy=partial(_np_backward, layer, is_packed),
        lower=partial(_lower_backward, layer, is_packed),
        lowers=_fits_kernels,
        num_inputs=1 + layer.states + operands + is_packed,
    )


for _name, _layer in _LAYERS.items():
    _define(_name, _layer, False)
    _define(_name + "_packed", _layer, True)
