"""``python -m benchmarks.runtime``: what the runtime itself costs, apart from kernels.

Owns: the figures of fork and join, of a program run, of memory, of loading kernels.
In: ``--json``. Out: a table: name, value, unit.

Every figure is the lower quartile of nine series. Fork and join is a shared stage of tiny tasks less the same stage run
alone; ``speedup`` is one stage of the given length run alone, over the same stage shared by all threads.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

import numpy as np

from jitgrad.abi import Launch, NativeStep
from jitgrad.codegen.driver import driver
from jitgrad.codegen.llvm import jit
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.codegen.llvm.text import FnBuilder
from jitgrad.config import config
from jitgrad.dtypes import float32
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.native import executor
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.native.pool import get_num_threads, set_num_threads
from jitgrad.runtime.storage.storage import Storage

STAGES = 20
TASKS = 8
KERNELS = 40


def lower_quartile(work: Callable[[], object], repeats: int) -> float:
    """Seconds per call."""
    work()
    series = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        series.append((time.perf_counter() - start) / repeats)
    return quantiles(series, n=4)[0]


def _burn_text(name: str) -> str:
    """A chain of ``args[0]`` dependent additions per unit, a few cycles each, that touches no memory but one word."""
    b = FnBuilder(name)
    rounds = b.op("load i64, ptr %args")
    b.do("%word = alloca i64")
    with b.loop("%begin", "%end"), b.loop("0", rounds) as i:
        b.do(f"store volatile i64 {i}, ptr %word")
    return b.finish()


def burn(rounds: int, shared: bool) -> LoadedStep:
    """``STAGES`` stages of ``TASKS`` tasks."""
    (kernel,) = compile_kernels([KernelSource("burn", "benchmark burn", lambda: _burn_text("burn"))])
    launch = Launch(kernel.address, (rounds,), TASKS, 1, 2e5 if shared else 0.0, kernel.name)
    return LoadedStep(NativeStep((), (), 0, (), ((launch,),) * STAGES, kernel))


def stage_us(rounds: int, shared: bool) -> float:
    """Microseconds per stage."""
    step = burn(rounds, shared)
    return lower_quartile(lambda: step.run([], []), max(3, 20_000 // (rounds + 20))) / STAGES * 1e6


def sharing() -> Iterator[tuple[str, float, str]]:
    alone, shared = stage_us(1, False), stage_us(1, True)
    yield "fork and join", shared - alone, "us"
    for rounds in (100, 300, 1000, 3000, 10_000):
        alone, shared = stage_us(rounds, False), stage_us(rounds, True)
        yield f"speedup of a {alone:.1f} us stage", alone / shared, "x"


def runs() -> Iterator[tuple[str, float, str]]:
    for inputs, outputs in ((1, 1), (10, 5), (30, 20)):
        step = NativeStep(tuple(range(inputs)), tuple((inputs + i, 8) for i in range(outputs)), 0, (), ())
        loaded, given, made = LoadedStep(step), list(range(inputs)), list(range(outputs))
        seconds = lower_quartile(lambda run=loaded.run, a=given, b=made: run(a, b), 20_000)  # type: ignore[misc]
        yield f"empty program, {inputs} inputs, {outputs} outputs", seconds * 1e6, "us"


def after_idling() -> Iterator[tuple[str, float, str]]:
    step = burn(10_000, True)
    series = []
    for _ in range(20):
        time.sleep(0.01)
        start = time.perf_counter()
        step.run([], [])
        series.append(time.perf_counter() - start)
    awake = lower_quartile(lambda: step.run([], []), 20)
    yield "first program after the workers slept, extra", (quantiles(series, n=4)[0] - awake) * 1e6, "us"
    before = time.process_time()
    time.sleep(0.5)
    yield "processor use while idle", (time.process_time() - before) / 0.5 * 100, "%"


def storage() -> Iterator[tuple[str, float, str]]:
    aval = make_aval((32, 32), float32)
    held, array = Storage(4096), np.ones((32, 32), np.float32)
    yield "allocate and free a storage", lower_quartile(lambda: Storage(4096), 50_000) * 1e6, "us"
    yield "share a NumPy array", lower_quartile(lambda: Storage.from_array(array), 50_000) * 1e6, "us"
    yield "view as a NumPy array", lower_quartile(lambda: held.array(aval), 50_000) * 1e6, "us"


@contextmanager
def _fresh_cache() -> Iterator[None]:
    before = config.cache_dir
    with tempfile.TemporaryDirectory() as directory:
        config.cache_dir = Path(directory) / "cache"
        try:
            yield
        finally:
            config.cache_dir = before


def _some_kernels() -> list[CompiledKernel]:
    names = [f"benchmark{i}" for i in range(KERNELS)]
    return compile_kernels([KernelSource(n, f"benchmark {n}", lambda n=n: _burn_text(n)) for n in names])  # type: ignore[misc]


def kernels() -> Iterator[tuple[str, float, str]]:
    with _fresh_cache():
        for what in ("compile a tiny kernel", "load a kernel from disk"):
            start = time.perf_counter()
            made = _some_kernels()
            yield what, (time.perf_counter() - start) / KERNELS * 1e3, "ms"
            del made
            jit.drop_idle_kernels()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runtime", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--threads", type=int, default=get_num_threads())
    options = parser.parse_args()
    loops = driver.load()
    executor.install(loops.driver, loops.worker, loops)
    set_num_threads(options.threads)
    rows = [row for part in (storage, runs, sharing, after_idling, kernels) for row in part()]
    if options.json:
        print(json.dumps({name: {"value": value, "unit": unit} for name, value, unit in rows}))
        return
    for name, value, unit in rows:
        print(f"{name:48} {value:9.3f} {unit}")


if __name__ == "__main__":
    main()
