"""``LayerNorm``, ``RMSNorm`` and the batch normalisations.

Sources: Ba et al., "Layer Normalization", 2016; Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import DType, int64
from jitgrad.functions import ones, zeros
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = [
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LayerNorm",
    "NormBase",
    "RMSNorm",
    "SyncBatchNorm",
]


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """Zero mean and unit variance over the trailing dimensions, then an affine map.

    Args:
        normalized_shape: the trailing extents.
        eps: added to the variance.
        elementwise_affine: whether there are weight (ones) and bias (zeros).
        bias: whether there is a bias among them.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        self.weight: Parameter | None
        self.bias: Parameter | None
        shape, affine = self.normalized_shape, elementwise_affine
        weight = Parameter(ones(*shape, device=device, dtype=dtype)) if affine else None
        self.register_parameter("weight", weight)
        offset = Parameter(zeros(*shape, device=device, dtype=dtype)) if affine and bias else None
        self.register_parameter("bias", offset)

    def reset_parameters(self) -> None:
        """Ones and zeros again."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        text = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        return f"{text}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Unit root mean square over the trailing dimensions, then a weight.

    Args:
        normalized_shape: the trailing extents.
        eps: added to the mean square; the dtype's epsilon if None.
        elementwise_affine: whether there is a weight (ones).
        device, dtype: of the weight.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        self.weight: Parameter | None
        ones_there = ones(*self.normalized_shape, device=device, dtype=dtype) if elementwise_affine else None
        self.register_parameter("weight", None if ones_there is None else Parameter(ones_there))

    def reset_parameters(self) -> None:
        """Ones again."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class NormBase(Module):
    """Parameters and running statistics of normalisations of channels.

    Attributes:
        ndims: the ranks that an input may have.
    """

    ndims: tuple[int, ...] = ()
    _version = 2  # num_batches_tracked came with it

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps = num_features, eps
        self.momentum: float | None = momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight: Parameter | None
        self.bias: Parameter | None
        self.running_mean: Tensor | None
        self.running_var: Tensor | None
        self.num_batches_tracked: Tensor | None
        for name, make, there in (("weight", ones, affine), ("bias", zeros, affine and bias)):
            self.register_parameter(name, Parameter(make(num_features, device=device, dtype=dtype)) if there else None)
        tracked = track_running_stats
        for name, make in (("running_mean", zeros), ("running_var", ones)):
            self.register_buffer(name, make(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", zeros((), device=device, dtype=int64) if tracked else None)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ndims:
            expected = " or ".join(f"{n}D" for n in self.ndims)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def reset_running_stats(self) -> None:
        """Forget every batch."""
        if self.track_running_stats:
            for name, value in (("running_mean", 0), ("running_var", 1), ("num_batches_tracked", 0)):
                self._buffers[name].fill_(value)

    def reset_parameters(self) -> None:
        """Forget every batch; weight 1 and bias 0 again."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        version = local_metadata.get("version")
        key = f"{prefix}num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            known = self.num_batches_tracked
            is_there = known is not None and not known.is_meta
            state_dict[key] = known if is_there else zeros((), dtype=int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm(NormBase):
    """Normalises each channel over the batch: the base of ``BatchNorm1d`` and the like."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape. ValueError for another rank, or one element per channel while training."""
        self._check_input_dim(input)
        mean, variance = self.running_mean, self.running_var
        by_batch = self.training or (mean is None and variance is None)
        momentum = self.momentum or 0.0
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        if self.training and not self.track_running_stats:  # switched off later: the statistics stay as they are
            mean = variance = None
        return F.batch_norm(input, mean, variance, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L).

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: how far the running statistics move towards the batch's; None: they are the mean of all batches'.
        affine: whether there are weight (ones) and bias (zeros).
        track_running_stats: keep running statistics and use them in evaluation mode.
        device, dtype: of parameters and buffers.
        bias: whether there is a bias.

    Source: Ioffe and Szegedy, "Batch Normalization", 2015.
    """

    ndims = (2, 3)


class BatchNorm2d(BatchNorm):
    """Batch normalisation of (N, C, H, W); arguments as ``BatchNorm1d``."""

    ndims = (4,)


class BatchNorm3d(BatchNorm):
    """Batch normalisation of (N, C, D, H, W); arguments as ``BatchNorm1d``."""

    ndims = (5,)


class SyncBatchNorm(BatchNorm):
    """Batch normalisation of (N, C, *): there is one process, so its batch is the whole batch.

    Args:
        num_features, eps, momentum, affine, track_running_stats, device, dtype, bias: as ``BatchNorm1d``.
        process_group: accepted for PyTorch's sake.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module, with every batch normalisation in it replaced by one of this class that shares its state."""
        if isinstance(module, BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            made.weight, made.bias = module.weight, module.bias
            if module.track_running_stats:
                made.running_mean, made.running_var = module.running_mean, module.running_var
                made.num_batches_tracked = module.num_batches_tracked
            made.training = module.training
            return made
        for name, child in list(module.named_children()):
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module
