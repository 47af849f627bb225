"""What the system may refuse, refused in turn during training: memory, files, compiles, threads.

The step raises what PyTorch would, or goes on without; afterwards training begins again and is right. ``FAULTS=all``
refuses every request of each kind, otherwise some of them; counts are printed (``pytest -s``).
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.codegen.families import families
from jitgrad.codegen.llvm import jit, object_cache
from jitgrad.config import config
from jitgrad.runtime.devices.device_queue import DeviceQueue
from jitgrad.runtime.engine.run.device_threads import DeviceThreads
from jitgrad.runtime.storage import memory
from tests.threads import LONGEST_WAIT_S

MOST = None if os.environ.get("FAULTS") == "all" else 4
"""How many requests of a kind are refused, spread over all of them; None: each."""


class _Refusals:
    """Counts the requests of a kind, and refuses one of them, or that one and all that follow.

    Attributes:
        count: how many requests there were.
        at: which one is refused, from 1 on; 0: none.
        for_ever: whether all that follow are, too.
    """

    def __init__(self) -> None:
        self.count = self.at = 0
        self.for_ever = False

    def start(self, at: int, for_ever: bool = False) -> None:
        self.count, self.at, self.for_ever = 0, at, for_ever

    def comes(self) -> bool:
        """Whether the request that comes now is to be refused."""
        self.count += 1
        return self.at != 0 and (self.count == self.at or (self.for_ever and self.count > self.at))

    def in_place_of(self, function: Callable[..., Any], refuse: Callable[[], Any]) -> Callable[..., Any]:
        return lambda *args, **names: refuse() if self.comes() else function(*args, **names)


def _no_space() -> Any:
    raise OSError(28, "No space left on device")


def _no_thread() -> Any:
    raise RuntimeError("can't start new thread")


def _no_code() -> Any:
    raise RuntimeError("LLVM is out of memory")


def _refuse_memory(patch: pytest.MonkeyPatch, refusals: _Refusals) -> None:
    lists = memory.free_lists
    patch.setattr(lists, "allocate", refusals.in_place_of(lists.allocate, lambda: 0))


def _refuse_files(patch: pytest.MonkeyPatch, refusals: _Refusals) -> None:
    class Refusing:
        def __getattr__(self, name: str) -> Any:
            found = getattr(os, name)
            is_asked = name in ("open", "replace", "listdir", "stat", "unlink", "utime")
            return refusals.in_place_of(found, _no_space) if is_asked else found

    patch.setattr(object_cache, "os", Refusing())


def _refuse_compiles(patch: pytest.MonkeyPatch, refusals: _Refusals) -> None:
    emit = jit._LlvmSession.emit

    def refusing(self: Any, source: Any, text: str) -> bytes:
        try:
            return emit(self, source, text) if not refusals.comes() else _no_code()
        except RuntimeError as error:
            raise jit.CompileError(str(error)) from error

    patch.setattr(jit._LlvmSession, "emit", refusing)


def _refuse_threads(patch: pytest.MonkeyPatch, refusals: _Refusals) -> None:
    start = threading.Thread.start
    patch.setattr(threading.Thread, "start", refusals.in_place_of(start, _no_thread))


KINDS: dict[str, tuple[Callable[[pytest.MonkeyPatch, _Refusals], None], str]] = {
    "memory": (_refuse_memory, "can't allocate memory"),
    "files": (_refuse_files, ""),
    "compiles": (_refuse_compiles, ""),
}
"""Kind -> (what has it refused, what a step may raise then; empty: nothing)."""

ROWS = 3000


def _training(turn: int) -> tuple[Callable[[], float], Callable[[], None]]:
    """A step whose kernels no other turn has, with memory of sizes of its own; and a function that begins again."""
    width = 3 + turn
    data = (jg.arange(float(ROWS * width)).reshape(ROWS, width) % 7.0) / 7.0
    w, b = jg.full((width, 2), 0.25).requires_grad_(), jg.zeros(2).requires_grad_()
    optimizer = jg.optim.SGD([w, b], lr=0.1, momentum=0.9)

    @jg.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = (((data * data) @ w + b).tanh() ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def begin() -> None:
        with jg.no_grad():
            w.fill_(0.25)
            b.zero_()
        optimizer.zero_grad()
        optimizer.state.clear()

    return lambda: step().item(), begin


@contextmanager
def _fresh(cache_dir: Path) -> Iterator[None]:
    """Nothing that an earlier turn has made may serve again."""
    before = config.cache_dir
    gc.collect()
    memory.release_cached()
    families.forget()  # their programs hold kernels
    jit.drop_idle_kernels()
    config.cache_dir = cache_dir
    try:
        yield
    finally:
        config.cache_dir = before


@pytest.fixture
def no_kernels() -> None:
    """For ``conftest.py``: a compile that is refused leaves a segment without kernels."""


def _turn(kind: str, nr: int, at: int, for_ever: bool, folder: Path) -> tuple[int, str]:
    """Train while one request is refused. (How many requests came, what was wrong.)"""
    refuse, allowed = KINDS[kind]
    step, begin = _training(nr)
    with _fresh(folder / "reference"), jg.eager():
        want = [step() for _ in range(3)]
    begin()
    refusals, wrong = _Refusals(), ""
    with pytest.MonkeyPatch.context() as patch, _fresh(folder / str(nr)):
        refuse(patch, refusals)
        refusals.start(at, for_ever)
        for _ in range(3):
            try:
                step()
            except Exception as error:
                if not allowed or allowed not in str(error):
                    wrong = f"it raised {error!r}"
        requests = refusals.count
    if not jg.is_grad_enabled():
        return requests, "grad mode was left off"
    begin()
    with _fresh(folder / f"{nr}-again"):
        got = [step() for _ in range(3)]
    if got != pytest.approx(want, rel=1e-4):
        wrong = f"the losses were {got}, not {want}"
    return requests, wrong


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_on_after_a_refusal(kind: str, tmp_path: Path) -> None:
    count, wrong = _turn(kind, 0, 0, False, tmp_path)
    assert not wrong
    assert count > 0
    turns = [(at, for_ever) for at in range(1, count + 1) for for_ever in (False, True)]
    chosen = turns if MOST is None else turns[:: max(1, len(turns) // MOST)]
    found = {turn: _turn(kind, 1 + nr, *turn, tmp_path)[1] for nr, turn in enumerate(chosen)}
    bad = {turn: text for turn, text in found.items() if text}
    print(f"{kind}: {len(chosen)} of {len(turns)} refusals tried, {len(chosen) - len(bad)} survived")
    assert not bad


def test_a_queue_whose_thread_cannot_start() -> None:
    refusals, queue, done = _Refusals(), DeviceQueue("refused"), []
    with pytest.MonkeyPatch.context() as patch:
        _refuse_threads(patch, refusals)
        refusals.start(1)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            queue.submit(lambda: done.append(1))
        queue.synchronize()  # nothing is waited for
        queue.submit(lambda: done.append(2))
    queue.synchronize()
    assert done == [2]


@pytest.mark.parametrize("at", [1, 2])
def test_engine_workers_that_cannot_start(at: int) -> None:
    refusals, threads = _Refusals(), DeviceThreads(lambda device, queue: queue.pop(0) and None)
    with pytest.MonkeyPatch.context() as patch:
        _refuse_threads(patch, refusals)
        refusals.start(at)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threads.start(2)
        assert len(threads.queues) == len(threads.threads) == at - 1
        threads.start(2)
    assert len(threads.queues) == len(threads.threads) == 2
    threads.stop(LONGEST_WAIT_S)


def test_kernels_run_on_the_threads_that_there_are() -> None:
    before = jg.get_num_threads()
    refusals, x = _Refusals(), jg.ones(1 << 18)
    step = jg.compile(lambda: ((x * 2).tanh() + x).sum())
    want = step().item()
    try:
        with pytest.MonkeyPatch.context() as patch:
            _refuse_threads(patch, refusals)
            refusals.start(1, for_ever=True)
            jg.set_num_threads(1)
            jg.set_num_threads(3)
            assert step().item() == pytest.approx(want, rel=1e-6)
        assert refusals.count > 0
        jg.set_num_threads(2)
        assert step().item() == pytest.approx(want, rel=1e-6)
    finally:
        jg.set_num_threads(before)
