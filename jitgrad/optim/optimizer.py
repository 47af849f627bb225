"""``Optimizer``: parameter groups, per-parameter state, and what every rule shares.

Owns: groups, state, state dictionaries, ``zero_grad``, hooks.
Must not know: any update rule, traces.

# Note [Updates in a trace]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# A compiled step runs ``step()`` again on every call, so a parameter's update is ONE event: ``apply_inplace`` of a
# fused operation that returns the new parameter and the new moments. Numbers that change every call (a bias
# correction, a scheduled learning rate) go in as Python floats, which are run-time scalars. Options that usually stay
# (momentum, betas, weight decay) are constants of the kernel until they change for the first time; from then on they
# are run-time scalars too, so that a schedule of them compiles once (``_numbers_and_params``).
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jitgrad.cpython.primitives import has_front
from jitgrad.functions.devices import moved
from jitgrad.functions.from_data import from_array_copy
from jitgrad.grad_mode import enable_grad, no_grad
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import kept as kept_strides
from jitgrad.runtime.engine.graph.node_hooks import HookDict, RemovableHandle
from jitgrad.tensor import Tensor

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

Group = dict[str, Any]
_differentiable = LazyModule("jitgrad.optim.differentiable")


class OptimizerHooks:
    """The hooks of one optimizer, or of all.

    Attributes:
        before_step, after_step: functions of (optimizer, args, kwargs); the former may replace the arguments.
        before_save, after_save: functions of (optimizer), and of (optimizer, state_dict), which may replace it.
        before_load, after_load: functions of (optimizer, state_dict), which may replace it, and of (optimizer).
    """

    __slots__ = ("after_load", "after_save", "after_step", "before_load", "before_save", "before_step")

    def __init__(self) -> None:
        self.before_step, self.after_step = HookDict(), HookDict()
        self.before_save, self.after_save = HookDict(), HookDict()
        self.before_load, self.after_load = HookDict(), HookDict()


_every_optimizer = OptimizerHooks()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every optimizer's step; it may return new (args, kwargs)."""
    return _every_optimizer.before_step.add(hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every optimizer's step."""
    return _every_optimizer.after_step.add(hook)


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's ``step`` with the hooks around it."""

    @functools.wraps(step)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        every, own = _every_optimizer, self._hooks
        if own is None and not every.before_step and not every.after_step:
            return step(self, *args, **kwargs)
        before = [*every.before_step.values(), *(own.before_step.values() if own is not None else ())]
        args = (self, *args)  # hooks see all that the function gets
        after = [*(own.after_step.values() if own is not None else ()), *every.after_step.values()]
        for hook in before:
            replaced = hook(self, args, kwargs)
            if replaced is None:
                continue
            if not (isinstance(replaced, tuple) and len(replaced) == 2):
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
                )
            args, kwargs = replaced
        found = step(*args, **kwargs)
        for hook in after:
            hook(self, args, kwargs)
        return found

    return call


