"""Where gradients add up, on which stream, and what waits for what; long kernels and the GIL; the meta device."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field

import pytest
from modes import ARGUMENTS, HOOKED, OUTSIDE, VIRTUAL, Mode, cpu_and
from threads import Gate

import jitgrad
from jitgrad import vcpu
from jitgrad.autograd import Function
from jitgrad.devices import CPU, Device
from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.run.input_buffer import InputBuffer

pytestmark = pytest.mark.usefixtures("idle_devices")

V0, V1 = Device("vcpu:0"), Device("vcpu:1")


@dataclass
class Log:
    """What streams were asked to do.

    Attributes:
        waits: (stream that waits, queue of the stream it waits for).
        launches: streams that got an operation.
    """

    waits: list[tuple[vcpu.Stream, object]] = field(default_factory=list)
    launches: list[vcpu.Stream] = field(default_factory=list)

    def pairs(self) -> list[tuple[vcpu.Stream, object]]:
        """The waits, with the streams' queues in place of streams that are waited for; then forget everything."""
        found = self.waits[:]
        self.waits.clear()
        self.launches.clear()
        return found


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    found = Log()
    wait_event, launch = vcpu.Stream.wait_event, vcpu.Stream.launch

    def logged_wait(self, event):
        found.waits.append((self, event._queue))
        wait_event(self, event)

    def logged_launch(self, *args):
        found.launches.append(self)
        launch(self, *args)

    monkeypatch.setattr(vcpu.Stream, "wait_event", logged_wait)
    monkeypatch.setattr(vcpu.Stream, "launch", logged_launch)
    return found


def _add_twice(device, producer, consumer, log):
    """Two gradients of 1 and 2 on ``device`` into one slot; (buffer, what the second addition asked for)."""
    buffer = InputBuffer([None])
    first, second = jitgrad.ones(3, device=device), jitgrad.full((3,), 2.0, device=device)
    vcpu.synchronize(0)
    vcpu.synchronize(1)
    buffer.add(0, first, producer, consumer)
    log.waits.clear()
    log.launches.clear()
    buffer.add(0, second, producer, consumer)
    return buffer, log.waits[:], log.launches[:]


