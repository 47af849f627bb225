"""Checks on the options of an optimizer."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["check_betas", "check_nonnegative"]


def check_nonnegative(options: Mapping[str, float]) -> None:
    """ValueError, in PyTorch's words, for the first option below zero (or NaN)."""
    for name, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {name}: {value}")


def check_betas(betas: tuple[float, float]) -> None:
    """ValueError unless both are in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
