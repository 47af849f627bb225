"""Files that contradict themselves: a sample of ``python -m tests.utils.file_fuzz``, and what it was written for."""

from __future__ import annotations

import io
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.utils.file_fuzz import BUDGET_NBYTES, REFUSALS, as_file, attack, is_in_budget, records_of, saved


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_a_sample_of_changed_files_loads_or_is_refused() -> None:
    counts, lines = attack(400, 5)
    assert not lines
    assert counts["loaded"] + counts["refused"] == counts["tried"] == 400
    assert counts["loaded"] > 40 and counts["refused"] > 40


def test_whole_files_load() -> None:
    for records in saved():
        jitgrad.load(io.BytesIO(as_file(records)))


def _key_error() -> None:
    raise KeyError("inside")


@pytest.mark.parametrize(
    ("load", "wrong"),
    [
        (_key_error, "an internal error: KeyError"),
        (lambda: np.ones(BUDGET_NBYTES), "bytes of memory for a file of 10"),
        (lambda: jitgrad.Tensor, ""),
    ],
)
def test_the_budget_is_looked_at(_traced: None, load: Callable[[], Any], wrong: str) -> None:
    found = is_in_budget(load, 10)[1]
    assert wrong in found and bool(wrong) == bool(found)


@pytest.mark.parametrize("header", ["(6,, ", "{'descr': '<f8'", "{'a': (", "'''", "((((" * 60, "\\"])
def test_the_header_of_an_array_that_is_no_python(header: str) -> None:
    records = saved()[-1]
    text = header.encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + np.arange(6.0).tobytes()
    with pytest.raises(REFUSALS, match="is not a whole file"):
        jitgrad.load(io.BytesIO(as_file({**records, "storages/0.npy": data})))


def test_a_sparse_tensor_of_few_bytes_does_not_ask_for_many(_traced: None) -> None:
    """Its indices and values are one number each, repeated 2**28 times by a stride of 0."""
    one = jitgrad.sparse_coo_tensor(jitgrad.tensor([[1]]), jitgrad.tensor([1.5]), (3,))
    records = records_of(one)
    (name,) = (n for n in records if n.endswith(".pkl"))
    many, data = b"J" + struct.pack("<i", 2**28), records[name]
    changed = data.replace(b"K\x01K\x01\x86", b"K\x01" + many + b"\x86", 1).replace(b"K\x01K\x01\x86", b"K\0K\0\x86", 1)
    changed = changed.replace(b"K\x01\x85", many + b"\x85", 1).replace(b"K\x01\x85", b"K\0\x85", 1)
    assert changed.count(many) == 2
    file = as_file({**records, name: changed})
    assert is_in_budget(lambda: jitgrad.load(io.BytesIO(file)), len(file)) == ("refused", "")
    with pytest.raises(RuntimeError, match="longer than its storage"):
        jitgrad.load(io.BytesIO(file))
