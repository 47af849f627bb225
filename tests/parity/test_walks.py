"""Running sums, products and extremes, sorts, top-k and medians: PyTorch's values, dtypes and gradients, by kernels.

A generator draws shapes around the places where the routines change their ways: blocks of 8, strips of 16, 160 ranked
elements, 64 that are kept, extents of 0 and 1; and dtypes, dimensions, layouts, equal elements, NaN, zeros of both
signs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import events
from jitgrad.codegen.routines.rows import LANES
from jitgrad.codegen.routines.sorting import _RANKED
from tests.modes import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

EXTENTS = (0, 1, 2, 3, 7, 8, 9, LANES - 1, LANES, LANES + 1, 33, _RANKED - 1, _RANKED, _RANKED + 1, 300)
DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "uint8", "bool")
TOLERANCE = {"float16": 4e-3, "float32": 1e-6, "float64": 1e-12}

Function = Callable[[Any], Any]


class Case:
    """Operands and a function of them, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        rank = int(rng.integers(1, 4))
        extents = [int(rng.choice(EXTENTS)) for _ in range(rank)]
        while np.prod(extents) > 30_000:
            extents[int(rng.integers(rank))] = int(rng.choice(EXTENTS[:9]))
        self.dim = int(rng.integers(-rank, rank))
        self.n = extents[self.dim]
        self.dtype = str(rng.choice(DTYPES, p=[0.4, 0.15, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05]))
        values = rng.normal(size=extents) * 3
        if rng.random() < 0.5:
            values = np.round(values)  # equal ones, and zeros of both signs
        if self.dtype.startswith("f") and rng.random() < 0.3:
            nan = np.copysign(np.nan, rng.normal(size=extents))
            values = np.where(rng.random(extents) < 0.1, nan, values)
        if self.dtype == "uint8":
            values = np.abs(values)
        self.array = (values != 0) if self.dtype == "bool" else values.astype(self.dtype)
        self.is_transposed = rank > 1 and rng.random() < 0.3
        self.k = int(rng.integers(0, self.n + 1)) if rng.random() < 0.7 else min(3, self.n)
        self.flag = bool(rng.random() < 0.5)

    def operand(self, library: Any) -> Any:
        """The operand, which may be laid out the other way round."""
        x = library.from_numpy(np.array(self.array))
        return x.transpose(0, -1).contiguous().transpose(0, -1) if self.is_transposed else x


def _scans(c: Case) -> dict[str, Function]:
    return {
        "cumsum": lambda x: x.cumsum(c.dim),
        "cumprod": lambda x: (x * 0.5 if x.dtype.is_floating_point else x).cumprod(c.dim),
        "cummax": lambda x: tuple(x.cummax(c.dim)),
        "cummin": lambda x: tuple(x.cummin(c.dim)),
    }


def _orders(c: Case) -> dict[str, Function]:
    return {
        "sort": lambda x: tuple(x.sort(dim=c.dim, descending=c.flag, stable=True)),
        "argsort": lambda x: x.argsort(dim=c.dim, descending=c.flag, stable=True),
        "topk": lambda x: tuple(x.topk(c.k, c.dim, c.flag)),
        "kthvalue": lambda x: tuple(x.kthvalue(max(c.k, 1), c.dim, c.flag)),
        "median": lambda x: tuple(x.median(c.dim, c.flag)),
        "median of all": lambda x: x.median() if x.numel() else x.sum(),
    }


UNSTABLE = frozenset({"topk", "kthvalue", "median"})
"""Of equal elements PyTorch may take any: what lies at the positions is compared."""


def _tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _at(c: Case, name: str, values: Any, positions: Any) -> None:
    keeps = name == "topk" or c.flag
    found = np.take_along_axis(c.array, positions if keeps else np.expand_dims(positions, c.dim), c.dim)
    np.testing.assert_array_equal(found if keeps else np.squeeze(found, c.dim), values)


def _compare(c: Case, name: str, got: Any, want: Any) -> None:
    for nr, (x, y) in enumerate(zip(_tuple(got), _tuple(want), strict=True)):
        assert x.dtype == getattr(jitgrad, str(y.dtype).removeprefix("torch."))
        ours, theirs = x.numpy(), y.numpy()
        if nr and name in UNSTABLE:
            _at(c, name, _tuple(want)[0].numpy(), ours)
        elif name in ("cumsum", "cumprod") and x.dtype.is_floating_point:
            scale = np.nanmax(np.abs(theirs), initial=1.0, where=np.isfinite(theirs))
            tolerance = TOLERANCE[x.dtype.name]
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * float(scale))
        else:
            np.testing.assert_array_equal(ours, theirs)
            if name == "sort" and theirs.dtype.kind == "f" and not nr:
                np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


