"""In-place forms: ``x.add_(y)`` is ``add`` with its result written back.

Owns: which operations have one, under which arguments.
Must not know: how the write happens (``dispatch.apply_inplace``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import bool_, float64, float_param
from jitgrad.functions.devices import moved
from jitgrad.functions.pointwise import rounding_op
from jitgrad.functions.random_filling import RANDOM_METHODS
from jitgrad.ops.aval import make_aval
from jitgrad.ops.shapes import as_real, broadcast, check_fits, result_dtype, shape_of, torch_dtype_name, wrap_dim
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager.eager import check_inplace
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase

__all__ = ["INPLACE_METHODS"]

_COPY, _CLONE, _SLICE = OPS["copy"], OPS["clone"], OPS["slice"]

# operations whose in-place form takes the same arguments, all of them inputs
_UNARY = (
    "abs acos asin atan ceil cos cosh exp exp2 expm1 erf floor log log10 log1p log2 neg reciprocal relu rsqrt sigmoid "
    "sign sin sinh sqrt tan tanh trunc bitwise_not logical_not lgamma digamma erfinv asinh acosh atanh erfc sinc "
    "rad2deg deg2rad frac sgn i0"
).split()
_BINARY = (
    "mul remainder fmod floor_divide atan2 logical_and logical_or logical_xor"
).split()
_LATE_BINARY = "copysign hypot heaviside nextafter ldexp xlogy".split()
_INTEGER = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm".split()
_COMPARISONS = "eq ne lt le gt ge".split()


def _unary(name: str) -> Callable[..., Any]:
    op = OPS[name]

    def method(self: Any) -> Any:
        door.apply_inplace(op, (self,), self)
        return self

    return _named(method, name)


def _binary(name: str, op_name: str | None = None) -> Callable[..., Any]:
    op = OPS[op_name or name]

    def method(self: Any, other: Any) -> Any:
        door.apply_inplace(op, (self,), self, other)
        return self

    return _named(method, name)


def _late_binary(name: str) -> Callable[..., Any]:
    """Of an operation that is imported at its first use."""

    def method(self: Any, other: Any) -> Any:
        door.apply_inplace(OPS[name], (self,), self, other)
        return self

    return _named(method, name)


def _integer(name: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        op = OPS[name]
        # what the target refuses comes before what the operation refuses
        shape = broadcast(name, self.shape, shape_of(other))
        check_inplace(op, self, make_aval(shape, result_dtype(self._aval, getattr(other, "_aval", other))))
        door.apply_inplace(op, (self,), self, other)
        return self

    return _named(method, name)


def _named(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"In-place ``{name}``."
    return method


def _write(op: Any, self: Any, *args: Any) -> Any:
    door.apply_inplace(op, (self,), self, *args)
    return self


def add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``self += alpha * other``."""
    return _write(OPS["add"], self, other) if alpha == 1 else _write(OPS["add_scaled"], self, other, alpha)


def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``self -= alpha * other``."""
    return _write(OPS["sub"], self, other) if alpha == 1 else _write(OPS["sub_scaled"], self, other, alpha)


def div_(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """``self /= other``."""
    return _write(rounding_op(rounding_mode), self, other)


def pow_(self: Any, exponent: Any) -> Any:
    """``self **= exponent``."""
    return _write(OPS["pow"] if isinstance(exponent, TensorBase) else OPS["pow_scalar"], self, exponent)


def float_power_(self: Any, exponent: Any) -> Any:
    """In-place ``float_power``, of float64 only."""
    if self.dtype is not float64:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {torch_dtype_name(self.dtype)} but the operation's result "
            f"requires dtype Double"
        )
    if isinstance(exponent, TensorBase):
        return _write(OPS["pow"], self, exponent.to(float64))
    return _write(OPS["pow_scalar"], self, float(exponent))


def square_(self: Any) -> Any:
    """``self **= 2``."""
    return _write(OPS["pow_scalar"], self, 2)


def clamp_min_(self: Any, min: Any) -> Any:
    """In-place ``clamp_min``."""
    return _write(OPS["clamp_min"], self, min)


def clamp_max_(self: Any, max: Any) -> Any:
    """In-place ``clamp_max``."""
    return _write(OPS["clamp_max"], self, max)


def lerp_(self: Any, end: Any, weight: Any) -> Any:
    """In-place ``lerp``."""
    return _write(OPS["lerp"], self, end, weight)


def round_(self: Any, *, decimals: int | None = None) -> Any:
    """In-place ``round``."""
    return _write(OPS["round"], self) if decimals is None else _write(OPS["round_decimals"], self, decimals)


def clamp_(self: Any, min: Any = None, max: Any = None) -> Any:
    """Limit elements to [min, max], in place. RuntimeError if both are None."""
    if max is None:
        if min is None:
            raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
        return _write(OPS["clamp_low"], self, min)
    if min is None:
        return _write(OPS["clamp_high"], self, max)
    tensors = isinstance(min, TensorBase) or isinstance(max, TensorBase)
    return _write(OPS["clamp_tensor" if tensors else "clamp"], self, min, max)


def addcmul_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``self += value * tensor1 * tensor2``."""
    return _write(OPS["addcmul"], self, tensor1, tensor2, value)


