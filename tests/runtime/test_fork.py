"""A child that was forked while other threads held locks: it finds none of them taken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")

_HEAD = """
import os, signal, threading, time
import jitgrad
from jitgrad import vcpu
from jitgrad.locks import process_lock
from jitgrad.runtime.engine.run.graph_task import current

def backward():
    x = jitgrad.ones(2, requires_grad=True)
    (x.to("vcpu:0") * 2).cpu().sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]

held, go_on = threading.Event(), threading.Event()
def hold(lock):
    with lock:
        held.set()
        go_on.wait(60)

def start_holding(lock):
    threading.Thread(target=hold, args=(lock,), daemon=True).start()
    assert held.wait(60)

def fork_and(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # instead of waiting for ever
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def _run(body: str) -> None:
    env = {**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"}  # since 3.12, of forks where there are threads
    run = subprocess.run(
        [sys.executable, "-c", _HEAD + body], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr


def test_a_fork_waits_for_the_locks_of_the_process() -> None:
    _run("""
lock = process_lock()
start_holding(lock)
threading.Timer(0.05, go_on.set).start()
def take():
    assert lock.acquire(timeout=10)
    lock.release()
fork_and(take)
take()
""")


def test_a_lock_of_the_process_is_reentrant() -> None:
    _run("""
lock = process_lock()
with lock, lock:
    fork_and(lambda: None)
""")


def test_a_fork_while_a_worker_is_about_to_wake_the_caller() -> None:
    _run("""
backward()
start_holding(current.local_ready_queue.mutex)
fork_and(backward)
go_on.set()
backward()
""")


def test_a_fork_waits_for_a_late_import(tmp_path: Path) -> None:
    """Python's lock of a module that another thread imports is taken for ever in the child."""
    text = "import __main__, time; __main__.held.set(); time.sleep(0.1); value = 3"
    (tmp_path / "slow_to_import.py").write_text(text)
    _run(f"""
import sys
from jitgrad.lazy import LazyModule
sys.path.insert(0, {str(tmp_path)!r})
module = LazyModule("slow_to_import")
threading.Thread(target=lambda: module.value).start()
assert held.wait(60)
def use():
    assert module.value == 3
fork_and(use)
use()
""")


def test_a_fork_while_a_late_import_makes_a_lock(tmp_path: Path) -> None:
    """The fork waits for the import, which makes a lock that the fork did not know when it began to wait."""
    text = """
import __main__, time
from jitgrad.locks import process_lock
__main__.held.set()
time.sleep(0.1)
lock = process_lock()
"""
    (tmp_path / "makes_a_lock.py").write_text(text)
    _run(f"""
import sys
from jitgrad.lazy import LazyModule
sys.path.insert(0, {str(tmp_path)!r})
module = LazyModule("makes_a_lock")
threading.Thread(target=lambda: module.lock).start()
assert held.wait(60)
errors = []
sys.unraisablehook = errors.append
def take():
    assert module.lock.acquire(timeout=10)
    assert errors == [], errors
fork_and(take)
take()
""")


_BUSY = """
x = y = jitgrad.ones(400, 400, device="vcpu:0")
for _ in range(6):
    x = (x @ x) * 1e-3
"""


def test_a_fork_while_a_virtual_device_runs_products() -> None:
    """The BLAS library ends its threads before a fork: a product in the middle would wait for them for ever."""
    _run(
        _BUSY
        + """
def work():
    assert x[0, 0].item() > 0  # submitted before the fork, so the child has it
    assert (y @ y)[0, 0].item() == 400.0
for _ in range(2):
    fork_and(work)
    x = (y @ y) * 1e-3
work()
"""
    )


def test_the_interpreter_exits_while_a_virtual_device_runs_products() -> None:
    for _ in range(3):
        _run(_BUSY)
