"""Numbers among an operation's arguments: -0.0 is not 0.0, also after a call with 0.0 (Note [Minus zero]); NumPy's
numbers are as good as Python's, also before a call with those, and have the same kernels."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional as F
from jitgrad.dtypes import MINUS_ZERO, float_param

_PASSED_ON: dict[str, Callable[[Any, float], Any]] = {
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "threshold": lambda x, v: F.threshold(x, 2.0, v),
    "threshold_": lambda x, v: F.threshold_(x.clone(), 2.0, v),
    "nan_to_num": lambda x, v: (x * math.nan).nan_to_num(v),
    "posinf": lambda x, v: (x * -math.inf).nan_to_num(posinf=v),
    "nan_to_num_": lambda x, v: (x * math.inf).nan_to_num_(neginf=v),
    "hardtanh": lambda x, v: F.hardtanh(x, v, 1.0),
    "hardtanh, upper": lambda x, v: F.hardtanh(-x, -1.0, v),
    "hardtanh_": lambda x, v: F.hardtanh_(x.clone(), v, 1.0),
    "leaky_relu": lambda x, v: -F.leaky_relu(x, v),
    "elu": lambda x, v: -F.elu(x, v),
    "softplus": lambda x, v: F.softplus(x, v),
    "full_like": lambda x, v: jitgrad.full_like(x, v),
    "fill_": lambda x, v: x.clone().fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(x < 0, v),
    "mul": lambda x, v: -x * v,
    "where": lambda x, v: jitgrad.where(x < 0, v, x),
    "clamp": lambda x, v: x.clamp(min=v),
}
"""Functions of a number below 0 and of a zero, whose first element has the zero's sign."""


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("name", _PASSED_ON)
def test_the_sign_of_zero_is_kept(name: str, is_compiled: bool) -> None:
    function = _PASSED_ON[name]
    step = jitgrad.compile(lambda x, v: function(x, v)) if is_compiled else function
    x = jitgrad.tensor([-3.0, -1.0, -2.0])
    for zero in (0.0, 0.0, 0.0, -0.0, -0.0, -0.0, 0.0, -0.0, np.float64(-0.0), np.float64(0.0)):
        assert np.signbit(step(x, zero).numpy()[0]) == np.signbit(zero)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_sign_of_zero_is_kept_by_derivatives(is_compiled: bool) -> None:
    def slope(x: Any, zero: float) -> Any:
        return jitgrad.autograd.grad(F.leaky_relu(x, zero).sum(), x)[0]

    step = jitgrad.compile(slope) if is_compiled else slope
    x = jitgrad.tensor([-3.0, -1.0], requires_grad=True)
    for zero in (0.0, 0.0, 0.0, -0.0, -0.0, -0.0, 0.0):
        assert np.signbit(step(x, zero).numpy()).all() == np.signbit(zero)


def test_minus_zero_is_a_float_that_equals_itself() -> None:
    assert float_param(-0.0) is float_param(np.float64(-0.0)) is MINUS_ZERO
    assert (MINUS_ZERO + 0.0).hex() == "0x0.0p+0"
    assert (MINUS_ZERO * 1.0).hex() == "-0x0.0p+0"
    assert {0.0: "plus", MINUS_ZERO: "minus"} == {MINUS_ZERO: "minus", 0.0: "plus"}
    assert (1, MINUS_ZERO) != (1, 0.0)
    assert pickle.loads(pickle.dumps(MINUS_ZERO)) is copy.deepcopy(MINUS_ZERO) is MINUS_ZERO
    for other in (0.0, 0, 1.5, None, True, math.nan, "0"):
        assert float_param(other) is other


# --- numbers of NumPy's ---

