"""Cases timed in two processes in turn, jitgrad's and PyTorch's: what benchmarks of one family share.

A family is a module with cases, see ``Case``. Turns alternate, and figures are lower quartiles: of processor time with
one thread, of wall time with more. Results are compared before anything is timed. The ratio is PyTorch's time over
ours. ``--memory`` runs every step once more, in fresh processes, and prints how much the peak of resident memory grew
over what was there before.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

__all__ = ["KINDS", "Case", "main"]

KINDS = ("forward", "step")
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "JITGRAD_NUM_THREADS")
_SECONDS_PER_TURN = 0.04
_SECONDS_BEFORE = 0.01  # a core that was idle takes some milliseconds to be fast
_WARM_CALLS = 4


class Case(NamedTuple):
    """What is timed.

    Attributes:
        name: in the table.
        call_of: of a subject's name and a kind of work, "forward" or "step": a call that returns arrays.
        multiply_adds: of the forward, for GFLOP/s; 0: the table does without them.
    """

    name: str
    call_of: Callable[[str, str], Callable[[], list[Any]]]
    multiply_adds: int = 0


def summary(outs: list[Any]) -> list[float]:
    """Numbers that equal results share, but for rounding."""
    found: list[float] = []
    for out in outs:
        values = out.numpy().astype(np.float64).ravel()
        weights = np.cos(np.arange(len(values)))
        found += [float(np.abs(values).mean()), float((values * weights).sum() / np.sqrt(len(values)))]
    return found


def serve(cases: Sequence[Case], subject: str, threads: int) -> None:
    """Answer lines of [case, kind, repeats]: seconds per call; with 0 repeats, the results' summary, and MiB."""
    m = importlib.import_module(subject)
    m.set_num_threads(threads)
    if subject == "jitgrad":  # the compiler's memory is no case's
        m.compile(lambda v: v + 1)(m.ones(3))
    clock = time.process_time if threads == 1 else time.perf_counter
    call, ready = None, None
    for line in sys.stdin:
        number, kind, repeats = json.loads(line)
        if ready != (number, kind):
            call, ready = cases[number].call_of(subject, kind), (number, kind)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for _ in range(_WARM_CALLS):
                outs = call()
        assert call is not None
        if repeats == 0:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            print(json.dumps([summary(outs), peak / 1024]), flush=True)
            continue
        awake = time.perf_counter()
        while time.perf_counter() < awake + _SECONDS_BEFORE:
            call()
        start = clock()
        for _ in range(repeats):
            call()
        print((clock() - start) / repeats, flush=True)


@contextmanager
def process(module: str, subject: str, threads: int) -> Iterator[Callable[..., Any]]:
    """A process that answers for a subject, and is stopped while it is not asked."""
    env = dict(os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    command = [sys.executable, "-m", module, "--serve", subject, "--threads", str(threads)]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None and worker.stdout is not None

        def ask(*question: Any) -> Any:
            worker.send_signal(signal.SIGCONT)
            print(json.dumps(question), file=worker.stdin, flush=True)
            answer = json.loads(worker.stdout.readline())
            worker.send_signal(signal.SIGSTOP)
            return answer

        try:
            yield ask
        finally:  # the other process may have failed: this one must not wait for ever
            worker.send_signal(signal.SIGCONT)
            worker.stdin.close()


def compare(ours: Callable[..., Any], theirs: Callable[..., Any], number: int, kind: str, turns: int) -> list[float]:
    """Seconds of a call: ours, and PyTorch's."""
    (mine, _), (other, _) = ours(number, kind, 0), theirs(number, kind, 0)
    np.testing.assert_allclose(mine, other, rtol=2e-3, atol=2e-3)
    repeats = max(1, int(_SECONDS_PER_TURN / max(ours(number, kind, 1), 1e-6)))
    times = [(ours(number, kind, repeats), theirs(number, kind, repeats)) for _ in range(turns)]
    return [float(np.quantile(column, 0.25)) for column in zip(*times, strict=True)]


def memory(module: str, number: int) -> list[float]:
    """MiB by which a step's peak grew, in fresh processes: ours, and PyTorch's."""
    found = []
    for subject in ("jitgrad", "torch"):
        with process(module, subject, 1) as ask:
            found.append(ask(number, "step", 0)[1])
    return found


def line(case: Case, kind: str, threads: int, mine: float, other: float) -> str:
    """A row of the table."""
    speed = ""
    if case.multiply_adds:
        work = 2e-9 * case.multiply_adds * (1 if kind == "forward" else 3)
        speed = f"{work / mine:6.1f} GFLOP/s  "
    times = f"ours {1e6 * mine:9.1f} us  {speed}torch {1e6 * other:9.1f} us  {other / mine:5.2f}x"
    return f"{case.name:44}{kind:8} {threads} thread(s)  {times}"


def main(module: str, cases: Sequence[Case], description: str) -> int:
    """The command of a family: a line per case and kind, and a geometric mean per kind and number of threads."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--json", action="store_true", help="print a document instead of a table")
    parser.add_argument("--turns", type=int, default=9, help="per subject and case (default: 9)")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="thread counts (default: 1 2)")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--memory", action="store_true", help="peak memory of each step instead of times")
    parser.add_argument("--serve", choices=["jitgrad", "torch"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(cases, options.serve, options.threads[0])
        return 0
    chosen = [number for number, case in enumerate(cases) if options.only in case.name]
    if options.memory:
        for number in chosen:
            ours_mib, torch_mib = memory(module, number)
            print(
                f"{cases[number].name:44} step grew by {ours_mib:6.1f} MiB, torch's by {torch_mib:6.1f} MiB", flush=True
            )
        return 0
    results: list[dict[str, Any]] = []
    for threads in options.threads:
        with process(module, "jitgrad", threads) as ours, process(module, "torch", threads) as theirs:
            for number in chosen:
                case = cases[number]
                for kind in KINDS:
                    mine, other = compare(ours, theirs, number, kind, options.turns)
                    row = {"case": case.name, "kind": kind, "threads": threads, "ours": mine, "torch": other}
                    results.append({**row, "ratio": other / mine})
                    if not options.json:
                        print(line(case, kind, threads, mine, other), flush=True)
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
