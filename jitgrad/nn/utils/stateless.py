"""Modules as functions of their parameters, as ``torch.nn.utils.stateless``.

Owns: ``call_with``, which is also ``torch.func.functional_call``.
Must not know: which layers there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.nn.module import Module

__all__ = ["call_with", "functional_call"]


def _merged(given: Any) -> dict[str, Any]:
    """One dictionary of several; ValueError for a key in two of them."""
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
        )
    if not all(isinstance(d, Mapping) for d in given):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    keys = [k for d in given for k in d]
    repeated = [k for k in dict.fromkeys(keys) if keys.count(k) > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {k: v for d in given for k, v in d.items()}


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Where each parameter and buffer is kept, under every name it has; see Note [Where a module keeps things]."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for registry in (part._parameters, part._buffers):
            for name, value in registry.items():
                if value is not None:
                    found[f"{prefix}.{name}" if prefix else name] = (registry, name)
    return found


def functional_call(
    module: Module,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``torch.func.functional_call`` under its older name; it warns."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return call_with(module, parameters_and_buffers, args, kwargs, tie_weights, strict)


def call_with(
    module: Module, given: Any, args: Any, kwargs: dict[str, Any] | None, tie_weights: bool, strict: bool
) -> Any:
    """What ``torch.func.functional_call`` does; see there."""
    given = _merged(given)
    places = _places(module)
    tied = _tied(places, given) if tie_weights else given
    if strict:
        _check_names(module, places, tied)
    saved = {name: places[name][0][places[name][1]] for name in tied if name in places}
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        for name in saved:
            registry, attribute = places[name]
            registry[attribute] = tied[name]
        return module(*arguments, **(kwargs or {}))
    finally:
        for name, value in saved.items():
            registry, attribute = places[name]
            registry[attribute] = value


def _tied(places: dict[str, tuple[dict[str, Any], str]], given: dict[str, Any]) -> dict[str, Any]:
    """The values under every name of the parameters they are for."""
    groups: dict[int, list[str]] = {}
    for name, (registry, attribute) in places.items():
        groups.setdefault(id(registry[attribute]), []).append(name)
    tied = dict(given)
    for names in groups.values():
        values = [given[n] for n in names if n in given]
        if any(v is not values[0] for v in values[1:]):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(n for n in names if n in given)}, which are "
                "tied. Consider using tie_weights=False"
            )
        if values:
            tied.update(dict.fromkeys(names, values[0]))
    return tied


def _check_names(module: Module, places: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    unexpected, missing = sorted(set(given) - set(places)), sorted(set(places) - set(given))
    if not unexpected and not missing:
        return
    text = f"Error(s) in reparametrizing for {type(module).__name__}:"
    if unexpected:
        text += f"\n\tUnexpected key(s): {', '.join(map(repr, unexpected))}."
    if missing:
        text += f"\n\tMissing key(s): {', '.join(map(repr, missing))}."
    raise RuntimeError(text)
