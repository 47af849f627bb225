"""Workers and jitgrad's own threads: every program in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")

_HEAD = """
import os, signal, sys, threading, time
import jitgrad
from jitgrad import nn, optim, vcpu
from jitgrad.utils.data import DataLoader, Dataset, TensorDataset, get_worker_info

class Made(Dataset):
    def __init__(self, size, make):
        self.size, self.make = size, make
    def __len__(self):
        return self.size
    def __getitem__(self, index):
        return self.make(index)

model = nn.Linear(256, 256)
optimizer = optim.SGD(model.parameters(), lr=0.01)

@jitgrad.compile
def step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
"""


def _run(body: str, timeout: float = 120) -> str:
    env = {**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"}  # since 3.12, of forks where there are threads
    command = [sys.executable, "-c", _HEAD + body]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout


def test_between_compiled_steps() -> None:
    """The parent's pool of threads is awake when the workers are forked."""
    out = _run("""
jitgrad.set_num_threads(2)
x = jitgrad.randn(512, 256)
for _ in range(20):
    step(x)
for _ in range(3):
    for (batch,) in DataLoader(TensorDataset(x), batch_size=128, num_workers=2):
        step(batch)
print(step(x).item() > 0)
""")
    assert out == "True\n"


def test_workers_compute() -> None:
    """Eager and compiled steps, backwards and virtual devices, in children of a process that has used all of these."""
    out = _run("""
@jitgrad.compile
def scaled(x):
    return (x * 3).sin().sum()

def use(index):
    x = jitgrad.full((300, 300), float(index), requires_grad=True)
    (x.to("vcpu:0") * 2).cpu().sum().backward()
    found = [scaled(x.detach()).item() for _ in range(4)]
    for _ in range(3):
        step(jitgrad.ones(4, 256) * index)
    return len(set(found)), x.grad.sum().item()

before = use(1)
for _ in range(2):
    found = list(DataLoader(Made(8, use), batch_size=None, num_workers=2, collate_fn=lambda x: x))
    assert found == [before] * 8, found
print(use(1) == before)
""")
    assert out == "True\n"


def test_while_other_threads_are_busy() -> None:
    out = _run("""
stop = threading.Event()
@jitgrad.compile
def scaled(x):
    return (x * 3).sin().sum()
def busy():
    while not stop.is_set():
        scaled(jitgrad.ones(64, 256))
        x = jitgrad.ones(3, requires_grad=True)
        (x.to("vcpu:0") * 2).cpu().sum().backward()
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
try:
    for _ in range(5):
        found = list(DataLoader(Made(6, lambda i: (jitgrad.ones(100, 100) * i).sum().item()), None, num_workers=2))
        assert found == [10000.0 * i for i in range(6)]
finally:
    stop.set()
for thread in threads:
    thread.join()
print("done")
""")
    assert out == "done\n"


def test_started_inside_a_recorded_step() -> None:
    out = _run("""
@jitgrad.compile
def total(scale):
    found = 0
    for (batch,) in DataLoader(TensorDataset(jitgrad.arange(8.0)), batch_size=4, num_workers=1):
        found = found + (batch * scale).sum()
    for doubled in DataLoader(Made(3, lambda i: jitgrad.ones(2) * i), num_workers=1):
        found = found + doubled.sum()
    return found
print([total(jitgrad.tensor(float(k))).item() for k in range(4)])
""")
    assert out == "[6.0, 34.0, 62.0, 90.0]\n"


def test_workers_of_a_process_that_is_killed_end() -> None:
    out = _run("""
pid = os.fork()
if pid == 0:
    loader = DataLoader(Made(1000, lambda i: i), num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    with open(sys.argv[0] if False else f"/proc/{os.getppid()}/fd/1", "w") as file:
        file.write(" ".join(str(worker.process.pid) for worker in iterator._workers))
        file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(pid, 0)
""")
    pids = [int(word) for word in out.split()]
    assert len(pids) == 2
    assert _all_end(pids)


def test_a_program_ends_with_a_pass_that_it_has_not_finished() -> None:
    out = _run("""
iterator = iter(DataLoader(Made(1000, lambda i: jitgrad.ones(10000)), num_workers=2))
next(iterator)
persistent = DataLoader(Made(4, lambda i: i), num_workers=1, persistent_workers=True)
list(persistent)
print(*[worker.process.pid for one in (iterator, persistent._iterator) for worker in one._workers])
""")
    assert _all_end([int(word) for word in out.split()])


def test_ctrl_c_ends_all() -> None:
    program = _HEAD + """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
loader = DataLoader(Made(10, lambda i: time.sleep(60)), num_workers=2)
iterator = iter(loader)
print(*[worker.process.pid for worker in iterator._workers], flush=True)
try:
    next(iterator)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (out, err, process.returncode) == ("interrupted\n", "", 0)
    assert _all_end(pids)


def _all_end(pids: list[int]) -> bool:
    deadline = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
