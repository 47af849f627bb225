"""``LSTMCell``, ``GRUCell``, ``RNNCell`` and their multi-layer, batched sequences ``LSTM``, ``GRU`` and ``RNN``.

The loops over time are Python: a compiled step unrolls them, and every length is its own branch of the trie.
Gates are in PyTorch's order, parameters under its names. Sources: Hochreiter and Schmidhuber, "Long Short-Term
Memory", 1997; Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014 (GRU); Elman, "Finding
Structure in Time", 1990 (RNN).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import empty, relu, sigmoid, stack, tanh, zeros
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]

Weights = tuple[Any, Any, Any, Any]


def _lstm_step(x: Tensor, state: tuple[Tensor, Tensor], weights: Weights) -> tuple[Tensor, Tensor]:
    h, c = state
    w_input, w_hidden, b_input, b_hidden = weights
    i, f, g, o = (F.linear(x, w_input, b_input) + F.linear(h, w_hidden, b_hidden)).chunk(4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def _gru_step(x: Tensor, h: Tensor, weights: Weights) -> Tensor:
    w_input, w_hidden, b_input, b_hidden = weights
    r_x, z_x, n_x = F.linear(x, w_input, b_input).chunk(3, -1)
    r_h, z_h, n_h = F.linear(h, w_hidden, b_hidden).chunk(3, -1)
    z = sigmoid(z_x + z_h)
    n = tanh(n_x + sigmoid(r_x + r_h) * n_h)
    result: Tensor = n + z * (h - n)
    return result


def _rnn_step(activation: Callable[[Any], Any], x: Tensor, h: Tensor, weights: Weights) -> Tensor:
    w_input, w_hidden, b_input, b_hidden = weights
    result: Tensor = activation(F.linear(x, w_input, b_input) + F.linear(h, w_hidden, b_hidden))
    return result


_RNN_STEPS = {"tanh": partial(_rnn_step, tanh), "relu": partial(_rnn_step, relu)}


def _known(nonlinearity: str) -> str:
    if nonlinearity not in _RNN_STEPS:
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return nonlinearity


class _Recurrent(Module):
    """Weights for one or more layers; ``gates`` rows of them per hidden unit."""

    gates = 0

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size

    def _add_layer(self, input_size: int, bias: bool, suffix: str, device: Any, dtype: DType | None) -> None:
        rows, bound = self.gates * self.hidden_size, 1.0 / math.sqrt(self.hidden_size)
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, self.hidden_size)}
        biases: dict[str, Any] = {"bias_ih": (rows,), "bias_hh": (rows,)}
        for name, shape in (shapes | biases).items():
            wanted = bias or name in shapes
            values = init.uniform_(empty(*shape, device=device, dtype=dtype), -bound, bound) if wanted else None
            self.register_parameter(name + suffix, None if values is None else Parameter(values))

    def _weights(self, suffix: str = "") -> Weights:
        own = self.__dict__
        return (own["weight_ih" + suffix], own["weight_hh" + suffix], own["bias_ih" + suffix], own["bias_hh" + suffix])

    def _zeros(self, *shape: int) -> Tensor:
        like = next(self.parameters())
        found: Tensor = zeros(*shape, self.hidden_size, dtype=like.dtype, device=like.device)
        return found


class _Cell(_Recurrent):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(hidden_size)
        self.input_size = input_size
        self._add_layer(input_size, bias, "", device, dtype)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"{self.input_size}, {self.hidden_size}"


class LSTMCell(_Cell):
    """One step of an LSTM.

    Args:
        input_size, hidden_size: the last extents of input and state.
        bias: whether there are both biases.
        device, dtype: of the parameters.
    """

    gates = 4

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """(*, input_size), and (h, c) or zeros, to the next (h, c)."""
        if hx is None:
            start = self._zeros(*input.shape[:-1])
            hx = (start, start)
        return _lstm_step(input, hx, self._weights())


class GRUCell(_Cell):
    """One step of a GRU; arguments as ``LSTMCell``."""

    gates = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(*, input_size), and h or zeros, to the next h."""
        return _gru_step(input, self._zeros(*input.shape[:-1]) if hx is None else hx, self._weights())


