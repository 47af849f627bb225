"""``skip_init``: modules without starting values."""

from __future__ import annotations

import inspect
from typing import Any

from jitgrad.nn.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters have memory, and no values yet: none are drawn.

    Args:
        module_cls: its class, which takes ``device``.
        args, kwargs: for the constructor.

    Raises:
        RuntimeError: for what is no class of modules, or takes no device.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
