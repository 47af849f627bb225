"""Calls with good and bad arguments, for comparing what is accepted and what is raised.

A case is a name, positional and keyword arguments, all described without any library: ``T`` stands for a tensor.
``TEMPLATES`` says what an operation takes; ``cases_of`` draws from it, and puts something else in now and then.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["FUNCTIONAL", "FUNCTIONS", "METHODS", "Case", "Dtype", "T", "cases_of"]


@dataclass(frozen=True)
class T:
    """A tensor: floats between -1 and 1, integers 0, 1, 2, bools in turn."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    requires_grad: bool = False

    def array(self) -> Any:
        count = int(np.prod(self.shape))
        is_floating = self.dtype.startswith("float")
        values = np.sin(1.3 * np.arange(1, count + 1)) if is_floating else (np.arange(count) * 2) % 3
        return (values > 0 if self.dtype == "bool" else values).astype(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Dtype:
    """A dtype of the library."""

    name: str


@dataclass(frozen=True)
class Case:
    name: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        kwargs = [f"{k}={v!r}" for k, v in self.kwargs]
        return f"{self.name}({', '.join([*map(repr, self.args), *kwargs])})"


_SHAPES = [(), (1,), (3,), (4,), (2, 3), (3, 2), (3, 3), (1, 3), (2, 3, 4), (0,), (0, 3), (2, 0)]
_FLOATS = [*(T(s) for s in _SHAPES), T((3,), "float64"), T((), "float64"), T((2, 3), "float64")]
_GRADS = [T(s, "float32", True) for s in ((), (3,), (2, 3), (0,))]
_INTS = [T(s, "int64") for s in ((), (1,), (3,), (2, 3), (0,), (3, 3))] + [T((3,), "int32")]
_BOOLS = [T(s, "bool") for s in ((), (3,), (2, 3), (3, 3), (0,))]
_TENSORS = [*_FLOATS, *_FLOATS, *_GRADS, *_GRADS, *_INTS, *_BOOLS]
_DIMS = [0, 1, -1, -2, 2, 3, -3, -4]
_DIM_LISTS = [*_DIMS, (0,), (0, 1), (1, 0), (-1,), (), (0, 0), (0, 5), [1], [0, -1], None]
_NUMBERS = [0, 1, 2, -1, 0.5, -1.5, True, 3]
_SIZES = [(3,), (2, 3), (6,), (-1,), (3, 2), (1, 6), (2, -1), (-1, -1), (0,), (), (0, -1), (-2,), (4, 6), (2, 2, 3)]
_STRANGE = [None, "x", 1.5, 2, True, (1,), [], (), T((3,)), T((2, 3)), T((), "int64"), T((3,), "bool"), -7, (1.5,), {}]
_LISTS = [
    [T((3,))], [T((3,)), T((3,))], [T((2, 3)), T((1, 3))], [], [T(()), T(())], [T((2, 3)), T((3,))], (T((3,)), None),
    [T((3,)), T((3,), "int64")], [T((0,)), T((2, 3))], [T((3,), "bool"), T((3,), "int64")], [T((3, 2)), T((3, 4))],
    [T((3,)), 2.0], [T((3,), "float32", True), T((3,))],
]  # fmt: skip

POOLS: dict[str, list[Any]] = {
    "t": _TENSORS,
    "f": [*_FLOATS, *_GRADS],
    "m": [T(s) for s in ((2, 3), (3, 2), (3, 3), (3,), (2,), (2, 3, 4), (2, 4, 3), (0, 3), (3, 0), ())],
    "n": [*_TENSORS, *_NUMBERS, *_NUMBERS, *_NUMBERS, *_NUMBERS],
    "num": _NUMBERS,
    "i": _INTS,
    "b": _BOOLS,
    "d": _DIMS,
    "ds": _DIM_LISTS,
    "flag": [True, False, True, False, 1, 0, None],
    "size": _SIZES,
    "int": [0, 1, 2, 3, -1, -2, 5],
    "index": [0, 1, 2, -1, -3, 3, -4],
    "ints": [1, 2, (1, 2), (2, 1), [1], (0,), (-1,), (1, 1, 1), (3, 3), ()],
    "tl": _LISTS,
    "dt": [Dtype("float64"), Dtype("int64"), Dtype("bool"), Dtype("float32"), None],
    "p": [2, 1, 0, float("inf"), -float("inf"), 3, 0.5, "fro", None],
    "reduction": ["mean", "sum", "none", "most", None],
    "reduce": ["sum", "prod", "mean", "amax", "amin", "add", "most"],
    "sizes": [s for s in _SIZES if s],
    "order": ["ij", "xy", "most"],
    "x": [*_FLOATS, *_FLOATS, *_INTS],
    "q": [0.0, 0.3, 0.5, 1.0, 1.5, -0.1],
    "scale": [0, 1, 0.5, 2, -1, 3.5],
    "weights": [T((3,)), T((2, 3)), T((0,)), T((4,), "int64"), T((2, 3), "bool")],
    "mode": [None, "floor", "trunc", "round"],
    "ti": [(T((2,), "int64"),), (T((3,), "bool"),), [T((1,), "int64"), None], (), (T((3,)),), (T((2, 3), "bool"),)],
    "size0": [(2,), (1,), (0,), (3,), (), (2, 1), (-1,), (-2,), (0, 3)],
    "p01": [0.0, 1.0, 1, -0.5, 1.5],
    "dl": [(0,), (0, 1), (1, 0), (-1,), (), (0, 0), (0, 5), [1], [0, -1], (2, 0, 1), (1.5,)],
}
"""What each letter of a template may be."""

_UNARY = "t"
_BINARY = "t n | t t | t other=n"
_REDUCE = "t | t ds | t ds flag | t dim=ds | t dim=ds keepdim=flag | t axis=d"
_CUM = "t d | t dim=d | t"

_SHARED: dict[str, str] = {
    **dict.fromkeys(
        "exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh sigmoid "
        "erf relu abs neg sign floor ceil trunc isnan isinf isfinite logical_not bitwise_not square absolute negative "
        "arccos arcsin arctan t trace ravel detach clone nonzero argwhere lgamma digamma erfinv acosh asinh atanh "
        "arccosh arcsinh arctanh erfc sinc rad2deg deg2rad frac fix positive sgn signbit isposinf isneginf isreal "
        "i0".split(),
        _UNARY,
    ),
    **dict.fromkeys(
        "mul maximum minimum remainder fmod floor_divide atan2 logaddexp eq ne lt le gt ge logical_and logical_or "
        "logical_xor bitwise_and bitwise_or bitwise_xor add sub div pow subtract multiply divide true_divide greater "
        "greater_equal less less_equal not_equal arctan2 true_divide".split(),
        _BINARY,
    ),
    **dict.fromkeys("sum mean".split(), f"{_REDUCE} | t dtype=dt | t ds dtype=dt"),
    **dict.fromkeys("prod".split(), "t | t d | t d flag | t dim=d keepdim=flag | t dtype=dt | t dim=ds"),
    **dict.fromkeys("amax amin".split(), f"{_REDUCE}"),
    **dict.fromkeys("var std".split(), f"{_REDUCE} | t flag | t ds correction=num | t ds unbiased=flag keepdim=flag"),
    **dict.fromkeys("max min".split(), "t | t d | t d flag | t dim=d | t t | t dim=d keepdim=flag | t n"),
    **dict.fromkeys("argmax argmin".split(), "t | t d | t d flag | t dim=d keepdim=flag"),
    **dict.fromkeys("any all".split(), "t | t d | t ds | t d flag | t dim=ds keepdim=flag"),
    "count_nonzero": "t | t ds | t dim=ds",
    "cumsum": f"{_CUM} | t d dtype=dt",
    "cumprod": f"{_CUM} | t d dtype=dt",
    "cummax": _CUM,
    "cummin": _CUM,
    "logcumsumexp": _CUM,
    "sort": "t | t d | t d flag | t dim=d descending=flag | t stable=flag | t stable=flag dim=d",
    "argsort": "t | t d | t d flag | t dim=d descending=flag | t stable=flag",
    "msort": "t",
    "topk": "f int | f int d | f int d flag | f k=int dim=d largest=flag sorted=flag! | t int",
    "kthvalue": "f int | f int d | f int d flag | f k=int dim=d keepdim=flag | t int",
    **dict.fromkeys("median nanmedian".split(), "t | t d | t d flag | t dim=d keepdim=flag"),
    "mode": "t | t d | t d flag | t dim=d keepdim=flag",
    **dict.fromkeys(
        "quantile nanquantile".split(), "f p01 | f p01 d | f p01 d flag | f q=p01 dim=d keepdim=flag | t t"
    ),
    "unique": "t | t flag! | t return_inverse=flag! return_counts=flag! | t return_counts=flag! dim=d!",
    "unique_consecutive": "t | t return_inverse=flag! return_counts=flag! | t return_counts=flag! dim=d!",
    "bincount": "i | i minlength=int | t t | i f | i weights=f",
    "histc": "f | f int | f int num num | t bins=int min=num max=num",
    "histogram": "f int | f int weight=f | f bins=int density=flag | t int",
    **dict.fromkeys("det matrix_exp".split(), "m | t"),
    "cross": "m m | f f d | t t",
    "cholesky_inverse": "m | m flag",
    "logsumexp": "t ds | t ds flag | t dim=ds keepdim=flag",
    **dict.fromkeys("softmax log_softmax".split(), "f d! | t d! | t dim=d! | f d! dtype=dt!"),
    "norm": "f | f p | f p ds | f p ds flag | t p dim=ds keepdim=flag | t",
    "allclose": "t t | f f rtol=num atol=num",
    "isclose": "t t | f f rtol=num atol=num",
    "equal": "t t",
    **dict.fromkeys(
        "copysign hypot fmax fmin nextafter ldexp logaddexp2 xlogy gcd lcm bitwise_left_shift "
        "bitwise_right_shift".split(),
        _BINARY,
    ),
    "heaviside": "t t | f f | t values=n",
    "float_power": "t n | t t | t exponent=n",
    "is_same_size": "t t",
    **dict.fromkeys("is_complex is_floating_point is_nonzero is_signed".split(), _UNARY),
    **dict.fromkeys("hsplit vsplit dsplit".split(), "t int | t ints | m int"),
    **dict.fromkeys("fliplr flipud".split(), _UNARY),
    "kron": "t t | m m",
    "split_with_sizes": "t ints | t ints d | t dim=d split_sizes=ints",
    "logit": "t | t p01 | f eps=p01",
    "nan_to_num": "t | t num | t nan=num posinf=num neginf=num | t num num num",
    "hardshrink": "t | t num | f lambd=num",
    "prelu": "f f | t t | m m",
    "round": "t | f decimals=int",
    "clamp": "t n n | t min=n | t max=n | t | t num num",
    "clip": "t n n | t min=n | t max=n | t | t num num",
    "clamp_min": "t n | t min=n",
    "clamp_max": "t n | t max=n",
    "lerp": "f f n | t t n | f f weight=num",
    "addcmul": "t t t | f f f value=num | t t t value=num",
    "addcdiv": "t t t | f f f value=num | t t t value=num",
    "reshape": "t size | t shape=size",
    "flatten": "t | t d | t d d | t start_dim=d end_dim=d",
    "unflatten": "t d sizes! | t dim=d sizes=sizes!",
    "transpose": "t d d | t d | t dim0=d dim1=d",
    "swapaxes": "t d d | t axis0=d axis1=d",
    "swapdims": "t d d | t dim0=d dim1=d",
    "permute": "t dl! | t dims=dl!",
    "movedim": "t ds ds | t source=ds destination=ds",
    "moveaxis": "t ds ds",
    "broadcast_to": "t size | t size=size",
    "squeeze": "t | t ds | t dim=ds",
    "unsqueeze": "t d | t dim=d | t",
    "select": "t d index | t dim=d index=index",
    "narrow": "t d index int | t dim=d start=index length=int",
    "unbind": "t | t d | t dim=d",
    "split": "t int | t int d | t ints d | t ints dim=d | t size",
    "chunk": "t int | t int d | t chunks=int dim=d",
    "tensor_split": "t int | t int d | t ints | t ints d | t indices=ints | t sections=int dim=d",
    "unsafe_split": "t int | t int d",
    "unsafe_chunk": "t int | t int d",
    "diagonal": "t | t int | t int d d | t offset=int dim1=d dim2=d",
    "flip": "t dl! | t dims=dl!",
    "roll": "t ints | t ints ds | t int d | t shifts=ints dims=ds",
    "tile": "t size | t dims=ints",
    "repeat_interleave": "t int | t int d | t i | t i d | t repeats=int dim=d",
    "matmul": "m m | t t",
    "mm": "m m | t t",
    "bmm": "m m | t t",
    "mv": "m m | t t",
    "dot": "m m | t t",
    "outer": "m m | t t",
    "addmm": "m m m | m m m beta=num alpha=num | t t t",
    "index_select": "t d i | t d t | t dim=d index=i",
    "gather": "t d i | t d t | t dim=d index=i",
    "take_along_dim": "t i d | t i | t t d | t indices=i dim=d",
    "scatter_add": "t d i t | t dim=d index=i src=t",
    "index_add": "t d i t | t d i t alpha=num",
    "index_put": "t ti t | t ti t flag | t ti t accumulate=flag",
    "masked_fill": "t b n | t b num | t t n | t mask=b value=num",
    "masked_select": "t b | t t",
    "masked_scatter": "t b t | t t t",
    "tril": "t | t int | t diagonal=int",
    "triu": "t | t int | t diagonal=int",
    "scatter": "t d i t | t d i num | t dim=d index=i src=t | t dim=d index=i value=num",
    "index_copy": "t d i t",
    "index_fill": "t d i num | t d i t",
    "put": "t i t | t i t flag",
    "take": "t i | t t",
    "select_scatter": "t t d index | t src=t dim=d index=index",
    "slice_scatter": "t t | t t d | t t d index index | t t d index index int",
    "diagonal_scatter": "t t | t t int | t t int d d",
    "scatter_reduce": "t d i t reduce | t d i t reduce include_self=flag",
}
"""Functions that are methods as well; the first letter is the tensor itself."""

_RANDOM = {"bernoulli": "x | x q", "multinomial": "weights int | weights int flag!"}

FUNCTIONS: dict[str, str] = {
    **_RANDOM,
    "rand": "ints | int int | size",
    "randn": "ints | int int | size",
    "randint": "int size | int int size | int size=size | high=int size=size",
    "randint_like": "x int | x int int",
    "randperm": "int | n=int",
    "rand_like": "x | x dtype=dt",
    "randn_like": "x | x dtype=dt",
    "normal": "x x | x scale! | scale! x | scale! scale! size | x",
    "poisson": "x",
    **_SHARED,
    "searchsorted": "f f | f f right=flag | f f out_int32=flag | t num | t t sorter=t",
    "bucketize": "f f | f f right=flag | t t | num f | n t",
    "isin": "t t | t num | num t | t t invert=flag | n n",
    "where": "b n n | t n n | b t t | b",
    "rsub": _BINARY,
    "cat": "tl | tl d | tl dim=d",
    "concat": "tl | tl d",
    "concatenate": "tl | tl dim=d",
    "stack": "tl | tl d | tl dim=d",
    **dict.fromkeys("hstack dstack column_stack row_stack".split(), "tl"),
    "combinations": "t | t int! | t int! flag",
    "vstack": "tl",
    "meshgrid": "tl indexing=order! | tl",
    "arange": "num | num num | num num num | num dtype=dt | end=num",
    "linspace": "num num int | num num int dtype=dt | num num steps=int",
    "eye": "int | int int | int dtype=dt",
    "full": "size num | size num dtype=dt | size n",
    "full_like": "t num | t num dtype=dt",
    **dict.fromkeys("zeros ones".split(), "size | int | int int | size dtype=dt"),
    **dict.fromkeys("zeros_like ones_like".split(), "t | t dtype=dt"),
}

METHODS: dict[str, str] = {
    **_RANDOM,
    "uniform_": "x | x scale! | x scale! scale! | x to=q",
    "normal_": "x | x scale! scale!",
    "bernoulli_": "x | x q! | x p=q!",
    "random_": "x | x int | x int int | x to=int",
    "exponential_": "x | x scale!",
    "geometric_": "x q! | x p=q!",
    "cauchy_": "x | x scale! scale!",
    "log_normal_": "x | x scale! scale!",
    **_SHARED,
    **{
        f"{name}_": _SHARED[name]
        for name in (
            "cumsum cumprod "
            "abs acos add addcdiv addcmul asin atan2 atan bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp "
            "clamp_max clamp_min clip cos cosh div eq erf exp2 exp expm1 floor_divide floor fmod ge gt index_add "
            "index_copy index_fill index_put le lerp log10 log1p log2 log logical_and logical_not logical_or "
            "logical_xor lt masked_fill masked_scatter mul ne neg pow put reciprocal relu remainder round rsqrt "
            "scatter_add scatter scatter_reduce sigmoid sign sin sinh sqrt square squeeze sub swapaxes swapdims t "
            "tan tanh transpose tril triu trunc unsqueeze lgamma digamma erfinv acosh asinh atanh arccosh arcsinh "
            "copysign hypot nextafter ldexp xlogy gcd lcm bitwise_left_shift bitwise_right_shift heaviside "
            "float_power arctanh "
            "erfc sinc rad2deg deg2rad frac fix sgn i0 logit nan_to_num absolute negative arccos arcsin arctan "
            "arctan2 subtract multiply divide true_divide greater greater_equal less less_equal not_equal"
        ).split()
    },
    "copy_": "t t | t num | t t flag",
    "fill_": "t num | t t",
    "fill_diagonal_": "m num! | t num | t num! flag",
    "addmm_": "m m m | m m m beta=num alpha=num | t t t",
    "zero_": "t",
    "detach_": "t",
    "view": "t size | t int int",
    "view_as": "t t",
    "reshape_as": "t t",
    "expand": "t size | t int int",
    "expand_as": "t t",
    "repeat": "t size | t int int",
    "reshape": "t size | t int int | t shape=size",
    "permute": "t ds | t d d | t dims=dl",
    "unfold": "t d int int | t dimension=d size=int step=int",
    "size": "t | t d!",
    "stride": "t | t d!",
    "new_zeros": "t size | t int int | t size dtype=dt",
    "new_ones": "t size | t size dtype=dt",
    "new_full": "t size num | t size num dtype=dt",
    "type_as": "t t",
    "to": "t dt! | t t! | t dtype=dt!",
    "item": "t",
    "tolist": "t",
    "requires_grad_": "t | t flag",
    "__getitem__": "t index | t ti | t i | t b | t ds",
    "__add__": _BINARY,
    "__rsub__": "t n",
    "__rpow__": "t n",
    "__floordiv__": "t n",
    "__mod__": "t n",
    "__matmul__": "m m | t n",
    "__iadd__": "t n",
    "__and__": "t n",
    **dict.fromkeys("__lshift__ __rshift__ __rlshift__ __rrshift__".split(), "t n"),
    "__len__": "t",
    "__bool__": "t",
    "__float__": "t",
    "__int__": "t",
    "__index__": "t",
    "__contains__": "t n",
    "float": "t",
    "long": "t",
    "contiguous": "t",
    "is_contiguous": "t",
    "T": "t",
    "H": "t",
    "mH": "t",
    "adjoint": "t",
    "sum_to_size": "t size | t int int",
    "mT": "t",
    "where": "t b n | t b t",
    "numpy": "t",
    "resize_": "t size0!",
}
"""Methods and operators of tensors."""

_ACTIVATION = "f | t"
FUNCTIONAL: dict[str, str] = {
    **dict.fromkeys(
        "gelu hardsigmoid hardswish hardtanh logsigmoid mish relu relu6 selu sigmoid silu softplus softsign tanh "
        "tanhshrink leaky_relu elu celu".split(),
        _ACTIVATION,
    ),
    "leaky_relu": "f | t num | t negative_slope=num",
    "elu": "f | t num | t alpha=num",
    "hardtanh": "f num num | t min_val=num max_val=num",
    "softplus": "f | f num num | t beta=num",
    "gelu": "f | t | f approximate=reduction",
    "hardshrink": "f | t num | t lambd=num",
    "softshrink": "f | t num | t lambd=num",
    **dict.fromkeys(["elu_", "celu_", "leaky_relu_", "selu_", "relu_"], _ACTIVATION),
    "hardtanh_": "f! num! num! | f!",
    "threshold_": "f num num",
    "threshold": "f num num | t num num | t threshold=num value=num",
    "prelu": "f f | m m",
    "glu": "f | t d | m dim=d",
    **dict.fromkeys("softmax log_softmax softmin".split(), "f d! | t dim=d!"),
    **dict.fromkeys("mse_loss l1_loss".split(), "f! f! | t! t! | f! f! reduction=reduction"),
    "smooth_l1_loss": "f! f! | t! t! | f! f! reduction=reduction | f! f! beta=num",
    "huber_loss": "f! f! | t! t! | f! f! reduction=reduction | f! f! delta=num",
    "kl_div": "f! f! | t! t! | f! f! reduction=reduction | f! f! log_target=flag",
    "binary_cross_entropy_with_logits": "f! f! | t! t! | f! f! reduction=reduction | f! f! f! | f! f! pos_weight=f!",
    "binary_cross_entropy": "f! f! | t! t! | f! f! reduction=reduction",
    "cross_entropy": "f i | m t | f f | f i reduction=reduction | m i m | m i label_smoothing=num",
    "nll_loss": "f! i! | m! t! | f! i! reduction=reduction | m! i! m!",
    "embedding": "i m! | t t! | i m! int!",
    "linear": "m m | m m m | t t",
    "layer_norm": "f size | m size m | t ints",
    "rms_norm": "f size | m size m | t ints",
    "normalize": "f | f p! d! | f dim=d!",
    "one_hot": "i | i int | t",
    "pad": "f ints | t size | f ints mode=mode | f size value=num",
    "dropout": "f p01! | f p=p01!",
    "conv2d": "m m | t t",
    "max_pool2d": "m ints | t int",
    "avg_pool2d": "m ints | t int",
    "batch_norm": "m m m | t t t",
    "scaled_dot_product_attention": "m m m | t t t",
}


def _draw(rng: random.Random, token: str, strangeness: float) -> Any:
    if token == "None":
        return None
    if rng.random() < strangeness and not token.endswith("!"):
        return rng.choice(_STRANGE)
    return rng.choice(POOLS[token.rstrip("!")])


def cases_of(name: str, templates: str, count: int, has_extras: bool = True) -> list[Case]:
    """``count`` different calls, always the same ones; ``has_extras``: some with an argument too many."""
    rng = random.Random(zlib.crc32(name.encode()))
    forms = [form.split() for form in templates.split("|")]
    cases: dict[str, Case] = {}
    for k in range(3 * count):
        form = forms[k % len(forms)]
        args, kwargs = [], []
        for at, token in enumerate(form):
            key, _, pool = token.rpartition("=")
            value = _draw(rng, pool, 0.12 if at else 0.0)
            if key:
                kwargs.append((key, value))
            else:
                args.append(value)
        if rng.random() < 0.04 and has_extras:
            kwargs.append((rng.choice(["dims", "axes", "out_of", "keep"]), 1))
        if rng.random() < 0.04 and has_extras:
            args.append(rng.choice(_STRANGE))
        case = Case(name, tuple(args), tuple(kwargs))
        cases.setdefault(str(case), case)
        if len(cases) == count:
            break
    return list(cases.values())
