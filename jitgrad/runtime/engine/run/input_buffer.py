"""``InputBuffer``: the gradients that have arrived at a node.

Owns: accumulation of several gradients into one slot, and on which stream it happens.
Must not know: nodes, the graph task.

# Note [Accumulating in place]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A gradient that arrives may also be in somebody else's hands: the user's (a seed, a hook's argument), another
# buffer's (a rule that returns one object for two inputs), or, as a view, anybody's. It is never written. The first
# sum is a new tensor that only this buffer knows; further gradients are added to it in place, unless the sum itself is
# being recorded for a higher derivative.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jitgrad.devices import CPU, Device
from jitgrad.runtime.devices.stream import Stream, default_stream, use_stream
from jitgrad.runtime.eager.quiet import run_into
from jitgrad.runtime.engine.run import trace
from jitgrad.state import state, without_overrides

__all__ = ["FEW", "InputBuffer", "accumulate", "accumulate_stream"]

FEW = 1 << 15
"""Elements that one core adds sooner than others are woken."""


class InputBuffer(list[Any]):
    """One slot per node input; None = undefined. It is made of what is there at first: ``InputBuffer([None])``.

    Attributes:
        owned: bit ``i`` is set when slot ``i`` holds a sum made here.
    """

    owned = 0

    def add(
        self,
        position: int,
        gradient: Any,
        producer_stream: Stream | None = None,
        consumer_stream: Stream | None = None,
    ) -> None:
        """Merge a gradient into a slot; an undefined one changes nothing.

        Args:
            position: the slot.
            gradient: a tensor, or None.
            producer_stream: where the node that made it runs; None = on the CPU.
            consumer_stream: where the node that takes it will run.
        """
        try:
            old = self[position]
        except IndexError:
            raise AssertionError(f"position {position} of a node with {len(self)} inputs") from None
        if gradient is None:
            return
        device = gradient._aval.device
        stream = None if device is CPU else accumulate_stream(device, producer_stream, consumer_stream)
        if old is None:
            self[position] = gradient
            return
        owned = self.owned
        may_write = bool(owned and owned >> position & 1 and not state.grad_enabled and state.handler is None)
        if stream is None:
            self[position] = accumulate(old, gradient, may_write)
        else:
            with use_stream(stream):
                self[position] = accumulate(old, gradient, may_write)
        self.owned = owned | 1 << position

    def device(self) -> Device:
        """Where the node has to run: the device of the first gradient that is not on the CPU, else the CPU."""
        for gradient in self:
            if gradient is not None and gradient._aval.device is not CPU:
                found: Device = gradient._aval.device
                return found
        return CPU

    def variables(self) -> list[Any]:
        """The gradients, moved out: the buffer is empty afterwards."""
        gradients = list(self)
        self.clear()
        self.owned = 0
        return gradients


def accumulate(old: Any, new: Any, may_write: bool) -> Any:
    """``old + new``: sparse if both are, else dense.

    Args:
        may_write: nobody else knows ``old``: the sum may be written into it, unless a sparse one becomes dense.
    """
    if may_write and (new.is_sparse or not old.is_sparse):
        if not _added(old, new):
            without_overrides(operator.iadd, old, new)
        return old
    return without_overrides(operator.add, old, new)


def _added(old: Any, new: Any) -> bool:
    """Add small arrays that lie alike: the sum that ``+=`` writes, without a look at graphs. Returns whether it did.

    Nobody else knows ``old``, so its version need not be counted.
    """
    aval, array, other = old._aval, old._array, new._array
    is_usual = aval is new._aval and array is not None and other is not None and aval.numel < FEW
    if not is_usual or not aval.dtype.is_inexact or aval.dtype.is_half:
        return False
    run_into(np.add, array, array, other)
    return True


def accumulate_stream(device: Device, producer: Stream | None, consumer: Stream | None) -> Stream | None:
    """The stream to accumulate a gradient on, after making it wait for what it must.

    PyTorch's five cases (``InputBuffer::add``), by where the gradient is:

    1. not on a device with streams: no stream, nothing to wait for;
    2. on the device of producer and consumer: the consumer's stream, which waits for the producer's if it is another;
    3. on the consumer's device only: the consumer's stream, which waits for that device's default stream;
    4. on the producer's device only: that device's default stream, which waits for the producer's;
    5. on neither: its own device's default stream; nothing to wait for.
    """
    if not device.is_virtual:
        return None
    on_producer = producer is not None and producer.device is device
    on_consumer = consumer is not None and consumer.device is device
    waits_for: Stream | None
    if on_consumer:
        assert consumer is not None
        stream, waits_for = consumer, producer if on_producer else default_stream(device)
    elif on_producer:
        stream, waits_for = default_stream(device), producer
    else:
        stream, waits_for = default_stream(device), None
    if waits_for is not None and waits_for is not stream:
        if trace.is_active():
            trace.emit("sync", device=device, detail=f"{stream} waits for {waits_for}")
        stream.wait_event(waits_for.record_event())
    return stream
