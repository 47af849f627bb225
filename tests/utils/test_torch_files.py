"""Files of PyTorch: what PyTorch writes is read, what is written PyTorch reads, and nothing in a file is run."""

from __future__ import annotations

import copy
import io
import os
import pickle
import tracemalloc
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitgrad
from jitgrad import nn, optim, serialization

torch = pytest.importorskip("torch")

FEW = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def _values(t: Any) -> dict[str, Any]:
    """The same in both libraries."""
    base = t.arange(12.0).reshape(3, 4)
    ordered = OrderedDict([("b", t.ones(2)), ("a", t.zeros(0, 3))])
    ordered.note = {"version": 1}  # type: ignore[attr-defined]
    return {
        "base": base, "t": base.t(), "column": base[:, 1], "again": base, "wide": base[:1].expand(3, 4),
        "int": t.arange(3), "int32": t.tensor([1, -2], dtype=t.int32), "double": t.tensor(1.5, dtype=t.float64),
        "bool": t.tensor([[True], [False]]), "scalar": t.tensor(2.0), "empty": t.zeros(0),
        "leaf": t.ones(2, requires_grad=True), "parameter": t.nn.Parameter(base.t()),
        "plain": [None, True, 1, -3, 2**80, 1.5, float("inf"), "text", "ä", b"\0\xff", (1, (2,))],
        "sets": {1, 2}, "counter": Counter("aab"), "ordered": ordered, 3: {"x": {}}, "bytearray": bytearray(b"ab"),
        "complex": 1 + 2j, "dtype": t.float64, "size": base.shape, "device": t.device("cpu"), "layout": t.strided,
        "sparse": t.eye(2).to_sparse(),
    }  # fmt: skip


def _assert_same(one: Any, other: Any, path: str = "") -> None:
    """That a value of jitgrad and one of torch mean the same."""
    if isinstance(one, jitgrad.Tensor):
        assert type(one).__name__ == type(other).__name__.replace("SparseTensor", "Tensor") or one.is_sparse, path
        assert (tuple(one.shape), one.requires_grad) == (tuple(other.shape), other.requires_grad), path
        assert repr(one.dtype).split(".")[1] == repr(other.dtype).split(".")[1], path
        if one.is_sparse:
            one, other = one.to_dense(), other.to_dense()
        assert (one.stride(), one.storage_offset()) == (other.stride(), other.storage_offset()), path
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
    elif isinstance(one, dict):
        assert type(one) is type(other)
        assert list(one) == list(other)
        for key in one:
            _assert_same(one[key], other[key], f"{path}[{key!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for at, (x, y) in enumerate(zip(one, other, strict=True)):
            _assert_same(x, y, f"{path}[{at}]")
    elif type(one).__module__.startswith("jitgrad"):
        assert repr(one).split(".")[-1] == repr(other).split(".")[-1], path
    else:
        assert (type(one), one) == (type(other), other), path


@pytest.mark.parametrize("mapped", [False, True])
def test_what_torch_writes_is_read(tmp_path: Path, mapped: bool) -> None:
    torch.save(_values(torch), tmp_path / "file.pt")
    loaded = jitgrad.load(tmp_path / "file.pt", mmap=mapped)
    _assert_same(loaded, _values(torch))
    assert loaded["again"] is loaded["base"]
    assert loaded["ordered"].note == {"version": 1}
    loaded["base"][0, 1] = 100.0
    assert loaded["column"].tolist() == [100, 5, 9]
    assert loaded["parameter"][1, 0].item() == 100
    assert torch.load(tmp_path / "file.pt")["base"][0, 1].item() == 1, "the file has not changed"


@pytest.mark.parametrize("mapped", [False, True])
def test_what_is_written_torch_reads(tmp_path: Path, mapped: bool) -> None:
    jitgrad.save(_values(jitgrad), tmp_path / "file.pt")
    loaded = torch.load(tmp_path / "file.pt", weights_only=True, mmap=mapped)
    _assert_same(_values(jitgrad), loaded)
    assert loaded["again"] is loaded["base"]
    loaded["base"][0, 1] = 100.0
    assert loaded["column"].tolist() == [100, 5, 9]
    jitgrad.save(b"", tmp_path / "again.pt")
    assert torch.load(tmp_path / "again.pt") == jitgrad.load(tmp_path / "again.pt") == b""
    torch.save(loaded, tmp_path / "again.pt")
    _assert_same(jitgrad.load(tmp_path / "again.pt")["column"], loaded["column"])


def test_checkpoints_go_from_one_library_to_the_other(tmp_path: Path) -> None:
    """A training that one library began goes on in the other, to the same losses."""

    def make(t: Any) -> Any:
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Tanh(), t.nn.Linear(4, 1))
        optimizer = t.optim.Adam(model.parameters(), lr=0.1)
        return model, optimizer, t.optim.lr_scheduler.StepLR(optimizer, 2)

    def train(t: Any, parts: Any, steps: int) -> list[float]:
        model, optimizer, scheduler = parts
        x, losses = t.linspace(-1, 1, 15).reshape(5, 3), []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        return losses

    for first, second in ((jitgrad, torch), (torch, jitgrad)):
        parts, others = make(first), make(second)
        train(first, parts, 3)
        first.save([part.state_dict() for part in parts], tmp_path / "checkpoint.pth")
        for part, state in zip(others, second.load(tmp_path / "checkpoint.pth", weights_only=True), strict=True):
            part.load_state_dict(state)
        np.testing.assert_allclose(train(second, others, 3), train(first, parts, 3), rtol=1e-5)


