"""``python -m benchmarks.libraries [names]``: training steps with libraries over PyTorch, PyTorch against jitgrad.

Each step of ``library_steps`` runs in processes of its own: with PyTorch eagerly, with jitgrad eagerly and compiled.
Printed: the median of the calls after the third, the first call, and the largest difference of the losses from
PyTorch's. A library that is not installed leaves its row out.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["main"]

SCRIPT = Path(__file__).with_name("library_steps.py")
NAMES = (
    "gpt2", "bert", "x_transformer", "graph", "neural_ode", "spline_flow", "autoregressive_flow", "gaussian_process",
)  # fmt: skip
SUBJECTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "torch": ((), ()),
    "eager": (("-m", "jitgrad"), ()),
    "compiled": (("-m", "jitgrad"), ("--compile",)),
}


def run(subject: str, name: str) -> dict[str, Any] | None:
    """Times and losses; None if the step cannot run there."""
    before, after = SUBJECTS[subject]
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, *before, SCRIPT, name, *after], capture_output=True, text=True, env=env)
    if done.returncode:
        print(f"{name}, {subject}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str) -> str | None:
    """A line of the table."""
    found = {subject: run(subject, name) for subject in SUBJECTS}
    if None in found.values():
        return None
    known = {subject: result for subject, result in found.items() if result is not None}
    median = {subject: statistics.median(result["times"][3:]) for subject, result in known.items()}
    theirs = known["torch"]["losses"]
    ours = [*known["eager"]["losses"], *known["compiled"]["losses"]]
    worst = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(ours, theirs * 2, strict=True))
    return (
        f"{name:20} {1e3 * median['torch']:9.2f} {1e3 * median['eager']:9.2f} {1e3 * median['compiled']:9.2f} "
        f"{median['torch'] / median['compiled']:8.2f} {known['compiled']['times'][0]:8.2f} {worst:9.0e}"
    )


def main() -> int:
    """Print the table."""
    columns = ("step", "torch", "eager", "compiled", "speed-up", "first", "losses")
    print("{:20} {:>9} {:>9} {:>9} {:>8} {:>8} {:>9}".format(*columns))
    print("{:20} {:>9} {:>9} {:>9} {:>8} {:>8} {:>9}".format("", "ms", "ms", "ms", "", "s", "differ"))
    missing = False
    for name in sys.argv[1:] or NAMES:
        line = row(name)
        missing |= line is None
        if line is not None:
            print(line, flush=True)
    return int(missing)


if __name__ == "__main__":
    sys.exit(main())
