"""Steps of any length, for tests of what a graph costs the first time."""

from __future__ import annotations

from typing import Any

import jitgrad as jg

__all__ = ["chain", "collected", "differentiated", "read", "trained", "written"]


def chain(x: Any, length: int, factor: float = 0.5) -> Any:
    """Two operations a turn."""
    y = x
    for _ in range(length):
        y = y * factor + x
    return y


def differentiated(x: Any, length: int) -> Any:
    """A chain and its backward."""
    w = x.clone().requires_grad_()
    chain(w, length).sum().backward()
    return w.grad


def trained(x: Any, length: int) -> Any:
    """A backward and an update in each turn."""
    w = x.clone().requires_grad_()
    for _ in range(length):
        (w * x).square().sum().backward()
        with jg.no_grad():
            w.sub_(w.grad, alpha=0.01)
        w.grad = None
    return w.detach()


def written(x: Any, length: int) -> Any:
    """Rows of a tensor written one by one, each from the row before it."""
    y = jg.zeros(length, 4)
    for i in range(1, length):
        y[i] = y[i - 1] + x
    return y


def collected(x: Any, length: int) -> Any:
    """A result in each turn that stays until the end."""
    parts = []
    for _ in range(length):
        x = x * 0.5
        parts.append(x)
    return jg.stack(parts)


def read(x: Any, length: int) -> Any:
    """A value read in each turn, which ends a segment."""
    for _ in range(length):
        x = x * 0.5
        x.sum().item()
    return x
