"""Processes beside this one that LLVM runs in: the same object code, and nothing lost when one is."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.codegen.llvm import builder_process, jit
from jitgrad.codegen.llvm import builders as module
from jitgrad.codegen.llvm.builders import Builders, BuildRequest, build_all, can_start
from jitgrad.codegen.llvm.jit import KernelSource, build_beside, compile_kernels
from jitgrad.codegen.llvm.text import FnBuilder
from jitgrad.compiled.native_code import NativeCode
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.events import count
from jitgrad.state import native_cell

pytestmark = pytest.mark.skipif(not can_start(), reason="this system has no builders")

LINUX = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are found in /proc")
PATIENCE_S = 30.0


def constant(value: int) -> KernelSource:
    name = f"beside_{value}"
    return KernelSource(name, f"beside {value}", lambda: FnBuilder(name, "").finish(f"ret i64 {value}", "i64"))


def job(value: int) -> BuildRequest:
    return BuildRequest(value.to_bytes(32, "little"), constant(value).text, False)


def here(_: int, text: str) -> bytes:
    return jit._session().emit(KernelSource("here", "here", lambda: text), text)


def call_at(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address)()


def raise_from_outside(error: type[BaseException]) -> None:
    """As a signal's handler of the user's raises: from a file that is not jitgrad's."""
    raise error


