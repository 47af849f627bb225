"""What ``jitgrad.benchmark`` returns.

Owns: ``BenchmarkReport``: the figures and what follows from them.
Must not know: how anything is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.lazy import LazyModule
from jitgrad.measuring.causes import WarmCalls, causes_of
from jitgrad.measuring.subject import FIRST_CALLS, Subject
from jitgrad.report.tables import Report, Table
from jitgrad.report.units import nbytes_text, share_text, time_text

__all__ = ["BenchmarkReport", "TimeShares", "agree", "largest_difference"]

_pyplot: Any = LazyModule("matplotlib.pyplot")
_SAME_LOSS = 1e-5
"""Relative, of the first call. Twice as much is allowed at each call after it: steps amplify rounding, and Adam makes a
whole step of a gradient's last bit. A wrong gradient moves the second loss by more than that."""
_NOISE = 1.05
"""Two medians whose ratio is below this are as good as equal."""


def largest_difference(a: Sequence[float], b: Sequence[float]) -> float:
    """Relative, of losses in pairs; infinite where just one is not finite, or there are not as many."""
    if len(a) != len(b):
        return math.inf
    found = 0.0
    for x, y in zip(a, b, strict=True):
        if x == y or (math.isnan(x) and math.isnan(y)):
            continue
        found = max(found, abs(x - y) / max(abs(x), abs(y)) if math.isfinite(x) and math.isfinite(y) else math.inf)
    return found