_X = jitgrad.randn(2, 3, 4, generator=jitgrad.Generator().manual_seed(1))
_WITH_FLOATS: dict[str, Callable[[Any], Any]] = {
    "full_like": lambda v: jitgrad.full_like(_X, v),
    "full": lambda v: jitgrad.full((3,), v),
    "masked_fill": lambda v: _X.masked_fill(_X > 0, v),
    "where": lambda v: jitgrad.where(_X > 0, _X, v),
    "clamp": lambda v: _X.clamp(v),
    "clamp, both": lambda v: jitgrad.clamp(_X, min=-v, max=v),
    "threshold": lambda v: F.threshold(_X, v, v),
    "lerp": lambda v: jitgrad.lerp(_X, -_X, v),
    "index_fill_": lambda v: _X.clone().index_fill_(0, jitgrad.tensor([0]), v),
    "addcmul": lambda v: jitgrad.addcmul(_X, _X, _X, value=v),
    "alpha": lambda v: _X.add(_X, alpha=v),
    "fill_": lambda v: _X.clone().fill_(v),
    "logit": lambda v: jitgrad.logit(_X.sigmoid(), v),
    "scatter": lambda v: _X.scatter(0, jitgrad.zeros(1, 1, 1, dtype=jitgrad.int64), v),
    "scatter, add": lambda v: _X.scatter(0, jitgrad.zeros(1, 1, 1, dtype=jitgrad.int64), v, reduce="add"),
    "pad": lambda v: F.pad(_X, (1, 1), value=v),
    "mul": lambda v: _X * v,
}
_WITH_INTS: dict[str, Callable[..., Any]] = {
    "permute": lambda a, b, c: _X.permute(c, a, b),
    "permute, a row": lambda a, b, c: _X.permute((b, a, c)),
    "flip": lambda a, b, c: _X.flip(a, c),
    "sum": lambda a, b, c: _X.sum((a, c)),
    "sum, one": lambda a, b, c: _X.sum(b),
    "mean": lambda a, b, c: _X.mean([b, c]),
    "amax": lambda a, b, c: _X.amax(dim=(a, b)),
    "logsumexp": lambda a, b, c: _X.logsumexp((b, c)),
    "vector_norm": lambda a, b, c: jitgrad.linalg.vector_norm(_X, dim=b),
    "any": lambda a, b, c: (_X > 0).any((a, b)),
    "squeeze": lambda a, b, c: _X[:1, :, :1].squeeze((a, c)),
    "squeeze, one by one": lambda a, b, c: _X[:1, :, :1].squeeze(a, c),
    "squeeze_": lambda a, b, c: _X[:1, :, :1].clone().squeeze_(a, c),
    "count_nonzero": lambda a, b, c: _X.count_nonzero(a, b),
    "count_nonzero, all": lambda a, b, c: _X.count_nonzero(),
    "reshape": lambda a, b, c: _X.reshape(c + 2, b + 5),
    "view": lambda a, b, c: _X.view(c + 2, -b, c),
    "expand": lambda a, b, c: _X[:1].expand(c, -b, 4),
    "repeat": lambda a, b, c: _X.repeat(b, c, c),
    "zeros": lambda a, b, c: jitgrad.zeros(b, c),
    "ones, one": lambda a, b, c: jitgrad.ones(c),
    "new_zeros": lambda a, b, c: _X.new_zeros((c, b)),
    "resize_": lambda a, b, c: jitgrad.zeros(3).resize_(c),
    "sum_to_size": lambda a, b, c: jitgrad.ones(3, 3).sum_to_size(b + 2),
    "transpose": lambda a, b, c: _X.transpose(a, c),
    "select": lambda a, b, c: _X.select(a, b),
    "index": lambda a, b, c: _X[a, b:, c],
}


def _same_with_numpys(function: Callable[..., Any], numbers: tuple[Any, ...], kind: Any, is_compiled: bool) -> None:
    """In turns, so that what one kind of numbers leaves is there when the other kind comes."""
    step = jitgrad.compile(lambda *numbers: function(*numbers)) if is_compiled else function
    numpys = tuple(map(kind, numbers))
    found = [step(*given).numpy().copy() for given in (numpys, numbers, numpys, numpys, numbers, numpys)]
    assert all(x.shape == found[1].shape and x.dtype == found[1].dtype for x in found)
    assert all(np.array_equal(x, found[1], equal_nan=True) for x in found)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", _WITH_FLOATS)