@pytest.mark.row("B44", fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_the_first_slot_that_is_not_on_the_cpu_decides(mode: Mode) -> None:
    def step():
        buffer = InputBuffer([None] * 4)
        empty = buffer.device()
        buffer.add(0, jitgrad.ones(2) * 2)
        on_cpu = buffer.device()
        buffer.add(2, jitgrad.ones(2, device="vcpu:1"))
        buffer.add(3, jitgrad.ones(2, device="vcpu:0"))
        return empty, on_cpu, buffer.device()

    assert mode.run(step) == (CPU, CPU, V1)


class _Nothing(Function):
    """Undefined gradients for the node below, which is on a device."""

    @staticmethod
    def forward(ctx, x):
        return x.cpu()

    @staticmethod
    def backward(ctx, grad):
        return None


@pytest.mark.row("B44", engine=OUTSIDE, fallbacks=VIRTUAL)
def test_the_engine_asks_the_buffer_where_a_node_runs(mode: Mode) -> None:
    """Without a gradient on its device, there is nothing for the device's worker to do: the caller's queue has it."""

    def step():
        x = jitgrad.ones(2, device="vcpu:0", requires_grad=True)
        defined, undefined = x * 2, x * 3
        ran = []
        for y in (defined, undefined):
            y.grad_fn.register_prehook(lambda grads: ran.append(threading.current_thread().name))
        (defined.cpu() + _Nothing.apply(undefined)).sum().backward()
        return ran, x.grad.tolist()

    ran, grad = mode.run(step)
    assert sorted(ran) == sorted([threading.current_thread().name, "jitgrad-autograd-vcpu:0"])
    assert grad == [2.0, 2.0]


@pytest.mark.row("B46", engine=HOOKED)
@cpu_and("vcpu:0")
def test_a_gradient_that_the_user_holds_is_not_written(mode: Mode, device: str) -> None:
    """The seed, and the first of three gradients that a hook keeps, arrive where sums are made."""

    def step():
        x = jitgrad.ones(3, device=device, requires_grad=True)
        h = x * 1.0
        held = []
        branches = [h * 2.0, h * 3.0, h * 4.0]
        for b in branches:
            b.register_hook(held.append)
        seed = jitgrad.ones(3, device=device)
        total = branches[0] + branches[1] + branches[2]
        total.backward(seed)
        twice = x * 1.0
        (twice + twice).backward(seed)  # one object, two gradients of one slot
        return seed.tolist(), [g.tolist() for g in held], x.grad.tolist()

    assert mode.run(step) == ([1.0] * 3, [[1.0] * 3] * 3, [11.0] * 3)


@pytest.mark.row("B46")
def test_only_sums_of_the_buffer_are_written(mode: Mode) -> None:
    def step():
        buffer = InputBuffer([None])
        mine = jitgrad.ones(2)
        with jitgrad.no_grad():
            buffer.add(0, mine)
            buffer.add(0, jitgrad.full((2,), 2.0))
            total = buffer[0]
            buffer.add(0, jitgrad.full((2,), 3.0))
        is_same = buffer[0] is total
        buffer.add(0, jitgrad.ones(2))  # to be differentiated, perhaps: a sum that somebody has seen stays as it is
        return mine.tolist(), is_same, buffer[0] is total, total.tolist(), buffer[0].tolist()

    # a trace records values, and has no use for writing in place
    second, is_same = ([3.0] * 2, False) if mode.is_compiled else ([6.0] * 2, True)
    assert mode.run(step) == ([1.0, 1.0], is_same, False, second, [7.0] * 2)


@pytest.mark.row("B47")
def test_stream_case_1_a_value_on_the_cpu(mode: Mode, log: Log) -> None:
    """Even between streams: it adds on its own device, and nobody waits."""

    def step():
        buffer, waits, launches = _add_twice(None, vcpu.Stream("vcpu:0"), vcpu.Stream("vcpu:1"), log)
        return buffer[0].device, buffer[0].tolist(), len(waits), len(launches)

    assert mode.run(step) == (CPU, [3.0] * 3, 0, 0)


@pytest.mark.row("B48", fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_stream_case_2_on_the_device_of_both(mode: Mode, log: Log) -> None:
    def step():
        producer, consumer = vcpu.Stream("vcpu:0"), vcpu.Stream("vcpu:0")
        with Gate(producer):
            buffer, waits, launches = _add_twice_held(producer, consumer, log)
            held = consumer.query()
        same = _add_twice("vcpu:0", consumer, consumer, log)
        return (
            waits == [(consumer, producer._queue)],
            launches == [consumer],
            held,
            buffer[0].tolist(),
            same[1:] == ([], [consumer]),
            same[0][0].tolist(),
        )

    assert mode.run(step) == (True, True, False, [3.0] * 3, True, [3.0] * 3)


def _add_twice_held(producer, consumer, log, device="vcpu:0"):
    """``_add_twice`` while some stream is held, so without waiting for the device."""
    with vcpu.stream(vcpu.Stream(device)) as _:
        first, second = jitgrad.ones(3, device=device), jitgrad.full((3,), 2.0, device=device)
        assert (first.tolist(), second.tolist()) == ([1.0] * 3, [2.0] * 3)  # they are there
    buffer = InputBuffer([None])
    buffer.add(0, first, producer, consumer)
    log.waits.clear()
    log.launches.clear()
    buffer.add(0, second, producer, consumer)
    return buffer, log.waits[:], log.launches[:]


@pytest.mark.row("B49", fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_stream_case_3_on_the_consumer_s_device_only(mode: Mode, log: Log) -> None:
    def step():
        producer, consumer, default = vcpu.Stream("vcpu:1"), vcpu.Stream("vcpu:0"), vcpu.default_stream("vcpu:0")
        with Gate(producer), Gate(default):
            buffer, waits, launches = _add_twice_held(producer, consumer, log)
            held = consumer.query()
        return waits == [(consumer, default._queue)], launches == [consumer], held, buffer[0].tolist()

    assert mode.run(step) == (True, True, False, [3.0] * 3)


@pytest.mark.row("B50", fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_stream_case_4_on_the_producer_s_device_only(mode: Mode, log: Log) -> None:
    def step():
        producer, consumer, default = vcpu.Stream("vcpu:0"), vcpu.Stream("vcpu:1"), vcpu.default_stream("vcpu:0")
        with Gate(consumer), Gate(producer):
            buffer, waits, launches = _add_twice_held(producer, consumer, log)
            held = default.query()
        return waits == [(default, producer._queue)], launches == [default], held, buffer[0].tolist()

    assert mode.run(step) == (True, True, False, [3.0] * 3)


@pytest.mark.row("B51", fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_stream_case_5_on_neither_device(mode: Mode, log: Log) -> None:
    """The sum is there while producer and consumer are held: it waits for nobody."""

    def step():
        producer, consumer, default = vcpu.Stream("vcpu:1"), vcpu.Stream("vcpu:1"), vcpu.default_stream("vcpu:0")
        with Gate(producer), Gate(consumer):
            buffer, waits, launches = _add_twice_held(producer, consumer, log)
            found = buffer[0].tolist(), producer.query(), consumer.query()
        return waits, launches == [default], found

    assert mode.run(step) == ([], True, ([3.0] * 3, False, False))


@pytest.mark.row("B52")
def test_variables_move_out(mode: Mode) -> None:
    def step():
        buffer = InputBuffer([None] * 2)
        gradient = jitgrad.ones(2) * 3
        buffer.add(1, gradient)
        moved = buffer.variables()
        return moved[0], moved[1] is gradient, moved[1].tolist(), len(buffer), buffer.variables()

    assert mode.run(step) == (None, True, [3.0, 3.0], 0, [])


@pytest.mark.row("B52", engine=ARGUMENTS, fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_the_engine_moves_the_gradients_out_of_the_buffer(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a node runs, the buffer that brought its gradients is empty: only the node holds them."""
    moved = []
    variables = InputBuffer.variables

    def look(buffer):
        gradients = variables(buffer)
        moved.append((len(gradients), len(buffer)))
        return gradients

    monkeypatch.setattr(InputBuffer, "variables", look)

    def step():
        moved.clear()
        x = jitgrad.ones(2, device="vcpu:0", requires_grad=True)
        (x * 2).sum().backward()
        return x.grad.tolist(), moved[:]

    assert mode.run(step) == ([2.0, 2.0], [(1, 0)] * 3)


@pytest.mark.row("B52", no_launch="A buffer by itself computes nothing.")
def test_a_position_that_the_node_does_not_have(mode: Mode) -> None:
    def step():
        buffer = InputBuffer([None] * 2)
        with pytest.raises(AssertionError, match="position 2 of a node with 2 inputs"):
            buffer.add(2, jitgrad.ones(2))
        with pytest.raises(AssertionError, match="position 5"):
            buffer.add(5, None)
        return list(buffer)

    assert mode.run(step) == [None, None]


class Counter(threading.Thread):
    """A Python thread that counts, and knows its longest pause."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.count, self.longest, self._stop_now = 0, 0.0, False

    def run(self) -> None:
        last = time.perf_counter()
        while not self._stop_now:
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now
            self.count += 1

    def __enter__(self) -> Counter:
        self.start()
        while not self.count:
            time.sleep(0.001)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_now = True
        self.join()


@pytest.mark.row("C12")
@cpu_and("vcpu:0", engine=())
def test_python_goes_on_during_a_long_kernel(mode: Mode, device: str) -> None:
    """One product of a third of a second or so: whoever held the GIL for it would stop the counter for as long, every
    time. A busy machine may stop it, too, but not every time."""
    n = 2000
    x = jitgrad.ones(n, n, device=device)

    def step():
        begin = time.perf_counter()
        corner = (x @ x)[0, 0].item()
        return corner, time.perf_counter() - begin

    function = mode.wrap(step)
    for _ in range(0 if mode.name == "eager" else 2 if mode.name == "warm" else 1):
        function()
    tries = []
    for _ in range(20):
        with Counter() as counter:
            before = counter.count
            counter.longest = 0.0
            corner, seconds = function()
            ticks, longest = counter.count - before, counter.longest
        assert corner == n
        if ticks > 1000 and longest < seconds / 2:
            return
        tries.append(f"the counter stood still for {longest:.3f} s of {seconds:.3f} s, and came to {ticks}")
    raise AssertionError(tries)


@pytest.mark.row("C17", engine=ARGUMENTS, fallbacks="Nothing is compiled for meta.", no_launch="meta has no memory.")
def test_backward_on_meta_runs_on_the_caller_s_cpu_queue(mode: Mode) -> None:
    def step():
        x = jitgrad.ones(2, 3, device="meta", requires_grad=True)
        w = jitgrad.ones(3, 4, device="meta", requires_grad=True)
        y = (x @ w).relu()
        seen = []

        def look(grad):
            task = current.graph_task
            seen.append((threading.get_ident(), current.local_ready_queue is task.cpu_ready_queue, str(grad.device)))

        y.register_hook(look)
        y.sum().backward()
        grads = [(g.shape, str(g.device)) for g in (x.grad, w.grad)]
        return seen, grads

    seen, grads = mode.run(step)
    assert seen == [(threading.get_ident(), True, "meta")]
    assert grads == [((2, 3), "meta"), ((3, 4), "meta")]


@pytest.mark.row("B16", engine=HOOKED, fallbacks=VIRTUAL)
def test_sums_of_many_gradients_have_the_bits_of_the_cpu_in_every_run(mode: Mode) -> None:
    """Seven gradients from both devices and the CPU arrive at one tensor, in whatever order the threads get done."""

    def step(devices: tuple[str, str, str] = ("cpu", "vcpu:0", "vcpu:1")):
        x = (jitgrad.arange(64, dtype=jitgrad.float32) / 7).requires_grad_()
        y = x.sin() * 1.1
        uses = [(y.to(devices[i % 3]) * (0.1 + i / 3)).tanh() for i in range(7)]
        total = jitgrad.zeros(())
        for i, u in enumerate(uses):
            total = total + (u * u * (i + 0.7)).sum().cpu()
        total.backward()
        return x.grad.numpy().tobytes()

    on_cpu = step(("cpu", "cpu", "cpu"))
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        found = {step() for _ in range(100)} if mode.name == "eager" else {mode.run(step) for _ in range(5)}
    finally:
        sys.setswitchinterval(old)
    if mode.name == "eager":
        assert found == {on_cpu}
    else:  # compiled kernels have their own rounding on the CPU's part
        assert len(found) == 1
