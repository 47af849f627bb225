"""Random programs over the CPU and two devices, on random streams that are held up at random, against the CPU alone.

The forward orders its streams as a user must; the backward is on its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad
from jitgrad import vcpu

DEVICES = ("cpu", "vcpu:0", "vcpu:1")
NUM_STREAMS = 3


@pytest.fixture(autouse=True)
def _first_streams() -> Iterator[None]:
    yield
    for index in range(vcpu.device_count()):
        vcpu.synchronize(index)
        vcpu.set_stream(vcpu.default_stream(index))


class Streams:
    """Some streams of each device; ``enter`` makes one of each current, in order after everything before."""

    def __init__(self, delays: random.Random) -> None:
        self.of = [[vcpu.default_stream(d), *(vcpu.Stream(d) for _ in range(NUM_STREAMS - 1))] for d in DEVICES[1:]]
        self.delays = delays

    def enter(self, number: int) -> None:
        every = [s for streams in self.of for s in streams]
        for streams in self.of:
            stream = streams[number]
            for other in every:
                if other is not stream:
                    stream.wait_stream(other)
            vcpu.set_stream(stream)
            self.delay(stream)

    def delay(self, stream: vcpu.Stream) -> None:
        if self.delays.random() < 0.3:
            stream._queue.submit(lambda: time.sleep(0.002))

    def delay_all(self) -> None:
        for streams in self.of:
            for stream in streams:
                self.delay(stream)


def _beside(a: Any, b: Any) -> Any:
    return b if b.device is a.device else b.to(a.device)


def _half_written(a: Any) -> Any:
    out = a * 1.0
    out[:, 1].mul_(2.0)
    return out


def _row_written(a: Any, b: Any) -> Any:
    out = a * 1.0
    out[0] = b[1]
    return out


OPERATIONS: tuple[Callable[[Any, Any, str], Any], ...] = (
    lambda a, b, d: a + _beside(a, b),
    lambda a, b, d: a * _beside(a, b),
    lambda a, b, d: a @ _beside(a, b),
    lambda a, b, d: a.tanh(),
    lambda a, b, d: a.to(d),
    lambda a, b, d: a.t(),
    lambda a, b, d: _half_written(a),
    lambda a, b, d: _row_written(a, _beside(a, b)),
    lambda a, b, d: a.clone().copy_(b),
    lambda a, b, d: jitgrad.where(a > 0, a, _beside(a, b)),
    lambda a, b, d: jitgrad.softmax(a.to(d), -1),
    lambda a, b, d: (a.sum() / 9.0).to(d) * jitgrad.ones(3, 3, device=d),
)


def _run(seed: int, devices: tuple[str, str, str], streams: Streams | None) -> list[Any]:
    """The loss and the leaves' gradients of program ``seed``."""
    choose = random.Random(seed)
    values = np.random.default_rng(seed).standard_normal((3, 3, 3)).astype(np.float32) * 0.5
    leaves = [jitgrad.tensor(v, device=choose.choice(devices), requires_grad=True) for v in values]
    tensors = list(leaves)
    for _ in range(choose.randrange(5, 16)):
        operation, a, b = choose.choice(OPERATIONS), choose.choice(tensors), choose.choice(tensors)
        device, number = choose.choice(devices), choose.randrange(NUM_STREAMS)
        if streams is not None:
            streams.enter(number)
        tensors.append(operation(a, b, device))
    loss = sum(t.to("cpu").sum() for t in tensors[-4:])
    if streams is not None:
        streams.delay_all()
    loss.backward()
    return [loss.item(), *(None if x.grad is None else x.grad.tolist() for x in leaves)]


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_random_programs(mode: Mode, first: int) -> None:
    for seed in range(first, first + (8 if mode.name == "eager" else 2)):
        expected = _run(seed, ("cpu", "cpu", "cpu"), None)
        streams = Streams(random.Random(seed))
        found = mode.run(lambda seed=seed, streams=streams: _run(seed, DEVICES, streams), is_steady=False)
        for x, y in zip(found, expected, strict=True):
            assert (x is None) is (y is None), f"program {seed}"
            if x is not None:
                np.testing.assert_allclose(x, y, rtol=3e-5, atol=1e-5, err_msg=f"program {seed}")
