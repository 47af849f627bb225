"""Hooks of modules: around their forward, and around their part of the backward.

Owns: ``ModuleHooks``: the hooks of one module, and calling a module that has some.
Must not know: which modules there are, how backward is run.

The gradients that backward hooks see flow through two nodes that do nothing, one before the module's forward and one
after it: their own hooks call the module's. (PyTorch's ``BackwardHook``, torch/utils/hooks.py.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from jitgrad.autograd.function import Function
from jitgrad.grad_mode import is_grad_enabled
from jitgrad.runtime.engine.graph.node_hooks import HookDict
from jitgrad.tensor import Tensor

__all__ = ["ForwardHook", "ModuleHooks"]


class ForwardHook(NamedTuple):
    """A hook around forward.

    Attributes:
        fn: the user's function.
        with_kwargs: it is given (and a pre-hook may replace) the keyword arguments too.
        always_call: it is called even if forward raised.
    """

    fn: Callable[..., Any]
    with_kwargs: bool
    always_call: bool = False


class ModuleHooks:
    """The hooks of one module, in the order in which they are called.

    Attributes:
        pre, post: ``ForwardHook``s before and after forward.
        backward_pre, backward: functions of (module, grad_output) and of (module, grad_input, grad_output).
    """

    __slots__ = ("backward", "backward_pre", "post", "pre")

    def __init__(self) -> None:
        self.pre, self.post = HookDict(), HookDict()
        self.backward_pre, self.backward = HookDict(), HookDict()

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The module's forward, with everything around it."""
        called: set[int] = set()
        result = None
        try:
            args, kwargs = self._run_pre(module, args, kwargs)
            around = None
            if self.backward or self.backward_pre:
                around = _BackwardHook(module, tuple(self.backward.values()), tuple(self.backward_pre.values()))
                args = around.watch_inputs(args)
            result = module.forward(*args, **kwargs)
            for key, hook in tuple(self.post.items()):
                called.add(key)
                replaced = _call_post(hook, module, args, kwargs, result)
                result = result if replaced is None else replaced
            return result if around is None else around.watch_outputs(result)
        except Exception:
            for key, hook in tuple(self.post.items()):
                if hook.always_call and key not in called:
                    _call_after_error(hook, module, args, kwargs, result)
            raise

    def _run_pre(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook in tuple(self.pre.values()):
            if hook.with_kwargs:
                replaced = hook.fn(module, args, kwargs)
                if replaced is not None:
                    if not (isinstance(replaced, tuple) and len(replaced) == 2):
                        raise RuntimeError(
                            "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                            f"{replaced}."
                        )
                    args, kwargs = replaced
            else:
                replaced = hook.fn(module, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args, kwargs


def _call_post(hook: ForwardHook, module: Any, args: Any, kwargs: Any, result: Any) -> Any:
    return hook.fn(module, args, kwargs, result) if hook.with_kwargs else hook.fn(module, args, result)


def _call_after_error(hook: ForwardHook, module: Any, args: Any, kwargs: Any, result: Any) -> None:
    """The first error is the one that counts; one of the hook is only told."""
    try:
        _call_post(hook, module, args, kwargs, result)
    except Exception as error:
        warnings.warn(
            f"module forward hook with ``always_call=True`` raised an exception that was silenced as another error was "
            f"raised in forward: {error}",
            stacklevel=4,
        )


class BackwardHookFunction(Function):
    """Does nothing, as a node of the graph."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[x for x in args if not x.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class _BackwardHook:
    """The backward hooks of one call of a module.

    Attributes:
        grad_outputs: what has arrived at the outputs, until the hooks have been called.
    """

    def __init__(self, module: Any, hooks: tuple[Any, ...], pre_hooks: tuple[Any, ...]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: Any = None
        self.input_places: list[int] | None = None
        self.num_inputs = 0

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, behind a node that calls the hooks with the gradients of both sides."""
        self.num_inputs = len(args)
        args, self.input_places, node = _through_node(args)
        if node is not None:
            node.register_hook(lambda grad_inputs, _: self._at_inputs(grad_inputs))
        return args

    def watch_outputs(self, result: Any) -> Any:
        """The result, behind a node that calls the pre-hooks, and keeps the gradients for the hooks."""
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=4,
            )
        outputs = result if isinstance(result, tuple) else (result,)
        count = len(outputs)
        outputs, places, node = _through_node(outputs)
        if node is not None:
            node.register_hook(lambda _, grad_outputs: self._at_outputs(grad_outputs, places, count))
        return outputs if isinstance(result, tuple) else outputs[0]

    def _at_outputs(self, grads: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
        grad_outputs = self.grad_outputs = _spread(places, grads, count)
        for hook in self.pre_hooks:
            replaced = hook(self.module, grad_outputs)
            if replaced is None:
                continue
            replaced = replaced if isinstance(replaced, tuple) else (replaced,)
            if len(replaced) != count:
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(replaced)}, but expected "
                    f"{count}"
                )
            grad_outputs = self.grad_outputs = replaced
        if self.input_places is None:
            self._without_inputs(grad_outputs)
        return tuple(grad_outputs[i] for i in places)

    def _without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        """No input requires grad: the hooks are called here, and have nothing to replace."""
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                "inputs require gradients.",
                stacklevel=5,
            )
        for hook in self.hooks:
            replaced = hook(self.module, (None,) * self.num_inputs, grad_outputs)
            if replaced is not None and not (isinstance(replaced, tuple) and all(x is None for x in replaced)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        self.grad_outputs = None

    def _at_inputs(self, grads: tuple[Any, ...]) -> Any:
        if self.grad_outputs is None:
            return None  # the gradient has come round the module's outputs, as in a double backward
        assert self.input_places is not None
        grad_inputs = _spread(self.input_places, grads, self.num_inputs)
        for hook in self.hooks:
            replaced = hook(self.module, grad_inputs, self.grad_outputs)
            if replaced is None:
                continue
            replaced = replaced if isinstance(replaced, tuple) else (replaced,)
            if len(replaced) != len(grad_inputs):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(replaced)}, but expected "
                    f"{len(grad_inputs)}"
                )
            grad_inputs = replaced
        self.grad_outputs = None
        return tuple(grad_inputs[i] for i in self.input_places)


def _through_node(args: tuple[Any, ...]) -> Any:
    """(the arguments, where tensors among them stand, the node that they have passed); no node outside a graph."""
    places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
    if not (is_grad_enabled() and any(args[i].requires_grad for i in places)):
        return args, None, None
    passed = BackwardHookFunction.apply(*[args[i] for i in places])
    passed = passed if isinstance(passed, tuple) else (passed,)
    node = next(x.grad_fn for x in passed if x.requires_grad)
    behind = list(args)
    for i, x in zip(places, passed, strict=True):
        behind[i] = x
    return tuple(behind), places, node


def _spread(places: list[int], values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """``values`` at their places among ``count``, None elsewhere."""
    out: list[Any] = [None] * count
    for i, value in zip(places, values, strict=True):
        out[i] = value
    return tuple(out)
