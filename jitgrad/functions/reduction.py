"""Reductions, extrema, norms, softmax.

Owns: their public signatures.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jitgrad.door import door
from jitgrad.dtypes import FLOATING, bool_
from jitgrad.functions.devices import in_float32, to
from jitgrad.lazy import LazyModule
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import torch_dtype_name, wrap_dim
from jitgrad.ops.table import OPS
from jitgrad.state import autocasts, state
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import warn_user

__all__ = [
    "ValuesIndices",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "diff",
    "equal",
    "is_complex",
    "is_floating_point",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "log_softmax",
    "logcumsumexp",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanmean",
    "nansum",
    "norm",
    "prod",
    "softmax",
    "std",
    "sum",
    "trapezoid",
    "trapz",
    "var",
    "vector_norm",
]


_NORMS = LazyModule("jitgrad.linalg.norms")
_SUM, _SUM_DIM, _MEAN, _MEAN_DIM = OPS["sum"], OPS["sum_dim"], OPS["mean"], OPS["mean_dim"]
_PROD, _PROD_DIM, _VAR, _STD = OPS["prod"], OPS["prod_dim"], OPS["var"], OPS["std"]
_AMAX, _AMIN, _MAX, _MIN, _MAX_DIM, _MIN_DIM = (OPS[n] for n in ("amax", "amin", "max", "min", "max_dim", "min_dim"))
_ARGMAX, _ARGMIN, _MAXIMUM, _MINIMUM = (OPS[n] for n in ("argmax", "argmin", "maximum", "minimum"))
_ANY, _ALL, _COUNT, _CUMSUM = OPS["any"], OPS["all"], OPS["count_nonzero"], OPS["cumsum"]
_LOGSUMEXP, _SOFTMAX, _LOG_SOFTMAX, _NORM = (
    OPS[n] for n in ("logsumexp", "_softmax", "_log_softmax", "linalg_vector_norm")
)


class ValuesIndices(NamedTuple):
    """Extremes and their positions."""

    values: Any
    indices: Any


class MinMax(NamedTuple):
    """The smallest and the largest element."""

    min: Any
    max: Any


def _dims(dim: Any) -> Any:
    if type(dim) is list:
        return tuple(dim)
    return int(dim) if isinstance(dim, np.integer) else dim


def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum over ``dim`` (all, one or several dimensions); integers and bools add up in int64."""
    if dim is None:
        return door.apply(_SUM, input, None, keepdim, dtype)
    return door.apply(_SUM_DIM, input, _dims(dim), keepdim, dtype)


def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean over ``dim``. RuntimeError for integers."""
    if dim is None:
        return door.apply(_MEAN, input, None, keepdim, dtype)
    return door.apply(_MEAN_DIM, input, _dims(dim), keepdim, dtype)


def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The product of all elements, or along one dimension. RuntimeError for a gradient through integers."""
    if autocasts:
        input, = in_float32(input)
    if dtype is not None and dtype.category < FLOATING and state.grad_enabled and input.requires_grad:
        raise RuntimeError("Autograd not support dtype: " + torch_dtype_name(dtype))
    return door.apply(_PROD if dim is None else _PROD_DIM, input, dim, keepdim, dtype)


def _correction(unbiased: Any, correction: Any) -> float:
    if correction is not None:
        return correction
    return 0 if unbiased is False else 1


