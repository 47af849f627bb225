"""``out=``: results that are written to tensors which the caller has.

Owns: ``write_out``, and ``takes_out`` for functions that are not generated (Note [Argument parsing]).
Must not know: which functions take ``out``.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import DType, int64
from jitgrad.ops.shapes import torch_dtype_name
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager.overlap import check_apart, check_no_overlap
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase

__all__ = ["check_out", "takes_out", "write_out"]

_COPY = OPS["copy"]


def _tensors(out: Any) -> tuple[Any, ...]:
    return tuple(out) if isinstance(out, tuple | list) else (out,)


def check_out(name: str, out: Any, inputs: Any) -> None:
    """What is wrong before anything is computed.

    Raises:
        TypeError: ``out`` is no tensor, nor a tuple of them.
        RuntimeError: something requires grad: there would be no derivative.
    """
    if name in _ITS_OWN_MEMORY:
        for one in _tensors(out):
            if isinstance(one, TensorBase):
                _check_memory(one, tuple(_among(inputs)))
    for one in _tensors(out):
        if not isinstance(one, TensorBase):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(one).__name__}")
    if state.grad_enabled and any(x.requires_grad for x in (*_tensors(out), *_among(inputs))):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            f"arguments requires grad."
        )


_ITS_OWN_MEMORY = frozenset("cat concat concatenate gather index_select kthvalue masked_select take".split())
"""Functions that read elsewhere than they write: their result must share no memory with an operand."""

_ITS_OWN_DTYPE = frozenset("aminmax gather".split())


def _check_memory(out: Any, inputs: tuple[Any, ...]) -> None:
    check_no_overlap(out, inputs)
    check_apart(out, *inputs)


def _among(value: Any) -> Any:
    if isinstance(value, TensorBase):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _among(one)
    elif isinstance(value, dict):
        yield from _among(list(value.values()))


def write_out(result: Any, out: Any, is_factory: bool = False, name: str = "") -> Any:
    """Write ``result`` into ``out``, which takes its shape; returns ``out``, in the result's structure.

    Args:
        is_factory: the function makes a tensor from nothing, in whatever dtype ``out`` has.
        name: of the function.

    Raises:
        TypeError: another number of tensors.
        RuntimeError: a dtype that the result cannot be cast to.
    """
    targets, values = _tensors(out), _tensors(result)
    if len(targets) != len(values):
        raise TypeError(f"expected tuple of {len(values)} elements in argument 'out', but got {len(targets)}")
    for target, value in zip(targets, values, strict=True):
        if name in _ITS_OWN_DTYPE and value._aval.dtype is not target._aval.dtype:
            raise RuntimeError(
                f"Expected out tensor to have dtype {value._aval.dtype.name}, but got {target._aval.dtype.name} instead"
            )
        if name in ("complex", "polar") and value._aval.dtype is not target._aval.dtype:
            words = [torch_dtype_name(x._aval.dtype) for x in (value, target)]
            raise RuntimeError(
                f"Expected object of scalar type {words[0]} but got scalar type {words[1]} for argument 'out'"
            )
        if name == "multinomial" and target._aval.dtype is not int64:
            raise RuntimeError(f"multinomial expects Long tensor out, got: {torch_dtype_name(target._aval.dtype)}")
        if not is_factory:
            _check_cast(value._aval.dtype, target._aval.dtype)
        _resize(target, value._aval.shape)
        door.apply_inplace(_COPY, (target,), target, value)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*targets)
    return out if isinstance(out, TensorBase) else tuple(targets)


def _check_cast(source: DType, target: DType) -> None:
    if source.category > target.category:
        raise RuntimeError(
            f"result type {torch_dtype_name(source)} can't be cast to the desired output type "
            f"{torch_dtype_name(target)}"
        )


def _resize(target: Any, shape: tuple[int, ...]) -> None:
    if target._aval.shape == shape:
        return
    if target._aval.numel:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(target._aval.shape)}, which "
            f"does not match the required output shape {list(shape)}. This behavior is deprecated, and in a future "
            "PyTorch release outputs will not be resized unless they have zero elements. You can explicitly reuse an "
            "out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=5,
        )
    target.resize_(shape)


def takes_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with ``out=``: keyword only, a tensor or a tuple of them."""

    @functools.wraps(function)
    def wrapped(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs)
        check_out(function.__name__, out, (args, kwargs))
        return write_out(function(*args, **kwargs), out, name=function.__name__)

    return wrapped
