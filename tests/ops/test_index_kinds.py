"""Every kind of index, alone and mixed, read and assigned, against PyTorch: values, gradients, versions, exceptions.

    python tests/ops/test_index_kinds.py 5000      # that many random indices
"""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from modes import MODES, Mode

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

_VALUES = np.arange(60.0).reshape(3, 4, 5)
_NOT_COMPARED = frozenset({"uint8", "floats", "text"})
"""PyTorch reads these by rules older than it; here they are errors."""


def indices(lib: Any) -> dict[str, Any]:
    """One of each kind."""
    return {
        "int": 1, "negative": -1, "NumPy int": np.int64(1), "slice": slice(0, 2), "steps": slice(None, None, 2),
        "negative slice": slice(-2, None), "empty": slice(2, 1), "far": slice(-100, 100), "None": None,
        "...": Ellipsis, "True": True, "False": False, "NumPy bool": np.bool_(True), "0-d": lib.tensor(1),
        "0-d true": lib.tensor(True), "0-d false": lib.tensor(False), "vector": lib.tensor([0, 1]),
        "negatives": lib.tensor([-1, 0, 1]), "int32": lib.tensor([0, 1], dtype=lib.int32), "list": [0, 1],
        "short list": [1], "array": np.array([1, 0]), "column": np.array([[1], [0]]), "0-d array": np.array(1),
        "range": range(2), "empty list": [], "empty tensor": lib.tensor([], dtype=lib.int64),
        "mask": lib.tensor([True, False, True]), "2-d mask": lib.tensor(_VALUES[:, :, 0] > 17),
        "whole mask": lib.tensor(_VALUES > 20), "NumPy mask": np.array([True, False, True]),
        "list of bools": [True, False, True], "wrong mask": lib.tensor([True, False]), "tuple": (0, 1),
        "list of lists": [[0, 1], [1, 0]], "list of tensors": [lib.tensor(0), lib.tensor(1)],
        "list of slices": [slice(0, 1)], "float": 1.5, "float tensor": lib.tensor([1.0]), "beyond": 7,
        "beyond in tensor": lib.tensor([9]), "step 0": slice(None, None, 0), "step -1": slice(None, None, -1),
        "slice of tensors": slice(lib.tensor(1), None), "slice of floats": slice(0.5, 2), "object": object(),
        "uint8": np.array([1, 0], dtype=np.uint8), "floats": np.array([1.0]), "text": "a",
    }  # fmt: skip


_ASSIGNED = ("number", "int", "bool", "0-d", "one", "row", "wrong", "list", "array", "None", "long")


def _value(lib: Any, name: str) -> Any:
    double = {"dtype": lib.float64}
    return {
        "number": 7.0, "int": 3, "bool": True, "0-d": lib.tensor(2.5, **double, requires_grad=True),
        "one": lib.tensor([1.5]), "row": lib.tensor([1.0, 2.0, 3.0, 4.0, 5.0], **double),
        "wrong": lib.tensor([1.0] * 7, **double), "list": [1.0], "array": np.array(4.0), "None": None,
        "long": lib.tensor(3),
    }[name]  # fmt: skip


def _plain(x: Any) -> Any:
    return None if x is None else np.array(x.detach().numpy()).tolist()


def outcome(lib: Any, keys: tuple[str, ...], value: str, mode: Mode | None = None, dtype: str = "") -> Any:
    """What reading (no value) or assigning does; of an exception, its type. With ``dtype`` there is no graph."""
    if dtype:
        return _outcome_of_dtype(lib, keys, value, dtype)
    x = lib.tensor(_VALUES).requires_grad_()
    chosen = [indices(lib)[key] for key in keys]
    index = tuple(chosen) if len(chosen) > 1 else chosen[0]
    source = _value(lib, value) if value else None

    def step(x: Any) -> Any:
        if not value:
            out = x[index]
            out.sum().backward()
            return out.detach(), None
        out = x * 1
        out[index] = source
        (out * out).sum().backward()
        return out.detach(), out._version

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lists that are read as tuples are deprecated
            out, version = step(x) if mode is None else mode.wrap(step)(x)
        return [list(out.shape), _plain(out), _plain(x.grad), version, _plain(getattr(source, "grad", None))]
    except Exception as error:
        return type(error).__name__


