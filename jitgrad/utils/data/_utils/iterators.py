"""One pass over a loader's batches.

Owns: what all passes have in common, and the pass that loads in its own process.
Must not know: how a ``DataLoader`` is made, workers (``workers.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

from jitgrad.probe import probe
from jitgrad.utils.data._utils.fetch import Fetcher, IterableDatasetFetcher, MapDatasetFetcher
from jitgrad.utils.data.sampler import draw_seed

__all__ = ["BaseDataLoaderIter", "SingleProcessDataLoaderIter"]


class BaseDataLoaderIter(Iterator[Any]):
    """A pass.

    The random streams are asked in PyTorch's order: first for ``_base_seed``, from which workers make their seeds,
    also where there are none; then, once an index is wanted, by the sampler.
    """

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._is_stream = loader._is_stream
        self._length_told = loader._length_told
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        if loader.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used.",
                stacklevel=4,
            )
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator)
        self._num_yielded = 0
        self._profile_name = f"enumerate(DataLoader)#_{type(self).__name__}.__next__"

    @property
    def _fetcher_class(self) -> type[Fetcher]:
        return IterableDatasetFetcher if self._is_stream else MapDatasetFetcher

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begin another pass."""
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._length_told = loader._length_told

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        """The next batch. StopIteration at the end."""
        raise NotImplementedError

    def __next__(self) -> Any:
        session = probe.session
        if session is None:
            data = self._next_data()
        else:
            start = session.enter(self._profile_name)
            try:
                data = self._next_data()
            finally:
                session.leave(self._profile_name, "user", (), start)
        self._num_yielded += 1
        if self._length_told is not None and self._num_yielded > self._length_told:
            self._warn_of_length()
        return data

    def _warn_of_length(self) -> None:
        message = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._length_told} (when accessing "
            f"len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker."
            )
        warnings.warn(message, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> NoReturn:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class SingleProcessDataLoaderIter(BaseDataLoaderIter):
    """Loads each batch when it is asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._fetcher = self._fetcher_class(self._dataset, self._auto_collation, self._collate_fn, self._drop_last)

    def _next_data(self) -> Any:
        return self._fetcher.fetch(self._next_index())
