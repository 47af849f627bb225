"""``__torch_function__``: subclasses of Tensor that say what functions do with them.

Owns: the protocol, as PyTorch defines it, and where calls are caught.
Must not know: what the functions do.
In: classes, as they are defined. Out: calls of their ``__torch_function__(func, types, args, kwargs)``.

# Note [Overrides]
# ~~~~~~~~~~~~~~~~
# Nothing is caught, and nothing costs anything, until somebody defines a subclass of Tensor. Then, once for all
# classes: the public functions are replaced, in every namespace of jitgrad that has them, by objects that look at their
# arguments first; and named methods of Tensor by functions that do. (Operators of Tensor stay: with an operand of a
# subclass Python asks the subclass first.) And for every class: its own copies of the methods and operators ask
# ``__torch_function__`` first, except those that the class defines itself.
# ``func`` is the function or method that was called (``Tensor.T.__get__`` for a property that is a tensor; other
# attributes are not caught). A function compares equal to the object that replaced it, so a table of handlers may be
# filled before or after. A name imported before the first class was defined is the function itself, which looks at
# nothing; ``autograd.grad`` and ``autograd.backward`` look by themselves.
# The engine runs with all this off: derivative rules are not the user's calls.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Hashable, Iterable
from types import MethodType
from typing import Any

from jitgrad import functions
from jitgrad.door import door
from jitgrad.ops.table import OPS
from jitgrad.runtime.engine.run.engine import Engine
from jitgrad.state import state
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


class _Thread(threading.local):
    """How many ``DisableTorchFunctionSubclass`` blocks the thread is in."""

    depth: int = 0


_thread = _Thread()
override_classes: list[type] = []
"""Subclasses with a ``__torch_function__`` that counts; while it is empty nothing is caught."""


class DisableTorchFunctionSubclass:
    """``with DisableTorchFunctionSubclass(): ...``: subclasses are plain tensors inside, on this thread."""

    def __enter__(self) -> None:
        _thread.depth += 1

    def __exit__(self, *exception: object) -> None:
        _thread.depth -= 1


def _default(cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    """What ``super().__torch_function__(...)`` does: call ``func`` on plain tensors, make the results ``cls``."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        return _convert(func(*args, **(kwargs or {})), cls, args)


def disabled_torch_function(cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    """``__torch_function__ = classmethod(disabled_torch_function)``: a class that is no override at all."""
    return NotImplemented


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


def _is_override(kind: type) -> bool:
    """Whether a type has a ``__torch_function__`` that counts."""
    method = getattr(kind, "__torch_function__", None)
    if method is None or kind is Tensor:
        return False
    return getattr(method, "__func__", method) is not disabled_torch_function


def _overloaded(relevant_args: Iterable[Any]) -> list[Any]:
    """One argument of each type that overrides; subclasses before their bases, else in order."""
    found: list[Any] = []
    for arg in relevant_args:
        kind = type(arg)
        if any(type(f) is kind for f in found) or not _is_override(kind):
            continue
        place = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
        found.insert(place, arg)
    return found


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any argument's type overrides functions (and the thread has not turned that off)."""
    return not _thread.depth and any(_is_override(type(arg)) for arg in relevant_args)


def has_torch_function_unary(obj: Any) -> bool:
    """``has_torch_function((obj,))``."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    """``has_torch_function(args)``."""
    return has_torch_function(args)


def handle_torch_function(public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Ask the types of ``relevant_args`` in turn what ``public_api(*args, **kwargs)`` is.

    Raises:
        TypeError: all of them said NotImplemented.
    """
    overloaded = _overloaded(relevant_args)
    types = tuple(type(arg) for arg in overloaded)
    for arg in overloaded:
        result = type(arg).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"no implementation found for {_resolve_name(public_api)!r} on types that implement __torch_function__: "
        f"{[type(arg) for arg in overloaded]}"
    )


def _resolve_name(function: Any) -> str:
    name = getattr(function, "__name__", repr(function))
    in_autograd = str(getattr(function, "__module__", "")).startswith("jitgrad.autograd")
    return f"jitgrad.autograd.{name}" if in_autograd else f"jitgrad.{name}"


