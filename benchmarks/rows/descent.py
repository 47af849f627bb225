"""Gradient descent, written out: what rows without an optimizer do after the backward.

Owns: ``descend``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["descend"]


def descend(xp: Any, parameters: Iterable[Any], rate: float) -> None:
    """One step down for each parameter that a graph has reached; gradients are taken away."""
    with xp.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=rate)
                parameter.grad = None
