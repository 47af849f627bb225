"""Every table entry against itself and against PyTorch: shapes, values, lowerings, derivatives to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.primitives.builder import Builder
from jitgrad.door import door
from jitgrad.dtypes import from_numpy_dtype
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager.numpy_rule import run_numpy
from tests.codegen import interpreter
from tests.ops.op_specs import NO_DERIVATIVE, ONE_DERIVATIVE, SPECS, Sample

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

EAGER_ONLY = {
    "as_strided": "reads the storage through a layout of its own",
    "as_strided_backward": "as as_strided",
    "as_strided_again": "as as_strided",
    "as_strided_scatter": "as as_strided",
    "logcumsumexp": "no primitive: each step takes a logarithm",
    **dict.fromkeys("frexp gcd lcm nextafter".split(), "no primitive"),
    "isclose": "a test helper",
    "linspace": "made once, from both ends: not worth a kernel",
    "masked_scatter": "which element goes where depends on the mask",
    "masked_scatter_backward": "as masked_scatter",
}
EAGER_ONLY |= dict.fromkeys("mode nanmedian nanmedian_dim".split(), "which rank is wanted depends on the values")
EAGER_ONLY |= dict.fromkeys(
    "_linalg_eigh _linalg_svd linalg_eig linalg_matrix_exp linalg_pinv linalg_pinv_rank".split(),
    "LAPACK, through NumPy",
)
EAGER_ONLY |= dict.fromkeys(("_ctc_loss", "_ctc_loss_backward"), "sums over paths, step by step through time")
EAGER_ONLY |= dict.fromkeys(
    "_conj complex conj_physical polar view_as_complex view_as_real _fft_c2c _fft_c2r _fft_r2c fft_c2r_backward "
    "fft_r2c_backward".split(),
    "traces hold no complex numbers",
)
EAGER_ONLY |= dict.fromkeys("histc isin searchsorted".split(), "as sort, which they are made of")
OPS.load()
CASES = [pytest.param(name, s, id=f"{name}-{i}") for name, samples in SPECS.items() for i, s in enumerate(samples)]
WITH_TORCH = [case for case in CASES if case.values[1].torch is not None]  # type: ignore[union-attr]
EXTRA_UNARY = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh}


def _flat(inputs: tuple[Any, ...]) -> list[Any]:
    return [x for item in inputs for x in (item if isinstance(item, list) else [item])]


def _aval(x: Any) -> Any:
    return make_aval(x.shape, from_numpy_dtype(x.dtype)) if isinstance(x, np.ndarray) else x


def _as(dtype: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs with floating arrays in ``dtype``."""

    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(y) for y in x]
        return x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x

    return tuple(one(x) for x in inputs)


def _out_avals(name: str, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> tuple[Aval, ...]:
    avals = tuple([_aval(y) for y in x] if isinstance(x, list) else _aval(x) for x in inputs)
    out = OPS[name].aval(*avals, *params)
    return out if isinstance(out, tuple) else (out,)


def test_every_operation_has_a_sample() -> None:
    assert sorted(OPS) == sorted(SPECS)


def test_what_only_runs_eagerly_says_why() -> None:
    assert {name for name, op in OPS.items() if op.lower is None} == set(EAGER_ONLY)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "sample"), CASES)
