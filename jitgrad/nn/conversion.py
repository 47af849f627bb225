"""Moving and converting the tensors of a tree of modules.

Owns: ``Convertible``, the part of ``Module`` that replaces every parameter, gradient and buffer by something of it.
Must not know: which modules there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from jitgrad.dtypes import DType, bfloat16, float16, float32, float64, known_dtypes
from jitgrad.functions import empty
from jitgrad.functions.devices import to_target
from jitgrad.grad_mode import no_grad
from jitgrad.nn.parameter import is_lazy
from jitgrad.nn.registry import Registry
from jitgrad.runtime.devices.stream import virtual
from jitgrad.tensor import Tensor

__all__ = ["Convertible"]

Self = TypeVar("Self", bound="Convertible")

_OLD_NAMES = {d.type_name: d for d in known_dtypes()} | {d.name: d for d in known_dtypes()}
"""``torch.FloatTensor`` and its like, the kinds of tensors of PyTorch's first versions; and the dtypes' own names."""


class Convertible:
    """The part of ``Module`` that moves and converts tensors.

    Parameters stay the objects they are, so optimizers keep theirs; their gradients go with them.
    """

    _parameters: Registry
    _buffers: Registry
    _modules: Registry

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace every tensor ``t`` of the tree by ``fn(t)``, children first."""
        if recurse:
            for child in self._modules.values():
                if child is not None:
                    child._apply(fn)
        with no_grad():
            for value in self._parameters.values():
                if value is not None:
                    _convert_parameter(value, fn)
            for name, value in list(self._buffers.items()):
                if value is not None:
                    self._buffers[name] = fn(value)
        return self

    def to(
        self: Self,
        *args: Any,
        dtype: DType | None = None,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Self:
        """Convert or move parameters and buffers: ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``.

        A dtype applies to floating tensors only, a memory format to those of four or five dimensions.

        Raises:
            TypeError: for a dtype that is not floating.
            RuntimeError: there is no such device.
        """
        dtype, device = to_target(args, dtype, device)
        if dtype is not None and not dtype.is_inexact:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(t: Tensor) -> Tensor:
            kind = dtype if t.dtype.is_inexact else None
            return t.to(dtype=kind, device=device, memory_format=memory_format if t.ndim in (4, 5) else None)

        return self._apply(convert)

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying: the values are whatever the new memory holds."""
        return self._apply(
            lambda t: t.to(device=device) if is_lazy(t) else empty(*t.shape, dtype=t.dtype, device=device), recurse
        )

    def type(self: Self, dst_type: Any) -> Self:
        """Convert every tensor to a dtype, or to the one of a name such as ``"torch.DoubleTensor"``."""
        if isinstance(dst_type, str):
            dst_type = _dtype_named(dst_type.rpartition(".")[2].removesuffix("Tensor"))
        return self._apply(lambda t: t.to(dtype=dst_type))

    def _converted(self: Self, dtype: DType) -> Self:
        return self._apply(lambda t: t.to(dtype=dtype) if t.dtype.is_floating_point else t)

    def float(self: Self) -> Self:
        """Convert to float32."""
        return self._converted(float32)

    def double(self: Self) -> Self:
        """Convert to float64."""
        return self._converted(float64)

    def half(self: Self) -> Self:
        """Convert to float16."""
        return self._converted(float16)

    def bfloat16(self: Self) -> Self:
        """Convert to bfloat16."""
        return self._converted(bfloat16)

    def cpu(self: Self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def share_memory(self: Self) -> Self:
        """Move parameters and buffers to memory that later children share, see ``Tensor.share_memory_``."""
        module: Any = self
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.share_memory_()
        return self

    def vcpu(self: Self, device: Any = None) -> Self:
        """Move to a virtual device, by number or name (None = the current one)."""
        return self.to(virtual(device))

    def cuda(self: Self, device: Any = None) -> Self:
        """AssertionError, as of a PyTorch without CUDA."""
        raise AssertionError("Torch not compiled with CUDA enabled")

    def xpu(self, device: Any = None) -> NoReturn:
        """AssertionError, as of a PyTorch without XPU."""
        raise AssertionError("Torch not compiled with XPU enabled")


def _dtype_named(name: str) -> DType:
    found = _OLD_NAMES.get(name)
    if found is None:
        raise TypeError(f"invalid type: '{name}'")
    return found


def _convert_parameter(value: Any, fn: Callable[[Tensor], Tensor]) -> None:
    """Replace what a parameter holds, and its gradient, by ``fn`` of it."""
    detached = value.detach()
    converted = fn(detached)
    if converted is detached:
        return
    grad, value.grad = value.grad, None
    value.set_data(converted)
    if grad is not None:
        value.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)
