"""Samples of recurrent layers as operations, and what PyTorch computes of them, step by step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jitgrad.ops.table import OPS

__all__ = ["KINDS", "RecurrentSample", "recurrent_samples"]

KINDS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Kind of a layer -> its gates per hidden unit."""
STEPS, ROWS, HIDDEN = 5, 2, 3


class RecurrentSample(NamedTuple):
    """See ``op_specs.Sample``."""

    name: str
    inputs: tuple[Any, ...]
    params: tuple[Any, ...]
    torch: Callable[..., Any]


def _order(steps: int, is_back: bool) -> range:
    return range(steps - 1, -1, -1) if is_back else range(steps)


def _lstm(is_back: bool, t: Any, gates: Any, weight: Any, bias: Any, h: Any, c: Any) -> Any:
    found: list[Any] = [None] * len(gates)
    for nr in _order(len(gates), is_back):
        i, f, g, o = (h @ weight.T + bias + gates[nr]).chunk(4, -1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        h = o * c.tanh()
        found[nr] = h, c, t.cat([i, f, g, o], -1)
    outputs, cells, activated = (t.stack(part) for part in zip(*found, strict=True))
    return outputs, h, c, cells, activated


def _gru(is_back: bool, t: Any, gates: Any, weight: Any, bias: Any, h: Any) -> Any:
    found: list[Any] = [None] * len(gates)
    for nr in _order(len(gates), is_back):
        (r, z, n), (r_h, z_h, n_h) = gates[nr].chunk(3, -1), (h @ weight.T + bias).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        n = (n + r * n_h).tanh()
        h = n + z * (h - n)
        found[nr] = h, t.cat([r, z, n], -1), n_h
    outputs, activated, new = (t.stack(part) for part in zip(*found, strict=True))
    return outputs, h, activated, new


def _plain(activation: str, is_back: bool, t: Any, gates: Any, weight: Any, bias: Any, h: Any) -> Any:
    found: list[Any] = [None] * len(gates)
    for nr in _order(len(gates), is_back):
        found[nr] = h = getattr(h @ weight.T + bias + gates[nr], activation)()
    return t.stack(found), h


_LAYERS: dict[str, Callable[..., Any]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": partial(_plain, "tanh"),
    "rnn_relu": partial(_plain, "relu"),
}


PACKED = (4, 3, 3, 1, 1)
"""How many rows each step of the packed samples has."""


def _packed(kind: str, is_back: bool, t: Any, gates: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    """Each row alone, as a layer of its own length; then all in the order of packed rows."""
    *states, counts = rest
    rows = [[nr for nr, count in enumerate(PACKED) if count > row] for row in range(PACKED[0])]
    starts = [sum(PACKED[:nr]) for nr in range(len(PACKED))]
    assert counts.tolist() == [*PACKED]
    outs: list[Any] = [None] * len(gates)
    before: list[Any] = [None] * len(gates)
    ends, kept = [], {}
    for row, steps in enumerate(rows):
        places = [starts[nr] + row for nr in steps]
        x = t.stack([gates[place : place + 1] for place in places])
        start = [state[row : row + 1] for state in states]
        outputs, *found = _LAYERS[kind](is_back, t, x, weight, bias, *start)
        ends.append(found[: len(states)])
        order = _order(len(steps), is_back)
        for turn, nr in enumerate(order):
            outs[places[nr]] = outputs[nr]
            kept[places[nr]] = [part[nr] for part in found[len(states) :]]
            before[places[nr]] = outputs[order[turn - 1]] if turn else start[0]
    columns = [t.cat(part) for part in zip(*[kept[place] for place in range(len(gates))], strict=True)]
    states = [t.cat(part) for part in zip(*ends, strict=True)]
    return (t.cat(outs), *states, *columns, t.cat(before))


def _gradients(kind: str, is_back: bool, arrays: tuple[Any, ...], t: Any, *inputs: Any) -> Any:
    """What a backward computes, by PyTorch's own; ``arrays``: the operands of the forward.

    A bias of each step's own stands for the states' part of the gates, whose gradient it has.
    """
    states = 2 if kind == "lstm" else 1
    grads = inputs[: 1 + states]
    given = [t.tensor(x, dtype=grads[0].dtype) for x in arrays]
    gates, weight, bias, *start = given
    for x in (gates, *start):
        x.requires_grad_()
    biases = bias.expand(gates.shape).clone().requires_grad_()
    outputs, state = [None] * len(gates), start
    for nr in _order(len(gates), is_back):
        out = _LAYERS[kind](False, t, gates[nr : nr + 1], weight, biases[nr], *state)
        outputs[nr], state = out[1], out[1 : 1 + states]
    wanted = (gates, biases, *start) if kind == "gru" else (gates, *start)
    return t.autograd.grad((t.stack(outputs), *state), wanted, grads)


def _packed_gradients(kind: str, is_back: bool, arrays: tuple[Any, ...], t: Any, *inputs: Any) -> Any:
    """As ``_gradients``; of a GRU the states' part has a bias for each row, which only ``_LAYERS`` takes apart."""
    states = 2 if kind == "lstm" else 1
    grads = inputs[: 1 + states]
    *floats, counts = arrays
    gates, weight, bias, *start = (t.tensor(x, dtype=grads[0].dtype) for x in floats)
    for x in (gates, bias, *start):
        x.requires_grad_()
    if kind == "gru":
        return _packed_gru_gradients(is_back, t, grads, gates, weight, bias, start[0])
    outs = _packed(kind, is_back, t, gates, weight, bias, *start, t.tensor(counts))
    return t.autograd.grad(outs[: 1 + states], (gates, *start), grads)


def _packed_gru_gradients(is_back: bool, t: Any, grads: Any, gates: Any, weight: Any, bias: Any, start: Any) -> Any:
    biases = bias.detach().expand(gates.shape).clone().requires_grad_()
    starts = [sum(PACKED[:nr]) for nr in range(len(PACKED))]
    outs: list[Any] = [None] * len(PACKED)
    state = start
    for nr in _order(len(PACKED), is_back):
        count, at = PACKED[nr], slice(starts[nr], starts[nr] + PACKED[nr])
        new = _gru(False, t, gates[None, at], weight, biases[at], state[:count])[1]
        outs[nr], state = new, t.cat([new, state[count:]])
    return t.autograd.grad((t.cat(outs), state), (gates, biases, start), grads)


def recurrent_samples() -> list[RecurrentSample]:
    """Of each layer and of its backward, in both directions."""
    rng = np.random.default_rng(11)
    found = []
    for kind, count in KINDS.items():
        for is_back in (False, True):
            states = 2 if kind == "lstm" else 1
            shapes = [(STEPS, ROWS, count * HIDDEN), (count * HIDDEN, HIDDEN), (count * HIDDEN,)]
            arrays = tuple([rng.uniform(-1.5, 1.5, s) for s in (*shapes, *[(ROWS, HIDDEN)] * states)])
            arrays[1][...] *= 0.1  # tests make layers wider, whose states must not grow from step to step
            params = (is_back,)
            name = f"_{kind}_layer"
            found.append(RecurrentSample(name, arrays, params, partial(_LAYERS[kind], is_back)))
            outputs, *rest = OPS[name].numpy(*arrays, is_back)
            kept = {
                "lstm": (arrays[-1], *rest[2:]), "gru": (arrays[-1], outputs, *rest[1:])
            }.get(kind, (outputs,))  # fmt: skip
            grads = [rng.uniform(-1, 1, outputs.shape), *[rng.uniform(-1, 1, (ROWS, HIDDEN)) for _ in range(states)]]
            inputs = (*grads, *kept, arrays[1])
            torch = partial(_gradients, kind, is_back, arrays)
            found.append(RecurrentSample(f"{name}_backward", inputs, params, torch))
            found += _packed_samples(rng, kind, is_back)
    return found


def _packed_samples(rng: np.random.Generator, kind: str, is_back: bool) -> list[RecurrentSample]:
    count, states = KINDS[kind], 2 if kind == "lstm" else 1
    rows, name, params = sum(PACKED), f"_{kind}_layer_packed", (is_back,)
    shapes = [(rows, count * HIDDEN), (count * HIDDEN, HIDDEN), (count * HIDDEN,), *[(PACKED[0], HIDDEN)] * states]
    arrays = (*[rng.uniform(-1.5, 1.5, s) for s in shapes], np.array(PACKED))
    arrays[1][...] *= 0.1
    outputs, *rest = OPS[name].numpy(*arrays, is_back)
    kept = rest[states:-1]
    first = {"lstm": [arrays[4]], "gru": [arrays[3], outputs]}.get(kind, [outputs])
    grads = [rng.uniform(-1, 1, x.shape) for x in (outputs, *rest[:states])]
    inputs = (*grads, *first, *kept, arrays[1], arrays[-1])
    return [
        RecurrentSample(name, arrays, params, partial(_packed, kind, is_back)),
        RecurrentSample(f"{name}_backward", inputs, params, partial(_packed_gradients, kind, is_back, arrays)),
    ]
