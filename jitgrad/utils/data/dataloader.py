"""``DataLoader``: batches of a data set, in a sampler's order, loaded here or by other processes.

Owns: its arguments and what they mean together.
Must not know: how a pass is made (``_utils/iterators.py``, ``_utils/workers.py``).
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from jitgrad.generator import Generator
from jitgrad.utils.data._utils.collate import default_collate, default_convert
from jitgrad.utils.data._utils.iterators import BaseDataLoaderIter, SingleProcessDataLoaderIter
from jitgrad.utils.data._utils.worker_info import get_worker_info
from jitgrad.utils.data._utils.workers import MultiProcessingDataLoaderIter
from jitgrad.utils.data.dataset import Dataset, IterableDataset
from jitgrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

Example = TypeVar("Example", covariant=True)

_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})
"""Attributes that may not be assigned to after construction."""


class _EndlessSampler(Sampler[None]):
    """For streams, whose examples have no index."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[Example]):
    """Iterates over batches; each ``iter`` is a new pass.

    With ``num_workers`` processes, batches are loaded ahead of time. Where they are forked, workers have everything
    that this process has; elsewhere the data set and the functions must be picklable.

    Args:
        dataset: with ``__getitem__`` and ``__len__``, or an ``IterableDataset``.
        batch_size: examples per batch; None: examples come one by one, as ``default_convert`` makes them.
        shuffle: random order, anew in each pass.
        sampler: an iterable of indices: the order. Not with ``shuffle``.
        batch_sampler: an iterable of lists of indices. Not with ``batch_size``, ``shuffle``, ``sampler`` or
            ``drop_last``.
        num_workers: processes that load; 0: this one does, when a batch is asked for.
        collate_fn: makes a batch of a list of examples.
        pin_memory: kept because PyTorch keeps it; there is no accelerator.
        drop_last: leave out a last batch that is shorter.
        timeout: seconds to wait for a worker's batch; 0: for ever.
        worker_init_fn: called in each worker with its number, after the random streams are seeded.
        multiprocessing_context: how processes are started: a context, or its name.
        generator: the random stream of the order, and of the workers' seeds.
        prefetch_factor: batches that each worker loads ahead; 2 if there are workers.
        persistent_workers: keep the workers from pass to pass.
        pin_memory_device: no effect.
        in_order: whether batches come in the sampler's order; else as they are finished.

    Raises:
        ValueError, TypeError: arguments that do not go together.
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    drop_last: bool
    timeout: float
    sampler: Any
    prefetch_factor: int | None
    _is_initialized = False

    def __init__(
        self,
        dataset: Dataset[Example],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_worker_arguments(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self._is_stream = isinstance(dataset, IterableDataset)
        if self._is_stream:
            _check_stream_arguments(shuffle, sampler, batch_sampler)
        _check_batch_arguments(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if sampler is None:
            sampler = self._default_sampler(dataset, bool(shuffle), generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.persistent_workers = persistent_workers
        self._is_initialized = True
        self._length_told: int | None = None  # what ``len`` said of a stream; more examples are worth a warning
        self._iterator: BaseDataLoaderIter | None = None
        self.check_worker_number_rationality()

    def _default_sampler(self, dataset: Any, shuffle: bool, generator: Generator | None) -> Sampler[Any]:
        if self._is_stream:
            return _EndlessSampler()
        return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started; None: as Python does by default."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: Any) -> None:
        self._multiprocessing_context = None if value is None else _context(value, self.num_workers)

    def __setattr__(self, attr: str, val: Any) -> None:
        if self._is_initialized and attr in _FIXED:
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    def __iter__(self) -> BaseDataLoaderIter:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def _get_iterator(self) -> BaseDataLoaderIter:
        if self.num_workers == 0:
            return SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return MultiProcessingDataLoaderIter(self)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """What says the next index that a fetcher gets."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if not self._is_stream:
            return len(self._index_sampler)
        length = self._length_told = len(self.dataset)
        if self.batch_size is None:
            return length
        whole, rest = divmod(length, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def check_worker_number_rationality(self) -> None:
        """UserWarning if there are more workers than processors."""
        if not self.num_workers:
            return
        is_exact = hasattr(os, "sched_getaffinity")
        count = len(os.sched_getaffinity(0)) if is_exact else os.cpu_count()
        if count is None or self.num_workers > count:
            if count is None:
                suggestion = "DataLoader is not able to compute a suggested max number of worker in current system."
            else:
                doubt = "" if is_exact else " (`cpuset` is not taken into account)"
                suggestion = (
                    f"Our suggested max number of worker in current system is {count}{doubt}, which is smaller than "
                    "what this DataLoader is going to create."
                )
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. {suggestion} Please be "
                "aware that excessive worker creation might get DataLoader running slow or even freeze, lower the "
                "worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )


def _check_worker_arguments(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream_arguments(shuffle: bool | None, sampler: Any, batch_sampler: Any) -> None:
    """A stream has an order of its own."""
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_batch_arguments(
    batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


def _context(value: Any, num_workers: int) -> BaseContext:
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(value, str):
        methods = multiprocessing.get_all_start_methods()
        if value not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={value!r}"
            )
        value = multiprocessing.get_context(value)
    if not isinstance(value, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={value}"
        )
    return value