def test_floats_of_numpys_are_as_good_as_pythons(name: str, kind: Any, is_compiled: bool) -> None:
    _same_with_numpys(_WITH_FLOATS[name], (0.25,), kind, is_compiled)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("name", _WITH_INTS)
def test_ints_of_numpys_are_as_good_as_pythons(name: str, kind: Any, is_compiled: bool) -> None:
    function = _WITH_INTS[name]
    if kind is np.uint8 and "-" in inspect.getsource(function):
        kind = np.int8
    _same_with_numpys(function, (0, 1, 2), kind, is_compiled)


# --- all of PyTorch's functions ---


def _places(call: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where a call has a number, and which: ("args", index, number) or ("kwargs", name, number)."""
    for kind, arguments in (("args", enumerate(call.args)), ("kwargs", call.kwargs.items())):
        yield from ((kind, at, x) for at, x in arguments if type(x) in (int, float))


def _outputs(call: Any, kind: str, at: Any, number: Any) -> list[Any] | None:
    """The results with another number in a place; None if there are none."""
    from opinfo.calls import tensors_of

    arguments = dict(call.kwargs) if kind == "kwargs" else list(call.args)
    arguments[at] = number
    call = call._replace(**{kind: arguments if kind == "kwargs" else tuple(arguments)})
    try:
        return [x.detach().numpy(force=True) for x in tensors_of(call.t, call.run())]
    except Exception:
        return None


def _signs(arrays: list[Any] | None) -> list[Any] | None:
    return arrays and [np.signbit(x) for x in arrays if x.dtype.kind == "f"]


def _differ(a: list[Any] | None, b: list[Any] | None) -> bool:
    return a is not None and b is not None and any(x.tobytes() != y.tobytes() for x, y in zip(a, b, strict=False))


def _samples() -> Iterator[tuple[str, Any]]:
    from opinfo.checks import DTYPES, operations, pairs
    from opinfo.differences import LEFT_OUT

    float32 = DTYPES["float32"]
    for name, op in operations().items():
        if float32 in op.dtypes and op.name not in LEFT_OUT:
            yield from ((name, pair) for pair in pairs(op, float32, limit=4))


@pytest.mark.filterwarnings("ignore")
def test_where_pytorch_tells_the_zeros_apart_so_do_we() -> None:
    """Each number of each kind of PyTorch's own samples becomes 0.0, then -0.0."""
    pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    pytest.importorskip("expecttest", reason="PyTorch's table imports it")
    wrong, asked = [], set()
    for name, pair in _samples():
        theirs = pair.theirs()
        for kind, at, _ in _places(theirs):
            if _differ(*(_signs(_outputs(theirs, kind, at, zero)) for zero in (0.0, -0.0))):
                plus, minus = (_signs(_outputs(pair.ours(), kind, at, zero)) for zero in (0.0, -0.0))
                if plus is not None and not _differ(plus, minus):
                    wrong.append((name, at))
                asked.add(name)
    assert wrong == []
    assert {"nn.functional.threshold", "nn.functional.pad/constant", "full", "copysign"} <= asked


@pytest.mark.filterwarnings("ignore")
def test_where_pytorch_takes_numbers_of_numpys_so_do_we() -> None:
    pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    pytest.importorskip("expecttest", reason="PyTorch's table imports it")
    wrong, asked = [], 0
    for name, pair in _samples():
        theirs = pair.theirs()
        for kind, at, number in _places(theirs):
            numpys = (np.float64 if type(number) is float else np.int64)(number)
            if _outputs(theirs, kind, at, numpys) is None:
                continue
            ours = _outputs(pair.ours(), kind, at, numpys)
            if ours is None or _differ(ours, _outputs(pair.ours(), kind, at, number)):
                wrong.append((name, at))
            asked += 1
    assert wrong == []
    assert asked > 500
