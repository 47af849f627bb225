"""Copies of tensors: on another device, of another dtype, in another layout.

Owns: ``to``, ``cpu``, ``vcpu``, ``clone``, ``contiguous``, and what ``device=`` and ``memory_format=`` mean.
Must not know: how a copy is made.

The CPU is everybody's default and costs nothing: only a call that names another device comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.devices import CPU, META
from jitgrad.door import door
from jitgrad.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from jitgrad.functions._parse import given
from jitgrad.functions.torch_function import handle_torch_function, has_torch_function
from jitgrad.layouts import contiguous_format, format_order, is_laid_out, preserve_format
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import in_order, kept, suggested_order
from jitgrad.ops.table import OPS, Op
from jitgrad.runtime.devices.device import canonical
from jitgrad.runtime.devices.stream import Stream, virtual
from jitgrad.state import override_classes, state
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import warn_once

__all__ = [
    "NOWHERE",
    "clone",
    "contiguous",
    "cpu",
    "cuda",
    "get_device",
    "in_float32",
    "index_beside",
    "is_contiguous",
    "is_cpu",
    "is_elsewhere",
    "is_meta",
    "is_vcpu",
    "lowered",
    "made_like",
    "made_on",
    "moved",
    "numpy_elsewhere",
    "placed",
    "record_stream",
    "storage",
    "to",
    "to_bfloat16",
    "to_bool",
    "to_byte",
    "to_char",
    "to_half",
    "to_int",
    "to_long",
    "to_short",
    "to_target",
    "type_as",
    "untyped_storage",
    "vcpu",
]

NOWHERE = (
    "is_cuda", "is_ipu", "is_maia", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized", "is_sparse_csr",
    "is_vulkan", "is_xla", "is_xpu",
)  # fmt: skip
"""Attributes of Tensor that ask for what jitgrad does not have."""

_STORAGES = LazyModule("jitgrad.functions.storages")
_CLONE, _CAST, _CONTIGUOUS = OPS["clone"], OPS["_to_copy"], OPS["contiguous"]


def made_on(device: Any, op: Op, *args: Any) -> Any:
    """What an operation without tensor operands makes, on ``device`` (None = the default device)."""
    if device is None:
        device = state.default_device
        if device is None:
            return door.apply(op, *args)
    place = canonical(device)
    return door.apply(op, *args) if place is CPU else door.apply(op, *args, place)


def placed(tensor: Any, device: Any) -> Any:
    """A new tensor of the host's, on ``device`` (None = the default device)."""
    return moved(tensor, state.default_device if device is None else device)


def moved(tensor: Any, device: Any) -> Any:
    """The tensor on ``device`` (None = where it is), in the graph; itself if it is there already."""
    if device is None:
        return tensor
    place = canonical(device)
    return tensor if place is tensor._aval.device else door.apply(_CAST, tensor, tensor._aval.dtype, place)


