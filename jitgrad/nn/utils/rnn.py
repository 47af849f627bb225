"""Sequences of different lengths: padded, packed, and back, as ``torch.nn.utils.rnn``.

Owns: ``PackedSequence`` and the conversions.
Must not know: recurrent layers.

A packed batch holds step after step of all sequences that are that long; ``batch_sizes`` says how many they are, so
sequences are in order of falling length.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from jitgrad.functions import arange, cat, empty_like, stack, tensor
from jitgrad.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Packed):
    """Sequences of different lengths, step by step; made by ``pack_padded_sequence`` and ``pack_sequence``.

    Args:
        data: (sum of lengths, *), the steps.
        batch_sizes: (length of the longest), int64, on the CPU: how many sequences are that long.
        sorted_indices: which sequence stands where; None: they were sorted already.
        unsorted_indices: the inverse.

    Raises:
        ValueError: ``batch_sizes`` is elsewhere.
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in "
                "nn.utils.rnn. https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same, converted or moved; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        orders = (None if x is None else x.to(data.device) for x in self[2:])
        return type(self)(data, self.batch_sizes, *orders)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """As of a tensor: there is no such device."""
        return self.to(device="cuda")

    def float(self) -> PackedSequence:
        """As float32."""
        return self._with(self.data.float())

    def double(self) -> PackedSequence:
        """As float64."""
        return self._with(self.data.double())

    def long(self) -> PackedSequence:
        """As int64."""
        return self._with(self.data.long())

    def int(self) -> PackedSequence:
        """As int32."""
        return self._with(self.data.int())

    def byte(self) -> PackedSequence:
        """As uint8."""
        return self._with(self.data.byte())

    def char(self) -> PackedSequence:
        """As int8."""
        return self._with(self.data.char())

    def half(self) -> PackedSequence:
        """As float16."""
        return self._with(self.data.half())

    def short(self) -> PackedSequence:
        """As int16."""
        return self._with(self.data.short())

    def pin_memory(self) -> PackedSequence:
        """Itself: there is no GPU to copy to."""
        return self

    def is_pinned(self) -> bool:
        """False."""
        return False

    @property
    def is_cuda(self) -> bool:
        """False."""
        return False

    def _with(self, data: Any) -> PackedSequence:
        return self if data is self.data else type(self)(data, *self[1:])


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes one, (N) int64; None for None."""
    if permutation is None:
        return None
    places = arange(permutation.numel(), device=permutation.device)
    return empty_like(permutation).scatter_(0, permutation, places)


def _numbers(lengths: Any) -> list[int]:
    """The lengths as ints. TypeError for what is no vector of numbers."""
    numbers = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    if not isinstance(numbers, Iterable) or isinstance(numbers, str | bytes | dict):
        raise TypeError(f"'lengths' must be numbers, but got {type(lengths).__name__}")
    numbers = list(numbers)
    for n in numbers:
        if not isinstance(n, int | float | np.number) and not (isinstance(n, Tensor) and not n.ndim):
            raise TypeError(f"'lengths' must be numbers, but there is an element of type {type(n).__name__}")
    return [int(n) for n in numbers]


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch.

    Args:
        input: (L, N, *), or (N, L, *) with ``batch_first``.
        lengths: (N), a tensor or a list; they are read.
        batch_first: see ``input``.
        enforce_sorted: sequences come in order of falling length; else they are sorted here.

    Raises:
        RuntimeError: lengths that are not positive, not sorted, longer than L, or not one per sequence.
        TypeError: another kind of argument.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"pack_padded_sequence(): argument 'input' must be Tensor, not {type(input).__name__}")
    if isinstance(lengths, Tensor) and lengths.ndim != 1:
        raise RuntimeError(f"'lengths' argument should be a 1D tensor, but got {lengths.ndim}D")
    if not input.numel() or input.ndim < 2:
        raise RuntimeError(f"Cannot pack empty tensors, and none of less than two dimensions: {list(input.shape)}")
    numbers = np.asarray(_numbers(lengths), np.int64)
    batch = 0 if batch_first else 1
    order = None
    if not enforce_sorted:
        places = np.argsort(-numbers, kind="stable")
        numbers, order = numbers[places], tensor(places).to(input.device)
        input = input.index_select(batch, order)
    steps = input.transpose(0, 1) if batch_first else input
    _check_lengths(numbers.tolist(), *steps.shape[:2])
    times, members = _places(numbers)
    rows = steps.flatten(0, 1).index_select(0, tensor(times * len(numbers) + members).to(input.device))
    return PackedSequence(rows, tensor(np.bincount(times)), order, None)


def _places(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(The step, the sequence) of each packed row."""
    times, members = np.nonzero(np.arange(lengths[0])[:, None] < lengths)
    return times, members


