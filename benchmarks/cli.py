"""The command line: which rows and subjects, how long, and where the results go.

Out: exit status 0; 1 where the subjects of a row do not compute the same.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.report import print_report, to_markdown
from benchmarks.result import RowResult, geometric_mean
from benchmarks.rows import ROWS
from benchmarks.runner import Settings, run_row
from benchmarks.subjects import SUBJECTS, Subject, is_installed

__all__ = ["main"]


def _names(known: dict[str, Any]) -> Any:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown name {name!r}; known: {', '.join(known)}")
        return names

    return parse


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=_names(ROWS), default=list(ROWS), metavar="ROW[,ROW]", help=", ".join(ROWS))
    parser.add_argument("--subjects", type=_names(SUBJECTS), default=list(SUBJECTS), metavar="NAME[,NAME]")
    parser.add_argument("--seconds", type=float, default=2.0, help="of timed steps per subject and row (default: 2)")
    parser.add_argument("--threads", type=int, default=_cores(), help="for every subject (default: all cores)")
    parser.add_argument("--starts", type=int, default=3, help="process starts per cold and warm figure (default: 3)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write a document (default: to stdout)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables for a README")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="write a bar chart (needs matplotlib)")
    return parser


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _document(results: list[RowResult], settings: Settings) -> dict[str, Any]:
    libraries = dict.fromkeys(subject.library for subject in SUBJECTS.values())
    return {
        "machine": {"processor": platform.machine(), "python": platform.python_version(), "cores": _cores()},
        "versions": {library: _version(library) for library in libraries},
        "threads": settings.threads,
        "seconds": settings.seconds,
        "seed": settings.seed,
        "geometric_mean_ratio": geometric_mean([r.ratio for r in results if r.ratio]),
        "rows": [result.to_json() for result in results],
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _write(results: list[RowResult], settings: Settings, arguments: argparse.Namespace) -> None:
    document = json.dumps(_document(results, settings), indent=1)
    if arguments.json == "-":
        print(document)
    else:
        print_report(results)
    if arguments.json not in (None, "-"):
        Path(arguments.json).write_text(document + "\n")
    if arguments.markdown is not None:
        arguments.markdown.write_text(to_markdown(results) + "\n")
    if arguments.plot is not None:
        importlib.import_module("benchmarks.plot").save_chart(results, arguments.plot)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that ``argv`` asks for."""
    arguments = _parser().parse_args(argv)
    settings = Settings(arguments.seconds, arguments.threads, arguments.starts, arguments.seed, _say)
    subjects: list[Subject] = [SUBJECTS[name] for name in arguments.subjects if is_installed(SUBJECTS[name])]
    results = [run_row(ROWS[name], subjects, settings) for name in arguments.only]
    _write(results, settings, arguments)
    return 0 if all(result.is_valid for result in results) else 1
