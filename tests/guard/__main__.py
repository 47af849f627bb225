"""Every operation against guard pages: ``python -m tests.guard`` tries all cases, one process after the other.

    python -m tests.guard                       # all cases: more than an hour on one core
    python -m tests.guard --every 50            # every fiftieth
    python -m tests.guard --op conv2d --op mm   # all of these operations
    python -m tests.guard --only 7600           # one, by its number, with the stack of a crash

A case that ends its process is printed with its name, and the next process goes on behind it. What is printed at the
end: how many were tried, survived, were refused (NumPy's rule raised), differed between forms, crashed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from tests.guard.cases import Case, all_cases
from tests.guard.worker import AS_IT_IS
from tests.ops.op_specs import SPECS

__all__ = ["attack", "numbers_of"]


def numbers_of(every: int = 1, start: int = 0, ops: Collection[str] = (), only: int | None = None) -> list[int]:
    """Which cases to try."""
    if only is not None:
        return [only]
    found = [nr for nr, case in enumerate(all_cases()) if (not ops or case.op in ops) and not _contradicts(case)]
    return found[start::every]


def _contradicts(case: Case) -> bool:
    """Whether its params are for other extents; the NumPy rule of a derivative takes an extent of 1 for any."""
    is_derivative = SPECS[case.op][case.nr].torch is None
    return bool(case.change) and (case.op in AS_IT_IS or (is_derivative and any(new == 1 for _, new in case.change)))


def attack(numbers: list[int], reasons: Counter[str] | None = None) -> tuple[Counter[str], list[str]]:
    """Run cases, each in a process that others have run in before it.

    Args:
        numbers: of the cases.
        reasons: where to count what cases were refused with.

    Returns:
        How many ended how, and a line for each that crashed or differed.
    """
    counts, lines = Counter[str](tried=len(numbers)), []
    while numbers:
        tried = ""
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.guard.worker"]
        env = {**os.environ, "JITGRAD_SAME_BITS": "1"}
        root = Path(__file__).parents[2]
        with subprocess.Popen(
            command, cwd=root, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin and process.stdout and process.stderr
            process.stdin.write(" ".join(map(str, numbers)))
            process.stdin.close()
            for line in process.stdout:
                kind, _, rest = line.rstrip().partition(" ")
                if kind == "case":
                    tried, numbers = rest, numbers[1:]
                    continue
                counts[kind] += 1
                if kind == "differs":
                    lines.append(f"{tried}: {rest}")
                elif kind == "refused" and reasons is not None:
                    reasons[re.sub(r"\d+", "n", rest)[:100]] += 1
                tried = ""
            stack = process.stderr.read()
        if process.returncode:
            counts["crashed"] += 1
            lines.append(f"{tried or 'between cases'}: exit status {process.returncode}\n{stack[-3000:]}")
            if not tried:
                break
    return counts, lines


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--op", action="append", default=[])
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    reasons = Counter[str]()
    counts, lines = attack(numbers_of(options.every, options.start, options.op, options.only), reasons)
    for reason, count in reasons.most_common(12):
        print(f"refused {count} times: {reason}")
    for line in lines:
        print(line)
    print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
