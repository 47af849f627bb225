"""Hypothesis: whatever the shapes, strides, dtypes and values, compiled agrees with eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitgrad as jg

FEW = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

UNARY = ("neg abs exp log log1p sqrt rsqrt sin cos tanh sigmoid relu erf square reciprocal floor ceil sign trunc round "
         "expm1 isnan").split()  # fmt: skip
BINARY = "add sub mul div maximum minimum atan2 lt ge eq pow".split()
REDUCTIONS = "sum mean amax amin logsumexp prod argmax any all".split()
DTYPES = ("float32", "float64", "int64", "int32", "bool")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -1.0, 0.5)

extents = st.sampled_from((1, 2, 3, 5, 8, 17, 33))
shapes = st.lists(extents, max_size=4).map(tuple)
layouts = st.sampled_from(("plain", "transposed", "strided", "offset"))
seeds = st.integers(0, 2**16)

_compiled: dict[Any, Any] = {}


def compiled(key: Any, step: Callable[..., Any]) -> Any:
    """One compiled function per key, so that examples of one operation share a trie."""
    return _compiled.setdefault(key, jg.compile(step))


def array(shape: tuple[int, ...], dtype: str, seed: int, *, special: bool) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) * 2
    if special and values.size:
        flat = values.reshape(-1)
        flat[rng.integers(0, flat.size, size=4)] = rng.choice(SPECIAL, size=4)
    if not dtype.startswith("float"):
        values = np.nan_to_num(values, posinf=3, neginf=-3).clip(-9, 9).round()
    with np.errstate(all="ignore"):
        return values.astype(np.dtype(dtype))


def tensor(values: Any, layout: str) -> Any:
    """The values in memory of the given layout."""
    if layout == "transposed" and values.ndim:
        return jg.tensor(np.ascontiguousarray(values.T)).permute(*reversed(range(values.ndim)))
    if layout == "strided" and values.ndim:
        return jg.tensor(np.repeat(values, 2, axis=-1))[..., ::2]
    if layout == "offset" and values.ndim:
        return jg.tensor(np.concatenate([values[:1], values]))[1:]
    return jg.tensor(values)


def assert_equal(got: Any, want: Any) -> None:
    a, b = got.detach().numpy(), want.detach().numpy()
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    rtol = 2e-5 if a.dtype == np.float32 else 1e-9
    # sums of large terms cancel: compare on the scale of what went in
    finite = np.abs(b[np.isfinite(b)]) if b.dtype.kind == "f" else np.zeros(0)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, finite.max(initial=0.0)), equal_nan=True)


@FEW
@given(st.sampled_from(UNARY), shapes, st.sampled_from(DTYPES[:2]), layouts, seeds)
def test_unary(name: str, shape: tuple[int, ...], dtype: str, layout: str, seed: int) -> None:
    def step(x: Any) -> Any:
        return getattr(jg, name)(x)

    x = tensor(array(shape, dtype, seed, special=True), layout)
    assert_equal(compiled(name, step)(x), step(x))


@FEW
@given(
    st.sampled_from(BINARY), shapes, st.data(), st.sampled_from(DTYPES[:4]), st.sampled_from(DTYPES[:4]), layouts, seeds
)
def test_binary_broadcast(
    name: str, shape: tuple[int, ...], data: Any, left: str, right: str, layout: str, seed: int
) -> None:
    def step(a: Any, b: Any) -> Any:
        return getattr(jg, name)(a, b)

    if name == "pow":
        left, right = DTYPES[seed % 2], DTYPES[seed % 2]
    drop = data.draw(st.integers(0, len(shape)))
    other = tuple(1 if data.draw(st.booleans()) else n for n in shape[drop:])
    a = tensor(array(shape, left, seed, special=True), layout)
    b = tensor(array(other, right, seed + 1, special=True), "plain")
    if data.draw(st.booleans()):
        a, b = b, a
    assert_equal(compiled(name, step)(a, b), step(a, b))


@FEW
@given(st.sampled_from(REDUCTIONS), shapes, st.data(), st.sampled_from(DTYPES), layouts, st.booleans(), seeds)
def test_reductions(
    name: str, shape: tuple[int, ...], data: Any, dtype: str, layout: str, keepdim: bool, seed: int
) -> None:
    dims = data.draw(st.sets(st.integers(0, max(len(shape) - 1, 0)), max_size=len(shape))) if shape else set()
    if name in ("mean", "logsumexp") and not dtype.startswith("float"):
        dtype = "float64"
    if name == "argmax" and dtype == "bool":
        dtype = "int64"
    if name in ("argmax", "prod", "any", "all"):
        dims = set(list(dims)[:1])
    dim = None if not dims else next(iter(dims)) if len(dims) == 1 else tuple(sorted(dims))
    if name == "logsumexp" and dim is None:
        dim = 0 if shape else -1

    def step(x: Any) -> Any:
        function = getattr(jg, name)
        return function(x) if dim is None else function(x, dim, keepdim=keepdim)

    x = tensor(array(shape, dtype, seed, special=name in ("amax", "amin", "any", "all", "logsumexp")), layout)
    assert_equal(compiled((name, dim, keepdim), step)(x), step(x))


@FEW
@given(shapes, st.data(), seeds)
def test_softmax_and_normalisation(shape: tuple[int, ...], data: Any, seed: int) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1)) if shape else 0

    def step(x: Any) -> Any:
        y = x.softmax(dim) + x.log_softmax(dim)
        return (y - y.mean(dim, keepdim=True)) / (y.var(dim, unbiased=False, keepdim=True) + 1e-3).sqrt()

    x = tensor(array(shape, "float64", seed, special=False), "plain")
    assert_equal(compiled(("softmax", dim), step)(x), step(x))


@FEW
@given(st.lists(st.sampled_from((1, 2, 3, 5, 9, 16, 31)), min_size=3, max_size=3), st.booleans(), st.booleans(),
       st.sampled_from((None, 1, 3)), st.sampled_from(DTYPES[:2]), seeds)  # fmt: skip
def test_matmul(sizes: list[int], ta: bool, tb: bool, batch: int | None, dtype: str, seed: int) -> None:
    def step(a: Any, b: Any, bias: Any) -> Any:
        return (a @ b + bias).relu()

    m, k, n = sizes
    lead = () if batch is None else (batch,)
    a = tensor(array((*lead, k, m) if ta else (*lead, m, k), dtype, seed, special=False), "plain")
    b = tensor(array((n, k) if tb else (k, n), dtype, seed + 1, special=False), "plain")
    bias = tensor(array((n,), dtype, seed + 2, special=False), "plain")
    args = (a.transpose(-1, -2) if ta else a, b.t() if tb else b, bias)
    assert_equal(compiled("matmul", step)(*args), step(*args))


CHAIN: tuple[Callable[[Any], Any], ...] = (
    lambda x: x.transpose(0, -1),
    lambda x: x.reshape(-1),
    lambda x: x.unsqueeze(0),
    lambda x: x.flip(0) if x.ndim else x,
    lambda x: x[1:] if x.ndim and x.shape[0] > 1 else x,
    lambda x: x[..., ::2] if x.ndim else x,
    lambda x: x.sum(0) if x.ndim else x,
    lambda x: x.cumsum(-1),
    lambda x: (x * 2).tanh(),
    lambda x: x + x.sum(),
    lambda x: x.expand(2, *x.shape),
    lambda x: x.softmax(-1),
    lambda x: jg.cat([x, x * 3]) if x.ndim else x,
    lambda x: x.amax(-1, keepdim=True) - x,
    lambda x: jg.where(x > 0.1, x, -x),
    lambda x: x.roll(1, 0) if x.ndim else x,
)


@FEW
@given(shapes, st.lists(st.integers(0, len(CHAIN) - 1), min_size=1, max_size=6), layouts, seeds)
def test_chains_and_their_gradients(shape: tuple[int, ...], chain: list[int], layout: str, seed: int) -> None:
    def step(x: Any) -> Any:
        x = x.detach().requires_grad_()
        y = x
        for nr in chain:
            y = CHAIN[nr](y)
        (y * y.detach().cos()).sum().backward()
        return y, x.grad

    x = tensor(array(shape, "float64", seed, special=False), layout)
    for got, want in zip(compiled(("chain", *chain), step)(x), step(x), strict=True):
        assert_equal(got, want)
