"""Two independent branches on two virtual devices, against the same two on one: do they really run at once?

``python -m benchmarks.devices``. Each branch is a chain of matrix products, forward and backward. NumPy's own threads
are turned off (in a process of its own), so that a branch is one core's work. What can be had at best is measured too:
the same products by bare NumPy on two Python threads, against one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np

import jitgrad
from jitgrad import vcpu

__all__ = ["main", "measure"]

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _weights(size: int, device: str) -> Any:
    return jitgrad.randn(size, size, device=device).mul_(size**-0.5).requires_grad_()


def _branch(x: Any, w: Any, length: int) -> Any:
    y = x
    for _ in range(length):
        y = jitgrad.tanh(y @ w)
    return y.sum()


def _once(devices: tuple[str, str], size: int, length: int) -> tuple[float, float]:
    """Seconds of forward and backward of two branches, until both gradients are there."""
    operands = [(jitgrad.randn(size, size, device=d), _weights(size, d)) for d in devices]
    for index in range(vcpu.device_count()):
        vcpu.synchronize(index)
    start = time.perf_counter()
    losses = [_branch(x, w, length) for x, w in operands]
    submitted = time.perf_counter() - start
    total = losses[0].cpu() + losses[1].cpu()
    total.backward()
    for _, w in operands:
        w.grad[0, 0].item()
    return time.perf_counter() - start, submitted


def _bare(size: int, length: int) -> tuple[float, float]:
    """Seconds of two chains of bare products one after the other, and on two threads."""
    arrays = [np.random.default_rng(i).standard_normal((size, size), np.float32) for i in range(2)]

    def work(a: Any) -> None:
        for _ in range(3 * length):  # one forward, two backward
            a @ a

    start = time.perf_counter()
    for a in arrays:
        work(a)
    middle = time.perf_counter()
    threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return middle - start, time.perf_counter() - middle


def measure(size: int, length: int, rounds: int) -> dict[str, float]:
    """Medians in milliseconds, taking turns."""
    jitgrad.manual_seed(0)
    one, two, submitted, bare = [], [], [], []
    for _ in range(rounds):
        one.append(_once(("vcpu:0", "vcpu:0"), size, length)[0])
        seconds, first = _once(("vcpu:0", "vcpu:1"), size, length)
        two.append(seconds)
        submitted.append(first)
        bare.append(_bare(size, length))

    def middle(values: list[float]) -> float:
        return 1e3 * sorted(values)[len(values) // 2]

    found = {"one_device_ms": middle(one), "two_devices_ms": middle(two), "submit_ms": middle(submitted)}
    found["ratio"] = found["one_device_ms"] / found["two_devices_ms"]
    found["bare_ratio"] = middle([a for a, _ in bare]) / middle([b for _, b in bare])
    return found


def main() -> int:
    """Print the figures, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="of the square matrices (default: 512)")
    parser.add_argument("--length", type=int, default=12, help="products per branch (default: 12)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in _ONE_THREAD.items()):  # NumPy has read them already
        command = [sys.executable, "-m", "benchmarks.devices", *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, **_ONE_THREAD}, check=False).returncode
    figures = measure(arguments.size, arguments.length, arguments.rounds)
    if arguments.json:
        print(json.dumps(figures))
        return 0
    print(f"two branches on one device    {figures['one_device_ms']:8.1f} ms")
    print(f"two branches on two devices   {figures['two_devices_ms']:8.1f} ms")
    print(f"submitting the forward        {figures['submit_ms']:8.1f} ms")
    print(f"two devices are               {figures['ratio']:8.2f} times as fast as one")
    print(f"bare NumPy on two threads     {figures['bare_ratio']:8.2f} times as fast as on one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
