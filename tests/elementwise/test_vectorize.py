"""``@jitgrad.vectorize``: what functions of scalars compute, in every mode and under every transformation."""

from __future__ import annotations

import copy
import ctypes
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from functions import escape_distance, kepler, pieces, upper_gamma
from modes import Mode

import jitgrad
from jitgrad.codegen.llvm.jit import KernelSource, compile_kernels
from jitgrad.codegen.llvm.target import host_target
from jitgrad.codegen.scalars import array_loop
from jitgrad.utils.checkpoint import checkpoint
from tests.eager_bounds import eager_kernels_from

numba = pytest.importorskip("numba", reason="jitgrad.vectorize compiles by Numba")

KEPLER = jitgrad.vectorize(kepler)
PIECES = jitgrad.vectorize(pieces)
GAMMA = jitgrad.vectorize(upper_gamma)


def _orbits(shape: tuple[int, ...], rng: Any) -> tuple[Any, Any]:
    return rng.uniform(0.0, 0.9, shape), rng.uniform(-3.0, 3.0, shape)


def _leaf(x: Any) -> Any:
    return jitgrad.tensor(x, requires_grad=True)


def test_values_and_gradients(mode: Mode, rng: Any) -> None:
    e, m = _orbits((37, 5), rng)

    def step(x: Any, y: Any) -> Any:
        angle = KEPLER(x * 1.0, y)
        (angle * angle).sum().backward()
        return angle.detach(), x.grad, y.grad

    angle, by_e, by_m = mode.run(step, lambda: (_leaf(e), _leaf(m)))
    angle, slope = angle.numpy(), 2 * angle.numpy() / (1 - e * np.cos(angle.numpy()))
    assert np.abs(angle - e * np.sin(angle) - m).max() < 1e-13
    np.testing.assert_allclose(by_m.numpy(), slope, rtol=1e-12)
    np.testing.assert_allclose(by_e.numpy(), slope * np.sin(angle), rtol=1e-11, atol=1e-13)


def test_branches_loops_integers_and_several_results(mode: Mode) -> None:
    x = np.linspace(-3.0, 3.0, 41)
    n, cut = np.arange(41) % 7, np.arange(41) % 2 == 0
    found = mode.run(lambda *args: PIECES(*args), lambda: tuple(map(jitgrad.tensor, (x, n, cut))))
    wanted = [pieces(*args) for args in zip(x.tolist(), n.tolist(), cut.tolist(), strict=True)]
    for got, column in zip(found, zip(*wanted, strict=True), strict=True):
        np.testing.assert_allclose(got.numpy(), column, rtol=1e-14)


def test_operands_broadcast_and_may_be_numbers_and_views(mode: Mode, rng: Any) -> None:
    e, m = _orbits((4, 6), rng)

    def step(x: Any, y: Any) -> Any:
        whole = KEPLER(x[:, :1], y.t()[::2].t())
        return whole, KEPLER(0.5, y[0]), KEPLER(anomaly=y[1], eccentricity=x[1, 2])

    views, number, named = mode.run(step, lambda: (jitgrad.tensor(e), jitgrad.tensor(m)))
    python = np.vectorize(kepler)
    np.testing.assert_allclose(views.numpy(), python(e[:, :1], m[:, ::2]), rtol=1e-13)
    np.testing.assert_allclose(number.numpy(), python(0.5, m[0]), rtol=1e-13)
    np.testing.assert_allclose(named.numpy(), python(e[1, 2], m[1]), rtol=1e-13)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_every_floating_dtype_is_computed_in_float64_and_rounded_once(mode: Mode, rng: Any, name: str) -> None:
    dtype = getattr(jitgrad, name)
    e, m = (jitgrad.tensor(x).to(dtype) for x in _orbits((50,), rng))
    angle, grad = mode.run(
        lambda x, y: (KEPLER(x, y), jitgrad.autograd.grad(KEPLER(x, y).sum(), x)[0]),
        lambda: (e.clone().requires_grad_(), m),
    )
    assert angle.dtype is grad.dtype is dtype
    exact = KEPLER(e.double(), m.double())
    assert (angle == exact.to(dtype)).all()


def test_the_result_has_the_joint_dtype_of_the_floats() -> None:
    x = jitgrad.ones(3)
    assert KEPLER(0.5, x.double()).dtype is jitgrad.float64
    assert KEPLER(0.5, jitgrad.tensor([1, 2])).dtype is jitgrad.float32
    assert KEPLER(jitgrad.tensor(0.5, dtype=jitgrad.float64), x).dtype is jitgrad.float32


