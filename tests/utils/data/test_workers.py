"""``DataLoader`` with worker processes: the same batches, errors, ends."""

from __future__ import annotations

import collections
import gc
import multiprocessing
import os
import pickle
import random
import signal
import sys
import time
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.utils import data
from jitgrad.utils.data import DataLoader, get_worker_info
from jitgrad.utils.data._utils import parcels
from jitgrad.utils.data._utils.worker import _seed_streams

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

LARGE = parcels.SHARE_FROM_NBYTES // 4  # elements of a float32 tensor that goes through a slab


class Made(data.Dataset):
    """Examples by a function."""

    def __init__(self, size: int, make: Any) -> None:
        self.size, self.make = size, make

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


class Shares(data.IterableDataset):
    """Each worker's share of the numbers below ``size``."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Any:
        info = get_worker_info()
        return iter(range(self.size) if info is None else range(info.id, self.size, info.num_workers))


def as_it_is(examples: list[Any]) -> list[Any]:
    return examples


def loaded(make: Any, size: int = 6, **kwargs: Any) -> list[Any]:
    kwargs = {"num_workers": 2, "batch_size": 2, "collate_fn": as_it_is, **kwargs}
    return [x for batch in DataLoader(Made(size, make), **kwargs) for x in batch]


def until_gone(pids: list[int]) -> bool:
    """Wait for processes to end."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not [pid for pid in pids if _exists(pid)]:
            return True
        time.sleep(0.02)
    return False


