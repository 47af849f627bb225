"""One subject of one row, in its own process: answers JSON requests, one per line.

Owns: the clock. Runs only when asked; between requests it is blocked on its pipe (and stopped by the runner).
In: ``{"do": "settle"}``, ``{"do": "check", "steps": 5}``, ``{"do": "slice", "seconds": 0.2}``, ``{"do": "quit"}``.
Out: one JSON object per request; before the first, ``{"first_loss_at": t, "tenth_loss_at": t}`` or ``{"error": text}``.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchmarks.row import Training
from benchmarks.rows import find
from benchmarks.subjects import SUBJECTS, make_training

__all__ = ["main"]

_BATCH_SECONDS = 0.004
"""Steps are timed in batches of about this length: one loss is read per batch, as a training loop would."""

_WARM_SECONDS = 0.01
"""Run before a slice and not counted: caches, branch predictors and sleeping threads after a pause."""

_PATIENCE_SECONDS = 60.0
"""While jitgrad's native code is still being made beside a first process."""


def _run(step: Callable[[], Any], count: int) -> float:
    """Seconds for ``count`` steps, the last loss read, so that nothing queued is left out."""
    start = time.perf_counter()
    for _ in range(count):
        loss = step()
    float(loss)
    return time.perf_counter() - start


class _Worker:
    """A training step and how many of them make a batch."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.batch = 0

    def check(self, steps: int) -> dict[str, Any]:
        losses = [float(self.training.step()) for _ in range(steps)]
        magnitudes = [float(np.abs(_array(t)).mean(dtype=np.float64)) for t in self.training.state()]
        return {"losses": losses, "state": magnitudes}

    def settle(self) -> dict[str, Any]:
        """Wait for what is made beside the steps so far."""
        end = time.perf_counter() + _PATIENCE_SECONDS
        while _is_being_built() and time.perf_counter() < end:
            time.sleep(0.01)
        return {}

    def slice(self, seconds: float) -> dict[str, Any]:
        step = self.training.step
        warm_until = time.perf_counter() + _WARM_SECONDS
        fastest = _run(step, 1)
        while time.perf_counter() < warm_until:
            fastest = min(fastest, _run(step, 1))
        if not self.batch:
            self.batch = max(1, min(1000, round(_BATCH_SECONDS / fastest)))
        times = []
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            times.append(_run(step, self.batch) / self.batch)
        self.settle()
        return {"times": times}

    def quit(self) -> dict[str, Any]:
        return {"loss": float(self.training.step()), "peak_nbytes": _peak_nbytes()}


def _is_being_built() -> bool:
    """Whether processes of jitgrad's still compile what the next steps will run by, Note [Builders]."""
    state = sys.modules.get("jitgrad.state")
    if state is None:
        return False
    for install in tuple(state.native_cell.waiting):
        install()
    return bool(state.native_cell.waiting)


def _array(tensor: Any) -> Any:
    return np.asarray(tensor.detach().numpy() if hasattr(tensor, "detach") else tensor)


def _peak_nbytes() -> int:
    """The largest resident size so far; ``ru_maxrss`` may count the parent's before ``exec``, ``VmHWM`` does not."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _private_stdout() -> TextIO:
    """Keep the pipe for answers; whatever a library prints goes to stderr."""
    pipe = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return pipe


def _start(row: str, subject: str, seed: int, threads: int) -> tuple[_Worker, dict[str, Any]]:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    training = make_training(find(row), SUBJECTS[subject], seed, threads)
    loss = float(training.step())
    first = time.monotonic()
    _run(training.step, 9)
    return _Worker(training), {"first_loss_at": first, "tenth_loss_at": time.monotonic(), "first_loss": loss}


def _describe(error: BaseException) -> str:
    text = "".join(traceback.format_exception_only(error)).strip()
    return text if len(text) <= 300 else text[:300] + " ..."


def main() -> None:
    """Serve until told to quit: ``python -m benchmarks.worker ROW SUBJECT SEED THREADS``."""
    row, subject, seed, threads = sys.argv[1:]
    pipe = _private_stdout()
    try:
        worker, answer = _start(row, subject, int(seed), int(threads))
        print(json.dumps(answer), file=pipe)
        for line in sys.stdin:
            request = json.loads(line)
            action = request.pop("do")
            print(json.dumps(getattr(worker, action)(**request)), file=pipe)
            if action == "quit":
                break
    except Exception as error:
        traceback.print_exc()
        print(json.dumps({"error": _describe(error)}), file=pipe)


if __name__ == "__main__":
    main()
