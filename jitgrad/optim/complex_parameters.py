"""Updates of complex parameters: the parts are parameters of their own, as in PyTorch.

Owns: ``in_parts``, ``as_parts``. Imported late.
Must not know: any update rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ops.dispatch_hook import call
from jitgrad.optim.optimizer import Group
from jitgrad.tensor import Tensor

__all__ = ["as_parts", "in_parts"]


def as_parts(x: Any) -> Any:
    """A complex tensor's memory as pairs of real numbers, [*, 2]; anything else as it is."""
    return call("view_as_real", x) if isinstance(x, Tensor) and x.dtype.is_complex else x


def in_parts(
    update: Callable[[Any, Any, dict[str, Any], Group], None], p: Tensor, grad: Any, kept: dict[str, Any], group: Group
) -> None:
    """``update(p, grad, kept, group)`` of the parts; what it puts into ``kept`` is kept as complex numbers."""
    parts = {name: as_parts(value) for name, value in kept.items()}
    before = dict(parts)
    update(as_parts(p), as_parts(grad), parts, group)
    for name, value in parts.items():
        if value is not before.get(name):
            is_pair = isinstance(value, Tensor) and value.shape == (*p.shape, 2)
            kept[name] = call("view_as_complex", value) if is_pair else value
