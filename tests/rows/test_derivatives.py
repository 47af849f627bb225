"""Rows about what a derivative is: the chain rule, whole batches, and conventions where mathematics leaves a choice.

Every expected number is worked out by hand, and is what PyTorch gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import HOOKED, NO_LOWERING, OUTSIDE, UNRECORDABLE, Mode

import jitgrad
from jitgrad import functions
from jitgrad.autograd import grad, gradcheck
from jitgrad.autograd.functional import jacobian
from jitgrad.door import door
from jitgrad.dtypes import from_numpy_dtype
from jitgrad.ops.aval import make_aval
from jitgrad.ops.complex import complex_lowerings
from jitgrad.ops.table import OPS
from tests.ops.op_specs import NO_DERIVATIVE, SPECS, Sample

NAN, INF = float("nan"), float("inf")


def _leaf(*values: float) -> Any:
    return jitgrad.tensor([float(v) for v in values], requires_grad=True)


def _equal(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-6, atol=1e-7)


# --- batches of gradients ---


@pytest.mark.row("C7")
def test_a_batch_of_gradients_is_the_single_calls_stacked(mode: Mode) -> None:
    def step(x: Any, w: Any, unused: Any, seeds: Any) -> Any:
        y = (x * w).tanh().cumsum(0)
        z = (x @ w).exp()
        options = {"retain_graph": True, "allow_unused": True}
        single = [grad((y, z), (x, w, unused), (seeds[i], seeds[i, 0]), **options) for i in range(4)]
        batch = grad((y, z), (x, w, unused), (seeds, seeds[:, 0]), is_grads_batched=True, **options)
        zeros = grad(y, unused, seeds, is_grads_batched=True, materialize_grads=True)
        return single, batch, zeros

    def arguments() -> tuple[Any, ...]:
        seeds = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
        return _leaf(1, 2, 3), _leaf(0.1, 0.2, 0.3), _leaf(5), jitgrad.tensor(seeds)

    single, batch, zeros = mode.run(step, arguments)
    for k in range(2):
        _equal(batch[k], np.stack([row[k].numpy() for row in single]))
    assert batch[2] is None
    _equal(zeros[0], [0])


@pytest.mark.row("C7")
def test_a_batch_is_one_run_of_the_graph(mode: Mode) -> None:
    runs = []

    def step(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: runs.append(tuple(g.shape)))
        return grad(y * y, x, jitgrad.eye(2), is_grads_batched=True)[0]

    _equal(mode.run(step, lambda: (_leaf(1, 3),), is_steady=False), [[8, 0], [0, 24]])
    assert set(runs) == {(2,)}  # the hook sees one example, which stands for all
    assert len(runs) == {"eager": 1, "cold": 1, "warm": 3}[mode.name]


@pytest.mark.row("C7")
def test_arguments_of_grad(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * x
        with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
            (g,) = grad(y.sum(), x, only_inputs=False)
        with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first dimension"):
            grad(x * x, x, jitgrad.ones(2, 2), is_grads_batched=True)
        with pytest.raises(ValueError, match=r"got sizes \[2, 3\] for the mapped dimension"):
            grad((x * x, x * 3), x, (jitgrad.ones(2, 3), jitgrad.ones(3, 3)), is_grads_batched=True)
        return g

    _equal(mode.run(step, lambda: (_leaf(1, 2, 3),)), [2, 4, 6])


# --- the table ---


_OF_A_TRIANGLE = ("_linalg_svd", "_linalg_eigh", "linalg_cholesky_ex", "linalg_cholesky_info")
"""Their factors are fixed up to signs, or they read one triangle of a symmetric matrix: single elements cannot move
alone. ``tests/ops/test_linalg.py`` compares the derivatives of what is well defined with PyTorch's."""


def _smooth() -> list[Any]:
    return [
        pytest.param(name, sample, id=f"{name}-{i}")
        for name, samples in SPECS.items()
        for i, sample in enumerate(samples)
        # differences of float32 results say nothing
        if OPS[name].vjps and name not in (*NO_DERIVATIVE, *_OF_A_TRIANGLE) and sample.params != (jitgrad.float32,)
        if sample.is_smooth
    ]


