"""``Function``: operations that the user writes, with their derivatives.

Owns: ``Function``, the ``ctx`` that its methods receive, ``once_differentiable``.
Must not know: how outputs join the graph, how saved tensors are kept (``runtime.engine.py_node``, ``py_outputs``).

# Note [Custom functions]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# Every ``Function`` subclass has a Node class of its own, named after it: the ``ctx`` of one application *is* its Node,
# as in PyTorch, so what the user keeps on ``ctx`` is found at ``grad_fn`` too. ``forward`` runs without recording a
# graph, then the outputs are given the Node (py_outputs.py). Nothing here knows of traces: in a compiled step forward
# and backward are plain Python over pending tensors, called at every call, and their operations are recorded like any
# others. What a trace must know is only that a value has a Node it did not make itself (``set_history``).
# A Node must not lead to itself, or it lives until the cyclic collector runs: an output that is saved is kept as an
# alias without history, an input of a trace as an alias that does not know the trace.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from jitgrad.grad_mode import no_grad, set_grad_mode
from jitgrad.runtime.engine.graph.join import set_history
from jitgrad.runtime.engine.graph.py_node import Error, PyNode
from jitgrad.runtime.engine.graph.py_outputs import wrap_outputs
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "backward_of",
    "once_differentiable",
]

_next_function_id = itertools.count().__next__
_signature = functools.lru_cache(maxsize=256)(inspect.signature)

F = TypeVar("F", bound=Callable[..., Any])


class FunctionCtx:
    """What ``forward`` and ``setup_context`` may declare."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Save inputs, outputs or other tensors for ``backward``; None is allowed.

        They come back as ``ctx.saved_tensors``, after a check that nothing has written over them. The last call counts.
        A tensor that is neither an input nor an output comes back without history: what it depends on is not
        differentiated in a double backward.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors for ``jvp``, where they are ``ctx.saved_tensors``. AssertionError for anything else."""
        if not all(x is None or isinstance(x, TensorBase) for x in tensors):
            raise AssertionError(
                "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on "
                "ctx."
            )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs ``forward`` writes in place; each must be returned as an output."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Deprecated: tensors that share storage are found without it."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note that "
            "calls to `set_()` are not tracked",
            category=FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs have no gradient; ``backward`` receives zeros for them."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (the default) or None for outputs that no gradient arrived at."""
        self.materialize_grads = value


class BackwardCFunction(PyNode, FunctionCtx):
    """The Node of one application of a ``Function``; every Function class has a subclass of its own."""

    _forward_cls: type[Function]

    def user_backward(self) -> Callable[..., Any]:
        return backward_of(self._forward_cls)

    def apply_jvp(self, *tangents: Any) -> Any:
        """The Function's ``jvp``, for forward-mode differentiation."""
        return self._forward_cls.jvp(self, *tangents)


def backward_of(function: type[Function]) -> Callable[..., Any]:
    """A Function's ``backward`` or ``vjp``; RuntimeError if it has both."""
    backward, vjp = function.backward, function.vjp
    if backward is not Function.backward and vjp is not Function.vjp:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement "
            "one of them."
        )
    return vjp if vjp is not Function.vjp else backward


class FunctionMeta(type):
    """Gives every Function class its Node class, ``_backward_cls``."""

    _backward_cls: type[BackwardCFunction]

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        switches = {key: getattr(cls, key) for key in ("boxed_grads_call", "clear_saved_tensors_on_access")}
        own = {"_forward_cls": cls, "_autograd_function_id": _next_function_id(), "__module__": cls.__module__}
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {**switches, **own})
        super().__init__(name, bases, attrs)


class Function(FunctionCtx, metaclass=FunctionMeta):
    """The base class of custom operations, which are used by ``apply``, never instantiated.

    A subclass has static methods ``forward`` and ``backward`` (or ``vjp``); ``backward`` is differentiated again if
    it is asked to. ``forward`` takes a ``ctx`` first; or it takes only the arguments and leaves the ``ctx`` to a static
    method ``setup_context``.

    Example::

        class Exp(Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx, grad_output):
                (y,) = ctx.saved_tensors
                return grad_output * y

        y = Exp.apply(x)

    Attributes:
        generate_vmap_rule: ``vmap`` may run forward and backward as they are.
        clear_saved_tensors_on_access: ``ctx.saved_tensors`` may be read once, and keeps nothing then.
        boxed_grads_call: ``backward(ctx, grads)`` gets one list, from which it may take what it has used.
    """

    generate_vmap_rule = False
    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{self.__class__} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. "
            "(Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation: ``forward(ctx, *args)``, or ``forward(*args)`` beside a ``setup_context``.

        Returns a tensor, or a tuple of tensors and other things.
        """
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what ``backward`` needs; called after a ``forward`` that takes no ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the inputs from those of the outputs; None where an input has none.

        One argument per output, one result per input. ``ctx.needs_input_grad`` says which are needed.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs from those of the inputs (None for what is no tensor)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """``forward`` for arguments with one more dimension; returns ``(output, out_dims)``."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward``; whatever it does, the graph gets one Node, or none if no argument requires grad.

        Raises:
            RuntimeError, TypeError: a declaration on ``ctx`` that does not fit what ``forward`` returned.
        """
        has_setup_context = cls.setup_context is not Function.setup_context
        if has_setup_context:
            bound = _signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        if state.handler is not None:
            result = state.handler.custom_function(cls, args, kwargs)
            if result is not NotImplemented:
                return result
        ctx, result = cls._apply_with_ctx(args, kwargs)
        if ctx.saved_for_forward is not None:
            ctx.saved_for_forward = None
        return result

    @classmethod
    def _apply_with_ctx(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """(the ctx, what ``apply`` returns)."""
        has_setup_context = cls.setup_context is not Function.setup_context
        inputs = (*args, *kwargs.values())
        ctx = cls._backward_cls(inputs)
        grad_mode = state.grad_enabled
        set_grad_mode(False)
        try:
            if has_setup_context:
                raw = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, raw)
            else:
                raw = cls.forward(ctx, *args, **kwargs)
        finally:
            set_grad_mode(grad_mode)
        if type(raw) is tuple or isinstance(raw, tuple):
            return ctx, wrap_outputs(ctx, inputs, raw, has_setup_context)
        return ctx, wrap_outputs(ctx, inputs, (raw,), has_setup_context)[0]


class InplaceFunction(Function):
    """Kept because PyTorch keeps it; use ``Function``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def once_differentiable(fn: F) -> F:
    """Decorate a ``backward`` that cannot be differentiated: trying to raises, instead of giving wrong gradients."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args, **kwargs)
        if not state.grad_enabled or not any(isinstance(x, TensorBase) and x.requires_grad for x in args):
            return outputs
        grads = outputs if isinstance(outputs, tuple) else (outputs,)
        delayed = _delay_error(grads)
        return delayed if len(delayed) > 1 else delayed[0]

    decorated: F = wrapper  # type: ignore[assignment]
    return decorated


def _delay_error(grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients as results of something that cannot be differentiated."""
    leaves = [g.detach().requires_grad_() for g in grads if g is not None]
    node = Error("trying to differentiate twice a function that was marked with @once_differentiable", leaves)
    delayed = [x.detach() for x in leaves]
    for nr, x in enumerate(delayed):
        set_history(x, node, nr)
    rest = iter(delayed)
    return tuple(None if g is None else next(rest) for g in grads)