def addcdiv_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``self += value * tensor1 / tensor2``."""
    return _write(OPS["addcdiv"], self, tensor1, tensor2, value)


def logit_(self: Any, eps: float | None = None) -> Any:
    """In-place ``logit``."""
    return _write(OPS["logit"], self, eps)


def nan_to_num_(
    self: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """In-place ``nan_to_num``."""
    return _write(OPS["nan_to_num"], self, float_param(nan), float_param(posinf), float_param(neginf))


def polygamma_(self: Any, n: int) -> Any:
    """In-place ``polygamma``."""
    return _write(OPS["polygamma"], self, n)


_C_NAMES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long int"}


def _running(name: str) -> Callable[..., Any]:
    def method(self: Any, dim: int, *, dtype: Any = None) -> Any:
        wrap_dim(dim, self.ndim)
        own = self.dtype
        if dtype not in (None, own):
            found, wanted = (_C_NAMES.get(x.name, x.name) for x in (own, dtype))
            raise RuntimeError(
                f"Bad in-place call: input tensor dtype {found} and output tensor dtype {wanted} should match"
            )
        if own is bool_:
            raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
        return _write(OPS[name], self, dim)

    return _named(method, name)


def addmm_(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``self = beta * self + alpha * (mat1 @ mat2)``."""
    return _write(OPS["addmm"], self, mat1, mat2, beta, alpha)


def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Overwrite the elements whose indices are equal; with ``wrap`` again and again down a tall matrix.

    Raises:
        RuntimeError: for less than two dimensions, or more of different extents.
    """
    shape = self.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    height, width = shape[:2]
    period = width + 1
    for start in range(0, height if wrap and len(shape) == 2 and height else 1, period):
        part = self.narrow(0, start, min(height - start, width)) if len(shape) == 2 else self
        while part.ndim > 1:
            part = part.diagonal(0, 0, part.ndim - 1)
        fill_(part, fill_value)
    return self


def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Overwrite with ``src``, broadcast and cast to this tensor."""
    if isinstance(src, TensorBase) and src._aval.device is not self._aval.device:
        src = moved(src, self._aval.device)
    if type(src) is complex and not self._aval.dtype.is_complex:
        src = src.real  # as of a complex tensor
    if not isinstance(src, TensorBase):
        check_fits(src, self._aval.dtype)
    return _write(_COPY, self, src)


def _once(self: Any) -> Any:
    """A view of each element of an expanded tensor, once; of any other, the tensor itself."""
    aval = self._aval
    if aval.is_contiguous or 0 not in aval.stride:
        return self
    for d, (step, extent) in enumerate(zip(aval.stride, aval.shape, strict=True)):
        if step == 0 and extent > 1:
            self = door.apply(_SLICE, self, d, 0, 1, 1)
    return self


def fill_(self: Any, value: Any) -> Any:
    """Overwrite every element with one value, a number or a 0-d tensor (which may be one of its own)."""
    rank = getattr(value, "ndim", 0)
    if rank:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {rank} dimensions.")
    if isinstance(value, TensorBase) and value._vc is self._vc:
        value = door.apply(_CLONE, value)
    check_fits(value, self._aval.dtype)
    if isinstance(value, complex) and not self._aval.dtype.is_complex:
        value = as_real(value, self._aval.dtype.c_name)
    _write(_COPY, _once(self), value)
    return self


def zero_(self: Any) -> Any:
    """Overwrite every element with 0."""
    if state.grad_enabled and self.requires_grad:
        _write(OPS["zero"], _once(self))  # the graph shows the difference
        return self
    _write(_COPY, _once(self), 0)
    return self


_SPECIAL: tuple[Callable[..., Any], ...] = (
    add_,
    sub_,
    div_,
    pow_,
    float_power_,
    square_,
    clamp_,
    clamp_min_,
    clamp_max_,
    lerp_,
    round_,
    addcmul_,
    addcdiv_,
    addmm_,
    fill_diagonal_,
    logit_,
    nan_to_num_,
    polygamma_,
    copy_,
    fill_,
    zero_,
)

INPLACE_METHODS: dict[str, Callable[..., Any]] = {
    **{name + "_": _unary(name) for name in _UNARY},
    **{name + "_": _binary(name) for name in _BINARY},
    **{name + "_": _late_binary(name) for name in _LATE_BINARY},
    **{name + "_": _integer(name) for name in _INTEGER},
    **{name + "_": _binary(name, f"{name}_as_self") for name in _COMPARISONS},
    **{name + "_": _running(name) for name in ("cumsum", "cumprod")},
    **{function.__name__: function for function in (*_SPECIAL, *RANDOM_METHODS)},
}
_ALIASES = (
    "absolute=abs negative=neg arcsin=asin arccos=acos arctan=atan arctan2=atan2 arcsinh=asinh arccosh=acosh "
    "arctanh=atanh fix=trunc clip=clamp subtract=sub multiply=mul divide=div true_divide=div greater=gt "
    "greater_equal=ge less=lt less_equal=le not_equal=ne"
)
for _alias in _ALIASES.split():
    _other, _, _name = _alias.partition("=")
    INPLACE_METHODS[f"{_other}_"] = INPLACE_METHODS[f"{_name}_"]
