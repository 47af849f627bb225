"""``LSTMCell``, ``GRUCell``, ``RNNCell``: one step of a recurrent layer; and the steps themselves.

Owns: what one step computes, for cells and for layers.
Must not know: sequences.

Gates are in PyTorch's order, parameters under its names. Sources: Hochreiter and Schmidhuber, "Long Short-Term
Memory", 1997; Sak et al., "Long Short-Term Memory Based Recurrent Neural Network Architectures", 2014 (projections);
Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014 (GRU); Elman, "Finding Structure in
Time", 1990 (RNN).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import empty, relu, sigmoid, tanh
from jitgrad.functions.torch_function import has_torch_function
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.dispatch_hook import call
from jitgrad.state import override_classes
from jitgrad.tensor import Tensor

__all__ = ["STEPS", "GRUCell", "LSTMCell", "RNNCell", "RNNCellBase", "Step", "are_one_operation", "reset_recurrent"]

Step = Callable[[Any, tuple[Any, ...], Any], tuple[Any, ...]]
"""(the input's part of the gates, state, hidden weight and bias ...) to the next state, whose first part is the output.
"""


def are_one_operation(*operands: Any) -> bool:
    """Whether a cell is one operation: not where autocast mixes dtypes, nor for subclasses that see each of them."""
    dtype = operands[0].dtype
    if dtype.is_short or any([x.dtype is not dtype for x in operands]):
        return False
    return not (override_classes and has_torch_function(operands))


def _lstm_step(x: Tensor, state: tuple[Any, ...], weights: Any) -> tuple[Any, ...]:
    h, c = state
    w_hidden, b_hidden, *projection = weights
    hidden = F.linear(h, w_hidden, b_hidden)
    if are_one_operation(x, hidden, c):
        h, c, _ = call("_lstm_cell", x, hidden, c)
    else:
        i, f, g, o = (x + hidden).chunk(4, -1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
    return (F.linear(h, projection[0]) if projection else h), c


def _gru_step(x: Tensor, state: tuple[Any, ...], weights: Any) -> tuple[Any, ...]:
    (h,) = state
    hidden = F.linear(h, *weights)
    if are_one_operation(x, hidden, h):
        return (call("_gru_cell", x, hidden, h)[0],)
    r_x, z_x, n_x = x.chunk(3, -1)
    r_h, z_h, n_h = hidden.chunk(3, -1)
    z = sigmoid(z_x + z_h)
    n = tanh(n_x + sigmoid(r_x + r_h) * n_h)
    return (n + z * (h - n),)


def _rnn_step(activation: Callable[[Any], Any], x: Tensor, state: tuple[Any, ...], weights: Any) -> tuple[Any, ...]:
    return (activation(x + F.linear(state[0], *weights)),)


STEPS: dict[str, Step] = {
    "LSTM": _lstm_step,
    "GRU": _gru_step,
    "RNN_TANH": partial(_rnn_step, tanh),
    "RNN_RELU": partial(_rnn_step, relu),
}


def reset_recurrent(module: Any) -> None:
    """Draw all parameters again, uniform in +-1 / sqrt(hidden_size)."""
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0.0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


class RNNCellBase(Module):
    """What all cells are: two weights, two biases, and the checks.

    Args:
        input_size, hidden_size: the last extents of input and state.
        bias: whether there are both biases.
        num_chunks: rows of weights per hidden unit.
        device, dtype: of the parameters.
    """

    mode = ""
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        reset_recurrent(self)

    def _step(self, input: Any, state: tuple[Any, ...] | None, mode: str, parts: int, names: tuple[str, ...]) -> Any:
        """The next state, after PyTorch's checks; the state begins with zeros."""
        own = type(self).__name__
        if input.ndim not in (1, 2):
            raise ValueError(f"{own}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        for name, part in zip(names, state or (), strict=False):
            if part.ndim not in (1, 2):
                raise ValueError(f"{own}: Expected {name} to be 1D or 2D, got {part.ndim}D instead")
        is_single = input.ndim == 1
        if is_single:
            input = input.unsqueeze(0)
            state = None if state is None else tuple(part.unsqueeze(0) for part in state)
        if state is None:
            state = (input.new_zeros(input.shape[0], self.hidden_size),) * parts
        self._check_sizes(input, state)
        gates = F.linear(input, self.weight_ih, self.bias_ih)
        found = STEPS[mode](gates, state, (self.weight_hh, self.bias_hh))
        return tuple(part.squeeze(0) for part in found) if is_single else found

    def _check_sizes(self, input: Any, state: tuple[Any, ...]) -> None:
        if input.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.shape[1]} expected {self.input_size}"
            )
        for i, part in enumerate(state):
            if part.shape[0] != input.shape[0]:
                raise RuntimeError(
                    f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {part.shape[0]}"
                )
            if part.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{i} has inconsistent hidden_size: got {part.shape[1]}, expected {self.hidden_size}"
                )

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    Args:
        input_size, hidden_size: the last extents of input and state.
        bias: whether there are both biases.
        device, dtype: of the parameters.

    Raises:
        ValueError: from ``forward``, for other ranks.
        RuntimeError: from ``forward``, for extents that do not fit.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """(N, input_size) or (input_size), and (h, c) or zeros, to the next (h, c)."""
        found: tuple[Tensor, Tensor] = self._step(input, hx, "LSTM", 2, ("hx[0]", "hx[1]"))
        return found


class GRUCell(RNNCellBase):
    """One step of a GRU; arguments as ``LSTMCell``."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(N, input_size) or (input_size), and h or zeros, to the next h."""
        found: Tensor = self._step(input, None if hx is None else (hx,), "GRU", 1, ("hidden",))[0]
        return found


class RNNCell(RNNCellBase):
    """One step of a plain recurrent layer: the activation of ``W x + b + V h + c``.

    Args:
        input_size, hidden_size, bias, device, dtype: see ``LSTMCell``.
        nonlinearity: ``"tanh"`` or ``"relu"``; ``forward`` raises RuntimeError for any other.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(N, input_size) or (input_size), and h or zeros, to the next h."""
        mode = f"RNN_{self.nonlinearity.upper()}"
        if mode not in STEPS:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        found: Tensor = self._step(input, None if hx is None else (hx,), mode, 1, ("hidden",))[0]
        return found
