"""An optimizer with other parameters and another state, for a while.

Owns: ``swap_in_optimizer_params_and_state``.
Must not know: any optimizer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.optim.optimizer import Optimizer
from jitgrad.tensor_base import TensorBase

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Any], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Inside the block, the optimizer has these parameters and this state; then it has its own again.

    Args:
        optimizer: has taken a step already.
        swapin_parameters: name -> tensor, in the order of the optimizer's parameters.
        swapin_optim_state: as ``optimizer.state_dict()`` returns it. Its tensors are written in place.

    Raises:
        RuntimeError: the optimizer has no state yet, or what is given does not fit it.
    """
    groups = _groups(optimizer, list(swapin_parameters.values()), swapin_optim_state)
    state, before = swapin_optim_state["state"], [dict(group) for group in optimizer.param_groups]
    own = optimizer.state
    inside: defaultdict[Any, Any] = defaultdict(dict)
    try:
        for live, (given, parameters) in zip(optimizer.param_groups, groups, strict=True):
            live.update(given, params=parameters)
            for parameter, number in zip(parameters, given["params"], strict=True):
                inside[parameter] = dict(state.get(number, {}))
        optimizer.state = inside
        yield
    finally:
        for live, kept in zip(optimizer.param_groups, before, strict=True):
            live.clear()
            live.update(kept)
        optimizer.state = own


def _groups(optimizer: Optimizer, parameters: list[Any], given: Any) -> list[tuple[dict[str, Any], list[Any]]]:
    """Each given group with its parameters, after the checks."""
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    if not isinstance(given, dict):
        raise RuntimeError(f"{_NAME} requires a DCP-style optimizer state_dict.")
    state: Any = given.get("state")
    groups = given.get("param_groups")
    _check_state(state)
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group dicts, got "
            f"{type(groups).__name__}."
        )
    if len(optimizer.param_groups) != len(groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    found, start, numbers = [], 0, set[int]()
    for index, (live, group) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        _check_group(index, live, group)
        numbers.update(group["params"])
        end = start + len(group["params"])
        if end > len(parameters):
            raise RuntimeError(
                f"{_NAME} requires the explicit parameter state to match optimizer.param_groups ordering."
            )
        found.append((group, parameters[start:end]))
        start = end
    extra = [key for key in state if key not in numbers]
    if extra:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter ids from "
            f"param_groups[*]['params']; got extra keys {extra!r}."
        )
    return found


def _check_state(state: Any) -> None:
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter ids to per-param "
            f"state dicts, got {type(state).__name__}."
        )
    if any(isinstance(key, TensorBase) for key in state):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style state keyed by packed parameter ids."
        )
    if any(isinstance(key, int) and not isinstance(value, dict) for key, value in state.items()):
        raise RuntimeError(f"{_NAME} requires per-parameter optimizer state entries to be dictionaries.")


def _check_group(index: int, live: dict[str, Any], group: Any) -> None:
    if not isinstance(group, dict):
        raise RuntimeError(f"{_NAME} requires each optimizer param group to be a dictionary.")
    numbers = group.get("params")
    if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param_groups[*]['params'] entries keyed by packed "
            "parameter ids."
        )
    if len(live["params"]) != len(numbers):
        raise RuntimeError(
            f"swapin_optim_state param group {index} has a different number of params than the live optimizer param "
            "group."
        )
    given, own = [key for key in group if key not in live], [key for key in live if key not in group]
    if given or own:
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match the live optimizer group "
            f"keys for group {index}. Keys only in swap-in: {given}. Keys only in live: {own}."
        )
