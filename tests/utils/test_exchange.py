"""Memory that is shared with NumPy, PyTorch and files: zero copies, the same rules, the same errors."""

from __future__ import annotations

import array
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.modes import Mode

torch = pytest.importorskip("torch")

DTYPES = ["bool", "int32", "int64", "float32", "float64"]


@pytest.mark.parametrize("name", DTYPES)
def test_dlpack_shares_memory_both_ways(name: str) -> None:
    ours = jitgrad.tensor([[0, 1, 1], [1, 0, 1]], dtype=getattr(jitgrad, name))
    assert tuple(map(int, ours.__dlpack_device__())) == (1, 0)
    for taken in (torch.from_dlpack(ours), torch.from_dlpack(ours.t()).t()):
        assert taken.data_ptr() == ours.data_ptr()
        assert taken.tolist() == ours.tolist()
    theirs = torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=getattr(torch, name))
    for taken in (jitgrad.from_dlpack(theirs), jitgrad.from_dlpack(theirs.t()).t(), jitgrad.asarray(theirs)):
        assert taken.data_ptr() == theirs.data_ptr()
        assert (taken.tolist(), taken.stride()) == (theirs.tolist(), theirs.stride())
        taken[0, 0] = 1
    assert theirs[0, 0] == 1
    np_array = np.from_dlpack(ours)
    assert np_array.__array_interface__["data"][0] == ours.data_ptr()
    assert jitgrad.from_dlpack(np_array).data_ptr() == ours.data_ptr()
    assert jitgrad.from_dlpack(ours, copy=True).data_ptr() != ours.data_ptr()


def test_capsules() -> None:
    x = jitgrad.arange(3.0)
    capsule = jitgrad.utils.dlpack.to_dlpack(x)
    shared = torch.utils.dlpack.from_dlpack(capsule)
    shared[0] = 5
    assert x.tolist() == [5, 1, 2]
    back = jitgrad.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(shared))
    assert back.data_ptr() == x.data_ptr()
    assert jitgrad.asarray(x.__dlpack__()).tolist() == [5, 1, 2]


def test_what_dlpack_refuses() -> None:
    leaf = jitgrad.ones(2, requires_grad=True)
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        np.from_dlpack(leaf)
    assert np.from_dlpack(leaf.detach()).tolist() == [1, 1]
    with pytest.raises(BufferError, match=r"tensor\.cpu"):
        jitgrad.ones(2, device="vcpu:0").__dlpack__()
    with pytest.raises(ValueError, match="negative"):
        jitgrad.from_dlpack(np.arange(3)[::-1])
    with pytest.raises(TypeError, match="__dlpack__"):
        jitgrad.from_dlpack([1, 2])
    with pytest.raises(ValueError, match="can't alias"):
        jitgrad.from_dlpack(np.ones(2), device="vcpu:0", copy=False)


def test_memory_stays_as_long_as_anybody_looks() -> None:
    x = jitgrad.arange(1000.0) * 2
    array_of_it, taken = np.from_dlpack(x), torch.from_dlpack(x)
    del x
    other = [jitgrad.zeros(1000) + 1 for _ in range(4)]
    assert array_of_it[999] == taken[999] == 1998
    assert other[0][0].item() == 1
    made = jitgrad.from_dlpack(torch.arange(1000.0))
    assert made.sum().item() == 499_500


def test_in_a_step(mode: Mode) -> None:
    """What is handed out in the middle of a step holds what the step has computed; what is written there is seen."""

    def step(x: Any) -> Any:
        y = x * 2
        out = np.from_dlpack(y)
        out[0] = 7
        z = jitgrad.from_dlpack(np.array([1.0, 2.0])) + y.double()
        return z * 1, np.asarray(y, dtype=np.int64).tolist()

    z, values = mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0]),))
    assert z.tolist() == [8, 6]
    assert values == [7, 4]


def test_arrays_by_numpys_rules() -> None:
    x = jitgrad.arange(3.0)
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.shares_memory(np.asarray(x, copy=False), x.numpy())
    assert not np.shares_memory(np.asarray(x, copy=True), x.numpy())
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)\.numpy\(\)"):
        np.asarray(x.requires_grad_())


def test_functions_of_numpy_return_tensors() -> None:
    x = jitgrad.tensor([[1.0, 4.0], [9.0, 16.0]])
    for found in (np.sqrt(x), np.add(np.ones((2, 2)), x), np.maximum(x, 2.0), np.isnan(x)):
        assert isinstance(found, jitgrad.Tensor)
    assert np.sqrt(x).tolist() == [[1, 2], [3, 4]]
    file = io.BytesIO()
    np.save(file, x)
    file.seek(0)
    assert np.load(file).tolist() == x.tolist()
    file = io.BytesIO()
    np.savez(file, x=x)
    file.seek(0)
    assert np.load(file)["x"].tolist() == x.tolist()


