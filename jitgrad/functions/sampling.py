"""New tensors of random numbers.

Owns: ``rand``, ``randn``, ``randint``, ``randperm``, their ``*_like``, ``normal``, ``bernoulli``, ``multinomial``,
``poisson``.
Must not know: how numbers are made (``runtime.random.draws``) or where they go (``drawing``). See Note [Random
streams].
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.door import door
from jitgrad.dtypes import BOOLEAN, DType, as_dtype, float64, get_default_dtype, int64
from jitgrad.functions._bind import ints
from jitgrad.functions.devices import cpu, placed, to
from jitgrad.functions.drawing import (
    check_probability,
    check_std,
    dense,
    draw_array,
    floating,
    fresh_now,
    generator_or_default,
    integer_range,
    largest_of,
    made,
    make,
    type_name,
)
from jitgrad.functions.from_data import from_array_copy
from jitgrad.functions.views import expand
from jitgrad.generator import Generator, default_generator
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, check_allocatable, make_aval
from jitgrad.ops.shapes import broadcast, torch_dtype_name
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_result, tensor_class

__all__ = [
    "bernoulli",
    "constant_in",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "successes",
    "values_of",
]

_COMPLEX = LazyModule("jitgrad.functions.complex_draws")
_MAKING = LazyModule("jitgrad.functions.making_options")
_ZERO = OPS["zero"]
_LEFT_OUT: Any = object()


def rand(
    *size: Any, generator: Any = None, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Uniform numbers in [0, 1)."""
    if dtype is not None and dtype.is_complex:
        return _COMPLEX.complex_numbers(rand, ints(size), dtype, device, requires_grad, generator)
    dtype = floating("check_uniform_bounds", dtype or get_default_dtype())
    source = default_generator if generator is None else generator_or_default("rand", generator)
    return make(ints(size), dtype, device, requires_grad, source, "uniform", 0.0, 1.0)


