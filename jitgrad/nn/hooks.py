"""Hooks of modules: around their forward, and around their part of the backward.

Owns: ``ModuleHooks`` (those of one module, or of all), ``Hooked`` (adding some), and calling a module that has some.
Must not know: which modules there are; how gradients reach a hook (``backward_hooks.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.lazy import LazyModule
from jitgrad.runtime.engine.graph.node_hooks import HookDict, RemovableHandle

__all__ = [
    "Hooked",
    "HookedCall",
    "ModuleHooks",
    "every_module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_backward_hooks = LazyModule("jitgrad.nn.backward_hooks")


class ModuleHooks:
    """The hooks of one module, or of all modules, in the order in which they are called.

    Attributes:
        pre, post: functions before and after forward.
        pre_with_kwargs, post_with_kwargs: handle ids of those that are given (and before forward may replace) the
            keyword arguments too.
        always_called: handle ids of those that are called even if forward raises.
        backward_pre, backward: functions of (module, grad_output) and of (module, grad_input, grad_output).
        is_full: whether ``backward`` sees the gradients of the whole module; None while there are no such hooks. The
            others, deprecated, see those of the last node.
    """

    __slots__ = (
        "always_called", "backward", "backward_pre", "is_full", "post", "post_with_kwargs", "pre", "pre_with_kwargs",
    )  # fmt: skip

    def __init__(self) -> None:
        self.pre, self.post = HookDict(), HookDict()
        self.backward_pre, self.backward = HookDict(), HookDict()
        self.pre_with_kwargs: set[int] = set()
        self.post_with_kwargs: set[int] = set()
        self.always_called: set[int] = set()
        self.is_full: bool | None = None

    def add_pre(self, hook: Callable[..., Any], prepend: bool, with_kwargs: bool) -> RemovableHandle:
        """A hook before forward."""
        handle = self.pre.add(hook, prepend=prepend)
        if with_kwargs:
            self.pre_with_kwargs.add(handle.id)
        return handle

    def add_post(
        self, hook: Callable[..., Any], prepend: bool, with_kwargs: bool, always_call: bool
    ) -> RemovableHandle:
        """A hook after forward."""
        handle = self.post.add(hook, prepend=prepend)
        if with_kwargs:
            self.post_with_kwargs.add(handle.id)
        if always_call:
            self.always_called.add(handle.id)
        return handle

    def add_backward(self, hook: Callable[..., Any], prepend: bool, is_full: bool, where: str) -> RemovableHandle:
        """A hook around backward. RuntimeError if there are hooks of the other kind."""
        if self.is_full is not None and self.is_full is not is_full:
            raise RuntimeError(
                f"Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them."
            )
        self.is_full = is_full
        return self.backward.add(hook, prepend=prepend)


class EveryModule:
    """What is hooked into all modules.

    Attributes:
        hooks: theirs; None until somebody adds one.
        registration: kind of member -> functions of (module, name, member) that may replace it.
    """

    def __init__(self) -> None:
        self.hooks: ModuleHooks | None = None
        self.registration = {kind: HookDict() for kind in ("_parameters", "_buffers", "_modules")}

    def own_hooks(self) -> ModuleHooks:
        """``hooks``, which exist from now on."""
        if self.hooks is None:
            self.hooks = ModuleHooks()
        return self.hooks

    def at_registration(self, kind: str, module: Any, name: str, member: Any) -> Any:
        """What becomes the module's member."""
        for hook in tuple(self.registration[kind].values()):
            replaced = hook(module, name, member)
            member = member if replaced is None else replaced
        return member


