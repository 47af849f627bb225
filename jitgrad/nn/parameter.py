"""``Parameter`` and ``Buffer``: tensors that a module lists among its own; and those whose shape is not known yet.

Owns: these classes. Must not know: modules, traces.
"""

from __future__ import annotations

from typing import Any, NoReturn

from jitgrad.dtypes import DType, float32, float64
from jitgrad.functions import empty
from jitgrad.functions.devices import to_target
from jitgrad.grad_mode import no_grad
from jitgrad.overrides import disabled_torch_function
from jitgrad.state import state
from jitgrad.tensor import Tensor

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class Parameter(Tensor):
    """A leaf that requires grad, registered by the module it is assigned to.

    Args:
        data: whose storage the parameter shares; left alone itself. None: an empty one.
        requires_grad: as for any leaf.
    """

    __slots__ = ()
    __torch_function__: Any = classmethod(disabled_torch_function)

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if not isinstance(data, Tensor | None):
            raise TypeError(f"a Parameter is made of a Tensor, not of {type(data).__name__}")
        with no_grad():
            source = Tensor() if data is None else data.detach()
        source._sync()
        out = super().__new__(cls)
        out._aval, out._storage, out._vc = source._aval, source._storage, source._vc
        out.requires_grad_(requires_grad)
        return out

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        pass

    def set_data(self, data: Tensor) -> None:
        """Take over another tensor's storage, whatever its dtype and device; hooks and identity stay."""
        _take_over(self, data)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        return super().__deepcopy__(memo) if found is None else found


def _take_over(tensor: Any, data: Any) -> None:
    data._sync()
    recorder = state.handler
    if recorder is not None:
        recorder.forget(tensor)
    tensor._aval, tensor._storage, tensor._array = data._aval, data._storage, data._array
    tensor._accumulator = None  # it expects gradients of the old kind


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module it is assigned to: state, but no parameter.

    Args:
        data: whose storage the buffer shares. None: an empty one.
        persistent: it is part of ``state_dict()``.
    """

    __slots__ = ("persistent",)
    __torch_function__: Any = classmethod(disabled_torch_function)

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        source = Tensor() if data is None else data
        with no_grad():
            taken = source.detach()
        taken._sync()
        out = super().__new__(cls)
        out._aval, out._storage, out._vc = taken._aval, taken._storage, taken._vc
        out.persistent = persistent
        return out.requires_grad_(source.requires_grad)  # type: ignore[return-value]

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        pass


class _UnknownAval:
    """The description of a tensor without a shape: what else is asked for raises."""

    __slots__ = ("device", "dtype")

    def __init__(self, dtype: DType, device: Any) -> None:
        self.dtype, self.device = dtype, device

    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError(
            "Attempted to use an uninitialized parameter. This error happens when you are using a `LazyModule` or "
            "explicitly manipulating `torch.nn.parameter.UninitializedParameter` objects. When using LazyModules call "
            "`forward` with a dummy batch to initialize the parameters before calling torch functions"
        )


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet: it can be moved, converted, and given a shape.

    Attributes:
        cls_to_become: its class once it has a shape.
    """

    __slots__ = ()
    cls_to_become: Any = Tensor

    def materialize(self: Any, shape: Any, device: Any = None, dtype: DType | None = None) -> None:
        """Become a tensor of this shape, without values, in place; device and dtype stay if they are not given."""
        unknown = self._aval
        data = empty(*tuple(shape), device=device or unknown.device, dtype=dtype or unknown.dtype)
        self.__class__ = self.cls_to_become
        _take_over(self, data)

    @property
    def shape(self) -> Any:
        """RuntimeError: there is none."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def to(self: Any, *args: Any, dtype: DType | None = None, device: Any = None, **_: Any) -> Any:
        """The same without a shape, of another dtype or on another device."""
        dtype, device = to_target(args, dtype, device)
        return self._again(device or self._aval.device, dtype or self._aval.dtype)

    def cpu(self) -> Any:
        """On the CPU."""
        return self.to("cpu")

    def float(self, *, memory_format: Any = None) -> Any:
        """As float32."""
        return self.to(float32)

    def double(self, *, memory_format: Any = None) -> Any:
        """As float64."""
        return self.to(float64)

    def set_data(self: Any, data: Any) -> None:
        """Take over the device and dtype of another one without a shape."""
        self._aval = data._aval

    def detach(self) -> Any:
        """Itself: it has no graph and no memory."""
        return self

    def share_memory_(self) -> NoReturn:
        """RuntimeError: there is none."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = self._again(self._aval.device, self._aval.dtype)
        return found

    def _again(self: Any, device: Any, dtype: DType) -> Any:
        return type(self)(self.requires_grad, device, dtype)


def is_lazy(param: Any) -> bool:
    """Whether a tensor's shape is not known yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet.

    Args:
        requires_grad: as for any leaf.
        device, dtype: what it will have; the default ones if None.
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None
    ) -> Any:
        data = empty(0, device=device, dtype=dtype)
        out = Parameter.__new__(cls, data, requires_grad)
        out._aval = _UnknownAval(data.dtype, data.device)  # type: ignore[assignment]
        return out

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: DType | None = None) -> None:
        pass

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, str(self._aval.device), self._aval.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet.

    Args:
        requires_grad: as for any tensor.
        device, dtype: what it will have; the default ones if None.
        persistent: it is part of ``state_dict()``.
    """

    __slots__ = ()
    cls_to_become = Buffer

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: DType | None = None, persistent: bool = True
    ) -> Any:
        data = empty(0, device=device, dtype=dtype)
        out = Buffer.__new__(cls, data.requires_grad_(requires_grad), persistent=persistent)
        out._aval = _UnknownAval(data.dtype, data.device)  # type: ignore[assignment]
        return out

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: DType | None = None, persistent: bool = True
    ) -> None:
        pass

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, str(self._aval.device), self._aval.dtype, self.persistent)

    def _again(self, device: Any, dtype: DType) -> Any:
        return type(self)(self.requires_grad, device, dtype, self.persistent)
