"""Existing tensors filled with random numbers.

Owns: ``uniform_``, ``normal_``, ``bernoulli_``, ``random_``, ``exponential_``, ``geometric_``, ``cauchy_``,
``log_normal_``.
Must not know: how numbers are made. A tensor is overwritten with a new one in its layout: one operation in a trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import BOOLEAN, int64
from jitgrad.functions.drawing import (
    C_NAMES,
    above,
    check_bounds,
    check_continuous,
    check_probability,
    check_std,
    floating,
    fresh_like,
    integer_range,
    largest_of,
    number_text,
    whole_range_of,
)
from jitgrad.functions.sampling import successes
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

__all__ = ["RANDOM_METHODS"]

_COPY = OPS["copy"]
_INT64_MIN = -(1 << 63)
_LEFT_OUT: tuple[()] = ()


def _fill(self: Any, name: str, generator: Any, distribution: str, *params: Any) -> Any:
    door.apply_inplace(
        _COPY, (self,), self, fresh_like(self, distribution, *params, generator=generator, name=name)
    )
    return self


def uniform_(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite with numbers drawn uniformly from [from_, to). RuntimeError for an empty range."""
    if self.dtype.is_complex:
        uniform_(call("view_as_real", self), from_, to, generator=generator)
        return self
    floating("check_uniform_bounds", self.dtype)
    if not from_ <= to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={number_text(from_)} > to={number_text(to)}"
        )
    return _fill(self, "uniform_", generator, "uniform", float(from_), float(to))


def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite with normal numbers. RuntimeError for a negative deviation."""
    check_std(std)
    if self.dtype.is_complex:  # the variance is that of both parts together
        normal_(call("view_as_real", self), mean, std * math.sqrt(0.5), generator=generator)
        return self
    floating("normal_kernel_cpu", self.dtype, self.numel())
    distribution = "normal" if self._aval.is_contiguous else "normal_pairs"
    return _fill(self, "normal_", generator, distribution, float(mean), float(std))


def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """Overwrite with ones, with probability ``p`` (a number, or a tensor of them), and zeros."""
    if isinstance(p, TensorBase):
        door.apply_inplace(_COPY, (self,), self, successes(self._aval, p, self.dtype, generator))
        return self
    check_probability("bernoulli_", p)
    return _fill(self, "bernoulli_", generator, "bernoulli", float(p))


def exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite with exponential numbers of rate ``lambd``. RuntimeError unless that is positive."""
    if not lambd > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={number_text(lambd)}")
    if self.numel():
        check_continuous("Exponential", self.dtype)
    return _fill(self, "exponential_", generator, "exponential", float(lambd))


def geometric_(self: Any, p: float, *, generator: Any = None) -> Any:
    """Overwrite with the numbers of trials until one succeeds. RuntimeError unless ``p`` is in (0, 1)."""
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={number_text(p)}")
    if self.dtype.category is BOOLEAN and self.numel():
        raise NotImplementedError("\"geometric_cpu\" not implemented for 'Bool'")
    return _fill(self, "geometric_", generator, "geometric", float(p))


def cauchy_(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite with Cauchy numbers. RuntimeError unless ``sigma`` is positive."""
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={number_text(sigma)}")
    check_continuous("Cauchy", self.dtype, {**C_NAMES, "int64": "long int"})
    return _fill(self, "cauchy_", generator, "cauchy", float(median), float(sigma))


def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    """Overwrite with numbers whose logarithm is normal. RuntimeError unless ``std`` is positive."""
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={number_text(std)}")
    floating("log_normal_cpu", self.dtype, self.numel())
    return _fill(self, "log_normal_", generator, "log_normal", float(mean), float(std))


def random_(self: Any, from_: Any = None, to: Any = _LEFT_OUT, *, generator: Any = None) -> Any:
    """Overwrite with integers.

    Forms: ``random_()``, of all that the dtype holds exactly, from 0 on; ``random_(to)``, of [0, to); ``random_(from_,
    to)``; ``random_(from_, None)``, up to the dtype's largest.

    Raises:
        RuntimeError: an empty range, or one that the dtype does not hold.
    """
    if from_ is None and to is _LEFT_OUT:
        return _fill(self, "random_", generator, "words_modulo", *whole_range_of(self.dtype))
    if to is _LEFT_OUT:
        from_, to = 0, from_
    return _random_from(self, 0 if from_ is None else from_, to, generator)


def _random_from(self: Any, low: int, high: int | None, generator: Any) -> Any:
    dtype = self.dtype
    if high is not None:
        return _fill(self, "random_", generator, "integers", *integer_range(low, high, dtype))
    if low == _INT64_MIN:
        if not dtype.is_floating_point and dtype is not int64:
            raise RuntimeError(
                "random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16"
            )
        return _fill(self, "random_", generator, "whole_range")
    largest = largest_of(dtype)
    if dtype.is_floating_point:
        low = above(low, dtype)
    else:
        check_bounds("from", low, dtype)
    if low > largest:
        raise RuntimeError(
            "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but got "
            f"from={low} > to_inc={largest}"
        )
    return _fill(self, "random_", generator, "integers", low, largest - low + 1)


RANDOM_METHODS: tuple[Callable[..., Any], ...] = (
    uniform_,
    normal_,
    bernoulli_,
    random_,
    exponential_,
    geometric_,
    cauchy_,
    log_normal_,
)
