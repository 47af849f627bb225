"""Modules that are imported late are found once the system lets Python look for them."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, sys
import jitgrad as jg

is_refused = [True]

def refuse(event, args):
    if is_refused[0] and event in ("os.listdir", "os.scandir") and "routines" in str(args[0]):
        raise PermissionError(13, "Permission denied")

sys.addaudithook(refuse)
step = jg.compile(lambda x: (x * 2).sum())
try:
    step(jg.ones(3))
except (ImportError, OSError) as error:
    print("refused", type(error).__name__)
is_refused[0] = False
print(step(jg.ones(3)).item())
"""


def test_a_folder_that_could_not_be_looked_into() -> None:
    """Python remembers such a folder as empty."""
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120)
    assert out.stdout.splitlines() == ["refused ModuleNotFoundError", "6.0"], out.stdout + out.stderr