def test_numpy_rule_has_the_shape_and_dtype_of_the_aval(name: str, sample: Sample, dtype: Any) -> None:
    op = OPS[name]
    if op.numpy is None:
        pytest.skip("a view")
    inputs = _as(dtype, sample.inputs)
    avals = _out_avals(name, inputs, sample.params)
    with np.errstate(all="ignore"):
        raw = op.numpy(*inputs, *sample.params)
    for got, aval in zip(raw if isinstance(raw, tuple) else (raw,), avals, strict=True):
        assert np.shape(got) == aval.shape
        assert np.asarray(got).dtype == aval.dtype.np


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "sample"), CASES)
def test_lowering_means_the_same_as_the_numpy_rule(
    name: str, sample: Sample, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = OPS[name]
    avals = [_aval(x) if isinstance(x, np.ndarray) else None for x in _as(dtype, sample.inputs)]
    if not op.has_lowering(avals, sample.params):
        pytest.skip("runs eagerly only")
    for key, function in EXTRA_UNARY.items():
        monkeypatch.setitem(interpreter.UNARY, key, function)
    inputs = _as(dtype, sample.inputs)
    b, arrays = Builder(), {}

    def value(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        arrays[len(arrays)] = x
        return b.input(len(arrays) - 1, _aval(x))

    values = [[value(y) for y in x] if isinstance(x, list) else value(x) for x in inputs]
    lowered = op.lower(b, *values, *sample.params)
    roots = lowered if isinstance(lowered, tuple) else (lowered,)
    avals = _out_avals(name, inputs, sample.params)
    assert [(r.shape, r.dtype) for r in roots] == [(a.shape, a.dtype) for a in avals]
    if op.numpy is None:  # a view: its layout says what it means
        outputs = _outputs(door.apply(op, *_tensors(jitgrad.functions.tensor, inputs, False), *sample.params))
        expected = [out.numpy() for out in outputs]
    else:
        expected = run_numpy(op, list(inputs[0]) if op.num_inputs < 0 else list(inputs), sample.params, avals)
    try:
        found = interpreter.evaluate(roots, arrays)
    except np.linalg.LinAlgError:  # kernels report bad data, and the NumPy rule takes their place
        assert op.falls_back
        return
    for got, want in zip(found, expected, strict=True):
        tol = 1e-12 if got.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol)


def _tensors(make: Any, inputs: tuple[Any, ...], requires_grad: bool) -> list[Any]:
    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(y) for y in x]
        if not isinstance(x, np.ndarray):
            return x
        out = make(x)
        return out.requires_grad_() if requires_grad and x.dtype.kind == "f" else out

    return [one(x) for x in inputs]


def _outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def _both(name: str, sample: Sample, dtype: Any, requires_grad: bool = False) -> tuple[Any, Any, list[Any], list[Any]]:
    """(our outputs, torch's, our inputs, torch's)."""
    assert sample.torch is not None
    inputs = _as(dtype, sample.inputs)
    ours = _tensors(jitgrad.functions.tensor, inputs, requires_grad)
    theirs = _tensors(torch.tensor, inputs, requires_grad)
    got = _outputs(door.apply(OPS[name], *ours, *sample.params))
    want = _outputs(sample.torch(torch, *theirs))
    return got, want, _flat(tuple(ours)), _flat(tuple(theirs))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "sample"), WITH_TORCH)
def test_values_shapes_and_dtypes_are_torchs(name: str, sample: Sample, dtype: Any) -> None:
    got, want, _, _ = _both(name, sample, dtype)
    for x, y in zip(got, want, strict=False):
        if name.startswith("native_layer_norm") and x.dtype is not jitgrad.float64:
            y = y.reshape(x.shape)
        assert tuple(x.shape) == tuple(y.shape)
        assert x.dtype.name == str(y.dtype).removeprefix("torch.")
        tol = 3e-6 if x.dtype.to_real().itemsize == 4 else 1e-13
        if name == "linalg_matrix_exp" and dtype is np.float32:
            tol = 1e-5  # PyTorch sums few terms where the norm is small; ours is computed in float64
        if name == "linalg_pinv" and dtype is np.float32:
            tol = 3e-5  # of a matrix that is nearly singular, where LAPACK rounds otherwise from one CPU to the next
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=tol, atol=tol)


def _weights(like: Any) -> Any:
    return np.asarray(np.random.default_rng(3).uniform(0.5, 1.5, tuple(like.shape)))


def _weighted_sum(outputs: list[Any], make: Any) -> Any:
    """A scalar that depends on every floating output, differently on each element."""
    total = 0
    for out in outputs:
        if out.requires_grad:
            terms = out * make(_weights(out))
            total = total + (terms.real + 2 * terms.imag if out.is_complex() else terms).sum()
    return total


def _leaves(inputs: list[Any]) -> list[Any]:
    return [x for x in inputs if getattr(x, "requires_grad", False)]


