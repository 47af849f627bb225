"""``DistributedSampler``: one process's share of a data set.

Owns: how indices are dealt out.
Must not know: process groups. There are none: callers say how many processes share the data, and which one this is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from jitgrad.functions import randperm
from jitgrad.generator import Generator
from jitgrad.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index from the ``rank``-th on, of an order that all processes know.

    Call ``set_epoch`` before each pass, or every pass has the same order.

    Args:
        dataset: with ``__len__``.
        num_replicas: how many processes share the data.
        rank: which of them this is, from 0.
        shuffle: whether the order is random.
        seed: of the order; the same in all processes.
        drop_last: whether indices are left out, rather than used twice, if the processes cannot have equally many.

    Attributes:
        num_samples: how many indices this process has.
        total_size: how many all have.

    Raises:
        RuntimeError: ``num_replicas`` or ``rank`` is None: there is no process group to ask.
        ValueError: there is no such rank.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError("Requires distributed package to be available")
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        whole, rest = divmod(len(dataset), num_replicas)
        self.num_samples = whole + (rest > 0 and not drop_last)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = randperm(size, generator=generator).tolist()
        else:
            indices = list(range(size))
        if self.total_size > size:  # from the start again, as often as it takes
            indices *= math.ceil(self.total_size / size)
        mine = indices[self.rank : self.total_size : self.num_replicas]
        if len(mine) != self.num_samples:
            raise AssertionError(f"the data set had {self.total_size} examples to deal out, and now it has {size}")
        return iter(mine)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass have the order of this epoch."""
        self.epoch = epoch
