"""The process of a loader's worker.

Owns: its loop, its random seeds, how it ends.
Must not know: the loader's order of batches (``workers.py``).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from jitgrad.generator import manual_seed
from jitgrad.runtime.native.pool import set_num_threads
from jitgrad.state import switch_handler
from jitgrad.utils.data._utils.failure import Failure
from jitgrad.utils.data._utils.fetch import Fetcher
from jitgrad.utils.data._utils.parcels import Outbox
from jitgrad.utils.data._utils.worker_info import WorkerInfo, set_worker_info

__all__ = ["CHECK_INTERVAL_S", "Ended", "NewPass", "Task", "WorkerJob", "run_worker"]

CHECK_INTERVAL_S = 5.0
"""How often a process that waits looks whether the other one is still there."""


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """What a worker is to do, from its start to its end.

    Attributes:
        dataset: its copy.
        fetcher: makes its fetcher, from ``dataset``, ``auto_collation``, ``collate_fn`` and ``drop_last``.
        is_stream: whether the data set is an ``IterableDataset``.
        worker_id, num_workers: which worker it is, of how many.
        base_seed: of all workers.
        init_fn: called with ``worker_id`` before anything is loaded, or None.
    """

    dataset: Any
    fetcher: type[Fetcher]
    is_stream: bool
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    worker_id: int
    num_workers: int
    base_seed: int
    init_fn: Callable[[int], None] | None

    def new_fetcher(self) -> Fetcher:
        """A fetcher for one pass over the data."""
        return self.fetcher(self.dataset, self.auto_collation, self.collate_fn, self.drop_last)


@dataclass(frozen=True, slots=True)
class Task:
    """A request.

    Attributes:
        pass_nr: which pass over the data it belongs to.
        nr: its number in the pass.
        index: of the batch or example.
        returned: slabs that may be used again, Note [Slabs].
    """

    pass_nr: int
    nr: int
    index: Any
    returned: list[int]


@dataclass(frozen=True, slots=True)
class NewPass:
    """A request: what belongs to earlier passes is not wanted any more, and streams begin again."""

    pass_nr: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A result: the worker's stream is at its end."""


class _Requests:
    """What the loader's process has sent, in order.

    A thread reads it, so that the loader's process never waits for a worker that waits to be read itself.

    Attributes:
        pass_nr: the latest pass that was begun; -1 at the end. Results of other passes are not wanted.
    """

    def __init__(self, connection: Connection) -> None:
        self.pass_nr = 0
        self._connection = connection
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._starter = os.getppid()
        threading.Thread(target=self._read, name="jitgrad-requests", daemon=True).start()

    def _read(self) -> None:
        request: Any = True
        while request is not None:
            try:
                request = self._connection.recv()
            except (EOFError, OSError):
                request = None
            except Exception as error:  # an index that cannot be unpickled
                request = error
            if isinstance(request, NewPass):
                self.pass_nr = request.pass_nr
            elif request is None:
                self.pass_nr = -1
            self._queue.put(request)

    def next(self) -> Any:
        """The next request; None at the end, or if the loader's process is gone."""
        while True:
            try:
                return self._queue.get(timeout=CHECK_INTERVAL_S)
            except queue.Empty:
                parent = multiprocessing.parent_process()
                if os.getppid() != self._starter or (parent is not None and not parent.is_alive()):
                    return None


def run_worker(job: WorkerJob, connection: Connection, other_end: Connection) -> None:
    """Fetch what is asked for until there are no more requests; the target of the worker's process.

    Args:
        connection: to the loader's process.
        other_end: that process's end of the same pipe. A forked child has it too, and must close it, or the pipe is
            never at its end.
    """
    other_end.close()
    # the loader's process was interrupted as well, or is gone
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        _Worker(job, connection).run()


class _Worker:
    def __init__(self, job: WorkerJob, connection: Connection) -> None:
        switch_handler(None)  # a fork in a step that is being recorded
        self._job = job
        self._where = f"in DataLoader worker process {job.worker_id}"
        self._requests = _Requests(connection)
        self._outbox = Outbox(connection)
        self._failure: Failure | None = None
        self._fetcher: Fetcher | None = None  # None: there is a failure
        self._is_at_end = self._is_prepared = False

    def run(self) -> None:
        """The loop."""
        self._prepare()
        while (request := self._requests.next()) is not None:
            if isinstance(request, Exception):
                raise request
            if isinstance(request, NewPass):
                if self._is_prepared:
                    self._begin_pass()
                continue
            self._outbox.take_back(request.returned)
            if request.pass_nr == self._requests.pass_nr and not self._is_at_end:
                self._send(request, self._result(request.index))

    def _prepare(self) -> None:
        job = self._job
        set_num_threads(1)  # the workers are the parallelism
        seed = _seed_streams(job.base_seed, job.worker_id)
        set_worker_info(WorkerInfo(job.worker_id, job.num_workers, seed, job.dataset))
        try:
            if job.init_fn is not None:
                job.init_fn(job.worker_id)
        except Exception as error:
            self._failure = Failure(error, self._where)
        else:
            self._is_prepared = True
            self._begin_pass()

    def _begin_pass(self) -> None:
        self._is_at_end, self._fetcher = False, None
        try:
            self._fetcher = self._job.new_fetcher()
        except Exception as error:
            self._failure = Failure(error, self._where)

    def _result(self, index: Any) -> Any:
        """The batch or example at an index, or a ``Failure``, or ``Ended``."""
        if self._fetcher is None:
            return self._failure
        try:
            return self._fetcher.fetch(index)
        except StopIteration as error:
            if not self._job.is_stream:
                return Failure(error, self._where)
            self._is_at_end = True
            return Ended()
        except Exception as error:
            return Failure(error, self._where)

    def _send(self, task: Task, result: Any) -> None:
        try:
            self._outbox.send((task.pass_nr, task.nr, result))
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:  # something in the result cannot be pickled
            failure = result if isinstance(result, Failure) else Failure(error, self._where)
            try:
                self._outbox.send((task.pass_nr, task.nr, failure))
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception:  # the class of the exception: its name is in the text
                failure.make_plain()
                self._outbox.send((task.pass_nr, task.nr, failure))


def _seed_streams(base_seed: int, worker_id: int) -> int:
    """Seed Python's, jitgrad's and NumPy's streams as PyTorch does; the worker's seed.

    NumPy gets the words that its own ``SeedSequence`` makes of the worker and the seed, so that its stream has nothing
    to do with Python's, which starts from the same number by the same algorithm.
    """
    seed = base_seed + worker_id
    random.seed(seed)
    manual_seed(seed)
    words = (worker_id, base_seed & 0xFFFF_FFFF, base_seed >> 32, 0)
    np.random.seed(np.random.SeedSequence(words).generate_state(4))
    return seed
