"""Modules that learn the extent of their input from the first one: ``LazyLinear``, ``LazyConv2d`` and their like.

Owns: ``LazyModuleMixin`` and PyTorch's lazy modules.
Must not know: how a layer computes.

Parameters begin without a shape (``UninitializedParameter``). A hook before the first forward gives them one, draws
their values, and makes the module an ordinary one of the class ``cls_to_become``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import DType, int64
from jitgrad.functions import zeros
from jitgrad.grad_mode import no_grad
from jitgrad.nn.conv import Conv2d, Size
from jitgrad.nn.conv_other import Conv1d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from jitgrad.nn.group_norm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from jitgrad.nn.linear import Linear
from jitgrad.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from jitgrad.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LazyModuleMixin",
]


class LazyModuleMixin:
    """A module whose parameters may have no shape yet; put it before the module's class among the bases.

    A subclass writes ``initialize_parameters(*args, **kwargs)``, which is called with the first input.

    Attributes:
        cls_to_become: the class of the module afterwards; None: it stays.
    """

    cls_to_become: Any = None

    _load_hook: Any
    _initialize_hook: Any

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give parameters their shapes and values, from the first input."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(is_lazy(value) for value in (*self._parameters.values(), *self._buffers.values()))

    def _lazy_load_hook(self: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Take shapes from a state that has them."""
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if given is not None and is_lazy(value) and not is_lazy(given):
                value.materialize(given.shape)

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any) -> None:
        module.initialize_parameters(*args, **kwargs)
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, Linear):
    """A ``Linear`` whose ``in_features`` is the last extent of the first input.

    Args:
        out_features, bias, device, dtype: as of ``Linear``.
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:
        super().__init__(0, 0, False)
        _begin_lazily(self, "out_features", out_features, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters again, if they have shapes."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Take ``in_features`` from the input."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                _materialize(self.weight, (self.out_features, self.in_features))
                _materialize(self.bias, (self.out_features,))
                self.reset_parameters()
        if not self.in_features:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


def _materialize(value: Any, shape: tuple[int, ...]) -> None:
    if is_lazy(value):
        value.materialize(shape)


def _begin_lazily(module: Any, width: str, extent: int, bias: bool, device: Any, dtype: DType | None) -> None:
    """Parameters without shapes, and the extent of the output, which is known."""
    module.weight = UninitializedParameter(device=device, dtype=dtype)
    setattr(module, width, extent)
    if bias:
        module.bias = UninitializedParameter(device=device, dtype=dtype)


def _fit_convolution(module: Any, input: Any) -> None:
    rank = module.dims + 2
    if input.ndim not in (rank - 1, rank):
        raise RuntimeError(
            f"Expected {rank - 1}D (unbatched) or {rank}D (batched) input to {type(module).__name__}, but got input "
            f"of size: {input.shape}"
        )
    module.in_channels = input.shape[input.ndim - rank + 1]
    if module.in_channels % module.groups:
        raise ValueError("in_channels must be divisible by groups")
    ends = (module.out_channels, module.in_channels // module.groups)
    if module.transposed:
        ends = (module.in_channels, module.out_channels // module.groups)
    _materialize(module.weight, (*ends, *module.kernel_size))
    _materialize(module.bias, (module.out_channels,))
    module.reset_parameters()


class _LazyConvBase(LazyModuleMixin):
    """The part of all lazy convolutions: ``in_channels`` comes from the first input."""

    def reset_parameters(self: Any) -> None:
        """Draw the parameters again, if they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Any, *args: Any, **kwargs: Any) -> None:
        """Take ``in_channels`` from the input. ValueError if ``groups`` does not divide it."""
        if self.has_uninitialized_params():
            _fit_convolution(self, input)


class _LazyConv(_LazyConvBase):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        _begin_lazily(self, "out_channels", out_channels, bias, device, dtype)


class _LazyConvTransposed(_LazyConvBase):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        _begin_lazily(self, "out_channels", out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A ``Conv1d`` whose ``in_channels`` is the first input's."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A ``Conv2d`` whose ``in_channels`` is the first input's."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A ``Conv3d`` whose ``in_channels`` is the first input's."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTransposed, ConvTranspose1d):
    """A ``ConvTranspose1d`` whose ``in_channels`` is the first input's."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTransposed, ConvTranspose2d):
    """A ``ConvTranspose2d`` whose ``in_channels`` is the first input's."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTransposed, ConvTranspose3d):
    """A ``ConvTranspose3d`` whose ``in_channels`` is the first input's."""

    cls_to_become = ConvTranspose3d


def _begin_norm(
    module: Any, affine: bool, bias: bool, track_running_stats: bool, device: Any, dtype: DType | None
) -> None:
    module.affine, module.track_running_stats = affine, track_running_stats
    if affine:
        module.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            module.bias = UninitializedParameter(device=device, dtype=dtype)
    if track_running_stats:
        module.running_mean = UninitializedBuffer(device=device, dtype=dtype)
        module.running_var = UninitializedBuffer(device=device, dtype=dtype)
        module.num_batches_tracked = zeros((), dtype=int64, device=device)


class _LazyNorm(LazyModuleMixin):
    """The part of all lazy normalisations: ``num_features`` is the extent of dimension 1 of the first input."""

    def __init__(
        self: Any,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        _begin_norm(self, affine, bias, track_running_stats, device, dtype)

    def reset_parameters(self: Any) -> None:
        """Values as at the start, if parameters have shapes."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Any) -> None:
        """Take ``num_features`` from the input."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for value in (self.weight, self.bias, self.running_mean, self.running_var):
                _materialize(value, (self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A ``BatchNorm1d`` whose ``num_features`` is the first input's."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A ``BatchNorm2d`` whose ``num_features`` is the first input's."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A ``BatchNorm3d`` whose ``num_features`` is the first input's."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An ``InstanceNorm1d`` whose ``num_features`` is the first input's."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """An ``InstanceNorm2d`` whose ``num_features`` is the first input's."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """An ``InstanceNorm3d`` whose ``num_features`` is the first input's."""

    cls_to_become = InstanceNorm3d
