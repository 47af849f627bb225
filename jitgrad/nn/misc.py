"""The dropout layers, ``Flatten`` and ``Unflatten``."""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.nn import functional as F
from jitgrad.nn.module import Module
from jitgrad.tensor import Tensor

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
    "Flatten",
    "Unflatten",
]


class _Dropout(Module):
    """What the layers have in common: a probability, and whether the input is overwritten.

    Raises:
        ValueError: ``p`` is no probability.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """While training, zeroes elements with probability ``p`` and scales the others by 1 / (1 - p).

    Source: Hinton et al., "Improving neural networks by preventing co-adaptation of feature detectors", 2012.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Same shape; the input itself in evaluation mode."""
        return F.dropout(input, self.p, self.training, self.inplace) if self.training else input


class Dropout1d(_Dropout):
    """``Dropout`` of whole channels of (N, C, L) or (C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape; the input itself in evaluation mode."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """``Dropout`` of whole channels of (N, C, H, W) or (N, C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape; the input itself in evaluation mode."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """``Dropout`` of whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape; the input itself in evaluation mode."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps the mean and the variance of what ``SELU`` gives; see ``functional.alpha_dropout``."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape; the input itself in evaluation mode."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """``AlphaDropout`` of whole channels of (N, C, ..)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape; the input itself in evaluation mode."""
        return F.feature_alpha_dropout(input, self.p, self.training)


class Flatten(Module):
    """Merges dimensions ``start_dim`` to ``end_dim``."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """A view where possible."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension ``dim`` into ``unflattened_size``."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """A view where possible; one extent may be -1."""
        dim = self.dim % input.ndim
        shape = tuple(input.shape)
        return input.reshape(*shape[:dim], *self.unflattened_size, *shape[dim + 1 :])

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
