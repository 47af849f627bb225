"""In-place methods whose operands are the target itself: what is read is what was there before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiled import native_eager
from jitgrad.config import EAGER_KERNELS
from tests.eager_bounds import eager_kernels_from

METHODS = sorted(n for n in dir(jg.Tensor) if n.endswith("_") and not n.startswith("_"))


@pytest.fixture(params=[EAGER_KERNELS, 0, -1], ids=["usual", "kernels", "numpy"])
def some_kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    native_eager.install()
    with eager_kernels_from(request.param):
        yield


def _written(name: str, count: int, is_target: bool) -> Any:
    x = jg.tensor((np.random.default_rng(0).random((24, 24)) * 0.5 + 0.2).astype(np.float32))
    operands = [x if is_target else x.clone() for _ in range(count)]
    jg.manual_seed(0)
    getattr(x, name)(*operands)
    return x.numpy().copy()


def _methods_that_take(count: int) -> list[str]:
    """Those that accept so many matrices; some draw, and some take numbers only."""
    found = []
    for name in METHODS:
        try:
            _written(name, count, is_target=False)
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, NotImplementedError):
            continue
        found.append(name)
    return found


@pytest.mark.parametrize("count", [1, 2])
def test_operands_that_are_the_target(some_kernels: None, count: int) -> None:
    names = _methods_that_take(count)
    assert {1: "add_", 2: "addmm_"}[count] in names
    for name in names:
        want = _written(name, count, is_target=False)
        for _ in range(3):
            np.testing.assert_allclose(_written(name, count, is_target=True), want, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("n", [3, 16, 40, 130])
def test_a_product_of_the_target_with_itself(some_kernels: None, n: int) -> None:
    a = np.random.default_rng(n).standard_normal((n, n)).astype(np.float32) / np.float32(n) ** 0.5
    compiled = jg.compile(lambda x: x.addmm_(x, x))
    for write in (lambda x: x.addmm_(x, x), lambda x: x[None].baddbmm_(x[None], x[None]), compiled):
        for _ in range(3):
            x = jg.tensor(a)
            write(x)
            np.testing.assert_allclose(x.numpy(), a + a @ a, rtol=1e-3, atol=1e-4)