def _check_lengths(numbers: list[int], longest: int, batch: int) -> None:
    if not numbers:
        raise RuntimeError("Cannot pack empty tensors.")
    if len(numbers) != batch:
        raise RuntimeError(
            "Expected `len(lengths)` to be equal to batch_size, but got "
            f"{len(numbers)} (batch_size={batch})"
        )
    if numbers[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if max(numbers) > longest:
        raise RuntimeError(f"a length in 'lengths' is {max(numbers)}, but the sequences have {longest} steps")
    if any(a < b for a, b in itertools.pairwise(numbers)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """Undo ``pack_padded_sequence``.

    Args:
        sequence: a packed batch.
        batch_first: return (N, L, *) instead of (L, N, *).
        padding_value: what stands behind a sequence's end.
        total_length: L; the longest length if None.

    Returns:
        The padded batch, and the lengths, (N) int64.

    Raises:
        ValueError: ``total_length`` is less than the longest length.
    """
    sizes = _numbers(sequence.batch_sizes)
    longest = len(sizes)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    data, count = sequence.data, sizes[0]
    lengths = np.sum(np.asarray(sizes)[:, None] > np.arange(count), 0)
    longest = total_length or longest
    times, members = _places(lengths)
    # every element of the padded batch reads one row; those behind the end read the first one, and are filled
    places, is_there = np.zeros(longest * count, np.int64), np.zeros(longest * count, bool)
    at = times * count + members
    places[at], is_there[at] = np.arange(len(at)), True
    padded = data.index_select(0, tensor(places).to(data.device))
    padded = padded.reshape(longest, count, *data.shape[1:])
    if not is_there.all():
        behind = tensor(~is_there).reshape(longest, count, *[1] * (data.ndim - 1)).to(data.device)
        padded = padded.masked_fill(behind, padding_value)
    padded = padded.transpose(0, 1) if batch_first else padded
    found = tensor(lengths)
    order = sequence.unsorted_indices
    if order is None:
        return padded, found
    return padded.index_select(0 if batch_first else 1, order), found[order.cpu()]


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Sequences (L_i, *) as one batch (L, N, *), or (N, L, *) with ``batch_first``.

    Args:
        sequences: a list of tensors, or a tensor of them.
        batch_first: see above.
        padding_value: what fills the shorter ones.
        padding_side: where it stands, "right" or "left".

    Raises:
        RuntimeError: for what cannot be iterated over, no sequences, and another side.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    members = list(sequences)
    if not members:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    for nr, x in enumerate(members):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {nr} in argument 0, but got {type(x).__name__}")
    if not all(x.ndim for x in members):
        raise RuntimeError("pad_sequence: expected sequences of at least 1 dimension, but got one of none")
    longest = max(x.shape[0] for x in members)
    padded = []
    for x in members:
        missing = longest - x.shape[0]
        if missing:
            filling = x.new_full((missing, *x.shape[1:]), padding_value)
            x = cat([filling, x] if padding_side == "left" else [x, filling])
        padded.append(x)
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences (L_i, *) of a padded batch."""
    batch = 0 if batch_first else 1
    pairs = zip(padded_sequences.unbind(batch), _numbers(lengths), strict=True)
    return [sequence[:length] for sequence, length in pairs]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (L_i, *); in order of falling length, unless ``enforce_sorted`` is False."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences (L_i, *) of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
