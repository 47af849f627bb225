"""Files in PyTorch's format before 1.6: read with the same care as those of today."""

from __future__ import annotations

import io
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="PyTorch writes the files")


def _written(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def _read(value: Any, **options: Any) -> Any:
    return jitgrad.load(io.BytesIO(_written(value)), **options)


@pytest.mark.parametrize("dtype", "bool uint8 int64 float16 bfloat16 float32 float64 complex64".split())
def test_elements_of_all_dtypes(dtype: str) -> None:
    x = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    found = _read(x)
    assert found.dtype is getattr(jitgrad, dtype)
    assert found.tolist() == x.tolist()


def test_tensors_that_share_memory_share_it_again() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    found = _read({"x": x, "turned": x.t(), "row": x[1], "twice": [x, x]})
    found["x"][1, 2] = 50
    assert found["turned"][2, 1].item() == found["row"][2].item() == 50
    assert found["twice"][0] is found["twice"][1]


def test_a_model_and_its_optimizer() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()
    found = _read({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3})
    own = jitgrad.nn.Sequential(jitgrad.nn.Linear(3, 2), jitgrad.nn.BatchNorm1d(2))
    own.load_state_dict(found["model"])
    assert found["epoch"] == 3 and isinstance(found["model"], OrderedDict)
    np.testing.assert_array_equal(own[0].weight.detach().numpy(), model[0].weight.detach().numpy())
    mine, theirs = found["optimizer"]["state"][0], optimizer.state_dict()["state"][0]
    np.testing.assert_array_equal(mine["exp_avg"].numpy(), theirs["exp_avg"].numpy())


def test_a_place_for_the_storages() -> None:
    assert str(_read(torch.ones(2), map_location="vcpu:0").device) == "vcpu:0"


def test_a_path(tmp_path: Path) -> None:
    (tmp_path / "old.pt").write_bytes(_written(torch.ones(2)))
    assert jitgrad.load(tmp_path / "old.pt").tolist() == [1, 1]


def test_a_file_that_ends_too_early() -> None:
    whole = _written({"a": torch.arange(100.0), "b": [1, "two"]})
    for length in range(20, len(whole) - 1, 29):
        with pytest.raises((RuntimeError, jitgrad.serialization.pickle.UnpicklingError)):
            jitgrad.load(io.BytesIO(whole[:length]))


def test_a_storage_that_claims_to_be_longer() -> None:
    whole = bytearray(_written(torch.arange(4.0)))
    whole[-24:-16] = (1 << 50).to_bytes(8, "little")
    with pytest.raises(RuntimeError, match="goes beyond the end"):
        jitgrad.load(io.BytesIO(bytes(whole)))


class _Loud:
    def __reduce__(self) -> Any:
        return print, ("this must not be printed",)


def test_no_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(jitgrad.serialization.pickle.UnpicklingError, match="print"):
        _read({"x": torch.ones(2), "loud": _Loud()})
    assert capsys.readouterr().out == ""
