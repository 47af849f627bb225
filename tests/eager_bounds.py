"""Which eager operations run as kernels, for as long as a test needs.

Owns: ``eager_kernels_from``, the only way in which tests set ``config.eager_kernels``; ``forget_kernels``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.compiled import eager_kernels
from jitgrad.config import config
from jitgrad.runtime.eager.plan import plans

__all__ = ["eager_kernels_from", "forget_kernels"]


@contextmanager
def eager_kernels_from(least: int) -> Iterator[None]:
    """Inside the block ``config.eager_kernels`` is ``least``. Plans say how an operation runs: no plan of another
    setting is used inside the block, and none of the block's outside."""
    before, config.eager_kernels = config.eager_kernels, least
    plans.clear()
    try:
        yield
    finally:
        config.eager_kernels = before
        plans.clear()


def forget_kernels() -> None:
    """For tests that count how many are made: plans that wait for a collection still hold what earlier tests made."""
    eager_kernels._known.clear()
