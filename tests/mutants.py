"""Mutants: defects made on purpose, one line each, that some test must notice. Run by hand, not by pytest.

``python tests/mutants.py [--only PATTERN]`` copies the tree to a temporary folder, puts one mutant of the list
(``mutant_list.py``) at a time into the copy, runs the tests named there, and says whether one of them failed. A mutant
that survives is a test that is missing. ``test_mutants.py`` sees to it that the list fits the source.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutant_list import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[1]
_COPIED = ("jitgrad", "tests", "pyproject.toml")
_TEST_TIMEOUT_S = 60
_TIMEOUT_S = 300

KILLED, SURVIVED = "killed", "SURVIVED"


def copy_tree(target: Path) -> None:
    """What the tests need, without caches."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def run_tests(tree: Path, tests: str) -> tuple[str, str]:
    """(verdict, the end of what pytest printed) for the tree as it is now. A test that hangs has noticed, too."""
    nodes = [f"tests/{test}" for test in tests.split()]
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--timeout={_TEST_TIMEOUT_S}"]
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *options, *nodes]
    try:
        run = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return KILLED, "no test ended"
    if run.returncode == 0:
        return SURVIVED, ""
    if "Timeout" in run.stdout + run.stderr:
        return KILLED, "a test hung"
    if run.returncode != 1:
        return f"error {run.returncode}", run.stdout[-2000:] + run.stderr[-2000:]
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    return KILLED, failed[0] if failed else ""


def try_mutant(tree: Path, mutant: Mutant) -> tuple[str, str]:
    """Put a mutant into the tree, run its tests, take it out again."""
    path = tree / mutant.path
    text = path.read_text()
    assert text.count(mutant.old) == 1, f"{mutant.path} has {mutant.old!r} {text.count(mutant.old)} times"
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        return run_tests(tree, mutant.tests)
    finally:
        path.write_text(text)


def main() -> int:
    """Report on every mutant, or on those that match; 1 if one survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a pattern to be found in the path, the texts or the tests")
    arguments = parser.parse_args()
    chosen = [m for m in MUTANTS if re.search(arguments.only, f"{m.path} {m.old} {m.new} {m.tests}")]
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="jitgrad-mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        for number, mutant in enumerate(chosen, 1):
            start = time.monotonic()
            verdict, detail = try_mutant(tree, mutant)
            counts[verdict] = counts.get(verdict, 0) + 1
            seconds = time.monotonic() - start
            first = mutant.old.strip().splitlines()[0]
            print(f"{number:3} {verdict:8} {seconds:5.1f} s  {mutant.path}: {first[:70]}  {detail}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())), f"of {len(chosen)}")
    return 0 if set(counts) <= {KILLED} else 1


if __name__ == "__main__":
    sys.exit(main())
