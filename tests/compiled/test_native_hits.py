"""The native hits and the Python they stand before do the same: the tracer's own tests pass without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jitgrad
from jitgrad.state import native_cell

HERE = Path(__file__).parent
FILES = [HERE / "test_tracing.py", HERE / "test_storage.py", HERE / "test_decorator.py"]


def test_native_hits_are_in_place() -> None:
    jitgrad.compile(lambda x: x + 1)(jitgrad.ones(2))
    assert native_cell.is_installed == (sys.implementation.name == "cpython" and sys.version_info < (3, 14))


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
