"""Signals, fork and the interpreter's exit, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import ctypes, os, sys, threading, time
import numpy as np
from native_kernels import counter, install, spin, step_of
from jitgrad.dtypes import int64
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.storage.storage import Storage
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.native.pool import pool, set_num_threads

install()
set_num_threads(2)
storage = Storage(8 * 512)
counts = storage.array(make_aval((512,), int64))
counts[:] = 0
shared = LoadedStep(step_of(counter(), (1,), 512, 4, 1e6, stages=8))


def use(loaded=shared):
    counts[:] = 0
    assert loaded.run([storage.addr], []) == 0
    assert (counts == 8).all()
"""

posix_only = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore::DeprecationWarning"}  # of fork, since 3.12


def start(body: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-X", "faulthandler", "-c", HEAD + body]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(body: str, timeout: float = 120.0) -> str:
    process = start(body)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert err == ""
    return out


LONG = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
# 512 tasks of some ten milliseconds each: seconds in all
long = LoadedStep(step_of(spin(), (20_000_000, 1), 512, 1, 30e9))
counts[:] = 0
def tell():
    while not counts.any():
        time.sleep(0.001)
    print("ready", flush=True)
threading.Thread(target=tell, daemon=True).start()
try:
    long.run([storage.addr], [])
    print("at the end", flush=True)
except KeyboardInterrupt:
    done = int(counts.sum())
    assert 0 < done < 512, done
    time.sleep(0.1)
    assert int(counts.sum()) == done, "still running"
    use()
    print("interrupted", flush=True)
"""


@posix_only
@pytest.mark.parametrize("signals", [1, 3])
def test_ctrl_c_stops_a_long_step(signals: int) -> None:
    process = start(LONG)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"  # in the middle of it
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    if signals == 1:
        assert (out, err) == ("interrupted\n", "")
        assert process.returncode == 0
    assert "at the end" not in out


@posix_only
def test_a_forked_child_works_and_so_does_the_parent() -> None:
    body = """
for _ in range(50):
    use()
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        for _ in range(50):
            use()
        assert len(pool._threads) == 1
        set_num_threads(3)
        use()
        os._exit(0)
    use()
    assert os.waitpid(pid, 0)[1] == 0
use()
print("ok")
"""
    assert run(body) == "ok\n"


@posix_only
def test_a_child_forked_while_other_threads_run_steps() -> None:
    body = """
stop = threading.Event()
def busy():
    mine = Storage(8 * 512)
    while not stop.is_set():
        shared.run([mine.addr], [])
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        for _ in range(20):
            use()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
use()
print("ok")
"""
    assert run(body) == "ok\n"


def test_the_pool_works_without_futexes() -> None:
    body = """
from jitgrad.abi import POOL_SYSCALL
pool._words[POOL_SYSCALL] = 0
for _ in range(3):
    for _ in range(50):
        use()
    time.sleep(0.1)
set_num_threads(1)
set_num_threads(3)
use()
before = time.process_time()
time.sleep(0.5)
assert time.process_time() - before < 0.25
print("ok")
"""
    assert run(body) == "ok\n"


# Note [Waking elsewhere]: three steps after pauses, each with the worker asleep
AFTER_PAUSES = """
from jitgrad.abi import POOL_AFFINITY_NUMBER
allowed = os.sched_getaffinity(0)
def after_pauses():
    moved = pool.workers_moved
    for _ in range(3):
        time.sleep(0.1)
        use()
    time.sleep(0.1)
    return pool.workers_moved - moved
def cores_of_workers():
    return [os.sched_getaffinity(thread.native_id) for thread in pool._threads]
"""
affinity_only = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux sets a thread's cores")


@affinity_only
def test_sleeping_workers_are_woken_on_other_cores_and_get_theirs_back() -> None:
    body = """
set_num_threads(3)
use()
moved = after_pauses()
assert moved == (6 if len(allowed) > 1 else 0), moved
assert os.sched_getaffinity(0) == allowed
assert cores_of_workers() == [allowed] * 2
set_num_threads(1)
set_num_threads(2)
use()
assert (after_pauses() == 3) == (len(allowed) > 1)
assert cores_of_workers() == [allowed]
print("ok")
"""
    assert run(AFTER_PAUSES + body) == "ok\n"


@affinity_only
def test_workers_keep_the_cores_that_they_were_given() -> None:
    body = """
use()
time.sleep(0.1)
one = {max(allowed)}
for thread in pool._threads:
    os.sched_setaffinity(thread.native_id, one)
after_pauses()
assert cores_of_workers() == [one]
os.sched_setaffinity(0, one)
set_num_threads(1)
set_num_threads(2)
use()
assert after_pauses() == 0
assert cores_of_workers() == [one]
print("ok")
"""
    assert run(AFTER_PAUSES + body) == "ok\n"


@affinity_only
def test_nobody_is_moved_where_the_system_call_is_not_known() -> None:
    body = """
pool._words[POOL_AFFINITY_NUMBER] = 0
use()
assert after_pauses() == 0
assert cores_of_workers() == [allowed]
print("ok")
"""
    assert run(AFTER_PAUSES + body) == "ok\n"


@affinity_only
def test_workers_have_their_cores_back_after_many_steps_of_many_threads() -> None:
    body = """
set_num_threads(3)
use()
def busy(pauses):
    mine = Storage(8 * 512)
    for pause in pauses:
        shared.run([mine.addr], [])
        time.sleep(pause)
for seed in range(8):
    pauses = np.random.default_rng(seed).uniform(0, 0.004, (3, 40))
    threads = [threading.Thread(target=busy, args=(own,)) for own in pauses.tolist()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
time.sleep(0.1)
assert cores_of_workers() == [allowed] * 2
print("ok")
"""
    assert run(AFTER_PAUSES + body) == "ok\n"


@posix_only
def test_long_steps_of_two_threads_run_side_by_side() -> None:
    body = """
from jitgrad.runtime.native import executor
kernel = spin()
both = threading.Barrier(2)
inside = []
steps = [LoadedStep(step_of(kernel, (1000, 1), 8, 1, 1e9)) for _ in range(2)]
def work(step):
    mine = Storage(64)
    mine.array(make_aval((8,), int64))[:] = 0
    both.wait(60)
    for _ in range(20):
        step.run([mine.addr], [])
    inside.append(mine.array(make_aval((8,), int64)).tolist())
threads = [threading.Thread(target=work, args=(step,)) for step in steps]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert inside == [[20] * 8] * 2
assert executor._queue._worker is None
print("ok")
"""
    assert run(body) == "ok\n"


@posix_only
def test_multiprocessing_children_exit() -> None:
    body = """
import multiprocessing
use()
children = [multiprocessing.get_context("fork").Process(target=use) for _ in range(3)]
for child in children:
    child.start()
for child in children:
    child.join(60)
assert [child.exitcode for child in children] == [0, 0, 0]
print("ok")
"""
    assert run(body) == "ok\n"


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "time.sleep(0.02)",  # the worker sleeps
        "sys.exit(0)",
        "os._exit(0)",
        "globals().clear()",
        "threading.Thread(target=lambda: [use() for _ in range(100)], daemon=True).start()",
        "threading.Thread(target=lambda: [use() for _ in range(100)]).start()",
        "import gc; del shared; gc.collect()",
    ],
)
def test_the_interpreter_exits(ending: str) -> None:
    run("for _ in range(20): use()\n" + ending)


def test_exit_during_a_long_step_of_a_daemon_thread() -> None:
    body = """
counts[:] = 0
long = LoadedStep(step_of(spin(), (200_000_000, 1), 512, 1, 300e9))  # a minute in all
threading.Thread(target=lambda: long.run([storage.addr], []), daemon=True).start()
while not counts.any():
    time.sleep(0.001)
"""
    run(body, timeout=30)
