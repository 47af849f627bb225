"""What weight and spectral normalisation compute, for their parametrizations and for their older forms.

Owns: ``norm_except_dim``, ``weight_of``, ``as_matrix``, ``norm_dim``.
Must not know: modules' parametrizations.

Sources: Salimans and Kingma, "Weight Normalization", 2016; Miyato et al., "Spectral Normalization for Generative
Adversarial Networks", 2018.
"""

from __future__ import annotations

from typing import Any

from jitgrad.nn.conv_other import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from jitgrad.nn.module import Module

__all__ = ["as_matrix", "norm_dim", "norm_except_dim", "weight_of"]


def norm_except_dim(v: Any, dim: int) -> Any:
    """2-norms of ``v`` over all dimensions but ``dim``, of its rank; of everything, without dimensions, if -1."""
    if dim == -1:
        return v.norm(2)
    others = [d for d in range(v.ndim) if d != dim % v.ndim]
    return v.norm(2, others, True) if others else v.abs()


def weight_of(v: Any, g: Any, dim: int) -> Any:
    """``v`` with the norms ``g``."""
    return v * (g / norm_except_dim(v, dim))


def as_matrix(weight: Any, dim: int) -> Any:
    """A matrix whose rows are dimension ``dim``."""
    if dim:
        weight = weight.permute(dim, *(d for d in range(weight.ndim) if d != dim))
    return weight.flatten(1)


def norm_dim(module: Module, dim: int | None) -> int:
    """Which dimension is the output's, unless one is given."""
    if dim is not None:
        return dim
    return 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0
