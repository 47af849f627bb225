"""Names of PyTorch's first versions: ``FloatTensor`` and its kin, the call of ``Tensor``, ``volatile``.

Owns: the old spellings. What they mean is done elsewhere.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from jitgrad.devices import Device
from jitgrad.door import door
from jitgrad.dtypes import (
    PACKAGE,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from jitgrad.functions.creation import empty
from jitgrad.functions.from_data import tensor
from jitgrad.grad_mode import no_grad
from jitgrad.layouts import Size
from jitgrad.ops.table import OPS
from jitgrad.overrides import DisableTorchFunctionSubclass, take_place
from jitgrad.tensor import Tensor
from jitgrad.tensor_base import TensorBase

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "TensorType",
    "make_variable",
]


def _is_data(args: tuple[Any, ...]) -> bool:
    """Whether arguments are values: not extents, one by one or as a ``Size``."""
    return len(args) == 1 and not isinstance(args[0], int | Size)


def _extents(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape that extents mean: none of them, one dimension without elements."""
    return tuple(args[0]) if args and type(args[0]) is Size else args or (0,)


class TensorType:
    """An old name of a dtype: makes tensors, and is something to be an instance of.

    ``FloatTensor(2, 3)`` has that shape and any contents, ``FloatTensor([1, 2])`` those values, ``FloatTensor()`` none.

    Attributes:
        dtype: of the tensors.
    """

    def __init__(self, name: str, dtype: DType) -> None:
        self.__name__ = self.__qualname__ = name
        self.dtype = dtype

    def __call__(self, *args: Any) -> Any:
        if _is_data(args):
            return tensor(args[0], self.dtype)
        return empty(_extents(args), dtype=self.dtype)

    def __instancecheck__(self, obj: Any) -> bool:
        return isinstance(obj, TensorBase) and obj._aval.dtype is self.dtype

    def __repr__(self) -> str:
        return f"<class '{PACKAGE[0]}.{self.__name__}'>"

    def __or__(self, other: Any) -> Any:
        """``LongTensor | None``, an annotation: a tensor, or None."""
        return TensorBase | other

    __ror__ = __or__

    def __reduce__(self) -> str:
        return self.__name__


FloatTensor, DoubleTensor = TensorType("FloatTensor", float32), TensorType("DoubleTensor", float64)
IntTensor, LongTensor = TensorType("IntTensor", int32), TensorType("LongTensor", int64)
BoolTensor, ByteTensor = TensorType("BoolTensor", bool_), TensorType("ByteTensor", uint8)
CharTensor, ShortTensor = TensorType("CharTensor", int8), TensorType("ShortTensor", int16)
HalfTensor, BFloat16Tensor = TensorType("HalfTensor", float16), TensorType("BFloat16Tensor", bfloat16)
_TYPES = {
    t.dtype: t
    for t in (
        FloatTensor, DoubleTensor, IntTensor, LongTensor, BoolTensor, ByteTensor, CharTensor, ShortTensor, HalfTensor,
        BFloat16Tensor,
    )
}  # fmt: skip
_BY_NAME = {f"{package}.{t.__name__}": t.dtype for t in _TYPES.values() for package in ("jitgrad", "torch")}