def _outcome(function: Function, x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(x)
        except (RuntimeError, IndexError, NotImplementedError) as error:
            return type(error)


@pytest.mark.parametrize("functions", [_scans, _orders], ids=["scans", "orders"])
@pytest.mark.parametrize("seed", range(60))
def test_values_are_pytorch_s(seed: int, functions: Callable[[Case], dict[str, Function]], mode: Mode) -> None:
    c = Case(seed)
    for name, function in functions(c).items():
        want = _outcome(function, c.operand(torch))
        step = mode.wrap(function)
        for _ in range(3):
            got = _outcome(step, c.operand(jitgrad))
            if isinstance(want, type):
                assert got is want, name
            else:
                _compare(c, name, got, want)


@pytest.mark.parametrize("seed", range(40))
def test_gradients_are_pytorch_s_to_second_order(seed: int, mode: Mode) -> None:
    c = next(c for c in map(Case, range(1000 * seed, 1000 * seed + 100)) if c.array.size and c.n <= 40)
    array = np.nan_to_num(c.array.astype(np.float64)) + np.linspace(0, 1e-3, c.array.size).reshape(c.array.shape)
    weights = np.cos(np.arange(array.size)).reshape(array.shape)

    def differentiated(library: Any, function: Function) -> Any:
        x = library.tensor(array, requires_grad=True)
        out = _tuple(function(x))[0]
        w = library.tensor(weights).reshape(-1)[: out.numel()].reshape(out.shape)
        (g,) = library.autograd.grad(((out * w).sin()).sum(), x, create_graph=True)
        (h,) = library.autograd.grad((g * g).sum(), x)
        return out.detach(), g.detach(), h

    for name, function in {**_scans(c), **_orders(c)}.items():
        if name == "argsort" or (c.k == 0 and name in UNSTABLE):
            continue
        want = differentiated(torch, function)
        got = mode.run(lambda function=function: differentiated(jitgrad, function), is_steady=False)
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "sort", "topk", "kthvalue", "median"])
def test_a_step_with_one_is_native(name: str) -> None:
    x = jitgrad.randn(20, 30, requires_grad=True)
    arguments = {"topk": (3, 1), "kthvalue": (3, 1)}.get(name, (1,))

    @jitgrad.compile
    def step() -> Any:
        out = _tuple(getattr((x * 2.0).tanh(), name)(*arguments))[0]
        (g,) = jitgrad.autograd.grad((out * out).sum(), x)
        return g

    step()
    with events.count("fallbacks") as fallbacks, events.count("launches") as launches:
        step()
    assert fallbacks() == 0
    assert launches() > 0


def test_the_derivative_of_a_running_sum_is_one_that_runs_backwards() -> None:
    """Not two flips around one, which would be two more walks through memory."""
    x, w = jitgrad.randn(50, requires_grad=True), jitgrad.randn(50)
    step = jitgrad.compile(lambda: jitgrad.autograd.grad((x.cumsum(0) * w).sum(), x)[0])
    (segment,) = jitgrad.explain(step).segments
    (kernel,) = segment.kernels
    assert "scan_sum_reversed" in kernel
    np.testing.assert_allclose(step().numpy(), w.flip(0).cumsum(0).flip(0).numpy(), rtol=1e-6)


@pytest.mark.parametrize("shape", [(40_000,), (300, 700), (700, 300), (3, 400, 50)])
def test_bits_do_not_depend_on_threads(shape: tuple[int, ...]) -> None:
    x = jitgrad.randn(*shape)
    functions: list[Function] = [lambda x: x.cumsum(0), lambda x: x.cumsum(-1), lambda x: x.double().cumsum(-1),
                                 lambda x: tuple(x.sort(-1)), lambda x: tuple(x.sort(0)),
                                 lambda x: tuple(x.cummax(0)), lambda x: tuple(x.topk(3, 0))]  # fmt: skip
    before = jitgrad.get_num_threads()
    try:
        for function in functions:
            found = []
            for threads in (1, 2, 3):
                jitgrad.set_num_threads(threads)
                found.append([out.numpy().tobytes() for out in _tuple(function(x))])
            assert found[0] == found[1] == found[2]
    finally:
        jitgrad.set_num_threads(before)


def test_none_of_one_element(mode: Mode) -> None:
    def step(x: Any) -> Any:
        values, indices = x.topk(0, 1)
        return values, indices, values.sum(1)

    values, indices, sums = mode.run(step, lambda: (jitgrad.ones(3, 1) * 2,))
    assert (tuple(values.shape), tuple(indices.shape), sums.tolist()) == ((3, 0), (3, 0), [0, 0, 0])
