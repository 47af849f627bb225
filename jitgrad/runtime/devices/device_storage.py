"""Memory of tensors that are not on the CPU: written by streams, or not there at all.

Owns: ``DeviceStorage`` (the stream that writes it, and the wait for that before the host reads) and ``MetaStorage``.
Must not know: operations, which stream is current.
In: byte counts, tickets of queues. Out: memory for workers (``memory``), values for the host (``array``).

The memory is there from the start, and work that is queued holds the storage: whatever the user's order of streams, no
work can touch memory that was given to somebody else. What is *in* it is the user's business on the device, as with
CUDA; the host always waits for the last writer.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops.aval import Aval
from jitgrad.runtime.devices.device_queue import DeviceQueue
from jitgrad.runtime.storage.storage import Storage

__all__ = ["DeviceStorage", "MetaStorage"]


class DeviceStorage(Storage):
    """Memory on a virtual device.

    Attributes:
        queue: of the stream that writes or wrote it last; None = the host did, when it was made.
        ticket: of that work.
        error: why it was never written; see Note [Poisoned queue].
    """

    __slots__ = ("error", "queue", "ticket")

    def __init__(self, nbytes: int) -> None:
        super().__init__(max(nbytes, 1))
        self.queue: DeviceQueue | None = None
        self.ticket = 0
        self.error: BaseException | None = None

    def memory(self, aval: Aval) -> Any:
        """A NumPy view for a worker, without waiting: the stream's order says that it may look."""
        if self.error is not None:
            raise self.error
        return super().array(aval)

    def array(self, aval: Aval) -> Any:
        """A NumPy view for the host, once the last writer is done.

        Raises:
            Whatever kept the value from being written.
        """
        self.wait()
        return super().array(aval)

    def wait(self) -> None:
        """Wait for the last writer; a synchronization, so errors come out here."""
        queue = self.queue
        if queue is not None:
            queue.synchronize(self.ticket)
        if self.error is not None:
            raise self.error


class MetaStorage(Storage):
    """The storage of a tensor on ``meta``: a size, and no memory."""

    __slots__ = ()

    def __init__(self, nbytes: int) -> None:
        self.addr = 0
        self.nbytes = nbytes
        self.owner = None

    def array(self, aval: Aval) -> Any:
        """There is nothing to read; NotImplementedError, as PyTorch says it."""
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