def test_buffers() -> None:
    x = jitgrad.arange(6.0).reshape(2, 3)
    view = x.__buffer__(0)
    assert (view.shape, view.format, view.readonly) == ((2, 3), "f", False)
    view[0, 1] = 9.0
    assert x[0, 1].item() == 9
    with pytest.raises(BufferError):
        jitgrad.ones(2, requires_grad=True).__buffer__(0)
    numbers = array.array("f", [1, 2, 3, 4])
    shared = jitgrad.frombuffer(numbers, dtype=jitgrad.float32, count=2, offset=4)
    shared[0] = 7
    assert list(numbers) == [1, 7, 3, 4]
    assert jitgrad.frombuffer(b"\1\0\0\0", dtype=jitgrad.int32).tolist() == [1]
    assert jitgrad.frombuffer(bytearray(8), dtype=jitgrad.float32, requires_grad=True).requires_grad


FRAMES: dict[str, Any] = {
    "empty": lambda t: t.frombuffer(b"", dtype=t.float32),
    "none": lambda t: t.frombuffer(bytearray(4), dtype=t.float32, count=0),
    "no multiple": lambda t: t.frombuffer(bytearray(15), dtype=t.float32),
    "too many": lambda t: t.frombuffer(bytearray(16), dtype=t.float32, count=10),
    "beyond": lambda t: t.frombuffer(bytearray(4), dtype=t.float32, offset=5),
    "no buffer": lambda t: t.frombuffer([1], dtype=t.float32),
    "another dtype": lambda t: t.asarray(t.ones(2), dtype=t.float64, copy=False),
    "a list": lambda t: t.asarray([1, 2], copy=False),
    "an array": lambda t: t.asarray(np.arange(3.0), dtype=t.float32, copy=False),
}


@pytest.mark.parametrize("name", FRAMES)
def test_refusals_are_torchs(name: str) -> None:
    found = []
    for t in (jitgrad, torch):
        with pytest.raises(ValueError) as error:
            FRAMES[name](t)
        found.append(str(error.value))
    assert found[0] == found[1]


SOURCES: dict[str, Any] = {
    "list": lambda t: t.asarray([[1, 2], [3, 4]]),
    "number": lambda t: t.asarray(2.5),
    "array": lambda t: t.asarray(np.arange(3.0)),
    "a dtype": lambda t: t.asarray(np.arange(3.0), dtype=t.float32),
    "a leaf": lambda t: t.asarray(t.ones(2), requires_grad=True),
    "no leaf": lambda t: t.asarray(t.ones(2, requires_grad=True) * 2, requires_grad=False),
    "a leaf that stays one": lambda t: t.asarray(t.ones(2, requires_grad=True), requires_grad=True),
    "no leaf, in the graph": lambda t: t.asarray(t.ones(2, requires_grad=True), dtype=t.float64, requires_grad=False),
    "a buffer": lambda t: t.asarray(array.array("i", [1, 2, 3]), dtype=t.int32),
    "a scalar of NumPy": lambda t: t.asarray(np.float64(2)),
    "nested": lambda t: t.asarray([t.tensor(1.0), t.tensor(2.0)]),
    "as_tensor": lambda t: t.as_tensor(np.arange(3), dtype=t.float64),
}


@pytest.mark.parametrize("name", SOURCES)
def test_asarray(name: str) -> None:
    ours, theirs = SOURCES[name](jitgrad), SOURCES[name](torch)
    assert ours.tolist() == theirs.tolist()
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    assert (ours.requires_grad, ours.is_leaf) == (theirs.requires_grad, theirs.is_leaf)


def test_asarray_shares_what_it_can() -> None:
    values, numbers = np.arange(3.0), array.array("d", [1, 2])
    x = jitgrad.ones(2)
    assert jitgrad.asarray(values).data_ptr() == values.__array_interface__["data"][0]
    assert jitgrad.asarray(values, copy=True).data_ptr() != values.__array_interface__["data"][0]
    assert jitgrad.asarray(numbers, dtype=jitgrad.float64).data_ptr() == numbers.buffer_info()[0]
    assert jitgrad.asarray(x) is x
    assert jitgrad.asarray(x, copy=True) is not x
    values.flags.writeable = False
    assert jitgrad.asarray(values).tolist() == [0, 1, 2]


def test_from_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.arange(4, dtype=np.float32).tofile(path)
    private = jitgrad.from_file(path, size=4)
    private[0] = 9
    assert np.fromfile(path, np.float32).tolist() == [0, 1, 2, 3]
    shared = jitgrad.from_file(str(path), shared=True, size=6)
    shared[5] = 5
    del shared
    assert np.fromfile(path, np.float32).tolist() == [0, 1, 2, 3, 0, 5]
    assert torch.from_file(str(path), size=6).tolist() == jitgrad.from_file(path, size=6).tolist()
    with pytest.raises(RuntimeError, match="smaller than the required size"):
        jitgrad.from_file(path, size=100)
    assert jitgrad.from_file(path, size=0).shape == (0,)


