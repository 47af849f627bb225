"""Devices and their queues."""

from __future__ import annotations

import pickle
import threading

import pytest
from threads import run_threads, wait_until

from jitgrad.errors import DeviceError
from jitgrad.runtime.devices import device_queue
from jitgrad.runtime.devices.device import CPU, Device
from jitgrad.runtime.devices.device_queue import DeviceQueue


def test_devices_compare_by_type_and_index() -> None:
    assert Device("cpu") == CPU == Device(CPU)
    assert hash(Device("cpu")) == hash(CPU)
    assert Device("cpu:0") != CPU
    assert str(Device("cpu:0")) == "cpu:0"
    assert repr(CPU) == "device(type='cpu')"
    assert repr(Device("cpu:0")) == "device(type='cpu', index=0)"
    assert pickle.loads(pickle.dumps(CPU)) == CPU


@pytest.mark.parametrize("name", ["gpu", "gpu:0", "CPU", "cpu:", "cpu:x", "", "cpu 0"])
def test_unknown_devices(name: str) -> None:
    with pytest.raises(RuntimeError, match="device"):
        Device(name)


def test_device_of_something_else() -> None:
    with pytest.raises(TypeError, match="must be str, not int"):
        Device(0)


def test_work_runs_in_order_on_one_other_thread() -> None:
    queue = DeviceQueue("test")
    seen: list[tuple[int, int]] = []
    for i in range(200):
        queue.submit(lambda i=i: seen.append((i, threading.get_ident())))
    queue.synchronize()
    assert [i for i, _ in seen] == list(range(200))
    threads = {thread for _, thread in seen}
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_events_mark_points_in_the_order() -> None:
    queue = DeviceQueue("test")
    gate = threading.Event()
    before = queue.record()
    queue.submit(gate.wait)
    after = queue.record()
    before.wait()
    assert before.query() and not after.query()
    gate.set()
    after.wait()
    assert after.query()


def test_the_first_error_poisons_until_synchronize() -> None:
    queue = DeviceQueue("test")
    gate = threading.Event()
    ran: list[str] = []

    def fail() -> None:
        gate.wait()
        raise ValueError("first")

    queue.submit(fail)
    queue.submit(lambda: ran.append("skipped"))
    done = queue.record()
    gate.set()
    done.wait()
    with pytest.raises(DeviceError, match="device test: an earlier error was not synchronized") as info:
        queue.submit(lambda: ran.append("refused"))
    assert isinstance(info.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="first"):
        queue.synchronize()
    queue.submit(lambda: ran.append("works"))
    queue.synchronize()
    assert ran == ["works"]


def test_submissions_from_many_threads() -> None:
    queue = DeviceQueue("test")
    seen: list[tuple[int, int]] = []

    def work(thread: int) -> None:
        for i in range(200):
            queue.submit(lambda i=i: seen.append((thread, i)))

    run_threads(work, 4)
    queue.synchronize()
    assert len(seen) == 800
    for t in range(4):
        assert [i for thread, i in seen if thread == t] == list(range(200))


def test_an_idle_worker_leaves_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_queue, "_IDLE_S", 0.01)
    queue = DeviceQueue("test")
    queue.submit(lambda: None)
    wait_until(lambda: queue._worker is None)
    seen: list[int] = []
    queue.submit(lambda: seen.append(1))
    queue.synchronize()
    assert seen == [1]
