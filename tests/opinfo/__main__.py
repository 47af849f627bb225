"""``python -m tests.opinfo``: PyTorch's sample inputs, run by jitgrad; a table of what differs.

Owns: the command line and the table.
"""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from opinfo.checks import CHECKS, DTYPES, Failure, failures, operations
from opinfo.differences import LEFT_OUT, known
from opinfo.errors import refusals

_QUICK = ("values", "first", "second", "forward")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo", description=__doc__)
    parser.add_argument("--op", action="append", help="only operations of this name")
    parser.add_argument("--check", action="append", choices=[*CHECKS, "errors"], help="only these checks")
    parser.add_argument("--dtype", action="append", choices=list(DTYPES), help="only these dtypes")
    parser.add_argument("--full", action="store_true", help="all checks, all samples")
    parser.add_argument("--samples", type=int, default=4, help="of each operation, unless --full")
    parser.add_argument("--left-out", action="store_true", help="also operations that jitgrad leaves out")
    return parser.parse_args()


def _chosen(wanted: list[str] | None, left_out: bool) -> Iterator[tuple[str, Any]]:
    for name, op in operations().items():
        if wanted:
            if name in wanted or op.name in wanted:
                yield name, op
        elif left_out or op.name not in LEFT_OUT:
            yield name, op


def _of_one(op: Any, options: argparse.Namespace) -> Iterator[Failure | None]:
    checks = options.check or ([*CHECKS, "errors"] if options.full else _QUICK)
    limit = None if options.full else options.samples
    for check in checks:
        if check == "errors":
            for index, text in refusals(op):
                yield Failure(op.name, check, "", index, text) if text else None
            continue
        for dtype in options.dtype or DTYPES:
            yield from failures(op, check, dtype, limit)


def main() -> int:
    """Print a line per operation and check that fails, then the commonest texts; 1 if there is any."""
    options = _arguments()
    texts: collections.Counter[str] = collections.Counter()
    count = failed = 0
    for name, op in _chosen(options.op, options.left_out):
        rows: dict[tuple[str, str], list[Failure]] = {}
        try:
            for found in _of_one(op, options):
                count += 1
                if found and not known(found):
                    rows.setdefault((found.check, found.text), []).append(found)
        except Exception as error:  # PyTorch's own sample functions raise now and then
            print(f"{name}: no samples: {type(error).__name__}: {str(error)[:100]}", flush=True)
        for (check, text), some in rows.items():
            failed += len(some)
            texts[text[:60]] += 1
            print(f"{name} | {check} | {','.join(sorted({x.dtype for x in some}))} | {len(some)} from "
                  f"{some[0].sample} | {text}", flush=True)  # fmt: skip
    print(f"{failed} of {count} checks failed")
    for text, times in texts.most_common(30):
        print(f"{times:5d} {text}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
