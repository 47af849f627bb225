"""``LSTM``, ``GRU`` and ``RNN``: layers of recurrent cells over sequences, padded or packed.

Owns: going through time, layers and directions. What one step computes is in ``recurrent_cells.py``.
Must not know: how sequences are packed (``utils/rnn.py``).

The steps of a layer are one operation, Note [Layers as operations]. Where they are not - packed sequences of several
lengths, projections - the loop over time is Python: a compiled step unrolls it, and every length is its own branch of
the trie.
"""

from __future__ import annotations

import itertools
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

from jitgrad.cpython.primitives import PURE, has_front
from jitgrad.dtypes import DType, bfloat16, float64
from jitgrad.functions import cat, empty, stack
from jitgrad.functions.devices import lowered
from jitgrad.nn import functional as F
from jitgrad.nn.containers import check_num_layers
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.nn.recurrent_cells import STEPS, GRUCell, LSTMCell, RNNCell, RNNCellBase, Step, reset_recurrent
from jitgrad.nn.recurrent_layer import is_one_operation, run_as_operation
from jitgrad.nn.utils.rnn import PackedSequence
from jitgrad.state import state as thread
from jitgrad.tensor import Tensor

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
State = tuple[Any, ...]


class RNNBase(Module):
    """What ``LSTM``, ``GRU`` and ``RNN`` are.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        input_size, hidden_size: the last extents of input and state.
        num_layers: each but the first reads the one before.
        bias: whether there are both biases.
        batch_first: (N, L, *) instead of (L, N, *).
        dropout: between layers, while training.
        bidirectional: each layer also goes back through time; outputs are both, side by side.
        proj_size: of "LSTM": outputs are projected to this extent; 0: they are not.
        device, dtype: of the parameters.

    Raises:
        TypeError, ValueError: for arguments of a wrong kind or size.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(_checked_dropout(dropout, num_layers))
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._check_arguments()
        self._all_weights: list[list[str]] = []
        ends = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            width = self._output_size * len(ends) if layer else input_size
            for end in ends:
                self._add_weights(width, f"_l{layer}{end}", device, dtype)
        self.reset_parameters()

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _check_arguments(self) -> None:
        for name, kind in (("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
            if kind is int and value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        check_num_layers(type(self).__name__, self.num_layers)
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in STEPS:
            raise ValueError(f"Unrecognized RNN mode: {self.mode}")

    def _add_weights(self, width: int, suffix: str, device: Any, dtype: DType | None) -> None:
        rows = _GATES[self.mode] * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, self._output_size)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            self.register_parameter(name + suffix, Parameter(empty(*shape, device=device, dtype=dtype)))
        self._all_weights.append([name + suffix for name in shapes])

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        reset_recurrent(self)

    def flatten_parameters(self) -> None:
        """Nothing: the weights need not lie side by side."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Any]:
        return [weight for weights in self.all_weights for weight in weights]

    def _weights(self, index: int) -> list[Any]:
        """Of the direction ``index``, counted through all layers: of inputs and of states, both biases, projection."""
        weights = [getattr(self, name) for name in self._all_weights[index]]
        return weights if self.bias else [*weights[:2], None, None, *weights[2:]]

    def _run(self, input: Any, given: State | None) -> tuple[Any, State]:
        """Outputs, and the states of all layers and directions at their ends."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, given)
        own = type(self).__name__
        if input.ndim not in (2, 3):
            tensor = " tensor" if self.mode.startswith("RNN") else ""
            raise ValueError(f"{own}: Expected input to be 2D or 3D, got {input.ndim}D{tensor} instead")
        is_single, batch = input.ndim == 2, 0 if self.batch_first else 1
        self._check_ranks(given, 2 if is_single else 3)
        if is_single:
            input = input.unsqueeze(batch)
            given = None if given is None else tuple(part.unsqueeze(1) for part in given)
        state = self._start(input, input.shape[batch]) if given is None else given
        self._check_sizes(input, 3, state, input.shape[batch])
        time = 1 - batch
        if not input.shape[time]:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        rows = (input if time == 0 else input.transpose(0, 1)).flatten(0, 1)
        steps, last = self._run_layers(rows, [input.shape[batch]] * input.shape[time], state, None)
        output = _sequence(steps, input.shape[time], time)
        if is_single:
            return output.squeeze(batch), tuple(part.squeeze(1) for part in last)
        return output, last

    def _run_packed(self, packed: PackedSequence, given: State | None) -> tuple[Any, State]:
        data, batch_sizes, order, back = packed
        sizes = [int(n) for n in batch_sizes.tolist()]
        if given is None:
            state = self._start(data, sizes[0])
        else:
            state = given if order is None else tuple(part.index_select(1, order) for part in given)
        self._check_sizes(data, 2, state, sizes[0])
        if sum(sizes) != data.shape[0] or sizes[-1] < 1 or any(a < b for a, b in itertools.pairwise(sizes)):
            raise RuntimeError(f"batch_sizes {sizes} are not those of packed sequences of {data.shape[0]} rows in all")
        steps, last = self._run_layers(data, sizes, state, batch_sizes)
        if back is not None:
            last = tuple(part.index_select(1, back) for part in last)
        return PackedSequence(_rows(steps), batch_sizes, order, back), last

    def _run_layers(
        self, rows: Any, sizes: list[int], state: State, batch_sizes: Any
    ) -> tuple[list[Any], State]:
        """Outputs, and the states of all layers and directions at their ends.

        The outputs are a list of each step's rows, or of the rows of all steps, where a layer was one operation.

        Args:
            rows: the inputs of all steps, (rows, input_size), step after step: a layer multiplies them by its weight
                in one product.
            sizes: how many rows each step has.
            state: to begin with.
            batch_sizes: of packed sequences, ``sizes`` as a tensor; else None.
        """
        directions = 2 if self.bidirectional else 1
        starts = list(zip(*(part.unbind(0) for part in state), strict=True))
        last: list[State] = []
        steps: list[Any] = []
        for layer in range(self.num_layers):
            if layer:
                rows = self._dropped(_rows(steps))
            outputs = []
            for is_back in (False, True)[:directions]:
                index = layer * directions + is_back
                w_input, w_hidden, b_input, b_hidden, *projection = self._weights(index)
                gates, weights = F.linear(rows, w_input, b_input), (w_hidden, b_hidden, *projection)
                if is_one_operation(gates, starts[index], weights, sizes):
                    whole, end = run_as_operation(self.mode, gates, starts[index], weights, is_back, batch_sizes)
                    found = [whole]
                else:
                    parts = gates.split(sizes[0] if sizes[0] == sizes[-1] > 0 else sizes)
                    made = _run_steps(self.mode, is_back, parts, starts[index], weights)
                    found, end = list(made[: len(sizes)]), made[len(sizes) :]
                outputs.append(found)
                last.append(end)
            steps = [cat(both, -1) for both in zip(*outputs, strict=True)] if self.bidirectional else outputs[0]
        state = tuple(stack(parts) for parts in zip(*last, strict=True))
        if self.mode == "LSTM" and thread.autocast is bfloat16:  # the one of them that PyTorch gives back in bfloat16
            return list(lowered(*steps)), lowered(*state)
        return steps, state

    def _dropped(self, rows: Any) -> Any:
        """What a layer gets of the one below: one draw for the whole sequence, as PyTorch makes it."""
        return F.dropout(rows, self.dropout) if self.dropout and self.training else rows

    def _start(self, input: Any, batch: int) -> State:
        return tuple(input.new_zeros(shape) for shape in self._state_shapes(batch))

    def _state_shapes(self, batch: int) -> list[tuple[int, ...]]:
        count = self.num_layers * (2 if self.bidirectional else 1)
        shapes: list[tuple[int, ...]] = [(count, batch, self._output_size)]
        return [*shapes, (count, batch, self.hidden_size)] if self.mode == "LSTM" else shapes

    def _check_ranks(self, given: State | None, rank: int) -> None:
        if given is None or all(part.ndim == rank for part in given):
            return
        kind = "unbatched 2-D" if rank == 2 else "batched 3-D"
        if self.mode == "LSTM":
            found = ", ".join(f"{part.ndim}-D" for part in given)
            raise RuntimeError(f"For {kind} input, hx and cx should also be {rank}-D but got ({found}) tensors")
        raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {given[0].ndim}-D tensor")

    def _check_sizes(self, input: Any, rank: int, state: State, batch: int) -> None:
        own = self._flat_weights[0].dtype
        if input.dtype != own and (thread.autocast is None or input.dtype is float64):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({own}). Convert input: input.to({own}), "
                f"or convert model: model.to({input.dtype})"
            )
        if input.ndim != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )
        for i, (part, shape) in enumerate(zip(state, self._state_shapes(batch), strict=True)):
            if tuple(part.shape) != shape:
                which = f"hidden[{i}]" if self.mode == "LSTM" else "hidden"
                raise RuntimeError(f"Expected {which} size {shape}, got {list(part.shape)}")

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        usual = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False,
        }  # fmt: skip
        options = [f", {name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return f"{self.input_size}, {self.hidden_size}{''.join(options)}"


def _checked_dropout(dropout: Any, num_layers: int) -> Any:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    return dropout


def _rows(steps: Sequence[Any]) -> Any:
    return steps[0] if len(steps) == 1 else cat(steps)


def _sequence(steps: Sequence[Any], count: int, time: int) -> Any:
    """The outputs of ``count`` steps, which are the dimension ``time`` of the result.

    Memory goes by steps, as in PyTorch: what is drawn for the outputs, as a dropout's mask, goes along memory.
    """
    found = stack(steps) if len(steps) == count else steps[0].unflatten(0, (count, -1))
    return found if time == 0 else found.transpose(0, 1)


@has_front(PURE)
def _run_steps(
    mode: str, is_back: bool, steps: Sequence[Any], start: State, weights: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Outputs of all steps, and the state at the end, of one layer in one direction: a call that is remembered.

    Its arguments have no views to be made, which depend on modes.
    """
    run = _backward if is_back else _forward
    outputs, end = run(STEPS[mode], steps, start, weights)
    return (*outputs, *end)


