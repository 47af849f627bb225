"""``torch.library``: Python functions as operations with a name and a derivative.

Owns: ``custom_op``, ``register_autograd``, ``register_fake`` and their like.
Must not know: the table of operations; a derivative makes a ``Function`` of the operation.

A compiled step runs such a function as it runs any Python: its tensor operations are recorded. What reads values
(``x.numpy()``) runs between two recorded parts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.autograd.function import Function
from jitgrad.tensor_base import TensorBase

__all__ = ["CustomOpDef", "custom_op", "get_op", "register_autograd", "register_fake", "register_kernel"]

_ops: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An operation that was made by ``custom_op``; call it like the function.

    Attributes:
        name: with its namespace.
    """

    def __init__(self, name: str, function: Callable[..., Any], mutates_args: Iterable[str]) -> None:
        self.name = name
        self.__name__, self.__doc__ = name.partition("::")[2], function.__doc__
        self._signature = inspect.signature(function)
        self._kernel = function
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._mutates = tuple(mutates_args)
        self._fake: Callable[..., Any] | None = None
        self._node: type[Function] | None = None

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.name})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = tuple(bound.arguments.values())
        devices = {x.device.type for x in values if isinstance(x, TensorBase)}
        if "meta" in devices and self._fake is not None:
            return self._fake(*values)
        if self._node is not None:
            return self._node.apply(*values)
        return self._run(values)

    def _run(self, values: tuple[Any, ...]) -> Any:
        """The kernel of the device of the first tensor.

        Raises:
            RuntimeError: an argument comes back as the result, which ``custom_op`` forbids.
        """
        device = next((x.device.type for x in values if isinstance(x, TensorBase)), "cpu")
        found = self._kernels.get(device, self._kernel)(*values)
        for result in found if isinstance(found, tuple | list) else (found,):
            if isinstance(result, TensorBase) and any(result is x for x in values):
                raise RuntimeError(
                    f"{self.name} (with implementation in {self._kernel.__module__}): The output of this custom "
                    "operator (1) must not also be an input to this custom operator and (2) may not alias any inputs "
                    "to this custom operator or other returns. Please clone() the offending output."
                )
        return found

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Give the operation a derivative.

        Args:
            backward: ``backward(ctx, *grads)`` returns a gradient, or None, for each argument.
            setup_context: ``setup_context(ctx, inputs, output)`` keeps what ``backward`` needs, by
                ``ctx.save_for_backward`` and attributes of ``ctx``.

        Raises:
            RuntimeError: the operation writes to an argument.
        """
        if self._mutates:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self}. Please create a functional "
                "operator and register an autograd formula for that."
            )
        run = self._run

        def forward(*values: Any) -> Any:
            return run(values)

        def keep_by_name(ctx: Any, inputs: Any, output: Any) -> None:
            if setup_context is not None:
                setup_context(ctx=ctx, inputs=inputs, output=output)

        members = {
            "forward": staticmethod(forward),
            "setup_context": staticmethod(keep_by_name),
            "backward": staticmethod(backward),
        }
        self._node = type(f"GeneratedBackwardFor_{self.name.replace('::', '_')}", (Function,), members)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """What the operation returns for tensors on ``meta``, which have no values; also a decorator."""
        self._fake = fn
        return fn

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Another function for some devices: a name, several, or None for all; a decorator without ``fn``."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        if device_types is None:
            self._kernel = fn
        for device in (device_types,) if isinstance(device_types, str) else device_types or ():
            self._kernels[device] = fn
        return fn


_NAME = re.compile(r"[^:\s]+::[^:\s.]+")


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operation of a Python function; a decorator without ``fn``.

    Args:
        name: with a namespace: ``"mylib::scale"``. An operation of the same name is replaced.
        fn: computes the result, a new tensor or a tuple of them. Its arguments' annotations say nothing here.
        mutates_args: the names of the arguments that it writes to; ``"unknown"`` for any.
        device_types: the devices it is for; None for all.
        schema, tags: accepted, without effect.

    Raises:
        ValueError: a name without namespace.
        NotImplementedError: called with tensors on another device.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"custom_op(name={name!r}): expected name to be of the form 'namespace::name'")

    def make(function: Callable[..., Any]) -> CustomOpDef:
        mutates = (mutates_args,) if isinstance(mutates_args, str) else mutates_args
        made = CustomOpDef(name, function if device_types is None else _elsewhere(name), mutates)
        made._signature = inspect.signature(function)
        if device_types is not None:
            made.register_kernel(device_types, function)
        _ops[name] = made
        return made

    return make if fn is None else make(fn)


def _elsewhere(name: str) -> Callable[..., Any]:
    def refuse(*values: Any) -> Any:
        raise NotImplementedError(f"{name}: there is no kernel for the device of its arguments")

    return refuse


def get_op(op: str | CustomOpDef) -> CustomOpDef:
    """The operation of a name. RuntimeError if there is none."""
    if isinstance(op, CustomOpDef):
        return op
    if op not in _ops:
        raise RuntimeError(f"operator {op} does not exist")
    return _ops[op]


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Any = None
) -> None:
    """``CustomOpDef.register_autograd`` of an operation, or of its name."""
    get_op(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """``CustomOpDef.register_fake`` of an operation, or of its name; a decorator without ``func``."""
    made = get_op(op)
    return made.register_fake if func is None else made.register_fake(func)


def register_kernel(op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """``CustomOpDef.register_kernel`` of an operation, or of its name."""
    return get_op(op).register_kernel(device_types, func)