def _exists(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> Any:
    yield
    gc.collect()  # tracebacks of errors hold iterators, and are held by their own frames
    assert multiprocessing.active_children() == []


# --- the same batches ---


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("prefetch_factor", [1, 2, 5])
@pytest.mark.parametrize("num_workers", [1, 2])
def test_all_batches_come(num_workers: int, prefetch_factor: int, in_order: bool) -> None:
    loader = DataLoader(
        range(23), batch_size=3, num_workers=num_workers, prefetch_factor=prefetch_factor, in_order=in_order
    )
    batches = [batch.tolist() for batch in loader]
    expected = [batch.tolist() for batch in DataLoader(range(23), batch_size=3)]
    assert (batches if in_order else sorted(batches)) == expected


def test_a_slow_worker_is_passed_over_if_order_does_not_matter() -> None:
    def make(index: int) -> int:
        info = get_worker_info()
        assert info is not None
        time.sleep(0.3 if info.id == 0 else 0)
        return info.id

    in_order = collections.Counter(loaded(make, 12, batch_size=1))
    as_finished = collections.Counter(loaded(make, 12, batch_size=1, in_order=False))
    assert in_order == {0: 6, 1: 6}
    assert as_finished[0] < as_finished[1]


def test_a_worker_knows_itself() -> None:
    def init(worker_id: int) -> None:
        info = get_worker_info()
        assert info is not None
        info.dataset.greeting = f"{worker_id} of {info.num_workers}"

    def make(index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        return info.id, info.dataset.greeting, info.seed

    found = set(loaded(make, worker_init_fn=init))
    assert {known[:2] for known in found} == {(0, "0 of 2"), (1, "1 of 2")}
    seeds = {worker: seed for worker, _, seed in found}
    assert seeds[1] == seeds[0] + 1


def test_workers_draw_different_numbers_and_the_same_again_from_a_seed() -> None:
    def make(index: int) -> tuple[float, ...]:
        return random.random(), float(np.random.random()), jitgrad.rand(()).item()

    def drawn() -> list[Any]:
        return loaded(make, generator=jitgrad.Generator().manual_seed(5))

    first = drawn()
    assert len(set(first)) == 6
    assert drawn() == first


def test_parity_of_the_workers_seeds() -> None:
    pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.utils.data._utils.worker")
    before = random.getstate(), np.random.get_state(), jitgrad.get_rng_state()
    try:
        for base_seed, worker_id in ((0, 0), (1234567890123456789, 3), (2**63 - 1, 1)):
            assert _seed_streams(base_seed, worker_id) == base_seed + worker_id == jitgrad.initial_seed()
            ours = [random.random(), np.random.random()]
            random.seed(base_seed + worker_id)
            np.random.seed(theirs._generate_state(base_seed, worker_id))
            assert ours == [random.random(), np.random.random()]
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        jitgrad.set_rng_state(before[2])


def test_parity_of_what_workers_draw() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.utils.data")

    def drawn(lib: Any) -> list[Any]:
        def make(index: int) -> tuple[float, ...]:
            return index, random.random(), float(np.random.random()), lib.rand(()).item()

        class Drawn(lib.utils.data.Dataset):  # type: ignore[misc]
            def __len__(self) -> int:
                return 8

            def __getitem__(self, index: int) -> Any:
                return make(index)

        lib.manual_seed(99)
        loader = lib.utils.data.DataLoader(Drawn(), 2, shuffle=True, num_workers=2, collate_fn=as_it_is)
        return [list(loader) for _ in range(2)]

    assert drawn(jitgrad) == drawn(torch)


def test_a_stream_is_shared_out() -> None:
    loader = DataLoader(Shares(11), batch_size=2, num_workers=2)
    assert [batch.tolist() for batch in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
    assert sorted(x for x in DataLoader(Shares(5), batch_size=None, num_workers=2)) == [0, 1, 2, 3, 4]
    whole = DataLoader(Shares(11), batch_size=2, num_workers=2, drop_last=True)
    assert [batch.tolist() for batch in whole] == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10]]


def test_an_empty_share() -> None:
    assert [batch.tolist() for batch in DataLoader(Shares(1), num_workers=2)] == [[0]]
    assert list(DataLoader(Shares(0), num_workers=2)) == []


@pytest.mark.parametrize("dataset", [Shares(9), range(9)], ids=["stream", "map"])
def test_persistent_workers_stay(dataset: Any) -> None:
    loader = DataLoader(dataset, batch_size=2, num_workers=2, persistent_workers=True)
    passes = [sorted(x for batch in loader for x in batch.tolist()) for _ in range(3)]
    assert passes == [list(range(9))] * 3
    pids = [worker.process.pid for worker in loader._iterator._workers]  # type: ignore[union-attr]
    next(iter(loader))  # a pass that is left early
    assert sorted(x for batch in loader for x in batch.tolist()) == list(range(9))
    assert [worker.process.pid for worker in loader._iterator._workers] == pids  # type: ignore[union-attr]
    del loader
    assert until_gone(pids)


def test_persistent_workers_keep_what_they_know() -> None:
    seen: list[int] = []

    def make(index: int) -> int:
        seen.append(index)
        return len(seen)

    loader = DataLoader(Made(4, make), num_workers=1, batch_size=None, persistent_workers=True)
    assert [list(loader), list(loader)] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert seen == []


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_are_not_forked(method: str) -> None:
    dataset = data.TensorDataset(jitgrad.arange(3 * LARGE).reshape(3, LARGE).float(), jitgrad.arange(3))
    found = list(DataLoader(dataset, num_workers=1, multiprocessing_context=method))
    assert [(x[0, 1].item(), y.item()) for x, y in found] == [(LARGE * i + 1.0, i) for i in range(3)]


def test_what_cannot_be_pickled_cannot_be_spawned() -> None:
    loader = DataLoader(Made(3, lambda i: i), num_workers=1, multiprocessing_context="spawn")
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        iter(loader)


# --- what results are made of ---


def sent(make: Any, size: int = 1, **kwargs: Any) -> list[Any]:
    """Examples, each as a worker made it."""
    return list(DataLoader(Made(size, make), batch_size=None, num_workers=1, collate_fn=lambda x: x, **kwargs))


@pytest.mark.parametrize("size", [3, LARGE + 1], ids=["small", "large"])
def test_tensors_keep_what_they_are(size: int) -> None:
    def make(index: int) -> Any:
        x = jitgrad.arange(2 * size).reshape(2, size)
        return {
            "plain": x, "transposed": x.T, "rows": x[:, 1:], "float": x.double() / 7, "bool": x > 2,
            "leaf": x.float().requires_grad_(), "parameter": jitgrad.nn.Parameter(x.float()), "empty": x[:0],
            "one": x[0, 0], "array": x.numpy() * 2, "strided": x.numpy()[:, ::2], "sparse": x.float().to_sparse(),
        }  # fmt: skip

    (found,) = sent(make)
    expected = make(0)
    for name, value in expected.items():
        assert type(found[name]) is type(value), name
        assert str(found[name].dtype) == str(value.dtype), name
        if name == "sparse":
            value, found[name] = value.to_dense(), found[name].to_dense()
        assert found[name].tolist() == value.tolist(), name
        assert getattr(found[name], "requires_grad", False) == getattr(value, "requires_grad", False), name
    assert found["transposed"].stride() == expected["transposed"].stride()
    assert found["rows"].is_contiguous()
    found["array"][0, 0] = 5  # it can be written


def test_one_tensor_stays_one() -> None:
    def make(index: int) -> Any:
        x = jitgrad.ones(LARGE)
        return [x, x, {"x": x}]

    ((a, b, named),) = sent(make)
    assert a is b is named["x"]


def test_a_tensor_in_a_graph_does_not_travel() -> None:
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        sent(lambda i: jitgrad.ones(3, requires_grad=True) * 2)


def test_batches_that_are_kept_keep_their_values() -> None:
    """More of them than there are slabs."""
    count = 2 * parcels._MAX_SLABS + 5
    kept = sent(lambda i: (jitgrad.full((LARGE,), i), np.full(LARGE, -i)), count)
    assert [(x[0].item(), x[-1].item(), int(y[7])) for x, y in kept] == [(i, i, -i) for i in range(count)]


def test_slabs_are_used_again() -> None:
    iterator: Any = iter(DataLoader(Made(100, lambda i: jitgrad.full((LARGE,), i)), batch_size=None, num_workers=1))
    assert [x[5].item() for x in iterator] == list(range(100))
    assert 1 <= len(iterator._workers[0].inbox._slabs) <= 5


def test_batches_of_growing_size() -> None:
    found = sent(lambda i: jitgrad.full((LARGE * (i + 1),), i), 20)
    assert [(len(x), x[-1].item()) for x in found] == [(LARGE * (i + 1), i) for i in range(20)]


def test_a_batch_can_be_written_and_used_like_any_other() -> None:
    (x,) = sent(lambda i: jitgrad.ones(LARGE))
    x.mul_(3)
    view = x[: LARGE // 2]
    del x
    assert view.sum().item() == 3.0 * (LARGE // 2)
    (y,) = sent(lambda i: jitgrad.ones(LARGE))
    y.requires_grad_()
    (y * 2).sum().backward()
    assert y.grad.sum().item() == 2.0 * LARGE


def test_without_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError("no memory")

    monkeypatch.setattr(parcels, "_nameless_file", refuse)
    assert [x[3].item() for x in sent(lambda i: jitgrad.full((LARGE,), i), 5)] == list(range(5))


@pytest.mark.timeout(120)
def test_neither_side_waits_for_the_other() -> None:
    """Indices and results that are much larger than what a pipe holds."""
    words = ["x" * 1000] * 5000

    def make(index: Any) -> Any:
        return len(index), words

    class Long(data.Sampler[Any]):
        def __iter__(self) -> Any:
            return iter([list(range(500_000))] * 6)

    loader = DataLoader(Made(1, make), batch_size=None, sampler=Long(), num_workers=1, collate_fn=as_it_is)
    assert [(n, len(w)) for n, w in loader] == [(500_000, 5000)] * 6


# --- errors ---


class Particular(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)


class WithMessage(Exception):
    message = "a default"

    def __init__(self, message: str) -> None:
        super().__init__(message)


def fail_with(error: BaseException, at: int = 3) -> Any:
    def make(index: int) -> int:
        if index == at:
            raise error
        return index

    return make


def test_an_error_is_raised_here_with_the_worker_s_traceback() -> None:
    iterator = iter(DataLoader(Made(6, fail_with(ValueError("three"))), num_workers=2, batch_size=2))
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"(?s)Caught ValueError in DataLoader worker process 1\..*in make.*three"):
        next(iterator)
    assert next(iterator).tolist() == [4, 5]  # it goes on, as in PyTorch
    with pytest.raises(StopIteration):
        next(iterator)


ERRORS = {
    "index": IndexError("out"),
    "key": KeyError("missing"),
    "assertion": AssertionError("no"),
    "message": WithMessage("it"),
    "two arguments": Particular(1, 2),
    "unicode": UnicodeDecodeError("utf8", b"x", 0, 1, "odd"),
    "not implemented": NotImplementedError(),
}


def _caught(module: Any, error: Exception) -> Any:
    class Failing(module.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            raise error

    with pytest.raises(Exception) as caught:
        list(module.DataLoader(Failing(), num_workers=1))
    text = str(caught.value)
    return caught.type, text.split("Original")[0], text.strip().splitlines()[-1]


@pytest.mark.parametrize("name", ERRORS)
def test_parity_of_errors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pytest.importorskip("torch.utils.data")
    monkeypatch.setattr(theirs._utils, "MP_STATUS_CHECK_INTERVAL", 0.2)  # then it ends workers that did not
    assert _caught(data, ERRORS[name]) == _caught(theirs, ERRORS[name])
    gc.collect()  # its iterator waits for its workers


def test_an_error_whose_class_cannot_be_pickled() -> None:
    class Local(Exception):
        pass

    with pytest.raises(RuntimeError, match=r"(?s)Caught Local in DataLoader worker process 0.*inside"):
        loaded(fail_with(Local("inside"), 0))


def test_a_result_that_cannot_be_pickled() -> None:
    iterator = iter(DataLoader(Made(2, lambda i: (lambda: i) if i == 0 else i), batch_size=None, num_workers=1))
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError), match=r"(?s)Caught .* in DataLoader worker"):
        next(iterator)
    assert next(iterator) == 1


def test_an_error_in_the_init_function() -> None:
    def init(worker_id: int) -> None:
        raise OSError(f"worker {worker_id}")

    with pytest.raises(OSError, match=r"(?s)worker process 0.*worker 0"):
        loaded(lambda i: i, worker_init_fn=init)


def test_an_error_where_a_stream_begins() -> None:
    class Broken(data.IterableDataset):
        def __iter__(self) -> Any:
            raise LookupError("dry")

    with pytest.raises(LookupError, match=r"(?s)worker process 0.*dry"):
        list(DataLoader(Broken(), num_workers=1))


@pytest.mark.parametrize("sharing", ["nothing", "batches"])
@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "is killed by signal: Killed"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "is killed by signal: Segmentation fault"),
        (lambda: os._exit(3), "exited unexpectedly with exit code 3"),
        (lambda: sys.exit(4), "exited unexpectedly with exit code 4"),
    ],
    ids=["kill", "crash", "_exit", "exit"],
)
def test_a_worker_that_dies_is_reported(end: Any, why: str, sharing: str) -> None:
    def make(index: int) -> Any:
        if index == 5:
            end()
        return jitgrad.full((LARGE,), index) if sharing == "batches" else index

    iterator: Any = iter(DataLoader(Made(12, make), num_workers=2, batch_size=1))
    pids = [worker.process.pid for worker in iterator._workers]
    found = []
    with pytest.raises(RuntimeError, match=rf"worker \(pid\(s\) {pids[1]}\) exited unexpectedly") as caught:
        for batch in iterator:
            found.append(int(batch.flatten()[0]))
    assert found == list(range(5))  # what was finished before comes all the same
    assert why in str(caught.value.__cause__)
    del iterator, caught
    gc.collect()
    assert until_gone(pids)
    assert loaded(lambda i: i) == list(range(6))