def _forward(step: Step, steps: Sequence[Any], state: State, weights: Any) -> tuple[list[Any], State]:
    """Outputs, and the state of every sequence at its end. Steps of a packed batch get shorter."""
    outputs, ended = [], []
    for x in steps:
        rows = x.shape[0]
        if rows < state[0].shape[0]:
            ended.append(tuple(part[rows:] for part in state))
            state = tuple(part[:rows] for part in state)
        state = step(x, state, weights)
        outputs.append(state[0])
    if not ended:
        return outputs, state
    return outputs, tuple(cat(parts) for parts in zip(state, *reversed(ended), strict=True))


def _backward(step: Step, steps: Sequence[Any], start: State, weights: Any) -> tuple[list[Any], State]:
    """The same from the last step to the first; sequences of a packed batch join in at their ends."""
    outputs, state = [], tuple(part[: steps[-1].shape[0]] for part in start) if _varies(steps) else start
    for x in reversed(steps):
        known, rows = state[0].shape[0], x.shape[0]
        if rows > known:
            state = tuple(cat([part, new[known:rows]]) for part, new in zip(state, start, strict=True))
        state = step(x, state, weights)
        outputs.append(state[0])
    return outputs[::-1], state


def _varies(steps: Sequence[Any]) -> bool:
    return bool(steps[-1].shape[0] != steps[0].shape[0])