every_module = EveryModule()


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before every module's forward, and before the module's own hooks."""
    return every_module.own_hooks().add_pre(hook, False, False)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, result)`` after every module's forward; see ``Module.register_forward_hook``."""
    return every_module.own_hooks().add_post(hook, False, with_kwargs, always_call)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before every module's backward."""
    return every_module.own_hooks().backward_pre.add(hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` after every module's backward. RuntimeError beside old ones."""
    return every_module.own_hooks().add_backward(hook, False, True, "as a global Module hook")


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Deprecated form of ``register_module_full_backward_hook``: it sees the gradients of the last node only."""
    return every_module.own_hooks().add_backward(hook, False, False, "as a global Module hook")


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` whenever a module gets a parameter; what it returns replaces it."""
    return every_module.registration["_parameters"].add(hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever a module gets a buffer; what it returns replaces it."""
    return every_module.registration["_buffers"].add(hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, child)`` whenever a module gets a child; what it returns replaces it."""
    return every_module.registration["_modules"].add(hook)


class HookedCall:
    """One call of a module that has hooks, of its own or everybody's.

    Attributes:
        module: which one.
        args, kwargs: what forward gets, as hooks have left it.
        result: of forward and the hooks so far.
        called: ids of hooks after forward that have been called.
    """

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result: Any = None
        self.called: set[int] = set()
        self.owners = [hooks for hooks in (every_module.hooks, module._hooks) if hooks is not None]

    def run(self) -> Any:
        """Forward, with everything around it."""
        try:
            return self._run()
        except Exception:
            for hooks, key, hook in self._hooks_after():
                if key in hooks.always_called and key not in self.called:
                    self._call_after_error(hooks, key, hook)
            raise

    def _run(self) -> Any:
        module = self.module
        self._run_pre()
        full = [hook for hooks in self.owners if hooks.is_full for hook in hooks.backward.values()]
        backward_pre = [hook for hooks in self.owners for hook in hooks.backward_pre.values()]
        partial = [hook for hooks in self.owners if hooks.is_full is False for hook in hooks.backward.values()]
        around = None
        if full or backward_pre:
            around = _backward_hooks.BackwardHook(module, tuple(full), tuple(backward_pre))
            self.args = around.watch_inputs(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        for hooks, key, hook in self._hooks_after():
            self.called.add(key)
            replaced = self._call_post(hooks, key, hook)
            self.result = self.result if replaced is None else replaced
        if around is not None:
            self.result = around.watch_outputs(self.result)
        if partial:
            _backward_hooks.watch_last_node(module, partial, self.args, self.result)
        return self.result

    def _run_pre(self) -> None:
        for hooks in self.owners:
            for key, hook in tuple(hooks.pre.items()):
                if key not in hooks.pre_with_kwargs:
                    replaced = hook(self.module, self.args)
                    if replaced is not None:
                        self.args = replaced if isinstance(replaced, tuple) else (replaced,)
                    continue
                replaced = hook(self.module, self.args, self.kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                        f"{replaced}."
                    )
                self.args, self.kwargs = replaced

    def _hooks_after(self) -> list[tuple[ModuleHooks, int, Any]]:
        return [(hooks, key, hook) for hooks in self.owners for key, hook in hooks.post.items()]

    def _call_post(self, hooks: ModuleHooks, key: int, hook: Any) -> Any:
        if key in hooks.post_with_kwargs:
            return hook(self.module, self.args, self.kwargs, self.result)
        return hook(self.module, self.args, self.result)

    def _call_after_error(self, hooks: ModuleHooks, key: int, hook: Any) -> None:
        """The first error is the one that counts; an error of the hook becomes a warning."""
        try:
            self._call_post(hooks, key, hook)
        except Exception as error:
            whose = "global module" if hooks is every_module.hooks else "module"
            warnings.warn(
                f"{whose} forward hook with ``always_call=True`` raised an exception that was silenced as another "
                f"error was raised in forward: {error}",
                stacklevel=4,
            )


class Hooked:
    """The part of ``Module`` that adds hooks."""

    _hooks: ModuleHooks | None = None  # once there, they stay: the slow call is right with and without hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before forward; what it returns replaces the arguments.

        Args:
            hook: the function.
            prepend: call it before the hooks that are there.
            with_kwargs: call ``hook(module, args, kwargs)``, which returns None or ``(args, kwargs)``.
        """
        return self._own_hooks().add_pre(hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, result)`` after forward; what it returns replaces the result.

        Args:
            hook: the function.
            prepend: call it before the hooks that are there.
            with_kwargs: call ``hook(module, args, kwargs, result)``.
            always_call: call it even if forward raises.
        """
        return self._own_hooks().add_post(hook, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(
        self, hook: Callable[[Any, Any], Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the module's backward; what it returns replaces ``grad_output``."""
        return self._own_hooks().backward_pre.add(hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[[Any, Any, Any], Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the module's inputs are known.

        Both are tuples, with None for what is no tensor; what the hook returns replaces ``grad_input``.

        Raises:
            RuntimeError: the module has hooks of ``register_backward_hook``.
        """
        return self._own_hooks().add_backward(hook, prepend, True, "on a single Module")

    def register_backward_hook(self, hook: Callable[[Any, Any, Any], Any]) -> RemovableHandle:
        """Deprecated form of ``register_full_backward_hook``: it sees the gradients of the last node only.

        Raises:
            RuntimeError: the module has full backward hooks.
        """
        return self._own_hooks().add_backward(hook, False, False, "on a single Module")

    def _own_hooks(self) -> ModuleHooks:
        hooks = self._hooks
        if hooks is None:
            hooks = self.__dict__["_hooks"] = ModuleHooks()
        return hooks

    # PyTorch's names, for programs that look
    @property
    def _forward_hooks(self) -> HookDict:
        return self._own_hooks().post

    @property
    def _forward_pre_hooks(self) -> HookDict:
        return self._own_hooks().pre

    @property
    def _backward_hooks(self) -> HookDict:
        return self._own_hooks().backward

    @property
    def _backward_pre_hooks(self) -> HookDict:
        return self._own_hooks().backward_pre
