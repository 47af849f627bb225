"""Transforms of whole vectors and matrices, and of parts of tensors.

Owns: ``CatTransform``, ``CorrCholeskyTransform``, ``CumulativeDistributionTransform``, ``LowerCholeskyTransform``,
``PositiveDefiniteTransform``, ``ReshapeTransform``, ``StackTransform``, ``StickBreakingTransform``.
Must not know: distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad import linalg
from jitgrad.distributions import constraints
from jitgrad.distributions.transforms import Transform
from jitgrad.distributions.utils import sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix
from jitgrad.dtypes import finfo
from jitgrad.functions import logsigmoid, matmul, pad, sigmoid, softplus, stack
from jitgrad.functions.joining import cat, diag_embed
from jitgrad.layouts import Size

__all__ = [
    "CatTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "StackTransform",
    "StickBreakingTransform",
]


class ReshapeTransform(Transform):
    """Events of another shape, with the same elements.

    Args:
        in_shape, out_shape: of an event, before and after.
        cache_size: see ``Transform``.

    Raises:
        ValueError: they have different numbers of elements.
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape(*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape)

    def _inverse(self, y: Any) -> Any:
        return y.reshape(*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Any, old: Any, new: Any) -> Any:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if shape[cut:] != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return shape[:cut] + new


class StickBreakingTransform(Transform):
    """Points of a simplex with one more corner than the vector has numbers: each breaks off a part of what is left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        z = _inside(x - _left(x, x.shape[-1] + 1).log())
        return pad(z, (0, 1), value=1.0) * pad((1 - z).cumprod(-1), (1, 0), value=1.0)

    def _inverse(self, y: Any) -> Any:
        broken = y[..., :-1]
        rest = (1 - broken.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return broken.log() - rest.log() + _left(broken, y.shape[-1]).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - _left(x, x.shape[-1] + 1).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


def _inside(x: Any) -> Any:
    """A sigmoid that is not quite 0 or 1."""
    info = finfo(x.dtype)
    return sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)


def _left(x: Any, count: int) -> Any:
    """How many corners are left at each break: count - 1, count - 2, ..."""
    return count - x.new_ones(x.shape[-1]).cumsum(-1)


class CorrCholeskyTransform(Transform):
    """Cholesky factors of correlation matrices, [*, d, d], from d (d - 1) / 2 numbers: rows are sticks of length 1."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), -1)
        rest = (1 - r**2).sqrt().cumprod(-1)
        return (r + diag_embed(r.new_ones(r.shape[-1]))) * pad(rest[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Any) -> Any:
        rest = pad((1 - (y * y).cumsum(-1))[..., :-1], (1, 0), value=1.0)
        t = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(rest, -1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        rest = tril_matrix_to_vec(1 - (y * y).cumsum(-1), -2)
        return 0.5 * rest.log().sum(-1) - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class LowerCholeskyTransform(Transform):
    """Lower triangular matrices with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain: Any = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(LowerCholeskyTransform):
    """Positive definite matrices."""

    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = super()._call(x)
        return matmul(factor, factor.mT)

    def _inverse(self, y: Any) -> Any:
        return super()._inverse(linalg.cholesky(y))


class _Parts(Transform):
    """A transform of each part of a tensor along a dimension."""

    dim: int
    transforms: list[Transform]

    def _start(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        Transform.__init__(self, cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> Any:
        return all(t.bijective for t in self.transforms)

    def _size(self) -> int:
        raise NotImplementedError

    def _check(self, x: Any) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {x.dim()} dimensions")
        if x.shape[self.dim] != self._size():
            raise AssertionError(f"x.size({self.dim}) = {x.shape[self.dim]} must equal length {self._size()}")

    def _split(self, x: Any) -> Sequence[Any]:
        raise NotImplementedError

    def _join(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    def _each(self, apply: Callable[[Any, Any], Any], x: Any) -> Any:
        self._check(x)
        return self._join([apply(t, part) for t, part in zip(self.transforms, self._split(x), strict=True)])

    def _call(self, x: Any) -> Any:
        return self._each(lambda t, part: t(part), x)

    def _inverse(self, y: Any) -> Any:
        return self._each(lambda t, part: t.inv(part), y)

    def _jacobians(self, x: Any, y: Any) -> list[tuple[Any, Any]]:
        self._check(x)
        self._check(y)
        parts = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return [(t, t.log_abs_det_jacobian(a, b)) for t, a, b in parts]


class CatTransform(_Parts):
    """Transforms of parts that lie beside each other.

    Args:
        tseq: a transform for each part.
        dim: along which the parts lie.
        lengths: of the parts; 1 each if None.
        cache_size: see ``Transform``.

    Raises:
        AssertionError: no transforms, or another number of lengths.
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        self._start(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Of all parts together."""
        return sum(self.lengths)

    def _size(self) -> int:
        return self.length

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, x: Any) -> Sequence[Any]:
        parts: Sequence[Any] = x.split(self.lengths, self.dim)
        return parts

    def _join(self, parts: list[Any]) -> Any:
        return cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        event_dim = self.event_dim
        found = [sum_rightmost(jacobian, event_dim - t.event_dim) for t, jacobian in self._jacobians(x, y)]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + event_dim
        return cat(found, dim) if dim < 0 else sum(found)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """Transforms of the slices of a tensor.

    Args:
        tseq: a transform for each slice.
        dim: along which the slices lie.
        cache_size: see ``Transform``.

    Raises:
        AssertionError: no transforms.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        self._start(tseq, dim, cache_size)

    def _size(self) -> int:
        return len(self.transforms)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _split(self, x: Any) -> Sequence[Any]:
        parts: Sequence[Any] = x.unbind(self.dim)
        return parts

    def _join(self, parts: list[Any]) -> Any:
        return stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return stack([jacobian for _, jacobian in self._jacobians(x, y)], self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """A number's rank: the distribution function of ``distribution``.

    Args:
        distribution: has ``cdf``, and ``icdf`` for the inverse.
        cache_size: see ``Transform``.
    """

    bijective = True
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    @property
    def sign(self) -> Any:
        return 1

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