def _somewhere(x: Any, rng: np.random.Generator) -> Any:
    """A random point in the domain of a sample: nearer to zero, never across it."""
    if isinstance(x, list):
        return [_somewhere(y, rng) for y in x]
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        return x
    return np.asarray(x * rng.uniform(0.7, 0.99, x.shape))


def _tensors(x: Any, is_wanted: bool) -> Any:
    if isinstance(x, list):
        return [_tensors(y, is_wanted) for y in x]
    if not isinstance(x, np.ndarray):
        return x
    out = functions.tensor(x)
    return out.requires_grad_() if is_wanted and x.dtype.kind == "f" else out


def _avals_of(inputs: Any) -> list[Any]:
    return [make_aval(x.shape, from_numpy_dtype(x.dtype)) if isinstance(x, np.ndarray) else None for x in inputs]


def _is_differentiable(name: str, position: int) -> bool:
    op = OPS[name]
    return op.num_inputs < 0 or op.vjps[position] is not None


@pytest.mark.row("C20", "D17")
@pytest.mark.parametrize(("name", "sample"), _smooth())
def test_gradcheck_at_random_points(name: str, sample: Sample, mode: Mode) -> None:
    op, rng = OPS[name], np.random.default_rng(2)
    if op.has_base or op.name == "detach":
        mode.states(no_launch="A view is another look at the memory.")
    elif name in ("cumprod", "cummax", "cummin") and not sample.inputs[0].size:
        mode.states(no_launch="There is nothing to walk.")
    elif name not in complex_lowerings.table() and not op.has_lowering(_avals_of(sample.inputs), sample.params):
        mode.states(fallbacks=NO_LOWERING, no_launch=NO_LOWERING)
    inputs = [_somewhere(x, rng) for x in sample.inputs]
    if name == "embedding" and sample.params[0] >= 0:
        inputs[1] = np.where(inputs[1] == sample.params[0], 0, inputs[1])  # the padding row stands still by definition
    if op.num_inputs < 0:
        tensors = _tensors(inputs[0], True)
        function = mode.wrap(lambda *xs: door.apply(op, list(xs), *sample.params))
    else:
        tensors = [_tensors(x, _is_differentiable(name, i)) for i, x in enumerate(inputs)]
        function = mode.wrap(lambda *xs: door.apply(op, *xs, *sample.params))
    if not any(getattr(x, "requires_grad", False) for x in tensors):
        return
    assert gradcheck(
        function,
        tuple(tensors),
        check_grad_dtypes=name != "_to_copy",
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=not mode.is_compiled,
        fast_mode=mode.is_compiled,
        nondet_tol=1e-12,
    )


# --- the chain rule ---

_SHAPES = [(), (3,), (2, 3), (2, 1, 3), (1, 2, 2, 2)]


@pytest.mark.row("D1")
@pytest.mark.parametrize("shape", _SHAPES, ids=str)
def test_backward_is_the_vector_jacobian_product(shape: tuple[int, ...], mode: Mode) -> None:
    rng = np.random.default_rng(len(shape))
    point, vector = rng.uniform(0.5, 1.5, shape), rng.standard_normal(shape)

    def f(w: Any) -> Any:
        return (w * w.sum()).sin() * w.exp()

    def step(w: Any, v: Any) -> Any:
        f(w).backward(v)
        return w.grad

    def make() -> tuple[Any, ...]:
        return jitgrad.tensor(point, requires_grad=True), jitgrad.tensor(vector)

    def value(x: Any) -> Any:
        return np.sin(x * x.sum()) * np.exp(x)

    numeric, eps = np.zeros(shape), 1e-6
    for index in np.ndindex(shape):
        move = np.zeros(shape)
        move[index] = eps
        numeric[index] = ((value(point + move) - value(point - move)) * vector).sum() / (2 * eps)
    np.testing.assert_allclose(mode.run(step, make).numpy(), numeric, rtol=1e-7, atol=1e-9)


