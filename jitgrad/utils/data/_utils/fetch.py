"""From the indices of a batch to the batch.

Owns: how a data set is asked for examples, and when the rows of a batch are taken at once.
Must not know: loaders, processes.

# Note [Rows at once]
# ~~~~~~~~~~~~~~~~~~~
# A batch of a ``TensorDataset`` is rows of its tensors. Taken one by one and stacked, they cost two operations per
# example and tensor; all rows of a tensor can be taken in one. So where the default ``collate_fn`` would
# stack rows, also of a ``Subset`` or a ``StackDataset``, the fetcher does not ask for examples at all. The values are
# the same, and whatever could make a difference takes the ordinary way: subclasses that define their own indexing,
# other rules for collating, tensors in a graph or elsewhere, indices that are not plain and in range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.functions import from_numpy, index_select
from jitgrad.state import modes_in_use, state
from jitgrad.utils.data._utils.collate import (
    array_of,
    default_collate,
    default_collate_fn_map,
    is_plain,
    new_batch,
)
from jitgrad.utils.data.dataset import Dataset, StackDataset, Subset, TensorDataset

__all__ = ["Fetcher", "IterableDatasetFetcher", "MapDatasetFetcher", "rows_at_once"]

Collate = Callable[[Any], Any]

_DEFAULT_RULES = dict(default_collate_fn_map)
_INDEXING = ("__getitem__", "__getitems__", "__getattribute__")


class Fetcher:
    """Makes batches.

    Attributes:
        dataset: where examples come from.
        auto_collation: whether an index is a list of indices, and the result a batch.
        collate_fn: makes a batch of a list of examples, or converts one example.
        drop_last: whether a last batch of a stream that is shorter is left out.
    """

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Collate, drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch, or the example, at an index. StopIteration at the end of a stream."""
        raise NotImplementedError


class IterableDatasetFetcher(Fetcher):
    """Takes what comes next; of an index, only its length matters."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Collate, drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The next batch or example."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        examples = list(self._next_examples(len(possibly_batched_index)))
        if not examples or (self.drop_last and len(examples) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(examples)

    def _next_examples(self, count: int) -> Iterator[Any]:
        for _ in range(count):
            try:
                yield next(self.dataset_iter)
            except StopIteration:
                self.ended = True
                return


class MapDatasetFetcher(Fetcher):
    """Asks for examples by index."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Collate, drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self._takes_rows = auto_collation and collate_fn is default_collate and is_made_of_rows(dataset)

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch or example at an index."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        if self._takes_rows:
            batch = rows_at_once(self.dataset, possibly_batched_index)
            if batch is not None:
                return batch
        if getattr(self.dataset, "__getitems__", None):
            return self.collate_fn(self.dataset.__getitems__(possibly_batched_index))
        return self.collate_fn([self.dataset[index] for index in possibly_batched_index])


# --- Note [Rows at once] ---


def is_made_of_rows(dataset: Any) -> bool:
    """Whether the examples of a data set are rows of tensors, as far as its class tells."""
    if _indexes_like(dataset, TensorDataset):
        return True
    if _indexes_like(dataset, Subset):
        return is_made_of_rows(dataset.dataset)
    return _indexes_like(dataset, StackDataset) and all(map(is_made_of_rows, dataset._parts()))


def _indexes_like(dataset: Any, cls: type[Dataset[Any]]) -> bool:
    """Whether ``dataset`` is of a class that finds examples as ``cls`` does."""
    own = type(dataset)
    return isinstance(dataset, cls) and all(getattr(own, n, None) is getattr(cls, n, None) for n in _INDEXING)


def rows_at_once(dataset: Any, indices: Any) -> Any:
    """What ``default_collate`` would make of the examples at these indices; None: it must do it itself."""
    if type(indices) is not list or default_collate_fn_map != _DEFAULT_RULES:
        return None
    rows = _Rows()
    try:
        return rows.of(dataset, indices)
    except _OrdinaryWay:
        return None


class _OrdinaryWay(Exception):
    """The rows cannot be taken at once."""


class _Rows:
    """Rows of one batch; data sets that are stacked share the tensor of indices."""

    def __init__(self) -> None:
        self._indices: list[Any] = []
        self._found: tuple[Any, int, int] | None = None

    def of(self, dataset: Any, indices: list[Any]) -> Any:
        if isinstance(dataset, Subset):
            try:
                indices = [dataset.indices[i] for i in indices]
            except LookupError:
                raise _OrdinaryWay from None
            return self.of(dataset.dataset, indices)
        if isinstance(dataset, StackDataset):
            columns = [self.of(part, indices) for part in dataset._parts()]
            return dict(zip(dataset.datasets, columns, strict=True)) if type(dataset.datasets) is dict else columns
        if not dataset.tensors or not all(map(is_plain, dataset.tensors)):
            raise _OrdinaryWay
        where, low, high = self._where(indices)
        if low < 0 or high >= min(tensor._aval.shape[0] for tensor in dataset.tensors):
            raise _OrdinaryWay
        return [_taken(tensor, where) for tensor in dataset.tensors]

    def _where(self, indices: list[Any]) -> tuple[Any, int, int]:
        """The indices as an array, the lowest and the highest."""
        if self._found is None or self._indices is not indices:
            if not indices or any(kind is not int for kind in map(type, indices)):
                raise _OrdinaryWay
            self._indices = indices
            self._found = np.array(indices, dtype=np.int64), min(indices), max(indices)
        return self._found


def _taken(tensor: Any, where: np.ndarray[Any, Any]) -> Any:
    """Rows of a tensor, at indices that are in range."""
    if state.handler is not None or modes_in_use:
        return index_select(tensor, 0, from_numpy(where))
    batch, memory = new_batch(len(where), tensor.shape[1:], tensor.dtype)
    np.take(array_of(tensor), where, axis=0, out=memory, mode="clip")  # "raise" would go through another copy
    return batch
