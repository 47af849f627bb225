"""A pass over a loader's batches that other processes load.

Owns: which worker loads which batch, the order of results, noticing workers that die, the end of the workers.
Must not know: what a worker does with a request (``worker.py``), how results travel (``parcels.py``).

Each worker has a pipe of its own. So a worker that is killed can leave nothing locked that others need; its pipe is at
its end, and what it had finished is still read.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import time
import weakref
from multiprocessing.connection import wait
from typing import Any, NoReturn

from jitgrad.utils.data._utils.failure import Failure
from jitgrad.utils.data._utils.iterators import BaseDataLoaderIter
from jitgrad.utils.data._utils.parcels import Inbox
from jitgrad.utils.data._utils.worker import CHECK_INTERVAL_S, Ended, NewPass, Task, WorkerJob, run_worker

__all__ = ["MultiProcessingDataLoaderIter"]

_NO_DATA = object()


class _WorkerHandle:
    """A worker, as the loader's process sees it.

    Attributes:
        process: the worker's.
        connection: to it.
        inbox: its results.
        is_active: it is asked for more in this pass.
        is_gone: its pipe is at its end. That is an error once a result is needed that it has not sent.
        num_tasks: how many results are still to come.
    """

    def __init__(self, context: Any, job: WorkerJob) -> None:
        self.connection, theirs = context.Pipe()
        self.inbox = Inbox(self.connection)
        self.is_active = True
        self.is_gone = self._is_stopped = False
        self.num_tasks = 0
        self.process = context.Process(target=run_worker, args=(job, theirs, self.connection), daemon=True)
        try:
            self.process.start()
        finally:
            theirs.close()  # or the pipe would not be at its end when the worker is

    def send(self, request: Any) -> None:
        """Send a request; nothing happens if the worker is gone: the wait for its results will notice."""
        with contextlib.suppress(OSError):
            self.connection.send(request)

    def stop(self) -> None:
        """There are no more requests."""
        self.is_active = False
        if not self._is_stopped:
            self._is_stopped = True
            self.send(None)

    def drain(self) -> None:
        """Read one result and forget it; close the pipe at its end."""
        try:
            self.inbox.skip()
        except (EOFError, OSError):
            self.connection.close()


class MultiProcessingDataLoaderIter(BaseDataLoaderIter):
    """Asks workers for batches ahead of time."""

    def __init__(self, loader: Any) -> None:
        self._workers: list[_WorkerHandle] = []
        # not a ``__del__``: in a cycle of garbage, the pipes may be finalized before the iterator is
        self._end = weakref.finalize(self, _end_workers, self._workers, os.getpid())
        self._end.atexit = False  # then they are terminated, as all daemons
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._persistent_workers = loader.persistent_workers
        if self._prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        context = loader.multiprocessing_context or multiprocessing
        for worker_id in range(self._num_workers):
            self._workers.append(_started(context, self._job(worker_id, loader.worker_init_fn)))
        self._pass_nr = -1
        self._reset(loader, first_iter=True)

    def _job(self, worker_id: int, init_fn: Any) -> WorkerJob:
        return WorkerJob(
            self._dataset,
            self._fetcher_class,
            self._is_stream,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
            worker_id,
            self._num_workers,
            self._base_seed,
            init_fn,
        )

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._pass_nr += 1
        self._send_idx = 0  # number of the next task
        self._rcvd_idx = 0  # number of the task whose result is returned next
        self._results: dict[int, tuple[_WorkerHandle, Any]] = {}  # of tasks that were sent
        self._turn = itertools.cycle(self._workers)
        for worker in self._workers:
            worker.is_active, worker.num_tasks = True, 0
            if not first_iter:
                worker.send(NewPass(self._pass_nr))
        for _ in range(self._prefetch_factor * self._num_workers):
            self._send_task()

    # --- requests ---

    def _send_task(self) -> None:
        """Ask for one more batch, if there is one and a worker for it."""
        try:
            index = self._next_index()
        except StopIteration:
            return
        worker = self._next_worker()
        if worker is None:
            return
        worker.send(Task(self._pass_nr, self._send_idx, index, worker.inbox.take_returned()))
        worker.num_tasks += 1
        self._results[self._send_idx] = (worker, _NO_DATA)
        self._send_idx += 1

    def _next_worker(self) -> _WorkerHandle | None:
        """Workers take turns; where order does not matter, one that is slow is passed over."""
        num_active = sum(worker.is_active for worker in self._workers)
        for worker in itertools.islice(self._turn, self._num_workers):
            if worker.is_active:
                limit = self._prefetch_factor * self._num_workers // num_active
                if self._in_order or worker.num_tasks < limit:
                    return worker
        return None

    # --- results ---

    def _next_data(self) -> Any:
        while self._find_next():
            worker, data = self._results[self._rcvd_idx]
            if data is _NO_DATA:
                if worker.is_gone:
                    _raise_for_dead(worker)
                nr, worker, data = self._receive()
                if nr < 0:
                    continue
                if nr != self._rcvd_idx and self._in_order:
                    self._results[nr] = (worker, data)
                    continue
            else:
                nr = self._rcvd_idx
            del self._results[nr]
            return self._handed_out(worker, data)
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _find_next(self) -> bool:
        """Let ``_rcvd_idx`` be a task that has a result, or whose worker will send one; False: there is none."""
        while self._rcvd_idx < self._send_idx:
            worker, data = self._results.get(self._rcvd_idx, (None, _NO_DATA))
            if worker is not None:
                if data is not _NO_DATA or worker.is_active:
                    return True
                del self._results[self._rcvd_idx]
            self._rcvd_idx += 1
        return False

    def _handed_out(self, worker: _WorkerHandle, data: Any) -> Any:
        worker.num_tasks -= 1
        self._send_task()
        if isinstance(data, Failure):
            data.reraise()
        return data

    def _receive(self) -> tuple[int, _WorkerHandle, Any]:
        """The next result: (number of the task, worker, data); -1 if it is no data of this pass."""
        worker = self._worker_with_result()
        try:
            pass_nr, nr, data = worker.inbox.receive()
        except (EOFError, OSError):
            worker.is_gone = True
            return -1, worker, None
        if pass_nr != self._pass_nr:
            return -1, worker, None
        if isinstance(data, Ended):
            worker.is_active = False
            if not self._persistent_workers:
                worker.stop()
            self._send_task()
            return -1, worker, None
        return nr, worker, data

    def _worker_with_result(self) -> _WorkerHandle:
        """Wait for a result of any worker, or for the end of one. RuntimeError if the time is over."""
        deadline = time.monotonic() + self._timeout
        by_connection = {w.connection: w for w in self._workers if w.is_active and not w.is_gone}
        while True:
            ready = wait(by_connection, self._timeout or CHECK_INTERVAL_S)
            if ready:
                return by_connection[ready[0]]
            for connection, worker in by_connection.items():  # a process that a worker started may keep its pipe open
                if not worker.process.is_alive() and not connection.poll():
                    worker.is_gone = True
                    return worker
            if self._timeout and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _shutdown_workers(self) -> None:
        """Let all workers end, and wait for them."""
        self._end()


def _started(context: Any, job: WorkerJob) -> _WorkerHandle:
    try:
        return _WorkerHandle(context, job)
    except (TypeError, AttributeError, ValueError) as error:  # and PicklingError, which is none of these
        error.add_note(
            "while a worker process was started: where processes are not forked, the data set and the functions that "
            "the DataLoader was given must be picklable"
        )
        raise


def _raise_for_dead(worker: _WorkerHandle) -> NoReturn:
    """RuntimeError: a worker is gone, and a result is missing."""
    worker.process.join(CHECK_INTERVAL_S)
    worker.stop()
    pid, code = worker.process.pid, worker.process.exitcode
    if code is not None and code < 0:
        why = f"DataLoader worker (pid {pid}) is killed by signal: {_name_of_signal(-code)}."
    else:
        why = (
            f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {code}. Details are lost due to "
            "multiprocessing. Rerunning with num_workers=0 may give better error trace."
        )
    raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly") from RuntimeError(why)


def _name_of_signal(number: int) -> str:
    try:
        return signal.strsignal(number) or str(number)
    except ValueError:
        return str(number)


# --- the end ---


def _end_workers(workers: list[_WorkerHandle], owner: int) -> None:
    """Let workers end, and wait for them; those that do not are terminated. In a forked child, nothing happens."""
    if os.getpid() != owner:
        return
    for worker in workers:
        worker.stop()
    _wait_for_end(workers)
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(CHECK_INTERVAL_S)
        if worker.process.is_alive():
            worker.process.kill()
        worker.connection.close()


def _wait_for_end(workers: list[_WorkerHandle]) -> None:
    """Give them some time. What they still send is read, or they could not end."""
    deadline = time.monotonic() + CHECK_INTERVAL_S
    alive = {worker.process.sentinel: worker for worker in workers}
    while alive and (seconds := deadline - time.monotonic()) > 0:
        open_ones = {w.connection: w for w in alive.values() if not w.connection.closed}
        for ready in wait([*alive, *open_ones], seconds):
            if ready in open_ones:
                open_ones[ready].drain()
            else:
                alive.pop(ready).process.join()
