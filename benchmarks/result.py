"""What was measured, and whether it may be believed.

Owns: ``RowResult``, ``SubjectResult``, the comparison of losses and the ratios.
Must not know: processes, printing.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.row import Row
from benchmarks.subjects import OURS, SUBJECTS

__all__ = ["RowResult", "SubjectResult", "compare", "geometric_mean"]


@dataclass
class SubjectResult:
    """One subject of one row; ``error`` says why there are no figures.

    Attributes:
        lower_quartile_us, median_us: of the time of one step, over batches of steps.
        cold_s: process start to first loss, caches empty; ``warm_s``: with the disk cache that ``cold_s`` left.
        cold_tenth_s, warm_tenth_s: the same to the tenth loss.
    """

    subject: str
    error: str | None = None
    losses: list[float] = field(default_factory=list)
    state: list[float] = field(default_factory=list)
    lower_quartile_us: float | None = None
    median_us: float | None = None
    num_samples: int = 0
    cold_s: float | None = None
    warm_s: float | None = None
    cold_tenth_s: float | None = None
    warm_tenth_s: float | None = None
    peak_nbytes: int | None = None

    def set_times(self, seconds: list[float]) -> None:
        """Fill the step times from samples."""
        ordered = sorted(seconds)
        self.num_samples = len(ordered)
        self.lower_quartile_us = 1e6 * ordered[len(ordered) // 4]
        self.median_us = 1e6 * statistics.median(ordered)


@dataclass
class RowResult:
    """One row.

    Attributes:
        mismatches: empty when every subject computed the same.
        busy_cores: what other processes used just before and just after the timing, at most.
    """

    row: Row
    subjects: dict[str, SubjectResult]
    mismatches: list[str] = field(default_factory=list)
    busy_cores: float | None = None

    @property
    def is_valid(self) -> bool:
        return not self.mismatches

    @property
    def best_peer(self) -> SubjectResult | None:
        """The fastest subject of another library, by lower quartile."""
        ours = SUBJECTS[OURS].library
        peers = [s for s in self.subjects.values() if SUBJECTS[s.subject].library != ours and s.lower_quartile_us]
        return min(peers, key=lambda s: s.lower_quartile_us or math.inf, default=None)

    @property
    def ratio(self) -> float | None:
        """Best peer's step time over ours: above 1, jitgrad is faster."""
        mine, peer = self.subjects.get(OURS), self.best_peer
        if not self.is_valid or mine is None or peer is None or not mine.lower_quartile_us:
            return None
        assert peer.lower_quartile_us is not None
        return peer.lower_quartile_us / mine.lower_quartile_us

    def to_json(self) -> dict[str, Any]:
        """A plain document, for machines."""
        peer = self.best_peer
        return {
            "row": self.row.name,
            "title": self.row.title,
            "valid": self.is_valid,
            "mismatches": self.mismatches,
            "busy_cores": self.busy_cores,
            "best_peer": peer.subject if peer else None,
            "ratio": self.ratio,
            "subjects": [asdict(s) for s in self.subjects.values()],
        }


def _differ(a: float, b: float, rtol: float) -> bool:
    return not (math.isfinite(a) and math.isfinite(b)) or abs(a - b) > rtol * max(abs(a), abs(b)) + 1e-9


def compare(row: Row, subjects: dict[str, SubjectResult]) -> list[str]:
    """Where losses or states differ from the first peer's (the first subject's, where no peer runs)."""
    ran = [s for s in subjects.values() if s.error is None]
    peers = [s for s in ran if SUBJECTS[s.subject].library != SUBJECTS[OURS].library]
    if not ran:
        return []
    reference = (peers or ran)[0]
    found = []
    for other in ran:
        for what in ("losses", "state"):
            expected, got = getattr(reference, what), getattr(other, what)
            if len(expected) != len(got):
                found.append(f"{other.subject}: {len(got)} {what}, {reference.subject} has {len(expected)}")
            wrong = (i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if _differ(a, b, row.rtol))
            first = next(wrong, None)
            if first is not None:
                a, b = expected[first], got[first]
                found.append(f"{other.subject}: {what}[{first}] = {b!r}, {reference.subject} {a!r}")
    return found


def geometric_mean(ratios: list[float]) -> float | None:
    """None for no ratios."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
