"""Files of safetensors: what the package writes for NumPy and PyTorch is read, and the other way round."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import safetensors as ours

library = pytest.importorskip("safetensors")


def _tensors() -> dict[str, Any]:
    return {
        "weight": jitgrad.arange(6.0).reshape(2, 3),
        "bias": jitgrad.tensor([True, False]),
        "count": jitgrad.tensor(7),
        "double": jitgrad.ones(0, 2, dtype=jitgrad.float64),
        "leaf": jitgrad.ones(2, requires_grad=True),
    }


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    ours.save_file(_tensors(), path, metadata={"format": "pt"})
    with library.safe_open(str(path), framework="numpy") as file:
        assert file.metadata() == {"format": "pt"}
        assert file.get_tensor("weight").tolist() == [[0, 1, 2], [3, 4, 5]]
    for loaded in (ours.load_file(path), ours.load(path.read_bytes()), ours.load(ours.save(_tensors()))):
        assert loaded.keys() == _tensors().keys()
        for name, tensor in _tensors().items():
            twin = loaded[name]
            assert (twin.dtype, twin.shape, twin.tolist()) == (tensor.dtype, tensor.shape, tensor.tolist())
            assert not twin.requires_grad
        loaded["weight"].mul_(2)
    assert {str(x.device) for x in ours.load_file(path, device="vcpu:0").values()} == {"vcpu:0"}


def test_the_files_are_pytorchs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("safetensors.torch")
    path = tmp_path / "model.safetensors"
    model, other = jitgrad.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    ours.save_file(model.state_dict(), path)
    other.load_state_dict(theirs.load_file(path))
    assert other.weight.tolist() == model.weight.tolist()
    theirs.save_file({"x": torch.arange(3), "y": torch.tensor([[1.5]])}, path)
    assert {name: x.tolist() for name, x in ours.load_file(path).items()} == {"x": [0, 1, 2], "y": [[1.5]]}


def test_what_is_refused(tmp_path: Path) -> None:
    x = jitgrad.arange(6.0).reshape(2, 3)
    with pytest.raises(ValueError, match="non contiguous tensor: `t`"):
        ours.save({"t": x.t()})
    with pytest.raises(RuntimeError, match=r"share memory.*'a', 'b'"):
        ours.save({"a": x, "b": x[:1]})
    with pytest.raises(ValueError, match="sparse"):
        ours.save({"a": jitgrad.eye(2).to_sparse()})
    with pytest.raises(ValueError, match="Key `a` is invalid"):
        ours.save({"a": np.ones(2)})
    with pytest.raises(ValueError, match="Expected a dict"):
        ours.save([x])  # type: ignore[arg-type]
    path = tmp_path / "damaged"
    path.write_bytes(ours.save({"a": x})[:-4])
    with pytest.raises(library.SafetensorError):
        ours.load_file(path)


def test_the_package_is_named_if_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install jitgrad\[safetensors\]"):
        ours.save({"a": jitgrad.ones(1)})
