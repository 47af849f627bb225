"""Functions and methods: two spellings of the same thing; names that exist, and names that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modes import NO_LOWERING, Mode

import jitgrad
from jitgrad import Tensor, functions

_rng = np.random.default_rng(5)


def t(*shape: int, low: float = 0.2, high: float = 0.9) -> Any:
    return _rng.uniform(low, high, shape)


def i(*shape: int, high: int = 3) -> Any:
    return _rng.integers(0, high, shape)


_A, _B = t(3, 4), t(3, 4)
_SQUARE = t(3, 3) + 2 * np.eye(3)
_BITS, _MASK = i(3, 4, high=8), t(3, 4) < 0.5

UNARY = (
    "abs absolute acos all amax amin any arccos arcsin arctan argmax argmin asin atan ceil clone contiguous cos cosh "
    "count_nonzero detach erf exp exp2 expm1 flatten floor isfinite isinf isnan log log10 log1p log2 logical_not max "
    "mean min neg negative norm prod ravel reciprocal relu round rsqrt sigmoid sign sin sinh sqrt square squeeze std "
    "sum t tan tanh trace tril triu trunc unbind var nonzero argwhere arcsinh arctanh asinh atanh "
    "deg2rad digamma erfc erfinv fix frac hardshrink i0 isneginf isposinf isreal lgamma logit nan_to_num "
    "aminmax diff nanmean nansum adjoint fliplr flipud positive rad2deg sgn signbit sinc "
    "sort argsort msort median nanmedian mode histc unique unique_consecutive"
).split()
BINARY = (
    "add arctan2 atan2 div divide eq equal allclose floor_divide fmod ge greater greater_equal gt isclose le less "
    "less_equal logaddexp logical_and logical_or logical_xor lt maximum minimum mul multiply ne not_equal pow "
    "remainder sub subtract true_divide expand_as reshape_as view_as copysign float_power fmax fmin heaviside hypot "
    "is_same_size ldexp logaddexp2 nextafter xlogy"
).split()
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **{name: (_A,) for name in UNARY},
    **{name: (_A, _B) for name in BINARY},
    **{f"bitwise_{name}": (_BITS, _BITS[::-1].copy()) for name in ("and", "or", "xor")},
    **{name: (_BITS, _BITS[::-1].copy()) for name in ("gcd", "lcm", "bitwise_left_shift", "bitwise_right_shift")},
    "bitwise_not": (_BITS,),
    **{f"is_{kind}": (t(1),) for kind in ("complex", "floating_point", "nonzero", "signed")},
    **dict.fromkeys(["acosh", "arccosh"], (1 + _A,)),
    "addcdiv": (_A, _B, t(3, 4)),
    "addcmul": (_A, _B, t(3, 4)),
    "addmm": (t(3, 5), t(3, 4), t(4, 5)),
    **dict.fromkeys("cholesky_inverse det inverse logdet matrix_exp pinverse qr slogdet svd".split(), (_SQUARE,)),
    "cholesky": (_SQUARE @ _SQUARE.T,),
    "cholesky_solve": (t(3, 2), _SQUARE),
    "cross": (_A, _B, 0),
    "lu_solve": (t(3, 2), _SQUARE, np.array([1, 3, 3], np.int32)),
    "matrix_power": (_SQUARE, 3),
    "triangular_solve": (t(3, 2), _SQUARE),
    "bincount": (i(5),),
    "histogram": (_A, 3),
    "kthvalue": (_A, 2),
    "nanquantile": (_A, 0.3, 1),
    "quantile": (_A, 0.3, 1),
    "topk": (_A, 2),
    "as_strided": (_A, (2, 2), (1, 2)),
    "as_strided_scatter": (_A, t(2, 2), (2, 2), (4, 1)),
    "bmm": (t(2, 3, 4), t(2, 4, 3)),
    "broadcast_to": (t(1, 4), (3, 4)),
    "chunk": (_A, 2, 1),
    "clamp": (_A, 0.3, 0.6),
    "clamp_max": (_A, 0.6),
    "clamp_min": (_A, 0.3),
    "clip": (_A, 0.3, 0.6),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"), (_A, 1)),
    "diagonal": (_A,),
    "diagonal_scatter": (_A, t(3)),
    "addbmm": (t(3, 5), t(2, 3, 4), t(2, 4, 5)),
    "addmv": (t(3), t(3, 4), t(4)),
    "addr": (t(3, 4), t(3), t(4)),
    "baddbmm": (t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)),
    "dist": (_A, _B),
    "ger": (t(3), t(2)),
    "inner": (_A, _B),
    "vdot": (t(3), t(3)),
    "diag": (_A, 1),
    "diag_embed": (_A,),
    "diagflat": (_A,),
    "dot": (t(3), t(3)),
    "dsplit": (t(2, 3, 4), 2),
    "hsplit": (_A, 2),
    "kron": (_A, t(2)),
    "rot90": (_A,),
    "split_with_sizes": (_A, (1, 2)),
    "sum_to_size": (_A, (3, 1)),
    "vsplit": (_A, (1, 2)),
    "expand": (t(1, 4), (3, 4)),
    "flip": (_A, (0, 1)),
    "gather": (_A, 1, i(3, 2)),
    "index_add": (_A, 0, i(2), t(2, 4)),
    "index_copy": (_A, 0, np.array([2, 0]), t(2, 4)),
    "index_fill": (_A, 0, i(2), 7.0),
    "index_put": (_A, [i(2)], t(2, 4)),
    "index_select": (_A, 1, i(2)),
    "lerp": (_A, _B, 0.25),
    "log_softmax": (_A, 1),
    "logsumexp": (_A, 1),
    "masked_fill": (_A, _MASK, 7.0),
    "masked_scatter": (_A, _MASK, t(12)),
    "masked_select": (_A, _MASK),
    "matmul": (t(3, 4), t(4, 2)),
    "mm": (t(3, 4), t(4, 2)),
    "moveaxis": (_A, 0, 1),
    "movedim": (_A, 0, 1),
    "mv": (t(3, 4), t(4)),
    "narrow": (_A, 0, 1, 2),
    "outer": (t(3), t(2)),
    "permute": (_A, (1, 0)),
    "polygamma": (_A, 2),
    "prelu": (_A, t(1)),
    "put": (_A, np.array([1, 5]), t(2)),
    "repeat": (_A, 2, 1),
    "repeat_interleave": (_A, 2, 1),
    "reshape": (_A, (4, 3)),
    "roll": (_A, 1, 0),
    "scatter": (_A, 0, np.array([[0, 1, 2, 0]]), t(1, 4)),
    "scatter_add": (_A, 0, i(2, 4), t(2, 4)),
    "scatter_reduce": (_A, 0, i(2, 4), t(2, 4), "amax"),
    "select": (_A, 0, 1),
    "select_scatter": (_A, t(4), 0, 1),
    "slice_scatter": (_A, t(2, 4), 0, 1, 3),
    "softmax": (_A, 1),
    "split": (_A, 2),
    "swapaxes": (_A, 0, 1),
    "swapdims": (_A, 0, 1),
    "take": (_A, i(5, high=12)),
    "take_along_dim": (_A, i(3, 2), 1),
    "tensor_split": (_A, 2),
    "tile": (_A, (2, 2)),
    "transpose": (_A, 0, 1),
    "unflatten": (_A, 1, (2, 2)),
    "unfold": (_A, 1, 2, 1),
    "unsafe_chunk": (_A, 2),
    "unsafe_split": (_A, 2),
    "unsqueeze": (_A, 0),
    "view": (_A, (4, 3)),
    "where": (_MASK, _A, _B),
}

RANDOM = {"bernoulli", "multinomial"}
"""Two calls give two results; tests/ops/test_random.py has both forms."""

BOTH = sorted((set(functions.METHODS) & set(functions.PUBLIC)) - RANDOM)


def _tensors(name: str) -> tuple[Any, ...]:
    def convert(x: Any) -> Any:
        if isinstance(x, list):
            return [convert(y) for y in x]
        return jitgrad.tensor(x) if isinstance(x, np.ndarray) else x

    return tuple(convert(x) for x in ARGUMENTS[name])


def _as_lists(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return [_as_lists(r) for r in result]
    return result.tolist() if isinstance(result, Tensor) else result


@pytest.mark.row("A3")
def test_mm(mode: Mode) -> None:
    def step():
        a, b = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), jitgrad.tensor([[5.0], [6.0]])
        return jitgrad.mm(a, b), a.mm(b)

    function, method = mode.run(step)
    assert function.tolist() == method.tolist() == [[17], [39]]


@pytest.mark.row("A3", fallbacks=NO_LOWERING)
def test_every_operation_has_both_forms(mode: Mode) -> None:
    def step(name):
        arguments = _tensors(name)
        if name == "where":  # the condition is the function's first argument, and the method's
            condition, a, b = arguments
            return jitgrad.where(condition, a, b), a.where(condition, b)
        if name == "polygamma":
            return jitgrad.polygamma(*arguments[::-1]), arguments[0].polygamma(arguments[1])
        return getattr(jitgrad, name)(*arguments), getattr(arguments[0], name)(*arguments[1:])

    assert [name for name in BOTH if name not in ARGUMENTS] == [], "a sample is missing here"
    for name in BOTH:
        function, method = mode.run(step, lambda name=name: (name,))
        assert _as_lists(function) == _as_lists(method), name


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_a_method_is_the_function(name: str) -> None:
    assert name in BOTH
    same = getattr(Tensor, name) is getattr(jitgrad, name)
    assert same or name in ("where", "polygamma", "detach", "split")  # other order or names of arguments; written out


def test_pytorch_has_no_method_that_is_missing_here() -> None:
    """What is a function here, and a method of PyTorch's, is a method here."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    assert [n for n in functions.PUBLIC if hasattr(torch.Tensor, n) and not hasattr(Tensor, n)] == []