def to(
    input: Any,
    *args: Any,
    dtype: DType | None = None,
    device: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Any:
    """Convert to a dtype or device; the tensor itself if nothing changes and ``copy`` is False.

    Forms: ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)`` (its dtype and device), and keywords.
    Differentiable: the gradient goes back to the dtype and device of the input.

    Args:
        non_blocking: accepted; the host waits only when it reads.
        copy: make a copy in any case.
        memory_format: how the result lies in memory, if it is no ``preserve_format``.

    Raises:
        RuntimeError: there is no such device, or a tensor of this rank cannot have the format.
        NotImplementedError: from ``meta`` to anywhere else.
    """
    if override_classes and has_torch_function((input, *args)):
        options = given(("dtype", dtype, None), ("device", device, None), ("copy", copy, False))
        options |= given(("memory_format", memory_format, None))
        return handle_torch_function(to, (input, *args), input, *args, **options)
    dtype, device = to_target(args, dtype, device)
    aval = input._aval
    wanted = aval.dtype if dtype is None else dtype
    if memory_format is not None and memory_format is not preserve_format:
        moved = to(input, dtype=dtype, device=device)
        if moved is input and not copy and suggested_order(aval) == format_order(memory_format, aval.ndim):
            return input
        return clone(input, memory_format=memory_format) if copy and moved is input else contiguous(
            moved, memory_format=memory_format
        )
    if device is None or device is aval.device or (device := canonical(device)) is aval.device:
        if wanted is aval.dtype:
            return clone(input) if copy else input
        if aval.dtype.is_complex and not wanted.is_complex and wanted is not bool_:
            warn_once("Casting complex values to real discards the imaginary part")
        return door.apply(_CAST, input, wanted)
    return door.apply(_CAST, input, wanted, device)


def lowered(*tensors: Any) -> tuple[Any, ...]:
    """Of an operation that ``amp.autocast`` computes in its own dtype: the operands in that dtype, but for float64."""
    wanted = state.autocast
    if wanted is None:
        return tensors
    return tuple(_lowered(x, wanted) if _is_eligible(x, wanted) else x for x in tensors)


def in_float32(*tensors: Any) -> tuple[Any, ...]:
    """Of an operation that ``amp.autocast`` computes in float32: the operands in that dtype, but for float64."""
    if state.autocast is None:
        return tensors
    return tuple(to(x, float32) if _is_eligible(x, float32) else x for x in tensors)


def _is_eligible(x: Any, wanted: DType) -> bool:
    if not isinstance(x, TensorBase) or x._aval.device is not CPU:
        return False
    dtype = x._aval.dtype
    return dtype.is_floating_point and dtype is not float64 and dtype is not wanted


def _lowered(x: Any, wanted: DType) -> Any:
    """Outside of compiled steps a leaf is cast once in a block: its gradients add up in the short dtype."""
    casts = state.autocast_casts
    if casts is None or state.handler is not None or not (state.grad_enabled and x.requires_grad and x.is_leaf):
        return to(x, wanted)
    found = casts.get(id(x))
    if found is None or found[1] != x._version or found[2].dtype is not wanted:
        found = casts[id(x)] = x, x._version, to(x, wanted)
    return found[2]


def to_target(args: Sequence[Any], dtype: DType | None, device: Any) -> tuple[DType | None, Any]:
    """(dtype, device) that ``to(*args, dtype=, device=)`` asks for; None = unchanged."""
    dtype = as_dtype(dtype)
    for arg in args:
        if isinstance(arg, DType | type):
            dtype = as_dtype(arg)
        elif isinstance(arg, TensorBase):
            dtype, device = arg._aval.dtype, arg._aval.device
        elif not isinstance(arg, bool):  # positional non_blocking and copy
            device = arg
    return dtype, device


def cpu(input: Any) -> Any:
    """The tensor on the CPU; itself if it is there. Waits for the value."""
    return moved(input, CPU)


def vcpu(input: Any, device: Any = None) -> Any:
    """The tensor on a virtual device, by number or name (None = the current one), as ``Tensor.cuda``."""
    return moved(input, virtual(device))


def get_device(input: Any) -> int:
    """The number of the tensor's virtual device; -1 on the CPU."""
    index = input._aval.device.index
    return -1 if index is None else index


def record_stream(input: Any, stream: Stream) -> None:
    """Nothing to do: queued work holds its memory. As ``torch.Tensor.record_stream``, for code that calls it."""


def is_cpu(input: Any) -> bool:
    """Whether the tensor is on the CPU."""
    return input._aval.device is CPU


def is_meta(input: Any) -> bool:
    """Whether the tensor has a shape and no data."""
    return input._aval.device is META


def is_vcpu(input: Any) -> bool:
    """Whether the tensor is on a virtual device."""
    found: bool = input._aval.device.is_virtual
    return found


def is_elsewhere(input: Any) -> bool:
    """Whether the tensor is on a kind of device, or of a kind, that jitgrad does not have (``is_cuda``, ...): False."""
    return False


def cuda(input: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """AssertionError, as of a PyTorch without CUDA."""
    raise AssertionError("Torch not compiled with CUDA enabled")


def to_bool(input: Any, *, memory_format: Any = None) -> Any:
    """Whether each element is nonzero (``x.bool()``)."""
    return to(input, bool_, memory_format=memory_format)


def to_long(input: Any, *, memory_format: Any = None) -> Any:
    """As int64."""
    return to(input, int64, memory_format=memory_format)


def to_int(input: Any, *, memory_format: Any = None) -> Any:
    """As int32."""
    return to(input, int32, memory_format=memory_format)


def to_short(input: Any, *, memory_format: Any = None) -> Any:
    """As int16."""
    return to(input, int16, memory_format=memory_format)


def to_char(input: Any, *, memory_format: Any = None) -> Any:
    """As int8."""
    return to(input, int8, memory_format=memory_format)


def to_byte(input: Any, *, memory_format: Any = None) -> Any:
    """As uint8."""
    return to(input, uint8, memory_format=memory_format)


def to_half(input: Any, *, memory_format: Any = None) -> Any:
    """As float16."""
    return to(input, float16, memory_format=memory_format)


def to_bfloat16(input: Any, *, memory_format: Any = None) -> Any:
    """As bfloat16."""
    return to(input, bfloat16, memory_format=memory_format)


def to_cfloat(input: Any, *, memory_format: Any = None) -> Any:
    """As complex64."""
    return to(input, complex64, memory_format=memory_format)


def to_cdouble(input: Any, *, memory_format: Any = None) -> Any:
    """As complex128."""
    return to(input, complex128, memory_format=memory_format)


def type_as(input: Any, other: Any) -> Any:
    """Convert to another tensor's dtype and device."""
    return to(input, other)


def index_beside(tensor: Any, index: Any) -> Any:
    """An index tensor where the indexed tensor is; one on the CPU may index any.

    Raises:
        RuntimeError: the index is on another device.
    """
    device, own = tensor._aval.device, index._aval.device
    if own is not CPU:
        raise RuntimeError(
            f"indices should be either on cpu or on the same device as the indexed tensor ({device})"
        )
    return moved(index, device)


def numpy_elsewhere(tensor: Any, force: bool) -> Any:
    """``tensor.numpy()`` of a tensor that is not on the CPU: only by force, as a copy.

    Raises:
        TypeError: without ``force``; of bfloat16, which NumPy does not have.
    """
    if tensor._aval.dtype is bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16")
    if not force:
        raise TypeError(
            f"can't convert {tensor._aval.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
            "host memory first."
        )
    return cpu(tensor.detach()).numpy()


# --- memory ---


def storage(self: Any) -> Any:
    """The memory that the tensor is laid out in, which its views share, as a row of elements.

    Raises:
        NotImplementedError: a sparse tensor.
    """
    return _STORAGES.TypedStorage(self)


def untyped_storage(self: Any) -> Any:
    """The memory that the tensor is laid out in, which its views share, as bytes.

    Raises:
        NotImplementedError: a sparse tensor.
    """
    return _STORAGES.UntypedStorage(self)


# --- layouts ---


def _strides_in(input: Any, format: Any) -> tuple[int, ...] | None:
    """Strides of a copy in a memory format, which is not ``preserve_format``; None: row-major."""
    return in_order(input._aval.shape, format_order(format, input.ndim))


def made_like(make: Callable[[Any], Any], input: Any, memory_format: Any) -> Any:
    """``make(input)``, of the same shape, in the layout of ``input`` or in a memory format."""
    out = make(input)
    stride = kept(input._aval) if memory_format in (None, preserve_format) else _strides_in(input, memory_format)
    aval = out._aval
    if out.is_sparse or (aval.is_canonical if stride is None else aval.stride == stride):
        return out
    return door.apply(_CONTIGUOUS, out, stride)


def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy, in the graph.

    Args:
        memory_format: how it lies in memory; None = ``preserve_format``: its dimensions keep their order, gaps and
            repetitions go.

    Raises:
        RuntimeError: a tensor of this rank cannot have the format.
    """
    if memory_format is None or memory_format is preserve_format:
        return door.apply(_CLONE, input)
    return door.apply(_CONTIGUOUS, input, _strides_in(input, memory_format))


def contiguous(input: Any, *, memory_format: Any = None) -> Any:
    """The tensor itself if it is row-major without gaps, else such a copy.

    Args:
        memory_format: ``channels_last`` or ``channels_last_3d``: the same for that order of dimensions.

    Raises:
        RuntimeError: a tensor of this rank cannot have the format, or it is ``preserve_format``.
    """
    if memory_format is None or memory_format is contiguous_format:
        return input if input._aval.is_contiguous else door.apply(_CONTIGUOUS, input, None)
    stride = _strides_in(input, memory_format)
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if is_contiguous(input, memory_format=memory_format):
        return input
    return door.apply(_CONTIGUOUS, input, stride)


def is_contiguous(input: Any, *, memory_format: Any = None) -> bool:
    """Whether the elements lie in row-major order, without gaps; or in the order of another memory format."""
    aval = input._aval
    if memory_format is None or memory_format in (contiguous_format, preserve_format):
        return bool(aval.is_contiguous)
    return is_laid_out(aval.shape, aval.stride, memory_format)