def test_derivatives_to_third_order(mode: Mode, rng: Any) -> None:
    function = jitgrad.vectorize(_product)

    def step(x: Any, y: Any) -> Any:
        (first,) = jitgrad.autograd.grad(function(x, y).sum(), x, create_graph=True)
        (second,) = jitgrad.autograd.grad(first.sum(), y, create_graph=True)
        (third,) = jitgrad.autograd.grad(second.sum(), x)
        return first.detach(), second.detach(), third

    x, y = rng.uniform(0.2, 1.0, (2, 11))
    found = mode.run(step, lambda: (_leaf(x), _leaf(y)))
    curve = np.sin(x * y)
    np.testing.assert_allclose(found[0].numpy(), 2 * x * curve + x * x * y * np.cos(x * y), rtol=1e-12)
    mixed = 3 * x * x * np.cos(x * y) - x**3 * y * curve
    np.testing.assert_allclose(found[1].numpy(), mixed, rtol=1e-12)
    third = 6 * x * np.cos(x * y) - 3 * x * x * y * curve - 3 * x * x * y * curve - x**3 * y * y * np.cos(x * y)
    np.testing.assert_allclose(found[2].numpy(), third, rtol=1e-11)


def _product(x, y):
    total = 0.0
    for _ in range(2):
        total += x * x * math.sin(x * y) * 0.5
    return total


def test_gradcheck(rng: Any) -> None:
    inputs = tuple(map(_leaf, _orbits((3,), rng)))
    assert jitgrad.autograd.gradcheck(KEPLER, inputs, check_forward_ad=True, check_batched_grad=True)
    assert jitgrad.autograd.gradgradcheck(KEPLER, inputs)
    x = _leaf(np.array([-1.3, 0.2, 1.7]))
    assert jitgrad.autograd.gradcheck(lambda x: PIECES(x, 3, True), (x,), check_forward_ad=True)
    assert jitgrad.autograd.gradgradcheck(lambda x: PIECES(x, 3, True), (x,))


def test_transformations(rng: Any) -> None:
    e, m = map(jitgrad.tensor, _orbits((4, 3), rng))
    batched = jitgrad.vmap(KEPLER, in_dims=(0, None))(e, m[0])
    np.testing.assert_allclose(batched.numpy(), KEPLER(e, m[0]).numpy(), rtol=1e-15)
    value, tangent = jitgrad.func.jvp(KEPLER, (e, m), (jitgrad.ones_like(e), jitgrad.zeros_like(m)))
    value = value.numpy()
    np.testing.assert_allclose(tangent.numpy(), np.sin(value) / (1 - e.numpy() * np.cos(value)), rtol=1e-12, atol=1e-14)
    each = jitgrad.vmap(jitgrad.func.grad(KEPLER))(e[0], m[0])
    np.testing.assert_allclose(each.numpy(), tangent[0].numpy(), rtol=1e-13, atol=1e-15)


def test_checkpoint_hooks_and_no_grad(mode: Mode, rng: Any) -> None:
    e, m = _orbits((8,), rng)
    seen: list[int] = []

    def step(x: Any, y: Any) -> Any:
        seen.clear()
        angle = checkpoint(KEPLER, x, y, use_reentrant=False)
        angle.register_hook(lambda g: seen.append(1) or 2 * g)
        angle.sum().backward()
        with jitgrad.no_grad():
            plain = KEPLER(x, y)
        return x.grad, plain

    grad, plain = mode.run(step, lambda: (_leaf(e), jitgrad.tensor(m)))
    assert seen == [1] and not plain.requires_grad
    angle = plain.numpy()
    np.testing.assert_allclose(grad.numpy(), 2 * np.sin(angle) / (1 - e * np.cos(angle)), rtol=1e-11, atol=1e-13)


def test_value_and_derivatives_are_one_evaluation_in_the_neighbours_kernel(rng: Any) -> None:
    @jitgrad.compile
    def step(x: Any, y: Any) -> Any:
        loss = (KEPLER(x.exp() - 1, y) ** 2).mean()
        loss.backward()
        return loss.detach()

    e, m = map(_leaf, _orbits((1000,), rng))
    for _ in range(3):
        e.grad = m.grad = None
        step(e, m)
    e.grad = m.grad = None
    told = jitgrad.explain(step, e, m)
    assert told.counters["launches"] <= 2 and not told.counters["fallbacks"]
    notes = [note for part in told.segments for note in part.notes if note.startswith("kepler:")]
    assert notes == [
        "kepler: result 0, result 0 by input 0, result 0 by input 1 in one evaluation; vector code, 1 loop until all "
        "lanes are done"
    ]