def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The old name of the tensor's type; or the tensor, converted to one.

    Args:
        dtype: None, a dtype, ``jitgrad.FloatTensor`` or the like, or its name.
        non_blocking: accepted for PyTorch's sake.

    Raises:
        ValueError: there is no such type.
    """
    if dtype is None:
        return f"{PACKAGE[0]}.{self.dtype.type_name}Tensor"
    wanted = dtype.dtype if isinstance(dtype, TensorType) else _BY_NAME.get(dtype, dtype)
    if not isinstance(wanted, DType):
        raise ValueError(f"invalid type: {dtype!r}")
    return self.to(wanted)


def _construct(self: Any, *args: Any, device: Any = None) -> None:
    """``Tensor(2, 3)`` has that shape and any contents, ``Tensor([1, 2])`` those values, ``Tensor()`` none.

    The dtype is the default one, whatever the values; of ``Tensor(other)``, an alias in the same graph, it is the
    other's.

    Args:
        args: extents; or one sequence, array or tensor.
        device: the CPU, where the tensor is.

    Raises:
        TypeError: for a lone number that is no extent, and what is no data at all.
        RuntimeError: another device, which this form of call knows nothing of.
    """
    if device is not None and Device(device).type != "cpu":
        kind = Device(device).type
        raise RuntimeError(f"legacy constructor expects device type: cpu but device type: {kind} was passed")
    if all(type(x) is int for x in args) or (len(args) == 1 and type(args[0]) is Size):
        made = empty(_extents(args), dtype=get_default_dtype(), device="cpu")
    elif len(args) > 1:
        at, wrong = next((i, x) for i, x in enumerate(args) if type(x) is not int)
        raise TypeError(
            f"new(): argument 'size' failed to unpack the object at pos {at + 1} with error \"type must be tuple of "
            f'ints,but got {type(wrong).__name__}"'
        )
    elif isinstance(args[0], TensorBase):
        with DisableTorchFunctionSubclass():
            made = door.apply(OPS["alias"], args[0])
    elif isinstance(args[0], str):
        raise TypeError("new(): invalid data type 'str'")
    elif not hasattr(args[0], "__len__"):
        raise TypeError(f"new(): data must be a sequence (got {type(args[0]).__name__})")
    else:
        made = tensor(list(args[0]) if isinstance(args[0], range) else args[0], get_default_dtype(), "cpu")
    take_place(self, made)


def _new(self: Any, *args: Any, device: Any = None) -> Any:
    """A tensor of this dtype on this device: ``x.new(2, 3)`` of that shape, ``x.new([1, 2])`` of those values.

    ``new_empty`` and ``new_tensor`` are its newer names.

    Raises:
        TypeError: for a lone number that is no extent, for another tensor's dtype, and for what is no data at all.
    """
    if all(type(x) is int for x in args) or (len(args) == 1 and type(args[0]) is Size):
        return self.new_empty(_extents(args), device=device)
    if len(args) > 1 or isinstance(args[0], str) or not hasattr(args[0], "__len__"):
        raise TypeError(f"new(): data must be a sequence (got {type(args[0]).__name__})")
    if not isinstance(args[0], TensorBase):
        return self.new_tensor(args[0], device=device)
    if args[0].dtype is not self.dtype:
        raise TypeError(f"expected a tensor of {self.dtype} (got {args[0].dtype})")
    return args[0].detach()


_VOLATILE = (
    "volatile is deprecated: it acts as no_grad on everything computed from the Variable; "
    "use `with jitgrad.no_grad():` instead"
)


@functools.cache
def _volatile_class() -> type[Tensor]:
    """The class of volatile tensors; defined at the first use, because overrides cost something once there are any."""

    class Volatile(Tensor):
        """Whatever is computed from it is outside every graph, and volatile."""

        volatile = True

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with no_grad():
                return super().__torch_function__(func, types, args, kwargs)  # type: ignore[misc]

    return Volatile


def make_variable(data: Any, requires_grad: bool = False, volatile: bool | None = None) -> Any:
    """What ``autograd.Variable(...)`` makes: a tensor that shares the memory of ``data``, as a leaf.

    Args:
        data: a tensor.
        requires_grad: whether the leaf is part of the graph.
        volatile: deprecated; True: as if everything computed from the result stood in ``no_grad()``.

    Raises:
        TypeError: ``data`` is no tensor.
        RuntimeError: both ``requires_grad`` and ``volatile``; or ``requires_grad`` for integers.
    """
    if not isinstance(data, TensorBase):
        raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
    if volatile is not None:
        warnings.warn(_VOLATILE, DeprecationWarning, stacklevel=3)  # at the call of Variable
    if volatile and requires_grad:
        raise RuntimeError("Variable can't be volatile and require_grad at the same time!")
    leaf = data.detach()
    if not volatile:
        return leaf.requires_grad_(requires_grad)
    with DisableTorchFunctionSubclass():
        return leaf.as_subclass(_volatile_class())


def _attach() -> None:
    Tensor.__init__ = _construct  # type: ignore[method-assign]
    Tensor.type, Tensor.new = _type, _new  # type: ignore[attr-defined]
    Tensor.volatile = False  # type: ignore[attr-defined]


_attach()
