"""Runs one step eagerly and compiled, call after call on the same arguments, and compares all that can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jitgrad

__all__ = ["agree", "assert_same", "observe"]


def observe(value: Any) -> Any:
    """Tensors as (values, dtype, flags, gradient); exceptions as their type and text; containers element by element."""
    if isinstance(value, jitgrad.Tensor):
        grad = observe(value.grad) if value.is_leaf and value.grad is not None else None
        flags = (value.requires_grad, value.is_leaf, value.shape)
        return np.array(value.detach().numpy()), str(value.dtype), flags, grad
    if isinstance(value, list | tuple):
        return [observe(v) for v in value]
    if isinstance(value, dict):
        return {k: observe(v) for k, v in value.items()}
    if isinstance(value, BaseException):
        # of "modified by an inplace operation: [...], which is output 0 of ..." only the first half: Nodes differ
        return type(value).__name__, str(value).split(": [")[0]
    return value


def assert_same(got: Any, want: Any, rtol: float = 1e-5) -> None:
    """Compare two observations."""
    if isinstance(want, np.ndarray):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
        assert got.dtype == want.dtype
    elif isinstance(want, list | tuple):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w, rtol)
    elif isinstance(want, dict):
        assert got.keys() == want.keys()
        for key in want:
            assert_same(got[key], want[key], rtol)
    elif isinstance(want, float):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
    else:
        assert got == want


def _attempt(step: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return step(*args)
    except Exception as error:
        return error


def agree(
    step: Callable[..., Any],
    make_args: Callable[[], tuple[Any, ...]],
    calls: int = 4,
    change: Callable[[tuple[Any, ...], int], tuple[Any, ...]] | None = None,
) -> Any:
    """Call ``step`` ``calls`` times, eagerly and compiled, each on arguments of its own.

    Args:
        change: ``change(args, nr)`` makes the arguments of call ``nr`` from those of the call before.

    Returns:
        The compiled function.
    """
    compiled = jitgrad.compile(step)
    eager_args, compiled_args = make_args(), make_args()
    for nr in range(calls):
        if change is not None and nr:
            eager_args, compiled_args = change(eager_args, nr), change(compiled_args, nr)
        want = observe([_attempt(step, eager_args), eager_args])
        got = observe([_attempt(compiled, compiled_args), compiled_args])
        assert_same(got, want)
    return compiled
