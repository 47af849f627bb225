"""``python -m jitgrad train.py ...``: run a script in which ``import torch`` means jitgrad.

``python -m jitgrad --check train.py``: read it first, and list what it uses that jitgrad does not have.
``python -m jitgrad doctor``: what is installed, what the machine has, and whether jitgrad computes rightly on it.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import tokenize
from collections.abc import Sequence
from typing import Any

from jitgrad.config import LOGS, VARIABLES
from jitgrad.lazy import LazyModule
from jitgrad.scripts.alias import as_torch
from jitgrad.scripts.check import check_source

__all__ = ["main"]

_doctors: Any = LazyModule("jitgrad.scripts.doctor")


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit status is 1 if ``--check`` misses a name for certain, or the doctor's test fails."""
    parser = argparse.ArgumentParser(
        prog="python -m jitgrad",
        description="Run a script written for PyTorch: its `import torch` means jitgrad. The file is not touched.\n"
        "`python -m jitgrad doctor` looks at the installation; `python -m jitgrad.benchmark` times a step.",
        epilog=_settings(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true", help="do not run: list the names that jitgrad does not have")
    parser.add_argument("-m", action="store_true", dest="is_module", help="run a module, as `python -m` does")
    parser.add_argument("script", help="a file, or with -m the name of a module; or the word doctor")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="of the script")
    given = parser.parse_args(argv)
    if given.script == "doctor" and not given.is_module and not os.path.exists("doctor"):
        return _doctor()
    if given.check:
        return _check([given.script, *given.args])
    _run(given.script, given.args, given.is_module)
    return 0


def _settings() -> str:
    """The variables of the environment and the artifacts that can be logged, a line each."""
    width = max(map(len, VARIABLES)) + 2
    variables = [f"  {name:{width}}{sentence}" for name, sentence in VARIABLES.items()]
    artifacts = [f"  {name:{width}}{sentence}" for name, sentence in LOGS.items()]
    return "\n".join(["variables of the environment:", *variables, "", "artifacts of JITGRAD_LOG:", *artifacts])


def _doctor() -> int:
    diagnosis = _doctors.examine()
    diagnosis.show()
    return int(not diagnosis.test.passed)


def _check(files: Sequence[str]) -> int:
    status = 0
    for file in files:
        with tokenize.open(file) as script:
            findings = check_source(script.read(), file)
        for finding in findings:
            print(f"{file}:{finding}")
            status |= finding.is_certain
        if not findings:
            print(f"{file}: jitgrad has every name of PyTorch that it uses")
    return status


def _run(script: str, args: Sequence[str], is_module: bool) -> None:
    as_torch()
    sys.argv = [script, *args]
    if is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(script))  # as Python does; it was the current folder
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    sys.exit(main())