def var(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """The variance over ``dim``, divided by n - correction (1 unless given)."""
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    return _spread(_VAR, "var", input, _dims(dim), _correction(unbiased, correction), keepdim)


def std(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """The standard deviation over ``dim``; its derivative where it is 0 is 0."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return _spread(_STD, "std", input, _dims(dim), _correction(unbiased, correction), keepdim)


def _spread(op: Any, name: str, input: Any, dims: Any, correction: Any, keepdim: bool) -> Any:
    out = door.apply(op, input, dims, correction, keepdim)
    count = out._aval.numel
    if count and input._aval.numel <= correction * count:
        warn_user(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel)."
        )
    return out


def amax(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest elements; ties share the gradient."""
    return door.apply(_AMAX, input, _dims(dim), keepdim)


def amin(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest elements; ties share the gradient."""
    return door.apply(_AMIN, input, _dims(dim), keepdim)


def max(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """``max(x)``: the largest element; ``max(x, y)``: as ``maximum``; ``max(x, dim)``: (values, indices)."""
    if dim is None:
        return door.apply(_MAX, input)
    if isinstance(dim, TensorBase):
        return door.apply(_MAXIMUM, input, dim)
    return ValuesIndices(*door.apply(_MAX_DIM, input, dim, keepdim))


def min(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """``min(x)``: the smallest element; ``min(x, y)``: as ``minimum``; ``min(x, dim)``: (values, indices)."""
    if dim is None:
        return door.apply(_MIN, input)
    if isinstance(dim, TensorBase):
        return door.apply(_MINIMUM, input, dim)
    return ValuesIndices(*door.apply(_MIN_DIM, input, dim, keepdim))


def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Position of the largest element, in the flattened tensor or along ``dim``; the first one wins."""
    return door.apply(_ARGMAX, input, dim, keepdim)


def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Position of the smallest element, in the flattened tensor or along ``dim``; the first one wins."""
    return door.apply(_ARGMIN, input, dim, keepdim)


def any(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether any element is nonzero; with no dimensions (``()``), each by itself."""
    if dim == ():
        return door.apply(OPS["ne"], input, 0)
    return door.apply(_ANY, input, _dims(dim), keepdim)


def all(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether all elements are nonzero; with no dimensions (``()``), each by itself."""
    if dim == ():
        return door.apply(OPS["ne"], input, 0)
    return door.apply(_ALL, input, _dims(dim), keepdim)


def count_nonzero(input: Any, dim: Any = None) -> Any:
    """How many elements are nonzero."""
    return door.apply(_COUNT, input, _dims(dim))


def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Sums of all elements up to each, along ``dim``. NotImplementedError for sums of bools as bools."""
    if dtype is bool_:
        wrap_dim(dim, input.ndim)
        raise NotImplementedError("\"cumsum_out_cpu\" not implemented for 'Bool'")
    if dtype is None:
        return door.apply(_CUMSUM, input, dim)
    return door.apply(_CUMSUM, input.to(dtype), dim).to(dtype)  # int64 for shorter integers


def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Products of all elements up to each, along ``dim``. NotImplementedError for products of bools as bools."""
    if dtype is bool_:
        wrap_dim(dim, input.ndim)
        raise NotImplementedError("\"cumprod_out_cpu\" not implemented for 'Bool'")
    return call("cumprod", input, dim) if dtype is None else call("cumprod", input.to(dtype), dim).to(dtype)


def cummax(input: Any, dim: int) -> Any:
    """(values, indices) of the largest elements up to each, along ``dim``; of equal ones the last, or a NaN."""
    return ValuesIndices(*call("cummax", input, dim))


def cummin(input: Any, dim: int) -> Any:
    """(values, indices) of the smallest elements up to each, along ``dim``; of equal ones the last, or a NaN."""
    return ValuesIndices(*call("cummin", input, dim))


def logcumsumexp(input: Any, dim: int) -> Any:
    """log of the sums of exp(x) up to each element, along ``dim``. NotImplementedError for integers."""
    return call("logcumsumexp", input, dim)


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log(sum(exp(x))), without overflow."""
    return door.apply(_LOGSUMEXP, input, _dims(dim), keepdim)


def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along ``dim``."""
    return door.apply(_SOFTMAX, input if dtype is None else input.to(dtype), dim)


def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """x - logsumexp(x) along ``dim``."""
    return door.apply(_LOG_SOFTMAX, input if dtype is None else input.to(dtype), dim)


def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The p-norm of the elements, taken as ``dtype`` if one is given; ``"fro"`` is 2. Its derivative at 0 is 0."""
    if dtype is not None:
        input = to(input, dtype)
    if isinstance(p, list | tuple | dict) or (isinstance(p, TensorBase) and (p.ndim or p.dtype.is_complex)):
        raise TypeError(f"linalg_vector_norm(): argument 'ord' (position 2) must be Number, not {type(p).__name__}")
    if isinstance(p, TensorBase):
        p = p.item()
    if p == "nuc":
        return _nuclear(input, dim, keepdim)
    return door.apply(_NORM, input, 2.0 if p is None or p == "fro" else _order(p), _dims(dim), keepdim)


def _both(dim: Any) -> tuple[int, ...]:
    if isinstance(dim, int):
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    return tuple(dim)


def _nuclear(input: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None and input.ndim != 2:
        raise RuntimeError(
            f"Expected a tensor with 2 dimensions, but got a tensor with {input.ndim} dimensions instead."
        )
    return _NORMS.matrix_norm(input, "nuc", (0, 1) if dim is None else _both(dim), keepdim)


def _order(p: Any) -> float:
    if isinstance(p, str):
        raise RuntimeError(f"only valid string values are 'nuc' and 'fro', found {p}")
    if not isinstance(p, int | float | TensorBase) and not hasattr(p, "__float__"):
        raise TypeError(f"linalg_vector_norm(): argument 'ord' (position 2) must be Number, not {type(p).__name__}")
    return float(p)


def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The ``ord``-norm of the elements, as ``torch.linalg.vector_norm``."""
    if type(keepdim) is not bool:
        raise TypeError(f"linalg_vector_norm(): argument 'keepdim' must be bool, not {type(keepdim).__name__}")
    x = x if dtype is None else x.to(dtype)
    if isinstance(ord, str):
        raise TypeError("linalg_vector_norm(): argument 'ord' must be Number, not str")
    return door.apply(_NORM, x, _order(ord), _dims(dim), keepdim)


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close: reads the values. RuntimeError for a tolerance that is negative, or NaN."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    return bool(door.apply(OPS["isclose"], input, other, float(rtol), float(atol), equal_nan).all())


def equal(input: Any, other: Any) -> bool:
    """Whether shapes and all values agree: reads the values."""
    return input.shape == other.shape and bool(door.apply(OPS["eq"], input, other).all())


def is_floating_point(input: Any) -> bool:
    """Whether the dtype is a floating one."""
    return bool(input._aval.dtype.is_floating_point)


def is_complex(input: Any) -> bool:
    """False: there are no complex dtypes."""
    return bool(input._aval.dtype.is_complex)


def is_signed(input: Any) -> bool:
    """Whether the dtype has negative numbers: all but bool."""
    return bool(input._aval.dtype.is_signed)


def is_nonzero(input: Any) -> bool:
    """Whether the only element is not 0. RuntimeError for another number of elements."""
    return bool(input)


def is_same_size(input: Any, other: Any) -> bool:
    """Whether the shapes are the same."""
    return bool(input._aval.shape == other._aval.shape)


# --- extremes together, sums without NaN ---


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """(min, max) of all elements, or along ``dim``. RuntimeError for no elements."""
    if dim is None and not input.numel():
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    dims = () if dim is None else (dim,)
    return MinMax(amin(input, dims, keepdim), amax(input, dims, keepdim))


def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of the elements that are not NaN. RuntimeError for complex numbers."""
    if input.dtype.is_complex:
        raise RuntimeError("nansum on CPU does not support complex inputs")
    numbers = call("where", call("isnan", input), 0.0, input) if input.is_floating_point() else input
    return sum(numbers, dim, keepdim, dtype=dtype)


def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean of the elements that are not NaN. RuntimeError for integers."""
    if not input.is_floating_point():
        name = torch_dtype_name(input.dtype)
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {name}")
    count = sum(call("logical_not", call("isnan", input)), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


# --- differences, and integrals of samples ---


def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along ``dim``, ``n`` times, after ``prepend`` and ``append`` are joined to it.

    Raises:
        RuntimeError: for a negative ``n``, a tensor without dimensions, or parts of other ranks.
    """
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    parts = [x for x in (prepend, input, append) if x is not None]
    if {x.ndim for x in parts} != {input.ndim}:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    wrap_dim(dim, input.ndim)
    if n == 0:  # nothing is joined then
        return input.clone()
    x = call("cat", parts, dim) if len(parts) > 1 else input
    for _ in range(n):
        rest = x.shape[dim] - 1
        if rest < 0:
            return x.clone()
        right, left = x.narrow(dim, 1, rest), x.narrow(dim, 0, rest)
        x = call("logical_xor" if x.dtype is bool_ else "sub", right, left)
    return x


def _steps(name: str, y: Any, x: Any, dim: int) -> Any:
    """The distances between samples, so that they broadcast with sums of neighbours."""
    if bool_ in (y.dtype, x.dtype):
        raise RuntimeError(f"{name}: received a bool input for `x` or `y`, but bool is not supported")
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        return diff(x).reshape(tuple([-1 if d == dim else 1 for d in range(y.ndim)]))
    return diff(x if x.ndim >= y.ndim else x.reshape((1,) * (y.ndim - x.ndim) + x.shape), dim=dim)


def _sampled(name: str, y: Any, dim: int, dx: Any) -> tuple[int, Any]:
    """The dimension, and the sums of neighbours."""
    if not y.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if isinstance(dx, bool):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
    if y.dtype is bool_:
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    dim = wrap_dim(dim, y.ndim)
    rest = y.shape[dim] - 1
    if rest < 0:
        return dim, y
    return dim, y.narrow(dim, 0, rest) + y.narrow(dim, 1, rest)


def trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The integral along ``dim`` by the trapezoidal rule, of samples at ``x`` or at distances ``dx``."""
    dim, sums = _sampled("trapezoid", y, dim, dx)
    return sum(sums * dx if x is None else sums * _steps("trapezoid", y, x, dim), dim) / 2


trapz = trapezoid


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The running integral along ``dim`` by the trapezoidal rule, of samples at ``x`` or at distances ``dx``."""
    dim, sums = _sampled("cumulative_trapezoid", y, dim, dx)
    return cumsum(sums * dx if x is None else sums * _steps("cumulative_trapezoid", y, x, dim), dim) / 2
