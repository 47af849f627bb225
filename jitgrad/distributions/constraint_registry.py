"""Which transform leads from all real numbers into a region.

Owns: ``ConstraintRegistry``, ``biject_to``, ``transform_to``.
Must not know: distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.constraints import Constraint
from jitgrad.distributions.reshaping import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    StackTransform,
    StickBreakingTransform,
)
from jitgrad.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    SigmoidTransform,
    SoftmaxTransform,
    identity_transform,
)
from jitgrad.distributions.utils import is_number

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Any]


class ConstraintRegistry:
    """A table: class of a constraint -> function of a constraint that makes a transform."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Add a row; without ``factory``, a decorator of one.

        Args:
            constraint: a class of constraints, or one of them.

        Raises:
            TypeError: it is neither.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform into a region. NotImplementedError if there is none."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
"""One to one."""

transform_to = ConstraintRegistry()
"""Onto, whatever is better for optimization."""


def _beyond(bound: Any, sign: int) -> Any:
    return ComposeTransform([ExpTransform(), AffineTransform(bound, sign)])


def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low) and is_number(high) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


_BOTH: tuple[tuple[Any, Factory], ...] = (
    (constraints.real, lambda c: identity_transform),
    (constraints.positive, lambda c: ExpTransform()),
    (constraints.nonnegative, lambda c: ExpTransform()),
    (constraints.greater_than, lambda c: _beyond(c.lower_bound, 1)),
    (constraints.greater_than_eq, lambda c: _beyond(c.lower_bound, 1)),
    (constraints.less_than, lambda c: _beyond(c.upper_bound, -1)),
    (constraints.interval, _between),
    (constraints.half_open_interval, _between),
    (constraints.corr_cholesky, lambda c: CorrCholeskyTransform()),
)
"""In this order: the bounds of 0 are of the classes that come after them."""

for _constraint, _factory in _BOTH:
    biject_to.register(_constraint, _factory)
    transform_to.register(_constraint, _factory)

biject_to.register(constraints.simplex, lambda c: StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, lambda c: PositiveDefiniteTransform())
transform_to.register(constraints.positive_semidefinite, lambda c: PositiveDefiniteTransform())


def _register_parts(table: ConstraintRegistry) -> None:
    """Regions made of others."""
    table.register(
        constraints.independent, lambda c: IndependentTransform(table(c.base_constraint), c.reinterpreted_batch_ndims)
    )
    table.register(constraints.cat, lambda c: CatTransform([table(one) for one in c.cseq], c.dim, c.lengths))
    table.register(constraints.stack, lambda c: StackTransform([table(one) for one in c.cseq], c.dim))


_register_parts(biject_to)
_register_parts(transform_to)
