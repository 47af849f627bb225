"""Samplers: in which order the examples of a data set are used.

Owns: the order, and the random numbers that are drawn for it.
Must not know: data sets (beyond their length), loaders.

What is drawn, and when, is PyTorch's: a seed gives the same order there and here. Samplers draw when their first index
is asked for, and not when ``iter`` is called.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from jitgrad.dtypes import float64, int64
from jitgrad.functions import as_tensor, empty, multinomial, randint, randperm
from jitgrad.generator import Generator
from jitgrad.tensor import Tensor

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "draw_seed",
]

Index = TypeVar("Index", covariant=True)

_DRAWN_AT_ONCE = 32
"""Indices with replacement are drawn in groups of so many, as PyTorch draws them: another group size would be another
order from the same seed."""


def draw_seed(generator: Generator | None = None) -> int:
    """An integer of [0, 2**63), drawn from a random stream; the default one if None."""
    return int(empty((), dtype=int64).random_(generator=generator).item())


class Sampler(Generic[Index]):
    """An order of indices. Subclasses define ``__iter__``, and ``__len__`` where they know how many there are."""

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ...

    Args:
        data_source: with ``__len__``.
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Random indices, with or without replacement.

    Args:
        data_source: with ``__len__``.
        replacement: whether an index may come twice before all have come.
        num_samples: how many; None: as many as there are examples.
        generator: the random stream; None: a new one for each pass, whose seed the default one draws.

    Raises:
        TypeError: ``replacement`` is no bool.
        ValueError: ``num_samples`` is no positive int.
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """How many indices a pass has; the data set may grow between passes."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = Generator()
            generator.manual_seed(draw_seed())
        if self.replacement:
            return (yield from self._with_replacement(size, generator))
        whole_passes, rest = divmod(self.num_samples, size)
        for _ in range(whole_passes):
            yield from randperm(size, generator=generator).tolist()
        yield from randperm(size, generator=generator).tolist()[:rest]

    def _with_replacement(self, size: int, generator: Generator) -> Iterator[int]:
        groups, rest = divmod(self.num_samples, _DRAWN_AT_ONCE)
        for count in (*itertools.repeat(_DRAWN_AT_ONCE, groups), rest):
            yield from randint(0, size, (count,), dtype=int64, generator=generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some indices, each once, in random order.

    Args:
        indices: what is drawn from.
        generator: the random stream; the default one if None.
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given weights.

    Args:
        weights: of each index, not negative; they need not add up to one.
        num_samples: how many to draw.
        replacement: whether an index may come twice.
        generator: the random stream; the default one if None.

    Attributes:
        weights: float64, one dimension.

    Raises:
        ValueError: ``num_samples`` is no positive int, ``replacement`` no bool, ``weights`` has not one dimension.
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self, weights: Any, num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of indices.

    Args:
        sampler: anything that iterates over indices.
        batch_size: indices per list.
        drop_last: whether a last list that is shorter is left out.

    Raises:
        ValueError: ``batch_size`` is no positive int, or ``drop_last`` no bool.
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole + (rest > 0 and not self.drop_last)
