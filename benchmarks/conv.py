"""``python -m benchmarks.conv``: convolutions against PyTorch, forward and whole step, one thread and more.

Each subject runs in a process of its own. A step is a convolution with bias and its three gradients; the forward is
without gradients. Turns alternate, and figures are lower quartiles: of processor time with one thread, of wall time
with more. Results are compared before anything is timed. The ratio is PyTorch's time over ours. ``--memory`` runs every
step once more, in fresh processes, and prints how much the peak of resident memory grew over what was there before.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CASES", "main"]

_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "JITGRAD_NUM_THREADS")
_SECONDS_PER_TURN = 0.02


class Case(NamedTuple):
    """One convolution: extents of the image (as many as it has dimensions), of the window, and the rest."""

    name: str
    batch: int
    channels: int
    image: tuple[int, ...]
    outs: int
    window: int
    stride: int = 1
    padding: int = 0
    groups: int = 1

    @property
    def multiply_adds(self) -> int:
        """Of the forward."""
        positions = [(n + 2 * self.padding - self.window) // self.stride + 1 for n in self.image]
        per_position = self.channels // self.groups * self.outs * self.window ** len(self.image)
        return self.batch * int(np.prod(positions)) * per_position


CASES = (
    Case("3x3 64 to 64", 16, 64, (32, 32), 64, 3, 1, 1),
    Case("3x3 128 to 128", 16, 128, (16, 16), 128, 3, 1, 1),
    Case("3x3 64 to 128, stride 2", 16, 64, (32, 32), 128, 3, 2, 1),
    Case("1x1 64 to 64", 16, 64, (32, 32), 64, 1),
    Case("depthwise 3x3 64", 16, 64, (32, 32), 64, 3, 1, 1, 64),
    Case("3x3 64 to 64, 4 groups", 16, 64, (32, 32), 64, 3, 1, 1, 4),
    Case("LeNet 5x5 1 to 6", 64, 1, (28, 28), 6, 5, 1, 2),
    Case("LeNet 5x5 6 to 16", 64, 6, (14, 14), 16, 5),
    Case("ResNet-18 3x3 3 to 64", 16, 3, (32, 32), 64, 3, 1, 1),
    Case("ResNet-18 1x1 64 to 128, stride 2", 16, 64, (32, 32), 128, 1, 2),
    Case("ResNet-18 3x3 128 to 256, stride 2", 16, 128, (16, 16), 256, 3, 2, 1),
    Case("ResNet-18 3x3 256 to 256", 16, 256, (8, 8), 256, 3, 1, 1),
    Case("ResNet-18 3x3 256 to 512, stride 2", 16, 256, (8, 8), 512, 3, 2, 1),
    Case("ResNet-18 3x3 512 to 512", 16, 512, (4, 4), 512, 3, 1, 1),
    Case("1d 5 64 to 64", 16, 64, (512,), 64, 5, 1, 2),
    Case("3d 3x3x3 16 to 32", 4, 16, (16, 16, 16), 32, 3, 1, 1),
)
KINDS = ("forward", "step")


def call_of(subject: str, case: Case, kind: str) -> Callable[[], list[Any]]:
    """A call of the subject's convolution. It returns the result, and in a step the gradients."""
    m = importlib.import_module(subject)
    functional = importlib.import_module(f"{subject}.nn.functional")
    conv = getattr(functional, f"conv{len(case.image)}d")
    rng = np.random.default_rng(0)

    def values(*shape: int) -> Any:
        return m.from_numpy(rng.standard_normal(shape).astype(np.float32))

    x = values(case.batch, case.channels, *case.image)
    weight = values(case.outs, case.channels // case.groups, *[case.window] * len(case.image))
    bias = values(case.outs)

    def forward(x: Any, weight: Any, bias: Any) -> Any:
        return conv(x, weight, bias, case.stride, case.padding, 1, case.groups)

    if kind == "forward":
        run = m.compile(forward) if subject == "jitgrad" else forward
        return lambda: [run(x, weight, bias)]
    leaves = [v.requires_grad_() for v in (x, weight, bias)]
    with m.no_grad():
        up = values(*forward(x, weight, bias).shape)

    def step(x: Any, weight: Any, bias: Any, up: Any) -> Any:
        out = forward(x, weight, bias)
        out.backward(up)
        return out

    compiled = m.compile(step) if subject == "jitgrad" else step

    def whole() -> list[Any]:
        for leaf in leaves:
            leaf.grad = None
        out = compiled(x, weight, bias, up)
        return [out.detach(), *(leaf.grad for leaf in leaves)]

    return whole


def summary(outs: list[Any]) -> list[float]:
    """Numbers that equal results share, but for rounding."""
    found: list[float] = []
    for out in outs:
        values = out.numpy().astype(np.float64).ravel()
        weights = np.cos(np.arange(len(values)))
        found += [float(np.abs(values).mean()), float((values * weights).sum() / np.sqrt(len(values)))]
    return found


def serve(subject: str, threads: int) -> None:
    """Answer lines of [case, kind, repeats]: seconds per call; with 0 repeats, the results' summary."""
    m = importlib.import_module(subject)
    m.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    call, ready = None, None
    for line in sys.stdin:
        number, kind, repeats = json.loads(line)
        if ready != (number, kind):
            call, ready = call_of(subject, CASES[number], kind), (number, kind)
            if subject == "jitgrad":  # the compiler is no part of the convolution
                m.compile(lambda v: v + 1)(m.ones(3))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for _ in range(4):
                outs = call()
        assert call is not None
        if repeats == 0:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            print(json.dumps([summary(outs), peak / 1024]), flush=True)
            continue
        call()
        start = clock()
        for _ in range(repeats):
            call()
        print((clock() - start) / repeats, flush=True)


@contextmanager
def process(subject: str, threads: int) -> Iterator[Callable[..., Any]]:
    """A process that answers for a subject, and is stopped while it is not asked."""
    env = dict(os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    command = [sys.executable, __file__, "--serve", subject, "--threads", str(threads)]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None and worker.stdout is not None

        def ask(*question: Any) -> Any:
            worker.send_signal(signal.SIGCONT)
            print(json.dumps(question), file=worker.stdin, flush=True)
            answer = json.loads(worker.stdout.readline())
            worker.send_signal(signal.SIGSTOP)
            return answer

        yield ask
        worker.send_signal(signal.SIGCONT)
        worker.stdin.close()


def compare(ours: Callable[..., Any], theirs: Callable[..., Any], number: int, kind: str, turns: int) -> list[float]:
    """Seconds of a call: ours, and PyTorch's."""
    (mine, _), (other, _) = ours(number, kind, 0), theirs(number, kind, 0)
    np.testing.assert_allclose(mine, other, rtol=2e-3, atol=2e-3)
    repeats = max(1, int(_SECONDS_PER_TURN / max(ours(number, kind, 1), 1e-6)))
    times = [(ours(number, kind, repeats), theirs(number, kind, repeats)) for _ in range(turns)]
    return [float(np.quantile(column, 0.25)) for column in zip(*times, strict=True)]


def memory(number: int) -> list[float]:
    """MiB by which a step's peak grew, in fresh processes: ours, and PyTorch's."""
    found = []
    for subject in ("jitgrad", "torch"):
        with process(subject, 1) as ask:
            found.append(ask(number, "step", 0)[1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conv", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a document instead of a table")
    parser.add_argument("--turns", type=int, default=9, help="per subject and shape (default: 9)")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="thread counts (default: 1 2)")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--memory", action="store_true", help="peak memory of each step instead of times")
    parser.add_argument("--serve", choices=["jitgrad", "torch"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads[0])
        return 0
    chosen = [n for n, case in enumerate(CASES) if options.only in case.name]
    if options.memory:
        for n in chosen:
            ours, theirs = memory(n)
            print(f"{CASES[n].name:36} step grew by {ours:6.1f} MiB, torch's by {theirs:6.1f} MiB", flush=True)
        return 0
    results = []
    for threads in options.threads:
        with process("jitgrad", threads) as ours, process("torch", threads) as theirs:
            for n in chosen:
                for kind in KINDS:
                    mine, other = compare(ours, theirs, n, kind, options.turns)
                    row = {"case": CASES[n].name, "kind": kind, "threads": threads, "ours": mine, "torch": other}
                    results.append({**row, "ratio": other / mine})
                    work = 2e-9 * CASES[n].multiply_adds * (1 if kind == "forward" else 3)
                    if not options.json:
                        print(
                            f"{CASES[n].name:36}{kind:8} {threads} thread(s)  ours {1e6 * mine:9.1f} us "
                            f"{work / mine:6.1f} GFLOP/s  torch {1e6 * other:9.1f} us  {other / mine:5.2f}x",
                            flush=True,
                        )
    if options.json:
        print(json.dumps(results, indent=1))
        return 0
    for threads in options.threads:
        for kind in KINDS:
            ratios = [r["ratio"] for r in results if r["threads"] == threads and r["kind"] == kind]
            if ratios:
                mean = np.exp(np.mean(np.log(ratios)))
                print(f"{threads} thread(s), {kind}: geometric mean {mean:.2f}, least {min(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
