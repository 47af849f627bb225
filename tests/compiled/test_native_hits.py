"""The native hits and the Python they stand before do the same: the tracer's own tests pass without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jitgrad
from jitgrad.config import config
from jitgrad.cpython.build import is_known_interpreter
from jitgrad.cpython.liveness import counts_references
from jitgrad.state import native_cell

HERE = Path(__file__).parent
FILES = [HERE / "test_tracing.py", HERE / "test_storage.py", HERE / "test_decorator.py"]


def test_native_hits_are_in_place() -> None:
    jitgrad.compile(lambda x: x + 1)(jitgrad.ones(2))
    assert native_cell.is_installed == (config.native_hits and is_known_interpreter() and counts_references)


def test_everything_holds_without_them() -> None:
    env = {**os.environ, "JITGRAD_NATIVE_HITS": "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, FILES)]
    done = subprocess.run(command, env=env, cwd=HERE.parents[1], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_number_subclass_a_zero_and_nan_are_told_apart() -> None:
    @jitgrad.compile
    def scale(x, k):  # type: ignore[no-untyped-def]
        return x * k

    class Half(float):
        pass

    x = jitgrad.tensor([1.0, -2.0])
    for _ in range(3):
        assert scale(x, 0.0).numpy().tobytes() == (x * 0.0).numpy().tobytes()
        assert scale(x, -0.0).numpy().tobytes() == (x * -0.0).numpy().tobytes()
        assert scale(x, Half(0.5)).tolist() == [0.5, -1.0]
        assert scale(x, True).tolist() == [1.0, -2.0]
        assert all(v != v for v in scale(x, float("nan")).tolist())

_FIRST_CALLS = """
import sys, threading
import jitgrad
sys.setswitchinterval(1e-5)

@jitgrad.compile
def step(n):
    x = jitgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x
    for _ in range(n):
        y = (y * 1.01).sin() + x
    y.sum().backward()
    return x.grad

want = [step.fn(n).tolist() for n in range(4)]
errors = []

def work(first):
    try:
        for k in range(100):
            got = step((first + k) % 4).tolist()
            assert all(abs(a - b) < 1e-4 for a, b in zip(got, want[(first + k) % 4])), (got, want)
    except BaseException as error:
        errors.append(repr(error)[:200])

threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
sys.exit("; ".join(errors) or 0)
"""


def test_threads_that_compile_first_at_the_same_time() -> None:
    run = subprocess.run([sys.executable, "-c", _FIRST_CALLS], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
