"""Storages: alignment, recycling, the border with NumPy."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from threads import run_threads

import jitgrad as jg
from jitgrad.array_storages import STORAGES
from jitgrad.dtypes import float32, int64
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.storage import memory
from jitgrad.runtime.storage.storage import Storage


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    """The free lists are everybody's: what a collection frees in the middle of a test would turn up in them."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 4096, 10_000_001])
def test_alignment_and_size(nbytes: int) -> None:
    storage = Storage(nbytes)
    assert storage.addr and storage.addr % 64 == 0
    assert storage.nbytes == nbytes
    storage.array(make_aval((nbytes,), float32)) if nbytes == 0 else None


def test_memory_is_recycled() -> None:
    storage = Storage(12_345)
    addr = storage.addr
    del storage
    assert Storage(12_345).addr == addr


def test_memory_that_numpy_can_reach_is_not_recycled() -> None:
    storage = Storage(4 * 777)
    addr = storage.addr
    view = storage.array(make_aval((777,), float32))[10:20]
    view[:] = 3.0
    del storage
    gc.collect()
    other = Storage(4 * 777)
    assert other.addr != addr
    other.array(make_aval((777,), float32))[:] = 5.0
    assert (view == 3.0).all()
    del view
    assert Storage(4 * 777).addr == addr


def test_views_follow_the_aval() -> None:
    storage = Storage(8 * 24)
    flat = storage.array(make_aval((24,), int64))
    flat[:] = np.arange(24)
    view = storage.array(make_aval((3, 2), int64, (4, 12), 2))
    assert view.tolist() == [[2, 14], [6, 18], [10, 22]]
    view[0, 0] = -1
    assert flat[2] == -1
    assert storage.array(make_aval((), int64)).shape == ()


def test_sharing_with_numpy() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    storage = Storage.from_array(array)
    assert storage.addr == array.ctypes.data
    storage.array(make_aval((2, 3), float32))[1, 1] = 9.0
    assert array[1, 1] == 9.0
    addr = storage.addr
    del array, storage
    assert Storage(24).addr != addr


