"""Complex numbers: programs whose values and gradients are PyTorch's, eagerly, compiled cold and warm.

Single operations are compared by ``python -m tests.opinfo --dtype complex64 --dtype complex128``, and here few of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

from complex_cases import CASES  # noqa: E402

import jitgrad  # noqa: E402

_rng = np.random.default_rng(5)
REAL = [_rng.uniform(0.5, 1.5, (3, 3)) for _ in range(2)]
COMPLEX_NUMBERS = [_rng.uniform(0.5, 1.5, (3, 3)) + 1j * _rng.uniform(-1.5, 1.5, (3, 3)) for _ in range(2)]


def _holomorphic(t: Any, x: Any, y: Any) -> Any:
    return ((x * y + 1j).exp() / (x + 2)).abs().sum()


def _from_real(t: Any, x: Any, y: Any) -> Any:
    z = t.complex(x.abs(), y.abs()) * (1 - 2j)
    return (z.conj() * z + z**2).real.sum()


def _through_parts(t: Any, x: Any, y: Any) -> Any:
    z = x * 1j + y
    return (z.real * z.imag + z.angle()).sum() + t.view_as_real(z * z).sum()


def _products(t: Any, x: Any, y: Any) -> Any:
    x = x + 0j
    z = x @ (y * (1 + 1j)) @ x.mH
    return (z.abs() ** 2).mean() + t.linalg.vector_norm(z @ z)


def _sign(t: Any, x: Any, y: Any) -> Any:
    return (t.sgn(x + 1j) * y).real.sum() + (x * 1j).std()


def _in_place(t: Any, x: Any, y: Any) -> Any:
    z = x * (1 + 1j)
    z.mul_(y).add_(1j)
    z[0] = y[1]
    return (z * z.conj()).real.sum()


def _written_parts(t: Any, x: Any, y: Any) -> Any:
    z = x * (1 + 1j)
    z.real.mul_(2)
    z.imag[0] = y[1].abs()
    return ((z * z).abs() * 3).sum()


def _selected(t: Any, x: Any, y: Any) -> Any:
    z = t.where(x.abs() > 1, x * 1j, y.to(t.complex128) * 2)
    return (t.cat([z, x + 0j])[[0, 2, 4]].abs() * t.stack([z, z]).sum(0).abs()).sum()


PROGRAMS: list[Callable[..., Any]] = [
    _holomorphic, _from_real, _through_parts, _products, _sign, _in_place, _written_parts, _selected,
]  # fmt: skip


def _run(t: Any, program: Callable[..., Any], arrays: list[Any], call: Callable[[Any], Any]) -> list[Any]:
    leaves = [t.tensor(a, requires_grad=True) for a in arrays]

    def step(x: Any, y: Any) -> Any:
        loss = program(t, x, y)
        loss.backward()
        return loss.detach()

    loss = call(step)(*leaves)
    return [loss.numpy(), *[x.grad.numpy() for x in leaves]]


@pytest.mark.parametrize("arrays", [REAL, COMPLEX_NUMBERS], ids=["real", "complex"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__.strip("_"))
def test_values_and_gradients(mode: Any, program: Callable[..., Any], arrays: list[Any]) -> None:
    expected = _run(torch, program, arrays, lambda step: step)
    step: Any = None

    def once(function: Any) -> Any:
        nonlocal step
        step = function
        return mode.wrap(lambda x, y: _fresh(step, x, y))

    got = _run(jitgrad, program, arrays, once)
    for x, y in zip(got, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def _fresh(step: Any, x: Any, y: Any) -> Any:
    x.grad = y.grad = None
    return step(x, y)


def _answer(t: Any, case: Callable[[Any], Any]) -> Any:
    try:
        return case(t)
    except Exception as error:
        return error


def _assert_same(got: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert got.dtype.name == str(expected.dtype).removeprefix("torch.")
        assert tuple(got.shape) == tuple(expected.shape) and got.requires_grad == expected.requires_grad
        np.testing.assert_allclose(got.numpy(force=True), expected.numpy(force=True), rtol=2e-6, atol=1e-12)
    elif isinstance(expected, tuple | list):
        assert len(got) == len(expected)
        for x, y in zip(got, expected, strict=True):
            _assert_same(x, y)
    elif isinstance(expected, Exception):
        assert isinstance(got, Exception) and type(got).__name__ == type(expected).__name__, got
    else:
        assert repr(got).replace("jitgrad", "torch") == repr(expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_is_what_pytorch_says(name: str) -> None:
    _assert_same(_answer(jitgrad, CASES[name]), _answer(torch, CASES[name]))


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.tensor([1 + 2j, -3.5e-5 + 1j]),
        lambda t: t.tensor([[1 + 2j, float("nan")], [0, -1j]]),
        lambda t: t.tensor(1j),
        lambda t: t.ones(30, 40, dtype=t.complex64) * 1.5,
        lambda t: t.arange(1200) * (1e6 - 1e-3j),
        lambda t: t.arange(12).reshape(3, 2, 2) * 1j,
        lambda t: t.empty(0, 2, dtype=t.cdouble),
        lambda t: t.tensor([1 + 2j], dtype=t.cdouble, requires_grad=True),
        lambda t: t.arange(30) * (0.25 - 1e9j),
    ],
)
def test_prints_as_pytorch(make: Callable[[Any], Any]) -> None:
    assert repr(make(jitgrad)).replace("jitgrad", "torch") == repr(make(torch))


def test_complex_operations_join_the_kernels_of_real_ones() -> None:
    """What is computed of complex numbers between real ones is part of one kernel."""

    @jitgrad.compile
    def step(x: Any) -> Any:
        z = jitgrad.complex(x * 2, x)
        return (z * z).real + 1

    x = jitgrad.ones(3)
    for _ in range(3):
        found = jitgrad.explain(step, x)
    assert not found.outside and found.counters["launches"] == 1
    assert found.result.tolist() == [4.0] * 3


def test_explain_names_what_has_no_lowering() -> None:
    @jitgrad.compile
    def step(x: Any) -> Any:
        return (jitgrad.complex(x * 2, x).tanh() * 2).real

    x = jitgrad.ones(3)
    for _ in range(3):
        found = jitgrad.explain(step, x)
    assert found.counters["fallbacks"] == 1 and len(found.segments) == 1
    assert "1 operations ran by NumPy: tanh" in str(found)
