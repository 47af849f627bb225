"""Calls of every public function with hostile arguments: ``python -m tests.attack`` runs them, in other processes.

    python -m tests.attack --count 20000 --first 0     # so many calls; each function once per 1,300 or so
    python -m tests.attack --only 4711                 # one of them
    python -m tests.attack --name conv2d --count 200   # 200 of the functions whose name has this in it

What is printed at the end: how many were tried, survived, were refused (an error that says why), came out of the inside
(a bare error, or another answer in another form), crashed or took more than a minute.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.attack.draws import NAMES

__all__ = ["attack"]


def attack(seeds: list[int]) -> tuple[Counter[str], list[str]]:
    """Run calls, each in a process that others have run in before it.

    Returns:
        How many ended how, and a line for each that had no answer.
    """
    counts, lines = Counter[str](tried=len(seeds)), []
    while seeds:
        tried = ""
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.attack.worker"]
        env = {**os.environ, "JITGRAD_SAME_BITS": "1"}
        with subprocess.Popen(
            command, cwd=Path(__file__).parents[2], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdin and process.stdout and process.stderr
            process.stdin.write(" ".join(map(str, seeds[:2000])))
            process.stdin.close()
            left = seeds[2000:]
            seeds = seeds[:2000]
            for line in process.stdout:
                kind, _, rest = line.rstrip().partition(" ")
                if kind == "case":
                    tried, seeds = rest, seeds[1:]
                elif kind in ("survived", "refused", "inside"):
                    counts[kind] += 1
                    if kind == "inside":
                        lines.append(f"{tried}: {rest}")
                    tried = ""
            stack = process.stderr.read()
        seeds += left
        if process.returncode:
            kind = "crashed" if process.returncode < 0 else "hung"
            counts[kind] += 1
            lines.append(f"{tried or 'between calls'}: exit status {process.returncode}\n{stack[-2500:]}")
            if not tried:
                break
    return counts, lines


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=len(NAMES))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--name", default="")
    options = parser.parse_args()
    names = [at for at, name in enumerate(NAMES) if options.name in name]
    turns = range(options.first, options.first + options.count)
    seeds = [names[i % len(names)] + i // len(names) * len(NAMES) for i in turns]
    counts, lines = attack(seeds if options.only is None else [options.only])
    for line in lines:
        print(line)
    print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
