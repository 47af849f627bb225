"""``Distribution``: the base class.

Owns: shapes, checks of parameters and values, ``expand``, and what follows from other methods.
Must not know: any distribution.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from jitgrad.distributions import constraints
from jitgrad.distributions.constraints import Constraint
from jitgrad.distributions.utils import lazy_property
from jitgrad.grad_mode import no_grad
from jitgrad.layouts import Size
from jitgrad.tensor_base import TensorBase

__all__ = ["Distribution", "Shape"]

Shape = Size


class Distribution:
    """A batch of probability distributions of one kind.

    A sample has the shape ``sample_shape + batch_shape + event_shape``; a log density has it without the last part.

    Args:
        batch_shape: of the parameters.
        event_shape: of one sample.
        validate_args: whether parameters and values are checked, which reads them; None: unless Python runs with
            ``-O``.

    Raises:
        ValueError: a parameter violates its constraint.

    Attributes:
        has_rsample: whether ``rsample`` has gradients.
        has_enumerate_support: whether ``enumerate_support`` works.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: Any = None
    support: Any = None
    _validate_args = __debug__
    _parameters: ClassVar[dict[str, int]] = {}
    """Attributes that ``expand`` expands, and how many of their last dimensions belong to the event."""
    _constants: ClassVar[tuple[str, ...]] = ()
    """Attributes that ``expand`` keeps."""

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments by default. ValueError if it is no bool."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        if self.arg_constraints is None:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
        for name, constraint in (self.arg_constraints or {}).items():
            if constraints.is_dependent(constraint) or self._is_lazy(name):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _is_lazy(self, name: str) -> bool:
        return name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions in a larger batch, without copying parameters.

        Raises:
            NotImplementedError: a subclass with an ``__init__`` of its own has no ``expand``.
        """
        cls: Any = next((c for c in type(self).__mro__ if "_parameters" in vars(c)), Distribution)
        if cls is Distribution:
            raise NotImplementedError
        new = self._get_checked_instance(cls, _instance)
        for name, event_dim in cls._parameters.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                new.__dict__[name] = value.expand(*batch_shape, *value.shape[value.dim() - event_dim :])
        return self._finish_expand(new, batch_shape, cls._constants)

    def _finish_expand(self, new: Any, batch_shape: Any, constants: tuple[str, ...] = ()) -> Any:
        for name in constants:
            new.__dict__[name] = self.__dict__[name]
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Shape:
        """Of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Shape:
        """Of one sample."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The mean: ``batch_shape + event_shape``."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most probable value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance: ``batch_shape + event_shape``."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples without gradients: ``sample_shape + batch_shape + event_shape``."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples that are differentiable functions of the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """``sample((n,))``."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2
        )
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, of values. ValueError outside the support."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution, along a new first dimension.

        Args:
            expand: over the batch; else its dimensions are 1.
        """
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, in nats: ``batch_shape``."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """e to the power of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Shape:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _enumerated(self, values: Any, expand: bool) -> Any:
        """Values of one dimension, as ``enumerate_support`` returns them."""
        values = values.view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def _validate_sample(self, value: Any) -> None:
        """Nothing, if arguments are not checked. ValueError for values of a wrong shape or outside the support."""
        if not self._validate_args:
            return
        if not isinstance(value, TensorBase):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, expected = value._aval.size, self._batch_shape + self._event_shape
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {shape} vs {self._event_shape}."
            )
        for i, j in zip(reversed(shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        support = self.support
        if not isinstance(support, Constraint):
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
        elif not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints or {} if name in self.__dict__]
        shown = {name: self.__dict__[name] for name in names}
        parts = [f"{name}: {x if x.numel() == 1 else x.shape}" for name, x in shown.items()]
        return f"{type(self).__name__}({', '.join(parts)})"
