"""What the program files of ``verify`` call.

Owns: ``arrays``, ``aval``, ``tensor``, ``pickled``, ``compare``.
Must not know: how such files are written.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.checking.array_facts import facts_of
from jitgrad.checking.faults import find_fault
from jitgrad.checking.segment_runs import watch_segments
from jitgrad.compile import CompiledFunction
from jitgrad.config import config
from jitgrad.dtypes import DType
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tensor_base import new_tensor

__all__ = ["arrays", "aval", "compare", "pickled", "tensor"]


def arrays(path: str) -> dict[str, Any]:
    """The arrays beside a program file: the file is closed again."""
    with np.load(Path(path).with_suffix(".npz")) as data:
        return dict(data)


def aval(shape: tuple[int, ...], dtype: DType, stride: tuple[int, ...], offset: int) -> Aval:
    """A layout."""
    return make_aval(shape, dtype, stride, offset)


def tensor(memory: Any, layout: Aval) -> Any:
    """A tensor over a copy of the bytes ``memory``."""
    return new_tensor(layout, Storage.from_array(np.array(memory)))


def pickled(text: str) -> Any:
    """A parameter that has no literal."""
    return pickle.loads(base64.b64decode(text))


def compare(step: Callable[..., Any], inputs: list[Any]) -> bool:
    """Run ``step`` compiled, hold each operation against its NumPy rule, print; returns whether the fault is there."""
    compiled = CompiledFunction(step)
    before, config.same_bits = config.same_bits, True
    try:
        with watch_segments() as runs:
            compiled(*inputs)
    finally:
        config.same_bits = before
    for run in runs:
        fault = find_fault(run)
        if fault is not None:
            print(f"by NumPy's rules  {facts_of(fault.expected)}")
            print(f"by the kernel     {facts_of(fault.found)}")
            print(fault.difference)
            return True
    print("no difference beyond rounding")
    return False