def test_map_location() -> None:
    file = io.BytesIO()
    base = torch.arange(4.0)
    torch.save([base, base[1:]], file)
    seen: list[Any] = []

    def keep(storage: Any, location: str) -> Any:
        seen.append((storage.nbytes(), location))
        return storage

    for wanted in (None, "cpu", jitgrad.device("cpu"), {"cuda:0": "cpu"}, keep, lambda storage, location: None):
        loaded = jitgrad.load(file, map_location=wanted)
        assert [str(x.device) for x in loaded] == ["cpu", "cpu"]
    assert seen == [(16, "cpu")]
    whole, part = jitgrad.load(file, map_location="vcpu:0")
    assert str(part.device) == "vcpu:0"
    part.fill_(7)
    assert whole.tolist() == [0, 7, 7, 7]


def _of_a_gpu() -> bytes:
    """A file of a tensor that was on a GPU."""
    file, out = io.BytesIO(), io.BytesIO()
    torch.save(torch.ones(2), file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data.replace(b"X\3\0\0\0cpu", b"X\6\0\0\0cuda:0") if name.endswith("data.pkl") else data)
    return out.getvalue()


def test_a_file_from_a_gpu() -> None:
    with pytest.raises(RuntimeError, match=r"on a CUDA device, which is not there.*map_location='cpu'"):
        jitgrad.load(io.BytesIO(_of_a_gpu()))
    assert jitgrad.load(io.BytesIO(_of_a_gpu()), map_location="cpu").tolist() == [1, 1]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Dropout())
        self.more = nn.ModuleDict({"a": nn.LayerNorm(3), "b": nn.TransformerEncoderLayer(4, 2, 8)})
        self.scale = nn.Parameter(jitgrad.ones(3))
        self.names = ["x"]

    def forward(self, x: Any) -> Any:
        return self.more["a"](self.layers(x)) * self.scale


def test_whole_modules(tmp_path: Path) -> None:
    """Layers are known; classes of the user's are declared. The constructor does not run."""
    path, model = tmp_path / "model.pt", Net().eval()
    model.scale.grad = jitgrad.ones(3)
    jitgrad.save(model, path)
    with pytest.raises(pickle.UnpicklingError, match=r"names .*Net, .*add_safe_globals\(\["):
        jitgrad.load(path)
    with pytest.raises(ValueError, match=r"weights_only=False is not supported.*add_safe_globals"):
        jitgrad.load(path, weights_only=False)
    with serialization.safe_globals([Net]):
        loaded = jitgrad.load(path)
    assert serialization.get_safe_globals() == []
    x = jitgrad.randn(4, 2)
    assert loaded(x).tolist() == model(x).tolist()
    assert (loaded.training, loaded.names, loaded.scale.grad) == (False, ["x"], None)
    jitgrad.save(nn.Sequential(nn.Linear(1, 1), nn.LSTM(1, 1)), path)
    assert [type(m) for m in jitgrad.load(path)] == [nn.Linear, nn.LSTM]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_copies_of_what_people_copy(copied: Any) -> None:
    model = Net()
    twin = copied(model)
    assert [p.tolist() for p in twin.parameters()] == [p.tolist() for p in model.parameters()]
    assert type(twin.scale) is nn.Parameter
    assert twin.scale is not model.scale
    optimizer = optim.Adam(model.parameters(), lr=0.5)
    (model(jitgrad.ones(2, 2)) ** 2).sum().backward()
    optimizer.step()
    other = copied(optimizer)
    assert other.param_groups[0]["lr"] == 0.5
    assert other.state_dict()["state"].keys() == optimizer.state_dict()["state"].keys()
    leaf = jitgrad.arange(6.0).reshape(2, 3).t().requires_grad_()
    assert (copied(leaf).stride(), copied(leaf).requires_grad, copied(leaf).tolist()) == ((1, 3), True, leaf.tolist())
    assert copied(leaf.shape) == leaf.shape
    assert copied(jitgrad.float32) is jitgrad.float32


