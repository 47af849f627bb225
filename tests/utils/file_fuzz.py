"""Files that contradict themselves: ``python -m tests.utils.file_fuzz`` changes whole ones by structure and loads them.

What is changed is not a byte here and there, which a checksum finds, but an operation of a pickle, a number or string
in it, a value of the JSON or the header of an array: checksums and lengths are made right again. A file must load, or
be refused with one of ``REFUSALS``; it may take no more memory than ``BUDGET_NBYTES`` beyond its own size, and, where
the tool is run by hand, no more than ``BUDGET_S`` of processor time.

    python -m tests.utils.file_fuzz --count 20000 --seed 1     # prints how many were tried, loaded, refused
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import pickle
import pickletools
import random
import struct
import sys
import time
import tracemalloc
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgrad
from jitgrad.runtime.storage.memory import free_lists

__all__ = ["BUDGET_NBYTES", "REFUSALS", "as_file", "attack", "is_in_budget", "records_of", "saved"]

REFUSALS = (RuntimeError, NotImplementedError, pickle.UnpicklingError)
BUDGET_NBYTES = 64 << 20
BUDGET_S = 5.0

_NUMBERS = (
    0, 1, 2, 3, 7, 8, 255, 2**16, 2**28, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, -1, -2, -(2**63),
)  # fmt: skip
_STRINGS = (
    "", "0", "1", "cpu", "meta", "vcpu:0", "vcpu:99", "cuda:0", "float32", "int64", "torch", "FloatStorage",
    "LongStorage", "BoolStorage", "builtins", "eval", "os", "system", "collections", "OrderedDict",
    "_rebuild_tensor_v2", "storage", "torch._utils", "_rebuild_sparse_tensor",
    "_rebuild_parameter", "a/../b", "\0", "\ud7ff", "x" * 300,
)  # fmt: skip


def _objects() -> list[Any]:
    sparse = jitgrad.sparse_coo_tensor(jitgrad.tensor([[0, 2], [1, 0]]), jitgrad.tensor([1.5, -2.0]), (3, 2))
    model = jitgrad.nn.Linear(3, 2)
    optimizer = jitgrad.optim.Adam(model.parameters())
    model(jitgrad.ones(3)).sum().backward()
    optimizer.step()
    x = jitgrad.arange(6).reshape(2, 3)
    return [
        {"a": x.t(), "b": [x[1:], True, 1.5, "text"], "c": jitgrad.tensor([True, False])},
        sparse,
        OrderedDict(model=model.state_dict(), optimizer=optimizer.state_dict()),
        model,
        (jitgrad.ones(2, dtype=jitgrad.bfloat16), jitgrad.nn.Parameter(jitgrad.ones(2)), jitgrad.float16, None),
    ]


def records_of(item: Any) -> dict[str, bytes]:
    """The records of the file that ``save`` writes, by name."""
    file = io.BytesIO()
    jitgrad.save(item, file)
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def saved() -> list[dict[str, bytes]]:
    """Whole files as their records: as ``save`` writes them, and one of the first format."""
    return [*map(records_of, _objects()), _first_format()]


def _first_format() -> dict[str, bytes]:
    file = io.BytesIO()
    np.save(file, np.arange(6.0))
    tensor = {
        "class": "Tensor", "dtype": "float64", "device": "cpu", "requires_grad": False, "storage": 0, "offset": 1,
        "shape": [2, 2], "stride": [2, 1],
    }  # fmt: skip
    index = {"version": 1, "tensors": [tensor], "root": ["dict", [["x", ["tensor", 0]], ["y", ["list", [1, 2.5]]]]]}
    return {"jitgrad.json": json.dumps(index).encode(), "storages/0.npy": file.getvalue()}


def as_file(records: dict[str, bytes]) -> bytes:
    """An archive of records, with the right checksums."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    return out.getvalue()


# --- one change ---


def _changed_pickle(data: bytes, rng: random.Random) -> bytes:
    """An operation left out, repeated, exchanged, or with another argument."""
    places = [at for _, _, at in pickletools.genops(data)]
    parts = [data[a:b] for a, b in zip(places, [*places[1:], len(data)], strict=True)]
    nr = rng.randrange(len(parts))
    opcode = pickletools.code2op[parts[nr][:1].decode("latin1")].name
    way = rng.randrange(5)
    if way < 2 and opcode.startswith(("BININT", "LONG")):
        parts[nr] = pickle.dumps(rng.choice(_NUMBERS), 2)[2:-1]
    elif way < 2 and opcode == "BINUNICODE":
        parts[nr] = b"X" + struct.pack("<I", len(text := rng.choice(_STRINGS).encode())) + text
    elif way < 2 and opcode == "GLOBAL":
        parts[nr] = b"c" + "\n".join([rng.choice(_STRINGS[9:]), rng.choice(_STRINGS[9:]), ""]).encode()
    elif way == 2:
        del parts[nr]
    elif way == 3:
        parts[nr:nr] = [parts[nr]] * rng.randrange(1, 40)
    else:
        parts[nr] = rng.choice([rng.choice(parts), rng.choice([b"2", b"0", b"1", b"\x85", b"\x86", b"R", b"b"])])
    return b"".join(parts)


