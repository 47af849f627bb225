"""``save`` and ``load``: what comes back, and what a bad file cannot do."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from modes import Mode

import jitgrad
from jitgrad import nn, optim
from tests.rows.old_files import save_old

FEW = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
DTYPES = [jitgrad.bool, jitgrad.int32, jitgrad.int64, jitgrad.float32, jitgrad.float64]


def _old_round_trip(obj: Any, **options: Any) -> Any:
    file = io.BytesIO()
    save_old(obj, file)
    return jitgrad.load(file, **options)


def _round_trip(obj: Any, **options: Any) -> Any:
    file = io.BytesIO()
    jitgrad.save(obj, file)
    file.seek(0)
    return jitgrad.load(file, **options)


@pytest.mark.row("A2")
def test_what_was_saved_is_loaded(mode: Mode, tmp_path: Path) -> None:
    """In a step too: what it has computed so far is what is saved."""
    path = tmp_path / "values.jg"

    def step(x):
        doubled = x * 2
        jitgrad.save({"x": x, "doubled": doubled, "view": doubled[1:]}, path)
        doubled += 1
        loaded = jitgrad.load(path)
        return loaded["doubled"] + 1, loaded["view"], loaded["x"].requires_grad, jitgrad.is_tensor(loaded["x"])

    total, view, requires_grad, is_tensor = mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0], requires_grad=True),))
    assert total.tolist() == [3, 5]
    assert view.tolist() == [4]
    assert requires_grad
    assert is_tensor


@pytest.mark.row("A2", no_launch="Files hold memory, no operation takes part.")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_round_trip(mode: Mode, dtype: jitgrad.DType, shape: tuple[int, ...]) -> None:
    values = (np.arange(math.prod(shape)) % 3).reshape(shape).astype(dtype.np)

    def step():
        return _round_trip([jitgrad.tensor(values)])

    (loaded,) = mode.run(step)
    assert loaded.dtype is dtype
    assert loaded.shape == shape
    assert loaded.numpy().tolist() == values.tolist()


@pytest.mark.row("A2")
def test_legacy_constructors(mode: Mode) -> None:
    def step():
        made = [jitgrad.FloatTensor([1, 2]), jitgrad.DoubleTensor([1, 2]), jitgrad.LongTensor([1, 2])]
        made += [jitgrad.IntTensor(2).zero_(), jitgrad.BoolTensor([0, 1])]
        return [(t.dtype, t.type(), t.tolist()) for t in made]

    assert mode.run(step) == [
        (jitgrad.float32, "jitgrad.FloatTensor", [1.0, 2.0]),
        (jitgrad.float64, "jitgrad.DoubleTensor", [1.0, 2.0]),
        (jitgrad.int64, "jitgrad.LongTensor", [1, 2]),
        (jitgrad.int32, "jitgrad.IntTensor", [0, 0]),
        (jitgrad.bool, "jitgrad.BoolTensor", [False, True]),
    ]
    assert jitgrad.FloatTensor().shape == (0,)
    assert jitgrad.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(jitgrad.ones(1), jitgrad.FloatTensor)
    assert not isinstance(jitgrad.ones(1), jitgrad.DoubleTensor)
    assert not isinstance(1.0, jitgrad.FloatTensor)
    x = jitgrad.ones(2)
    assert x.type(jitgrad.DoubleTensor).dtype is x.type("jitgrad.DoubleTensor").dtype is jitgrad.float64
    assert x.type(jitgrad.int64).dtype is jitgrad.int64
    assert x.type(jitgrad.FloatTensor) is x
    with pytest.raises(ValueError, match=r"invalid type: 'torch\.ComplexFloatTensor'"):
        x.type("torch.ComplexFloatTensor")


@pytest.mark.row("A2")
def test_is_tensor(mode: Mode) -> None:
    def step():
        x = jitgrad.ones(2)
        answers = [jitgrad.is_tensor(t) for t in (x, x * 2, nn.Parameter(x), x.to_sparse())]
        return answers, [jitgrad.is_tensor(t) for t in (1.0, [x], np.ones(1), None, jitgrad.Tensor)]

    assert mode.run(step) == ([True] * 4, [False] * 5)


@pytest.mark.parametrize("round_trip", [_round_trip, _old_round_trip])
def test_layouts_and_sharing_survive(round_trip: Any) -> None:
    base = jitgrad.arange(12.0).reshape(3, 4)
    parameter = nn.Parameter(base.t())
    saved = {"base": base, "t": base.t(), "column": base[:, 1], "again": base, "p": parameter}
    saved["wide"] = base[:1].expand(3, 4)
    loaded = round_trip(saved)
    for name, tensor in saved.items():
        twin = loaded[name]
        assert twin.stride() == tensor.stride(), name
        assert twin.storage_offset() == tensor.storage_offset()
        assert twin.tolist() == tensor.tolist()
        assert type(twin) is type(tensor)
        assert twin.requires_grad == tensor.requires_grad
    assert loaded["again"] is loaded["base"]
    loaded["base"][0, 1] = 100.0
    assert loaded["column"].tolist() == [100, 5, 9]
    assert loaded["t"][1, 0].item() == loaded["p"][1, 0].item() == 100
    assert base[0, 1].item() == 1


@pytest.mark.parametrize("round_trip", [_round_trip, _old_round_trip])
def test_plain_values(round_trip: Any) -> None:
    value = {
        "none": None, 1: [True, 2, 3.5, "x", b"\0\xff"], (1, "a"): {"nested": ({1, 2}, frozenset({3}))}, 2.5: -0.0,
        "big": 2**80, "inf": [math.inf, -math.inf], "dtype": jitgrad.float64, "device": jitgrad.device("cpu"),
        "ordered": OrderedDict(b=1, a=2),
    }  # fmt: skip
    loaded = round_trip(value)
    assert loaded == value
    assert list(loaded["ordered"]) == ["b", "a"]
    assert type(loaded["ordered"]) is OrderedDict
    assert math.copysign(1, loaded[2.5]) == -1
    assert math.isnan(round_trip(math.nan))
    assert type(_round_trip(np.float32(2))) is float


def test_training_goes_on(tmp_path: Path) -> None:
    def make():
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        return model, optim.Adam(model.parameters(), lr=0.1)

    def train(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (model(jitgrad.ones(5, 3)) ** 2).mean().backward()
            optimizer.step()
        return [p.tolist() for p in model.parameters()]

    model, optimizer = make()
    train(model, optimizer, 3)
    jitgrad.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint")
    expected = train(model, optimizer, 3)
    model, optimizer = make()
    state = jitgrad.load(tmp_path / "checkpoint")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    assert train(model, optimizer, 3) == expected


@pytest.mark.parametrize("round_trip", [_round_trip, _old_round_trip])
def test_sparse_tensors(round_trip: Any) -> None:
    x = jitgrad.sparse_coo_tensor([[0, 2, 0]], [[1.0], [2.0], [3.0]], (3, 1))
    loaded = round_trip([x, x.coalesce()])
    assert [t.is_sparse for t in loaded] == [True, True]
    assert [t.is_coalesced() for t in loaded] == [False, True]
    assert loaded[0].to_dense().tolist() == loaded[1].to_dense().tolist() == [[4], [0], [2]]


def test_devices() -> None:
    saved = [jitgrad.ones(2), jitgrad.ones(2, device="vcpu:0"), jitgrad.empty(3, device="meta")]
    assert [str(t.device) for t in _round_trip(saved)] == ["cpu", "vcpu:0", "meta"]
    loaded = _round_trip(saved[:2], map_location="cpu")
    assert [str(t.device) for t in loaded] == ["cpu", "cpu"]
    assert loaded[1].tolist() == [1, 1]
    assert str(_round_trip(saved[0], map_location={"cpu": "vcpu:0"}).device) == "vcpu:0"
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        _old_round_trip(saved[2], map_location="cpu")
    assert str(_round_trip(saved[2], map_location="cpu").device) == "meta"  # as in PyTorch


class _Kind(jitgrad.Tensor):
    pass


@pytest.mark.parametrize(
    "obj, message",
    [
        ({"f": lambda: 1}, "cannot be pickled"),
        ([jitgrad.ones(2).as_subclass(_Kind)], "cannot save _Kind, a subclass of Tensor"),
        ((i for i in range(2)), "cannot pickle 'generator'"),
    ],
)
def test_what_cannot_be_saved(tmp_path: Path, obj: Any, message: str) -> None:
    path = tmp_path / "file"
    jitgrad.save([1], path)
    with pytest.raises(TypeError, match=message):
        jitgrad.save(obj, path)
    assert jitgrad.load(path) == [1]
    assert os.listdir(tmp_path) == ["file"]


def test_an_object_that_contains_itself() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    loaded = _round_trip(ring)
    assert loaded[0] == 1
    assert loaded[1] is loaded
    twice = [1]
    first, second = _round_trip([twice, twice])
    assert first is second


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    jitgrad.save("old", path)

    def fail(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        jitgrad.save("new", path)
    assert jitgrad.load(path) == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_files_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        jitgrad.load(path)
    for content in (b"", b"not a zip", pickle.dumps([1])):
        path.write_bytes(content)
        with pytest.raises(RuntimeError, match=r"is not a whole file of jitgrad\.save"):
            jitgrad.load(path)
    with pytest.raises(ValueError, match="weights_only=False is not supported"):
        jitgrad.load(path, weights_only=False)


def _tampered(change: Any, compression: int = zipfile.ZIP_STORED) -> io.BytesIO:
    """A file of one tensor whose index ``change`` has been at."""
    file = io.BytesIO()
    save_old(jitgrad.ones(4), file)
    out = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w", compression) as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "jitgrad.json":
                index = json.loads(data)
                change(index)
                data = json.dumps(index).encode()
            new.writestr(name, data)
    out.seek(0)
    return out


@pytest.mark.parametrize(
    "field, value",
    [
        ("shape", [5]), ("shape", [-4]), ("shape", [4, 4]), ("shape", ["4"]), ("stride", [2]), ("stride", [2**63]),
        ("offset", 1), ("offset", -1), ("dtype", "float64"), ("dtype", "object"), ("storage", 1), ("storage", None),
        ("device", 7), ("shape", None),
    ],
)  # fmt: skip
def test_records_that_lie(field: str, value: Any) -> None:
    with pytest.raises(RuntimeError, match="is not a whole file"):
        jitgrad.load(_tampered(lambda index: index["tensors"][0].update({field: value})))


@pytest.mark.parametrize(
    "root", [["tensor", 1], ["tensor", -1], ["code", "import os"], ["dict", [[["list", []], 1]]], {"a": 1}, [1]]
)
def test_indexes_that_lie(root: Any) -> None:
    with pytest.raises(RuntimeError, match="is not a whole file"):
        jitgrad.load(_tampered(lambda index: index.update(root=root)))


def test_a_compressed_file_is_refused() -> None:
    """A few bytes must not become gigabytes."""
    with pytest.raises(RuntimeError, match="is compressed"):
        jitgrad.load(_tampered(lambda index: None, zipfile.ZIP_DEFLATED))


def test_another_version() -> None:
    with pytest.raises(RuntimeError, match="its version is 2, and only 1 is known"):
        jitgrad.load(_tampered(lambda index: index.update(version=2)))


@settings(FEW, max_examples=200)
@given(position=st.integers(0, 2000), byte=st.integers(0, 255), cut=st.booleans())
def test_damage_never_does_worse_than_an_error(position: int, byte: int, cut: bool) -> None:
    file = io.BytesIO()
    jitgrad.save({"a": jitgrad.arange(6).reshape(2, 3).t(), "b": [jitgrad.tensor([True, False]), 1]}, file)
    data = bytearray(file.getvalue())
    position %= len(data)
    if cut:
        del data[position:]
    else:
        data[position] = byte
    try:
        loaded = jitgrad.load(io.BytesIO(bytes(data)))
    except (RuntimeError, NotImplementedError, pickle.UnpicklingError):
        return
    str(loaded)  # whatever it is, it can be looked at


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


@settings(FEW, max_examples=100)
@given(value=_VALUES, shape=st.lists(st.integers(0, 4), max_size=3), order=st.randoms(use_true_random=False))
def test_any_values_and_layouts(value: Any, shape: list[int], order: Any) -> None:
    dims = list(range(len(shape)))
    order.shuffle(dims)
    tensor = jitgrad.arange(math.prod(shape)).reshape(tuple(shape)).permute(tuple(dims))
    if tensor.ndim and tensor.shape[0] > 1:
        tensor = tensor[1:]
    loaded_value, loaded = _round_trip((value, tensor))
    assert loaded_value == value
    assert type(loaded_value) is type(value)
    assert (loaded.shape, loaded.stride(), loaded.storage_offset()) == (
        tensor.shape, tensor.stride(), tensor.storage_offset()
    )  # fmt: skip
    assert loaded.tolist() == tensor.tolist()
