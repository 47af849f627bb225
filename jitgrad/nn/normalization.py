"""``LayerNorm`` and ``RMSNorm``.

Sources: Ba et al., "Layer Normalization", 2016; Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.dtypes import DType
from jitgrad.functions import ones, zeros
from jitgrad.nn import functional as F
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["LayerNorm", "RMSNorm"]


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """Zero mean and unit variance over the trailing dimensions, then an affine map.

    Args:
        normalized_shape: the trailing extents.
        eps: added to the variance.
        elementwise_affine: whether there are weight (ones) and bias (zeros).
        bias: whether there is a bias among them.
        dtype: of the parameters.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        self.weight: Parameter | None
        self.bias: Parameter | None
        affine = elementwise_affine
        self.register_parameter("weight", Parameter(ones(*self.normalized_shape, dtype=dtype)) if affine else None)
        has_bias = affine and bias
        self.register_parameter("bias", Parameter(zeros(*self.normalized_shape, dtype=dtype)) if has_bias else None)

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """Unit root mean square over the trailing dimensions, then a weight.

    Args:
        normalized_shape: the trailing extents.
        eps: added to the mean square; the dtype's epsilon if None.
        elementwise_affine: whether there is a weight (ones).
        dtype: of the weight.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        self.weight: Parameter | None
        affine = elementwise_affine
        self.register_parameter("weight", Parameter(ones(*self.normalized_shape, dtype=dtype)) if affine else None)

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
