"""Modules as functions of their parameters.

Owns: ``functional_call`` (done by ``nn.utils.stateless``), ``stack_module_state``, ``replace_all_batch_norm_modules_``;
as ``torch.func``.
Must not know: which layers there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.nn.module import Module
from jitgrad.nn.normalization import BatchNorm
from jitgrad.nn.utils.stateless import call_with
from jitgrad.ops.dispatch_hook import call

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


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
    return call_with(module, parameter_and_buffer_dicts, args, kwargs, tie_weights, strict)


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let every batch norm in ``root`` forget its running statistics, and keep none: ``vmap`` cannot write to them."""
    for module in root.modules():
        if isinstance(module, BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


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