@pytest.mark.parametrize("form", ["epilogue", "rows", "columns", "transposed", "joined", "padded", "empty"])
def test_in_every_form_of_kernel(mode: Mode, rng: Any, form: str) -> None:
    """A matrix product's epilogue, sums along either dimension, squares of a transposed operand, parts of a storage."""
    shape = (0, 3) if form == "empty" else (33, 40)
    x, y = rng.uniform(0.1, 0.8, shape), rng.uniform(0.1, 0.8, shape)
    halve = jitgrad.vectorize(_until_two)
    forms = {
        "epilogue": lambda x, y: KEPLER((x @ y.t()) / 40, 1.0),
        "rows": lambda x, y: KEPLER(x, y).softmax(1).sum(1),
        "columns": lambda x, y: KEPLER(x, y).sum(0),
        "transposed": lambda x, y: KEPLER(x.t(), y.reshape(40, 33)),
        "joined": lambda x, y: jitgrad.cat([KEPLER(x, y), halve(y.flip(0))[::2]]),
        "padded": lambda x, y: halve(jitgrad.nn.functional.pad(halve(x) + y, (2, 3), value=1.0)),
        "empty": KEPLER,
    }

    def step(x: Any, y: Any) -> Any:
        out = forms[form](x, y)
        return out.detach(), *jitgrad.autograd.grad((out * out).sum(), (x, y))

    found = mode.run(step, lambda: (_leaf(x), _leaf(y)))
    for got, wanted in zip(found, step(_leaf(x), _leaf(y)), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("width", [1, 4, 8, 32])
@pytest.mark.parametrize("has_fma", [True, False])
def test_on_every_width_of_vector(rng: Any, width: int, has_fma: bool) -> None:
    """Lanes of 32 bits: narrower targets than this one, and wider ones, compute the same."""
    function = PIECES._family.function
    components = ((0, ()), (1, (0,)))
    target = replace(host_target(), width=width, has_fma=has_fma)
    name = f"lanes_{width}_{has_fma}"
    text = array_loop._text(function, components, name, target)
    (kernel,) = compile_kernels([KernelSource(name, text, lambda: text)])
    arrays = [rng.uniform(-3.0, 3.0, 29), rng.integers(0, 7, 29), rng.random(29) < 0.5]
    outs = [np.empty(29), np.empty(29)]
    words = (ctypes.c_int64 * 6)(0, *(a.ctypes.data for a in (*arrays, *outs)))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    prototype(kernel.address)(words, None, 0, 29)
    for got, wanted in zip(outs, array_loop.run(function, components, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-13)


def test_an_eager_backward_evaluates_once_for_all_inputs(monkeypatch: pytest.MonkeyPatch, rng: Any) -> None:
    asked: list[Any] = []
    run = array_loop.run
    monkeypatch.setattr(
        array_loop, "run", lambda f, components, arrays: (asked.append(components), run(f, components, arrays))[1]
    )
    e, m = map(_leaf, _orbits((5,), rng))
    with eager_kernels_from(-1):  # a kernel asks nobody
        KEPLER(e, m).sum().backward()
        assert asked == [((0, ()),), ((0, (0,)), (0, (1,)))]
        jitgrad.autograd.grad(KEPLER(e, m).sum(), m)
    assert asked[2:] == [((0, ()),), ((0, (1,)),)]


def test_copies_and_pickles_are_by_name() -> None:
    assert copy.deepcopy(KEPLER) is KEPLER
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(KEPLER)  # its name stands for the plain function


def test_the_bits_do_not_depend_on_threads(rng: Any) -> None:
    e, m = _orbits((50_000,), rng)

    @jitgrad.compile
    def step(x: Any, y: Any) -> Any:
        loss = KEPLER(x, y).sum()
        loss.backward()
        return loss.detach(), x.grad, y.grad

    found, threads = [], jitgrad.get_num_threads()
    try:
        for count in (1, 2, 1):
            jitgrad.set_num_threads(count)
            found.append([t.numpy().tobytes() for t in step(_leaf(e), _leaf(m))])
    finally:
        jitgrad.set_num_threads(threads)
    assert found[0] == found[1] == found[2]


def test_lanes_outside_do_not_keep_a_loop_alive(mode: Mode) -> None:
    """A tail's lanes and a pad's border hold zeros, for which this loop would never end."""
    halve = jitgrad.vectorize(_until_two)
    x = np.arange(1.0, 12.0)
    pad = jitgrad.nn.functional.pad
    found = mode.run(lambda x: (halve(x), pad(halve(x), (3, 2)), halve(x).sum()), lambda: (jitgrad.tensor(x),))
    wanted = np.array([_until_two(v) for v in x])
    np.testing.assert_allclose(found[0].numpy(), wanted)
    np.testing.assert_allclose(found[1].numpy(), np.pad(wanted, (3, 2)))
    np.testing.assert_allclose(found[2].item(), wanted.sum())


def _until_two(x):
    while x < 2.0:
        x = 2.0 * x
    return x


def test_functions_that_call_functions(mode: Mode) -> None:
    @numba.njit
    def inner(x: float, y: float) -> float:
        return math.exp(-x * x) if x > y else x * y

    def outer(x: float) -> float:
        return inner(x, 0.5) + inner(2 * x, 0.1)

    function, x = jitgrad.vectorize(outer), np.linspace(-1.0, 2.0, 9)
    found = mode.run(lambda x: jitgrad.autograd.grad(function(x).sum(), x)[0], lambda: (_leaf(x),))
    slope = np.where(x > 0.5, -2 * x * np.exp(-x * x), 0.5)
    slope += np.where(2 * x > 0.1, -8 * x * np.exp(-4 * x * x), 0.2)
    np.testing.assert_allclose(found.numpy(), slope, rtol=1e-12)


def test_ieee_instead_of_exceptions(mode: Mode) -> None:
    def divide(x: float, n: int) -> float:
        return 1.0 / x + math.log(x) + n // (n - 1) * 0.0

    function = jitgrad.vectorize(divide)
    x = np.array([0.0, -1.0, 2.0, math.inf, math.nan])
    found = mode.run(lambda x, n: function(x, n), lambda: (jitgrad.tensor(x), jitgrad.tensor([1, 2, 1, 5, 1])))
    assert found[0].item() != found[0].item() and math.isnan(found[1].item())
    assert found[2].item() == 0.5 + math.log(2.0) and found[3].item() == math.inf and math.isnan(found[4].item())


def test_a_derivative_by_hand(mode: Mode) -> None:
    @jitgrad.vectorize(derivative=False)
    def root(x: float, y: float) -> float:
        low, high = 0.0, 10.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            if middle * middle > x * y:
                high = middle
            else:
                low = middle
        return low

    @root.derivative
    def slopes(x: float, y: float) -> tuple[float, float]:
        return 0.5 * math.sqrt(y / x), 0.5 * math.sqrt(x / y)

    x, y = np.array([1.0, 2.0, 7.0]), np.array([3.0, 0.5, 4.0])

    def step(x: Any, y: Any) -> Any:
        (first,) = jitgrad.autograd.grad(root(x, y).sum(), x, create_graph=True)
        return first.detach(), jitgrad.autograd.grad(first.sum(), y)[0]

    first, second = mode.run(step, lambda: (_leaf(x), _leaf(y)))
    np.testing.assert_allclose(first.numpy(), 0.5 * np.sqrt(y / x), rtol=1e-12)
    np.testing.assert_allclose(second.numpy(), 0.25 / np.sqrt(x * y), rtol=1e-12)


def test_incomplete_gamma_and_its_derivative(mode: Mode) -> None:
    special, mpmath = pytest.importorskip("scipy.special"), pytest.importorskip("mpmath")
    a, x = (np.array(v) for v in ([0.3, 0.5, 2.5, 7.0, 20.0, 3.0], [0.1, 4.0, 1.0, 9.0, 15.0, 30.0]))

    def step(a: Any, x: Any) -> Any:
        value = GAMMA(a, x)
        return value.detach(), *jitgrad.autograd.grad(value.sum(), (a, x))

    value, by_a, by_x = mode.run(step, lambda: (_leaf(a), _leaf(x)))
    np.testing.assert_allclose(value.numpy(), special.gammaincc(a, x), rtol=1e-10)
    with mpmath.workdps(40):
        exact_a = [
            float(mpmath.diff(lambda s, at=xi: mpmath.gammainc(s, at, regularized=True), ai))
            for ai, xi in zip(a.tolist(), x.tolist(), strict=True)
        ]
    np.testing.assert_allclose(by_a.numpy(), exact_a, rtol=1e-10)
    exact_x = -np.exp((a - 1) * np.log(x) - x - special.gammaln(a))
    np.testing.assert_allclose(by_x.numpy(), exact_x, rtol=1e-10)


def test_mandelbrot_distance(mode: Mode) -> None:
    distance = jitgrad.vectorize(escape_distance)
    x, y = np.meshgrid(np.linspace(-2.0, 0.6, 13), np.linspace(-1.2, 1.2, 9))

    def step(x: Any, y: Any) -> Any:
        far = distance(x, y)
        return far.detach(), *jitgrad.autograd.grad(far.sum(), (x, y))

    far, by_x, by_y = mode.run(step, lambda: (_leaf(x), _leaf(y)))
    np.testing.assert_allclose(far.numpy(), np.vectorize(escape_distance)(x, y), rtol=1e-9)
    outside = (far.numpy() > 0.05) & (far.numpy() < 1.0)
    assert outside.sum() > 30
    h, python = 1e-6, np.vectorize(escape_distance)
    for grad, (u, v) in ((by_x, (h, 0.0)), (by_y, (0.0, h))):
        numeric = (python(x + u, y + v) - python(x - u, y - v)) / (2 * h)
        np.testing.assert_allclose(grad.numpy()[outside], numeric[outside], rtol=1e-4, atol=1e-6)
