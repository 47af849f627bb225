"""What to use instead of the parts of PyTorch that jitgrad does not have.

Owns: ``advice_on``.
Must not know: scripts.
"""

from __future__ import annotations

from jitgrad.scripts.left_out import group_of

__all__ = ["advice_on"]


def advice_on(name: str) -> str:
    """What to use instead of ``torch.…`` or ``Tensor.…``; empty if nothing is known to be better than nothing."""
    group = group_of(name.removeprefix("torch."))
    return "" if group is None else group.instead
