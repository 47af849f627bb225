"""Modules as functions of their parameters.

Owns: ``functional_call``, ``stack_module_state``; as ``torch.func``.
Must not know: which layers there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.nn.module import Module
from jitgrad.ops.dispatch_hook import call

__all__ = ["functional_call", "stack_module_state"]


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
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers, and leave it as it was.

    Args:
        module: to be called.
        parameter_and_buffer_dicts: qualified name -> Tensor; or a sequence of such dictionaries.
        args: the positional arguments: a tuple, or one argument.
        kwargs: the keyword arguments.
        tie_weights: a parameter that has several names is exchanged under all of them.
        strict: every parameter and buffer must be given, and nothing else.

    Raises:
        RuntimeError: with ``strict``, names that are missing or unknown.
        ValueError: one name in two dictionaries; with ``tie_weights``, two values for one parameter.
    """
    given = _merged(parameter_and_buffer_dicts)
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


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of several modules of one class, each stacked: an ensemble, for ``vmap``.

    Raises:
        RuntimeError: no models, models of different classes, or in different modes.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return _stacked([dict(m.named_parameters()) for m in models]), _stacked([dict(m.named_buffers()) for m in models])


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Leaves of their own."""
    found = {}
    for name, first in states[0].items():
        whole = call("stack", [s[name].detach() for s in states], 0)
        found[name] = whole.requires_grad_(first.requires_grad)
    return found
