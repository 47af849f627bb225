"""``MultivariateNormal``.

Owns: the normal distribution of vectors.
Must not know: other distributions.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad import linalg
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.utils import broadcast_shapes, lazy_property, standard_normal

__all__ = ["MultivariateNormal", "scale_tril_of_precision", "squared_distance"]

_MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


def squared_distance(scale_tril: Any, difference: Any) -> Any:
    """Mahalanobis' distance, squared: of ``L^-1 d``, for [*, n, n] and [*, n].

    What one matrix serves is a right side of many columns, as in PyTorch's ``_batch_mahalanobis``.
    """
    batch, n = scale_tril.shape[:-2], scale_tril.shape[-1]
    outer = difference.shape[: difference.ndim - 1 - len(batch)]
    if difference.shape != (*outer, *batch, n) or not outer:
        solved = linalg.solve_triangular(scale_tril, difference.unsqueeze(-1), upper=False)
        return solved.squeeze(-1).pow(2).sum(-1)
    columns = difference.reshape(math.prod(outer), *batch, n).movedim(0, -1)
    distances = linalg.solve_triangular(scale_tril, columns, upper=False).pow(2).sum(-2)
    return distances.movedim(-1, 0).reshape(*outer, *batch)


def scale_tril_of_precision(precision: Any) -> Any:
    """The Cholesky factor of a matrix whose inverse is given."""
    # P = U U^T with U upper triangular, so that the covariance is U^-T U^-1
    upper = linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1))
    return linalg.inv(upper).transpose(-2, -1).tril()


class MultivariateNormal(Distribution):
    """The normal distribution of vectors. One of the three matrices is given; all computations use ``scale_tril``.

    Args:
        loc: the mean, [*, n].
        covariance_matrix: [*, n, n].
        precision_matrix: its inverse.
        scale_tril: its Cholesky factor, lower triangular with a positive diagonal.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not one matrix, or too few dimensions.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, **dict.fromkeys(_MATRICES, 2), "_unbroadcasted_scale_tril": 2}  # noqa: RUF012

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = dict(zip(_MATRICES, (covariance_matrix, precision_matrix, scale_tril), strict=True))
        given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = given
        if matrix.dim() < 2:
            kind = f"{name} matrix" if name == "scale_tril" else name
            raise ValueError(f"{kind} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand(*batch_shape, *matrix.shape[-2:])
        self.loc = loc.expand(*batch_shape, loc.shape[-1])
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = matrix
        if name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        elif name == "precision_matrix":
            self._unbroadcasted_scale_tril = scale_tril_of_precision(matrix)

    @lazy_property
    def scale_tril(self) -> Any:
        """The covariance's Cholesky factor."""
        return self._expanded(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._expanded(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.transpose(-2, -1))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The covariance's inverse."""
        inverse = linalg.inv(self._unbroadcasted_scale_tril)
        return self._expanded(inverse.transpose(-2, -1) @ inverse)

    def _expanded(self, matrix: Any) -> Any:
        return matrix.expand(*self._batch_shape, *matrix.shape[-2:])

    @property
    def half_log_det(self) -> Any:
        """Half the logarithm of the covariance's determinant."""
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        squared = squared_distance(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + squared) - self.half_log_det

    def entropy(self) -> Any:
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self.half_log_det
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
