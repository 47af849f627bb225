"""The array API: names and signatures of the standard, values and dtypes of NumPy, which implements it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import array_api as xp
from tests.modes import Mode

SIGNATURES = {
    "(x, /)": "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite "
    "isinf isnan log log10 log1p log2 logical_not matrix_transpose negative nonzero positive real reciprocal round "
    "sign signbit sin sinh sqrt square tan tanh trunc unique_all unique_counts unique_inverse unique_values linalg.det "
    "linalg.eigh linalg.eigvalsh linalg.inv linalg.matrix_transpose linalg.slogdet linalg.svdvals",
    "(x1, x2, /)": "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign "
    "divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or "
    "logical_xor matmul maximum minimum multiply nextafter not_equal pow remainder subtract linalg.matmul "
    "linalg.outer linalg.solve",
    "(x, /, *, axis=None, keepdims=False)": "all any argmax argmin count_nonzero max mean min",
    "(start, /, stop=None, step=1, *, dtype=None, device=None)": "arange",
    "(x, /, *, axis=-1, descending=False, stable=True)": "argsort sort",
    "(obj, /, *, dtype=None, device=None, copy=None)": "asarray",
    "(x, dtype, /, *, copy=True, device=None)": "astype",
    "(*arrays)": "broadcast_arrays",
    "(x, /, shape)": "broadcast_to",
    "(from_, to, /)": "can_cast",
    "(x, /, min=None, max=None)": "clip",
    "(arrays, /, *, axis=0)": "concat stack",
    "(x, /, *, axis=None, dtype=None, include_initial=False)": "cumulative_prod cumulative_sum",
    "(x, /, *, axis=-1, n=1, prepend=None, append=None)": "diff",
    "(shape, *, dtype=None, device=None)": "empty ones zeros",
    "(x, /, *, dtype=None, device=None)": "empty_like ones_like zeros_like",
    "(x, /, axis=0)": "expand_dims",
    "(x, /, axis)": "squeeze",
    "(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)": "eye",
    "(type, /)": "finfo iinfo",
    "(x, /, *, axis=None)": "flip",
    "(x, /, *, device=None, copy=None)": "from_dlpack",
    "(shape, fill_value, *, dtype=None, device=None)": "full",
    "(x, /, fill_value, *, dtype=None, device=None)": "full_like",
    "(dtype, kind)": "isdtype",
    "(start, stop, /, num, *, dtype=None, device=None, endpoint=True)": "linspace",
    "(*arrays, indexing='xy')": "meshgrid",
    "(x, source, destination, /)": "moveaxis",
    "(x, /, axes)": "permute_dims",
    "(x, /, *, axis=None, dtype=None, keepdims=False)": "prod sum",
    "(x, repeats, /, *, axis=None)": "repeat",
    "(x, /, shape, *, copy=None)": "reshape",
    "(*arrays_and_dtypes)": "result_type",
    "(x, /, shift, *, axis=None)": "roll",
    "(x1, x2, /, *, side='left', sorter=None)": "searchsorted",
    "(x, /, *, axis=None, correction=0.0, keepdims=False)": "std var",
    "(x, indices, /, *, axis=None)": "take",
    "(x, indices, /, *, axis=-1)": "take_along_axis",
    "(x1, x2, /, *, axes=2)": "tensordot linalg.tensordot",
    "(x, repetitions, /)": "tile",
    "(x, /, *, k=0)": "tril triu",
    "(x, /, *, axis=0)": "unstack",
    "(x1, x2, /, *, axis=-1)": "vecdot linalg.vecdot linalg.cross",
    "(condition, x1, x2, /)": "where",
    "(x, /, *, upper=False)": "linalg.cholesky",
    "(x, /, *, offset=0)": "linalg.diagonal",
    "(x, /, *, keepdims=False, ord='fro')": "linalg.matrix_norm",
    "(x, n, /)": "linalg.matrix_power",
    "(x, /, *, rtol=None)": "linalg.matrix_rank linalg.pinv",
    "(x, /, *, mode='reduced')": "linalg.qr",
    "(x, /, *, full_matrices=True)": "linalg.svd",
    "(x, /, *, offset=0, dtype=None)": "linalg.trace",
    "(x, /, *, axis=None, keepdims=False, ord=2)": "linalg.vector_norm",
    "()": "__array_namespace_info__",
}
"""The standard's. In 2024.12 ``expand_dims`` takes ``axis`` by its name; later versions by its place, too."""


def _found(name: str) -> Any:
    part, _, name = name.rpartition(".")
    return getattr(xp.linalg if part else xp, name)


