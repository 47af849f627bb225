"""Cases timed in two processes in turn, jitgrad's and PyTorch's: what benchmarks of one family share.

A family is a module with ``CASES``, a tuple of pairs (name, function). The function takes a subject's name and a kind
of work, "forward" or "step", and returns a call that returns arrays. Turns alternate, and figures are lower quartiles:
of processor time with one thread, of wall time with more. Results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["KINDS", "Case", "main"]

Case = tuple[str, Callable[[str, str], Callable[[], list[Any]]]]
KINDS = ("forward", "step")
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "JITGRAD_NUM_THREADS")
_SECONDS_PER_TURN = 0.02
_WARM_CALLS = 4


def summary(outs: list[Any]) -> list[float]:
    """Numbers that equal results share, but for rounding."""
    found: list[float] = []
    for out in outs:
        values = out.numpy().astype(np.float64).ravel()
        weights = np.cos(np.arange(len(values)))
        found += [float(np.abs(values).mean()), float((values * weights).sum() / np.sqrt(len(values)))]
    return found


def serve(cases: Sequence[Case], subject: str, threads: int) -> None:
    """Answer lines of [case, kind, repeats]: seconds per call; with 0 repeats, the results' summary."""
    importlib.import_module(subject).set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    call, ready = None, None
    for line in sys.stdin:
        number, kind, repeats = json.loads(line)
        if ready != (number, kind):
            call, ready = cases[number][1](subject, kind), (number, kind)
            for _ in range(_WARM_CALLS):
                outs = call()
        assert call is not None
        if repeats == 0:
            print(json.dumps(summary(outs)), flush=True)
            continue
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

        yield ask
        worker.send_signal(signal.SIGCONT)
        worker.stdin.close()


def compare(ours: Callable[..., Any], theirs: Callable[..., Any], number: int, kind: str, turns: int) -> list[float]:
    """Seconds of a call: ours, and PyTorch's."""
    np.testing.assert_allclose(ours(number, kind, 0), theirs(number, kind, 0), rtol=2e-3, atol=2e-3)
    repeats = max(1, int(_SECONDS_PER_TURN / max(ours(number, kind, 1), 1e-6)))
    times = [(ours(number, kind, repeats), theirs(number, kind, repeats)) for _ in range(turns)]
    return [float(np.quantile(column, 0.25)) for column in zip(*times, strict=True)]


def main(module: str, cases: Sequence[Case], description: str) -> int:
    """The command of a family: a line per case and kind, and a geometric mean per kind and number of threads."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--json", action="store_true", help="print a document instead of a table")
    parser.add_argument("--turns", type=int, default=9, help="per subject and case (default: 9)")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="thread counts (default: 1 2)")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--serve", choices=["jitgrad", "torch"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(cases, options.serve, options.threads[0])
        return 0
    results: list[dict[str, Any]] = []
    for threads in options.threads:
        with process(module, "jitgrad", threads) as ours, process(module, "torch", threads) as theirs:
            for number, (name, _) in enumerate(cases):
                for kind in KINDS if options.only in name else ():
                    mine, other = compare(ours, theirs, number, kind, options.turns)
                    row = {"case": name, "kind": kind, "threads": threads, "ours": mine, "torch": other}
                    results.append({**row, "ratio": other / mine})
                    if not options.json:
                        times = f"ours {1e6 * mine:9.1f} us  torch {1e6 * other:9.1f} us  {other / mine:5.2f}x"
                        print(f"{name:44}{kind:8} {threads} thread(s)  {times}", flush=True)
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
