"""Memory of a process that goes on for long: ``python -m tests.leaks`` runs all scenes, one process each.

    python -m tests.leaks                    # the long form: 1e5 steps, 1e4 graphs, functions, kernels, 1e3 failures
    python -m tests.leaks --share 0.02       # a fiftieth of each
    python -m tests.leaks --scene kernels

Printed for a scene: how many calls were tried, and by how much resident memory grew from the middle to the end, when
caches have had their time to fill. ``tests/compiled/test_memory_growth.py`` counts objects instead, for shorter runs.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jitgrad as jg
from jitgrad.codegen.llvm import jit
from tests.scenes import scene_options

__all__ = ["SCENES", "grown_nbytes", "play"]

BOUND_NBYTES = 24 << 20
"""Growth that is no leak: arenas of the allocators, and the last entries of bounded caches."""

SCENES: dict[str, tuple[int, Callable[[], Callable[[int], Any]]]] = {}
"""Name -> (calls of the long form, what makes a function of the call's number)."""


def _scene(count: int) -> Callable[[Callable[[], Callable[[int], Any]]], Callable[[], Callable[[int], Any]]]:
    def note(make: Callable[[], Callable[[int], Any]]) -> Callable[[], Callable[[int], Any]]:
        SCENES[make.__name__.strip("_")] = count, make
        return make

    return note


def _model() -> tuple[Any, Any]:
    model = jg.nn.Sequential(jg.nn.Linear(8, 16), jg.nn.Tanh(), jg.nn.Linear(16, 1))
    return model, jg.optim.Adam(model.parameters())


@_scene(100_000)
def _steps() -> Callable[[int], Any]:
    """Warm steps of training."""
    model, optimizer = _model()
    x = jg.ones(4, 8)

    @jg.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return lambda nr: step(x)


@_scene(30_000)
def _eager_steps() -> Callable[[int], Any]:
    """The same without compiling; graphs with views, hooks and in-place writes."""
    model, optimizer = _model()
    x = jg.ones(4, 8)

    def step(nr: int) -> None:
        optimizer.zero_grad()
        y = model(x)
        y.register_hook(lambda g: g * 2)
        y[1:].mul_(0.5)
        y.square().mean().backward()
        optimizer.step()

    return step


@_scene(10_000)
def _graphs() -> Callable[[int], Any]:
    """A graph that is new at every call: an index that counts up."""
    x = jg.ones(20_000, requires_grad=True)

    @jg.compile
    def step(at: int) -> Any:
        return (x[at : at + 8] * 2).sum()

    return lambda nr: step(nr)


@_scene(10_000)
def _functions() -> Callable[[int], Any]:
    """A compiled function that is made, called three times, dropped."""
    x = jg.ones(4, requires_grad=True)

    def once(nr: int) -> None:
        function = jg.compile(lambda x: (x * 2.5).tanh().sum())
        for _ in range(3):
            function(x).backward()
        x.grad = None

    return once


@_scene(10_000)
def _kernels() -> Callable[[int], Any]:
    """A kernel that is new at every call. Some 4,000 that nobody uses are kept: less than the long form grows first."""
    x = jg.ones(16)
    unary = (jg.exp, jg.tanh, jg.sin, jg.cos, jg.sqrt, jg.abs, jg.neg, jg.sigmoid, jg.relu, jg.square)

    def once(nr: int) -> None:
        def chain(x: Any) -> Any:
            for digit in map(int, f"{nr:05}"):
                x = unary[digit](x)
            return x.sum()

        function = jg.compile(chain)
        function(x)
        function(x)

    return once


@_scene(300_000)
def _rows() -> Callable[[int], Any]:
    """A view that begins elsewhere at every call, as in a loop over the rows of a data set."""
    x = jg.zeros(300_000, 2)
    return lambda nr: (x[nr], x[nr : nr + 5].t())


@_scene(20_000)
def _loads() -> Callable[[int], Any]:
    """A kernel that is loaded and dropped again: nothing of it stays."""
    session = jit._session()
    text = "define i32 @k(i32 %x) {\n  ret i32 %x\n}\n"
    code = session.emit(jit.KernelSource("k", "k", lambda: text), text)
    return lambda nr: session.load("k", code)


@_scene(1_000)
def _failures() -> Callable[[int], Any]:
    """Calls that raise: in the function, in an operation, in a kernel, for memory that is not there."""
    x, w = jg.ones(8), jg.ones(8, requires_grad=True)

    def own(nr: int) -> None:
        y = (x * w).sum()
        y.backward()
        raise KeyError(y.item())

    calls = [
        own,
        lambda nr: x + jg.ones(3 + nr % 5),
        lambda nr: (x * w)[jg.tensor([nr + 8])].sum().backward(),
        lambda nr: jg.ones(2**61) + x,
        lambda nr: x.new_zeros(1 << 24)[jg.tensor([1 << 24])],
    ]
    steps = [jg.compile(call) for call in calls]

    def once(nr: int) -> None:
        for call in (*calls, *steps):
            with contextlib.suppress(KeyError, RuntimeError, IndexError):
                call(nr)
                raise AssertionError("it was to fail")

    return once


def _resident_nbytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def grown_nbytes(name: str, share: float) -> tuple[int, int]:
    """(calls tried, bytes by which this process grew in the second half of them)."""
    count, make = SCENES[name]
    count = max(int(count * share), 8)
    call = make()
    for nr in range(count // 2):
        call(nr)
    before = _resident_nbytes()
    for nr in range(count // 2, count):
        call(nr)
    return count, _resident_nbytes() - before


def play(name: str, share: float) -> tuple[str, bool]:
    """Run a scene in a process of its own: (what it printed, whether it ended well and stayed flat)."""
    command = [sys.executable, "-m", "tests.leaks", "--inside", name, "--share", str(share)]
    run = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    return (run.stdout or run.stderr[-2000:]).strip(), run.returncode == 0


def main() -> None:
    """See above."""
    options = scene_options(__doc__, SCENES)
    if options.inside:
        count, nbytes = grown_nbytes(options.inside, options.share)
        print(f"{options.inside}: tried {count}, grew by {nbytes / 2**20:.1f} MiB in the second half")
        sys.exit(nbytes > BOUND_NBYTES)
    found = {name: play(name, options.share) for name in options.scene or SCENES}
    for text, is_flat in found.values():
        print(text, "" if is_flat else "  <-- not flat")
    sys.exit(not all(is_flat for _, is_flat in found.values()))


if __name__ == "__main__":
    main()
