"""Faults of the system during training: ``python -m tests.attack.faults`` tries all scenes, each in a process.

    python -m tests.attack.faults                        # the long form: some minutes
    python -m tests.attack.faults --share 0.05           # a twentieth of it
    python -m tests.attack.faults --scene full_disks     # one scene

Disks that are full or broken, descriptors that are closed or used up, processes that are killed while they write the
cache, tasks and generators that take turns inside a step, interpreters inside an interpreter. Printed for a scene: how
many faults were tried, how many of them survived (training went on or raised what the system said, began again and was
right), and what was wrong with the others.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.attack import descriptors, disks, interleavings, interpreters, kills
from tests.attack.scenes import SCENES
from tests.scenes import scene_options

__all__ = ["play"]

_PARTS = (descriptors, disks, interleavings, interpreters, kills)


def play(name: str, share: float) -> tuple[int, int, str]:
    """Run a scene in a process of its own: (faults tried, survived, what was printed)."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.attack.faults", "--inside", name]
    command += ["--share", str(share)]
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "JITGRAD_CACHE_DIR": f"{folder}/cache", "JITGRAD_TUNE": "0", "TMPDIR": folder}
        env["JITGRAD_VERIFY"] = "0"  # that is for other tests, and takes most of a compile
        env["PYTHONWARNINGS"] = "ignore::DeprecationWarning"  # of forks where there are threads
        run = subprocess.run(command, cwd=Path(__file__).parents[2], env=env, capture_output=True, text=True)
    last = run.stdout.strip().rpartition("\n")[2]
    words = last.replace(",", "").split()
    if run.returncode or words[:2] != [f"{name}:", "tried"]:
        return 1, 0, f"{run.stdout}{run.stderr[-3000:]}exit status {run.returncode}"
    return int(words[2]), int(words[4]), run.stdout.strip()


def _inside(name: str, share: float) -> None:
    tried = survived = 0
    for what, wrong in SCENES[name](share):
        tried += 1
        survived += not wrong
        if wrong:
            print(f"{what}: {wrong}")
    print(f"{name}: tried {tried}, survived {survived}", flush=True)


def main() -> None:
    """See above."""
    options = scene_options(__doc__, SCENES)
    if options.inside:
        _inside(options.inside, options.share)
        return
    found = [play(name, options.share) for name in options.scene or SCENES]
    for _, _, text in found:
        print(text)
    tried, survived = (sum(column) for column in list(zip(*found, strict=True))[:2])
    print(f"in all: tried {tried}, survived {survived}")
    sys.exit(tried != survived)


if __name__ == "__main__":
    main()