@pytest.mark.row("A3", no_launch="It looks at names.")
def test_exported_names_have_no_outer_underscore(mode: Mode) -> None:
    def step():
        exported = [*jitgrad.__all__, *functions.PUBLIC, *vars(jitgrad.nn)["__all__"], *jitgrad.autograd.__all__]
        return [name for name in exported if name.startswith("_") or name.endswith("_")]

    assert mode.run(step) == []
    missing = [name for name in jitgrad.__all__ if not hasattr(jitgrad, name)]
    assert missing == []


@pytest.mark.row("A3")
def test_an_unknown_name_is_an_attribute_error(mode: Mode) -> None:
    def step():
        x = jitgrad.ones(2)
        messages = []
        for owner, name in ((jitgrad, "mmm"), (x * 2, "mmm"), (functions, "mmm"), (jitgrad, "_add"), (x, "qqqqqq")):
            assert not hasattr(owner, name)
            with pytest.raises(AttributeError) as caught:
                getattr(owner, name)
            messages.append(str(caught.value))
        return messages, (x * 2).sum()

    messages, total = mode.run(step)
    assert messages[0] == "module 'jitgrad' has no attribute 'mmm'. Did you mean: 'mm'?"
    assert messages[1] == "'Tensor' object has no attribute 'mmm'. Did you mean: 'mm'?"
    assert messages[4] == "'Tensor' object has no attribute 'qqqqqq'"
    assert total.item() == 4