def test_signatures_are_the_standards() -> None:
    found = {}
    for names in SIGNATURES.values():
        for name in names.split():
            signature = inspect.signature(_found(name))
            plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
            found[name] = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    assert found == {name: text for text, names in SIGNATURES.items() for name in names.split()}
    constants = {"e", "inf", "nan", "newaxis", "pi", "linalg", "__array_api_version__"}
    dtypes = {"bool", "int8", "int16", "int32", "int64", "uint8", "float32", "float64"}
    assert set(xp.__all__) == {name for name in found if "." not in name} | constants | dtypes
    assert set(xp.linalg.__all__) == {n.removeprefix("linalg.") for n in found if "." in n} | {"matmul"}


def _matrix(t: Any, dtype: Any = None) -> Any:
    return t.asarray([[3.0, -1.5, 2.0], [0.5, 4.0, -2.5]], dtype=dtype or t.float64)


def _square(t: Any) -> Any:
    return t.asarray([[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]], dtype=t.float64)


CALLS: dict[str, Any] = {
    "sum": lambda t: [t.sum(_matrix(t), axis=a, keepdims=k) for a in (None, 0, -1, (0, 1), ()) for k in (False, True)],
    "sum of ints": lambda t: t.sum(t.asarray([1, 2], dtype=t.int32)),
    "sum in a dtype": lambda t: t.sum(t.asarray([1, 2]), dtype=t.float32),
    "prod": lambda t: [t.prod(_matrix(t), axis=a, keepdims=k) for a in (None, 0, (0, 1), ()) for k in (False, True)],
    "mean var std": lambda t: [
        f(_matrix(t), axis=a, keepdims=True) for f in (t.mean, t.var, t.std) for a in (None, 1, (0, 1))
    ],
    "correction": lambda t: t.var(_matrix(t), axis=1, correction=1.0),
    "max min": lambda t: [f(_matrix(t), axis=a) for f in (t.max, t.min) for a in (None, 0, (0, 1))],
    "any all": lambda t: [f(_matrix(t) > 3, axis=a) for f in (t.any, t.all) for a in (None, 0, (0, 1))],
    "any of numbers": lambda t: t.any(t.asarray([0, 2])),
    "argmax": lambda t: [
        f(_matrix(t), axis=a, keepdims=k)
        for f in (t.argmax, t.argmin) for a in (None, 1)
        for k in (False, True)
    ],
    "count_nonzero": lambda t: [t.count_nonzero(t.asarray([[0, 1], [2, 3]]), axis=a) for a in (None, 0, (0, 1))],
    "cumulative": lambda t: [
        f(_matrix(t), axis=1, include_initial=i) for f in (t.cumulative_sum, t.cumulative_prod) for i in (False, True)
    ],
    "cumulative of one axis": lambda t: t.cumulative_sum(t.asarray([1, 2, 3])),
    "clip": lambda t: [t.clip(_matrix(t), -1, 2.5), t.clip(_matrix(t), min=0.0), t.clip(_matrix(t))],
    "clip of ints": lambda t: t.clip(t.asarray([1, 5, 9]), 2, 6),
    "sign": lambda t: t.sign(t.asarray([-2.0, 0.0, 3.0, t.nan])),
    "round": lambda t: t.round(t.asarray([0.5, 1.5, -0.5, 2.3])),
    "numbers beside arrays": lambda t: [t.add(_matrix(t), 1), t.pow(2.0, _matrix(t)), t.maximum(_matrix(t), 0.0)],
    "ints and a number": lambda t: t.multiply(t.asarray([1, 2], dtype=t.int32), 3),
    "promotion without axes": lambda t: t.add(t.ones(2, dtype=t.float32), t.asarray(1.0, dtype=t.float64)),
    "promotion of ints": lambda t: t.add(t.ones(2, dtype=t.uint8), t.asarray([1, 2], dtype=t.int8)),
    "where": lambda t: [t.where(_matrix(t) > 0, _matrix(t), 0.0), t.where(_matrix(t) > 0, 1, _matrix(t))],
    "where of dtypes": lambda t: t.where(
        t.asarray([True, False]), t.ones(2, dtype=t.float32), t.zeros(2, dtype=t.float64)
    ),
    "shifts": lambda t: t.bitwise_left_shift(t.asarray([1, 2]), t.asarray([3, 1])),
    "invert": lambda t: [t.bitwise_invert(t.asarray([1, -2])), t.logical_not(t.asarray([True, False]))],
    "division": lambda t: [f(t.asarray([7, -7]), t.asarray([2, 2])) for f in (t.floor_divide, t.remainder, t.divide)],
    "arange": lambda t: [t.arange(4), t.arange(1, 4), t.arange(5, 0, -2), t.arange(3, 1), t.arange(0.0, 1.0, 0.25)],
    "linspace": lambda t: [t.linspace(0, 1, 5), t.linspace(0, 1, 4, endpoint=False), t.linspace(2, 2, 1)],
    "eye": lambda t: [t.eye(3), t.eye(2, 3, k=1), t.eye(3, 2, k=-1), t.eye(2, k=5)],
    "full": lambda t: [t.full((2, 2), 3), t.full(3, 1.5), t.full_like(t.ones(2, dtype=t.int64), 7), t.zeros((0, 2))],
    "tril triu": lambda t: [t.tril(_square(t), k=-1), t.triu(_square(t), k=1)],
    "meshgrid": lambda t: [*t.meshgrid(t.arange(2), t.arange(3)), *t.meshgrid(t.arange(2), t.arange(3), indexing="ij")],
    "concat": lambda t: [t.concat([_matrix(t), _matrix(t)], axis=1), t.concat([_matrix(t), t.ones(2)], axis=None)],
    "concat of dtypes": lambda t: t.concat([t.ones(1, dtype=t.float32), t.ones(1, dtype=t.float64)]),
    "stack": lambda t: [t.stack([t.arange(2), t.arange(2)], axis=1), *t.unstack(_matrix(t), axis=1)],
    "expand squeeze": lambda t: [t.expand_dims(_matrix(t), axis=1), t.squeeze(t.ones((1, 2, 1)), axis=(0, 2))],
    "flip roll": lambda t: [t.flip(_matrix(t)), t.flip(_matrix(t), axis=0), t.roll(_matrix(t), 1)],
    "roll along an axis": lambda t: t.roll(_matrix(t), 1, axis=1),
    "moving": lambda t: [t.moveaxis(t.ones((2, 3, 4)), 0, -1), t.permute_dims(t.ones((2, 3)), (1, 0))],
    "repeat tile": lambda t: [t.repeat(t.arange(3), 2), t.repeat(_matrix(t), 2, axis=1), t.tile(t.arange(2), (2, 2))],
    "reshape": lambda t: [t.reshape(_matrix(t), (3, 2)), t.reshape(_matrix(t), (-1,), copy=True)],
    "broadcast": lambda t: [*t.broadcast_arrays(t.ones((2, 1)), t.ones(3)), t.broadcast_to(t.arange(3), (2, 3))],
    "sort": lambda t: [t.sort(_matrix(t)), t.sort(_matrix(t), axis=0), t.argsort(_matrix(t))],
    "searchsorted": lambda t: [
        t.searchsorted(t.asarray([1.0, 2.0, 3.0]), t.asarray([2.0, 2.5]), side=s) for s in ("left", "right")
    ],
    "nonzero": lambda t: [*t.nonzero(_matrix(t) > 0)],
    "take": lambda t: [t.take(_matrix(t), t.asarray([2, 0]), axis=1), t.take(t.arange(3), t.asarray([1]))],
    "take_along_axis": lambda t: t.take_along_axis(_matrix(t), t.asarray([[0], [2]]), axis=1),
    "diff": lambda t: [t.diff(_matrix(t)), t.diff(t.arange(5), n=2), t.diff(t.arange(3), prepend=t.asarray([7]))],
    "unique": lambda t: [
        *t.unique_all(t.asarray([[3, 1], [1, 2]])), *t.unique_counts(t.asarray([2, 2, 1])),
        *t.unique_inverse(t.asarray([2, 2, 1])), t.unique_values(t.asarray([2, 2, 1])),
    ],
    "products": lambda t: [
        t.matmul(_matrix(t), _square(t)), t.tensordot(_matrix(t), _square(t), axes=1),
        t.tensordot(_matrix(t), _matrix(t), axes=([0, 1], [0, 1])), t.vecdot(_matrix(t), _matrix(t)),
        t.vecdot(t.asarray([1, 2]), t.asarray([3, 4])), t.matrix_transpose(_matrix(t)),
    ],
    "factors": lambda t: [t.linalg.cholesky(_square(t)), t.linalg.eigh(_square(t)).eigenvalues],
    "eigenvalues": lambda t: t.linalg.eigvalsh(_square(t)),
    "linear systems": lambda t: [
        t.linalg.solve(_square(t), t.ones(3)), t.linalg.solve(_square(t), t.ones((3, 2))), t.linalg.inv(_square(t)),
        t.linalg.det(_square(t)), t.linalg.slogdet(_square(t)).logabsdet, t.linalg.pinv(_matrix(t)),
    ],
    "norms": lambda t: [
        t.linalg.vector_norm(_matrix(t)), t.linalg.vector_norm(_matrix(t), axis=1, ord=1, keepdims=True),
        t.linalg.matrix_norm(_matrix(t)), t.linalg.matrix_norm(_matrix(t), ord=1), t.linalg.svdvals(_matrix(t)),
        t.linalg.svd(_matrix(t), full_matrices=False).S, t.linalg.matrix_rank(_matrix(t)),
    ],
    "diagonals": lambda t: [t.linalg.diagonal(_square(t), offset=1), t.linalg.trace(_square(t))],
    "outer": lambda t: t.linalg.outer(t.arange(2), t.arange(3)),
    "qr": lambda t: [abs(x) for x in t.linalg.qr(_matrix(t))],
    "cross": lambda t: t.linalg.cross(t.asarray([1.0, 2.0, 3.0]), t.asarray([0.0, 1.0, 0.5])),
    "astype": lambda t: [t.astype(_matrix(t), t.int32), t.astype(t.asarray([0.0, 2.0]), t.bool)],
    "isdtype": lambda t: [t.isdtype(d, k) for d in (t.int8, t.uint8, t.bool, t.float32) for k in (
        "bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric", ("bool", "integral"))],
    "can_cast": lambda t: [t.can_cast(t.int32, t.int64), t.can_cast(t.float64, t.float32), t.can_cast(t.int8, t.uint8)],
    "limits": lambda t: [t.finfo(t.float32).eps, t.finfo(t.float64).bits, t.iinfo(t.int8).min, t.iinfo(t.uint8).max],
}  # fmt: skip

