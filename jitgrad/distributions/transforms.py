"""Transforms: invertible functions of random variables, and the logarithms of their Jacobians.

Owns: the transforms under PyTorch's names.
Must not know: distributions.
"""

from __future__ import annotations

import functools
import math
import operator
import weakref
from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.utils import broadcast_shapes, is_number, sum_rightmost
from jitgrad.dtypes import finfo
from jitgrad.functions import full, softplus, zeros_like
from jitgrad.lazy import late_module

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ComposeTransform",
    "ExpTransform",
    "IndependentTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]

_RESHAPING = dict.fromkeys(
    "CatTransform CorrCholeskyTransform CumulativeDistributionTransform LowerCholeskyTransform "
    "PositiveDefiniteTransform ReshapeTransform StackTransform StickBreakingTransform".split(),
    "jitgrad.distributions.reshaping",
)
__getattr__, __dir__ = late_module(globals(), _RESHAPING)


class Transform:
    """A function of tensors.

    Args:
        cache_size: 1: the last argument and result are kept, so that the inverse of the result is the argument itself.

    Attributes:
        domain, codomain: where arguments and results are.
        bijective: whether ``inv`` is an inverse on both sides.
        sign: of the derivative, if that is always the same.
    """

    domain: Any
    codomain: Any
    bijective: Any = False

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inverse_of: weakref.ref[Any] | None = None
        self._cached: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """Of the domain, which must be the codomain's. ValueError if they differ."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse."""
        found = None if self._inverse_of is None else self._inverse_of()
        if found is None:
            found = _InverseTransform(self)
            self._inverse_of = weakref.ref(found)
        return found

    @property
    def sign(self) -> Any:
        """1 if it is increasing, -1 if it is decreasing. NotImplementedError if it is neither."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with another cache. NotImplementedError if it does not say how."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __call__(self, x: Any) -> Any:
        if self._cache_size and x is self._cached[0]:
            return self._cached[1]
        y = self._call(x)
        if self._cache_size:
            self._cached = (x, y)
        return y

    def _inverse_call(self, y: Any) -> Any:
        if self._cache_size and y is self._cached[1]:
            return self._cached[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached = (x, y)
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |dy/dx|, without the last ``event_dim`` dimensions."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The result's shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The argument's shape."""
        return shape

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._transform = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._transform.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._transform.domain

    @property
    def bijective(self) -> Any:
        return self._transform.bijective

    @property
    def sign(self) -> Any:
        return self._transform.sign

    @property
    def inv(self) -> Transform:
        return self._transform

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._transform.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._transform == other._transform

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"_InverseTransform({self._transform!r})"

    def __call__(self, x: Any) -> Any:
        return self._transform._inverse_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._transform.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._transform.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._transform.forward_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after the other.

    Args:
        parts: the first one first.
        cache_size: of each part.
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim += part.domain.event_dim - part.codomain.event_dim
            event_dim = max(event_dim, part.domain.event_dim)
        return _in_blocks(self.parts[0].domain, event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim += part.codomain.event_dim - part.domain.event_dim
            event_dim = max(event_dim, part.codomain.event_dim)
        return _in_blocks(self.parts[-1].codomain, event_dim)

    @property
    def bijective(self) -> Any:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, [part.sign for part in self.parts], 1)

    @property
    def inv(self) -> Transform:
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        terms, event_dim = [], self.domain.event_dim
        for part, before, after in zip(self.parts, points, points[1:], strict=False):
            jacobian = part.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(jacobian, event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


def _in_blocks(constraint: Any, event_dim: int) -> Any:
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform of blocks: its Jacobian is summed over ``reinterpreted_batch_ndims`` more dimensions."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class _Increasing(Transform):
    """An increasing function of one number; two of a class are equal."""

    domain = constraints.real
    bijective = True

    @property
    def sign(self) -> Any:
        return 1

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = object.__hash__


class ExpTransform(_Increasing):
    """y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class SigmoidTransform(_Increasing):
    """y = 1 / (1 + exp(-x)), not quite 0 or 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        info = finfo(x.dtype)
        return x.sigmoid().clamp(min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y: Any) -> Any:
        info = finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Increasing):
    """y = log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(_Increasing):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return 0.5 * (y.log1p() - (-y).log1p())

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = \\|x\\|, which has no inverse: ``inv`` is the positive one."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x.

    Args:
        loc, scale: tensors or numbers.
        event_dim: how many of the last dimensions make one point.
        cache_size: see ``Transform``.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return _in_blocks(constraints.real, self.event_dim)

    codomain = domain

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _are_same(self.loc, other.loc) and _are_same(self.scale, other.scale)

    __hash__ = object.__hash__

    @property
    def sign(self) -> Any:
        return math.copysign(1, self.scale) if is_number(self.scale) else self.scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if is_number(self.scale):
            result = full(x.shape, math.log(abs(self.scale)), dtype=x.dtype, device=x.device)
        else:
            result = self.scale.abs().log()
        if self.event_dim:
            result = result.expand(x.shape) if not is_number(self.scale) and result.dim() < self.event_dim else result
            result = result.reshape(*result.shape[: -self.event_dim], -1).sum(-1)
        return result.expand(x.shape[: x.dim() - self.event_dim])

    def forward_shape(self, shape: Any) -> Any:
        for parameter in (self.loc, self.scale):
            shape = broadcast_shapes(shape, getattr(parameter, "shape", ()))
        return shape

    inverse_shape = forward_shape


def _are_same(a: Any, b: Any) -> bool:
    if is_number(a) and is_number(b):
        return bool(a == b)
    return bool((a == b).all())


class PowerTransform(Transform):
    """y = x ** exponent, for positive x.

    Args:
        exponent: a tensor or a number, not 0.
        cache_size: see ``Transform``.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _are_same(self.exponent, other.exponent)

    __hash__ = object.__hash__

    @property
    def sign(self) -> Any:
        return math.copysign(1, self.exponent) if is_number(self.exponent) else self.exponent.sign()

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shapes(shape, getattr(self.exponent, "shape", ()))

    inverse_shape = forward_shape


class SoftmaxTransform(Transform):
    """Points of the simplex from unconstrained ones; the inverse is the logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape
