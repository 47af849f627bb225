"""Streams and events: what waits for what, and where errors go."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
import weakref
from typing import Any

import pytest
from modes import Mode
from threads import Gate, run_threads, wait_until

import jitgrad
from jitgrad import vcpu
from jitgrad.devices import Device
from jitgrad.errors import DeviceError
from jitgrad.runtime.devices import device_queue

pytestmark = pytest.mark.usefixtures("idle_devices")

V0 = Device("vcpu:0")


def test_python_goes_on_while_a_stream_works(mode: Mode) -> None:
    def step():
        x = jitgrad.ones(3, device="vcpu:0")
        with Gate():
            y = (x + 1) * 2
            y.add_(1.0)
            shapes = (y.shape, y[1:].shape)
            busy = not vcpu.current_stream(0).query()
        return shapes, busy, y.tolist()

    assert mode.run(step) == (((3,), (2,)), True, [5.0] * 3)


@pytest.mark.parametrize("read", ["item", "tolist", "cpu", "repr", "bool", "numpy", "copy", "deepcopy", "data_ptr"])
def test_reading_waits_for_the_last_writer(mode: Mode, read: str) -> None:
    reads = {
        "item": lambda y: y.item(),
        "tolist": lambda y: y.tolist()[0],
        "cpu": lambda y: y.cpu().item(),
        "repr": lambda y: float(repr(y).removeprefix("tensor([").split("]")[0]),
        "bool": lambda y: 8.0 if bool(y > 7.5) else 0.0,
        "numpy": lambda y: y.numpy(force=True)[0],
        "copy": lambda y: jitgrad.zeros(1).copy_(y).item(),
        "deepcopy": lambda y: y.__deepcopy__({}).item(),
        "data_ptr": lambda y: 8.0 if y.data_ptr() % 64 == 0 else 0.0,
    }

    def step():
        x = jitgrad.ones(1, device="vcpu:0")
        with Gate() as gate:
            y = x * 4
            y.mul_(2.0)
            threading.Timer(0.02, gate.open).start()
            return reads[read](y)

    assert mode.run(step) == 8.0


def test_streams_are_independent_until_one_waits() -> None:
    first, second = vcpu.Stream("vcpu:0"), vcpu.Stream("vcpu:0")
    x = jitgrad.ones(2, device="vcpu:0")
    x.tolist()
    with Gate(first) as gate:
        with vcpu.stream(first):
            y = x * 3
        with vcpu.stream(second):
            assert (x * 5).tolist() == [5.0, 5.0], "second does not wait for first"
            second.wait_stream(first)
            z = y + 1
            assert not second.query()
        gate.open()
        assert z.tolist() == [4.0, 4.0]


def test_an_event_is_a_point_in_a_stream() -> None:
    first, second = vcpu.Stream("vcpu:0"), vcpu.Stream("vcpu:1")
    event = vcpu.Event()
    assert event.query(), "never recorded"
    second.wait_event(event)
    second.synchronize()
    with Gate(first):
        first.record_event(event)
        assert not event.query() and event.device is V0
        with Gate(first) as later:
            pass
        event.wait(second)
        assert not second.query()
    event.synchronize()
    assert event.query()
    second.synchronize()
    later.open()


def test_events_measure_time() -> None:
    begin, end = vcpu.Event(enable_timing=True), vcpu.Event(enable_timing=True)
    with pytest.raises(ValueError, match="Both events must be recorded"):
        begin.elapsed_time(end)
    stream = vcpu.Stream("vcpu:0")
    begin.record(stream)
    stream._queue.submit(lambda: time.sleep(0.02))
    end.record(stream)
    end.synchronize()
    assert 15 < begin.elapsed_time(end) < 5000
    with pytest.raises(ValueError, match="enable_timing=True"):
        begin.elapsed_time(vcpu.Event())


def test_current_streams_belong_to_a_thread() -> None:
    default = vcpu.default_stream("vcpu:0")
    stream = vcpu.Stream("vcpu:0")
    assert vcpu.current_stream("vcpu:0") is default is vcpu.default_stream(0)
    seen: list[Any] = []
    with vcpu.stream(stream):
        assert vcpu.current_stream(0) is stream
        assert vcpu.current_stream(1) is vcpu.default_stream(1)
        thread = threading.Thread(target=lambda: seen.append(vcpu.current_stream(0)))
        thread.start()
        thread.join()
        with vcpu.stream(None):
            assert vcpu.current_stream(0) is stream
    assert seen == [default]
    with pytest.raises(ZeroDivisionError), stream:
        assert vcpu.current_stream(0) is stream
        raise ZeroDivisionError
    assert vcpu.current_stream(0) is default
    assert (stream.device, default.stream_id, stream.stream_id > 0) == (V0, 0, True)
    assert "vcpu:0" in repr(stream)


def test_a_backward_runs_on_the_streams_of_its_forward(mode: Mode) -> None:
    def step():
        stream = vcpu.Stream("vcpu:0")
        x = jitgrad.ones(2, device="vcpu:0", requires_grad=True)
        x.tolist()
        with vcpu.stream(stream):
            y = x.exp()
        z = jitgrad.ones(2, requires_grad=True) * 2
        known = (y.grad_fn.stream() is stream, z.grad_fn.stream())
        streams: list[Any] = []
        y.register_hook(lambda g: streams.append(vcpu.current_stream(0)))
        vcpu.current_stream(0).wait_stream(stream)
        y.sum().backward()
        return known, streams == [stream], x.grad.tolist()

    known, same, grad = mode.run(step)
    assert known == (True, None)
    assert same
    assert grad == pytest.approx([2.7182817] * 2)


# --- errors ---


def _clear() -> None:
    """Synchronize every device; an error may have come out before, or not yet."""
    for index in range(vcpu.device_count()):
        with contextlib.suppress(IndexError):
            vcpu.synchronize(index)


def _bad_index(x: Any) -> Any:
    return x[jitgrad.tensor([99], device=x.device)]


def test_an_error_comes_out_at_the_next_synchronization(mode: Mode) -> None:
    def step():
        x = jitgrad.arange(4, device="vcpu:0", dtype=jitgrad.float32)
        with Gate():
            bad = _bad_index(x)
            after = x * 2  # skipped
        with pytest.raises(IndexError, match="index 99 is out of bounds for dimension 0 with size 4"):
            vcpu.synchronize("vcpu:0")
        with pytest.raises(IndexError, match="index 99"):
            bad.tolist()
        with pytest.raises(IndexError, match="index 99"):
            after.tolist()
        return (x + 1).tolist()

    assert mode.run(step) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("how", ["read", "stream", "event", "device"])
def test_every_synchronization_clears_the_error(how: str) -> None:
    x = jitgrad.ones(4, device="vcpu:0")
    bad = _bad_index(x)
    event = vcpu.current_stream(0).record_event()
    ways = {
        "read": bad.tolist,
        "stream": vcpu.current_stream(0).synchronize,
        "event": event.synchronize,
        "device": lambda: vcpu.synchronize(0),
    }
    with pytest.raises(IndexError):
        ways[how]()
    assert (x * 2).tolist() == [2.0] * 4


def test_a_poisoned_stream_takes_no_work() -> None:
    x = jitgrad.ones(4, device="vcpu:0")
    _bad_index(x)
    wait_until(lambda: vcpu.current_stream(0).query())
    with pytest.raises(DeviceError, match="device vcpu:0: an earlier error was not synchronized") as info:
        x * 2
    assert isinstance(info.value.__cause__, IndexError)
    with pytest.raises(DeviceError):
        x.add_(1.0)
    with pytest.raises(IndexError):
        vcpu.synchronize(0)
    assert x.tolist() == [1.0] * 4
    assert x._version == 0, "refused, so not written"


def test_a_write_that_was_skipped_leaves_the_old_value() -> None:
    x = jitgrad.ones(4, device="vcpu:0")
    with Gate():
        _bad_index(x)
        x.add_(1.0)
    with pytest.raises(IndexError):
        x.tolist()
    assert x.tolist() == [1.0] * 4
    assert x.add_(1.0).tolist() == [2.0] * 4


def test_an_error_goes_where_values_go() -> None:
    """To another stream, another device, and the CPU."""
    x = jitgrad.ones(4, device="vcpu:0")
    stream = vcpu.Stream("vcpu:0")
    bad = _bad_index(x)
    stream.wait_stream(vcpu.current_stream(0))
    with pytest.raises(IndexError, match="99"):
        stream.synchronize()
    with pytest.raises(IndexError, match="99"):
        vcpu.synchronize(0)
    with pytest.raises(IndexError, match="99"):
        bad.to("vcpu:1").tolist()
    _clear()
    with pytest.raises(IndexError, match="99"):
        bad.cpu()
    with pytest.raises(IndexError, match="99"):
        (bad + 1).tolist()
    _clear()
    assert (x + 1).to("vcpu:1").tolist() == [2.0] * 4


def test_an_error_in_backward_reaches_the_caller_at_the_next_read(mode: Mode) -> None:
    def step():
        x = jitgrad.ones(4, device="vcpu:0", requires_grad=True)
        y = _bad_index(x)
        # what is submitted after the worker has found the error is refused: so says the second type
        with pytest.raises((IndexError, DeviceError)) as info:
            y.sum().backward()
            x.grad.tolist()
        error = info.value if isinstance(info.value, IndexError) else info.value.__cause__
        assert "index 99 is out of bounds" in str(error)
        _clear()
        x.grad = None
        (x * 3).sum().backward()
        return x.grad.tolist()

    assert mode.run(step) == [3.0] * 4


# --- memory ---


def test_work_that_waits_keeps_its_memory(mode: Mode) -> None:
    """The operand is dropped, and others of its size are made: none may get its memory while work reads it."""

    def step():
        total = jitgrad.zeros(1000, device="vcpu:0")
        with Gate():
            for i in range(20):
                x = jitgrad.full((1000,), float(i), device="cpu").to("vcpu:0")
                total.add_(x)
                del x
                jitgrad.full((1000,), -1.0)
        return total.sum().item()

    assert mode.run(step) == 190_000.0


def test_done_work_lets_its_memory_go() -> None:
    x = jitgrad.ones(1000, device="vcpu:0")
    y = x * 2
    storage = weakref.ref(x._storage)
    vcpu.synchronize(0)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        del x, y
        assert storage() is None  # at once: whoever hears that the work is done may count on its memory
    finally:
        if was_enabled:
            gc.enable()


def test_a_dropped_stream_ends_its_work_and_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_queue, "_IDLE_S", 1000.0)  # it is not for want of work that the thread ends
    stream = vcpu.Stream("vcpu:0")
    queue = stream._queue
    with Gate(stream) as gate:
        with vcpu.stream(stream):
            x = jitgrad.ones(2, device="vcpu:0") * 2
        vcpu.set_stream(vcpu.default_stream(0))
        gate.stream = None
        del stream
        assert queue.is_retired and not queue.record().query()
    assert x.tolist() == [2.0, 2.0]
    wait_until(lambda: queue._worker is None)


def test_python_does_not_run_away_from_a_stream() -> None:
    x = jitgrad.ones(10, device="vcpu:0")
    stream = vcpu.current_stream(0)
    gate = threading.Event()
    stream.launch(lambda: gate.wait(10) and None)  # until then nothing is finished
    threading.Timer(0.3, gate.set).start()
    most = 0
    for _ in range(3 * device_queue._MAX_PENDING):
        x = x * 1.0
        most = max(most, stream._queue._submitted - stream._queue._finished)
    assert most <= device_queue._MAX_PENDING
    assert x.tolist() == [1.0] * 10


@pytest.mark.skipif(sys.platform == "win32", reason="fork is a thing of Unix")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_devices_of_its_own() -> None:
    x = jitgrad.ones(3, device="vcpu:0")
    assert (x * 2).tolist() == [2.0] * 3
    pid = os.fork()
    if pid == 0:
        os._exit(0 if (x * 3).tolist() == [3.0] * 3 else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_many_threads_use_one_device() -> None:
    def work(k: int) -> Any:
        x = jitgrad.full((50,), float(k), device="vcpu:0", requires_grad=True)
        for _ in range(20):
            y = (x * x).sum()
        y.backward()
        return y.item(), x.grad[0].item()

    assert run_threads(work, 6) == [(50.0 * k * k, 2.0 * k) for k in range(6)]