def agree(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether losses of call after call differ by no more than rounding."""
    allowed = (_SAME_LOSS * 2**nr for nr in range(len(a)))
    return len(a) == len(b) and all(largest_difference([x], [y]) <= e for x, y, e in zip(a, b, allowed, strict=True))


@dataclass(frozen=True)
class TimeShares:
    """Where a warm compiled call's time goes, in seconds per call.

    Attributes:
        kernels: from the first task of each native step to its last.
        recording: events found in the trie: their number times what one takes on this machine, an estimate.
        fallbacks: operations that ran by NumPy's rules.
        nodes: nodes of backwards that the engine ran itself.
        compiling: planning and compiling what was new.
        python: the rest: the step's own Python, and recording what was new.
    """

    kernels: float
    recording: float
    fallbacks: float
    nodes: float
    compiling: float
    python: float

    def items(self) -> list[tuple[str, float]]:
        """(what, seconds), those that take time."""
        named = {
            "kernels": self.kernels, "recording (estimated)": self.recording, "Python and the rest": self.python,
            "operations by NumPy": self.fallbacks, "engine's nodes": self.nodes, "compiling": self.compiling,
        }  # fmt: skip
        always = ("kernels", "recording (estimated)", "Python and the rest")
        return [(what, seconds) for what, seconds in named.items() if seconds or what in always]


@dataclass
class BenchmarkReport(Report):
    """A step eagerly and compiled.

    Attributes:
        name: of the step.
        subjects: ``"eager"``, ``"compiled"``, and what was given as ``compare``, in this order.
        repeatability: largest relative difference of the losses of two eager runs from the same start.
        warm: what warm compiled calls did.
        shares: where their time goes.
        first_counters: the counters' rise in the compiled step's first calls.
        threads: that kernels may use.
        num_tensors: how many tensors the step reaches besides its arguments.
    """

    name: str
    subjects: dict[str, Subject]
    repeatability: float
    warm: WarmCalls
    shares: TimeShares
    first_counters: dict[str, int]
    threads: int
    num_tensors: int
    extra_notes: list[str] = field(default_factory=list)

    @property
    def speed_up(self) -> float:
        """Eager median by compiled median."""
        return self.subjects["eager"].median_s / self.subjects["compiled"].median_s

    @property
    def difference(self) -> float:
        """Largest relative difference of the eager and the compiled losses of the first calls."""
        return largest_difference(self.subjects["eager"].losses, self.subjects["compiled"].losses)

    @property
    def agrees(self) -> bool | None:
        """Whether eager and compiled losses agree; None: nothing was there to compare."""
        if not self.subjects["eager"].losses:
            return None
        return agree(self.subjects["eager"].losses, self.subjects["compiled"].losses)

    @property
    def break_even(self) -> int | None:
        """After how many calls the compiled step has taken less time than the eager one; None: never."""
        eager, compiled = self.subjects["eager"], self.subjects["compiled"]
        gain = eager.median_s - compiled.median_s
        cost = 0.0
        for nr in range(FIRST_CALLS):
            cost += compiled.call_s[nr] - eager.call_s[nr]
            if nr and cost <= 0:
                return nr + 1
        return FIRST_CALLS + math.ceil(cost / gain) if gain > 0 else None

    def tables(self) -> list[Table]:
        """Step times, first calls and memory of each way; then where a compiled call's time goes."""
        return [self._ways(), self._where()]

    def _ways(self) -> Table:
        shown = [s for s in self.subjects.values() if s.samples]
        rows: list[list[str]] = []
        for title, nr in (("lower quartile", 0), ("median", 1), ("upper quartile", 2)):
            rows.append([f"step, {title}", *(time_text(s.quartiles()[nr]) for s in shown)])
        for call in (1, 2, FIRST_CALLS):
            rows.append([f"call {call}", *(time_text(s.call_s[call - 1]) for s in shown)])
        rows.append([f"first {FIRST_CALLS} calls", *(time_text(sum(s.call_s)) for s in shown)])
        rows.append(["peak resident memory", *(nbytes_text(s.peak_nbytes) for s in shown)])
        rows.append([f"cores busy, of {self.threads} threads", *(f"{s.busy_cores:.1f}" for s in shown)])
        rows.append(["last loss compared", *(f"{s.losses[-1]:.7g}" if s.losses else "-" for s in shown)])
        return Table(self.name, ["", *(s.name for s in shown)], rows)

    def _where(self) -> Table:
        parts = self.shares.items()
        whole = sum(seconds for _, seconds in parts)
        rows = [[what, time_text(seconds), share_text(seconds, whole)] for what, seconds in parts]
        return Table("a warm compiled call", ["", "time", "share"], rows)

    def notes(self) -> list[str]:
        """What follows: first whether the losses may be compared, then whether compiling pays, then what it costs."""
        return [*self._about_losses(), *self._about_speed(), *causes_of(self.warm), *self.extra_notes]

    def _about_losses(self) -> list[str]:
        found = []
        if self.agrees is None:
            found.append("LOSSES NOT COMPARED: the step returns no number; return the loss to have it compared.")
        elif self.repeatability > _SAME_LOSS:
            found.append(
                f"LOSSES NOT COMPARED: two eager runs from the same start differ by {self.repeatability:.1e}, so the "
                "step keeps a state that cannot be put back (an iterator, a file, a global number, the clock)."
            )
        elif self.agrees:
            found.append(f"Losses of {FIRST_CALLS} calls agree within {self.difference:.1e} relative.")
        else:
            found.append(
                f"LOSSES DIFFER by {self.difference:.1e} relative: the times are those of two different "
                f"computations. Run jitgrad.verify(step, ...) to find the operation."
            )
        if not self.num_tensors:
            found.append(
                "NO STATE FOUND: the step reaches no tensor besides its arguments (closure, globals, defaults and "
                "attributes were searched), so no parameters or moments were put back between the runs."
            )
        return found

    def _about_speed(self) -> list[str]:
        first, even = self.first_counters, self.break_even
        made = f"{first.get('compiles', 0)} kernels were compiled, {first.get('cache_reads', 0)} read from the cache"
        if self.speed_up >= _NOISE and even is not None:
            after = sum(self.subjects["compiled"].call_s[: min(even, FIRST_CALLS)])
            after += max(0, even - FIRST_CALLS) * self.subjects["compiled"].median_s
            paid = f"Compiling pays after {even} calls ({time_text(after)})"
            return [f"Compiled is {self.speed_up:.2f} times as fast as eager. {paid}; {made}."]
        word = "no faster than eager" if self.speed_up > 1 / _NOISE else f"{1 / self.speed_up:.2f} times SLOWER"
        return [f"Compiled is {word}, so compiling does not pay; {made}."]

    def to_json(self) -> dict[str, Any]:
        """Every figure."""
        return {
            "name": self.name, "subjects": [s.to_json() for s in self.subjects.values()],
            "speed_up": self.speed_up, "break_even": self.break_even, "agrees": self.agrees,
            "difference": self.difference, "repeatability": self.repeatability, "threads": self.threads,
            "num_tensors": self.num_tensors, "shares_s": dict(self.shares.items()),
            "first_counters": self.first_counters, "warm_counters": self.warm.counters,
            "warm_calls": self.warm.count, "notes": self.notes(),
        }  # fmt: skip

    def plot(self, path: Any = None) -> Any:
        """Draw step times, and the time that has passed after each call.

        Args:
            path: a file to write it to; None: just return it.

        Returns:
            The matplotlib figure. ImportError without matplotlib.
        """
        figure, (left, right) = _pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
        shown = [s for s in self.subjects.values() if s.samples]
        left.boxplot([[1e6 * t for t in s.samples] for s in shown], showfliers=False)
        left.set_xticklabels([s.name for s in shown])
        left.set(ylabel="microseconds per step", title=self.name, ylim=(0, None))
        calls = range(1, max(self.break_even or 0, 2 * FIRST_CALLS) * 3 // 2)
        for s in shown:
            passed, total = [], 0.0
            for call in calls:
                total += s.call_s[call - 1] if call <= FIRST_CALLS else s.median_s
                passed.append(1e3 * total)
            right.plot(calls, passed, label=s.name)
        right.set(xlabel="calls", ylabel="milliseconds passed", xscale="log", yscale="log")
        right.legend()
        if path is not None:
            figure.savefig(path, dpi=150)
            _pyplot.close(figure)
        return figure