def _assert_same_grads(got: Any, want: Any) -> None:
    for x, y in zip(got, want, strict=True):
        a = np.zeros(()) if x is None else x.detach().numpy()
        b = np.zeros(()) if y is None else y.detach().numpy(force=True)
        np.testing.assert_allclose(a + 0 * b, b + 0 * a, rtol=1e-9, atol=1e-10)


_NOT_IMPLEMENTED = r"derivative for ('?[\w:]+( input)?'?) is not implemented"


@pytest.mark.parametrize(("name", "sample"), WITH_TORCH)
def test_derivatives_are_torchs_to_second_order(name: str, sample: Sample) -> None:
    got, want, ours, theirs = _both(name, sample, np.float64, requires_grad=True)
    if name.startswith(("native_layer_norm", "native_group_norm")):
        got, want = got[:1], want[:1]  # PyTorch ignores the gradients of the statistics
    if name in NO_DERIVATIVE:
        for result, tensor in ((got, jitgrad.functions.tensor), (want, torch.tensor)):
            if result[0].requires_grad:
                with pytest.raises(RuntimeError, match=_NOT_IMPLEMENTED):
                    _weighted_sum(result, tensor).backward()
        return
    pairs = [(x, y) for x, y in zip(_leaves(ours), _leaves(theirs), strict=True)]
    if not any(y.requires_grad for y in want):
        assert not any(x.requires_grad for x in got)
        return
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    if name == "nll_loss_weighted":
        xs, ys = xs[:1], ys[:1]
    first = jitgrad.autograd.grad(
        _weighted_sum(got, jitgrad.functions.tensor), xs, create_graph=True, allow_unused=True
    )
    expected = torch.autograd.grad(_weighted_sum(want, torch.tensor), ys, create_graph=True, allow_unused=True)
    _assert_same_grads(first, expected)
    if name in ONE_DERIVATIVE:
        for (gradient, *_), leaves, grad in ((first, xs, jitgrad.autograd.grad), (expected, ys, torch.autograd.grad)):
            with pytest.raises(RuntimeError, match="is not implemented"):
                grad(gradient.sum(), leaves, allow_unused=True)
        return
    square = sum((g * g).sum() for g in first if g is not None)
    their_square = sum((g * g).sum() for g in expected if g is not None)
    if not getattr(square, "requires_grad", False):
        # a constant first derivative: PyTorch may still track it, with zeros as its derivative
        if getattr(their_square, "requires_grad", False):
            zeros = torch.autograd.grad(their_square, ys, allow_unused=True)
            assert all(z is None or not z.any() for z in zeros)
        return
    if name == "hardsigmoid":  # PyTorch has no second derivative
        assert not any(g.any() for g in jitgrad.autograd.grad(square, xs))
        return
    second = jitgrad.autograd.grad(square, xs, allow_unused=True)
    _assert_same_grads(second, torch.autograd.grad(their_square, ys, allow_unused=True))


COMPILED = [case for case in WITH_TORCH if case.values[0] not in NO_DERIVATIVE]  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "sample"), COMPILED)
def test_compiled_results_and_gradients_are_the_eager_ones(name: str, sample: Sample) -> None:
    inputs = _as(np.float32, sample.inputs)

    def step(*tensors: Any) -> Any:
        outputs = _outputs(door.apply(OPS[name], *tensors, *sample.params))
        total = _weighted_sum(outputs, lambda a: jitgrad.functions.tensor(a, jitgrad.float32))
        if getattr(total, "requires_grad", False):
            total.backward()
        return [out.detach() for out in outputs]

    def run(function: Any) -> list[Any]:
        tensors = _tensors(jitgrad.functions.tensor, inputs, True)
        outputs = function(*tensors)
        grads = [x.grad for x in _leaves(_flat(tuple(tensors)))]
        return [None if x is None else x.numpy() for x in (*outputs, *grads)]

    compiled = jitgrad.compile(step)
    expected = run(step)
    for _ in range(2):
        for x, y in zip(run(compiled), expected, strict=True):
            assert (x is None) == (y is None)
            if x is not None:
                np.testing.assert_allclose(x, y, rtol=3e-5, atol=1e-5)