@pytest.mark.row("D2")
def test_a_scalar_with_one_is_the_whole_gradient(mode: Mode) -> None:
    def step(x: Any) -> Any:
        (x * x * x).sum().backward(jitgrad.tensor(1.0))
        implicit = grad((x * x * x).sum(), x)[0]
        return x.grad, implicit, jacobian(lambda x: (x * x * x).sum(), x)

    for got in mode.run(step, lambda: (_leaf(1, -2, 3),)):
        _equal(got, [3, 12, 27])


@pytest.mark.row("D3")
def test_one_more_operation_multiplies_by_its_jacobian(mode: Mode) -> None:
    ops: list[Callable[[Any], Any]] = [lambda x: x * x.sum(), lambda y: y.exp(), lambda z: z.cumsum(0)]

    def step(x: Any, v: Any) -> Any:
        whole, jacobians, y = [], [], x.detach()
        for op in ops:
            jacobians.append(jacobian(op, y))
            y = op(y)
        for count in (1, 2, 3):
            y = x
            for op in ops[:count]:
                y = op(y)
            whole.append(grad(y, x, v)[0])
        return whole, jacobians

    def make() -> tuple[Any, ...]:
        x = jitgrad.tensor([0.1, 0.2, 0.3], dtype=jitgrad.float64, requires_grad=True)
        return x, jitgrad.tensor([1.0, -2.0, 0.5], dtype=jitgrad.float64)

    whole, jacobians = mode.run(step, make)
    j1, j2, j3 = (j.numpy() for j in jacobians)
    v = np.array([1.0, -2.0, 0.5])
    for got, want in zip(whole, (v @ j1, v @ j2 @ j1, v @ j3 @ j2 @ j1), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


@pytest.mark.row("D6", engine=HOOKED)
def test_an_in_place_operation_is_one_more_link_of_the_chain(mode: Mode) -> None:
    def step(x: Any) -> Any:
        z = x * 3
        z.exp_()
        names = (z.grad_fn.name(), z.grad_fn.next_functions[0][0].name())
        ends = z.grad_fn.next_functions[0][0].next_functions[0][0].name()
        (inside,) = grad(z.sum(), x)
        (outside,) = grad((x * 3).exp().sum(), x)
        return names, ends, inside, outside

    names, ends, inside, outside = mode.run(step, lambda: (_leaf(0, 0.5),), is_steady=False)
    assert names == ("ExpBackward0", "MulBackward0")
    assert ends == "torch::autograd::AccumulateGrad"
    _equal(inside, 3 * np.exp([0, 1.5]))
    _equal(outside, 3 * np.exp([0, 1.5]))


# --- zeros ---


@pytest.mark.row("D14")
def test_zero_and_independent_differ_only_where_something_is_infinite(mode: Mode) -> None:
    def step(x: Any, y: Any) -> Any:
        (x * 2)[1].backward()  # x[0] is independent, and gets the zero of the select
        (y.sqrt())[1].backward()  # the same zero, times an infinite slope
        return x.grad, y.grad

    finite, infinite = mode.run(step, lambda: (_leaf(0, 1), _leaf(0, 1)))
    _equal(finite, [0, 2])
    _equal(infinite, [NAN, 0.5])


@pytest.mark.row("D15")
def test_a_zero_is_spelled_as_zeros(mode: Mode) -> None:
    def step(x: Any) -> Any:
        return grad((x * 0).sum(), x)[0], grad((x * x).sum(), _other, materialize_grads=True)[0]

    _other = _leaf(7)
    zeros, materialized = mode.run(step, lambda: (_leaf(1, 2),))
    _equal(zeros, [0, 0])
    _equal(materialized, [0])


@pytest.mark.row("D15")
def test_a_zero_is_spelled_as_none(mode: Mode) -> None:
    def step(x: Any, y: Any) -> Any:
        g = grad((x * x).sum(), (x, y), allow_unused=True)
        (x * x).sum().backward()
        return g, x.grad, y.grad

    (gx, gy), x_grad, y_grad = mode.run(step, lambda: (_leaf(1, 2), _leaf(3)))
    assert gy is None
    assert y_grad is None
    _equal(gx, [2, 4])
    _equal(x_grad, [2, 4])


class _Undefined(jitgrad.autograd.Function):
    """Its second output's gradient may be undefined, and the gradient it returns is."""

    seen: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any) -> Any:
        _Undefined.seen = (a is None, b is None)


