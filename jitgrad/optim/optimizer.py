"""``Optimizer``: parameter groups, per-parameter state, and what every rule shares.

Owns: groups, state, state dictionaries, ``zero_grad``.
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

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jitgrad.functions.creation import from_array_copy
from jitgrad.functions.devices import moved
from jitgrad.grad_mode import enable_grad, no_grad
from jitgrad.state import state as thread_state
from jitgrad.tensor import Tensor

__all__ = ["Optimizer"]

Group = dict[str, Any]


class Optimizer:
    """Base of the optimizers.

    Args:
        params: tensors, (name, tensor) pairs, or dictionaries with ``"params"`` and that group's own options.
        defaults: options of groups that do not set them.

    Attributes:
        param_groups: dictionaries of ``"params"`` and options; change an option at any time.
        state: per parameter, what the rule keeps.

    Raises:
        TypeError: ``params`` is one tensor, or holds something that is no tensor.
        ValueError: no parameters, one that is not a leaf, or one in two groups.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.state: dict[Tensor, dict[str, Any]] = {}
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
        members = [given] if isinstance(given, Tensor) else [_tensor_of(member) for member in given]
        known = {id(p) for group in self.param_groups for p in group["params"]}
        for member in members:
            if not isinstance(member, Tensor):
                kind = type(member).__name__
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {kind}")
            if not (member.is_leaf or member.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(member) in known:
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append({**self.defaults, **param_group, "params": members})

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
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if not thread_state.grad_enabled:
            self._update()
        else:
            with no_grad():
                self._update()
        return loss

    def _update(self) -> None:
        for group in self.param_groups:
            self._update_group(group)

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
        """State of the parameter's shape. It is memory at once, also in a trace: what the first step records must be
        what every later step records."""
        return moved(from_array_copy(np.full(p.shape, value, p.dtype.np)), p.device)

    # state dictionaries, in PyTorch's form: parameters are numbered through all groups
    def _numbers(self) -> dict[Tensor, int]:
        members = [p for group in self.param_groups for p in group["params"]]
        return {p: i for i, p in enumerate(members)}

    def state_dict(self) -> dict[str, Any]:
        """``{"state": {number: state}, "param_groups": [options with numbered "params"]}``."""
        numbers = self._numbers()
        groups = [{**group, "params": [numbers[p] for p in group["params"]]} for group in self.param_groups]
        return {"state": {numbers[p]: dict(kept) for p, kept in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options and state (tensors go to the parameter's device). ValueError if groups do not fit."""
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        members = [p for group in self.param_groups for p in group["params"]]
        order = [number for group in saved for number in group["params"]]
        by_number = dict(zip(order, members, strict=True))
        self.state = {by_number[n]: _copied(kept, by_number[n]) for n, kept in state_dict["state"].items()}
        self.param_groups = [
            {**theirs, "params": mine["params"]} for theirs, mine in zip(saved, self.param_groups, strict=True)
        ]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            options = sorted(key for key in group if key != "params")
            lines += [f"Parameter Group {i}", *(f"    {key}: {group[key]}" for key in options), ""]
        return "\n".join([*lines[:-1], ")"])


def _tensor_of(member: Any) -> Any:
    """The tensor of a ``(name, tensor)`` pair, or the member itself."""
    return member[1] if isinstance(member, tuple) else member


def _copied(kept: dict[str, Any], p: Tensor) -> dict[str, Any]:
    """A parameter's state, with its tensors where the parameter is."""

    def copied(value: Any) -> Any:
        if isinstance(value, list):
            return [copied(v) for v in value]
        return value.detach().to(p.device, copy=True) if isinstance(value, Tensor) else value

    return {name: copied(value) for name, value in kept.items()}
