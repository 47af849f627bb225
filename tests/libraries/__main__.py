"""``python -m tests.libraries [names]``: what programs print with PyTorch and with jitgrad as ``torch``.

Each program uses one or a few libraries that import torch. It runs twice, each time in a process of its own: by
``python`` and by ``python -m jitgrad``. Text must be the same, numbers may differ by rounding (``TOLERANCE``).

A program whose library is not installed is named and counts for nothing. PyTorch must be installed; the libraries must
not bring a PyTorch of their own, so install them with ``pip install --no-deps``.

Exit status: 1 if a program fails, or prints something else.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.scripts.whole_scripts import difference

PROGRAMS = Path(__file__).parent / "programs"
TOLERANCE = 2e-5
"""Relative; float32 sums of a few hundred steps."""


def run(program: Path, *command: str) -> tuple[str, str]:
    """What a program prints, and the last line of its error; one of them is empty."""
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, *command, program], capture_output=True, text=True, timeout=600, env=env)
    error = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return (done.stdout, "") if done.returncode == 0 else ("", error[-1])


def compare(program: Path) -> str:
    """A program's verdict: "same", or what is wrong."""
    theirs, error = run(program)
    if error:
        return f"not run, PyTorch: {error}"
    ours, error = run(program, "-m", "jitgrad")
    if error:
        return f"FAILED: {error}"
    found = difference(ours, theirs, TOLERANCE)
    return f"DIFFERS: {found}" if found else "same"


def main() -> int:
    """Run the programs that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.libraries", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="programs, without .py; none: all")
    names = parser.parse_args().names or sorted(path.stem for path in PROGRAMS.glob("*.py"))
    verdicts = []
    for name in names:
        verdicts.append(compare(PROGRAMS / f"{name}.py"))
        print(f"{name:28} {verdicts[-1]}", flush=True)
    print(f"{verdicts.count('same')} of {len(names)} programs print the same")
    return int(any(verdict.startswith(("FAILED", "DIFFERS")) for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
