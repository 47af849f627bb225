"""Functions that compute in float32, or as they always do, where ``amp.autocast`` shortens the operands of others.

Owns: ``float32_in_autocast`` and ``outside_autocast``, decorators of functions that are too rare to ask inline.
Must not know: which functions they stand above. PyTorch's list is that of float32 for the CPU, in its file of autocast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.functions.devices import in_float32
from jitgrad.state import autocasts, state

__all__ = ["float32_in_autocast", "outside_autocast"]


def float32_in_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function take bfloat16 and float16 operands as float32 inside such a block, and compute in it."""

    @functools.wraps(function)
    def cast(*args: Any, **kwargs: Any) -> Any:
        if not autocasts:
            return function(*args, **kwargs)
        named = dict(zip(kwargs, in_float32(*kwargs.values()), strict=True))
        return _outside(function, in_float32(*args), named)

    return cast


def outside_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function compute in the dtype that it is given, also where it is made of products."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _outside(function, args, kwargs) if autocasts else function(*args, **kwargs)

    return call


def _outside(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    before, state.autocast = state.autocast, None
    try:
        return function(*args, **kwargs)
    finally:
        state.autocast = before
