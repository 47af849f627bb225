"""``get_worker_info``: which worker of a loader this process is.

Owns: ``WorkerInfo`` and where it is kept.
Must not know: what workers do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["WorkerInfo", "get_worker_info", "set_worker_info"]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One worker of a loader.

    Attributes:
        id: its number, from 0.
        num_workers: how many the loader has.
        seed: of its random streams: Python's and jitgrad's, and NumPy's by a hash of it.
        dataset: its copy of the data set.
        rng: None; for workers that are threads, of which there are none.
        worker_method: what kind of worker it is.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_info: list[WorkerInfo] = []


def set_worker_info(info: WorkerInfo) -> None:
    """Let this process be a worker, for good."""
    _info[:] = [info]


def get_worker_info() -> WorkerInfo | None:
    """What a worker of a ``DataLoader`` needs to know of itself; None in any other process."""
    return _info[0] if _info else None