def test_memory_of_another_library_is_not_taken_for_ours() -> None:
    class Block(bytearray):
        """As PyTorch's tensors, it has a method of this name."""

        def storage(self) -> None: ...

    target, array = jg.ones(3), np.frombuffer(Block(12), np.float32)
    source = jg.from_numpy(array)
    target.copy_(source)
    source[1:].add_(1)
    assert target.tolist() == [0, 0, 0]
    assert source.tolist() == array.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32)[::2],
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.broadcast_to(np.float32(2.0), (3, 4)),
        np.frombuffer(b"\0" * 9, np.uint8)[1:].view(np.float32),
    ],
)
def test_sharing_odd_layouts(array: np.ndarray) -> None:
    storage = Storage.from_array(array)
    assert storage.addr == array.__array_interface__["data"][0]
    strides = tuple(s // 4 for s in array.strides)
    assert np.array_equal(storage.array(make_aval(array.shape, float32, strides)), array)


def test_sharing_an_empty_array() -> None:
    storage = Storage.from_array(np.zeros((0, 3), np.float32))
    assert storage.nbytes == 0 and storage.addr != 0
    assert storage.array(make_aval((0, 3), float32)).shape == (0, 3)


def test_pending_storages() -> None:
    storage = Storage.pending()
    assert storage.addr == 0
    storage.materialize(400)
    assert storage.addr != 0 and storage.addr % 64 == 0
    shared = Storage.pending()
    shared.adopt(storage)
    addr = storage.addr
    del storage
    assert Storage(400).addr != addr
    shared.array(make_aval((100,), float32))[:] = 1.0
    del shared
    assert Storage(400).addr == addr


def test_impossible_sizes_raise() -> None:
    for nbytes in (1 << 62, 1 << 80):
        with pytest.raises(RuntimeError, match="can't allocate memory: you tried to allocate"):
            Storage(nbytes)


def test_the_free_lists_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.release_cached()
    for size in range(3 << 20, (3 << 20) + 200):
        Storage(size)
    assert memory.cached_nbytes() <= memory.CACHE_LIMIT_NBYTES
    memory.release_cached()
    assert memory.cached_nbytes() == 0
    monkeypatch.setattr(memory.free_lists, "limit", 1 << 20)
    alive = [Storage(size) for size in range(1 << 17, (1 << 17) + 20)]
    alive.clear()
    assert 0 < memory.cached_nbytes() <= 1 << 20, "blocks that are given back when the lists are full are freed"
    memory.release_cached()


def test_a_new_size_finds_room_among_stale_ones() -> None:
    memory.release_cached()
    for size in range(8 << 20, (8 << 20) + 40):
        Storage(size)
    storage = Storage(50 << 20)
    addr = storage.addr
    del storage
    assert Storage(50 << 20).addr == addr
    memory.release_cached()


def test_threads() -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        for round_ in range(300):
            storages = [Storage(4 * (64 + i % 7)) for i in range(20)]
            arrays = [s.array(make_aval((64,), float32)) for s in storages]
            for i, array in enumerate(arrays):
                array[:] = seed * 100 + i
            del storages
            for i, array in enumerate(arrays):
                if not (array == seed * 100 + i).all():
                    failures.append(f"thread {seed}, round {round_}")

    run_threads(work, 4)
    assert not failures


# --- views of results, Note [Storage on demand] ---


def _views(base: Any) -> list[Any]:
    """Views of a vector of 6 elements: direct ones, and views of them."""
    return [base.view(2, 3), base[1:5], base[::2], base.view(2, 3).t(), base.view(2, 3)[1], base.view(2, 3).t()[1:]]


@pytest.mark.parametrize("first", range(7))
def test_a_result_and_its_views_have_one_storage_whoever_is_asked_first(first: int) -> None:
    base = jg.arange(6, dtype=jg.float32) * 1
    tensors = [base, *_views(base)]
    address = tensors[first].untyped_storage().data_ptr()
    assert {t.untyped_storage().data_ptr() for t in tensors} == {address}
    assert len({id(t._storage) for t in tensors}) == 1
    for view in tensors:
        assert view.data_ptr() == address + 4 * view.storage_offset()


def test_nothing_asks_for_storages_where_eager_operations_go_through_views() -> None:
    w = jg.ones(3, 2, requires_grad=True)
    known = len(STORAGES)
    x = (w * 2).view(6)[1:4].unsqueeze(0)
    out = jg.cat((x, x.t().reshape(1, 3))).select(0, 1).sum()
    out.backward()
    assert len(STORAGES) == known


def test_an_optimizers_step_asks_for_no_storages() -> None:
    p = jg.from_numpy(np.ones(5, np.float32)).requires_grad_()
    optimizer = jg.optim.Adam([p])
    known = len(STORAGES)
    for _ in range(2):
        (p * p).sum().backward()
        optimizer.step()
        assert len(STORAGES) == known


def test_views_are_written_and_read_through_each_other() -> None:
    base = jg.zeros(6) + 0
    for nr, view in enumerate(_views(base), 1):
        view.fill_(nr)
        expected = [v.tolist() for v in _views(base)]
        assert [v.tolist() for v in _views(jg.tensor(base.tolist()))] == expected


def test_a_storage_that_grows_takes_its_views_along() -> None:
    base = jg.arange(6, dtype=jg.float32) * 1
    views = _views(base)
    gone = weakref.proxy({1})  # objects of all kinds are looked at, and this one raises when it is asked for its class
    base.untyped_storage().resize_(4 * 100)
    del gone
    base.fill_(7)
    assert all((view == 7).all() for view in views)
    assert len({view._storage for view in views}) == 1


def test_nothing_reads_behind_a_storage_that_shrank() -> None:
    """Eager operations say so; a kernel, which goes by the tensor's extents, finds the memory that was there."""
    x = jg.full((1 << 16,), 2.0)
    total = jg.compile(lambda x: (x * 2).sum())
    assert [total(x).item() for _ in range(3)] == [4 * 65536.0] * 3
    x.untyped_storage().resize_(4)
    for operation in (jg.exp, jg.Tensor.tolist, jg.Tensor.zero_):
        with pytest.raises(RuntimeError, match="out of bounds for storage of size 4"):
            operation(x)
    assert total(x).item() == 4 * 65536.0
    x.untyped_storage().resize_(1 << 18)
    assert (x.sum().item(), total(x).item()) == (2.0, 4.0)  # what came back is zeros


def test_a_storage_that_goes_back_and_forth_stays_where_it_is() -> None:
    x = jg.ones(100)
    storage = x.untyped_storage()
    storage.resize_(0)
    place = storage.data_ptr()
    for _ in range(3):
        storage.resize_(400)
        storage.resize_(0)
    assert storage.data_ptr() == place


def test_memory_that_a_view_looks_at_does_not_grow() -> None:
    base = jg.zeros(6) + 0
    view = base[2:]
    with pytest.raises(RuntimeError, match="other tensors look at"):
        base.resize_(1000)
    base.fill_(3)
    assert view.tolist() == [3] * 4


def test_a_view_of_a_users_window_stays_inside_it() -> None:
    array = np.arange(10, dtype=np.float32)
    window = jg.from_numpy(array[4:])
    view = window.view(2, 3)[1]
    assert view.tolist() == [7, 8, 9]
    assert view.data_ptr() == array.ctypes.data + 4 * 7
    view.zero_()
    assert array[7:].tolist() == [0, 0, 0]


def test_a_view_may_have_more_dimensions_than_arrays_can() -> None:
    base = jg.ones(3) * 2
    view = base.reshape(*[1] * 69, 3)
    assert view.dim() == 70
    assert view.reshape(3).tolist() == [2.0] * 3
    view.reshape(3).zero_()
    assert base.tolist() == [0.0] * 3