def _outcome_of_dtype(lib: Any, keys: tuple[str, ...], value: str, dtype: str) -> Any:
    """``outcome`` outside any graph."""
    x = lib.tensor(_VALUES).to(getattr(lib, dtype))
    chosen = [indices(lib)[key] for key in keys]
    index = tuple(chosen) if len(chosen) > 1 else chosen[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not value:
                out = x[index]
                return [list(out.shape), str(out.dtype).split(".")[1], out.tolist()]
            source = _value(lib, value)
            if isinstance(source, lib.Tensor):
                source = source.detach().to(x.dtype) if keys[0] != "vector" else source.detach()
            x[index] = source
        return [x.tolist(), x._version]
    except Exception as error:
        return [type(error).__name__, x.tolist(), x._version] if dtype else type(error).__name__


def cases(seed: int, count: int) -> list[tuple[tuple[str, ...], str]]:
    """Random indices of one to three items.

    PyTorch takes two ellipses where one number is assigned, and positions that are out of bounds where nothing is read.
    """
    rng = random.Random(seed)
    names = [name for name in indices(torch) if name not in _NOT_COMPARED]
    found = [
        (tuple(rng.choices(names, k=rng.choice((1, 1, 2, 2, 3)))), rng.choice(("", "", *_ASSIGNED)))
        for _ in range(count)
    ]
    odd = {"empty", "beyond in tensor"}
    return [(keys, value) for keys, value in found if keys.count("...") < 2 and not odd <= {*keys}]


def _agree(got: Any, want: Any) -> bool:
    # which of several mistakes is reported is not compared
    if got == want or (isinstance(got, str) and isinstance(want, str)):
        return True
    return all(isinstance(found[0], str) for found in (got, want)) and got[1:] == want[1:]


def check(keys: tuple[str, ...], value: str, mode: Mode | None = None, dtype: str = "") -> str:
    """Empty, or what differs."""
    want, got = outcome(torch, keys, value, None, dtype), outcome(jitgrad, keys, value, mode, dtype)
    return "" if _agree(got, want) else f"{keys} {value!r}: {str(got)[:200]}, PyTorch: {str(want)[:200]}"


@pytest.mark.parametrize("name", sorted(set(indices(torch)) - _NOT_COMPARED))
def test_alone(name: str, mode: Mode) -> None:
    wrong = [w for value in ("", *_ASSIGNED) if (w := check((name,), value, mode))]
    assert not wrong


@pytest.mark.parametrize("name", sorted(set(indices(torch)) - _NOT_COMPARED))
def test_errors_alone_have_the_same_type(name: str) -> None:
    for value in ("", "number", "wrong"):
        want = outcome(torch, (name,), value)
        if isinstance(want, str):
            assert outcome(jitgrad, (name,), value) == want


def test_a_list_that_is_read_as_a_tuple_warns() -> None:
    with pytest.warns(UserWarning, match="non-tuple sequence") as caught:
        out = jitgrad.tensor(_VALUES)[[[0, 1], [1, 0]]]
    assert out.shape == (2, 5)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("block", range(4))
def test_mixed(block: int) -> None:
    wrong = [w for case in cases(block, 250) if (w := check(*case))]
    assert not wrong


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("block", range(4))
def test_mixed_without_a_graph(block: int) -> None:
    dtype = ("float64", "float32", "int64", "bool")[block]
    wrong = [w for case in cases(50 + block, 300) if (w := check(*case, dtype=dtype))]
    assert not wrong


@pytest.mark.usefixtures("form")
def test_indices_that_numpy_reads_otherwise() -> None:
    """An int beside positions puts dimensions elsewhere, and bytes are a mask."""
    for turn in range(3):
        found = []
        for lib in (jitgrad, torch):
            x, at = lib.zeros(3, 2, 5), lib.tensor([0, 1])
            x[turn, :, at] = lib.tensor([[1.0, 2.0], [3.0, 4.0]])
            x[:, turn % 2, at] = lib.tensor([[5.0, 6.0], [7.0, 8.0], [9.0, 1.0]])
            rows = lib.zeros(3, 2)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows[lib.tensor([1, 0, 1], dtype=lib.uint8)] = lib.tensor([[4.0, 5.0], [6.0, 7.0]])
            found.append((x.tolist(), rows.tolist()))
        assert found[0] == found[1]


@pytest.mark.parametrize("name", ["cold", "warm"])
def test_mixed_and_compiled(name: str) -> None:
    wrong = [w for case in cases(99, 60) if (w := check(*case, MODES[name]))]
    assert not wrong


if __name__ == "__main__":
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    dtype = sys.argv[3] if len(sys.argv) > 3 else ""
    found = [w for case in cases(seed, count) if (w := check(*case, dtype=dtype))]
    print(*found[:10], f"{len(found)} of {sys.argv[1]} differ", sep="\n")
