"""Note [Shared panels]: which operands are laid out once, what the kernels make of them, and that no bit changes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.gemm import Operand, StoreEpilogue, gemm_launch, panel_columns, panels_spec
from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.codegen.primitives.panels import SHARED, share_panels
from jitgrad.codegen.primitives.simplify import topological
from jitgrad.dtypes import float32, float64
from jitgrad.events import count
from jitgrad.ops.aval import make_aval
from tests.codegen import gemm_jit
from tests.codegen.interpreter import Case, evaluate

STEPS, ROWS, WIDTH = 5, 7, 96


def array(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(1).standard_normal(shape) / math.sqrt(shape[-1])).astype(dtype)


def loop(b: Builder, h: Value, u: Value, steps: int = STEPS, is_transposed: bool = False) -> Value:
    """Products that wait for each other."""
    for _ in range(steps):
        h = b.tanh(b.matmul(h, b.permute(u, (1, 0)) if is_transposed else u))
    return h


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values(dtype: Any, is_transposed: bool) -> None:
    with count("shared_panels") as shared:
        case = Case(
            lambda b, h, u: loop(b, h, u, STEPS, is_transposed),
            [array(ROWS, WIDTH, dtype=dtype), array(WIDTH, WIDTH, dtype=dtype)],
        )
    assert shared() == (STEPS if panel_columns(float32, ROWS, WIDTH, WIDTH, host_target()) else 0)
    case.check()


def test_no_bit_changes() -> None:
    h, u = array(ROWS, WIDTH), array(WIDTH, WIDTH)
    (whole,) = Case(loop, [h, u]).run()[0]
    for _ in range(STEPS):
        (h,) = Case(lambda b, h, u: loop(b, h, u, 1), [h, u]).run()[0]
    np.testing.assert_array_equal(whole, h)


@pytest.mark.parametrize(
    "rows,width,steps,expected",
    [
        pytest.param(ROWS, WIDTH, STEPS, STEPS, id="shared"),
        pytest.param(4, WIDTH, STEPS, 0, id="few rows"),
        pytest.param(100, WIDTH, STEPS, 0, id="many rows"),
        pytest.param(ROWS, 64, STEPS, 0, id="a small operand"),
        pytest.param(ROWS, WIDTH, 3, 0, id="few products"),
    ],
)
def test_what_is_shared(rows: int, width: int, steps: int, expected: int) -> None:
    b, applied = Builder(), Counter[str]()
    h, u = (b.input(n, make_aval(shape, float32)) for n, shape in enumerate(((rows, width), (width, width))))
    before = [loop(b, h, u, steps)]
    after = share_panels(before, b, lambda *_: 32, applied)
    assert applied[SHARED] == expected
    assert sum(v.op == "panels" for v in topological(after)) == (1 if expected else 0)
    inputs = {0: array(rows, width), 1: array(width, width)}
    np.testing.assert_array_equal(evaluate(after, inputs)[0], evaluate(before, inputs)[0])


def test_an_operand_that_no_panels_fit_stays() -> None:
    assert panel_columns(float32, ROWS, 97, WIDTH, host_target()) == 0
    Case(loop, [array(ROWS, 97), array(97, 97)]).check()


@pytest.mark.parametrize("target", gemm_jit.targets(), ids=lambda t: t.cpu)
@pytest.mark.parametrize("dtype", [float32, float64])
def test_kernels_of_each_target(target: Target, dtype: Any) -> None:
    """The product is NumPy's to rounding, and that of the usual kernel to the bit."""
    for m, k, n in itertools.product((5, 20, 33), (1, 40), (96, 320)):
        columns = panel_columns(dtype, m, n, k, target)
        if not columns:
            assert target.width == 1
            continue
        a, w = array(1, m, k, dtype=dtype.np), array(1, k, n, dtype=dtype.np)
        usual, out = np.zeros((1, m, n), dtype.np), np.zeros((1, m, n), dtype.np)
        gemm_jit.multiply(a, w, usual, target)
        panels = np.ascontiguousarray(w[0].reshape(k, n // columns, columns).transpose(1, 0, 2))
        spec = panels_spec(dtype, m, n, k, columns, "store", target)
        epilogue = StoreEpilogue(spec.dtype_name)
        words, units, _, _ = gemm_launch(
            spec, m, n, k, 1, Operand(1, 0, gemm_jit.strides_of(a)), Operand(2, 0, (0, columns, k)),
            epilogue.args(3, 0, 0, n),
        )  # fmt: skip
        gemm_jit.run_units(gemm_jit.store_kernel(spec, target), words, [a, panels, out], (0, units))
        np.testing.assert_array_equal(out, usual)
        np.testing.assert_allclose(out[0], a[0] @ w[0], rtol=1e-4, atol=1e-5)