class Optimizer:
    """Base of the optimizers.

    Args:
        params: tensors, (name, tensor) pairs, or dictionaries with ``"params"`` and that group's own options.
        defaults: options of groups that do not set them.

    Attributes:
        param_groups: dictionaries of ``"params"`` and options; change an option at any time.
        state: per parameter, what the rule keeps; a new dictionary for a parameter that is not there.

    Raises:
        TypeError: ``params`` is one tensor, or holds something that is no tensor.
        ValueError: no parameters, one that is not a leaf, or one in two groups; names for some groups only.
    """

    _hooks: OptimizerHooks | None = None
    _opt_called = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _hooked(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._constants: dict[int, tuple[tuple[Any, ...] | None, Any]] = {}
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with their own options."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        members, names = _split_names([given] if isinstance(given, Tensor) else list(given))
        known = {id(p) for group in self.param_groups for p in group["params"]}
        for member in members:
            if not isinstance(member, Tensor):
                kind = type(member).__name__
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {kind}")
            if not (member.is_leaf or member.retains_grad or self.defaults.get("differentiable")):
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(member) in known:
                raise ValueError("some parameters appear in more than one parameter group")
        if len(set(map(id, members))) < len(members):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        if names:
            param_group["param_names"] = names
        if any(("param_names" in param_group) is not ("param_names" in group) for group in self.param_groups):
            how = "with names" if "param_names" in param_group else "without names"
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{how} to the optimizer"
            )
        param_group["params"] = members
        for name, value in self.defaults.items():
            param_group.setdefault(name, value)
        self.param_groups.append(param_group)

    @has_front("drop_grads")
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every gradient, or fill it with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    if p.grad.grad_fn is not None:
                        p.grad.detach_()
                    else:
                        p.grad.requires_grad_(False)
                    p.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: evaluates the model again and returns the loss.

        Returns:
            What ``closure`` returned, or None.
        """
        every = _every_optimizer
        if closure is not None or self._hooks is not None or every.before_step or every.after_step:
            return _hooked_step(self) if closure is None else _hooked_step(self, closure)
        self._opt_called = True
        if self.defaults.get("differentiable"):
            _step(self)
            return None
        with no_grad():
            for group in self.param_groups:
                self._update_group(group)
        return None

    def _update_group(self, group: Group) -> None:
        raise NotImplementedError

    def _numbers_and_params(self, group: Group, given: tuple[Any, ...]) -> tuple[tuple[float, ...], tuple[Any, ...]]:
        """A group's options as an update takes them: no numbers until they change, see Note [Updates in a trace].

        Args:
            group: whose options they are.
            given: the options as the group has them; ``_split_options`` makes numbers and flags of them.
        """
        known = self._constants.get(id(group))
        if known is not None and known[0] == given:
            split: tuple[tuple[float, ...], tuple[Any, ...]] = known[1]
            return split
        options, flags = self._split_options(*given)
        if known is None:
            split = (), (*options, *flags)
            self._constants[id(group)] = given, split
            return split
        self._constants[id(group)] = None, None
        return tuple([float(x) for x in options]), flags

    def _split_options(self, *given: Any) -> tuple[tuple[float, ...], tuple[Any, ...]]:
        """Options that may be run-time scalars, and those that stay constants."""
        raise NotImplementedError

    def _zeros(self, p: Tensor, value: float = 0.0) -> Tensor:
        """State of the parameter's shape and layout. It is memory at once, also in a trace: what the first step records
        must be what every later step records."""
        number = complex(value, value) if p.dtype.is_complex else value  # parts are parameters of their own
        return moved(from_array_copy(np.full(p.shape, number, p.dtype.np), kept_strides(p._aval)), p.device)

    # state dictionaries, in PyTorch's form: parameters are numbered through all groups
    def _numbers(self) -> dict[Tensor, int]:
        members = [p for group in self.param_groups for p in group["params"]]
        return {p: i for i, p in enumerate(members)}

    def state_dict(self) -> dict[str, Any]:
        """``{"state": {number: state}, "param_groups": [options with numbered "params"]}``."""
        hooks = self._hooks
        if hooks is not None:
            for hook in tuple(hooks.before_save.values()):
                hook(self)
        numbers = self._numbers()
        groups = [{**group, "params": [numbers[p] for p in group["params"]]} for group in self.param_groups]
        state = {numbers[k] if isinstance(k, Tensor) else k: dict(kept) for k, kept in self.state.items()}
        found: dict[str, Any] = {"state": state, "param_groups": groups}
        if hooks is not None:
            for hook in tuple(hooks.after_save.values()):
                replaced = hook(self, found)
                found = found if replaced is None else replaced
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options and state (tensors go to the parameter's device). ValueError if groups do not fit."""
        hooks = self._hooks
        state_dict = dict(state_dict)
        if hooks is not None:
            for hook in tuple(hooks.before_load.values()):
                replaced = hook(self, state_dict)
                state_dict = state_dict if replaced is None else replaced
        self._load(copy.deepcopy(state_dict["param_groups"]), state_dict["state"])
        if hooks is not None:
            for hook in tuple(hooks.after_load.values()):
                hook(self)

    def _load(self, saved: list[Group], state: dict[Any, Any]) -> None:
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        members = [p for group in self.param_groups for p in group["params"]]
        order = [number for group in saved for number in group["params"]]
        by_number = dict(zip(order, members, strict=True))
        self.state = defaultdict(dict)
        for number, kept in state.items():
            known = number in by_number
            self.state[by_number[number] if known else number] = _copied(kept, by_number[number]) if known else kept
        for theirs, mine in zip(saved, self.param_groups, strict=True):
            theirs["params"] = mine["params"]
            if "param_names" in mine:
                theirs.setdefault("param_names", mine["param_names"])
        self.param_groups = saved
        self._constants = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_constants", "_hooks")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._constants = {}

    # hooks
    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new (args, kwargs)."""
        return self._own_hooks().before_step.add(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return self._own_hooks().after_step.add(hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before the state is collected."""
        return self._own_hooks().before_save.add(hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` afterwards; what it returns replaces the dictionary."""
        return self._own_hooks().after_save.add(hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; what it returns replaces the dictionary."""
        return self._own_hooks().before_load.add(hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return self._own_hooks().after_load.add(hook, prepend=prepend)

    def _own_hooks(self) -> OptimizerHooks:
        if self._hooks is None:
            self._hooks = OptimizerHooks()
        return self._hooks

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            options = sorted(key for key in group if key != "params")
            lines += [f"Parameter Group {i}", *(f"    {key}: {group[key]}" for key in options), ""]
        return "\n".join([*lines[:-1], ")"])


def _step(self: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
    """``Optimizer.step`` without its hooks."""
    loss = None
    if closure is not None:
        with enable_grad():
            loss = closure()
    if self.defaults.get("differentiable"):
        with enable_grad():
            _differentiable.update(self)
        return loss
    with no_grad():
        for group in self.param_groups:
            self._update_group(group)
    return loss


_hooked_step = _hooked(_step)


def _split_names(members: list[Any]) -> tuple[list[Any], list[str]]:
    """The tensors of ``(name, tensor)`` pairs, and the names, if there are any."""
    names = [member[0] for member in members if isinstance(member, tuple)]
    if names and len(names) < len(members):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [member[1] if isinstance(member, tuple) else member for member in members], names


def _copied(kept: dict[str, Any], p: Tensor) -> dict[str, Any]:
    """A parameter's state, with its tensors where the parameter is."""

    def copied(value: Any) -> Any:
        if isinstance(value, list):
            return [copied(v) for v in value]
        return value.detach().to(p.device, copy=True) if isinstance(value, Tensor) else value

    return {name: copied(value) for name, value in kept.items()}