class RNNCell(_Cell):
    """One step of a plain recurrent layer: the activation of ``W x + b + V h + c``.

    Args:
        input_size, hidden_size, bias, device, dtype: see ``LSTMCell``.
        nonlinearity: ``"tanh"`` or ``"relu"``.

    Raises:
        ValueError: for any other.
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = _known(nonlinearity)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(*, input_size), and h or zeros, to the next h."""
        start = self._zeros(*input.shape[:-1]) if hx is None else hx
        return _RNN_STEPS[self.nonlinearity](input, start, self._weights())


class _SequenceModule(_Recurrent):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(hidden_size)
        self.input_size, self.num_layers, self.batch_first, self.dropout = input_size, num_layers, batch_first, dropout
        for layer in range(num_layers):
            self._add_layer(hidden_size if layer else input_size, bias, f"_l{layer}", device, dtype)

    def _run(self, input: Tensor, states: list[Any], step: Any, output_of: Any) -> tuple[Tensor, list[Any]]:
        """Feed a sequence through every layer; the outputs, and every layer's last state."""
        time = 1 if self.batch_first and input.ndim == 3 else 0
        steps = list(input.unbind(time))
        last = []
        for layer, state in enumerate(states):
            weights = self._weights(f"_l{layer}")
            outputs = []
            for x in steps:
                state = step(x, state, weights)
                outputs.append(output_of(state))
            last.append(state)
            if self.dropout and self.training and layer + 1 < self.num_layers:
                outputs = [F.dropout(x, self.dropout) for x in outputs]
            steps = outputs
        return stack(steps, time), last

    def _start(self, input: Tensor) -> Tensor:
        if input.ndim == 2:
            return self._zeros(self.num_layers)
        return self._zeros(self.num_layers, input.shape[0 if self.batch_first else 1])

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        text = f"{self.input_size}, {self.hidden_size}"
        options = (("num_layers", self.num_layers, 1), ("batch_first", self.batch_first, False))
        return text + "".join(f", {name}={value}" for name, value, default in options if value != default)


class LSTM(_SequenceModule):
    """LSTM layers over a sequence.

    Args:
        input_size, hidden_size: the last extents of input and output.
        num_layers: each but the first reads the one before.
        bias: whether there are both biases.
        batch_first: (N, L, *) instead of (L, N, *).
        dropout: between layers, while training.
        device, dtype: of the parameters.
    """

    gates = 4

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(L, N, input_size) or (L, input_size) to the last layer's outputs, and (h, c) of every layer."""
        h, c = (self._start(input),) * 2 if hx is None else hx
        states = list(zip(h.unbind(0), c.unbind(0), strict=True))
        output, last = self._run(input, states, _lstm_step, lambda state: state[0])
        return output, (stack([h for h, _ in last]), stack([c for _, c in last]))


class GRU(_SequenceModule):
    """GRU layers over a sequence; arguments as ``LSTM``."""

    gates = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(L, N, input_size) or (L, input_size) to the last layer's outputs, and h of every layer."""
        start = self._start(input) if hx is None else hx
        output, last = self._run(input, list(start.unbind(0)), _gru_step, lambda state: state)
        return output, stack(last)


class RNN(_SequenceModule):
    """Plain recurrent layers over a sequence.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, device, dtype: see ``LSTM``.
        nonlinearity: ``"tanh"`` or ``"relu"``.

    Raises:
        ValueError: for any other.
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, device, dtype)
        self.nonlinearity = _known(nonlinearity)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(L, N, input_size) or (L, input_size) to the last layer's outputs, and h of every layer."""
        start = self._start(input) if hx is None else hx
        output, last = self._run(input, list(start.unbind(0)), _RNN_STEPS[self.nonlinearity], lambda state: state)
        return output, stack(last)
