"""Constraints: regions that parameters and values must lie in.

Owns: the constraints under PyTorch's names, and how they are checked.
Must not know: distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import finfo
from jitgrad.functions import cat as joined
from jitgrad.functions import full, isclose, tensor
from jitgrad.functions import stack as stacked

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region.

    Attributes:
        is_discrete: whether it holds isolated points only.
        event_dim: how many of the last dimensions make one point.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Which points of a tensor lie in the region: a bool tensor without the last ``event_dim`` dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__.removeprefix('_')}()"


class _Dependent(Constraint):
    """A region that depends on other parameters: it cannot be checked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> Any:
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> Any:
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The same with more said of it."""
        known = (self._is_discrete if is_discrete is NotImplemented else is_discrete,
                 self._event_dim if event_dim is NotImplemented else event_dim)  # fmt: skip
        return _Dependent(is_discrete=known[0], event_dim=known[1])

    def check(self, value: Any) -> Any:
        """Raises ValueError."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on parameters, so that it cannot be checked by itself."""
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):
    """A property of distributions that is a constraint; of the class, one that depends on parameters."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[..., Any]) -> Any:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """A region whose points are blocks of points of another one."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value)
        kept = result.dim() - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return result.reshape(*result.shape[:kept], -1).all(-1) if self.reinterpreted_batch_ndims else result

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The region of a mixture: of all its components, which have one batch dimension more."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        kept = value.dim() - self.event_dim
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return result.reshape(*result.shape[:kept], -1).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """Regions between bounds; ``_bounds`` are their names, as they are shown."""

    _bounds: tuple[str, ...] = ("lower_bound", "upper_bound")

    def __init__(self, *bounds: Any, **named: Any) -> None:
        given = {**dict(zip(self._bounds, bounds, strict=False)), **named}
        if set(given) != set(self._bounds) or len(bounds) + len(named) != len(self._bounds):
            raise TypeError(f"{type(self).__name__.removeprefix('_')} takes {' and '.join(self._bounds)}")
        vars(self).update(given)

    lower_bound: Any
    upper_bound: Any

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={getattr(self, name)}" for name in self._bounds)
        return f"{type(self).__name__.removeprefix('_')}({bounds})"


class _IntegerInterval(_Bounded):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    is_discrete = True
    _bounds = ("lower_bound",)

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value  # but for NaN


class _GreaterThan(_Bounded):
    _bounds = ("lower_bound",)

    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    _bounds = ("lower_bound",)

    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _LessThan(_Bounded):
    _bounds = ("upper_bound",)

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Bounded):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Counts. Their sum may be below the bound, as in PyTorch."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return (value.tril() == value).all(-1).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Rows have length 1."""

    def check(self, value: Any) -> Any:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        lengths = value.detach().square().sum(-1).sqrt()
        return super().check(value) & ((lengths - 1.0).abs() <= tolerance).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return full(value.shape[:-2], value.shape[-2] == value.shape[-1], device=value.device)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return isclose(value, value.transpose(-2, -1), atol=1e-6).all(-1).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        is_symmetric = super().check(value)
        if not is_symmetric.all():
            return is_symmetric
        array = value.detach().cpu().numpy()
        return tensor(np.asarray((np.linalg.eigvalsh(array) >= 0).all(-1)), device=value.device)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        is_symmetric = super().check(value)
        if not is_symmetric.all():
            return is_symmetric
        array = value.detach().cpu().numpy()
        found = [_has_cholesky(matrix) for matrix in array.reshape(-1, *array.shape[-2:])]
        return tensor(np.array(found, dtype=bool).reshape(array.shape[:-2]), device=value.device)


def _has_cholesky(matrix: Any) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


class _OfParts(Constraint):
    """A region of parts of tensors, each in a region of its own."""

    cseq: list[Any]
    dim: int

    def _start(self, cseq: Any, dim: int) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> Any:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:
        return max(c.event_dim for c in self.cseq)

    def _check_dim(self, value: Any) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")


class _Cat(_OfParts):
    """Parts beside each other, of the given lengths (1 each if None)."""

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        self._start(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    def check(self, value: Any) -> Any:
        self._check_dim(value)
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        parts = zip(self.cseq, starts, self.lengths, strict=True)
        return joined([c.check(value.narrow(self.dim, start, length)) for c, start, length in parts], self.dim)


class _Slices(_OfParts):
    """Slices."""

    def __init__(self, cseq: Any, dim: int = 0) -> None:
        self._start(cseq, dim)

    @property
    def event_dim(self) -> Any:
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Any) -> Any:
        self._check_dim(value)
        slices = zip(self.cseq, value.unbind(self.dim), strict=False)
        return stacked([c.check(one) for c, one in slices], self.dim)


dependent = _Dependent()
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = _IndependentConstraint(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_definite = _PositiveDefinite()
positive_semidefinite = _PositiveSemidefinite()
cat = _Cat
stack = _Slices
independent = _IndependentConstraint
