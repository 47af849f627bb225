"""Index expressions and shape functions against PyTorch: values, gradients, and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import functions
from tests.conftest import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

READS: dict[str, Callable[[Any, Any], Any]] = {
    "int": lambda x, t: x[1],
    "negative": lambda x, t: x[-1, :, -2],
    "slice": lambda x, t: x[1:3, ::2],
    "slice-beyond": lambda x, t: x[2:99, -99:3],
    "slice-empty": lambda x, t: x[3:1],
    "none": lambda x, t: x[None, :, None, 1],
    "ellipsis": lambda x, t: x[..., None, 2],
    "ellipsis-middle": lambda x, t: x[-1, ..., -2:],
    "all": lambda x, t: x[:],
    "vector": lambda x, t: x[t.tensor([0, 2, 2])],
    "list": lambda x, t: x[[0, 1], 1],
    "matrix": lambda x, t: x[:, t.tensor([[1, 2, 0], [0, 0, 4]])],
    "adjacent": lambda x, t: x[:, t.tensor([0, 1]), t.tensor([[1], [2]])],
    "apart": lambda x, t: x[t.tensor([0, 2, 3]), :, t.tensor([1, 2, 3])],
    "apart-by-int": lambda x, t: x[t.tensor([0, 2]), :, 3],
    "negative-vector": lambda x, t: x[t.tensor([-1, 0])],
    "zero-d": lambda x, t: x[t.tensor(2), :, t.tensor([1, 2])],
    "mask": lambda x, t: x[x > 0],
    "mask-rows": lambda x, t: x[:, t.tensor([True, False, True, True, False])],
    "mask-and-int": lambda x, t: x[t.tensor([True, False, True, False]), 1],
    "bool": lambda x, t: x[None, 0, True],
    "take-along": lambda x, t: t.take_along_dim(x, t.tensor([[[0], [1], [0], [2], [3]]]), 0),
    "masked-select": lambda x, t: t.masked_select(x, x > 0.5),
    "reshape-transposed": lambda x, t: x.transpose(0, 1).reshape(-1, 3),
    "flatten": lambda x, t: x.flatten(1),
    "unflatten": lambda x, t: x.unflatten(2, (2, -1)),
    "movedim": lambda x, t: x.movedim((0, 2), (1, 0)),
    "chunk": lambda x, t: x.chunk(4, 2)[1],
    "split": lambda x, t: x.split([1, 4], 1)[1],
    "unbind": lambda x, t: x.unbind(1)[2],
    "roll-flat": lambda x, t: x.roll(7),
    "repeat-interleave": lambda x, t: x.repeat_interleave(2, 1),
    "hstack": lambda x, t: t.hstack([x, x * 2]),
    "vstack": lambda x, t: t.vstack([x, x * 2]),
    "matrix-transpose": lambda x, t: x.mT,
    "matmul-batched": lambda x, t: x @ x.transpose(1, 2),
    "matmul-vector": lambda x, t: x @ x[0, 0],
    "matmul-left-vector": lambda x, t: x[0, :, 0] @ x,
    "matmul-folded": lambda x, t: x @ x[0].t(),
    "matmul-broadcast": lambda x, t: x[:, None] @ x.mT,
    "outer": lambda x, t: t.outer(x[0, 0], x[0, :, 0]),
    "linear-3d": lambda x, t: t.nn.functional.linear(x, x[0], x[0, :, 0]),
    "meshgrid": lambda x, t: t.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")[1],
    "einsum": lambda x, t: t.einsum("abc,dbc->ad", x, x),
    "einsum-trace": lambda x, t: t.einsum("ii,jk->k", x[0, :4, :4], x[1]),
    "einsum-implicit": lambda x, t: t.einsum("...ij,jk", x, x[0].t()),
}
WRITES: dict[str, Callable[[Any, Any, Any], None]] = {
    "int": lambda x, v, t: x.__setitem__(1, v[0]),
    "slice": lambda x, v, t: x.__setitem__((slice(1, 3), slice(None, None, 2)), 2.5),
    "broadcast": lambda x, v, t: x.__setitem__((slice(None), 2), v[0, 0]),
    "vector": lambda x, v, t: x.__setitem__(t.tensor([0, 3]), v[:2]),
    "vector-number": lambda x, v, t: x.__setitem__((slice(None), t.tensor([0, 3])), 7.0),
    "mask": lambda x, v, t: x.__setitem__(x > 0, 0.0),
    "mask-rows": lambda x, v, t: x.__setitem__(t.tensor([True, False, True, False]), v[:2]),
    "masked-fill": lambda x, v, t: x.masked_fill_(v > 0, 3.0),
    "index-put": lambda x, v, t: x.index_put_((t.tensor([0, 0]),), v[:2], accumulate=True),
    "index-add": lambda x, v, t: x.index_add_(1, t.tensor([0, 0, 2]), v[:, :3], alpha=2),
    "scatter-add": lambda x, v, t: x.scatter_add_(0, t.zeros(4, 5, 6).long(), v),
    "view-add": lambda x, v, t: x[1:, ::2].add_(v[1:, ::2], alpha=3),
    "copy": lambda x, v, t: x[0].copy_(v[1]),
    "fill": lambda x, v, t: x[:, 1].fill_(2.0),
    "zero": lambda x, v, t: x.select(2, 0).zero_(),
    "clamp": lambda x, v, t: x.clamp_(-0.5, 0.5),
    "tril": lambda x, v, t: x.tril_(),
    "addcmul": lambda x, v, t: x.addcmul_(v, v, value=0.3),
}


class _Library:
    """jitgrad under torch's names."""

    nn = jitgrad.nn

    def __getattr__(self, name: str) -> Any:
        return getattr(functions, name)


def _data() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    return rng.standard_normal((4, 5, 6)), rng.standard_normal((4, 5, 6))


def _weighted(out: Any, make: Any) -> Any:
    return (out * make(np.random.default_rng(6).standard_normal(tuple(out.shape)))).sum()


@pytest.mark.parametrize("name", READS)
def test_read_is_torchs(name: str, mode: Mode) -> None:
    array, _ = _data()

    def step(x: Any) -> Any:
        out = READS[name](x, _Library())
        _weighted(out, lambda a: functions.tensor(a)).backward()
        return out.detach(), x.grad

    def make() -> tuple[Any]:
        return (functions.tensor(array).requires_grad_(),)

    out, grad = mode.run(step, make)
    x = torch.tensor(array, requires_grad=True)
    want = READS[name](x, torch)
    _weighted(want, torch.tensor).backward()
    np.testing.assert_allclose(out.numpy(), want.detach().numpy(), rtol=1e-12)
    assert tuple(out.shape) == tuple(want.shape)
    np.testing.assert_allclose(grad.numpy(), x.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", WRITES)
def test_write_is_torchs(name: str, mode: Mode) -> None:
    array, values = _data()

    def step(x: Any, v: Any) -> Any:
        y = x * 1.0
        WRITES[name](y, v, _Library())
        _weighted(y * y, lambda a: functions.tensor(a)).backward()
        return y.detach(), x.grad, v.grad

    def make() -> tuple[Any, Any]:
        return functions.tensor(array).requires_grad_(), functions.tensor(values).requires_grad_()

    got = mode.run(step, make)
    x, v = torch.tensor(array, requires_grad=True), torch.tensor(values, requires_grad=True)
    y = x * 1.0
    WRITES[name](y, v, torch)
    _weighted(y * y, torch.tensor).backward()
    for mine, theirs in zip(got, (y.detach(), x.grad, v.grad), strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-10, atol=1e-12)


SUMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "index": lambda t, x, i: x[i],
    "index-select": lambda t, x, i: x.index_select(0, i),
    "embedding": lambda t, x, i: t.nn.functional.embedding(i, x),
    "gather": lambda t, x, i: x[:, 0].gather(0, i),
}


@pytest.mark.parametrize("name", SUMS)
def test_an_expanded_index_counts_as_often_as_it_is_there(name: str, mode: Mode) -> None:
    """The gradient of a sum adds the same number at the same place: nothing in the loop changes from turn to turn."""

    def step(t: Any, index: Any) -> Any:
        x = t.zeros(5, 3, requires_grad=True)
        SUMS[name](t, x, index.expand(6)).sum().backward()
        return x.grad

    want = step(torch, torch.tensor([3]))
    got = mode.run(lambda index: step(jitgrad, index), lambda: (jitgrad.tensor([3]),))
    np.testing.assert_array_equal(got.numpy(), want.numpy())
