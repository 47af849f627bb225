"""``__torch_function__``: subclasses of Tensor that say what functions do with them.

Owns: what a subclass of Tensor gets when it is defined, the default ``__torch_function__``, ``as_subclass``.
Must not know: what the functions do.
In: classes, as they are defined. Out: calls of their ``__torch_function__``, Note [Overrides].

``func`` is the function or method that was called (``Tensor.T.__get__`` for a property that is a tensor; other
attributes are not caught). ``autograd.grad`` and ``autograd.backward`` look by themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad import functions
from jitgrad.door import door
from jitgrad.functions.torch_function import (
    DisableTorchFunctionSubclass,
    disabled_torch_function,
    handle_torch_function,
    has_torch_function,
    is_override,
    relevant_args,
)
from jitgrad.ops.table import OPS
from jitgrad.state import override_classes, state
from jitgrad.tensor import Tensor
from jitgrad.tensor_base import TensorBase

__all__ = [
    "DisableTorchFunctionSubclass",
    "disabled_torch_function",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "override_classes",
]


def _default(cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    """What ``super().__torch_function__(...)`` does: call ``func`` on plain tensors, make the results ``cls``."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        return _convert(func(*args, **(kwargs or {})), cls, args)


def _convert(result: Any, cls: type, args: tuple[Any, ...]) -> Any:
    if isinstance(result, Tensor):
        if isinstance(result, cls) or result.is_sparse:
            return result
        is_leaf = result._requires_grad and result._grad_fn is None and result._graph is None
        is_known = is_leaf or any(result is arg for arg in args)
        return as_subclass(result, cls) if is_known else _taken_over(result, cls)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(_convert(r, cls, args) for r in result))
    return type(result)(_convert(r, cls, args) for r in result) if isinstance(result, tuple | list) else result


_STATE = (
    "_aval _storage _array _vc _requires_grad _grad _grad_fn _output_nr _base _view_version _tid _vid _graph"
).split()


def _taken_over(result: Any, cls: type) -> Any:
    """A tensor of class ``cls`` instead of one that nobody else will use."""
    out: Any = TensorBase.__new__(cls)
    take_place(out, result)
    return out


def take_place(out: Any, result: Any) -> None:
    """Fill the empty tensor ``out``: it stands for ``result``, which nobody else will use."""
    for name in _STATE:
        setattr(out, name, getattr(result, name))
    recorder = state.handler
    if recorder is not None and recorder.tid == out._tid:
        recorder.take_over(out)


def as_subclass(self: Any, cls: type) -> Any:
    """A tensor of class ``cls`` with the same memory and version, in the same graph.

    Raises:
        TypeError: ``cls`` is no subclass of Tensor.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"cls must be a subclass of Tensor, not {cls!r}")
    with DisableTorchFunctionSubclass():
        alias = door.apply(OPS["alias"], self)
    return _taken_over(alias, cls)


# --- the protocol ---


def has_torch_function_unary(obj: Any) -> bool:
    """``has_torch_function((obj,))``."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    """``has_torch_function(args)``."""
    return has_torch_function(args)


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a Tensor or has a ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def get_overridable_functions() -> dict[Any, list[Any]]:
    """What ``__torch_function__`` may be called with: the public functions, and the methods and operators of Tensor."""
    return {
        functions: [*functions.PUBLIC.values()],
        Tensor: [getattr(Tensor, name) for name in (*_named_methods(), *_OPERATORS)],
    }


# --- where calls are caught ---

_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__pow__": "pow", "__matmul__": "matmul", "__mod__": "remainder", "__neg__": "neg", "__abs__": "abs",
    "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__iadd__": "add_", "__isub__": "sub_",
    "__imul__": "mul_", "__itruediv__": "div_",
}  # fmt: skip
"""Operators that arrive as a named method, as in PyTorch; the others arrive as themselves."""

_OTHER_OPERATORS = (
    "__rsub__ __rtruediv__ __rpow__ __floordiv__ __rfloordiv__ __rmod__ __eq__ __ne__ __invert__ __and__ __or__ "
    "__xor__ __rand__ __ror__ __rxor__ __ipow__ __getitem__ __setitem__ __len__ __bool__ __float__ __int__ __repr__"
).split()
_TENSOR_PROPERTIES = ("T", "mT", "data")
_NOT_CAUGHT = frozenset({"as_subclass"})


def _named_methods() -> list[str]:
    return [n for n, v in vars(Tensor).items() if not n.startswith("_") and callable(v) and n not in _NOT_CAUGHT]


_REFLECTED = {f"__r{name}__": f"__{name}__" for name in "add sub mul truediv pow floordiv mod and or xor".split()}


def _asking_method(name: str) -> Callable[..., Any]:
    """A subclass's copy of a method or operator of Tensor."""
    target, unreflected = _OPERATORS.get(name, name), _REFLECTED.get(name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if state.overrides_off:
            return getattr(Tensor, name)(self, *args, **kwargs)
        if target is not name and not all(isinstance(arg, TensorBase | int | float) for arg in args):
            return NotImplemented
        if unreflected is not None and isinstance(args[0], TensorBase):  # Python asks a subclass first
            return _ask(_method_of(unreflected), (args[0], self), kwargs)
        return _ask(getattr(Tensor, target), (self, *args), kwargs)

    return functools.wraps(getattr(Tensor, name))(method)


def _method_of(operator: str) -> Any:
    """What ``__torch_function__`` is called with for an operator."""
    return getattr(Tensor, _OPERATORS.get(operator, operator))


def _ask(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return handle_torch_function(func, relevant_args(args, kwargs), *args, **kwargs)


def _asking_property(name: str) -> property:
    """A subclass's copy of a property that is a tensor."""
    own = vars(Tensor)[name]

    def get(self: Any) -> Any:
        return own.__get__(self) if state.overrides_off else handle_torch_function(own.__get__, (self,), self)

    return property(get, own.fset, own.fdel, own.__doc__)


def _define(cls: type) -> None:
    """``Tensor.__init_subclass__``: a class that overrides functions asks before it does what Tensor does."""
    if not is_override(cls):
        return
    override_classes.append(cls)
    own = {name for base in cls.__mro__ if base not in Tensor.__mro__ for name in vars(base)}
    for name in (*_named_methods(), *_OPERATORS, *_OTHER_OPERATORS):
        if name not in own:
            setattr(cls, name, _asking_method(name))
    for name in _TENSOR_PROPERTIES:
        if name not in own:
            setattr(cls, name, _asking_property(name))


def _attach() -> None:
    Tensor.__torch_function__ = classmethod(_default)  # type: ignore[attr-defined]
    Tensor.__init_subclass__ = classmethod(_define)  # type: ignore[assignment]
    Tensor.as_subclass = as_subclass  # type: ignore[attr-defined]


_attach()