def test_a_worker_that_dies_between_passes() -> None:
    loader = DataLoader(range(4), num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 4
    pid = loader._iterator._workers[0].process.pid  # type: ignore[union-attr]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=rf"pid\(s\) {pid}"):
        list(loader)


def test_a_worker_that_dies_while_its_child_keeps_the_pipe_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitgrad.utils.data._utils.workers.CHECK_INTERVAL_S", 0.2)

    def make(index: int) -> int:
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
        os._exit(1)

    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        loaded(make, num_workers=1)


def test_a_slow_worker_runs_out_of_time() -> None:
    def make(index: int) -> int:
        time.sleep(0 if index < 2 else 2)
        return index

    iterator = iter(DataLoader(Made(4, make), num_workers=1, timeout=0.5))
    assert [next(iterator).item(), next(iterator).item()] == [0, 1]
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.5 seconds"):
        next(iterator)


def test_prefetching_nothing_is_an_error() -> None:
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(range(3), num_workers=1, prefetch_factor=0))


# --- ends ---


def test_a_pass_that_is_left_early_leaves_no_process() -> None:
    iterator: Any = iter(DataLoader(Made(100, lambda i: jitgrad.ones(LARGE)), num_workers=2, prefetch_factor=8))
    pids = [worker.process.pid for worker in iterator._workers]
    batch = next(iterator)
    del iterator
    assert until_gone(pids)
    assert batch.sum().item() == LARGE  # its memory is still there


