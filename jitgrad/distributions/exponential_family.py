"""Exponential families.

Owns: ``ExponentialFamily``.
Must not know: distributions.
"""

from __future__ import annotations

from typing import Any

from jitgrad.autograd import grad
from jitgrad.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution with the density exp(<t(x), theta> - F(theta) + k(x)).

    A subclass gives theta by ``_natural_params``, F by ``_log_normalizer`` and the mean of k(x) by
    ``_mean_carrier_measure``; ``entropy`` follows from them (F. Nielsen and R. Nock, Entropies and cross-entropies of
    exponential families, 2010).
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        """theta: tensors of ``batch_shape``, with an event's dimensions where it has some."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        """F: a tensor of ``batch_shape``."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of k(x); a subclass of which it is known has a number or a tensor of this name."""
        raise NotImplementedError

    def entropy(self) -> Any:
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        slopes = grad(normalizer.sum(), params, create_graph=True)
        inner = sum((p * g).reshape((*self._batch_shape, -1)).sum(-1) for p, g in zip(params, slopes, strict=True))
        return normalizer - inner - self._mean_carrier_measure
