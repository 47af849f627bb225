"""Keywords that few calls have: ``sparse_grad``, ``masked_grad``, ``from``; as PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad as jg

torch = pytest.importorskip("torch", reason="compares with torch")


@pytest.mark.parametrize(("shape", "dim"), [((3, 4), 1), ((3, 4), 0), ((5,), 0), ((2, 3, 4), -2)])
def test_gather_with_a_sparse_gradient(mode: Mode, shape: tuple[int, ...], dim: int) -> None:
    def step(lib: Any, x: Any, index: Any) -> Any:
        x.gather(dim, index, sparse_grad=True).pow(2).sum().backward()
        return x.grad

    def given(lib: Any) -> tuple[Any, Any]:
        numbers = np.random.default_rng(0).normal(size=shape)
        index = lib.tensor(np.zeros(tuple(min(n, 2) for n in shape), np.int64))
        return lib.tensor(numbers, requires_grad=True), index

    got, want = mode.run(lambda *args: step(jg, *args), lambda: given(jg)), step(torch, *given(torch))
    assert got.is_sparse and want.is_sparse
    np.testing.assert_array_equal(got._indices().numpy(), want._indices().numpy())
    np.testing.assert_allclose(got.to_dense().numpy(), want.to_dense().numpy())


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_to_dense_takes_masked_grad() -> None:
    for lib in (jg, torch):
        values = lib.tensor([3.0, 4.0], requires_grad=True)
        sparse = lib.sparse_coo_tensor(lib.tensor([[0, 1], [2, 0]]), values, (2, 3))
        sparse.to_dense(masked_grad=True).sum().backward()
        assert values.grad.tolist() == [1.0, 1.0]
        assert lib.ones(2).to_dense(lib.float64, masked_grad=False).dtype is lib.float64


@pytest.mark.parametrize(
    ("name", "keywords"),
    [
        ("uniform_", {"from": 2.0, "to": 3.0}), ("uniform_", {"from": -1.0}), ("uniform_", {"to": 5.0}),
        ("random_", {"from": 2, "to": 30}), ("random_", {"to": 30}), ("random_", {"from": 2, "to": None}),
    ],
)  # fmt: skip
def test_from_is_a_keyword(name: str, keywords: dict[str, Any]) -> None:
    found = []
    for lib in (jg, torch):
        lib.manual_seed(0)
        found.append(getattr(lib.empty(4), name)(**keywords).tolist())
    assert found[0] == found[1]
