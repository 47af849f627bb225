"""Native steps: tables, scalars, sharing with the pool, concurrency."""

from __future__ import annotations

import struct
import threading

import numpy as np
import pytest
from native_kernels import chain, counter, install, scale, status, step_of

from jitgrad.abi import MAX_STAGE_TASKS, Launch, NativeStep
from jitgrad.dtypes import float32, int64
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.native.executor import LENT_ARENA_NBYTES, LoadedStep
from jitgrad.runtime.native.pool import get_num_threads, pool, set_num_threads
from jitgrad.runtime.storage.storage import Storage

SHARED = 1e6  # a cost that makes a stage worth sharing


@pytest.fixture(autouse=True, scope="module")
def _install():
    install()


@pytest.fixture(autouse=True)
def _threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


def counts_of(units: int) -> tuple[Storage, np.ndarray]:
    storage = Storage(8 * units)
    array = storage.array(make_aval((units,), int64))
    array[:] = 0
    return storage, array


def test_inputs_outputs_scalars_and_status() -> None:
    kernel, flag = scale(), status()
    launches = ((Launch(kernel.address, (1, 2, 4), 10, 4, 1.0),), (Launch(flag.address, (7,), 1, 1, 1.0),))
    step = NativeStep((1,), ((2, 40),), 128, ((0, True), (1, False)), launches, (kernel, flag))
    loaded = LoadedStep(step)
    x = np.arange(10, dtype=np.float32)
    out = Storage(40)
    for factor in (2.0, -0.5):
        assert loaded.run([Storage.from_array(x).addr], [out.addr], [factor, 3]) == 7
        assert np.array_equal(out.array(make_aval((10,), float32)), x * np.float32(factor))


@pytest.mark.parametrize("arena_nbytes", [0, 4096, 1 << 20])
@pytest.mark.parametrize("with_scalar", [False, True])
def test_the_arena_is_aligned_scratch_memory(arena_nbytes: int, with_scalar: bool) -> None:
    """x -> arena -> out, where the arena may be the instance's own or lent."""
    kernel = chain(1)
    via = (1, 3) if arena_nbytes else (1, 2)
    launches = ((Launch(kernel.address, via, 16, 8, 1.0),), (Launch(kernel.address, (via[1], 2), 16, 8, 1.0),))
    scalars = ((0, True),) if with_scalar else ()
    loaded = LoadedStep(NativeStep((1,), ((2, 64),), arena_nbytes, scalars, launches, kernel))
    x = np.arange(16, dtype=np.float32)
    out = Storage(64)
    for _ in range(3):
        loaded.run([Storage.from_array(x).addr], [out.addr], [1.5] * with_scalar)
        assert np.array_equal(out.array(make_aval((16,), float32)), x**4)


def test_arenas_of_nearly_one_size_are_lent_at_one() -> None:
    """Steps of ever new extents meet memory that is warm; of what is lent, an eighth at most is too much."""
    sizes = [LENT_ARENA_NBYTES - 64, *range(LENT_ARENA_NBYTES, 8 * LENT_ARENA_NBYTES, 1024)]
    steps = [LoadedStep(NativeStep((), (), nbytes, (), (), None)) for nbytes in sizes]
    assert steps[0].lent_nbytes == 0, "a small one is the step's own"
    for nbytes, step in zip(sizes[1:], steps[1:], strict=True):
        assert nbytes <= step.lent_nbytes <= nbytes * 9 / 8
    assert len({step.lent_nbytes for step in steps[1:]}) <= 8 * 3 + 1
    largest = LoadedStep(NativeStep((), (), (5 << 20) + 64, (), (), None))
    assert largest.lent_nbytes % 64 == 0 and largest.run((), ()) == 0


def test_status_is_cleared_by_each_run() -> None:
    kernel = counter()
    storage, _ = counts_of(4)
    assert LoadedStep(step_of(kernel, (1,), 4, 4, 1.0)).run([storage.addr], []) == 0


def test_empty_steps() -> None:
    assert LoadedStep(NativeStep((), (), 0, (), ())).run([], []) == 0
    kernel = counter()
    assert LoadedStep(step_of(kernel, (1,), 0, 4, SHARED, stages=3)).run([1], []) == 0