def is_tensor_like(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor or has a ``__torch_function__``."""
    return isinstance(obj, Tensor) or hasattr(type(obj), "__torch_function__")


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
_WITH_RIGHT_OPERAND = (
    "__add__ __sub__ __mul__ __truediv__ __pow__ __matmul__ __mod__ __floordiv__ __lt__ __le__ __gt__ __ge__ __eq__ "
    "__ne__ __and__ __or__ __xor__ __iadd__ __isub__ __imul__ __itruediv__"
).split()
_TENSOR_PROPERTIES = ("T", "mT", "data")
_NOT_CAUGHT = frozenset({"as_subclass"})


def _named_methods() -> list[str]:
    return [n for n, v in vars(Tensor).items() if not n.startswith("_") and callable(v) and n not in _NOT_CAUGHT]


def _relevant(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that may override, and what stands in lists of them."""
    found: list[Any] = []
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, tuple | list):
            found.extend(arg)
        else:
            found.append(arg)
    return found


def _asking_method(name: str) -> Callable[..., Any]:
    """A subclass's copy of a method or operator of Tensor."""
    target = _OPERATORS.get(name, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _thread.depth:
            return getattr(Tensor, name)(self, *args, **kwargs)
        if target is not name and not all(isinstance(arg, TensorBase | int | float) for arg in args):
            return NotImplemented
        return _ask(getattr(Tensor, target), (self, *args), kwargs)

    return functools.wraps(getattr(Tensor, name))(method)


def _ask(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return handle_torch_function(func, _relevant(args, kwargs), *args, **kwargs)


class _Overridable:
    """A public function or method of Tensor that looks at its arguments first; equal to what it replaced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _thread.depth:
            relevant = _relevant(args, kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(self, relevant, *args, **kwargs)
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __eq__(self, other: object) -> bool:
        return other is self.function or self is other

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


def _looking_operator(name: str) -> Callable[..., Any]:
    """An operator of a class that overrides nothing, whose right operand may: Python does not ask that one first."""
    asking = _asking_method(name)

    def operator(self: Any, other: Any) -> Any:
        if _thread.depth or not _is_override(type(other)):
            return getattr(Tensor, name)(self, other)
        return asking(self, other)

    return functools.wraps(getattr(Tensor, name))(operator)


def _replace_functions() -> None:
    """Once, when the first class is defined."""
    spaces = [m for n, m in list(sys.modules.items()) if n in ("jitgrad", "jitgrad.functions") or _is_user_level(n)]
    layers = sys.modules.get("jitgrad.nn.functional")
    found = [getattr(layers, name) for name in getattr(layers, "__all__", ())] + list(functions.PUBLIC.values())
    methods = {n: v for n in (*functions.METHODS, *functions.INPLACE_METHODS) if callable(v := Tensor.__dict__[n])}
    replaced = {f: _Overridable(f) for f in (*found, *methods.values())}
    for space in spaces:
        for name, value in list(vars(space).items()):
            if callable(value) and isinstance(value, Hashable) and value in replaced:
                setattr(space, name, replaced[value])
    for name, function in methods.items():
        setattr(Tensor, name, replaced[function])
    for kind in Tensor.__subclasses__():
        if not _is_override(kind):
            for name in _WITH_RIGHT_OPERAND:
                if name not in vars(kind):
                    setattr(kind, name, _looking_operator(name))
    Engine.execute = _quietly(Engine.execute)  # type: ignore[method-assign]


def _is_user_level(module: str) -> bool:
    return module == "jitgrad.nn" or module.startswith("jitgrad.nn.")


def _asking_property(name: str) -> property:
    """A subclass's copy of a property that is a tensor."""
    own = vars(Tensor)[name]

    def get(self: Any) -> Any:
        return own.__get__(self) if _thread.depth else handle_torch_function(own.__get__, (self,), self)

    return property(get, own.fset, own.fdel, own.__doc__)


def _add_class(cls: type) -> None:
    """``Tensor.__init_subclass__``."""
    if not _is_override(cls):
        return
    if not override_classes:
        _replace_functions()
    override_classes.append(cls)
    own = {name for base in cls.__mro__ if base not in Tensor.__mro__ for name in vars(base)}
    for name in (*_named_methods(), *_OPERATORS, *_OTHER_OPERATORS):
        if name not in own:
            setattr(cls, name, _asking_method(name))
    for name in _TENSOR_PROPERTIES:
        if name not in own:
            setattr(cls, name, _asking_property(name))


def _quietly(execute: Callable[..., Any]) -> Callable[..., Any]:
    """The engine's ``execute`` with overrides off."""

    @functools.wraps(execute)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with DisableTorchFunctionSubclass():
            return execute(*args, **kwargs)

    return wrapper


def _attach() -> None:
    Tensor.__torch_function__ = classmethod(_default)  # type: ignore[attr-defined]
    Tensor.__init_subclass__ = classmethod(lambda cls: _add_class(cls))  # type: ignore[assignment]
    Tensor.as_subclass = as_subclass  # type: ignore[attr-defined]


_attach()