def test_scikit_learn_takes_tensors() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    x = jitgrad.arange(10.0).reshape(5, 2) % 3
    y = x @ jitgrad.tensor([1.0, -2.0]) + 1
    model = linear.LinearRegression().fit(x, y)
    np.testing.assert_allclose(model.predict(x), y.numpy(), atol=1e-5)
    assert 0.99 < linear.Ridge(alpha=1e-6).fit(x, y).score(x, y) <= 1


def test_matplotlib_takes_tensors() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="it is what takes the tensors")
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    x = jitgrad.linspace(0, 1, 5)
    (line,) = axes.plot(x, x * x)
    image = axes.imshow(jitgrad.rand(3, 3))
    axes.hist(x, bins=3)
    axes.scatter(x, x, c=x)
    np.testing.assert_allclose(line.get_ydata(), (x * x).numpy())
    assert image.get_array().shape == (3, 3)
    figure.canvas.draw()
    pyplot.close(figure)


# --- storages ---


def test_storages_change_their_size() -> None:
    for t in (jitgrad, torch):
        x = t.arange(6.0)
        view, storage = x[2:4], x.untyped_storage()
        assert (storage.nbytes(), storage.size(), len(storage), storage.element_size()) == (24, 24, 24, 1)
        assert storage.resizable()
        if t is jitgrad:  # PyTorch's storages cannot be resized once NumPy has looked at them
            assert (x.numpy()[3], view.numpy()[1]) == (3, 3)
        assert storage.resize_(40) is storage or t is torch
        assert (x.untyped_storage().nbytes(), x.tolist(), view.tolist()) == (40, [0, 1, 2, 3, 4, 5], [2, 3])
        assert x.data_ptr() == storage.data_ptr() == view.data_ptr() - 8
        x[3] = 30
        assert view.tolist() == [2, 30], "all see the new memory"
        assert t.empty(0).set_(storage, 0, (6,), (1,)).tolist() == x.tolist() == [0, 1, 2, 30, 4, 5]
        storage.resize_(0)
        assert storage.nbytes() == 0
        storage.resize_(24)
        x.fill_(1)
        assert view.tolist() == [1, 1]


def test_storages_fill_copy_and_slice() -> None:
    for t in (jitgrad, torch):
        x = t.zeros(2, dtype=t.int32)
        storage = x.untyped_storage()
        storage[0] = 5
        storage[4:6] = 1
        assert x.tolist() == [5, 257]
        part = storage[4:8]
        part[0] = 2
        assert (part.nbytes(), x.tolist()) == (4, [5, 258])
        other = storage.clone()
        storage.fill_(0)
        assert (x.tolist(), other.tolist()) == ([0, 0], [5, 0, 0, 0, 2, 1, 0, 0])
        storage.copy_(other)
        assert x.tolist() == [5, 258]
        made = t.UntypedStorage(4)
        assert (made.nbytes(), t.UntypedStorage([1, 2]).tolist()) == (4, [1, 2])
        assert t.UntypedStorage([1, 2]).__class__.__name__ == "UntypedStorage"
        with pytest.raises((IndexError, RuntimeError)):
            _ = storage[8]
    assert repr(jitgrad.UntypedStorage([1, 2])) == repr(torch.UntypedStorage([1, 2]))


def test_a_tensor_looks_at_another_storage() -> None:
    for t in (jitgrad, torch):
        source = t.arange(6.0)
        x = t.empty(0)
        assert x.set_(source.untyped_storage(), 1, (2, 2), (2, 1)) is x
        assert (x.tolist(), x.storage_offset(), x.stride()) == ([[1, 2], [3, 4]], 1, (2, 1))
        x.fill_(7)
        assert source.tolist() == [0, 7, 7, 7, 7, 5]
        assert t.empty(0).set_(source.untyped_storage()).tolist() == source.tolist()
        assert t.empty(0).set_(source, 2, (3,)).tolist() == [7, 7, 7]
        assert t.empty(2).set_(source).data_ptr() == source.data_ptr()
        assert t.ones(3).set_().shape == (0,)
        with pytest.raises(RuntimeError):
            t.empty(0).set_(t.zeros(2, dtype=t.int64))
    with pytest.raises(RuntimeError, match="out of bounds"):
        jitgrad.empty(0).set_(jitgrad.ones(2).untyped_storage(), 1, (4,), (1,))


def test_bfloat16_is_shared_by_dlpack() -> None:
    ours = jitgrad.tensor([1.5, -2.25, 3.0], dtype=jitgrad.bfloat16)
    theirs = torch.from_dlpack(ours)
    assert theirs.dtype is torch.bfloat16 and theirs.tolist() == ours.tolist()
    theirs[0] = 7
    assert ours.tolist() == [7.0, -2.25, 3.0]
    back = jitgrad.from_dlpack(theirs)
    back[1] = 8
    assert back.dtype is jitgrad.bfloat16 and ours.tolist() == [7.0, 8.0, 3.0]
    assert jitgrad.from_dlpack(ours.__dlpack__()).tolist() == ours.tolist()