def test_wrong_values_raise_and_leave_the_step_usable() -> None:
    kernel = counter()
    storage, counts = counts_of(4)
    loaded = LoadedStep(step_of(kernel, (1,), 4, 4, 1.0))
    for bad in ([], ["x"], [1.5], [1 << 64]):
        with pytest.raises(struct.error):
            loaded.run(bad, [])
    loaded.run([storage.addr], [])
    assert counts.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize(("units", "grain"), [(1, 1), (7, 2), (64, 1), (1000, 3), (5000, 5000)])
def test_every_task_runs_exactly_once(threads: int, units: int, grain: int) -> None:
    set_num_threads(threads)
    kernel = counter()
    storage, counts = counts_of(units)
    loaded = LoadedStep(step_of(kernel, (1,), units, grain, SHARED, stages=20))
    for _ in range(20):
        assert loaded.run([storage.addr], []) == 0
    assert (counts == 400).all()


def test_stages_with_more_tasks_than_a_range_word_holds() -> None:
    set_num_threads(2)
    kernel = counter()
    units = 3 * MAX_STAGE_TASKS + 5
    storage, counts = counts_of(units)
    LoadedStep(step_of(kernel, (1,), units, 1, SHARED, stages=2)).run([storage.addr], [])
    assert (counts == 2).all()


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    kernel = chain(9)
    units = 30_000
    x = Storage(4 * units)
    values = np.random.default_rng(0).normal(1.0, 0.1, units).astype(np.float32)
    x.array(make_aval((units,), float32))[:] = values
    results = []
    for threads in (1, 2, 4):
        set_num_threads(threads)
        out = Storage(4 * units)
        LoadedStep(step_of(kernel, (1, 2), units, 512, SHARED, outputs=1)).run([x.addr], [out.addr])
        results.append(out.array(make_aval((units,), float32)).tobytes())
    assert results[0] == results[1] == results[2]


def test_many_stages_in_sequence_see_each_other() -> None:
    """A stage starts only when the one before it has ended: in place, x becomes x**2, 12 times."""
    set_num_threads(3)
    kernel = chain(1)
    units = 4096
    x = Storage(4 * units)
    view = x.array(make_aval((units,), float32))
    view[:] = 1.0001
    expected = view.copy()
    for _ in range(12):
        expected *= expected
    LoadedStep(step_of(kernel, (1, 1), units, 16, SHARED, stages=12)).run([x.addr], [])
    assert np.array_equal(view, expected)


def test_python_threads_run_one_step_at_the_same_time() -> None:
    set_num_threads(2)
    kernel = counter()
    loaded = LoadedStep(step_of(kernel, (1,), 256, 8, SHARED, stages=5))
    totals: list[np.ndarray] = []

    def work() -> None:
        storage, counts = counts_of(256)
        for _ in range(300):
            loaded.run([storage.addr], [])
        totals.append(counts)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(totals) == 4 and all((counts == 1500).all() for counts in totals)


def test_the_pool_grows_and_shrinks() -> None:
    kernel = counter()
    storage, counts = counts_of(64)
    loaded = LoadedStep(step_of(kernel, (1,), 64, 1, SHARED, stages=4))
    loaded.run([storage.addr], [])
    for threads in (4, 1, 3, 2, 1, 2):
        set_num_threads(threads)
        assert len(pool._threads) == threads - 1
        loaded.run([storage.addr], [])
    assert (counts == 28).all()


def test_the_pool_resizes_while_a_step_runs() -> None:
    set_num_threads(2)
    kernel = counter()
    storage, counts = counts_of(500)
    loaded = LoadedStep(step_of(kernel, (1,), 500, 1, SHARED, stages=10))
    stop = threading.Event()

    def resize() -> None:
        while not stop.is_set():
            for threads in (1, 3, 2):
                set_num_threads(threads)

    thread = threading.Thread(target=resize)
    thread.start()
    for _ in range(200):
        loaded.run([storage.addr], [])
    stop.set()
    thread.join()
    assert (counts == 2000).all()


def test_set_num_threads_checks_its_argument() -> None:
    for bad in (0, -1):
        with pytest.raises(RuntimeError, match="set_num_threads expects a positive integer"):
            set_num_threads(bad)
    for wrong in (1.5, "2", True, None):
        with pytest.raises(TypeError):
            set_num_threads(wrong)