def randn(
    *size: Any, generator: Any = None, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Standard normal numbers; of a complex dtype each part has the variance 1/2."""
    if dtype is not None and dtype.is_complex:
        return _COMPLEX.normal_numbers(ints(size), dtype, device, requires_grad, generator)
    source, shape = generator_or_default("randn", generator), ints(size)
    dtype = floating("normal_kernel_cpu", dtype or get_default_dtype(), math.prod(shape))
    return make(shape, dtype, device, requires_grad, source, "normal", 0.0, 1.0)


def _like(
    input: Any,
    dtype: DType | None,
    device: Any,
    requires_grad: bool,
    generator: Any,
    distribution: str,
    params: tuple[Any, ...],
) -> Any:
    aval = dense(input._aval, dtype or input._aval.dtype)
    place = input._aval.device if device is None else device
    return made(aval, place, requires_grad, generator_or_default("like", generator), distribution, params)


def _normal_like(input: Any) -> str:
    """How normal numbers are drawn for a tensor of the same layout: in a row, or in pairs where it has gaps' order."""
    return "normal" if dense(input._aval, input._aval.dtype).is_contiguous else "normal_pairs"


def rand_like(
    input: Any, *, generator: Any = None, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """``rand`` in a tensor's shape, layout, dtype and device."""
    if (dtype or input.dtype).is_complex:
        return _COMPLEX.complex_like(input, dtype, device, requires_grad, generator, "uniform", (0.0, 1.0))
    floating("check_uniform_bounds", dtype or input.dtype)
    return _like(input, dtype, device, requires_grad, generator, "uniform", (0.0, 1.0))


def randn_like(
    input: Any, *, generator: Any = None, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """``randn`` in a tensor's shape, layout, dtype and device."""
    if (dtype or input.dtype).is_complex:
        distribution = _normal_like(input)
        params = (0.0, math.sqrt(0.5))
        return _COMPLEX.complex_like(input, dtype, device, requires_grad, generator, distribution, params)
    floating("normal_kernel_cpu", dtype or input.dtype, input.numel())
    distribution = _normal_like(input)
    return _like(input, dtype, device, requires_grad, generator, distribution, (0.0, 1.0))


def randint(
    low: Any = 0,
    high: Any = _LEFT_OUT,
    size: Any = _LEFT_OUT,
    *,
    generator: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """Integers on [low, high), or [0, low) in the two-argument form ``randint(high, size)``; int64 unless said.

    Raises:
        RuntimeError: an empty range, or one that the dtype does not hold.
        TypeError: bounds that are no integers, or no size.
    """
    if layout is not None or pin_memory:
        _MAKING.check_options("randint", layout, pin_memory)
    if size is _LEFT_OUT:
        low, high, size = 0, low, high
    elif high is _LEFT_OUT:
        low, high = 0, low
    low, high = _index("randint", low), _index("randint", high)
    if not isinstance(size, list | tuple):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    shape = tuple([_index("randint", n) for n in size])
    dtype = as_dtype(dtype) or int64
    params = integer_range(low, high, dtype)
    source = generator_or_default("randint", generator)
    return make(shape, dtype, device, requires_grad, source, "integers", *params)


def _index(name: str, value: Any) -> int:
    """An int from anything that stands for one; TypeError for bools, floats and the rest."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}() received an invalid combination of arguments: an int is {type(value).__name__}")
    return operator.index(value)


def randint_like(
    input: Any,
    low: int = 0,
    high: Any = None,
    *,
    generator: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``randint`` in a tensor's shape, layout, dtype and device."""
    low, high = (0, low) if high is None else (low, high)
    params = integer_range(low, high, dtype or input.dtype)
    return _like(input, dtype, device, requires_grad, generator, "integers", params)


def randperm(
    n: int, *, generator: Any = None, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A random permutation of 0 .. n-1; int64 unless said."""
    dtype = dtype or int64
    if dtype.category is BOOLEAN or dtype.is_complex:
        raise NotImplementedError(f"\"randperm\" not implemented for '{torch_dtype_name(dtype)}'")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    _check_count(n, dtype)
    source = generator_or_default("randperm", generator)
    return make((n,), dtype, device, requires_grad, source, "permutation")


def _check_count(n: int, dtype: DType) -> None:
    if n - 1 > largest_of(dtype):
        raise RuntimeError(f"n is too large for result tensor type: '{dtype.name}'")


# --- numbers that depend on tensors ---


def values_of(x: Any) -> Any:
    """The elements, as the host sees them."""
    return (x if x._aval.device is CPU else cpu(x.detach()))._ndarray()


def _is_mapped(x: Any) -> bool:
    """Whether it is a handle of a level, such as vmap's, whose values nobody can look at."""
    return type(x) is not tensor_class() and getattr(x, "_level", None) is not None


def constant_in(out: Any, *inputs: Any) -> Any:
    """``out``, part of the graph of inputs, whose gradients are zero."""
    for x in inputs:
        if isinstance(x, TensorBase) and x.requires_grad and state.grad_enabled:
            out = out + door.apply(_ZERO, x)
    return out


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Any:
    """Normal numbers: ``mean`` and ``std`` are numbers, with ``size``, or one or both of them tensors.

    Raises:
        RuntimeError: a negative deviation, or shapes that do not fit.
    """
    source = generator_or_default("normal", generator)
    if isinstance(std, TensorBase) and std.dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if size is not None:
        check_std(std)
        if dtype is not None and dtype.is_complex:
            return _COMPLEX.normal_numbers(ints((size,)), dtype, device, requires_grad, source, float(mean), float(std))
        chosen = floating("normal_kernel_cpu", dtype or get_default_dtype())
        return make(ints((size,)), chosen, device, requires_grad, source, "normal", float(mean), float(std))
    return constant_in(_normal_around(mean, std, source), mean, std)


def _normal_around(mean: Any, std: Any, source: Generator) -> Any:
    """Drawn, scaled and shifted in three steps, each rounded, by the host: a kernel would fuse the last two."""
    first = mean if isinstance(mean, TensorBase) else std
    if not isinstance(std, TensorBase):
        check_std(std)
    dtype = floating("normal_kernel_cpu", first.dtype, first.numel())
    if _is_mapped(mean) or _is_mapped(std):
        drawn = make(tuple((mean + std).shape), dtype, first.device, False, source, "normal", 0.0, 1.0)
        return drawn * getattr(std, "detach", lambda: std)() + getattr(mean, "detach", lambda: mean)()
    means, stds = (values_of(x) if isinstance(x, TensorBase) else dtype.np.type(x) for x in (mean, std))
    if isinstance(std, TensorBase):
        if not (stds >= 0).all():
            raise RuntimeError("normal expects all elements of std >= 0.0")
        shape = broadcast("normal", tuple(means.shape), tuple(stds.shape))
        drawn = draw_array(shape, dtype, source, "normal", 0.0, 1.0) * stds
    else:
        drawn = draw_array(tuple(means.shape), dtype, source, "normal", 0.0, float(std))
    return placed(from_array_copy((drawn + means).astype(dtype.np, copy=False)), first.device)


def bernoulli(input: Any, p: float | None = None, *, generator: Any = None) -> Any:
    """1 with the probability that each element of ``input`` is, or with probability ``p``, else 0.

    Raises:
        RuntimeError: a probability outside [0, 1].
    """
    if p is not None:
        check_probability("bernoulli_", p)
        source = generator_or_default("bernoulli", generator)
        return make(tuple(input.shape), input.dtype, input.device, False, source, "bernoulli", float(p))
    layout = make_aval(tuple(input.shape), input.dtype).on(input._aval.device)
    return constant_in(successes(layout, input, input.dtype, generator), input)


def successes(layout: Aval, p: Any, dtype: DType, generator: Any) -> Any:
    """Uniform numbers of p's precision, float32 at least, in the order of ``layout``, that are below ``p``."""
    floating("bernoulli_tensor_cpu_p_", p.dtype, layout.numel)
    p = p.detach()
    if not _is_mapped(p):
        values = values_of(p)
        if not _lies_within(values, 0.0, 1.0):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    source = generator_or_default("bernoulli", generator)
    numbers = made(dense(layout, p.dtype.compute), layout.device, False, source, "uniform", (0.0, 1.0))
    shape = layout.shape
    return to(numbers < (p if p._aval.shape == shape else expand(p, shape)), dtype)


def _lies_within(values: Any, low: float, high: float) -> bool:
    """Whether all of some numbers do; NaN lies nowhere."""
    return not values.size or bool(values.min() >= low and values.max() <= high)


def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """Indices drawn with the probabilities, up to a factor, that each row of ``input`` has.

    Args:
        input: (m) or (n, m), not negative; the sum of a row is positive.
        num_samples: indices per row; without ``replacement``, at most m.

    Returns:
        (num_samples) or (n, num_samples), int64.

    Raises:
        RuntimeError: any of that does not hold.
    """
    _check_multinomial(input, num_samples, replacement)
    source = generator_or_default("multinomial", generator)
    weights = values_of(input)
    _check_weights(weights)
    rows = weights.reshape(-1, weights.shape[-1])
    if replacement and num_samples > 1:
        found = _with_replacement(rows, num_samples, source)
    else:
        found = _without_replacement(rows, num_samples, input.dtype, source)
    found = found.reshape(*input._aval.shape[:-1], num_samples)
    if state.handler is None:
        out = new_result(make_aval(found.shape, int64), found if found.base is None else found.copy())
    else:
        out = from_array_copy(found)
    return placed(out, input._aval.device)


def _check_multinomial(input: Any, num_samples: int, replacement: bool) -> None:
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {type_name(input.dtype)}"
        )
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    check_allocatable([make_aval((*input._aval.shape[:-1], num_samples), int64)])


def _check_weights(weights: Any) -> None:
    if not weights.size:
        if weights.ndim == 1 or weights.shape[0]:
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        return
    largest = weights.max(-1)  # NaN, if there is one
    if not (weights.min() >= 0 and (largest < math.inf).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not (largest > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _with_replacement(rows: Any, num_samples: int, source: Generator) -> Any:
    sums = np.cumsum(rows, axis=1)
    sums = (sums / sums[:, -1:]).astype(np.float64)
    sums[:, -1] = 1.0
    numbers = source.fractions(num_samples * len(rows), True).reshape(len(rows), num_samples)
    found = np.empty(numbers.shape, np.int64)
    for row, drawn, out in zip(sums, numbers, found, strict=True):
        out[:] = np.searchsorted(row, drawn)
    return found


def _without_replacement(rows: Any, num_samples: int, dtype: DType, source: Generator) -> Any:
    """The largest of p / e, where e is exponential: each index wins with its probability."""
    waits = np.empty(rows.shape, rows.dtype)
    flat = fresh_now(make_aval(rows.shape, dtype), source, "exponential", (1.0,))._ndarray()
    run_quietly(np.divide, rows, flat, waits)
    if num_samples == 1:
        return waits.argmax(1)
    return np.argsort(-waits, axis=1, kind="stable")[:, :num_samples]


def poisson(input: Any, generator: Any = None) -> Any:
    """Poisson numbers with the rates in ``input``, in its dtype.

    Raises:
        RuntimeError: a negative rate.
    """
    source = generator_or_default("poisson", generator)
    floating("poisson_cpu", input.dtype)
    rates = values_of(input)
    if not (rates >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    out = fresh_now(make_aval(input.shape, input.dtype), source, "poisson", (rates.astype(float64.np).ravel(),))
    return constant_in(placed(out, input.device), input)
