"""``torch.multiprocessing``: Python's module, whose queues and pipes carry tensors, and ``spawn``.

Owns: ``spawn`` and its errors; the names of the strategies of sharing.
Must not know: how tensors are pickled (``tensor``). A tensor arrives as a copy: writes to it stay in one process.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


def get_all_sharing_strategies() -> set[str]:
    """The ways in which tensors reach another process: they are copied through a pipe."""
    return {"file_descriptor", "file_system"}


_strategy = ["file_descriptor"]


def get_sharing_strategy() -> str:
    """The way that ``set_sharing_strategy`` chose."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose a way; both copy. ValueError for another name."""
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"expected one of {sorted(get_all_sharing_strategies())}, but got {new_strategy!r}")
    _strategy[0] = new_strategy


class ProcessException(Exception):
    """A process ended badly.

    Attributes:
        error_index: which one.
        pid: its number in the system.
    """

    def __init__(self, msg: str, error_index: int, pid: int | None) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """A process exited.

    Attributes:
        exit_code: its status, negative for a signal.
        signal_name: of the signal, or None.
    """

    def __init__(
        self, msg: str, error_index: int, pid: int | None, exit_code: int | None, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _call(function: Callable[..., Any], i: int, args: tuple[Any, ...], errors: Any) -> None:
    """What a process does; an error goes to the parent as text."""
    try:
        function(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """The processes of one ``spawn``.

    Attributes:
        processes: in the order of their numbers.
    """

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors

    def pids(self) -> list[int | None]:
        """The processes' numbers in the system."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one ends badly, all have ended, or ``timeout`` seconds have passed; whether all have ended.

        Raises:
            ProcessRaisedException: the function of a process raised; the others are ended.
            ProcessExitedException: a process exited with another status than 0.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            running = [process for process in self.processes if process.is_alive()]
            failed = next((i for i, p in enumerate(self.processes) if p.exitcode not in (0, None)), None)
            if failed is not None:
                self._fail(failed, running, grace_period)
            if not running:
                return True
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            multiprocessing.connection.wait([process.sentinel for process in running], left)

    def _fail(self, i: int, running: list[Any], grace_period: float | None) -> None:
        for process in running:
            if grace_period is not None:
                process.join(grace_period)
            process.terminate()
        for process in running:
            process.join()
        process, code = self.processes[i], self.processes[i].exitcode
        if not self._errors[i].empty():
            text = self._errors[i].get()
            raise ProcessRaisedException(
                f"\n\n-- Process {i} terminated with the following error:\n{text}", i, process.pid
            )
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(f"process {i} terminated with signal {name}", i, process.pid, code, name)
        raise ProcessExitedException(f"process {i} terminated with exit code {code}", i, process.pid, code)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in ``nprocs`` new processes; see ``spawn``."""
    context: Any = multiprocessing.get_context(start_method)
    errors = [context.SimpleQueue() for _ in range(nprocs)]
    processes = [
        context.Process(target=_call, args=(fn, i, args, errors[i]), daemon=daemon) for i in range(nprocs)
    ]
    for process in processes:
        process.start()
    found = ProcessContext(processes, errors)
    if not join:
        return found
    while not found.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in ``nprocs`` new processes, i = 0, 1, ...

    Args:
        fn: a function that another process can import.
        args: are pickled; tensors arrive as copies.
        join: wait for all; otherwise return what they can be waited for with.
        daemon: they end with this process.
        start_method: of Python's ``multiprocessing``.

    Raises:
        ProcessRaisedException: a function raised; its traceback is in the message.
        ProcessExitedException: a process ended otherwise.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
