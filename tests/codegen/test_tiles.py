"""Kernels whose result's rows are an operand's columns, see Note [Tiles]."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interpreter import Case

from jitgrad.codegen.llvm.target import host_target, target_for
from jitgrad.dtypes import float32

RNG = np.random.default_rng(0)
SHAPES = [
    ((17, 33), (1, 0)),
    ((8, 8), (1, 0)),
    ((100, 16), (1, 0)),
    ((64, 1024), (1, 0)),
    ((3, 17, 40), (0, 2, 1)),
    ((5, 9, 16, 31), (0, 2, 3, 1)),
    ((2, 37, 5, 64), (3, 1, 2, 0)),
]


def made(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return (RNG.standard_normal(shape) * 100).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.bool_])
@pytest.mark.parametrize(("shape", "order"), SHAPES)
def test_permuted_copies_and_sums(shape: tuple[int, ...], order: tuple[int, ...], dtype: Any) -> None:
    def lower(b: Any, x: Any, y: Any) -> Any:
        turned = b.permute(x, order)
        return turned if dtype is np.bool_ else (turned, b.add(turned, b.mul(y, 2)))

    Case(lower, [made(shape, dtype), made(tuple(shape[d] for d in order), dtype)]).check()


def test_parts_and_borders_of_a_transpose() -> None:
    def lower(b: Any, x: Any) -> Any:
        part = b.slice(x, (3, 5), (40, 61), (1, 2))
        return b.pad(b.permute(part, (1, 0)), (2, 1), (0, 3))

    Case(lower, [made((43, 70), np.float32)]).check()


def test_two_operands_of_different_layouts() -> None:
    def lower(b: Any, x: Any, y: Any, z: Any) -> Any:
        return b.add(b.mul(b.permute(x, (1, 0)), y), b.cast(b.permute(z, (1, 0)), float32))

    Case(lower, [made((40, 50), np.float32), made((50, 40), np.float32), made((40, 50), np.float64)]).check()


@pytest.mark.skipif(host_target().width < 8, reason="this machine's vectors are too short for tiles")
def test_a_transpose_is_tiled() -> None:
    case = Case(lambda b, x: b.exp(b.permute(x, (1, 0))), [made((64, 100), np.float32) / 100]).check()
    assert [name[:5] for name in case.program.kernel_names] == ["tile_"]


_OTHER_TARGET = """
import jitgrad, numpy as np
rng = np.random.default_rng(0)
step = jitgrad.compile(lambda x, y: x.permute(0, 2, 1) * 2 + y)
for shape in ((3, 17, 40), (1, 64, 9), (2, 8, 8)):
    for dtype in (np.float32, np.float64, np.int64):
        x, y = ((rng.standard_normal(s) * 9).astype(dtype) for s in (shape, (shape[0], shape[2], shape[1])))
        for _ in range(3):
            found = step(jitgrad.from_numpy(x), jitgrad.from_numpy(y)).numpy()
        np.testing.assert_array_equal(found, x.transpose(0, 2, 1) * 2 + y)
"""


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
def test_other_vector_lengths(cpu: str, tmp_path: Path) -> None:
    try:
        target_for(cpu)
    except ValueError:
        pytest.skip("this machine has no such level")
    env = {**os.environ, "JITGRAD_CPU": cpu, "JITGRAD_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", _OTHER_TARGET], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
