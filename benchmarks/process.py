"""A worker process as the runner sees it: started, asked, stopped while it is not its turn.

Owns: the child processes. Must not know: rows' contents, statistics.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.subjects import environment

__all__ = ["WorkerError", "WorkerProcess"]

_CAN_STOP = hasattr(signal, "SIGSTOP")


class WorkerError(Exception):
    """What a worker said when it could not go on; the text is the error that it met."""


class WorkerProcess:
    """One subject of one row.

    Attributes:
        start_seconds: from the start of the process to the first and to the tenth loss.
    """

    def __init__(
        self, row: str, subject: str, seed: int, threads: int, cache_dir: Path, limit_seconds: float = 600.0
    ) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by close())
        self._limit_seconds = limit_seconds
        started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", row, subject, str(seed), str(threads)],
            env={**os.environ, **environment(threads, cache_dir)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        try:
            answer = self._receive()
            self.start_seconds = (answer["first_loss_at"] - started, answer["tenth_loss_at"] - started)
        except WorkerError:
            self.close()
            raise
        self._pause()

    def ask(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Let the worker run one request; it is stopped again before this returns."""
        if _CAN_STOP:
            self._process.send_signal(signal.SIGCONT)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": action, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._last_words()) from None
        answer = self._receive()
        if action != "quit":
            self._pause()
        return answer

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()

    def _pause(self) -> None:
        # a library's pool may spin for a while after its last kernel, on a core that the next subject needs
        if _CAN_STOP:
            self._process.send_signal(signal.SIGSTOP)

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], self._limit_seconds)
        if not ready:
            raise WorkerError(f"no answer within {self._limit_seconds:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f"the process ended with status {code}" + (f": {lines[-1]}" if lines else "")
