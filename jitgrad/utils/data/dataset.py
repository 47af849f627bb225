"""Data sets: from an index to an example, or a stream of examples.

Owns: the base classes, the data sets that are made of tensors and of other data sets, ``random_split``.
Must not know: how examples become batches (``_utils/fetch.py``), loaders, processes.
"""

from __future__ import annotations

import itertools
import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from jitgrad.functions import randperm
from jitgrad.generator import Generator, default_generator
from jitgrad.tensor import Tensor

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

Example = TypeVar("Example", covariant=True)


class Dataset(Generic[Example]):
    """Examples by index. Subclasses define ``__getitem__``, and ``__len__`` for samplers and loaders to ask.

    A subclass may define ``__getitems__(indices)``, which takes a list of indices and returns a list of as many
    examples: a loader calls it once per batch.
    """

    def __getitem__(self, index: Any) -> Example:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Example], Iterable[Example]):
    """A stream of examples. Subclasses define ``__iter__``, and ``__len__`` if they know it.

    Each worker of a loader has a copy of its own and goes through all of it; ``get_worker_info`` tells the copy which
    part of the stream it should take.
    """

    def __iter__(self) -> Iterator[Example]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: example ``i`` is ``(tensor[i] for each tensor)``.

    A loader with the default ``collate_fn`` takes the rows of a batch at once.

    Args:
        tensors: any number, with the same extent of the first dimension.

    Raises:
        AssertionError: the extents differ.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        length: int = self.tensors[0].size(0)
        return length


class StackDataset(Dataset[Any]):
    """Data sets of the same length side by side: example ``i`` holds example ``i`` of each.

    Args:
        args: data sets; examples are tuples.
        kwargs: named data sets; examples are dicts.

    Raises:
        ValueError: no data set, both kinds, or lengths that differ.
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = {len(dataset) for dataset in self._parts()}
        if len(lengths) > 1:
            raise ValueError("Size mismatch between datasets")
        (self._length,) = lengths

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _example(self, items: Iterable[Any]) -> Any:
        """An example from those of the data sets, in their order."""
        return dict(zip(self.datasets, items, strict=True)) if isinstance(self.datasets, dict) else tuple(items)

    def __getitem__(self, index: Any) -> Any:
        return self._example([dataset[index] for dataset in self._parts()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """The examples at these indices; data sets that have ``__getitems__`` are asked once.

        Raises:
            ValueError: a data set returns another number of examples.
        """
        columns = [_examples(dataset, indices) for dataset in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}"
                )
        return [self._example(items) for items in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def _examples(dataset: Any, indices: list[Any]) -> Any:
    """Examples of any data set: at once if it can."""
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


class ConcatDataset(Dataset[Any]):
    """Data sets one after the other.

    Args:
        datasets: at least one, none of them iterable-style.

    Attributes:
        cumulative_sizes: per data set, how many examples it and those before it have.

    Raises:
        AssertionError: no data set, or an ``IterableDataset``.
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Lengths, added up from the first one on."""
        return list(itertools.accumulate(map(len, sequence)))

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: Any) -> Any:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx = len(self) + idx
        part = bisect_right(self.cumulative_sizes, idx)
        return self.datasets[part][idx - (self.cumulative_sizes[part - 1] if part else 0)]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The former spelling of ``cumulative_sizes``."""
        message = "`cummulative_sizes` attribute is renamed to `cumulative_sizes`"
        warnings.warn(message, FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other.

    Args:
        datasets: of ``IterableDataset``; anything else is an AssertionError once its turn comes.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


class Subset(Dataset[Example]):
    """Some examples of a data set.

    Args:
        dataset: the whole.
        indices: in the whole, of each example.

    Raises:
        NotImplementedError: a subclass defines ``__getitem__`` and not ``__getitems__``, which loaders would call.
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding "
                "__getitem__, you must also override __getitems__ to ensure DataLoader works correctly with your "
                "custom logic. A simple implementation:\n\ndef __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> Any:
        """The examples at these positions of the subset; the whole is asked once if it has ``__getitems__``."""
        return _examples(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = default_generator
) -> list[Subset[Any]]:
    """Subsets without common examples, drawn at random.

    Args:
        dataset: with ``__len__``.
        lengths: of the subsets; or fractions with the sum 1: each subset gets ``floor(fraction * len(dataset))``
            examples, and what is left goes to the first ones, one example each.
        generator: the random stream; the default one if None.

    Raises:
        ValueError: a fraction is not between 0 and 1, or the lengths do not add up.
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    counts = [int(length) for length in lengths]
    indices = randperm(sum(counts), generator=generator).tolist()
    ends = itertools.accumulate(counts)
    return [Subset(dataset, indices[end - count : end]) for end, count in zip(ends, counts, strict=True)]


def _lengths_of_fractions(total: int, fractions: Sequence[float]) -> list[int]:
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            message = f"Length of split at index {i} is 0. This might result in an empty dataset."
            warnings.warn(message, stacklevel=3)
    return lengths