def _changed_value(value: Any, rng: random.Random) -> Any:
    """Something of JSON, one part of it replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        return {**value, name: _changed_value(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        nr = rng.randrange(len(value))
        return [*value[:nr], _changed_value(value[nr], rng), *value[nr + 1 :]]
    return rng.choice([*_NUMBERS, *_STRINGS, None, True, 0.5, [], {}, [2**28], ["tensor", 0]])


def _changed_array(data: bytes, rng: random.Random) -> bytes:
    """A file of NumPy's with other text in its header, whose length stays right."""
    text = data[10:].split(b"\n")[0].decode("latin1").rstrip()
    rest = data[10:].split(b"\n", 1)[1]
    at = rng.randrange(len(text))
    cuts = [text[:at], text[:at] + rng.choice("()[]{},'\\\"#\0") + text[at:]]
    cuts.append(text.replace("6", str(rng.choice(_NUMBERS))))
    kinds = [text.replace("<f8", kind) for kind in ("<f4", ">f8", "|O", "<U9", "<c16", "|V8", "<M8", "f8,f8", "")]
    head = rng.choice([*cuts, *kinds, "(" * 90 + ")" * 90]).encode("latin1") + b"\n"
    return data[:8] + struct.pack("<H", len(head)) + head + rest


def _change(records: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    """One change to a file."""
    name = rng.choice(list(records) + [n for n in records if n.endswith((".pkl", ".json"))] * 8)
    data = records[name]
    if rng.random() < 0.05:
        return {n: d for n, d in records.items() if n != name}
    if name.endswith(".pkl"):
        return {**records, name: _changed_pickle(data, rng)}
    if name.endswith(".json"):
        return {**records, name: json.dumps(_changed_value(json.loads(data), rng)).encode()}
    if name.endswith(".npy"):
        return {**records, name: _changed_array(data, rng)}
    return {**records, name: data[: rng.randrange(len(data) + 1)] + rng.choice([b"", b"big", b"\xff" * 9])}


# --- the budget ---


def is_in_budget(load: Callable[[], Any], nbytes: int, limit_s: float = math.inf) -> tuple[str, str]:
    """(``loaded`` or ``refused``, what went wrong or nothing) of loading a file of ``nbytes``."""
    taken, allocate = [0], free_lists.allocate

    def counted(size: int) -> int:
        taken[0] = max(taken[0], size)
        return allocate(size) if size <= BUDGET_NBYTES else 0

    free_lists.allocate = counted
    tracemalloc.reset_peak()
    before, start = tracemalloc.get_traced_memory()[0], time.process_time()
    try:
        load()
        outcome = "loaded"
    except REFUSALS:
        outcome = "refused"
    except Exception as error:
        return "refused", f"an internal error: {error!r}"
    finally:
        free_lists.allocate = allocate
    peak = max(tracemalloc.get_traced_memory()[1] - before, taken[0])
    if peak > BUDGET_NBYTES + 16 * nbytes:
        return outcome, f"{peak} bytes of memory for a file of {nbytes}"
    took = time.process_time() - start
    return outcome, f"{took:.1f} s" if took > limit_s else ""


def attack(count: int, seed: int, limit_s: float = math.inf) -> tuple[Counter[str], list[str]]:
    """Change and load ``count`` files: how many ended how, and a line for each that broke a rule."""
    rng, files = random.Random(seed), saved()
    counts, lines = Counter[str](tried=count), []
    tracemalloc.start()
    try:
        for nr in range(count):
            records = rng.choice(files)
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                with contextlib.suppress(ValueError, IndexError):  # the part is no pickle or array any more
                    records = _change(records, rng)
            data = as_file(records)
            outcome, wrong = is_in_budget(lambda: jitgrad.load(io.BytesIO(data)), len(data), limit_s)  # noqa: B023
            counts[outcome] += 1
            if wrong:
                lines.append(f"file {nr} of seed {seed}: {wrong}")
    finally:
        tracemalloc.stop()
    return counts, lines


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts, lines = attack(options.count, options.seed, BUDGET_S)
    print(*lines, sep="\n")
    print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
