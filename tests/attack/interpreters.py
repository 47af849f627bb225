"""Interpreters inside an interpreter: the library works there, or its import says why not.

Owns: the scene ``subinterpreters``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator

from tests.attack.scenes import Outcome, scene

_PROGRAM = """
import os, sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
{head}
inside = '''
import os
try:
    import jitgrad
    said = jitgrad.compile(lambda x: (x * 2).sum())(jitgrad.ones(3)).item()
    said = "right" if said == 6.0 else f"{{said}} instead of 6"
except ImportError as error:
    said = "ImportError " + str(error).strip().split(chr(10))[0]
except BaseException as error:
    said = f"{{type(error).__name__}} {{error}}"
os.write(1, (said + chr(10)).encode())
'''
for _ in range({times}):
    one = interpreters.create()
    interpreters.run_string(one, inside)
    interpreters.destroy(one)
{tail}
"""
_IN_MAIN = """
import jitgrad
assert jitgrad.compile(lambda x: (x * 2).sum())(jitgrad.ones(3)).item() == 6.0
"""
_IN_THREAD = """
import threading
def other():
    one = interpreters.create()
    interpreters.run_string(one, inside)
    interpreters.destroy(one)
thread = threading.Thread(target=other)
thread.start()
for n in range(50):
    assert jitgrad.compile(lambda x: (x * n).sum())(jitgrad.ones(3)).item() == 3.0 * n
thread.join()
"""
_PROGRAMS = {
    "nothing in the main interpreter": ("", 3, ""),
    "compiled in the main interpreter first": (_IN_MAIN, 3, _IN_MAIN),
    "several, while the main one compiles": (_IN_MAIN, 1, _IN_THREAD),
    "imported, not used": ("import jitgrad", 2, _IN_MAIN),
}


@scene
def subinterpreters(share: float) -> Iterator[Outcome]:
    """Programs with such interpreters, where Python makes them (3.11 and later)."""
    if not any(importlib.util.find_spec(name) for name in ("_interpreters", "_xxsubinterpreters")):
        return
    for name, (head, times, tail) in _PROGRAMS.items():
        program = _PROGRAM.format(head=head, times=times, tail=tail)
        command = [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", program]
        run = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=240)
        said = run.stdout.splitlines()
        wrong = [line for line in said if line != "right" and not line.startswith("ImportError ")]
        if run.returncode or wrong or not said:
            yield Outcome(name, f"status {run.returncode}, {said}, {run.stderr[-1500:]}")
        else:
            yield Outcome(name, "")
