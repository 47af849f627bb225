"""Checks on the options of an optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["check_adam_options", "check_betas", "check_nonnegative", "variants"]


def check_nonnegative(options: Mapping[str, Any]) -> None:
    """ValueError, in PyTorch's words, for the first option below zero (or NaN), and for rates of many elements."""
    for name, value in options.items():
        if name == "learning rate" and getattr(value, "shape", None) and value.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not value >= 0.0:
            raise ValueError(f"Invalid {name}: {value}")


def check_betas(betas: tuple[float, float]) -> None:
    """ValueError unless both are in [0, 1)."""
    if not isinstance(betas, list | tuple) or len(betas) != 2:
        raise ValueError(f"betas must be two numbers, but are {betas!r}")
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_adam_options(lr: float, eps: float, betas: tuple[float, float], **others: float) -> None:
    """What Adam and its relatives ask for, in PyTorch's order. ValueError for the first that is wrong."""
    check_nonnegative({"learning rate": lr, "epsilon value": eps})
    check_betas(betas)
    check_nonnegative({f"{name} value": value for name, value in others.items()})


def variants(**flags: Any) -> dict[str, Any]:
    """PyTorch's choices among implementations, as options of a group. There is one implementation: they change nothing.

    Args:
        flags: of foreach, fused, capturable, differentiable, those that the optimizer has.

    Raises:
        RuntimeError: for flags that contradict each other.
    """
    if flags.get("fused"):
        if flags.get("differentiable"):
            raise RuntimeError("`fused` does not support `differentiable`")
        if flags.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    return flags
