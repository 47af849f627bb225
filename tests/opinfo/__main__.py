"""``python -m tests.opinfo``: PyTorch's sample inputs, run by jitgrad; a table of what differs.

``--full`` takes hours: with ``--store FILE`` a run that was stopped goes on where it was, ``--shard 1/4`` takes a
fourth of the operations, and ``--summary`` shows the table of a file.

Owns: the command line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from opinfo.checks import CHECKS, DTYPES, Failure, applies, failures, operations
from opinfo.differences import LEFT_OUT
from opinfo.errors import refusals
from opinfo.store import Line, Store, counted, table

_QUICK = ("values", "first", "second", "forward")
_ALL = (*CHECKS, "errors")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo", description=__doc__)
    parser.add_argument("--op", action="append", help="only operations of this name")
    parser.add_argument("--from", dest="first", default="", metavar="OP", help="only from this operation on")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="each Nth operation, beginning with the Ith")
    parser.add_argument("--check", action="append", choices=_ALL, help="only these checks")
    parser.add_argument("--dtype", action="append", choices=list(DTYPES), help="only these dtypes")
    parser.add_argument("--full", action="store_true", help="all checks, all samples")
    parser.add_argument("--samples", type=int, default=4, help="of each operation, unless --full")
    parser.add_argument("--left-out", action="store_true", help="also operations that jitgrad leaves out")
    parser.add_argument("--store", metavar="FILE", help="where findings are kept; what is there is not run again")
    parser.add_argument("--summary", action="store_true", help="run nothing, show what the file holds")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    nth, count = (int(part) for part in options.shard.split("/"))
    for at, (name, op) in enumerate(operations().items()):
        if options.op:
            if name in options.op or op.name in options.op:
                yield name, op
        elif (options.left_out or op.name not in LEFT_OUT) and at % count == nth - 1 and name >= options.first:
            yield name, op


def _keys(name: str, op: Any, options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    for check in options.check or (_ALL if options.full else _QUICK):
        if check == "errors":
            yield name, check, ""
            continue
        for dtype in options.dtype or DTYPES:
            if applies(op, check, dtype):
                yield name, check, dtype


def _found(op: Any, check: str, dtype: str, limit: int | None) -> Iterator[Failure | None]:
    if check == "errors":
        for index, text in refusals(op):
            yield Failure(op.name, check, "", index, text) if text else None
    else:
        yield from failures(op, check, dtype, limit)


def _show(line: Line) -> None:
    for text, count, sample, _ in line.wrong():
        print(f"{line.op} | {line.check} | {line.dtype} | {count} from {sample} | {text}", flush=True)


def main() -> int:
    """Print a line per difference that nothing explains, then the table; 1 if there is any."""
    options = _arguments()
    store = Store(options.store)
    limit = None if options.full else options.samples
    if options.summary:
        for line in store:
            _show(line)
    else:
        for name, op in _chosen(options):
            for key in _keys(name, op, options):
                if key in store:
                    continue
                try:
                    line = counted(key, _found(op, *key[1:], limit))
                except Exception as error:  # PyTorch's own sample functions raise now and then
                    print(f"{key}: no samples: {type(error).__name__}: {str(error)[:100]}", flush=True)
                    line = Line(*key, 0, [])
                store.add(line)
                _show(line)
    print(table(store))
    return int(any(line.wrong() for line in store))


if __name__ == "__main__":
    sys.exit(main())