# --- files that lie ---


class _Evil:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call


def _file_of(pickled: bytes, records: dict[str, bytes] | None = None) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        for name, data in (records or {}).items():
            archive.writestr(f"a/data/{name}", data)
    return out


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    evils = [
        _Evil(os.mkdir, (str(mark),)), _Evil(eval, (f"__import__('os').mkdir({str(mark)!r})",)),
        _Evil(open, (str(mark), "w")), _Evil(getattr, (nn.Linear, "forward")), _Evil(np.zeros, (3,)),
        _Evil(exec, ("1",)), _Evil(nn.Linear, (10**9, 10**9)),
    ]  # fmt: skip
    for protocol in range(6):
        for evil in evils:
            with pytest.raises((RuntimeError, pickle.UnpicklingError)):
                jitgrad.load(_file_of(pickle.dumps(evil, protocol)))
    assert not mark.exists()


_G, _U = b"ctorch._utils\n_rebuild_tensor_v2\n", b"ccollections\nOrderedDict\n"
PROGRAMS = {
    "state of a class": b"\x80\x02cjitgrad.nn.linear\nLinear\n}X\x07\0\0\0forwardK\1sb.",
    "state of a function": b"\x80\x02" + _G + b"}X\x0c\0\0\0__defaults__K\1sb.",
    "state of a tensor": b"\x80\x02ctorch\nSize\n]\x85R}X\1\0\0\0aK\1sb.",
    "a call of a value": b"\x80\x02K\1)R.",
    "a call without arguments": b"\x80\x02" + _U + b"K\1R.",
    "a new object of a function": b"\x80\x02" + _G + b")\x81.",
    "an operation of protocol 0": b"(lp0\nS'os'\na.",
    "an extension": b"\x80\x02\x82\1.",
    "an object by INST": b"(icollections\nOrderedDict\n.",
    "another reference": b"\x80\x02K\1Q.",
    "no end": b"\x80\x02K\1",
    "nothing": b"",
    "a string that goes on": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "bytes that go on": b"\x80\x04\x8e\xff\xff\xff\xff\xff\0\0\0.",
    "a byte array that goes on": b"\x80\x05\x96\0\0\0\0\xff\0\0\0.",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_pickles_that_do_what_values_do_not(name: str) -> None:
    before = nn.Linear.forward
    tracemalloc.start()
    try:
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            jitgrad.load(_file_of(PROGRAMS[name]))
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert nn.Linear.forward is before


class _Storage:
    """What a reference to a storage is made of."""

    def __init__(self, kind: str, key: Any, numel: Any) -> None:
        self.kind, self.key, self.numel = kind, key, numel


class _Pickler(pickle._Pickler):  # type: ignore[name-defined, misc]
    def persistent_id(self, obj: Any) -> Any:
        return ("storage", getattr(torch, obj.kind), obj.key, "cpu", obj.numel) if isinstance(obj, _Storage) else None


def _tensor_file(size: Any = (4,), stride: Any = (1,), offset: Any = 0, **storage: Any) -> io.BytesIO:
    """A file of one tensor over sixteen bytes, with what it says of it."""
    parts = {"kind": "FloatStorage", "key": "0", "numel": 4, "flag": False, **storage}
    memory = _Storage(parts["kind"], parts["key"], parts["numel"])
    made = _Evil(torch._utils._rebuild_tensor_v2, (memory, offset, size, stride, parts["flag"], OrderedDict()))
    out = io.BytesIO()
    _Pickler(out, 2).dump(made)
    return _file_of(out.getvalue(), {"0": np.arange(4, dtype=np.float32).tobytes()})


def test_a_tensor_as_it_should_be() -> None:
    assert jitgrad.load(_tensor_file()).tolist() == [0, 1, 2, 3]
    assert jitgrad.load(_tensor_file((2, 2), (1, 2))).tolist() == [[0, 2], [1, 3]]


LIES: list[dict[str, Any]] = [
    {"size": (5,)}, {"size": (-4,)}, {"size": (4, 4), "stride": (4, 1)}, {"size": ("4",)}, {"stride": (2,)},
    {"stride": (2**63,)}, {"offset": 1}, {"offset": -1}, {"kind": "DoubleStorage"}, {"key": "1"}, {"numel": 5},
    {"numel": -1}, {"key": 0}, {"size": 4}, {"size": None}, {"flag": 1}, {"stride": ()}, {"size": (2**40,)},
    {"size": (2**40, 2**40), "stride": (0, 0)}, {"key": "../0"}, {"kind": "LongStorage", "flag": True},
    {"kind": "BoolStorage", "size": (16,), "numel": 16},
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_records_that_lie(lie: dict[str, Any]) -> None:
    """They are refused before memory is taken."""
    file = _tensor_file(**lie)
    tracemalloc.start()
    try:
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            jitgrad.load(file)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_files_of_other_kinds(tmp_path: Path) -> None:
    path = tmp_path / "old.pt"
    torch.save(torch.ones(2), path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="cannot be mapped"):
        jitgrad.load(path, mmap=True)
    path.write_bytes(bytes(257) + b"ustar" + bytes(250))
    with pytest.raises(RuntimeError, match=r"old\.pt is in the format of PyTorch before 0\.1\.10"):
        jitgrad.load(path)
    path.write_bytes((40).to_bytes(8, "little") + b'{"__metadata__":{}}')
    with pytest.raises(RuntimeError, match="is a safetensors file"):
        jitgrad.load(path)
    with pytest.raises(ValueError, match="mmap"):
        jitgrad.load(io.BytesIO(), mmap=True)
    with pytest.raises(ValueError, match="pickle_module"):
        jitgrad.load(path, pickle_module=os)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a/data.pkl", b"")
        archive.writestr("a/constants.pkl", b"")
    with pytest.raises(RuntimeError, match="TorchScript"):
        jitgrad.load(out)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\0" * 10_000)
    with pytest.raises(RuntimeError, match="is compressed"):
        jitgrad.load(out)


def test_dtypes_that_are_not_there_are_named() -> None:
    file = io.BytesIO()
    torch.save(torch.ones(2).to(torch.float8_e5m2), file)
    with pytest.raises(pickle.UnpicklingError, match="float8_e5m2"):
        jitgrad.load(file)


def test_the_other_order_of_bytes() -> None:
    file, out = io.BytesIO(), io.BytesIO()
    torch.save([torch.tensor([1.5, -2.0]), torch.tensor([3])], file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            elif "/data/" in name:
                data = np.frombuffer(data, "<u8" if name.endswith("1") else "<u4").byteswap().tobytes()
            new.writestr(name, data)
    loaded = jitgrad.load(out)
    assert [x.tolist() for x in loaded] == [[1.5, -2.0], [3]]


_WHOLE = io.BytesIO()
_TENSORS = {"a": torch.arange(6).reshape(2, 3).t(), "b": [torch.tensor([True, False]), 1]}
torch.save({**_TENSORS, "c": OrderedDict(x=1.5)}, _WHOLE)


@settings(FEW, max_examples=300)
@given(
    position=st.integers(0, 4000), byte=st.integers(0, 255), cut=st.booleans(), in_pickle=st.booleans()
)
def test_damage_never_does_worse_than_an_error(position: int, byte: int, cut: bool, in_pickle: bool) -> None:
    """Also where the damage is in the pickle, and the archive's checksums are right."""
    data = bytearray(_WHOLE.getvalue())
    if in_pickle:
        with zipfile.ZipFile(_WHOLE) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = next(name for name in members if name.endswith("data.pkl"))
        data = bytearray(members[name])
    position %= len(data)
    if cut:
        del data[position:]
    else:
        data[position] = byte
    if in_pickle:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for member, content in {**members, name: bytes(data)}.items():
                archive.writestr(member, content)
        data = bytearray(out.getvalue())
    try:
        loaded = jitgrad.load(io.BytesIO(bytes(data)))
    except (RuntimeError, NotImplementedError, pickle.UnpicklingError):
        return
    str(loaded)  # whatever it is, it can be looked at