def until(test: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not test():
        assert time.monotonic() < deadline, "it has never come"
        time.sleep(0.01)


@pytest.fixture
def beside() -> Iterator[Builders]:
    """Builders, at most two, of the session's target."""
    made = Builders(jit._session().target, 2, lambda: -1)
    yield made
    made.close()


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """``jit`` with builders of its own and an empty cache."""
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(config, "builders", 1)
    jit._builders.cache_clear()
    yield tmp_path / "cache"
    jit._builders().close()
    jit._builders.cache_clear()
    jit.drop_idle_kernels()


def answer(builders: Builders, nr: int) -> bytes | None:
    found: list[bytes | None] = []

    def has_come() -> bool:
        builders.look()
        is_there, obj = builders.take(nr)
        found.append(obj)
        return is_there

    until(has_come)
    return found[-1]


def builder_pids() -> list[int]:
    """Of all builders on this machine that run the text of these sources."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if module._START.encode() in path.read_bytes():
                pids.append(int(path.parent.name))
        except OSError:
            continue
    return pids


def test_object_code_is_that_of_this_process(beside: Builders) -> None:
    for value in range(3):
        text = constant(value).text()
        assert answer(beside, beside.ask(job(value), text, True)) == here(0, text)


def test_a_long_text_arrives(beside: Builders) -> None:
    """Longer than a pipe holds, also compressed; the answer, too."""
    parts = []
    for nr in range(1500):
        body = "\n".join(f"  %a{k} = mul i64 %x, {hash((nr, k)) & 0xFFFFFFFFFF}" for k in range(20))
        total = "\n".join(f"  %s{k} = add i64 %{f's{k - 1}' if k else 'x'}, %a{k}" for k in range(20))
        parts.append(f"define i64 @f{nr}(i64 %x) optnone noinline {{\n{body}\n{total}\n  ret i64 %s19\n}}")
    text = "\n".join(parts)
    nr = beside.ask(BuildRequest(bytes(32), lambda: text, False), text, True)
    obj = answer(beside, nr)
    assert obj is not None and len(obj) > 1 << 18
    assert obj == here(0, text)


def test_all_are_made_each_in_its_place(beside: Builders) -> None:
    jobs = [job(value) for value in range(40)]
    made_here: list[int] = []

    def counting(nr: int, text: str) -> bytes:
        made_here.append(nr)
        time.sleep(0.01)  # so that the builders have their time
        return here(nr, text)

    with count("built_beside") as others:
        made = build_all(jobs, counting, beside)
    assert made == [here(0, j.text()) for j in jobs]
    assert others() > 0
    assert len(made_here) == len(set(made_here)) == 40 - others()


def test_what_llvm_refuses_is_an_error_of_this_process(session: Path) -> None:
    sources = [constant(value) for value in range(20)]
    sources.insert(3, KernelSource("broken", "broken beside", lambda: "define void @broken( {"))
    with pytest.raises(CompileError, match=r"(?s)kernel broken.*expected"):
        compile_kernels(sources)
    del sources[3]
    assert [call_at(k.address) for k in compile_kernels(sources)] == list(range(20))


def test_a_text_that_is_refused_beside(beside: Builders) -> None:
    nr = beside.ask(BuildRequest(bytes(32), str, False), "define void @broken( {", True)
    assert answer(beside, nr) is None
    text = constant(5).text()
    assert answer(beside, beside.ask(job(5), text, True)) == here(0, text)


@LINUX
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_builder_that_is_gone_costs_speed_only(beside: Builders, how: signal.Signals) -> None:
    before = set(builder_pids())
    text = constant(0).text()
    answer(beside, beside.ask(job(0), text, True))
    (pid,) = set(builder_pids()) - before
    os.kill(pid, how)
    jobs = [job(value) for value in range(1, 7)]
    assert build_all(jobs, here, beside) == [here(0, j.text()) for j in jobs]
    if how is signal.SIGSTOP:
        os.kill(pid, signal.SIGKILL)
    assert answer(beside, beside.ask(job(8), constant(8).text(), True)) in (None, here(0, constant(8).text()))


def test_builders_that_cannot_live_are_not_started_for_ever(beside: Builders, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a limit leaves too little memory for one more Python with LLVM."""
    monkeypatch.setattr(module, "_START", module._START.replace("module.main(*arguments)", "os._exit(1)"))
    text = constant(1).text()
    for _ in range(beside._limit):
        assert answer(beside, beside.ask(job(1), text, True)) is None
    assert beside.ask(job(1), text, True) == 0 and not beside.has_room(True)
    jobs = [job(value) for value in range(12)]
    assert build_all(jobs, here, beside) == [here(0, j.text()) for j in jobs]


@LINUX
def test_a_request_to_a_builder_that_is_gone_is_refused(beside: Builders) -> None:
    before = set(builder_pids())
    text = constant(0).text()
    answer(beside, beside.ask(job(0), text, True))
    (pid,) = set(builder_pids()) - before
    os.kill(pid, signal.SIGSTOP)
    nr = beside.ask_for_later(job(1), text)
    os.kill(pid, signal.SIGKILL)
    assert answer(beside, nr) is None


@pytest.mark.parametrize("call", ["write", "read"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_what_comes_in_the_middle_of_a_transfer(
    session: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: type[BaseException]
) -> None:
    """Ctrl-C, or an OSError of a signal's handler: what went or came is lost, so nothing more may follow it."""
    compile_kernels([constant(value) for value in range(500, 510)])
    function, is_over = getattr(os, call), [False]

    def interrupted(fd: int, *args: Any) -> Any:
        done = function(fd, *args)
        pipes = [pipe.fd for b in jit._builders()._all for pipe in (b._writer, b._reader)]
        if not is_over[0] and fd in pipes:
            is_over[0] = True
            raise_from_outside(error)
        return done

    with monkeypatch.context() as patch:
        patch.setattr(os, call, interrupted)
        with pytest.raises(error):
            for first in range(510, 900, 10):
                compile_kernels([constant(value) for value in range(first, first + 10)])
    assert is_over[0]
    kernels = compile_kernels([constant(value) for value in range(900, 920)])
    assert [call_at(k.address) for k in kernels] == list(range(900, 920))


def test_a_descriptor_that_became_another_file(beside: Builders, tmp_path: Path) -> None:
    """A daemon closes all descriptors that it knows nothing of: nothing is written into what has their numbers next."""
    text = constant(0).text()
    answer(beside, beside.ask(job(0), text, True))
    (builder,) = beside._all
    files = [tmp_path / "first", tmp_path / "second"]
    for pipe, path in zip((builder._writer, builder._reader), files, strict=True):
        path.write_bytes(b"somebody else's")
        fd = os.open(path, os.O_RDWR)
        os.dup2(fd, pipe.fd)
        os.close(fd)
    jobs = [job(value) for value in range(1, 7)]
    assert build_all(jobs, here, beside) == [here(0, j.text()) for j in jobs]
    assert [path.read_bytes() for path in files] == [b"somebody else's"] * 2
    for pipe in (builder._writer, builder._reader):
        os.close(pipe.fd)  # nobody else has
    assert builder not in beside._all


def test_a_fork_leaves_the_parent_its_builders(session: Path) -> None:
    compile_kernels([constant(value) for value in range(300, 320)])
    assert jit._builders()._all
    pid = os.fork()
    if pid == 0:
        is_right = not jit._builders()._all
        is_right &= [call_at(k.address) for k in compile_kernels([constant(v) for v in range(320, 330)])] == [
            *range(320, 330)
        ]
        os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    text = constant(1).text()
    assert answer(jit._builders(), jit._builders().ask_for_later(job(1), text)) == here(0, text)


def test_asked_for_later(session: Path) -> None:
    source = constant(77)
    with count("compiles") as compiles, count("built_beside") as others:
        assert not jit._beside
        assert not build_beside(source)
        assert jit._beside
        until(lambda: build_beside(source))
        assert not jit._beside
        assert build_beside(source)
        (kernel,) = compile_kernels([source])
    assert call_at(kernel.address) == 77
    assert (compiles(), others()) == (1, 1)
    assert len(list(session.glob("*.obj"))) == 1


def test_whoever_has_something_long_to_do_gets_no_more(beside: Builders) -> None:
    beside._limit = 1
    text = constant(1).text()
    nr = beside.ask_for_later(job(1), text)
    assert nr and not beside.has_room(True)
    assert beside.ask(job(2), constant(2).text(), True) == 0
    answer(beside, nr)
    assert beside.has_room(True)


def test_a_builder_does_not_wait_for_ever_to_be_listened_to() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(writer, 1)
        builder_process._PATIENCE_MS = 50
        try:
            builder_process._write(bytes(1 << 20))
        except BrokenPipeError:
            os._exit(7)
        os._exit(0)
    os.close(writer)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    os.close(reader)


def test_what_was_asked_for_is_asked_about_again_where_compiled_calls_end(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_cell, "waiting", [])
    calls: list[int] = []

    def install() -> None:
        calls.append(1)
        if code.compiled(constant(79)) is not None:
            calls.append(-1)

    code = NativeCode(install)
    install()
    assert calls == [1] and native_cell.waiting == [install]

    def other() -> None:
        """What else waits goes on waiting."""

    native_cell.waiting.append(other)
    until(lambda: not code.is_on_the_way())
    step = jg.compile(lambda x: x + 1)
    step(jg.ones(3))
    assert calls == [1, 1, -1]
    assert other in native_cell.waiting and install not in native_cell.waiting


def test_without_builders_everything_is_made_here(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "builders", 0)
    assert build_beside(constant(78))
    with count("built_beside") as others:
        kernels = compile_kernels([constant(value) for value in range(400, 420)])
    assert [call_at(k.address) for k in kernels] == list(range(400, 420))
    assert others() == 0 and not jit._builders()._all


@pytest.mark.parametrize("program", ["", "/nowhere/python3", "/usr/bin/uwsgi"])
def test_where_no_python_can_be_started(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    builders = Builders(jit._session().target, 2, lambda: -1)
    assert builders.ask(job(1), constant(1).text(), True) == 0
    jobs = [job(value) for value in range(10)]
    assert build_all(jobs, here, builders) == [here(0, j.text()) for j in jobs]
    assert not builders.has_room(True)


SCRIPT = """
import json, os, sys, time
import jitgrad as jg
from jitgrad.compiled import native_eager
from jitgrad.state import native_cell

@jg.compile
def step(x, w):
    loss = (x @ w).tanh().square().mean()
    loss.backward()
    with jg.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
    return loss.detach()

def run(w, x, times, step):
    return [step(x, w).item() for _ in range(times)]

def ready():
    return native_cell.is_installed and native_eager.is_installed()

jg.manual_seed(0)
x, w0 = jg.randn(8, 5), jg.randn(5, 3)
losses, wanted = [], []
w, v = w0.clone().requires_grad_(), w0.clone().requires_grad_()
deadline = time.monotonic() + 60
is_slow_at_first = None
while not ready() and time.monotonic() < deadline:
    losses += run(w, x, 20, step)
    wanted += run(v, x, 20, step.fn)
    for _ in range(100):
        x + x
    if is_slow_at_first is None:
        is_slow_at_first = not native_cell.is_installed
    if sys.argv[1] == "short":
        break
losses += run(w, x, 5, step)
wanted += run(v, x, 5, step.fn)
try:
    os.waitpid(-1, os.WNOHANG)
    has_child = True
except ChildProcessError:
    has_child = False
print(json.dumps({
    "ready": ready(), "same": max(abs(a - b) for a, b in zip(losses, wanted)) < 1e-5, "child": has_child,
    "slow_at_first": is_slow_at_first, **jg.stats(),
}))
"""


def script(cache: Path, how: str, builders: str) -> dict[str, Any]:
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(cache), "JITGRAD_BUILDERS": builders, "JITGRAD_VERIFY": "0"}
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", SCRIPT, how]
    found: dict[str, Any] = json.loads(subprocess.check_output(command, env=env, timeout=120))
    return found


def test_native_hits_come_from_beside(tmp_path: Path) -> None:
    found = script(tmp_path, "long", "1")
    assert found["slow_at_first"] and found["ready"] and found["same"] and not found["child"]
    assert found["built_beside"] >= 2
    again = script(tmp_path, "long", "1")
    assert not again["slow_at_first"] and again["ready"] and again["same"]
    assert again["compiles"] == 0


def test_what_a_short_process_has_asked_for_is_kept(tmp_path: Path) -> None:
    found = script(tmp_path, "short", "1")
    assert not found["ready"] and found["same"]
    kept = {path.name for path in tmp_path.glob("*.obj")}
    until(lambda: {path.name for path in tmp_path.glob("*.obj")} - kept)
    assert script(tmp_path, "short", "0")["same"]
    assert not list(tmp_path.glob("*.tmp"))
