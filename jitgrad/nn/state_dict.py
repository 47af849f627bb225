"""Saving and loading a module's state.

Owns: ``Stateful``, the part of ``Module`` that is about state dictionaries: what is in one, how it is matched, its
hooks and the errors.
Must not know: ``Module`` (which imports this), traces.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from jitgrad.grad_mode import no_grad
from jitgrad.nn.parameter import Parameter, is_lazy
from jitgrad.nn.registry import Registry
from jitgrad.runtime.engine.graph.node_hooks import HookDict, RemovableHandle
from jitgrad.tensor import Tensor

__all__ = ["IncompatibleKeys", "StateHooks", "Stateful"]

EXTRA_STATE = "_extra_state"
"""The key of what ``get_extra_state`` returns."""


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict(strict=False)`` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r})"


class StateHooks:
    """Hooks around the saving and loading of one module's state.

    Attributes:
        before_save: functions of (module, prefix, keep_vars).
        after_save: functions of (module, state_dict, prefix, metadata).
        old_after_save: handle ids of those whose result replaces the dictionary.
        before_load: functions of all that ``_load_from_state_dict`` gets, and the module if it was asked for.
        after_load: functions of (module, incompatible keys).
    """

    __slots__ = ("after_load", "after_save", "before_load", "before_save", "old_after_save")

    def __init__(self) -> None:
        self.before_save, self.after_save = HookDict(), HookDict()
        self.before_load, self.after_load = HookDict(), HookDict()
        self.old_after_save: set[int] = set()


class Stateful:
    """The part of ``Module`` that is about state dictionaries.

    Attributes:
        _version: of the class's state, saved with it; ``_load_from_state_dict`` may look at it.
    """

    _version: int = 1
    _parameters: Registry
    _buffers: Registry
    _modules: Registry
    _non_persistent_buffers_set: set[str]
    _state_hooks: StateHooks | None = None

    # what a class adds to its state
    def get_extra_state(self) -> Any:
        """What a subclass puts into state dictionaries besides tensors; it also writes ``set_extra_state``."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please write "
            "get_extra_state and set_extra_state together."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what ``get_extra_state`` returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please write "
            "get_extra_state and set_extra_state together."
        )

    # saving
    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name.

        Args:
            args: ``destination``, ``prefix``, ``keep_vars`` by position: deprecated.
            destination: the dictionary to write to; a new ``OrderedDict`` if None.
            prefix: what the names begin with.
            keep_vars: the tensors themselves; else they are detached, but not copied.
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            given = [*args, *(destination, prefix, keep_vars)[len(args) :]]
            destination, prefix, keep_vars = given[0], given[1], given[2]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        hooks = self._state_hooks
        if hooks is not None:
            for hook in tuple(hooks.before_save.values()):
                hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        if hooks is not None:
            for key, hook in tuple(hooks.after_save.items()):
                replaced = hook(self, destination, prefix, metadata)
                if replaced is None:
                    continue
                if key not in hooks.old_after_save:
                    raise RuntimeError("state_dict post-hook must return None")
                destination = replaced
        found: dict[str, Any] = destination
        return found

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Write this module's own members, without its children's."""
        for name, value in self._own_state():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _own_state(self) -> Iterator[tuple[str, Any]]:
        """Parameters and persistent buffers of this module alone."""
        for name, value in self._parameters.items():
            if value is not None:
                yield name, value
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                yield name, value

    # loading
    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values in.

        Args:
            state_dict: names -> tensors.
            strict: keys must be the same.
            assign: the dictionary's tensors become the members, instead of being copied into them.

        Returns:
            The missing and the unexpected keys.

        Raises:
            TypeError: ``state_dict`` is no mapping.
            RuntimeError: sizes differ, or, when ``strict``, keys do; what fits has been copied.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        keys, problems = IncompatibleKeys([], []), list[str]()
        state: Any = OrderedDict(state_dict)
        metadata = getattr(state_dict, "_metadata", None)
        if metadata is not None:
            state._metadata = metadata
        _load_tree(self, state, "", metadata or {}, assign, keys, problems)
        if strict:
            problems = [*_complaints(keys), *problems]
        if problems:
            listed = "\n\t".join(problems)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return keys

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Read this module's own members, without its children's; keys and errors are added to the lists."""
        hooks = self._state_hooks
        if hooks is not None:
            for hook in tuple(hooks.before_load.values()):
                hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = dict(self._own_state())
        for name, value in own.items():
            key = prefix + name
            if key in state_dict:
                problem = _load_member(self, name, value, key, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        takes_extra = type(self).set_extra_state is not Stateful.set_extra_state
        if takes_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif strict and takes_extra:
            missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    name, dot, _ = key[len(prefix) :].partition(".")
                    if name not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    # hooks
    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the module's state is collected."""
        return self._own_state_hooks().before_save.add(hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` afterwards; it changes the dictionary in place."""
        return self._own_state_hooks().after_save.add(hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form: what the hook returns replaces the dictionary."""
        hooks = self._own_state_hooks()
        handle = hooks.after_save.add(hook)
        hooks.old_after_save.add(handle.id)
        return handle

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before loading: ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)``; it may change them in place."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """The older form: the hook may go without the module."""
        return self._own_state_hooks().before_load.add(partial(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it may change the lists in place."""
        return self._own_state_hooks().after_load.add(hook)

    def _own_state_hooks(self) -> StateHooks:
        hooks = self._state_hooks
        if hooks is None:
            hooks = self.__dict__["_state_hooks"] = StateHooks()
        return hooks

    # PyTorch's names, for programs that look
    @property
    def _state_dict_pre_hooks(self) -> HookDict:
        return self._own_state_hooks().before_save

    @property
    def _state_dict_hooks(self) -> HookDict:
        return self._own_state_hooks().after_save

    @property
    def _load_state_dict_pre_hooks(self) -> HookDict:
        return self._own_state_hooks().before_load

    @property
    def _load_state_dict_post_hooks(self) -> HookDict:
        return self._own_state_hooks().after_load


def _load_tree(
    module: Any,
    state: dict[str, Any],
    prefix: str,
    metadata: Mapping[str, Any],
    assign: bool,
    keys: IncompatibleKeys,
    problems: list[str],
) -> None:
    """Load a module and everything below it, parents first."""
    local = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local["assign_to_params_buffers"] = assign
    module._load_from_state_dict(state, prefix, local, True, keys.missing_keys, keys.unexpected_keys, problems)
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            part = {key: value for key, value in state.items() if key.startswith(below)}
            _load_tree(child, part, below, metadata, assign, keys, problems)
    if module._state_hooks is not None:
        for hook in tuple(module._state_hooks.after_load.values()):
            if hook(module, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )


def _load_member(module: Any, name: str, value: Any, key: str, given: Any, assign: bool) -> str:
    """Load one parameter or buffer; what is wrong with it, or nothing."""
    if not isinstance(given, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(given)}"
        )
    is_shapeless = is_lazy(value)
    if is_shapeless and is_lazy(given):
        return ""
    if not is_shapeless and not value.ndim and given.ndim == 1:
        given = given[0]  # PyTorch 0.3 saved numbers as vectors
    if not is_shapeless and given.shape != value.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {_size(given)} from checkpoint, "
            f"the shape in current model is {_size(value)}."
        )
    if value.is_meta and not given.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
            "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
            "corresponding key in the module instead of copying them in place?)",
            stacklevel=5,
        )
    try:
        with no_grad():
            if not assign:
                value.copy_(given)
            elif not isinstance(value, Parameter):
                setattr(module, name, given)
            elif isinstance(given, Parameter):
                setattr(module, name, given.requires_grad_(value.requires_grad))
            else:
                setattr(module, name, Parameter(given, requires_grad=value.requires_grad))
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {_size(value)} and whose '
            f"dimensions in the checkpoint are {_size(given)}, an exception occurred : {error.args}."
        )
    return ""


def _complaints(keys: IncompatibleKeys) -> Iterator[str]:
    for kind, names in (("Missing", keys.missing_keys), ("Unexpected", keys.unexpected_keys)):
        if names:
            yield f"{kind} key(s) in state_dict: {', '.join(map(repr, names))}. ".replace("'", '"')


def _size(tensor: Tensor) -> str:
    return f"torch.Size({list(tensor.shape)})"
