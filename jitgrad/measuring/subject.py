"""One way to run a step: its losses, its first calls, its times.

Owns: ``Subject``, ``loss_of``.
Must not know: the other ways, what the times mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from jitgrad.measuring.memory import peak_nbytes, reset_peak

__all__ = ["FIRST_CALLS", "Subject", "loss_of"]

FIRST_CALLS = 10
"""So many calls are timed one by one, and their losses are compared."""
_BATCH_SECONDS = 0.004
"""Steps are timed in batches of about this length: one loss is read per batch, as a training loop would."""
_MAX_BATCH = 1000


def loss_of(result: Any) -> float | None:
    """The first number in what a step returns (a tensor of one element, a number, or a container of these)."""
    if isinstance(result, bool) or result is None:
        return None
    if isinstance(result, int | float):
        return float(result)
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple | list):
        return next((loss for loss in map(loss_of, result) if loss is not None), None)
    numel = getattr(result, "numel", None)
    if callable(numel):
        return float(result.item()) if numel() == 1 else None
    return float(result) if getattr(result, "shape", None) == () else None


@dataclass
class Subject:
    """A way to run a step.

    Attributes:
        name: ``"eager"``, ``"compiled"``, or as given to ``compare``.
        losses: of the first calls; those without a number are left out.
        call_s: seconds of each of the first calls, its loss read.
        samples: seconds per step, of batches.
        wall_s, processor_s: of the samples: by the clock, and of all threads.
        peak_nbytes: the largest resident size of the process in the first slice; None: not known.
        error: what it raised; empty: nothing.
    """

    name: str
    call: Callable[..., Any]
    batches: Sequence[tuple[Any, ...]]
    kwargs: dict[str, Any]
    losses: list[float] = field(default_factory=list)
    call_s: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    wall_s: float = 0.0
    processor_s: float = 0.0
    peak_nbytes: int | None = None
    error: str = ""

    def __post_init__(self) -> None:
        self._arguments: Iterator[tuple[Any, ...]] = cycle(self.batches)
        self._batch = 0

    def once(self) -> Any:
        """One step."""
        return self.call(*next(self._arguments), **self.kwargs)

    def rewind(self) -> None:
        """The next call takes the first batch."""
        self._arguments = cycle(self.batches)

    def first_calls(self) -> None:
        """Make them, and keep their losses and times. What the step raises goes on."""
        self.rewind()
        for _ in range(FIRST_CALLS):
            start = time.perf_counter()
            loss = loss_of(self.once())
            self.call_s.append(time.perf_counter() - start)
            if loss is not None:
                self.losses.append(loss)

    def slice(self, seconds: float) -> None:
        """Run steps for so long, at least a batch, and keep the times."""
        if not self._batch:
            fastest = min(self._run(1) for _ in range(2))
            self._batch = max(1, min(_MAX_BATCH, round(_BATCH_SECONDS / max(fastest, 1e-9))))
        is_first = not self.samples
        is_reset = is_first and reset_peak()
        self._run(1)  # caches, branch predictors and sleeping threads after a pause
        processor, start = time.process_time(), time.perf_counter()
        end = start + seconds
        while True:
            self.samples.append(self._run(self._batch) / self._batch)
            if time.perf_counter() >= end:
                break
        self.wall_s += time.perf_counter() - start
        self.processor_s += time.process_time() - processor
        if is_reset:
            self.peak_nbytes = peak_nbytes()

    def seconds_of_one(self) -> float:
        """Run a batch of steps; seconds per step."""
        count = max(1, self._batch)
        return self._run(count) / count

    def _run(self, count: int) -> float:
        """Seconds for ``count`` steps, the last loss read, so that nothing queued is left out."""
        start = time.perf_counter()
        for _ in range(count):
            result = self.once()
        loss_of(result)
        return time.perf_counter() - start

    def quartiles(self) -> tuple[float, float, float]:
        """Of the time of a step, in seconds."""
        ordered = sorted(self.samples)
        last = len(ordered) - 1
        return ordered[last // 4], ordered[last // 2], ordered[(3 * last) // 4]

    @property
    def median_s(self) -> float:
        """Seconds per step."""
        return self.quartiles()[1]

    @property
    def busy_cores(self) -> float:
        """Processor time by the clock's: how many cores a step keeps busy."""
        return self.processor_s / self.wall_s if self.wall_s else 0.0

    def to_json(self) -> dict[str, Any]:
        """What was measured."""
        return {
            "name": self.name, "losses": self.losses, "call_s": self.call_s, "samples_s": self.samples,
            "quartiles_s": self.quartiles() if self.samples else None, "busy_cores": self.busy_cores,
            "peak_nbytes": self.peak_nbytes, "error": self.error,
        }  # fmt: skip