def test_a_pass_in_a_cycle_of_garbage_ends(capfd: pytest.CaptureFixture[str]) -> None:
    iterator: Any = iter(DataLoader(range(20), num_workers=2))
    pids = [worker.process.pid for worker in iterator._workers]
    iterator.cycle = [iterator, iterator._workers, [worker.connection for worker in iterator._workers]]
    del iterator
    gc.collect()
    assert until_gone(pids)
    assert capfd.readouterr().err == ""


def test_workers_that_cannot_send_end_all_the_same() -> None:
    words = ["x" * 1000] * 5000
    iterator: Any = iter(DataLoader(Made(100, lambda i: words), batch_size=None, num_workers=2))
    pids = [worker.process.pid for worker in iterator._workers]
    time.sleep(0.3)  # their pipes are full
    started = time.monotonic()
    del iterator
    assert time.monotonic() - started < 4
    assert until_gone(pids)


def test_a_worker_that_does_not_end_is_terminated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitgrad.utils.data._utils.workers.CHECK_INTERVAL_S", 0.2)
    iterator: Any = iter(DataLoader(Made(4, lambda i: time.sleep(60)), num_workers=1))
    pids = [worker.process.pid for worker in iterator._workers]
    del iterator
    assert until_gone(pids)


def test_a_forked_child_does_not_end_its_parent_s_workers() -> None:
    iterator = iter(DataLoader(range(20), num_workers=1))
    assert next(iterator).item() == 0
    child = os.fork()
    if child == 0:
        del iterator
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [x.item() for x in iterator] == list(range(1, 20))
