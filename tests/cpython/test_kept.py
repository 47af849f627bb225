"""What native code points at outlives the modules, and what is measured is held: Note [Kept for ever]."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from jitgrad.cpython.build import is_known_interpreter

_EMPTY_MODULES = """
def empty_modules():
    for name, module in list(sys.modules.items()):
        if name.startswith("jitgrad.cpython"):
            module.__dict__.clear()
    gc.collect()
    return [bytes([0xA5]) * size for size in range(16, 512) for _ in range(64)]  # takes the memory that is free now
"""


def _run(body: str) -> None:
    script = f"import gc, sys, weakref\n{_EMPTY_MODULES}\n{body}"
    command = [sys.executable, "-X", "faulthandler", "-c", script]
    env = {**os.environ, "PYTHONMALLOC": "debug"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_the_table_of_fronts() -> None:
    """``Storage.__del__`` has a front, and storages are dropped when all modules are empty."""
    _run("""
import jitgrad
from jitgrad.cpython import fronts
step = jitgrad.compile(lambda x: (x * 2.0).sum())
x = jitgrad.ones(8)
for _ in range(4):
    step(x)
table = weakref.ref(fronts._rows)
del fronts
held = empty_modules()
assert table() is not None
del x
print("fine")
""")


@pytest.mark.skipif(not is_known_interpreter(), reason="native callables are made on known interpreters only")
def test_a_callable_has_its_name() -> None:
    """The interpreter reads the definition of a builtin function as long as the function lives."""
    _run("""
import jitgrad
from jitgrad.cpython import install, layout
made = [install._builtin(f"function_{nr}", layout.function_runner(), install._METH_O) for nr in range(64)]
held = empty_modules()
assert [f.__name__ for f in made] == [f"function_{nr}" for nr in range(64)]
print("fine")
""")


def test_offsets_are_measured_on_objects_that_are_held() -> None:
    """Collections between two looks free what is not held, and the debug allocator overwrites it."""
    _run("""
from jitgrad.cpython import layout
gc.set_threshold(1)
assert [layout.why_unknown() for _ in range(50)] == [layout.why_unknown()] * 50
print("fine")
""")