class LSTM(RNNBase):
    """LSTM layers over a sequence.

    Args:
        input_size, hidden_size: the last extents of input and state.
        num_layers: each but the first reads the one before.
        bias: whether there are both biases.
        batch_first: (N, L, *) instead of (L, N, *).
        dropout: between layers, while training.
        bidirectional: each layer also goes back through time; outputs are both, side by side.
        proj_size: outputs are projected to this extent; 0: they are not.
        device, dtype: of the parameters.

    Raises:
        TypeError, ValueError: for arguments of a wrong kind or size.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device,
            dtype,
        )  # fmt: skip

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Outputs of the last layer, and (h, c) of every layer and direction.

        Args:
            input: (L, N, input_size), (L, input_size) or a ``PackedSequence``.
            hx: (h, c), (layers * directions, N, *), without N for an input without; zeros if None.

        Raises:
            ValueError, RuntimeError: for another rank, dtype or extent.
        """
        output, (h, c) = self._run(input, None if hx is None else tuple(hx))
        return output, (h, c)


class _OneState(RNNBase):
    """Layers whose state is h alone."""

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Outputs of the last layer, and h of every layer and direction.

        Args:
            input: (L, N, input_size), (L, input_size) or a ``PackedSequence``.
            hx: h, (layers * directions, N, hidden_size), without N for an input without; zeros if None.

        Raises:
            ValueError, RuntimeError: for another rank, dtype or extent.
        """
        output, (h,) = self._run(input, None if hx is None else (hx,))
        return output, h


def _refuse_projection(proj_size: int | None) -> None:
    if proj_size is not None:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class GRU(_OneState):
    """GRU layers over a sequence; arguments as ``LSTM``, without projections."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        proj_size: int | None = None,
    ) -> None:
        _refuse_projection(proj_size)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )


class RNN(_OneState):
    """Plain recurrent layers over a sequence.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype: see ``LSTM``.
        nonlinearity: ``"tanh"`` or ``"relu"``.

    Raises:
        TypeError, ValueError: for arguments of a wrong kind or size.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        proj_size: int | None = None,
    ) -> None:
        _refuse_projection(proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self.nonlinearity = nonlinearity