UNARY = (
    "abs ceil cos cosh exp expm1 floor isfinite isinf isnan negative positive reciprocal round sign signbit sin sinh "
    "square tan tanh trunc asinh atan"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_elements(name: str) -> None:
    for values in ([[1.5, -0.25], [0.75, -2.5]], [0.0, float("inf"), float("nan")]):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(np.asarray(values))
        found = getattr(xp, name)(xp.asarray(values, dtype=xp.float64))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
        assert found.numpy().dtype == expected.dtype


@pytest.mark.parametrize("name", CALLS)
def test_values_and_dtypes_are_numpys(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = CALLS[name](np)
    found = CALLS[name](xp)
    if not isinstance(expected, list):
        expected, found = [expected], [found]
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if not isinstance(one, jitgrad.Tensor):
            assert one == other
            continue
        other = np.asarray(other)
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-12)
        assert one.numpy().dtype.kind == other.dtype.kind
        if other.dtype.kind != "f":  # a default float is float32 here
            assert one.numpy().dtype == other.dtype


REFUSALS: dict[str, Any] = {
    "squeeze": lambda t: t.squeeze(t.ones((2, 1)), axis=0),
    "nonzero": lambda t: t.nonzero(t.asarray(1)),
    "asarray": lambda t: t.asarray([1, 2], copy=False),
    "take": lambda t: t.take(_matrix(t), t.asarray([0])) if t is xp else t.squeeze(t.ones(2), axis=0),
    "cumulative_sum": lambda t: t.cumulative_sum(_matrix(t)),
    "reshape": lambda t: t.reshape(t.matrix_transpose(_matrix(t)), (6,), copy=False),
    "isdtype": lambda t: t.isdtype(t.int8, "whole"),
    "meshgrid": lambda t: t.meshgrid(t.arange(2), indexing="zz"),
    "matrix_transpose": lambda t: t.matrix_transpose(t.arange(2)),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused(name: str) -> None:
    for t in (xp, np):
        with pytest.raises(ValueError):
            REFUSALS[name](t)


def test_arrays_know_their_namespace() -> None:
    x = xp.ones((2, 3))
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="version"):
        x.__array_namespace__(api_version="1999.1")
    assert x.to_device("vcpu:0").device != x.device
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="real floating") == {"float32": xp.float32, "float64": xp.float64}
    assert set(info.dtypes(kind=("bool", "signed integer"))) == {"bool", "int8", "int16", "int32", "int64"}
    assert info.default_dtypes()["real floating"] is xp.float32
    assert (str(info.default_device()), [str(d) for d in info.devices()]) == ("cpu", ["cpu"])
    assert info.capabilities()["boolean indexing"]
    assert xp.__array_api_version__ == "2024.12"


def test_sort_from_the_largest() -> None:
    x = xp.asarray([2.0, 3.0, 1.0, 3.0])
    assert xp.sort(x, descending=True).tolist() == [3, 3, 2, 1]
    assert xp.argsort(x, descending=True).tolist() == [1, 3, 0, 2], "equal elements stay in their order"


def test_in_a_step(mode: Mode) -> None:
    """Its functions are recorded and differentiated as any others."""

    def step(x: Any) -> Any:
        y = xp.sum(xp.multiply(xp.exp(x), xp.asarray([1.0, 2.0])), axis=0)
        y.backward()
        return x.grad

    grad = mode.run(step, lambda: (jitgrad.tensor([0.0, 0.0], requires_grad=True),))
    assert grad.tolist() == [1, 2]