@pytest.mark.row("D15", engine=OUTSIDE)
def test_a_zero_is_spelled_as_undefined(mode: Mode) -> None:
    def step(x: Any) -> Any:
        first, _ = _Undefined.apply(x)
        return grad((first * x).sum() + (x * 0).sum(), x)[0]

    got = mode.run(step, lambda: (_leaf(1, 2),), is_steady=False)
    _equal(got, [2, 4])  # of first * x, only the factor outside counts
    assert _Undefined.seen == (False, True)


@pytest.mark.row("D15", engine=(UNRECORDABLE, HOOKED))
def test_a_zero_is_spelled_as_an_error(mode: Mode) -> None:
    def step(x: Any, y: Any) -> Any:
        with pytest.raises(RuntimeError, match="at index 1 appears to not have been used in the graph"):
            grad((x * x).sum(), (x, y))
        return grad((x * x).sum(), x)[0]  # the next call works

    _equal(mode.run(step, lambda: (_leaf(1, 2), _leaf(3))), [2, 4])


# --- conventions, in order of their rules ---

_CONVENTIONS: list[Any] = [
    # rule 1: where the function is undefined, so is its derivative; log keeps to its formula
    pytest.param(lambda x: x.sqrt(), [-1], [NAN], id="sqrt-outside", marks=pytest.mark.row("D16")),
    pytest.param(lambda x: x.log(), [-1], [-1], id="log-outside", marks=pytest.mark.row("D16")),
    # rule 3: a convex function's subgradient of the smallest norm
    pytest.param(lambda x: x.relu(), [-1, 0, 1], [0, 0, 1], id="relu", marks=pytest.mark.row("D18")),
    pytest.param(lambda x: x.abs(), [-1, 0, 1], [-1, 0, 1], id="abs", marks=pytest.mark.row("D18")),
    pytest.param(lambda x: x.norm(), [0, 0], [0, 0], id="norm", marks=pytest.mark.row("D18")),
    pytest.param(lambda x: x.max(), [3, 1, 3], [0.5, 0, 0.5], id="max", marks=pytest.mark.row("D18")),
    pytest.param(
        lambda x: functions.maximum(x, jitgrad.tensor([3.0, 5.0])), [3, 2], [0.5, 0], id="maximum",
        marks=pytest.mark.row("D18"),
    ),
    # rule 4: continuity, infinite if need be
    pytest.param(lambda x: x.sqrt(), [0, 4], [INF, 0.25], id="sqrt-zero", marks=pytest.mark.row("D19")),
    # a composition follows its parts
    pytest.param(lambda x: (x * x).sum().sqrt(), [0, 0], [NAN, NAN], id="root", marks=pytest.mark.row("D20")),
    pytest.param(lambda x: x.relu() - (-x).relu(), [0, 2], [0, 1], id="identity", marks=pytest.mark.row("D20")),
]  # fmt: skip


@pytest.mark.parametrize(("function", "point", "want"), _CONVENTIONS)
def test_conventions(function: Callable[[Any], Any], point: list[float], want: list[float], mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = function(x)
        y.backward(jitgrad.ones_like(y))
        return x.grad

    _equal(mode.run(step, lambda: (_leaf(*point),)), want)


@pytest.mark.parametrize(("function", "point", "want"), _CONVENTIONS)
def test_conventions_in_forward_mode(
    function: Callable[[Any], Any], point: list[float], want: list[float], mode: Mode
) -> None:
    """Along (1, 1, ...), which is the sum of the gradient."""

    def step(x: Any) -> Any:
        return jitgrad.func.jvp(lambda x: function(x).sum(), (x,), (jitgrad.ones_like(x),))[1]

    _equal(mode.run(step, lambda: (jitgrad.tensor([float(v) for v in point]),)), np.sum(want))
